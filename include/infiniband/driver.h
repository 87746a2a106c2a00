/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For authors of providers: what a provider and the library share.
 *
 * A provider is a shared object libNAME-rdmav34.so in the library's provider directory (or anywhere, by its
 * path), with a line "driver NAME" in a file of /etc/libibverbs.d. It registers a struct verbs_device_ops
 * when it is loaded (PROVIDER_DRIVER), and from then on the library calls it: for a device that it
 * recognises, to allocate a struct verbs_device; when a program opens that, to allocate a context, whose
 * operations it sets; and for every verb. Most operations end in an ibv_cmd_*, which makes the kernel's
 * object.
 *
 * This is provider ABI 34, that of rdma-core 34 to 56.
 *
 * Where a comment says nothing else, functions return 0 or an errno value, and pointers NULL with errno set.
 */
#ifndef INFINIBAND_DRIVER_H
#define INFINIBAND_DRIVER_H

#ifdef __cplusplus
#error "driver.h is for C: the commands have the kernel's structs with flexible arrays in their middle"
#endif

/* The number in the names of the file and of the symbols. */
#ifndef IBVERBS_PABI_VERSION
#define IBVERBS_PABI_VERSION 34
#endif

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include <rdma/rdma_user_ioctl_cmds.h>

#include <infiniband/verbs.h>

#include <infiniband/cmd_ioctl.h>
#include <infiniband/kern-abi.h>

/* In a tree like rdma-core's, its helpers come with driver.h. Elsewhere only the lists' place in structs
 * matters. */
#if defined(__has_include)
#if __has_include(<util/compiler.h>)
#include <util/compiler.h>
#endif
#if __has_include(<ccan/list.h>)
#include <ccan/list.h>
#define __IBV_HAVE_LIST
#endif
#endif
#ifndef __IBV_HAVE_LIST
struct list_node {
	struct list_node *next, *prev;
};
#endif

/* The struct of that type around a member of that name. */
#ifndef container_of
#define container_of(member_ptr, containing_type, member) \
	((containing_type *)((char *)(member_ptr)-offsetof(containing_type, member)))
#endif

struct verbs_device;

/*
 * Messages
 */

/* How much of them is wanted: VERBS_LOG_LEVEL. */
enum {
	VERBS_LOG_LEVEL_NONE,
	VERBS_LOG_ERR,
	VERBS_LOG_WARN,
	VERBS_LOG_INFO,
	VERBS_LOG_DEBUG
};

/* Writes to VERBS_LOG_FILE, or stderr, if the level is wanted. As printf. */
void __verbs_log(struct verbs_context *ctx, uint32_t level, const char *fmt, ...);

/* The format and what follows it, or 0, which printf does not look at: so there is no comma to swallow. */
#define __IBV_LOG_FORMAT(format, ...) format
#define __IBV_LOG_REST(format, ...) __VA_ARGS__

/* Writes a message with device, function and line in front. errno stays. verbs_log(ctx, level, format, ...)
 */
#define verbs_log(ctx, level, ...) \
	do { \
		int __errno = errno; \
\
		__verbs_log(ctx, level, "%s: %s:%d: " __IBV_LOG_FORMAT(__VA_ARGS__, 0), \
			    (ctx)->context.device->name, __func__, __LINE__, \
			    __IBV_LOG_REST(__VA_ARGS__, 0)); \
		errno = __errno; \
	} while (0)
#define verbs_debug(ctx, ...) verbs_log(ctx, VERBS_LOG_DEBUG, __VA_ARGS__)
#define verbs_info(ctx, ...) verbs_log(ctx, VERBS_LOG_INFO, __VA_ARGS__)
#define verbs_warn(ctx, ...) verbs_log(ctx, VERBS_LOG_WARN, __VA_ARGS__)
#define verbs_err(ctx, ...) verbs_log(ctx, VERBS_LOG_ERR, __VA_ARGS__)

/* The same where every nanosecond counts: nothing, unless compiled with -DVERBS_DEBUG. */
#ifdef VERBS_DEBUG
#define verbs_log_datapath(ctx, level, ...) verbs_log(ctx, level, __VA_ARGS__)
#else
#define verbs_log_datapath(ctx, level, ...) \
	{ \
	}
#endif
#define verbs_debug_datapath(ctx, ...) verbs_log_datapath(ctx, VERBS_LOG_DEBUG, __VA_ARGS__)
#define verbs_info_datapath(ctx, ...) verbs_log_datapath(ctx, VERBS_LOG_INFO, __VA_ARGS__)
#define verbs_warn_datapath(ctx, ...) verbs_log_datapath(ctx, VERBS_LOG_WARN, __VA_ARGS__)
#define verbs_err_datapath(ctx, ...) verbs_log_datapath(ctx, VERBS_LOG_ERR, __VA_ARGS__)

/*
 * Objects: what a provider allocates where programs see the first member. Zeroed, for the library looks at
 * them.
 */

/* An XRC domain. */
struct verbs_xrcd {
	struct ibv_xrcd xrcd;
	uint32_t comp_mask; /* enum verbs_xrcd_mask */
	uint32_t handle;
};
enum verbs_xrcd_mask {
	VERBS_XRCD_HANDLE = 1 << 0,
	VERBS_XRCD_RESERVED = 1 << 1
};

/* A shared receive queue. */
struct verbs_srq {
	struct ibv_srq srq;
	enum ibv_srq_type srq_type;
	struct verbs_xrcd *xrcd;
	struct ibv_cq *cq;
	uint32_t srq_num;
};

/* A queue pair; an extended one has VERBS_QP_EX set and the functions of qp_ex filled in. */
__extension__ struct verbs_qp {
	__extension__ union {
		struct ibv_qp qp;
		struct ibv_qp_ex qp_ex;
	};
	uint32_t comp_mask; /* enum verbs_qp_mask */
	struct verbs_xrcd *xrcd;
};
enum verbs_qp_mask {
	VERBS_QP_XRCD = 1 << 0,
	VERBS_QP_EX = 1 << 1
};

/* A completion queue, plain or extended. */
__extension__ struct verbs_cq {
	__extension__ union {
		struct ibv_cq cq;
		struct ibv_cq_ex cq_ex;
	};
};

/* Flags of ibv_cmd_create_cq_ex: no time stamps are meant by the flags for them. */
enum create_cq_cmd_flags {
	CREATE_CQ_CMD_FLAGS_TS_IGNORED_EX = 1 << 0
};

/* A memory region; the library sets the type and keeps the access flags. */
enum ibv_mr_type {
	IBV_MR_TYPE_MR,
	IBV_MR_TYPE_NULL_MR,
	IBV_MR_TYPE_IMPORTED_MR,
	IBV_MR_TYPE_DMABUF_MR
};
struct verbs_mr {
	struct ibv_mr ibv_mr;
	enum ibv_mr_type mr_type;
	int access;
};

/* The provider's view of a program's region. */
static inline struct verbs_mr *verbs_get_mr(struct ibv_mr *mr)
{
	return container_of(mr, struct verbs_mr, ibv_mr);
}

/* An action that flows refer to. */
enum ibv_flow_action_type {
	IBV_FLOW_ACTION_UNSPECIFIED,
	IBV_FLOW_ACTION_ESP
};
struct verbs_flow_action {
	struct ibv_flow_action action;
	uint32_t handle;
	enum ibv_flow_action_type type;
};

/* Memory of the device's own. */
struct verbs_dm {
	struct ibv_dm dm;
	uint32_t handle;
};

/* A set of counters. */
struct verbs_counters {
	struct ibv_counters counters;
	uint32_t handle;
};

/*
 * Recognising devices
 */

/* Kinds of entries. The sentinel ends a table. */
enum {
	VERBS_MATCH_SENTINEL = 0,
	VERBS_MATCH_PCI = 1,
	VERBS_MATCH_MODALIAS = 2,
	VERBS_MATCH_DRIVER_ID = 3
};

/* One way to recognise a device. driver_data is the provider's. */
struct verbs_match_ent {
	void *driver_data;
	union {
		const char *modalias; /* a pattern, as of fnmatch */
		uint64_t driver_id;
	} u;
	uint16_t vendor;
	uint16_t device;
	uint8_t kind;
};

/* Entries: by the kernel driver's enum rdma_driver_id, by PCI ids, by modalias, by the start of the name. */
#define VERBS_DRIVER_ID(_id) \
	{ \
		.u = { .driver_id = (_id) }, .kind = VERBS_MATCH_DRIVER_ID \
	}
#define VERBS_PCI_MATCH(_vendor, _device, _data) \
	{ \
		.driver_data = (void *)(_data), .vendor = (_vendor), .device = (_device), \
		.kind = VERBS_MATCH_PCI \
	}
#define VERBS_MODALIAS_MATCH(_mod_str, _data) \
	{ \
		.driver_data = (void *)(_data), .u = { .modalias = (_mod_str) }, \
		.kind = VERBS_MATCH_MODALIAS \
	}
#define VERBS_NAME_MATCH(_name_prefix, _data) VERBS_MODALIAS_MATCH("rdma_device:*N" _name_prefix "*", _data)

/* What has been read of a device so far. */
enum {
	VSYSFS_READ_MODALIAS = 1 << 0,
	VSYSFS_READ_NODE_GUID = 1 << 1
};

/* A device of the kernel's, as the library found it, and frees it when nothing refers to it. */
struct verbs_sysfs_dev {
	struct list_node entry;
	void *provider_data;                 /* the provider's, from match_device to alloc_device */
	const struct verbs_match_ent *match; /* the entry that matched */
	unsigned int flags;                  /* VSYSFS_READ_* */
	char sysfs_name[IBV_SYSFS_NAME_MAX]; /* "uverbs0" */
	dev_t sysfs_cdev;
	char ibdev_name[IBV_SYSFS_NAME_MAX]; /* "rxe0" */
	char ibdev_path[IBV_SYSFS_PATH_MAX];
	char modalias[512];
	uint64_t node_guid; /* in network byte order */
	uint32_t driver_id; /* enum rdma_driver_id; 0 if the kernel does not tell */
	enum ibv_node_type node_type;
	int ibdev_idx; /* the kernel's number of it, or -1 */
	uint32_t num_ports;
	uint32_t abi_ver; /* of the kernel's driver */
	struct timespec time_created;
};

/* A provider's way to its devices. Static, and as long as the provider is loaded. */
struct verbs_device_ops {
	const char *name;
	uint32_t match_min_abi_version; /* of the kernel's driver: others are refused, with a warning */
	uint32_t match_max_abi_version;
	const struct verbs_match_ent *match_table; /* or NULL: match_device decides */
	const struct verbs_device_ops **static_providers;
	/* Whether it is one of its devices. Optional. */
	bool (*match_device)(struct verbs_sysfs_dev *sysfs_dev);
	/* Makes a context on the open character device cmd_fd, which is then the context's. */
	struct verbs_context *(*alloc_context)(struct ibv_device *device, int cmd_fd, void *private_data);
	/* ... on that of another process. Optional. */
	struct verbs_context *(*import_context)(struct ibv_device *device, int cmd_fd);
	/* Allocates the struct around the struct verbs_device. */
	struct verbs_device *(*alloc_device)(struct verbs_sysfs_dev *sysfs_dev);
	/* Frees it. */
	void (*uninit_device)(struct verbs_device *device);
};

/* A device, in a struct of the provider's. All but what is behind it is the library's. */
struct verbs_device {
	struct ibv_device device;
	const struct verbs_device_ops *ops;
	atomic_int refcount;
	struct list_node entry;
	struct verbs_sysfs_dev *sysfs;
	uint64_t core_support; /* enum ib_uverbs_core_support */
};

/* The provider's view of a device. */
static inline struct verbs_device *verbs_get_device(const struct ibv_device *dev)
{
	return container_of(dev, struct verbs_device, device);
}

/*
 * Operations. In alphabetical order, which is the ABI. Each is a verb, or an older verb's newer form; a
 * provider fills in what it has, and the library answers EOPNOTSUPP for the rest.
 */
struct verbs_context_ops {
	int (*advise_mr)(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			 struct ibv_sge *sg_list, uint32_t num_sges);
	struct ibv_dm *(*alloc_dm)(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
	struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);
	struct ibv_mr *(*alloc_null_mr)(struct ibv_pd *pd);
	struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *context,
					      struct ibv_parent_domain_init_attr *attr);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	struct ibv_td *(*alloc_td)(struct ibv_context *context, struct ibv_td_init_attr *init_attr);
	/* an event has been read, and is about to be the program's */
	void (*async_event)(struct ibv_context *context, struct ibv_async_event *event);
	int (*attach_counters_point_flow)(struct ibv_counters *counters, struct ibv_counter_attach_attr *attr,
					  struct ibv_flow *flow);
	int (*attach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
	int (*bind_mw)(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind);
	int (*close_xrcd)(struct ibv_xrcd *xrcd);
	/* a completion event has been read */
	void (*cq_event)(struct ibv_cq *cq);
	struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
	struct ibv_counters *(*create_counters)(struct ibv_context *context,
						struct ibv_counters_init_attr *init_attr);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel,
				    int comp_vector);
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context, struct ibv_cq_init_attr_ex *init_attr);
	struct ibv_flow *(*create_flow)(struct ibv_qp *qp, struct ibv_flow_attr *flow_attr);
	struct ibv_flow_action *(*create_flow_action_esp)(struct ibv_context *context,
							  struct ibv_flow_action_esp_attr *attr);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *qp_init_attr_ex);
	struct ibv_rwq_ind_table *(*create_rwq_ind_table)(struct ibv_context *context,
							  struct ibv_rwq_ind_table_init_attr *init_attr);
	struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr);
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *context,
					 struct ibv_srq_init_attr_ex *srq_init_attr_ex);
	struct ibv_wq *(*create_wq)(struct ibv_context *context, struct ibv_wq_init_attr *wq_init_attr);
	int (*dealloc_mw)(struct ibv_mw *mw);
	int (*dealloc_pd)(struct ibv_pd *pd);
	int (*dealloc_td)(struct ibv_td *td);
	int (*dereg_mr)(struct verbs_mr *vmr);
	int (*destroy_ah)(struct ibv_ah *ah);
	int (*destroy_counters)(struct ibv_counters *counters);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*destroy_flow)(struct ibv_flow *flow);
	int (*destroy_flow_action)(struct ibv_flow_action *action);
	int (*destroy_qp)(struct ibv_qp *qp);
	int (*destroy_rwq_ind_table)(struct ibv_rwq_ind_table *rwq_ind_table);
	int (*destroy_srq)(struct ibv_srq *srq);
	int (*destroy_wq)(struct ibv_wq *wq);
	int (*detach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
	/* ibv_close_device: frees what alloc_context made, after verbs_uninit_context */
	void (*free_context)(struct ibv_context *context);
	int (*free_dm)(struct ibv_dm *dm);
	int (*get_srq_num)(struct ibv_srq *srq, uint32_t *srq_num);
	struct ibv_dm *(*import_dm)(struct ibv_context *context, uint32_t dm_handle);
	struct ibv_mr *(*import_mr)(struct ibv_pd *pd, uint32_t mr_handle);
	struct ibv_pd *(*import_pd)(struct ibv_context *context, uint32_t pd_handle);
	int (*modify_cq)(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
	int (*modify_flow_action_esp)(struct ibv_flow_action *action, struct ibv_flow_action_esp_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
	int (*modify_qp_rate_limit)(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
	int (*modify_srq)(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask);
	int (*modify_wq)(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr);
	struct ibv_qp *(*open_qp)(struct ibv_context *context, struct ibv_qp_open_attr *attr);
	struct ibv_xrcd *(*open_xrcd)(struct ibv_context *context, struct ibv_xrcd_init_attr *xrcd_init_attr);
	int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
	int (*post_srq_ops)(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op);
	int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr,
			     struct ibv_recv_wr **bad_recv_wr);
	int (*query_device_ex)(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			       struct ibv_device_attr_ex *attr, size_t attr_size);
	int (*query_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	int (*query_port)(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *port_attr);
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			struct ibv_qp_init_attr *init_attr);
	int (*query_qp_data_in_order)(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
	int (*query_rt_values)(struct ibv_context *context, struct ibv_values_ex *values);
	int (*query_srq)(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr);
	int (*read_counters)(struct ibv_counters *counters, uint64_t *counters_value, uint32_t ncounters,
			     uint32_t flags);
	struct ibv_mr *(*reg_dm_mr)(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset, size_t length,
				    unsigned int access);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
					int fd, int access);
	/* hca_va: the address that the device shall see */
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	int (*rereg_mr)(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr, size_t length,
			int access);
	int (*resize_cq)(struct ibv_cq *cq, int cqe);
	int (*set_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	void (*unimport_dm)(struct ibv_dm *dm);
	void (*unimport_mr)(struct ibv_mr *mr);
	void (*unimport_pd)(struct ibv_pd *pd);
};

/*
 * Registering, and contexts
 */

/* Registers the way to a provider's devices: the symbol bears the number of the provider ABI. */
#define ___make_verbs_register_driver(x) verbs_register_driver_##x
#define __make_verbs_register_driver(x) ___make_verbs_register_driver(x)
#define verbs_register_driver __make_verbs_register_driver(IBVERBS_PABI_VERSION)
void verbs_register_driver(const struct verbs_device_ops *ops);

/* What very old providers registered instead. */
typedef struct verbs_device *(*verbs_driver_init_func)(const char *uverbs_sys_path, int abi_version);

/* Registers drv_struct when the provider is loaded; for static linking it is verbs_provider_NAME too. */
#define PROVIDER_DRIVER(provider_name, drv_struct) \
	extern const struct verbs_device_ops verbs_provider_##provider_name \
		__attribute__((__alias__(#drv_struct))); \
	static __attribute__((__constructor__)) void provider_name##_register_driver(void) \
	{ \
		verbs_register_driver(&drv_struct); \
	}

/*
 * Allocates, zeroed, the struct that drv_ctx_ptr points to, and makes its member ctx_memb, a struct
 * verbs_context, a context on cmd_fd. Undone by verbs_uninit_context and free.
 */
void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t alloc_size,
				    struct verbs_context *context_offset, uint32_t driver_id);
#define verbs_init_and_alloc_context(ibdev, cmd_fd, drv_ctx_ptr, ctx_memb, driver_id) \
	((__typeof__(drv_ctx_ptr))_verbs_init_and_alloc_context(ibdev, cmd_fd, sizeof(*(drv_ctx_ptr)), \
								&((__typeof__(drv_ctx_ptr))NULL)->ctx_memb, \
								(driver_id)))

/* Takes a context apart, and closes its cmd_fd. The memory stays the provider's. */
void verbs_uninit_context(struct verbs_context *context);

/* Sets those operations that are not NULL in ops; the others stay. */
void verbs_set_ops(struct verbs_context *vctx, const struct verbs_context_ops *ops);

/* Makes a completion queue of one that the provider allocated for a verb of its own. */
void verbs_init_cq(struct ibv_cq *cq, struct ibv_context *context, struct ibv_comp_channel *channel,
		   void *cq_context);

/* Opens a device for the program, with data for alloc_context: for a provider's own way to open devices. */
struct ibv_context *verbs_open_device(struct ibv_device *device, void *private_data);

/*
 * Commands. Each asks the kernel for an object, or about one, and fills in what programs see of it. cmd and
 * resp may have the provider's own part behind the struct named here; the sizes include it. A command buffer
 * has attributes of the provider's to be added, or is NULL.
 */

/* Opens the kernel's context; num_comp_vectors and the device's core_support are known afterwards. */
int ibv_cmd_get_context(struct verbs_context *context, struct ibv_get_context *cmd, size_t cmd_size,
			struct ib_uverbs_get_context_resp *resp, size_t resp_size);

/* Asks about another process's context, for import_context. */
int ibv_cmd_query_context(struct ibv_context *ctx, struct ibv_command_buffer *driver);

/* The device: resp may be NULL, and *resp_size comes back as what the kernel answered. */
int ibv_cmd_query_device_any(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			     struct ibv_device_attr_ex *attr, size_t attr_size,
			     struct ib_uverbs_ex_query_device_resp *resp, size_t *resp_size);

/* A port. */
int ibv_cmd_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *port_attr,
		       struct ibv_query_port *cmd, size_t cmd_size);

/* Protection domains. */
int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, struct ibv_alloc_pd *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size);
int ibv_cmd_dealloc_pd(struct ibv_pd *pd);

/* XRC domains. vxrcd_size: of the provider's struct. */
int ibv_cmd_open_xrcd(struct ibv_context *context, struct verbs_xrcd *xrcd, int vxrcd_size,
		      struct ibv_xrcd_init_attr *attr, struct ibv_open_xrcd *cmd, size_t cmd_size,
		      struct ib_uverbs_open_xrcd_resp *resp, size_t resp_size);
int ibv_cmd_close_xrcd(struct verbs_xrcd *xrcd);

/* Memory regions: of memory, of a dma-buf, of the device's own memory, of another process (by its handle). */
int ibv_cmd_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access,
		   struct verbs_mr *vmr, struct ibv_reg_mr *cmd, size_t cmd_size,
		   struct ib_uverbs_reg_mr_resp *resp, size_t resp_size);
int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			  int access, struct verbs_mr *vmr, struct ibv_command_buffer *driver);
int ibv_cmd_reg_dm_mr(struct ibv_pd *pd, struct verbs_dm *dm, uint64_t offset, size_t length,
		      unsigned int access, struct verbs_mr *vmr, struct ibv_command_buffer *link);
int ibv_cmd_query_mr(struct ibv_pd *pd, struct verbs_mr *vmr, uint32_t mr_handle);

/*
 * The last argument came with rdma-core 54, without another number for the ABI. It may be left out, and
 * should be NULL: the library cannot see who has it, and looks at libmlx5's only.
 */
#define ibv_cmd_reg_dmabuf_mr(...) __IBV_REG_DMABUF_MR(__VA_ARGS__, NULL, NULL)
#define __IBV_REG_DMABUF_MR(pd, offset, length, iova, fd, access, vmr, driver, ...) \
	(ibv_cmd_reg_dmabuf_mr)(pd, offset, length, iova, fd, access, vmr, driver)

/* Changes a region, frees one, and passes advice on. */
int ibv_cmd_rereg_mr(struct verbs_mr *vmr, uint32_t flags, void *addr, size_t length, uint64_t hca_va,
		     int access, struct ibv_pd *pd, struct ibv_rereg_mr *cmd, size_t cmd_sz,
		     struct ib_uverbs_rereg_mr_resp *resp, size_t resp_sz);
int ibv_cmd_dereg_mr(struct verbs_mr *vmr);
int ibv_cmd_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		      struct ibv_sge *sg_list, uint32_t num_sge);

/* Memory windows. */
int ibv_cmd_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type, struct ibv_mw *mw, struct ibv_alloc_mw *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_mw_resp *resp, size_t resp_size);
int ibv_cmd_dealloc_mw(struct ibv_mw *mw);

/* The device's own memory. */
int ibv_cmd_alloc_dm(struct ibv_context *ctx, const struct ibv_alloc_dm_attr *dm_attr, struct verbs_dm *dm,
		     struct ibv_command_buffer *link);
int ibv_cmd_free_dm(struct verbs_dm *dm);

/* Completion queues; cmd_flags are of enum create_cq_cmd_flags. */
int ibv_cmd_create_cq(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel, int comp_vector,
		      struct ibv_cq *cq, struct ibv_create_cq *cmd, size_t cmd_size,
		      struct ib_uverbs_create_cq_resp *resp, size_t resp_size);
int ibv_cmd_create_cq_ex(struct ibv_context *context, const struct ibv_cq_init_attr_ex *cq_attr,
			 struct verbs_cq *cq, struct ibv_create_cq_ex *cmd, size_t cmd_size,
			 struct ib_uverbs_ex_create_cq_resp *resp, size_t resp_size, uint32_t cmd_flags);
int ibv_cmd_create_cq_ex2(struct ibv_context *context, const struct ibv_cq_init_attr_ex *cq_attr,
			  struct verbs_cq *cq, struct ibv_create_cq_ex *cmd, size_t cmd_size,
			  struct ib_uverbs_ex_create_cq_resp *resp, size_t resp_size, uint32_t cmd_flags,
			  struct ibv_command_buffer *driver);
int ibv_cmd_resize_cq(struct ibv_cq *cq, int cqe, struct ibv_resize_cq *cmd, size_t cmd_size,
		      struct ib_uverbs_resize_cq_resp *resp, size_t resp_size);
int ibv_cmd_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr, struct ibv_modify_cq *cmd,
		      size_t cmd_size);
int ibv_cmd_destroy_cq(struct ibv_cq *cq);

/* Polling and arming by the kernel, for devices that are not mapped. */
int ibv_cmd_poll_cq(struct ibv_cq *cq, int ne, struct ibv_wc *wc);
int ibv_cmd_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* Shared receive queues. */
int ibv_cmd_create_srq(struct ibv_pd *pd, struct ibv_srq *srq, struct ibv_srq_init_attr *attr,
		       struct ibv_create_srq *cmd, size_t cmd_size, struct ib_uverbs_create_srq_resp *resp,
		       size_t resp_size);
int ibv_cmd_create_srq_ex(struct ibv_context *context, struct verbs_srq *srq,
			  struct ibv_srq_init_attr_ex *attr_ex, struct ibv_create_xsrq *cmd, size_t cmd_size,
			  struct ib_uverbs_create_srq_resp *resp, size_t resp_size);
int ibv_cmd_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask,
		       struct ibv_modify_srq *cmd, size_t cmd_size);
int ibv_cmd_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, struct ibv_query_srq *cmd,
		      size_t cmd_size);
int ibv_cmd_destroy_srq(struct ibv_srq *srq);

/* Queue pairs. vqp_sz: of the provider's struct. */
int ibv_cmd_create_qp(struct ibv_pd *pd, struct ibv_qp *qp, struct ibv_qp_init_attr *attr,
		      struct ibv_create_qp *cmd, size_t cmd_size, struct ib_uverbs_create_qp_resp *resp,
		      size_t resp_size);
int ibv_cmd_create_qp_ex(struct ibv_context *context, struct verbs_qp *qp,
			 struct ibv_qp_init_attr_ex *attr_ex, struct ibv_create_qp *cmd, size_t cmd_size,
			 struct ib_uverbs_create_qp_resp *resp, size_t resp_size);
int ibv_cmd_create_qp_ex2(struct ibv_context *context, struct verbs_qp *qp,
			  struct ibv_qp_init_attr_ex *qp_attr, struct ibv_create_qp_ex *cmd, size_t cmd_size,
			  struct ib_uverbs_ex_create_qp_resp *resp, size_t resp_size);
int ibv_cmd_open_qp(struct ibv_context *context, struct verbs_qp *qp, int vqp_sz,
		    struct ibv_qp_open_attr *attr, struct ibv_open_qp *cmd, size_t cmd_size,
		    struct ib_uverbs_create_qp_resp *resp, size_t resp_size);
int ibv_cmd_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *qp_attr, int attr_mask,
		     struct ibv_qp_init_attr *qp_init_attr, struct ibv_query_qp *cmd, size_t cmd_size);
int ibv_cmd_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_modify_qp *cmd,
		      size_t cmd_size);
int ibv_cmd_modify_qp_ex(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			 struct ibv_modify_qp_ex *cmd, size_t cmd_size,
			 struct ib_uverbs_ex_modify_qp_resp *resp, size_t resp_size);
int ibv_cmd_destroy_qp(struct ibv_qp *qp);

/* Posting through the kernel, for devices that are not mapped. */
int ibv_cmd_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int ibv_cmd_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int ibv_cmd_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/* Address handles, and multicast groups. */
int ibv_cmd_create_ah(struct ibv_pd *pd, struct ibv_ah *ah, struct ibv_ah_attr *attr,
		      struct ib_uverbs_create_ah_resp *resp, size_t resp_size);
int ibv_cmd_destroy_ah(struct ibv_ah *ah);
int ibv_cmd_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int ibv_cmd_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* Flows, actions on ESP packets, counters. ucmd: the provider's own part alone. */
int ibv_cmd_create_flow(struct ibv_qp *qp, struct ibv_flow *flow_id, struct ibv_flow_attr *flow_attr,
			void *ucmd, size_t ucmd_size);
int ibv_cmd_destroy_flow(struct ibv_flow *flow_id);
int ibv_cmd_create_flow_action_esp(struct ibv_context *ctx, struct ibv_flow_action_esp_attr *attr,
				   struct verbs_flow_action *flow_action, struct ibv_command_buffer *driver);
int ibv_cmd_modify_flow_action_esp(struct verbs_flow_action *flow_action,
				   struct ibv_flow_action_esp_attr *attr, struct ibv_command_buffer *driver);
int ibv_cmd_destroy_flow_action(struct verbs_flow_action *action);
int ibv_cmd_create_counters(struct ibv_context *context, struct ibv_counters_init_attr *init_attr,
			    struct verbs_counters *vcounters, struct ibv_command_buffer *link);
int ibv_cmd_read_counters(struct verbs_counters *vcounters, uint64_t *counters_value, uint32_t ncounters,
			  uint32_t flags, struct ibv_command_buffer *link);
int ibv_cmd_destroy_counters(struct verbs_counters *vcounters);

/* Work queues, and tables of them. */
int ibv_cmd_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *wq_init_attr, struct ibv_wq *wq,
		      struct ibv_create_wq *cmd, size_t cmd_size, struct ib_uverbs_ex_create_wq_resp *resp,
		      size_t resp_size);
int ibv_cmd_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr, struct ibv_modify_wq *cmd,
		      size_t cmd_size);
int ibv_cmd_destroy_wq(struct ibv_wq *wq);
int ibv_cmd_create_rwq_ind_table(struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *init_attr,
				 struct ibv_rwq_ind_table *rwq_ind_table,
				 struct ib_uverbs_ex_create_rwq_ind_table_resp *resp, size_t resp_size);
int ibv_cmd_destroy_rwq_ind_table(struct ibv_rwq_ind_table *rwq_ind_table);

/*
 * Other help
 */

/* Keeps memory that the device reads or writes away from children of fork; and no longer. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

/* Where sysfs is mounted: "/sys", or SYSFS_PATH. */
const char *ibv_get_sysfs_path(void);

/* Reads a file of sysfs without its last newline. Returns the length, or -1 with errno. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* Reads a file below a device's ibdev_path, whose name is made as by printf. Returns the length, or -1 with
 * errno. */
int ibv_read_ibdev_sysfs_file(char *buf, size_t size, struct verbs_sysfs_dev *sysfs_dev, const char *fnfmt,
			      ...) __attribute__((__format__(__printf__, 4, 5)));

/* A GID's type as sysfs tells it: InfiniBand and RoCE v1 are one. Returns 0, or -1 with errno. */
enum ibv_gid_type_sysfs {
	IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
	IBV_GID_TYPE_SYSFS_ROCE_V2
};
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       enum ibv_gid_type_sysfs *type);

/* What to ask about a GID. */
enum verbs_query_gid_attr_mask {
	VERBS_QUERY_GID_ATTR_GID = 1 << 0,
	VERBS_QUERY_GID_ATTR_TYPE = 1 << 1,
	VERBS_QUERY_GID_ATTR_NDEV_IFINDEX = 1 << 2
};

/* Whether a comp_mask has no bits but those. */
static inline bool check_comp_mask(uint64_t input, uint64_t supported)
{
	return !(input & ~supported);
}

/* For alloc_parent_domain: EINVAL and -1 without a domain to stand upon. */
static inline int ibv_check_alloc_parent_domain(struct ibv_parent_domain_init_attr *attr)
{
	if (attr->pd)
		return 0;
	errno = EINVAL;
	return -1;
}

/* For alloc_parent_domain: to the kernel it is the domain that it stands upon. */
static inline void ibv_initialize_parent_domain(struct ibv_pd *parent_domain, struct ibv_pd *contained_pd)
{
	parent_domain->handle = contained_pd->handle;
	parent_domain->context = contained_pd->context;
}

#endif
