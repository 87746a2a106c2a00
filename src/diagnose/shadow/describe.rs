//! A queue pair of this process, as it is described to its peer here or in another process.

use ibverbs_abi::IBV_QPT_UD;

use super::{Qp, Receive, Shadow};
use crate::diagnose::peer_facts::Peer;

/// The text by which messages name a peer in this process.
pub const IN_THIS_PROCESS: &str = "in this process";

impl Shadow {
    /// A UD queue pair of this process that has sent datagrams, best to the queue pair `qpn`; and where its
    /// last one went.
    pub fn datagram_sender(&self, qpn: u32) -> Option<Peer> {
        let sends = |qp: &&Qp| qp.kind == IBV_QPT_UD && qp.sends.posted() > 0;
        let all = || self.qps.values().filter(sends);
        let to_it = all().find(|qp| qp.sends.last_datagram().0 == qpn);
        let qp = to_it.or_else(|| all().next())?;
        let (to, ah) = qp.sends.last_datagram();
        let group = self.ahs.group_of(ah).map(u128::from_be_bytes);
        Some(Peer {
            qpn: Some(qp.number.into()),
            datagram_to: Some(to.into()),
            datagram_is_local: Some(self.ahs.is_local(ah).into()),
            group_high: group.map(|group| (group >> 64) as u64),
            group_low: group.map(|group| group as u64),
            ..Peer::default()
        })
    }

    /// Describes a queue pair of this process to other processes; `rkey` is a key of its memory.
    pub fn describe(&self, address: usize, rkey: Option<u32>) -> Option<Peer> {
        let qp = self.qps.get(&address)?;
        let connection = &qp.connection;
        let receives = |value: u32| connection.receives.then_some(u64::from(value));
        let srq = self.srqs.get(&qp.srq);
        let queue = srq.map_or(&qp.receives, |srq| &srq.receives);
        let mut peer = Peer {
            place: IN_THIS_PROCESS.into(),
            qpn: Some(qp.number.into()),
            state: Some(qp.state.into()),
            kind: Some(qp.kind.into()),
            dest_qpn: receives(connection.dest_qpn),
            path_mtu: receives(connection.mtu),
            first_rq_psn: receives(connection.rq_psn),
            first_sq_psn: connection.sends.then_some(connection.sq_psn.into()),
            access: Some(qp.access.into()),
            max_dest_rd_atomic: receives(connection.max_dest_rd_atomic.into()),
            min_rnr_timer: receives(connection.min_rnr_timer.into()),
            has_srq: Some(srq.is_some().into()),
            sends_posted: Some(qp.sends.posted()),
            sends_consuming: Some(qp.sends.consuming()),
            posted: Some(queue.posted()),
            consumed: Some(queue.completed()),
            waits_ms: self.cqs.waits_ms(qp.recv_cq),
            posted_ms_ago: queue
                .last_posted()
                .map(|last| last.elapsed().as_millis() as u64),
            room: qp.receives.first().map(Receive::room),
            error_status: qp.first_error.as_ref().map(|error| error.status.into()),
            knows_keys: Some(1),
            ..Peer::default()
        };
        peer.had_windows = Some(self.pds.had_windows(qp.pd).into());
        let Some(rkey) = rkey else { return Some(peer) };
        let window = self.mws.part(qp.context, rkey);
        peer.window_lost = self.mws.lost_because(qp.context, rkey).map(|_| 1);
        let live = self.mrs.by_rkey(qp.context, rkey).or(window.as_ref());
        let dead = || self.mrs.deregistered_by_rkey(qp.context, rkey);
        let reversed = || self.mrs.by_rkey(qp.context, rkey.swap_bytes());
        if let Some(mr) = live.or_else(dead) {
            peer.key_is_live = Some(live.is_some().into());
            peer.mr_start = Some(mr.start);
            peer.mr_length = Some(mr.length);
            peer.mr_access = Some(mr.access.into());
            peer.mr_same_pd = Some(self.pds.are_same(mr.pd, qp.pd).into());
            peer.mr_unmapped = Some(super::failure::is_unmapped(mr).into());
        } else if let Some(mr) = reversed() {
            peer.key_reversed = Some(1);
            (peer.mr_start, peer.mr_length) = (Some(mr.start), Some(mr.length));
        }
        Some(peer)
    }
}
