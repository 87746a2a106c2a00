//! The `ibv_cmd_*` functions that providers call, a file per object.
//!
//! A command that exists in several forms has a function for each (`by_ioctl`, `by_write`, `by_write_ex`)
//! and one that chooses with [`fallback`](super::fallback). All return 0 or a positive errno value.
//!
//! A provider is part of the process, and its arguments are trusted as rdma-core trusts them. Unless a
//! function says otherwise, its contract is:
//! - objects (`context`, `pd`, `qp`, ...), attributes and results are live, and no other thread changes them
//!   during the call; objects that an attribute names are live too;
//! - `cmd` and `resp` are the provider's command and response buffers: they begin with the structures of
//!   their types and are `cmd_size` and `resp_size` bytes long;
//! - `driver` and `link` are null or the provider's live chain of command buffers.

use ibverbs_abi::{Errno, IntoC};
use libc::c_int;

pub mod ah;
pub mod comp_channel;
pub mod comp_cntr;
pub mod counters;
pub mod cq;
pub mod cq_poll;
pub mod destroy;
pub mod device;
pub mod dm;
pub mod dmah;
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
mod qp_handles;
mod qp_write;
pub mod rwq_ind;
pub mod srq;
pub mod wq;
pub mod xrcd;

/// The border to C of all commands: 0, or the errno value.
#[inline(always)]
fn to_c(command: impl FnOnce() -> Result<(), Errno>) -> c_int {
    command().into_c()
}

/// Whether `mask` has no bits besides `supported`.
#[inline]
pub(crate) fn only(mask: u64, supported: u64) -> bool {
    mask & !supported == 0
}
