/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of infiniband/ofed.h: experimental verbs of memory: regions, windows, device memory.
 */
#ifndef INFINIBAND_OFED_EXP_MR_H
#define INFINIBAND_OFED_EXP_MR_H

#ifdef __cplusplus
extern "C" {
#endif

#define IBV_EXP_IMPLICIT_MR_SIZE (~((size_t)0))

enum {
	IBV_EXP_ACCESS_FLAGS_SHIFT = 0x0F
};

/*
 * Access rights. No successor: the SHARED_MR flags, NO_RDMA, PHYSICAL_ADDR, TUNNELED_ATOMIC. ALLOCATE_MR
 * allocates the memory of the region, which ibv_dereg_mr frees. RELAXED, a hint for on-demand paging, is
 * ignored.
 */
__extension__ enum ibv_exp_access_flags {
	IBV_EXP_ACCESS_LOCAL_WRITE = IBV_ACCESS_LOCAL_WRITE,
	IBV_EXP_ACCESS_REMOTE_WRITE = IBV_ACCESS_REMOTE_WRITE,
	IBV_EXP_ACCESS_REMOTE_READ = IBV_ACCESS_REMOTE_READ,
	IBV_EXP_ACCESS_REMOTE_ATOMIC = IBV_ACCESS_REMOTE_ATOMIC,
	IBV_EXP_ACCESS_MW_BIND = IBV_ACCESS_MW_BIND,
	IBV_EXP_ACCESS_ALLOCATE_MR = (IBV_EXP_START_FLAG << 5),
	IBV_EXP_ACCESS_SHARED_MR_USER_READ = (IBV_EXP_START_FLAG << 6),
	IBV_EXP_ACCESS_SHARED_MR_USER_WRITE = (IBV_EXP_START_FLAG << 7),
	IBV_EXP_ACCESS_SHARED_MR_GROUP_READ = (IBV_EXP_START_FLAG << 8),
	IBV_EXP_ACCESS_SHARED_MR_GROUP_WRITE = (IBV_EXP_START_FLAG << 9),
	IBV_EXP_ACCESS_SHARED_MR_OTHER_READ = (IBV_EXP_START_FLAG << 10),
	IBV_EXP_ACCESS_SHARED_MR_OTHER_WRITE = (IBV_EXP_START_FLAG << 11),
	IBV_EXP_ACCESS_NO_RDMA = (IBV_EXP_START_FLAG << 12),
	IBV_EXP_ACCESS_MW_ZERO_BASED = (IBV_EXP_START_FLAG << 13),
	IBV_EXP_ACCESS_ON_DEMAND = (IBV_EXP_START_FLAG << 14),
	IBV_EXP_ACCESS_RELAXED = (IBV_EXP_START_FLAG << 15),
	IBV_EXP_ACCESS_PHYSICAL_ADDR = (IBV_EXP_START_FLAG << 16),
	IBV_EXP_ACCESS_TUNNELED_ATOMIC = (IBV_EXP_START_FLAG << 17),
	IBV_EXP_ACCESS_RESERVED = (IBV_EXP_START_FLAG << 18)
};

/* Today's access flags in *access. Returns 0, EINVAL for unknown flags, or ENOSYS. */
static inline int ibv_ofed_access(uint64_t exp_access, unsigned int *access)
{
	const uint64_t plain = 0x1f, hints = IBV_EXP_ACCESS_RELAXED;
	const uint64_t zero_based = IBV_EXP_ACCESS_MW_ZERO_BASED, on_demand = IBV_EXP_ACCESS_ON_DEMAND;

	*access = (unsigned int)(exp_access & plain);
	if (exp_access & zero_based)
		*access |= IBV_ACCESS_ZERO_BASED;
	if (exp_access & on_demand)
		*access |= IBV_ACCESS_ON_DEMAND;
	exp_access &= ~(plain | hints | zero_based | on_demand);
	if (!exp_access)
		return 0;
	return exp_access >= IBV_EXP_ACCESS_RESERVED || exp_access < IBV_EXP_ACCESS_ALLOCATE_MR ? EINVAL
												: ENOSYS;
}

enum ibv_exp_dm_memcpy_dir {
	IBV_EXP_DM_CPY_TO_DEVICE,
	IBV_EXP_DM_CPY_TO_HOST
};

enum ibv_exp_dm_attr_comp_mask {
	IBV_EXP_ALLOC_DM_ATTR_RESERVED = (1 << 0)
};

struct ibv_exp_alloc_dm_attr {
	size_t length;
	uint32_t comp_mask; /* must be 0 */
};

enum ibv_exp_dm_comp_mask {
	IBV_EXP_DM_COMP_MASK_RESERVED = (1 << 0)
};

struct ibv_exp_dm {
	struct ibv_context *context;
	uint32_t handle;
	uint32_t comp_mask;
	struct ibv_dm *dm; /* the object in today's verbs */
};

enum ibv_exp_dm_cpy_comp_mask {
	IBV_EXP_DM_CPY_COMP_MASK_RESERVED = (1 << 0)
};

struct ibv_exp_memcpy_dm_attr {
	enum ibv_exp_dm_memcpy_dir memcpy_dir;
	void *host_addr;
	uint64_t dm_offset;
	size_t length;
	uint32_t comp_mask; /* must be 0; not checked, since many programs leave it uninitialised */
};

/* Allocates device memory. Free it with ibv_exp_free_dm. */
static inline struct ibv_exp_dm *ibv_exp_alloc_dm(struct ibv_context *context,
						  struct ibv_exp_alloc_dm_attr *attr)
{
	struct ibv_alloc_dm_attr now;
	struct ibv_exp_dm *dm;

	if (attr->comp_mask)
		return (struct ibv_exp_dm *)ibv_ofed_null(EINVAL);
	dm = (struct ibv_exp_dm *)calloc(1, sizeof(*dm));
	if (!dm)
		return NULL;
	memset(&now, 0, sizeof(now));
	now.length = attr->length;
	dm->context = context;
	dm->dm = ibv_alloc_dm(context, &now);
	if (dm->dm) {
		dm->handle = dm->dm->handle;
		return dm;
	}
	free(dm);
	return NULL;
}

/* Frees device memory. Fails with EBUSY while it is registered. */
static inline int ibv_exp_free_dm(struct ibv_exp_dm *dm)
{
	int error = ibv_free_dm(dm->dm);

	if (!error)
		free(dm);
	return error;
}

/* Copies to or from device memory. */
static inline int ibv_exp_memcpy_dm(struct ibv_exp_dm *dm, struct ibv_exp_memcpy_dm_attr *attr)
{
	if (attr->memcpy_dir == IBV_EXP_DM_CPY_TO_DEVICE)
		return ibv_memcpy_to_dm(dm->dm, attr->dm_offset, attr->host_addr, attr->length);
	return ibv_memcpy_from_dm(attr->host_addr, dm->dm, attr->dm_offset, attr->length);
}

enum ibv_exp_reg_mr_in_comp_mask {
	IBV_EXP_REG_MR_CREATE_FLAGS = (1 << 0),
	IBV_EXP_REG_MR_DM = (1 << 1),
	IBV_EXP_REG_MR_RESERVED = (1 << 2)
};

enum ibv_exp_reg_mr_create_flags {
	IBV_EXP_REG_MR_CREATE_CONTIG = (1 << 0)
};

struct ibv_exp_reg_mr_in {
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint64_t exp_access;   /* enum ibv_exp_access_flags */
	uint32_t comp_mask;    /* enum ibv_exp_reg_mr_in_comp_mask */
	uint32_t create_flags; /* enum ibv_exp_reg_mr_create_flags */
	struct ibv_exp_dm *dm;
};

/* <sys/mman.h> hides it in the strict standards of C. */
#ifdef MAP_ANONYMOUS
#define IBV_OFED_MAP_ANONYMOUS MAP_ANONYMOUS
#else
#define IBV_OFED_MAP_ANONYMOUS 0x20
#endif

/*
 * Registers memory that it allocates: at addr, where nothing may be mapped, or anywhere. The pages need not
 * be contiguous in physical memory.
 */
static inline struct ibv_mr *ibv_ofed_reg_allocated_mr(struct ibv_pd *pd, void *addr, size_t length,
						       unsigned int access)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (length + page - 1) / page * page;
	void *memory = mmap(addr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | IBV_OFED_MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = NULL;
	int error;

	if (memory == MAP_FAILED)
		return NULL;
	if (addr && memory != addr)
		error = EEXIST;
	else if ((mr = ibv_reg_mr(pd, memory, length, access)) == NULL)
		error = errno;
	else
		error = ibv_ofed_add(IBV_OFED_ALLOCATED_MR, mr, memory, size);
	if (!error)
		return mr;
	if (mr)
		ibv_dereg_mr(mr);
	munmap(memory, size);
	return (struct ibv_mr *)ibv_ofed_null(error);
}

/*
 * Registers memory. With IBV_EXP_REG_MR_DM, device memory: addr is the offset in it, and addresses in the
 * region start at 0. Deregister it with ibv_dereg_mr.
 */
static inline struct ibv_mr *ibv_exp_reg_mr(struct ibv_exp_reg_mr_in *in)
{
	uint32_t flags = in->comp_mask & IBV_EXP_REG_MR_CREATE_FLAGS ? in->create_flags : 0;
	int allocate = !!(flags & IBV_EXP_REG_MR_CREATE_CONTIG);
	uint64_t exp_access = in->exp_access;
	unsigned int access;
	int error;

	if (exp_access & IBV_EXP_ACCESS_ALLOCATE_MR) {
		if (allocate || in->addr)
			return (struct ibv_mr *)ibv_ofed_null(EINVAL);
		exp_access &= ~(uint64_t)IBV_EXP_ACCESS_ALLOCATE_MR;
		allocate = 1;
	}
	error = ibv_ofed_access(exp_access, &access);
	if (in->comp_mask >= IBV_EXP_REG_MR_RESERVED || flags > IBV_EXP_REG_MR_CREATE_CONTIG)
		error = EINVAL;
	if (error)
		return (struct ibv_mr *)ibv_ofed_null(error);
	if (in->comp_mask & IBV_EXP_REG_MR_DM)
		return ibv_reg_dm_mr(in->pd, in->dm->dm, (uintptr_t)in->addr, in->length,
				     access | IBV_ACCESS_ZERO_BASED);
	if (allocate)
		return ibv_ofed_reg_allocated_mr(in->pd, in->addr, in->length, access);
	return ibv_reg_mr(in->pd, in->addr, in->length, access);
}

/* As ibv_dereg_mr; also frees the memory that ibv_exp_reg_mr has allocated. */
static inline int ibv_ofed_dereg_mr(struct ibv_mr *mr)
{
	struct ibv_ofed_object entry;
	int allocated = ibv_ofed_find(IBV_OFED_ALLOCATED_MR, mr, &entry, 1);
	int error = ibv_dereg_mr(mr);

	if (allocated && error)
		ibv_ofed_add(IBV_OFED_ALLOCATED_MR, mr, entry.extra, entry.length);
	else if (allocated)
		munmap(entry.extra, entry.length);
	return error;
}
#define ibv_dereg_mr ibv_ofed_dereg_mr

#define IBV_REREG_MR_KEEP_VALID (1 << 3) /* ibv_rereg_mr refuses it */

enum ibv_exp_rereg_mr_flags {
	IBV_EXP_REREG_MR_CHANGE_TRANSLATION = IBV_REREG_MR_CHANGE_TRANSLATION,
	IBV_EXP_REREG_MR_CHANGE_PD = IBV_REREG_MR_CHANGE_PD,
	IBV_EXP_REREG_MR_CHANGE_ACCESS = IBV_REREG_MR_CHANGE_ACCESS,
	IBV_EXP_REREG_MR_KEEP_VALID = 1 << 3,
	IBV_EXP_REREG_MR_FLAGS_SUPPORTED = ((IBV_EXP_REREG_MR_KEEP_VALID << 1) - 1)
};

enum ibv_exp_rereg_mr_attr_mask {
	IBV_EXP_REREG_MR_ATTR_RESERVED = (1 << 0)
};

struct ibv_exp_rereg_mr_attr {
	uint32_t comp_mask; /* must be 0 */
};

/*
 * Changes a memory region. No successor: IBV_EXP_REREG_MR_KEEP_VALID, IBV_EXP_ACCESS_ALLOCATE_MR. Returns a
 * positive errno value on failure; the region can then only be deregistered.
 */
static inline int ibv_exp_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
				   uint64_t access, struct ibv_exp_rereg_mr_attr *attr)
{
	unsigned int now;
	int error = ibv_ofed_access(access, &now);

	if (flags & ~IBV_EXP_REREG_MR_FLAGS_SUPPORTED || (attr && attr->comp_mask))
		return EINVAL;
	if (flags & IBV_EXP_REREG_MR_KEEP_VALID)
		return ENOSYS;
	if (error)
		return error;
	return ibv_rereg_mr(mr, flags, pd, addr, length, (int)now) ? errno : 0;
}

enum ibv_exp_prefetch_attr_comp_mask {
	IBV_EXP_PREFETCH_MR_RESERVED = (1 << 0)
};

enum ibv_exp_prefetch_attr_flags {
	IBV_EXP_PREFETCH_WRITE_ACCESS = (1 << 0)
};

struct ibv_exp_prefetch_attr {
	uint32_t flags; /* enum ibv_exp_prefetch_attr_flags */
	void *addr;
	size_t length;
	uint32_t comp_mask; /* must be 0 */
};

/* Prefetches a part of a region that is registered for on-demand paging, and returns when that is done. */
static inline int ibv_exp_prefetch_mr(struct ibv_mr *mr, struct ibv_exp_prefetch_attr *attr)
{
	enum ibv_advise_mr_advice advice = attr->flags & IBV_EXP_PREFETCH_WRITE_ACCESS
						   ? IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
						   : IBV_ADVISE_MR_ADVICE_PREFETCH;
	uint64_t start = (uintptr_t)attr->addr, done, step;
	int error = attr->comp_mask ? EINVAL : 0;
	struct ibv_sge sge;

	/* an SGE holds less than 4 GiB */
	for (done = 0; !error && done < attr->length; done += step) {
		step = attr->length - done < 0x80000000U ? attr->length - done : 0x80000000U;
		sge.addr = start + done;
		sge.length = (uint32_t)step;
		sge.lkey = mr->lkey;
		error = ibv_advise_mr(mr->pd, advice, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
	}
	return error;
}

struct ibv_exp_mw_bind_info {
	struct ibv_mr *mr;
	uint64_t addr;
	uint64_t length;
	uint64_t exp_mw_access_flags; /* enum ibv_exp_access_flags */
};

enum ibv_exp_bind_mw_comp_mask {
	IBV_EXP_BIND_MW_RESERVED = (1 << 0)
};

struct ibv_exp_mw_bind {
	struct ibv_qp *qp;
	struct ibv_mw *mw;
	uint64_t wr_id;
	uint64_t exp_send_flags; /* enum ibv_exp_send_flags */
	struct ibv_exp_mw_bind_info bind_info;
	uint32_t comp_mask; /* must be 0 */
};

static inline int ibv_ofed_bind_info(struct ibv_mw_bind_info *now, const struct ibv_exp_mw_bind_info *info)
{
	now->mr = info->mr;
	now->addr = info->addr;
	now->length = info->length;
	return ibv_ofed_access(info->exp_mw_access_flags, &now->mw_access_flags);
}

/* Posts a bind of a type 1 window. */
static inline int ibv_exp_bind_mw(struct ibv_exp_mw_bind *mw_bind)
{
	struct ibv_mw_bind now;
	int error;

	if (mw_bind->comp_mask)
		return EINVAL;
	memset(&now, 0, sizeof(now));
	now.wr_id = mw_bind->wr_id;
	now.send_flags = (unsigned int)(mw_bind->exp_send_flags & 0xf);
	if (mw_bind->exp_send_flags & ~(uint64_t)0xf)
		return ENOSYS;
	error = ibv_ofed_bind_info(&now.bind_info, &mw_bind->bind_info);
	return error ? error : ibv_bind_mw(mw_bind->qp, mw_bind->mw, &now);
}

#ifdef __cplusplus
}
#endif

#endif
