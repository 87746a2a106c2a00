/*
 * Names for the objects of a program: IBV_EXPLAIN writes them beside an object's number, and uroce-ctl shows
 * them. See ibverbs_rs_name_qp(3).
 *
 * A program that uses this header runs on rdma-core's libibverbs, too: there the functions return ENOSYS.
 */
#ifndef LIBIBVERBS_RS_NAMES_H
#define LIBIBVERBS_RS_NAMES_H

#include <dlfcn.h>
#include <errno.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Longer names are cut to this number of bytes. */
#define IBVERBS_RS_NAME_MAX 63

enum ibverbs_rs_object {
	IBVERBS_RS_CONTEXT = 1,
	IBVERBS_RS_PD,
	IBVERBS_RS_MR,
	IBVERBS_RS_MW,
	IBVERBS_RS_AH,
	IBVERBS_RS_CQ,
	IBVERBS_RS_SRQ,
	IBVERBS_RS_QP
};

/* Names the object, which is of this type. The functions below check the type. */
static inline int ibverbs_rs_name_object(enum ibverbs_rs_object type, const void *object, const char *name)
{
	/* POSIX: dlsym returns a function as a pointer to an object. */
	union {
		void *symbol;
		int (*function)(unsigned int type, const void *object, const char *name);
	} set_name;
	void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	int ret = ENOSYS;

	if (!library)
		return ret;
	set_name.symbol = dlsym(library, "ibverbs_rs_set_name");
	if (set_name.symbol)
		ret = set_name.function((unsigned int)type, object, name);
	dlclose(library);
	return ret;
}

static inline int ibverbs_rs_name_context(struct ibv_context *context, const char *name)
{
	return ibverbs_rs_name_object(IBVERBS_RS_CONTEXT, context, name);
}

static inline int ibverbs_rs_name_pd(struct ibv_pd *pd, const char *name)
{
	return ibverbs_rs_name_object(IBVERBS_RS_PD, pd, name);
}

static inline int ibverbs_rs_name_mr(struct ibv_mr *mr, const char *name)
{
	return ibverbs_rs_name_object(IBVERBS_RS_MR, mr, name);
}

static inline int ibverbs_rs_name_mw(struct ibv_mw *mw, const char *name)
{
	return ibverbs_rs_name_object(IBVERBS_RS_MW, mw, name);
}

static inline int ibverbs_rs_name_ah(struct ibv_ah *ah, const char *name)
{
	return ibverbs_rs_name_object(IBVERBS_RS_AH, ah, name);
}

static inline int ibverbs_rs_name_cq(struct ibv_cq *cq, const char *name)
{
	return ibverbs_rs_name_object(IBVERBS_RS_CQ, cq, name);
}

static inline int ibverbs_rs_name_srq(struct ibv_srq *srq, const char *name)
{
	return ibverbs_rs_name_object(IBVERBS_RS_SRQ, srq, name);
}

static inline int ibverbs_rs_name_qp(struct ibv_qp *qp, const char *name)
{
	return ibverbs_rs_name_object(IBVERBS_RS_QP, qp, name);
}

#ifdef __cplusplus
}
#endif

#endif
