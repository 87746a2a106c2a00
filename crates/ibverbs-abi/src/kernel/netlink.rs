//! RDMA netlink (family 20), which discovery queries (`rdma/rdma_netlink.h`).

/// Clients: the subsystems that messages are for.
pub const RDMA_NL_NLDEV: u32 = 5;

/// Commands of the client `RDMA_NL_NLDEV`.
pub type rdma_nldev_command = u32;
pub const RDMA_NLDEV_CMD_GET: rdma_nldev_command = 1;
pub const RDMA_NLDEV_CMD_SYS_GET: rdma_nldev_command = 6;
pub const RDMA_NLDEV_CMD_GET_CHARDEV: rdma_nldev_command = 15;

/// Attributes.
pub type rdma_nldev_attr = u32;
pub const RDMA_NLDEV_ATTR_DEV_INDEX: rdma_nldev_attr = 1;
pub const RDMA_NLDEV_ATTR_DEV_NAME: rdma_nldev_attr = 2;
pub const RDMA_NLDEV_ATTR_PORT_INDEX: rdma_nldev_attr = 3;
pub const RDMA_NLDEV_ATTR_NODE_GUID: rdma_nldev_attr = 6;
pub const RDMA_NLDEV_ATTR_DEV_NODE_TYPE: rdma_nldev_attr = 14;
pub const RDMA_NLDEV_ATTR_CHARDEV_TYPE: rdma_nldev_attr = 69;
pub const RDMA_NLDEV_ATTR_CHARDEV_NAME: rdma_nldev_attr = 70;
pub const RDMA_NLDEV_ATTR_CHARDEV_ABI: rdma_nldev_attr = 71;
pub const RDMA_NLDEV_ATTR_CHARDEV: rdma_nldev_attr = 72;
pub const RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID: rdma_nldev_attr = 73;
pub const RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK: rdma_nldev_attr = 93;
