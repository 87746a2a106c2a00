/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For authors of providers: the interface between a provider and the library.
 *
 * A provider is a shared object libNAME-rdmavN.so in the library's provider directory (or elsewhere, named
 * by its path), where N is the provider ABI, with a line "driver NAME" in a file of /etc/libibverbs.d. When
 * it is loaded it registers a struct verbs_device_ops (PROVIDER_DRIVER). The library then calls it:
 *  - for each device that it matches, to allocate a struct verbs_device;
 *  - when a program opens such a device, to allocate a context, whose operations it sets (verbs_set_ops);
 *  - for each verb on that context.
 *
 * Most operations end in an ibv_cmd_* function, which creates the object in the kernel.
 *
 * Define IBVERBS_PABI_VERSION as the provider ABI that the provider is to have; the default is 34:
 *
 *  IBVERBS_PABI_VERSION  rdma-core
 *  34                    36 to 56
 *  57                    57 and 58
 *  59                    59 to 61; with IBVERBS_PABI_RELEASE 62 or 63: 62 and 63, which have another layout
 *  64                    64
 *  65                    65
 *
 * The library serves all of them, in one process too. It recognises a provider's ABI by the symbol versions
 * that it imports, which this header selects (at its end).
 *
 * Unless a comment says otherwise, functions that return an int return 0 or a positive errno value; functions
 * that return a pointer return NULL on failure and set errno.
 */
#ifndef INFINIBAND_DRIVER_H
#define INFINIBAND_DRIVER_H

#ifdef __cplusplus
#error "driver.h is for C: the commands have the kernel's structs with flexible arrays in their middle"
#endif

/* Provider ABI version, which is part of file names and symbol names. */
#ifndef IBVERBS_PABI_VERSION
#define IBVERBS_PABI_VERSION 34
#endif
/* The release of rdma-core whose layout the provider has. It matters for ABI 59 only, which has two. */
#ifndef IBVERBS_PABI_RELEASE
#define IBVERBS_PABI_RELEASE IBVERBS_PABI_VERSION
#endif

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include <rdma/rdma_user_ioctl_cmds.h>

#include <infiniband/verbs.h>

#include <infiniband/cmd_ioctl.h>
#include <infiniband/kern-abi.h>

/*
 * In a source tree like rdma-core's, driver.h also includes the tree's utilities. Elsewhere, struct list_node
 * only needs the right size.
 */
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

/* The struct of containing_type whose member is at member_ptr. */
#ifndef container_of
#define container_of(member_ptr, containing_type, member) \
	((containing_type *)((char *)(member_ptr)-offsetof(containing_type, member)))
#endif

struct verbs_device;

#if IBVERBS_PABI_VERSION >= 64
/* A buffer of alloc_buf: memory of the process, or the mapping of a dma-buf. */
struct ibv_buf {
	void *addr;
	size_t size;
	struct ibv_pd *pd;
	int dmabuf_fd; /* -1: not a dma-buf */
};

/* Initialize a buffer of memory, and one of a dma-buf. */
static inline void ibv_buf_init(struct ibv_buf *buf, struct ibv_pd *pd, void *addr, size_t size)
{
	buf->addr = addr;
	buf->size = size;
	buf->pd = pd;
	buf->dmabuf_fd = -1;
}
static inline void ibv_buf_init_dmabuf(struct ibv_buf *buf, struct ibv_pd *pd, void *addr, size_t size,
				       int fd)
{
	ibv_buf_init(buf, pd, addr, size);
	buf->dmabuf_fd = fd;
}
#endif

/* Log messages */

/* Log levels, as selected by VERBS_LOG_LEVEL. */
enum {
	VERBS_LOG_LEVEL_NONE,
	VERBS_LOG_ERR,
	VERBS_LOG_WARN,
	VERBS_LOG_INFO,
	VERBS_LOG_DEBUG
};

/*
 * Writes a message to the file VERBS_LOG_FILE, if its level is enabled (VERBS_LOG_LEVEL). Without the
 * variable there is no log. Arguments as for printf.
 */
void __verbs_log(struct verbs_context *ctx, uint32_t level, const char *fmt, ...);

/* The format; and the arguments after it, or 0, which printf ignores, so that the list is never empty. */
#define __IBV_LOG_FORMAT(format, ...) format
#define __IBV_LOG_REST(format, ...) __VA_ARGS__

/*
 * verbs_log(ctx, level, format, ...) writes a message after device name, function and line. Preserves errno.
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

/* The same for the data path: compiled in only with -DVERBS_DEBUG. */
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
 * Objects. The provider allocates each with its struct as first member, filled with zeros: the library reads
 * the members that the provider does not set.
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
#if !defined(INFINIBAND_OFED_H) || IBV_OFED_AFTER_VERBS /* else struct ibv_srq has them */
	enum ibv_srq_type srq_type;
	struct verbs_xrcd *xrcd;
	struct ibv_cq *cq;
	uint32_t srq_num;
#endif
};

/* A queue pair. An extended one has VERBS_QP_EX set in comp_mask and the functions of qp_ex filled in. */
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

/*
 * Flags of ibv_cmd_create_cq_ex: the CQ may be created without the timestamps that wc_flags request, if the
 * kernel cannot provide them; and which memory of the provider prov_attr describes.
 */
enum create_cq_cmd_flags {
	CREATE_CQ_CMD_FLAGS_TS_IGNORED_EX = 1 << 0,
#if IBVERBS_PABI_VERSION >= 59
	CREATE_CQ_CMD_FLAGS_WITH_MEM_VA = 1 << 1,
	CREATE_CQ_CMD_FLAGS_WITH_MEM_DMABUF = 1 << 2,
#endif
};

#if IBVERBS_PABI_VERSION >= 59
/* Memory that the provider allocated for a CQ: by address, or a part of a dma-buf. */
__extension__ struct verbs_create_cq_prov_attr {
	__extension__ struct {
		uint64_t length;
		__extension__ union {
			uint8_t *ptr;
			struct {
				uint64_t offset;
				int fd;
			} dmabuf;
		};
	} buffer;
};
#endif

/* A memory region. The library sets mr_type and access. */
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

/* The struct verbs_mr of a memory region. */
static inline struct verbs_mr *verbs_get_mr(struct ibv_mr *mr)
{
	return container_of(mr, struct verbs_mr, ibv_mr);
}

/* A flow action. */
enum ibv_flow_action_type {
	IBV_FLOW_ACTION_UNSPECIFIED,
	IBV_FLOW_ACTION_ESP
};
struct verbs_flow_action {
	struct ibv_flow_action action;
	uint32_t handle;
	enum ibv_flow_action_type type;
};

/* Device memory. */
struct verbs_dm {
	struct ibv_dm dm;
	uint32_t handle;
};

#if IBVERBS_PABI_VERSION >= 59
/* A DMA handle. */
struct verbs_dmah {
	struct ibv_dmah dmah;
	uint32_t handle;
};

/* The struct verbs_dmah of a DMA handle. */
static inline struct verbs_dmah *verbs_get_dmah(struct ibv_dmah *dmah)
{
	return container_of(dmah, struct verbs_dmah, dmah);
}
#endif

/* A set of flow counters. */
struct verbs_counters {
	struct ibv_counters counters;
	uint32_t handle;
};

/* Matching devices */

/* Kinds of match entries. VERBS_MATCH_SENTINEL ends a table. */
enum {
	VERBS_MATCH_SENTINEL = 0,
	VERBS_MATCH_PCI = 1,
	VERBS_MATCH_MODALIAS = 2,
	VERBS_MATCH_DRIVER_ID = 3
};

/* A match entry. driver_data is for the provider. */
struct verbs_match_ent {
	void *driver_data;
	union {
		const char *modalias; /* pattern, as for fnmatch */
		uint64_t driver_id;
	} u;
	uint16_t vendor;
	uint16_t device;
	uint8_t kind;
};

/*
 * Initializers: match by enum rdma_driver_id of the kernel driver, PCI IDs, modalias, or start of the device
 * name.
 */
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

/* Attributes of the device that have been read. */
enum {
	VSYSFS_READ_MODALIAS = 1 << 0,
	VSYSFS_READ_NODE_GUID = 1 << 1
};

/* A device that the library found in the kernel. The library frees it when its last user is gone. */
struct verbs_sysfs_dev {
	struct list_node entry;
	void *provider_data;                 /* for the provider, between match_device and alloc_device */
	const struct verbs_match_ent *match; /* entry of match_table that matched */
	unsigned int flags;                  /* VSYSFS_READ_* */
	char sysfs_name[IBV_SYSFS_NAME_MAX]; /* "uverbs0" */
	dev_t sysfs_cdev;
	char ibdev_name[IBV_SYSFS_NAME_MAX]; /* "rxe0" */
	char ibdev_path[IBV_SYSFS_PATH_MAX];
	char modalias[512];
	uint64_t node_guid; /* network byte order */
	uint32_t driver_id; /* enum rdma_driver_id; 0 if the kernel does not report it */
	enum ibv_node_type node_type;
	int ibdev_idx; /* index in the kernel; -1 if unknown */
	uint32_t num_ports;
	uint32_t abi_ver; /* uverbs ABI version of the kernel driver */
	struct timespec time_created;
};

/* The functions that a provider registers. It must remain valid while the provider is loaded. */
struct verbs_device_ops {
	const char *name;
	uint32_t match_min_abi_version; /* ABI versions of the kernel driver that the provider supports;
					   devices with others are skipped, with a warning */
	uint32_t match_max_abi_version;
	const struct verbs_match_ent *match_table; /* NULL: match_device decides alone */
	const struct verbs_device_ops **static_providers;
	/* Optional: whether the provider handles this device. */
	bool (*match_device)(struct verbs_sysfs_dev *sysfs_dev);
	/* Creates a context on the open character device cmd_fd, which the context then owns. */
	struct verbs_context *(*alloc_context)(struct ibv_device *device, int cmd_fd, void *private_data);
	/* Optional: the same for a cmd_fd that another process opened (ibv_import_device). */
	struct verbs_context *(*import_context)(struct ibv_device *device, int cmd_fd);
	/* Allocates the provider's struct, which contains a struct verbs_device. */
	struct verbs_device *(*alloc_device)(struct verbs_sysfs_dev *sysfs_dev);
	/* Frees that struct. */
	void (*uninit_device)(struct verbs_device *device);
};

/* A device, contained in the provider's own struct. The members are for the library. */
struct verbs_device {
	struct ibv_device device;
	const struct verbs_device_ops *ops;
	atomic_int refcount;
	struct list_node entry;
	struct verbs_sysfs_dev *sysfs;
	uint64_t core_support; /* enum ib_uverbs_core_support */
};

/* The struct verbs_device of a device. */
static inline struct verbs_device *verbs_get_device(const struct ibv_device *dev)
{
	return container_of(dev, struct verbs_device, device);
}

/*
 * Operations of a context, in alphabetical order; the order is part of the ABI. Most implement the verb of
 * the same name. For operations that the provider does not set, the library returns EOPNOTSUPP.
 */
struct verbs_context_ops {
	int (*advise_mr)(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			 struct ibv_sge *sg_list, uint32_t num_sges);
#if IBVERBS_PABI_VERSION >= 64
	void *(*alloc_buf)(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
#endif
	struct ibv_dm *(*alloc_dm)(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
#if IBVERBS_PABI_VERSION >= 59
	struct ibv_dmah *(*alloc_dmah)(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
#endif
	struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);
	struct ibv_mr *(*alloc_null_mr)(struct ibv_pd *pd);
	struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *context,
					      struct ibv_parent_domain_init_attr *attr);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	struct ibv_td *(*alloc_td)(struct ibv_context *context, struct ibv_td_init_attr *init_attr);
	/* called with each asynchronous event before the program receives it */
	void (*async_event)(struct ibv_context *context, struct ibv_async_event *event);
	int (*attach_counters_point_flow)(struct ibv_counters *counters, struct ibv_counter_attach_attr *attr,
					  struct ibv_flow *flow);
	int (*attach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
	int (*bind_mw)(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind);
	int (*close_xrcd)(struct ibv_xrcd *xrcd);
	/* called when a completion event has been read */
	void (*cq_event)(struct ibv_cq *cq);
	struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
#if IBVERBS_PABI_VERSION >= 65
	struct ibv_comp_cntr *(*create_comp_cntr)(struct ibv_context *context,
						  struct ibv_comp_cntr_init_attr *attr);
#endif
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
#if IBVERBS_PABI_VERSION >= 59
	int (*dealloc_dmah)(struct ibv_dmah *dmah);
#endif
	int (*dealloc_mw)(struct ibv_mw *mw);
	int (*dealloc_pd)(struct ibv_pd *pd);
	int (*dealloc_td)(struct ibv_td *td);
	int (*dereg_mr)(struct verbs_mr *vmr);
	int (*destroy_ah)(struct ibv_ah *ah);
#if IBVERBS_PABI_VERSION >= 65
	int (*destroy_comp_cntr)(struct ibv_comp_cntr *comp_cntr);
#endif
	int (*destroy_counters)(struct ibv_counters *counters);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*destroy_flow)(struct ibv_flow *flow);
	int (*destroy_flow_action)(struct ibv_flow_action *action);
	int (*destroy_qp)(struct ibv_qp *qp);
	int (*destroy_rwq_ind_table)(struct ibv_rwq_ind_table *rwq_ind_table);
	int (*destroy_srq)(struct ibv_srq *srq);
	int (*destroy_wq)(struct ibv_wq *wq);
	int (*detach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
#if IBVERBS_PABI_VERSION >= 64 || IBVERBS_PABI_RELEASE >= 62
	int (*dm_export_dmabuf_fd)(struct ibv_dm *dm);
#endif
#if IBVERBS_PABI_VERSION >= 64
	void (*free_buf)(struct ibv_buf *buf);
#endif
	/* called by ibv_close_device: calls verbs_uninit_context and frees what alloc_context allocated */
	void (*free_context)(struct ibv_context *context);
	int (*free_dm)(struct ibv_dm *dm);
	int (*get_srq_num)(struct ibv_srq *srq, uint32_t *srq_num);
	struct ibv_dm *(*import_dm)(struct ibv_context *context, uint32_t dm_handle);
	struct ibv_mr *(*import_mr)(struct ibv_pd *pd, uint32_t mr_handle);
	struct ibv_pd *(*import_pd)(struct ibv_context *context, uint32_t pd_handle);
#if IBVERBS_PABI_VERSION >= 65
	int (*inc_comp_cntr)(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
	int (*inc_err_comp_cntr)(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
#endif
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
#if IBVERBS_PABI_VERSION >= 65
	int (*qp_attach_comp_cntr)(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
				   struct ibv_qp_attach_comp_cntr_attr *attr);
	int (*query_comp_cntr_caps)(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
				    size_t caps_size);
#endif
	int (*query_device_ex)(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			       struct ibv_device_attr_ex *attr, size_t attr_size);
	int (*query_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	int (*query_port)(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *port_attr);
#if IBVERBS_PABI_VERSION >= 64 || IBVERBS_PABI_RELEASE >= 62
	int (*query_port_speed)(struct ibv_context *context, uint32_t port_num, uint64_t *speed);
#endif
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			struct ibv_qp_init_attr *init_attr);
	int (*query_qp_data_in_order)(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
	int (*query_rt_values)(struct ibv_context *context, struct ibv_values_ex *values);
	int (*query_srq)(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr);
#if IBVERBS_PABI_VERSION >= 65
	int (*read_comp_cntr)(struct ibv_comp_cntr *comp_cntr, uint64_t *value);
#endif
	int (*read_counters)(struct ibv_counters *counters, uint64_t *counters_value, uint32_t ncounters,
			     uint32_t flags);
#if IBVERBS_PABI_VERSION >= 65
	int (*read_err_comp_cntr)(struct ibv_comp_cntr *comp_cntr, uint64_t *value);
#endif
	struct ibv_mr *(*reg_dm_mr)(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset, size_t length,
				    unsigned int access);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
					int fd, int access);
	/* hca_va: start address for lkey and rkey accesses */
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access);
#if IBVERBS_PABI_VERSION >= 59
	struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);
#endif
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	int (*rereg_mr)(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr, size_t length,
			int access);
	int (*resize_cq)(struct ibv_cq *cq, int cqe);
#if IBVERBS_PABI_VERSION >= 65
	int (*set_comp_cntr)(struct ibv_comp_cntr *comp_cntr, uint64_t value);
#endif
	int (*set_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
#if IBVERBS_PABI_VERSION >= 65
	int (*set_err_comp_cntr)(struct ibv_comp_cntr *comp_cntr, uint64_t value);
#endif
	void (*unimport_dm)(struct ibv_dm *dm);
	void (*unimport_mr)(struct ibv_mr *mr);
	void (*unimport_pd)(struct ibv_pd *pd);
};

/* Registration and contexts */

/* Registers a provider. The symbol name contains the provider ABI version. */
#define ___make_verbs_register_driver(x) verbs_register_driver_##x
#define __make_verbs_register_driver(x) ___make_verbs_register_driver(x)
#define verbs_register_driver __make_verbs_register_driver(IBVERBS_PABI_VERSION)
void verbs_register_driver(const struct verbs_device_ops *ops);

/* Type of the function that very old providers registered instead. */
typedef struct verbs_device *(*verbs_driver_init_func)(const char *uverbs_sys_path, int abi_version);

/* Registers drv_struct when the provider is loaded. Also defines verbs_provider_NAME, for static linking. */
#define PROVIDER_DRIVER(provider_name, drv_struct) \
	extern const struct verbs_device_ops verbs_provider_##provider_name \
		__attribute__((__alias__(#drv_struct))); \
	static __attribute__((__constructor__)) void provider_name##_register_driver(void) \
	{ \
		verbs_register_driver(&drv_struct); \
	}

/*
 * Allocates the struct that drv_ctx_ptr points to, filled with zeros, and initializes its member ctx_memb, a
 * struct verbs_context, as a context on cmd_fd. Undo with verbs_uninit_context and free.
 */
void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t alloc_size,
				    struct verbs_context *context_offset, uint32_t driver_id);
#define verbs_init_and_alloc_context(ibdev, cmd_fd, drv_ctx_ptr, ctx_memb, driver_id) \
	((__typeof__(drv_ctx_ptr))_verbs_init_and_alloc_context(ibdev, cmd_fd, sizeof(*(drv_ctx_ptr)), \
								&((__typeof__(drv_ctx_ptr))NULL)->ctx_memb, \
								(driver_id)))

/* Releases what a context holds and closes its cmd_fd. The provider frees the memory. */
void verbs_uninit_context(struct verbs_context *context);

/* Sets the operations that are not NULL in ops; the others are unchanged. */
void verbs_set_ops(struct verbs_context *vctx, const struct verbs_context_ops *ops);

/* Initializes a CQ that the provider allocated in a verb of its own. */
void verbs_init_cq(struct ibv_cq *cq, struct ibv_context *context, struct ibv_comp_channel *channel,
		   void *cq_context);

/* For a provider's own verb that opens devices: opens a device, passing private_data to alloc_context. */
struct ibv_context *verbs_open_device(struct ibv_device *device, void *private_data);

/*
 * Commands: each executes a command of the kernel and fills in the members that programs see. cmd and resp
 * may be followed by the provider's own request and response; the sizes include these. A struct
 * ibv_command_buffer contains attributes of the provider to add to an ioctl, or is NULL.
 */

/*
 * Creates the context in the kernel; sets num_comp_vectors and the device's core_support. fd_arr, or NULL,
 * has descriptors for the kernel driver.
 */
#if IBVERBS_PABI_VERSION >= 57
int ibv_cmd_get_context(struct verbs_context *context, struct ibv_get_context *cmd, size_t cmd_size,
			struct ibv_fd_arr *fd_arr, struct ib_uverbs_get_context_resp *resp, size_t resp_size);
#else
int ibv_cmd_get_context(struct verbs_context *context, struct ibv_get_context *cmd, size_t cmd_size,
			struct ib_uverbs_get_context_resp *resp, size_t resp_size);
#endif

/* Queries the context that another process created; for import_context. */
int ibv_cmd_query_context(struct ibv_context *ctx, struct ibv_command_buffer *driver);

/* Queries a device. resp may be NULL; *resp_size returns the length of the kernel's response. */
int ibv_cmd_query_device_any(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			     struct ibv_device_attr_ex *attr, size_t attr_size,
			     struct ib_uverbs_ex_query_device_resp *resp, size_t *resp_size);

/* Queries a port. */
int ibv_cmd_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *port_attr,
		       struct ibv_query_port *cmd, size_t cmd_size);

#if IBVERBS_PABI_VERSION >= 59
/* Queries a port's speed in units of 100 Mb/s (since rdma-core 62). */
int ibv_cmd_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *speed);
#endif

/* Protection domains. */
int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, struct ibv_alloc_pd *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size);
int ibv_cmd_dealloc_pd(struct ibv_pd *pd);

/* XRC domains. vxrcd_size is the size of the provider's struct. */
int ibv_cmd_open_xrcd(struct ibv_context *context, struct verbs_xrcd *xrcd, int vxrcd_size,
		      struct ibv_xrcd_init_attr *attr, struct ibv_open_xrcd *cmd, size_t cmd_size,
		      struct ib_uverbs_open_xrcd_resp *resp, size_t resp_size);
int ibv_cmd_close_xrcd(struct verbs_xrcd *xrcd);

/* Memory regions: of memory, of a dma-buf, of device memory, and of another process by handle. */
int ibv_cmd_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access,
		   struct verbs_mr *vmr, struct ibv_reg_mr *cmd, size_t cmd_size,
		   struct ib_uverbs_reg_mr_resp *resp, size_t resp_size);
int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			  int access, struct verbs_mr *vmr, struct ibv_command_buffer *driver);
int ibv_cmd_reg_dm_mr(struct ibv_pd *pd, struct verbs_dm *dm, uint64_t offset, size_t length,
		      unsigned int access, struct verbs_mr *vmr, struct ibv_command_buffer *link);
int ibv_cmd_query_mr(struct ibv_pd *pd, struct verbs_mr *vmr, uint32_t mr_handle);

#if IBVERBS_PABI_VERSION >= 59
/* The same as ibv_reg_mr_ex wants it: memory or a dma-buf, with a DMA handle. */
int ibv_cmd_reg_mr_ex(struct ibv_pd *pd, struct verbs_mr *vmr, struct ibv_mr_init_attr *mr_init_attr);
#endif

#if IBVERBS_PABI_VERSION == 34
/*
 * rdma-core 54 added the last argument without changing the ABI version. The macro allows callers to omit it;
 * pass NULL. The library cannot know whether a provider passes it, and uses it only for libmlx5.
 */
#define ibv_cmd_reg_dmabuf_mr(...) __IBV_REG_DMABUF_MR(__VA_ARGS__, NULL, NULL)
#define __IBV_REG_DMABUF_MR(pd, offset, length, iova, fd, access, vmr, driver, ...) \
	(ibv_cmd_reg_dmabuf_mr)(pd, offset, length, iova, fd, access, vmr, driver)
#endif

/* Change and deregister a region, and give advice about regions. */
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

/* Device memory. */
int ibv_cmd_alloc_dm(struct ibv_context *ctx, const struct ibv_alloc_dm_attr *dm_attr, struct verbs_dm *dm,
		     struct ibv_command_buffer *link);
int ibv_cmd_free_dm(struct verbs_dm *dm);

#if IBVERBS_PABI_VERSION >= 59
/* A new descriptor of a dma-buf for what cmd_fd maps at pg_off, or -1 with errno (since rdma-core 62). */
int ibv_cmd_export_dmabuf_fd(struct ibv_context *ctx, off_t pg_off);

/* DMA handles. */
int ibv_cmd_alloc_dmah(struct ibv_context *ctx, struct verbs_dmah *dmah, struct ibv_dmah_init_attr *attr);
int ibv_cmd_free_dmah(struct verbs_dmah *dmah);
#endif

#if IBVERBS_PABI_VERSION >= 65
/* Completion counters. */
int ibv_cmd_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
				 size_t caps_size);
int ibv_cmd_create_comp_cntr(struct ibv_context *context, struct ibv_comp_cntr *comp_cntr,
			     struct ibv_command_buffer *link);
int ibv_cmd_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr);
int ibv_cmd_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
int ibv_cmd_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
int ibv_cmd_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);
int ibv_cmd_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);
int ibv_cmd_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);
int ibv_cmd_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);
int ibv_cmd_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
				struct ibv_qp_attach_comp_cntr_attr *attr);
#endif

#if IBVERBS_PABI_VERSION >= 64
/* Buffers of the kernel's DMA heap for confidential virtual machines. */
struct ibv_dmabuf_heap;
struct ibv_dmabuf_heap *ibv_dmabuf_heap_cc_shared_init(void);
void ibv_dmabuf_heap_destroy(struct ibv_dmabuf_heap *heap);
void *ibv_dmabuf_heap_alloc(struct ibv_dmabuf_heap *heap, size_t size, int *dmabuf_fd);
void ibv_dmabuf_heap_free(void *buf, size_t size, int dmabuf_fd);
#endif

/* Completion queues. cmd_flags is a mask of enum create_cq_cmd_flags. */
int ibv_cmd_create_cq(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel, int comp_vector,
		      struct ibv_cq *cq, struct ibv_create_cq *cmd, size_t cmd_size,
		      struct ib_uverbs_create_cq_resp *resp, size_t resp_size);
#if IBVERBS_PABI_VERSION >= 59
#define __IBV_PROV_ATTR struct verbs_create_cq_prov_attr *prov_attr,
#else
#define __IBV_PROV_ATTR
#endif
int ibv_cmd_create_cq_ex(struct ibv_context *context, const struct ibv_cq_init_attr_ex *cq_attr,
			 __IBV_PROV_ATTR struct verbs_cq *cq, struct ibv_create_cq_ex *cmd, size_t cmd_size,
			 struct ib_uverbs_ex_create_cq_resp *resp, size_t resp_size, uint32_t cmd_flags);
int ibv_cmd_create_cq_ex2(struct ibv_context *context, const struct ibv_cq_init_attr_ex *cq_attr,
			  __IBV_PROV_ATTR struct verbs_cq *cq, struct ibv_create_cq_ex *cmd, size_t cmd_size,
			  struct ib_uverbs_ex_create_cq_resp *resp, size_t resp_size, uint32_t cmd_flags,
			  struct ibv_command_buffer *driver);
int ibv_cmd_resize_cq(struct ibv_cq *cq, int cqe, struct ibv_resize_cq *cmd, size_t cmd_size,
		      struct ib_uverbs_resize_cq_resp *resp, size_t resp_size);
int ibv_cmd_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr, struct ibv_modify_cq *cmd,
		      size_t cmd_size);
int ibv_cmd_destroy_cq(struct ibv_cq *cq);

/* Poll and arm a CQ through the kernel, for devices whose queues are not mapped into the process. */
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

/* Queue pairs. vqp_sz is the size of the provider's struct. */
int ibv_cmd_create_qp(struct ibv_pd *pd, struct ibv_qp *qp, struct ibv_qp_init_attr *attr,
		      struct ibv_create_qp *cmd, size_t cmd_size, struct ib_uverbs_create_qp_resp *resp,
		      size_t resp_size);
int ibv_cmd_create_qp_ex(struct ibv_context *context, struct verbs_qp *qp,
			 struct ibv_qp_init_attr_ex *attr_ex, struct ibv_create_qp *cmd, size_t cmd_size,
			 struct ib_uverbs_create_qp_resp *resp, size_t resp_size);
int ibv_cmd_create_qp_ex2(struct ibv_context *context, struct verbs_qp *qp,
			  struct ibv_qp_init_attr_ex *qp_attr, struct ibv_create_qp_ex *cmd, size_t cmd_size,
#if IBVERBS_PABI_VERSION >= 64
			  struct ib_uverbs_ex_create_qp_resp *resp, size_t resp_size,
			  struct ibv_command_buffer *driver);
#else
			  struct ib_uverbs_ex_create_qp_resp *resp, size_t resp_size);
#endif
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

/* Post work requests through the kernel, for devices whose queues are not mapped into the process. */
int ibv_cmd_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int ibv_cmd_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int ibv_cmd_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/* Address handles and multicast groups. */
int ibv_cmd_create_ah(struct ibv_pd *pd, struct ibv_ah *ah, struct ibv_ah_attr *attr,
		      struct ib_uverbs_create_ah_resp *resp, size_t resp_size);
int ibv_cmd_destroy_ah(struct ibv_ah *ah);
int ibv_cmd_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int ibv_cmd_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* Flows, ESP flow actions, flow counters. ucmd is the provider's request alone. */
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

/* Work queues and indirection tables. */
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

/* Utilities */

/*
 * Keep memory that the device accesses out of child processes (madvise MADV_DONTFORK), and undo that. Calls
 * are counted per page.
 */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

/* Mount point of sysfs: SYSFS_PATH if set, else "/sys". */
const char *ibv_get_sysfs_path(void);

/* Reads the file dir/file without its trailing newline. Returns the length, or -1 with errno. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/*
 * Reads a file below ibdev_path of a device, without its trailing newline. fnfmt and its arguments, as for
 * printf, name the file. Returns the length, or -1 with errno.
 */
int ibv_read_ibdev_sysfs_file(char *buf, size_t size, struct verbs_sysfs_dev *sysfs_dev, const char *fnfmt,
			      ...) __attribute__((__format__(__printf__, 4, 5)));

/*
 * GID types that sysfs distinguishes: InfiniBand and RoCE v1 are the same. ibv_query_gid_type returns 0, or
 * -1 with errno.
 */
enum ibv_gid_type_sysfs {
	IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
	IBV_GID_TYPE_SYSFS_ROCE_V2
};
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       enum ibv_gid_type_sysfs *type);

/* Attributes of a GID to query. */
enum verbs_query_gid_attr_mask {
	VERBS_QUERY_GID_ATTR_GID = 1 << 0,
	VERBS_QUERY_GID_ATTR_TYPE = 1 << 1,
	VERBS_QUERY_GID_ATTR_NDEV_IFINDEX = 1 << 2
};

/* Whether input has no bits other than those in supported. */
static inline bool check_comp_mask(uint64_t input, uint64_t supported)
{
	return !(input & ~supported);
}

/* For alloc_parent_domain: returns -1 with EINVAL if attr names no protection domain. */
static inline int ibv_check_alloc_parent_domain(struct ibv_parent_domain_init_attr *attr)
{
	if (attr->pd)
		return 0;
	errno = EINVAL;
	return -1;
}

/* For alloc_parent_domain: gives a parent domain the handle of its protection domain. */
static inline void ibv_initialize_parent_domain(struct ibv_pd *parent_domain, struct ibv_pd *contained_pd)
{
	parent_domain->handle = contained_pd->handle;
	parent_domain->context = contained_pd->context;
}

#if IBVERBS_PABI_VERSION >= 64
/*
 * Adds a part of a buffer to a command, if it is a dma-buf: addr (or the start) and length (or all of it, if
 * 0). storage must live until the command is executed.
 */
static inline void fill_attr_in_buf_umem(struct ibv_command_buffer *cmdb, uint16_t attr_id,
					 struct ib_uverbs_buffer_desc *storage, struct ibv_buf *buf,
					 void *addr, size_t length)
{
	if (!buf || buf->dmabuf_fd == -1)
		return;
	memset(storage, 0, sizeof(*storage));
	storage->type = IB_UVERBS_BUFFER_TYPE_DMABUF;
	storage->fd = buf->dmabuf_fd;
	if (addr)
		storage->addr = (uintptr_t)addr - (uintptr_t)buf->addr;
	storage->length = length ? length : buf->size;
	fill_attr_in_ptr(cmdb, attr_id, storage);
	cmdb->fallback_ioctl_only = 1;
}
#endif

/*
 * Provider ABI 59 has two layouts. This symbol in the provider's dynamic symbol table says which it has.
 * Where a version script hides it, the library looks at the files beside the provider
 * (libibverbs-rs-providers(7)).
 */
#if IBVERBS_PABI_VERSION == 59
#if IBVERBS_PABI_RELEASE >= 62
__asm__(".weak ibv_provider_layout_62\n.set ibv_provider_layout_62, 0");
#else
__asm__(".weak ibv_provider_layout_59\n.set ibv_provider_layout_59, 0");
#endif
#endif

/*
 * The library has each private function once for every ABI, and links programs with those of ABI 34. These
 * directives ask for the ones of another ABI. In a static library functions have no versions.
 */
#if IBVERBS_PABI_VERSION != 34 && !defined(_STATIC_LIBRARY_BUILD_)
#define ___IBV_SYMVER(name, abi) __asm__(".symver " #name "," #name "@IBVERBS_PRIVATE_" #abi)
#define __IBV_SYMVER_OF(name, abi) ___IBV_SYMVER(name, abi)
#define __IBV_SYMVER(name) __IBV_SYMVER_OF(name, IBVERBS_PABI_VERSION)
__IBV_SYMVER(__ioctl_final_num_attrs);
__IBV_SYMVER(__verbs_log);
__IBV_SYMVER(_verbs_init_and_alloc_context);
__IBV_SYMVER(execute_ioctl);
__IBV_SYMVER(ibv_cmd_advise_mr);
__IBV_SYMVER(ibv_cmd_alloc_dm);
__IBV_SYMVER(ibv_cmd_alloc_dmah);
__IBV_SYMVER(ibv_cmd_alloc_mw);
__IBV_SYMVER(ibv_cmd_alloc_pd);
__IBV_SYMVER(ibv_cmd_attach_mcast);
__IBV_SYMVER(ibv_cmd_close_xrcd);
__IBV_SYMVER(ibv_cmd_create_ah);
__IBV_SYMVER(ibv_cmd_create_comp_cntr);
__IBV_SYMVER(ibv_cmd_create_counters);
__IBV_SYMVER(ibv_cmd_create_cq);
__IBV_SYMVER(ibv_cmd_create_cq_ex);
__IBV_SYMVER(ibv_cmd_create_cq_ex2);
__IBV_SYMVER(ibv_cmd_create_flow);
__IBV_SYMVER(ibv_cmd_create_flow_action_esp);
__IBV_SYMVER(ibv_cmd_create_qp);
__IBV_SYMVER(ibv_cmd_create_qp_ex);
__IBV_SYMVER(ibv_cmd_create_qp_ex2);
__IBV_SYMVER(ibv_cmd_create_rwq_ind_table);
__IBV_SYMVER(ibv_cmd_create_srq);
__IBV_SYMVER(ibv_cmd_create_srq_ex);
__IBV_SYMVER(ibv_cmd_create_wq);
__IBV_SYMVER(ibv_cmd_dealloc_mw);
__IBV_SYMVER(ibv_cmd_dealloc_pd);
__IBV_SYMVER(ibv_cmd_dereg_mr);
__IBV_SYMVER(ibv_cmd_destroy_ah);
__IBV_SYMVER(ibv_cmd_destroy_comp_cntr);
__IBV_SYMVER(ibv_cmd_destroy_counters);
__IBV_SYMVER(ibv_cmd_destroy_cq);
__IBV_SYMVER(ibv_cmd_destroy_flow);
__IBV_SYMVER(ibv_cmd_destroy_flow_action);
__IBV_SYMVER(ibv_cmd_destroy_qp);
__IBV_SYMVER(ibv_cmd_destroy_rwq_ind_table);
__IBV_SYMVER(ibv_cmd_destroy_srq);
__IBV_SYMVER(ibv_cmd_destroy_wq);
__IBV_SYMVER(ibv_cmd_detach_mcast);
__IBV_SYMVER(ibv_cmd_export_dmabuf_fd);
__IBV_SYMVER(ibv_cmd_free_dm);
__IBV_SYMVER(ibv_cmd_free_dmah);
__IBV_SYMVER(ibv_cmd_get_context);
__IBV_SYMVER(ibv_cmd_inc_comp_cntr);
__IBV_SYMVER(ibv_cmd_inc_err_comp_cntr);
__IBV_SYMVER(ibv_cmd_modify_cq);
__IBV_SYMVER(ibv_cmd_modify_flow_action_esp);
__IBV_SYMVER(ibv_cmd_modify_qp);
__IBV_SYMVER(ibv_cmd_modify_qp_ex);
__IBV_SYMVER(ibv_cmd_modify_srq);
__IBV_SYMVER(ibv_cmd_modify_wq);
__IBV_SYMVER(ibv_cmd_open_qp);
__IBV_SYMVER(ibv_cmd_open_xrcd);
__IBV_SYMVER(ibv_cmd_poll_cq);
__IBV_SYMVER(ibv_cmd_post_recv);
__IBV_SYMVER(ibv_cmd_post_send);
__IBV_SYMVER(ibv_cmd_post_srq_recv);
__IBV_SYMVER(ibv_cmd_qp_attach_comp_cntr);
__IBV_SYMVER(ibv_cmd_query_comp_cntr_caps);
__IBV_SYMVER(ibv_cmd_query_context);
__IBV_SYMVER(ibv_cmd_query_device_any);
__IBV_SYMVER(ibv_cmd_query_mr);
__IBV_SYMVER(ibv_cmd_query_port);
__IBV_SYMVER(ibv_cmd_query_port_speed);
__IBV_SYMVER(ibv_cmd_query_qp);
__IBV_SYMVER(ibv_cmd_query_srq);
__IBV_SYMVER(ibv_cmd_read_comp_cntr);
__IBV_SYMVER(ibv_cmd_read_counters);
__IBV_SYMVER(ibv_cmd_read_err_comp_cntr);
__IBV_SYMVER(ibv_cmd_reg_dm_mr);
__IBV_SYMVER(ibv_cmd_reg_dmabuf_mr);
__IBV_SYMVER(ibv_cmd_reg_mr);
__IBV_SYMVER(ibv_cmd_reg_mr_ex);
__IBV_SYMVER(ibv_cmd_req_notify_cq);
__IBV_SYMVER(ibv_cmd_rereg_mr);
__IBV_SYMVER(ibv_cmd_resize_cq);
__IBV_SYMVER(ibv_cmd_set_comp_cntr);
__IBV_SYMVER(ibv_cmd_set_err_comp_cntr);
__IBV_SYMVER(ibv_dmabuf_heap_alloc);
__IBV_SYMVER(ibv_dmabuf_heap_cc_shared_init);
__IBV_SYMVER(ibv_dmabuf_heap_destroy);
__IBV_SYMVER(ibv_dmabuf_heap_free);
__IBV_SYMVER(ibv_query_gid_type);
__IBV_SYMVER(ibv_read_ibdev_sysfs_file);
__IBV_SYMVER(ibv_wr_opcode_str);
__IBV_SYMVER(verbs_allow_disassociate_destroy);
__IBV_SYMVER(verbs_init_cq);
__IBV_SYMVER(verbs_open_device);
__IBV_SYMVER(verbs_set_ops);
__IBV_SYMVER(verbs_uninit_context);
#endif

#endif
