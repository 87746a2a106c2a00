//! Multicast group membership of UD queue pairs.

use libc::c_int;

use super::dispatch::dispatch;
use crate::abi::*;

dispatch! {
    /// Attaches a queue pair to a multicast group, whose messages it then receives (ibv_attach_mcast(3)).
    /// `lid` is in host byte order. Returns 0 or an errno value.
    ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int
        => [(*qp).context] attach_mcast(qp, gid, lid);

    /// Detaches a queue pair from a multicast group (ibv_attach_mcast(3)). Returns 0 or an errno value.
    ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int
        => [(*qp).context] detach_mcast(qp, gid, lid);
}
