//! More of why nothing comes to a CQ that is polled: datagrams that went elsewhere, and queue pairs that the
//! program has ended.

use ibverbs_abi::*;

use super::{Qp, Shadow};
use crate::diagnose::check::gid;

/// A reason, and what to do.
pub type Reason = (String, &'static str);

impl Shadow {
    /// A queue pair has been attached to a group, or detached from it.
    pub fn attached(&mut self, address: usize, group: [u8; 16], is_attached: bool) {
        if let Some(qp) = self.qps.get_mut(&address) {
            qp.groups.retain(|of| *of != group);
            if is_attached {
                qp.groups.push(group);
            }
        }
    }

    /// Datagrams that this process has sent to a group to which none of its queue pairs is attached, though
    /// one of them waits.
    fn group_not_joined(&self, qp: &Qp) -> Option<Reason> {
        if qp.receives.list.is_empty() || qp.sends_posted > 0 {
            return None;
        }
        let of_device = |of: &&Qp| of.context == qp.context && of.kind == IBV_QPT_UD;
        let group_of = |of: &Qp| match of.last_remote_qpn {
            0xff_ffff => self
                .group_ahs
                .get(&of.last_ah)
                .map(|group| (of.number, *group)),
            _ => None,
        };
        let (sender, group) = self.qps.values().filter(of_device).find_map(group_of)?;
        let is_joined = self.qps.values().any(|of| of.groups.contains(&group));
        (!is_joined).then(|| {
            let (number, group) = (qp.number, gid::address(&group));
            (
                format!(
                    "no queue pair of this process is attached to the multicast group {group}, to which \
                     queue pair {sender:#x} has sent its last datagram; queue pair {number:#x} waits"
                ),
                "call ibv_attach_mcast with the receiving queue pair and the GID of the group (with \
                 librdmacm: rdma_join_multicast)",
            )
        })
    }

    /// Datagrams that this process has sent to a queue pair that it does not have, while one of its own
    /// waits.
    pub(super) fn datagrams_elsewhere(&self, qp: &Qp) -> Option<Reason> {
        let number = qp.number;
        let of_device = |of: &&Qp| of.context == qp.context && of.kind == IBV_QPT_UD;
        if let Some(reason) = self.group_not_joined(qp) {
            return Some(reason);
        }
        let mut senders = self.qps.values().filter(of_device);
        let lost = senders.find(|of| {
            let to = of.last_remote_qpn;
            // Multicast, and the general services interface.
            // A queue pair that sends and receives has its peers in other processes, as those of UCX.
            of.number != number
                && of.sends_posted > 0
                && to > 1
                && to != 0xff_ffff
                && !self.has_number(of.context, to)
        })?;
        let why = format!(
            "no datagram has come to queue pair {number:#x}; queue pair {:#x} has sent its last one \
             to {:#x}, \
             which is no queue pair of this process",
            lost.number, lost.last_remote_qpn
        );
        Some((
            why,
            "if it was meant for a queue pair of this process, set wr.ud.remote_qpn to its qp_num",
        ))
    }
}

/// The program has moved the queue pair to a state in which nothing is outstanding.
pub(super) fn ended(qp: &Qp) -> Option<Reason> {
    let (state, sends, receives) = qp.ended.filter(|_| qp.sends.is_empty())?;
    let number = qp.number;
    match (state, sends + receives) {
        (IBV_QPS_ERR, 0) if qp.receives.list.is_empty() => Some((
            format!(
                "queue pair {number:#x} was modified to ERR when it had no request and no receive \
                 outstanding, so that nothing is flushed"
            ),
            "wait only for the completions of what is outstanding; a request that is posted in ERR is \
             flushed, and shows that all before it are done",
        )),
        (IBV_QPS_RESET, 1..) => Some((
            format!(
                "queue pair {number:#x} was modified to RESET, which dropped {sends} requests and {receives} \
                 receives without a completion"
            ),
            "modify it to ERR first, poll the completions of all that is flushed, and then to RESET",
        )),
        _ => None,
    }
}
