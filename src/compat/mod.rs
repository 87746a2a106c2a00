//! The IBVERBS_1.0 layer: the same verbs for programs linked before libibverbs 1.1.
//!
//! Those programs have objects of other layouts, so that each object they hold is a twin: a struct of
//! the old layout that points to the real object. The real queues, and through them their events,
//! point back to their twins by their `*_context` member, which the program's own value therefore
//! leaves for the twin's. Twins are malloc'ed, made before their real object (so that nothing has to
//! be undone for want of memory) and freed after it.
//!
//! The members that rdma-core's library leaves as malloc returned them (handles, file descriptors,
//! the state of a queue pair) hold the real object's values here.

pub mod ah;
pub mod comp_channel;
pub mod context;
pub mod cq;
pub mod device;
pub mod event;
pub mod mcast;
pub mod mr;
pub mod pd;
mod post;
pub mod qp;
pub mod srq;
mod twin;
pub mod types;
