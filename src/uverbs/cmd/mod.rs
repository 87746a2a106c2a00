//! The `ibv_cmd_*` functions that providers call, a file per object.
//!
//! All take raw pointers from a provider and trust them as the C library does: a provider is part of
//! the process. Unless said otherwise they return 0 or a positive errno value (which the kernel path
//! also leaves in errno).

pub mod ah;
pub mod comp_channel;
pub mod counters;
pub mod cq;
mod destroy;
pub mod device;
pub mod dm;
pub mod flow;
pub mod flow_action;
pub mod flow_spec;
pub mod gid;
pub mod mcast;
pub mod mr;
pub mod mw;
pub mod pd;
pub mod port;
pub mod post;
pub mod qp;
pub mod qp_attr;
mod qp_write;
pub mod rwq_ind;
pub mod srq;
pub mod wq;
pub mod xrcd;

/// Whether `mask` has nothing beyond `supported`.
#[inline]
pub(crate) fn only(mask: u64, supported: u64) -> bool {
    mask & !supported == 0
}
