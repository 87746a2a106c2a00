//! rdma_cm: connections by IP address and port, for programs that use librdmacm unchanged.
//!
//! | module | responsible for |
//! |---|---|
//! | `mad` | messages of the communication manager as bytes and values. Pure |
//! | `connection` | the state machine of one connection: messages, retransmission, TimeWait. Pure |
//! | `agent` | all connections of a process: whom a message is for, timers. Pure |
//! | `ucma` | the commands of `/dev/infiniband/rdma_cm`, and the operating system around them |
//!
//! On the wire it is the communication manager of the specification (volume 1, chapter 12), with the
//! private data header of annex A11: it connects to the kernel's rdma_cm over any RoCEv2 device.
//!
//! Not here: queue pairs, which the program creates and modifies through verbs.

mod agent;
mod connection;
#[cfg(any(test, feature = "internals"))]
pub mod fuzz;
mod mad;
pub mod ucma;
