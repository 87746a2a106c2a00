//! Multicast group membership.

use libc::c_int;

use super::twin::forward;
use super::types::*;
use crate::abi::*;
use crate::verbs;

forward! {
    /// Attaches a queue pair to a multicast group (ibv_attach_mcast(3)). `lid` is in host byte order. Returns
    /// 0 or an errno value.
    ibv_attach_mcast_1_0(qp: ibv_qp_1_0 => real_qp, gid: *mut ibv_gid, lid: u16) -> c_int
        = verbs::mcast::ibv_attach_mcast;

    /// Detaches a queue pair from a multicast group (ibv_attach_mcast(3)). Returns 0 or an errno value.
    ibv_detach_mcast_1_0(qp: ibv_qp_1_0 => real_qp, gid: *mut ibv_gid, lid: u16) -> c_int
        = verbs::mcast::ibv_detach_mcast;
}
