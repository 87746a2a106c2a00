//! What RDMA devices there are: RDMA netlink first, sysfs where it fails.
