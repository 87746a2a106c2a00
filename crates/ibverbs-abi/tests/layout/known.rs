//! Known differences between this crate's types, which are those of rdma-core's newest release, and the
//! headers that they are compared with. Every other difference fails the test.

use ibverbs_abi::{CMDB_BUFFER_ERROR, CMDB_FALLBACK_IOCTL_ONLY, CMDB_FALLBACK_REQUIRE_EX};

/// Types that Debian 12's headers (v44) do not have, and their size in those that do.
pub const NEWER_TYPES: &[(&str, usize)] = &[
    ("ib_user_service_rec", 176),
    ("ib_uverbs_buffer_desc", 32),
    ("ib_uverbs_clock_info", 56),
    ("ibv_buf", 32),
    ("ibv_comp_cntr", 16),
    ("ibv_comp_cntr_caps", 16),
    ("ibv_comp_cntr_init_attr", 12),
    ("ibv_dmah", 8),
    ("ibv_dmah_init_attr", 12),
    ("ibv_fd_arr", 16),
    ("ibv_mr_init_attr", 72),
    ("ibv_qp_attach_comp_cntr_attr", 8),
    ("verbs_create_cq_prov_attr", 24),
    ("verbs_dmah", 16),
];

/// Fields at the end of a type, or in its padding, that older headers do not have. Programs built with
/// those pass a shorter structure.
pub const NEWER_FIELDS: &[(&str, &str)] = &[
    ("ib_uverbs_query_port_resp_ex", "active_speed_ex"),
    ("ibv_mr_init_attr", "buf"),
    ("ibv_port_attr", "active_speed_ex"),
    ("ibv_qp_ex", "wr_atomic_write"),
    ("ibv_qp_ex", "wr_flush"),
];

/// Padding that a newer field has partly taken.
pub const SHRUNK_PADDING: &[(&str, &str)] = &[("ib_uverbs_query_port_resp_ex", "reserved")];

/// Prefixes of constants that Debian 12's headers do not have.
pub const NEWER_CONSTANTS: &[&str] = &[
    "CREATE_CQ_CMD_FLAGS_WITH_MEM_",
    "IBV_ACCESS_FLUSH_",
    "IBV_COMP_CNTR_TYPE_",
    "IBV_DEVICE_CC_DMA_BOUNCE",
    "IBV_DMAH_INIT_ATTR_MASK_",
    "IBV_EVENT_DEVICE_SPEED_CHANGE",
    "IBV_FLUSH_",
    "IBV_ODP_SUPPORT_ATOMIC_WRITE",
    "IBV_ODP_SUPPORT_FLUSH",
    "IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC",
    "IBV_PORT_LINK_SPEED_XDR_SUP",
    "IBV_QP_ATTACH_COMP_CNTR_OP_",
    "IBV_QP_EX_WITH_FLUSH",
    "IBV_QUERY_QP_DATA_IN_ORDER_",
    "IBV_REG_MR_MASK_",
    "IBV_TPH_MEM_TYPE_",
    "IBV_WC_FLUSH",
    "IBV_WR_FLUSH",
    "IB_UVERBS_COMP_CNTR_",
    "IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_",
    "RDMA_DRIVER_IONIC",
    "UVERBS_ATTR_ALLOC_DMABUF_",
    "UVERBS_ATTR_ALLOC_DMAH_",
    "UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE",
    "UVERBS_ATTR_CREATE_CQ_BUF",
    "UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE",
    "UVERBS_ATTR_FREE_DMA_HANDLE",
    "UVERBS_ATTR_GET_CONTEXT_FD_ARR",
    "UVERBS_ATTR_MODIFY_COMP_CNTR_",
    "UVERBS_ATTR_QP_ATTACH_COMP_CNTR_",
    "UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_",
    "UVERBS_ATTR_QUERY_PORT_SPEED_",
    "UVERBS_ATTR_READ_COMP_CNTR_",
    "UVERBS_ATTR_REG_MR_",
    "UVERBS_ID_DRIVER_NS",
    "UVERBS_METHOD_COMP_CNTR_",
    "UVERBS_METHOD_DMABUF_ALLOC",
    "UVERBS_METHOD_DMAH_",
    "UVERBS_METHOD_QP_ATTACH_COMP_CNTR",
    "UVERBS_METHOD_QUERY_COMP_CNTR_CAPS",
    "UVERBS_METHOD_QUERY_PORT_SPEED",
    "UVERBS_METHOD_REG_MR",
    "UVERBS_OBJECT_COMP_CNTR",
    "UVERBS_OBJECT_DMABUF",
    "UVERBS_OBJECT_DMAH",
];

/// Prefixes of C names that this crate leaves out, and why.
pub const LEFT_OUT: &[&str] = &[
    // Constants of the kernel that nothing here uses.
    "IB_",
    "RDMA_",
    "UVERBS_",
    // Constants that only the C macros for building commands use.
    "DECLARE_",
    "_ABI_ALIGN_",
    "empty",
    // Internal results of choosing between ioctl and write, which no provider sees.
    "ERROR",
    "SUCCESS",
    "TRY_WRITE",
    // RDMA netlink clients for iWARP's port mapper and for path resolution, which are not part of
    // libibverbs.
    "IWPM_",
    "LS_",
    "rdma_ls_",
    "rdma_nla_ls_",
];

/// Names that C does not have.
pub const OURS: &[&str] = &[
    "CMDB_BUFFER_ERROR",
    "CMDB_FALLBACK_IOCTL_ONLY",
    "CMDB_FALLBACK_REQUIRE_EX",
    // Only declared in the C headers.
    "_compat_ibv_port_attr",
    // From ccan, not from rdma-core.
    "list_node",
    // The interface between the library and uroce.
    "verbs_software_ops",
    // The size of verbs_context per provider ABI: see layouts.rs.
    "VSZ_V34",
    "VSZ_V59",
    "VSZ_V62",
    "VSZ_V64",
];

/// Fields that are another name for the bytes of a field that exists here.
pub const SECOND_NAMES: &[(&str, &str)] = &[
    ("ib_uverbs_attr", "data_s64"),
    ("ib_uverbs_flow_action_esp_encap", "next_ptr_data_u64"),
    ("ib_uverbs_flow_action_esp_encap", "val_ptr_data_u64"),
];

/// The bit-fields of `ibv_command_buffer`, and the constants for them.
pub const COMMAND_BITS: &[(&str, u8)] = &[
    ("buffer_error", CMDB_BUFFER_ERROR),
    ("fallback_require_ex", CMDB_FALLBACK_REQUIRE_EX),
    ("fallback_ioctl_only", CMDB_FALLBACK_IOCTL_ONLY),
];
