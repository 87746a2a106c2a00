/*
 * libibverbs 1.0 as its programs saw it: the structs that have changed since (`v10_` for `ibv_`), and the
 * functions, linked to IBVERBS_1.0 whatever other versions the library has. Everything else comes from the
 * current header.
 */
#ifndef VERBS10_H
#define VERBS10_H

#include <infiniband/verbs.h>
#include <pthread.h>

struct v10_cq;
struct v10_qp;
struct v10_srq;
struct v10_send_wr;
struct v10_recv_wr;

struct v10_device {
	void *of_the_library[5];
};

struct v10_context {
	struct v10_device *device;
	struct {
		void *not_called_0[7];
		int (*poll_cq)(struct v10_cq *, int, struct ibv_wc *);
		int (*req_notify_cq)(struct v10_cq *, int);
		void *not_called_9[7];
		int (*post_srq_recv)(struct v10_srq *, struct v10_recv_wr *, struct v10_recv_wr **);
		void *not_called_17[4];
		int (*post_send)(struct v10_qp *, struct v10_send_wr *, struct v10_send_wr **);
		int (*post_recv)(struct v10_qp *, struct v10_recv_wr *, struct v10_recv_wr **);
		void *not_called_23[4];
	} ops;
	int cmd_fd;
	int async_fd;
	int num_comp_vectors;
	struct ibv_context *today; /* private */
};

struct v10_pd {
	struct v10_context *context;
	uint32_t handle;
};

struct v10_mr {
	struct v10_context *context;
	struct v10_pd *pd;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};

struct v10_cq {
	struct v10_context *context;
	void *cq_context;
	uint32_t handle;
	int cqe;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
	struct ibv_cq *today;
};

struct v10_srq {
	struct v10_context *context;
	void *srq_context;
	struct v10_pd *pd;
	uint32_t handle;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
	struct ibv_srq *today;
};

struct v10_qp {
	struct v10_context *context;
	void *qp_context;
	struct v10_pd *pd;
	struct v10_cq *send_cq;
	struct v10_cq *recv_cq;
	struct v10_srq *srq;
	uint32_t handle;
	uint32_t qp_num;
	enum ibv_qp_state state;
	enum ibv_qp_type qp_type;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
	struct ibv_qp *today;
};

struct v10_qp_init_attr {
	void *qp_context;
	struct v10_cq *send_cq;
	struct v10_cq *recv_cq;
	struct v10_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
};

struct v10_ah {
	struct v10_context *context;
	struct v10_pd *pd;
	uint32_t handle;
};

struct v10_send_wr {
	struct v10_send_wr *next;
	uint64_t wr_id;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_wr_opcode opcode;
	int send_flags;
	uint32_t imm_data;
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t compare_add;
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct v10_ah *ah;
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		} ud;
	} wr;
};

struct v10_recv_wr {
	struct v10_recv_wr *next;
	uint64_t wr_id;
	struct ibv_sge *sg_list;
	int num_sge;
};

/* `struct ibv_port_attr` had this size. */
#define V10_PORT_ATTR_LEN 48

#define V10(result, name, args) \
	__asm__(".symver v10_" #name ",ibv_" #name "@IBVERBS_1.0"); \
	extern result v10_##name args

V10(struct v10_device **, get_device_list, (int *num_devices));
V10(void, free_device_list, (struct v10_device * *list));
V10(const char *, get_device_name, (struct v10_device * device));
V10(uint64_t, get_device_guid, (struct v10_device * device));
V10(struct v10_context *, open_device, (struct v10_device * device));
V10(int, close_device, (struct v10_context * context));
V10(int, get_async_event, (struct v10_context * context, struct ibv_async_event *event));
V10(void, ack_async_event, (struct ibv_async_event * event));
V10(int, query_device, (struct v10_context * context, struct ibv_device_attr *attr));
V10(int, query_port, (struct v10_context * context, uint8_t port, void *attr));
V10(int, query_gid, (struct v10_context * context, uint8_t port, int index, union ibv_gid *gid));
V10(int, query_pkey, (struct v10_context * context, uint8_t port, int index, uint16_t *pkey));
V10(struct v10_pd *, alloc_pd, (struct v10_context * context));
V10(int, dealloc_pd, (struct v10_pd * pd));
V10(struct v10_mr *, reg_mr, (struct v10_pd * pd, void *addr, size_t length, int access));
V10(int, dereg_mr, (struct v10_mr * mr));
V10(struct v10_cq *, create_cq,
    (struct v10_context * context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
     int comp_vector));
V10(int, resize_cq, (struct v10_cq * cq, int cqe));
V10(int, destroy_cq, (struct v10_cq * cq));
V10(int, get_cq_event, (struct ibv_comp_channel * channel, struct v10_cq **cq, void **cq_context));
V10(void, ack_cq_events, (struct v10_cq * cq, unsigned int nevents));
V10(struct v10_srq *, create_srq, (struct v10_pd * pd, struct ibv_srq_init_attr *attr));
V10(int, modify_srq, (struct v10_srq * srq, struct ibv_srq_attr *attr, int mask));
V10(int, query_srq, (struct v10_srq * srq, struct ibv_srq_attr *attr));
V10(int, destroy_srq, (struct v10_srq * srq));
V10(struct v10_qp *, create_qp, (struct v10_pd * pd, struct v10_qp_init_attr *attr));
V10(int, query_qp,
    (struct v10_qp * qp, struct ibv_qp_attr *attr, int mask, struct v10_qp_init_attr *init_attr));
V10(int, modify_qp, (struct v10_qp * qp, struct ibv_qp_attr *attr, int mask));
V10(int, destroy_qp, (struct v10_qp * qp));
V10(struct v10_ah *, create_ah, (struct v10_pd * pd, struct ibv_ah_attr *attr));
V10(int, destroy_ah, (struct v10_ah * ah));
V10(int, attach_mcast, (struct v10_qp * qp, union ibv_gid *gid, uint16_t lid));
V10(int, detach_mcast, (struct v10_qp * qp, union ibv_gid *gid, uint16_t lid));
/* One symbol for all versions; it takes the context of the current header. */
V10(struct ibv_comp_channel *, create_comp_channel, (void *context));

#endif
