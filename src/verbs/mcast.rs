//! Multicast groups of a UD queue pair.

use libc::c_int;

use super::dispatch::dispatch;
use crate::abi::*;

dispatch! {
    /// Lets a queue pair receive what is sent to the group (ibv_attach_mcast(3)). `lid` in host
    /// order. Returns 0 or an errno value.
    ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int
        => [(*qp).context] attach_mcast(qp, gid, lid);

    /// Undoes `ibv_attach_mcast` (ibv_attach_mcast(3)). Returns 0 or an errno value.
    ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int
        => [(*qp).context] detach_mcast(qp, gid, lid);
}
