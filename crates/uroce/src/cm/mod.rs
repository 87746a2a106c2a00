//! rdma_cm: connections by IP address and port, for programs that use librdmacm unchanged.
//!
//! | module | responsible for |
//! |---|---|
//! | `ucma` | the commands of `/dev/infiniband/rdma_cm`, and the operating system around them |
//! | [`roce::cm`] | messages and the state machine of connections. Pure, and a crate of its own |
//!
//! On the wire it is the communication manager of the specification (volume 1, chapter 12), with the
//! private data header of annex A11: it connects to the kernel's rdma_cm over any RoCEv2 device.
//!
//! Not here: queue pairs, which the program creates and modifies through verbs.

#[cfg(any(test, feature = "internals"))]
pub mod fuzz;
pub mod ucma;
