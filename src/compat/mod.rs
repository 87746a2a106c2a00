//! The IBVERBS_1.0 layer: the verbs for programs linked with libibverbs 1.0.
//!
//! The structs of those programs have other layouts. So each object that such a program holds is a twin:
//! a struct of the old layout that points to the real object. Real CQs, queue pairs and SRQs point back to
//! their twins by their `*_context` member, through which their events find the twin; the program's own
//! value of that member is kept in the twin. A twin is allocated with malloc before its real object, so
//! that a shortage of memory needs no undoing, and freed after it.
//!
//! The C library leaves some members of its twins uninitialised (handles, file descriptors, the state of a
//! queue pair). Here they have the real object's values.

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
