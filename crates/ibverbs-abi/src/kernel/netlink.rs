//! RDMA netlink (family 20), which discovery queries (`rdma/rdma_netlink.h`).

/// Clients: the subsystems that messages are for.
pub const RDMA_NL_IWCM: u32 = 2;
pub const RDMA_NL_RSVD: u32 = 3;
pub const RDMA_NL_LS: u32 = 4;
pub const RDMA_NL_NLDEV: u32 = 5;
pub const RDMA_NL_NUM_CLIENTS: u32 = 6;

/// Multicast groups.
pub const RDMA_NL_GROUP_IWPM: u32 = 2;
pub const RDMA_NL_GROUP_LS: u32 = 3;
pub const RDMA_NL_GROUP_NOTIFY: u32 = 4;
pub const RDMA_NL_NUM_GROUPS: u32 = 5;

/// The kernel's node types, in `RDMA_NLDEV_ATTR_DEV_NODE_TYPE`.
pub const RDMA_NODE_IB_CA: u32 = 1;
pub const RDMA_NODE_IB_SWITCH: u32 = 2;
pub const RDMA_NODE_IB_ROUTER: u32 = 3;
pub const RDMA_NODE_RNIC: u32 = 4;
pub const RDMA_NODE_USNIC: u32 = 5;
pub const RDMA_NODE_USNIC_UDP: u32 = 6;
pub const RDMA_NODE_UNSPECIFIED: u32 = 7;

/// Flag of an attribute: the receiver must understand it.
pub const RDMA_NLA_F_MANDATORY: u32 = 1 << 13;

/// Commands of the client `RDMA_NL_NLDEV`.
pub type rdma_nldev_command = u32;
pub const RDMA_NLDEV_CMD_UNSPEC: rdma_nldev_command = 0;
pub const RDMA_NLDEV_CMD_GET: rdma_nldev_command = 1;
pub const RDMA_NLDEV_CMD_SET: rdma_nldev_command = 2;
pub const RDMA_NLDEV_CMD_NEWLINK: rdma_nldev_command = 3;
pub const RDMA_NLDEV_CMD_DELLINK: rdma_nldev_command = 4;
pub const RDMA_NLDEV_CMD_PORT_GET: rdma_nldev_command = 5;
pub const RDMA_NLDEV_CMD_SYS_GET: rdma_nldev_command = 6;
pub const RDMA_NLDEV_CMD_SYS_SET: rdma_nldev_command = 7;
pub const RDMA_NLDEV_CMD_RES_GET: rdma_nldev_command = 9;
pub const RDMA_NLDEV_CMD_RES_QP_GET: rdma_nldev_command = 10;
pub const RDMA_NLDEV_CMD_RES_CM_ID_GET: rdma_nldev_command = 11;
pub const RDMA_NLDEV_CMD_RES_CQ_GET: rdma_nldev_command = 12;
pub const RDMA_NLDEV_CMD_RES_MR_GET: rdma_nldev_command = 13;
pub const RDMA_NLDEV_CMD_RES_PD_GET: rdma_nldev_command = 14;
pub const RDMA_NLDEV_CMD_GET_CHARDEV: rdma_nldev_command = 15;
pub const RDMA_NLDEV_CMD_STAT_SET: rdma_nldev_command = 16;
pub const RDMA_NLDEV_CMD_STAT_GET: rdma_nldev_command = 17;
pub const RDMA_NLDEV_CMD_STAT_DEL: rdma_nldev_command = 18;
pub const RDMA_NLDEV_CMD_RES_QP_GET_RAW: rdma_nldev_command = 19;
pub const RDMA_NLDEV_CMD_RES_CQ_GET_RAW: rdma_nldev_command = 20;
pub const RDMA_NLDEV_CMD_RES_MR_GET_RAW: rdma_nldev_command = 21;
pub const RDMA_NLDEV_CMD_RES_CTX_GET: rdma_nldev_command = 22;
pub const RDMA_NLDEV_CMD_RES_SRQ_GET: rdma_nldev_command = 23;
pub const RDMA_NLDEV_CMD_STAT_GET_STATUS: rdma_nldev_command = 24;
pub const RDMA_NLDEV_CMD_RES_SRQ_GET_RAW: rdma_nldev_command = 25;
pub const RDMA_NLDEV_CMD_NEWDEV: rdma_nldev_command = 26;
pub const RDMA_NLDEV_CMD_DELDEV: rdma_nldev_command = 27;
pub const RDMA_NLDEV_CMD_MONITOR: rdma_nldev_command = 28;
pub const RDMA_NLDEV_CMD_FRMR_POOLS_GET: rdma_nldev_command = 29;
pub const RDMA_NLDEV_CMD_FRMR_POOLS_SET: rdma_nldev_command = 30;
pub const RDMA_NLDEV_NUM_OPS: rdma_nldev_command = 31;

/// How to print a driver's attribute.
pub type rdma_nldev_print_type = u32;
pub const RDMA_NLDEV_PRINT_TYPE_UNSPEC: rdma_nldev_print_type = 0;
pub const RDMA_NLDEV_PRINT_TYPE_HEX: rdma_nldev_print_type = 1;

/// Attributes.
pub type rdma_nldev_attr = u32;
pub const RDMA_NLDEV_ATTR_UNSPEC: rdma_nldev_attr = 0;
pub const RDMA_NLDEV_ATTR_PAD: rdma_nldev_attr = 0;
pub const RDMA_NLDEV_ATTR_DEV_INDEX: rdma_nldev_attr = 1;
pub const RDMA_NLDEV_ATTR_DEV_NAME: rdma_nldev_attr = 2;
pub const RDMA_NLDEV_ATTR_PORT_INDEX: rdma_nldev_attr = 3;
pub const RDMA_NLDEV_ATTR_CAP_FLAGS: rdma_nldev_attr = 4;
pub const RDMA_NLDEV_ATTR_FW_VERSION: rdma_nldev_attr = 5;
pub const RDMA_NLDEV_ATTR_NODE_GUID: rdma_nldev_attr = 6;
pub const RDMA_NLDEV_ATTR_SYS_IMAGE_GUID: rdma_nldev_attr = 7;
pub const RDMA_NLDEV_ATTR_SUBNET_PREFIX: rdma_nldev_attr = 8;
pub const RDMA_NLDEV_ATTR_LID: rdma_nldev_attr = 9;
pub const RDMA_NLDEV_ATTR_SM_LID: rdma_nldev_attr = 10;
pub const RDMA_NLDEV_ATTR_LMC: rdma_nldev_attr = 11;
pub const RDMA_NLDEV_ATTR_PORT_STATE: rdma_nldev_attr = 12;
pub const RDMA_NLDEV_ATTR_PORT_PHYS_STATE: rdma_nldev_attr = 13;
pub const RDMA_NLDEV_ATTR_DEV_NODE_TYPE: rdma_nldev_attr = 14;
pub const RDMA_NLDEV_ATTR_RES_SUMMARY: rdma_nldev_attr = 15;
pub const RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY: rdma_nldev_attr = 16;
pub const RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME: rdma_nldev_attr = 17;
pub const RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR: rdma_nldev_attr = 18;
pub const RDMA_NLDEV_ATTR_RES_QP: rdma_nldev_attr = 19;
pub const RDMA_NLDEV_ATTR_RES_QP_ENTRY: rdma_nldev_attr = 20;
pub const RDMA_NLDEV_ATTR_RES_LQPN: rdma_nldev_attr = 21;
pub const RDMA_NLDEV_ATTR_RES_RQPN: rdma_nldev_attr = 22;
pub const RDMA_NLDEV_ATTR_RES_RQ_PSN: rdma_nldev_attr = 23;
pub const RDMA_NLDEV_ATTR_RES_SQ_PSN: rdma_nldev_attr = 24;
pub const RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE: rdma_nldev_attr = 25;
pub const RDMA_NLDEV_ATTR_RES_TYPE: rdma_nldev_attr = 26;
pub const RDMA_NLDEV_ATTR_RES_STATE: rdma_nldev_attr = 27;
pub const RDMA_NLDEV_ATTR_RES_PID: rdma_nldev_attr = 28;
pub const RDMA_NLDEV_ATTR_RES_KERN_NAME: rdma_nldev_attr = 29;
pub const RDMA_NLDEV_ATTR_RES_CM_ID: rdma_nldev_attr = 30;
pub const RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY: rdma_nldev_attr = 31;
pub const RDMA_NLDEV_ATTR_RES_PS: rdma_nldev_attr = 32;
pub const RDMA_NLDEV_ATTR_RES_SRC_ADDR: rdma_nldev_attr = 33;
pub const RDMA_NLDEV_ATTR_RES_DST_ADDR: rdma_nldev_attr = 34;
pub const RDMA_NLDEV_ATTR_RES_CQ: rdma_nldev_attr = 35;
pub const RDMA_NLDEV_ATTR_RES_CQ_ENTRY: rdma_nldev_attr = 36;
pub const RDMA_NLDEV_ATTR_RES_CQE: rdma_nldev_attr = 37;
pub const RDMA_NLDEV_ATTR_RES_USECNT: rdma_nldev_attr = 38;
pub const RDMA_NLDEV_ATTR_RES_POLL_CTX: rdma_nldev_attr = 39;
pub const RDMA_NLDEV_ATTR_RES_MR: rdma_nldev_attr = 40;
pub const RDMA_NLDEV_ATTR_RES_MR_ENTRY: rdma_nldev_attr = 41;
pub const RDMA_NLDEV_ATTR_RES_RKEY: rdma_nldev_attr = 42;
pub const RDMA_NLDEV_ATTR_RES_LKEY: rdma_nldev_attr = 43;
pub const RDMA_NLDEV_ATTR_RES_IOVA: rdma_nldev_attr = 44;
pub const RDMA_NLDEV_ATTR_RES_MRLEN: rdma_nldev_attr = 45;
pub const RDMA_NLDEV_ATTR_RES_PD: rdma_nldev_attr = 46;
pub const RDMA_NLDEV_ATTR_RES_PD_ENTRY: rdma_nldev_attr = 47;
pub const RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY: rdma_nldev_attr = 48;
pub const RDMA_NLDEV_ATTR_RES_UNSAFE_GLOBAL_RKEY: rdma_nldev_attr = 49;
pub const RDMA_NLDEV_ATTR_NDEV_INDEX: rdma_nldev_attr = 50;
pub const RDMA_NLDEV_ATTR_NDEV_NAME: rdma_nldev_attr = 51;
pub const RDMA_NLDEV_ATTR_DRIVER: rdma_nldev_attr = 52;
pub const RDMA_NLDEV_ATTR_DRIVER_ENTRY: rdma_nldev_attr = 53;
pub const RDMA_NLDEV_ATTR_DRIVER_STRING: rdma_nldev_attr = 54;
pub const RDMA_NLDEV_ATTR_DRIVER_PRINT_TYPE: rdma_nldev_attr = 55;
pub const RDMA_NLDEV_ATTR_DRIVER_S32: rdma_nldev_attr = 56;
pub const RDMA_NLDEV_ATTR_DRIVER_U32: rdma_nldev_attr = 57;
pub const RDMA_NLDEV_ATTR_DRIVER_S64: rdma_nldev_attr = 58;
pub const RDMA_NLDEV_ATTR_DRIVER_U64: rdma_nldev_attr = 59;
pub const RDMA_NLDEV_ATTR_RES_PDN: rdma_nldev_attr = 60;
pub const RDMA_NLDEV_ATTR_RES_CQN: rdma_nldev_attr = 61;
pub const RDMA_NLDEV_ATTR_RES_MRN: rdma_nldev_attr = 62;
pub const RDMA_NLDEV_ATTR_RES_CM_IDN: rdma_nldev_attr = 63;
pub const RDMA_NLDEV_ATTR_RES_CTXN: rdma_nldev_attr = 64;
pub const RDMA_NLDEV_ATTR_LINK_TYPE: rdma_nldev_attr = 65;
pub const RDMA_NLDEV_SYS_ATTR_NETNS_MODE: rdma_nldev_attr = 66;
pub const RDMA_NLDEV_ATTR_DEV_PROTOCOL: rdma_nldev_attr = 67;
pub const RDMA_NLDEV_NET_NS_FD: rdma_nldev_attr = 68;
pub const RDMA_NLDEV_ATTR_CHARDEV_TYPE: rdma_nldev_attr = 69;
pub const RDMA_NLDEV_ATTR_CHARDEV_NAME: rdma_nldev_attr = 70;
pub const RDMA_NLDEV_ATTR_CHARDEV_ABI: rdma_nldev_attr = 71;
pub const RDMA_NLDEV_ATTR_CHARDEV: rdma_nldev_attr = 72;
pub const RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID: rdma_nldev_attr = 73;
pub const RDMA_NLDEV_ATTR_STAT_MODE: rdma_nldev_attr = 74;
pub const RDMA_NLDEV_ATTR_STAT_RES: rdma_nldev_attr = 75;
pub const RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK: rdma_nldev_attr = 76;
pub const RDMA_NLDEV_ATTR_STAT_COUNTER: rdma_nldev_attr = 77;
pub const RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY: rdma_nldev_attr = 78;
pub const RDMA_NLDEV_ATTR_STAT_COUNTER_ID: rdma_nldev_attr = 79;
pub const RDMA_NLDEV_ATTR_STAT_HWCOUNTERS: rdma_nldev_attr = 80;
pub const RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY: rdma_nldev_attr = 81;
pub const RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME: rdma_nldev_attr = 82;
pub const RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE: rdma_nldev_attr = 83;
pub const RDMA_NLDEV_ATTR_DEV_DIM: rdma_nldev_attr = 84;
pub const RDMA_NLDEV_ATTR_RES_RAW: rdma_nldev_attr = 85;
pub const RDMA_NLDEV_ATTR_RES_CTX: rdma_nldev_attr = 86;
pub const RDMA_NLDEV_ATTR_RES_CTX_ENTRY: rdma_nldev_attr = 87;
pub const RDMA_NLDEV_ATTR_RES_SRQ: rdma_nldev_attr = 88;
pub const RDMA_NLDEV_ATTR_RES_SRQ_ENTRY: rdma_nldev_attr = 89;
pub const RDMA_NLDEV_ATTR_RES_SRQN: rdma_nldev_attr = 90;
pub const RDMA_NLDEV_ATTR_MIN_RANGE: rdma_nldev_attr = 91;
pub const RDMA_NLDEV_ATTR_MAX_RANGE: rdma_nldev_attr = 92;
pub const RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK: rdma_nldev_attr = 93;
pub const RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX: rdma_nldev_attr = 94;
pub const RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC: rdma_nldev_attr = 95;
pub const RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE: rdma_nldev_attr = 96;
pub const RDMA_NLDEV_ATTR_DRIVER_DETAILS: rdma_nldev_attr = 97;
pub const RDMA_NLDEV_ATTR_RES_SUBTYPE: rdma_nldev_attr = 98;
pub const RDMA_NLDEV_ATTR_DEV_TYPE: rdma_nldev_attr = 99;
pub const RDMA_NLDEV_ATTR_PARENT_NAME: rdma_nldev_attr = 100;
pub const RDMA_NLDEV_ATTR_NAME_ASSIGN_TYPE: rdma_nldev_attr = 101;
pub const RDMA_NLDEV_ATTR_EVENT_TYPE: rdma_nldev_attr = 102;
pub const RDMA_NLDEV_SYS_ATTR_MONITOR_MODE: rdma_nldev_attr = 103;
pub const RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED: rdma_nldev_attr = 104;
pub const RDMA_NLDEV_ATTR_FRMR_POOLS: rdma_nldev_attr = 105;
pub const RDMA_NLDEV_ATTR_FRMR_POOL_ENTRY: rdma_nldev_attr = 106;
pub const RDMA_NLDEV_ATTR_FRMR_POOL_KEY: rdma_nldev_attr = 107;
pub const RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ATS: rdma_nldev_attr = 108;
pub const RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ACCESS_FLAGS: rdma_nldev_attr = 109;
pub const RDMA_NLDEV_ATTR_FRMR_POOL_KEY_VENDOR_KEY: rdma_nldev_attr = 110;
pub const RDMA_NLDEV_ATTR_FRMR_POOL_KEY_NUM_DMA_BLOCKS: rdma_nldev_attr = 111;
pub const RDMA_NLDEV_ATTR_FRMR_POOL_QUEUE_HANDLES: rdma_nldev_attr = 112;
pub const RDMA_NLDEV_ATTR_FRMR_POOL_MAX_IN_USE: rdma_nldev_attr = 113;
pub const RDMA_NLDEV_ATTR_FRMR_POOL_IN_USE: rdma_nldev_attr = 114;
pub const RDMA_NLDEV_ATTR_FRMR_POOLS_AGING_PERIOD: rdma_nldev_attr = 115;
pub const RDMA_NLDEV_ATTR_FRMR_POOL_PINNED_HANDLES: rdma_nldev_attr = 116;
pub const RDMA_NLDEV_ATTR_FRMR_POOL_KEY_KERNEL_VENDOR_KEY: rdma_nldev_attr = 117;
pub const RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_MAX: rdma_nldev_attr = 118;
pub const RDMA_NLDEV_ATTR_MAX: rdma_nldev_attr = 119;

/// How counters are bound to queue pairs.
pub type rdma_nl_counter_mode = u32;
pub const RDMA_COUNTER_MODE_NONE: rdma_nl_counter_mode = 0;
pub const RDMA_COUNTER_MODE_AUTO: rdma_nl_counter_mode = 1;
pub const RDMA_COUNTER_MODE_MANUAL: rdma_nl_counter_mode = 2;
pub const RDMA_COUNTER_MODE_MAX: rdma_nl_counter_mode = 3;

/// Criteria of automatic binding.
pub type rdma_nl_counter_mask = u32;
pub const RDMA_COUNTER_MASK_QP_TYPE: rdma_nl_counter_mask = 1 << 0;
pub const RDMA_COUNTER_MASK_PID: rdma_nl_counter_mask = 1 << 1;

/// Kinds of sub-devices.
pub type rdma_nl_dev_type = u32;
pub const RDMA_DEVICE_TYPE_SMI: rdma_nl_dev_type = 1;

/// How a device got its name.
pub type rdma_nl_name_assign_type = u32;
pub const RDMA_NAME_ASSIGN_TYPE_UNKNOWN: rdma_nl_name_assign_type = 0;
pub const RDMA_NAME_ASSIGN_TYPE_USER: rdma_nl_name_assign_type = 1;

/// Events.
pub type rdma_nl_notify_event_type = u32;
pub const RDMA_REGISTER_EVENT: rdma_nl_notify_event_type = 0;
pub const RDMA_UNREGISTER_EVENT: rdma_nl_notify_event_type = 1;
pub const RDMA_NETDEV_ATTACH_EVENT: rdma_nl_notify_event_type = 2;
pub const RDMA_NETDEV_DETACH_EVENT: rdma_nl_notify_event_type = 3;
pub const RDMA_RENAME_EVENT: rdma_nl_notify_event_type = 4;
pub const RDMA_NETDEV_RENAME_EVENT: rdma_nl_notify_event_type = 5;

/// Mask of an attribute's type without flags.
pub const RDMA_NLA_TYPE_MASK: u16 = 0x1fff;
