//! Why nothing comes to a CQ that is polled: datagrams that went elsewhere, queue pairs that the program has
//! ended, and requests that were done before.

use ibverbs_abi::*;

use super::connection;
use super::wait::{Reason, Wait};
use super::{IN_THIS_PROCESS, Qp};
use crate::diagnose::check::gid;
use crate::diagnose::peer_facts::Peer;

impl Wait<'_> {
    /// Datagrams that this process has sent to a group to which none of its queue pairs is attached, though
    /// one of them waits.
    fn group_not_joined(&self, qp: &Qp) -> Option<Reason> {
        if qp.receives.is_empty() || qp.sends.posted() > 0 {
            return None;
        }
        let of_device = |of: &&Qp| of.context == qp.context && of.kind == IBV_QPT_UD;
        let group_of = |of: &Qp| match of.sends.last_datagram() {
            (0xff_ffff, ah) => self.ahs.group_of(ah).map(|group| (of.number, group)),
            _ => None,
        };
        let (sender, group) = self.qps.values().filter(of_device).find_map(group_of)?;
        let is_joined = self.qps.values().any(|of| of.is_attached_to(&group));
        (!is_joined).then(|| {
            let (number, group) = (qp.number, gid::address(&group));
            (
                format!(
                    "no queue pair of this process is attached to the multicast group {group}, to which \
                     queue pair {sender:#x} has sent its last datagram; queue pair {number:#x} waits"
                ),
                ATTACH,
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
            let (to, _) = of.sends.last_datagram();
            // Multicast, and the general services interface.
            // A queue pair that sends and receives has its peers in other processes, as those of UCX.
            of.number != number
                && of.sends.posted() > 0
                && to > 1
                && to != 0xff_ffff
                && !self.qps.has_number(of.context, to)
        });
        let Some(lost) = lost else {
            return self.datagrams_of_others(qp);
        };
        let why = format!(
            "no datagram has come to queue pair {number:#x}; queue pair {:#x} has sent its last one \
             to {:#x}, which is no queue pair of this process",
            lost.number,
            lost.sends.last_datagram().0
        );
        Some((
            why,
            "if it was meant for a queue pair of this process, set wr.ud.remote_qpn to its qp_num",
        ))
    }
}

impl Wait<'_> {
    /// The peer was in another process when the queue pair was connected, and is there no more. The CQ has no
    /// other queue pair, whose messages the program may wait for.
    pub(super) fn peer_has_gone(&self, qp: &Qp) -> Option<Reason> {
        let mut others = self.qps.values();
        let is_other = |of: &Qp| of.number != qp.number && of.recv_cq == qp.recv_cq;
        if others.any(is_other) {
            return None;
        }
        Some((
            connection::fate(qp)?,
            "notice the end of the peer: with librdmacm by RDMA_CM_EVENT_DISCONNECTED, else by the socket \
             that the numbers came from, or by a request now and then, which then fails",
        ))
    }

    /// A queue pair that the program has moved to ERR, whose SRQ has receives.
    pub(super) fn srq_keeps(&self, qp: &Qp) -> Option<Reason> {
        let is_ended = qp.ended().is_some_and(|of| of.state == IBV_QPS_ERR) && qp.sends.is_empty();
        let posted = self.srqs.get(&qp.srq)?.receives.outstanding();
        (is_ended && posted > 0).then(|| {
            (
                format!(
                    "queue pair {:#x} was modified to ERR, and takes its receives from an SRQ: the {posted} \
                     that are there are not flushed, but stay for other queue pairs",
                    qp.number
                ),
                "wait for the asynchronous event IBV_EVENT_QP_LAST_WQE_REACHED of the queue pair in place of \
                 flushed receives, then poll the CQ until it is empty, and destroy the queue pair",
            )
        })
    }

    /// Datagrams that other processes have sent to a group to which no queue pair here is attached, or to a
    /// queue pair of this host that no process has.
    fn datagrams_of_others(&self, qp: &Qp) -> Option<Reason> {
        let waits = qp.srq == 0 && !qp.receives.is_empty();
        if !waits || qp.sends.posted() > 0 || qp.receives.completed() > 0 {
            return None;
        }
        let number = qp.number;
        let sent = |peer: &Peer, to: String| {
            format!(
                "no datagram has come to queue pair {number:#x}; queue pair {:#x}, {}, has sent its last one \
                 to {to}",
                peer.qpn.unwrap_or(0),
                peer.place
            )
        };
        qp.evidence.senders.iter().find_map(|peer| {
            let Some((high, low)) = peer.group_high.zip(peer.group_low) else {
                let to = peer.datagram_to.unwrap_or(0);
                let to = format!("the queue pair {to:#x} of this host, which no observed process has");
                return Some((sent(peer, to), "set wr.ud.remote_qpn to qp_num of this queue pair"));
            };
            let group = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
            let is_joined = self.qps.values().any(|of| of.is_attached_to(&group));
            (!is_joined).then(|| {
                let group = gid::address(&group);
                let to = format!(
                    "the multicast group {group}, to which no queue pair of this process is attached"
                );
                (sent(peer, to), ATTACH)
            })
        })
    }
}

impl Wait<'_> {
    /// Signaled requests have all completed, and others have no completion: the thread that has posted them
    /// polls, and nothing else can come to the CQ.
    pub(super) fn counts_unsignaled(&self, cq: usize) -> Option<Reason> {
        let poller = self.cqs.get(&cq)?.pollers.last();
        let is_idle = self.qps.outstanding_on(cq) == (0, 0) && !self.qps.receives_from_srq(cq);
        if !is_idle || !self.cqs.is_only_polled(cq) {
            return None;
        }
        let counts = |qp: &&Qp| {
            let signaled = qp.sends.posted_signaled();
            let is_mixed = signaled > 0 && signaled < qp.sends.posted();
            is_mixed && qp.send_cq == cq && qp.state == IBV_QPS_RTS
        };
        let is_its = |qp: &&Qp| qp.sends.last_poster() == poller;
        let qp = self.qps.values().filter(counts).find(is_its)?;
        let (number, signaled) = (qp.number, qp.sends.posted_signaled());
        let others = qp.sends.posted() - signaled;
        Some((
            format!(
                "all {signaled} signaled requests of queue pair {number:#x} have completed, and their \
                 completions were polled; {others} others were posted without IBV_SEND_SIGNALED (sq_sig_all \
                 is 0), and get no completion of their own"
            ),
            "count one completion for each signaled request: it says that the requests before it are done, \
             too; or set IBV_SEND_SIGNALED in each request that is waited for",
        ))
    }
}

const ATTACH: &str = "call ibv_attach_mcast with the receiving queue pair and the GID of the group (with \
                      librdmacm: rdma_join_multicast)";

/// Datagrams that came to the queue pair, and that it dropped.
pub(super) fn datagrams_dropped(qp: &Qp) -> Option<Reason> {
    const COUNTERS: [(&str, &str, &str); 3] = [
        (
            "qkey_violation",
            "with a Q_Key that is not its own",
            "send with remote_qkey = the Q_Key of this queue pair (IBV_QP_QKEY, to INIT)",
        ),
        (
            "datagram_too_long",
            "that, with 40 bytes for the GRH, do not fit the receive at the head of its queue",
            "post receives of 40 bytes more than the largest datagram",
        ),
        (
            "datagram_no_recv",
            "when no receive was posted",
            "post receives before the peer sends; UD does not repeat",
        ),
    ];
    COUNTERS.iter().find_map(|(counter, how, todo)| {
        let count = qp.evidence.counter(counter).filter(|count| *count > 0)?;
        let number = qp.number;
        let why =
            format!("{count} datagrams came to queue pair {number:#x} {how}, and were dropped");
        Some((why, *todo))
    })
}

/// Whether the peer of a queue pair is the queue pair itself.
pub(super) fn is_itself(qp: &Qp, peer: &Peer) -> bool {
    peer.place == IN_THIS_PROCESS
        && [peer.qpn, peer.dest_qpn] == [Some(qp.number.into()); 2]
        && qp.connection.dest_qpn == qp.number
}

/// A queue pair that is connected to itself, waits, and has sent nothing.
pub(super) fn is_own_peer(qp: &Qp, peer: &Peer) -> Option<Reason> {
    let number = qp.number;
    (is_itself(qp, peer) && qp.sends.posted() == 0).then(|| {
        (
            format!(
                "queue pair {number:#x} is connected to itself: dest_qp_num is its own number, and grh.dgid \
                 its own GID, so that it receives only what it sends itself"
            ),
            "pass the values that the peer has sent, and not those that were sent to it, to RTR: \
             dest_qp_num, rq_psn and grh.dgid",
        )
    })
}

/// The device has failed the queue pair, because its CQ was full, and so nothing completes. `signaled`
/// requests are outstanding on the CQ, which has `entries`.
pub(super) fn overrun(qp: &Qp, signaled: usize, entries: u32) -> Option<Reason> {
    let has_failed = qp.evidence.has_failed && qp.state != IBV_QPS_ERR;
    (has_failed && signaled > entries as usize).then(|| {
        (
            format!(
                "the CQ, whose capacity is {entries}, has overrun: {signaled} more signaled requests have \
                 no completion in it, and queue pair {:#x} is in ERR",
                qp.number
            ),
            "create the CQ with max_send_wr + max_recv_wr entries of all its queue pairs; \
             ibv_get_async_event reports IBV_EVENT_CQ_ERR",
        )
    })
}

/// The program has moved the queue pair to a state in which nothing is outstanding.
pub(super) fn ended(qp: &Qp) -> Option<Reason> {
    let ended = qp.ended().filter(|_| qp.sends.is_empty())?;
    let (sends, receives) = (ended.sends, ended.receives);
    let number = qp.number;
    match (ended.state, sends + receives) {
        (IBV_QPS_ERR, 0) if qp.receives.is_empty() => Some((
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

#[cfg(test)]
mod tests {
    use super::super::handles::Handles;
    use super::super::qps::Qps;
    use super::super::registry::Registry;
    use super::super::tests::{new_qp, receive, request};
    use super::super::{Cq, Srq};
    use super::*;

    const GROUP: [u8; 16] = [0xff; 16];

    /// The parts of a wait for datagrams: the queue pair 0x11 has posted a receive and waits, and 0x12 sends.
    struct Parts {
        cqs: Registry<Cq>,
        qps: Qps,
        srqs: Registry<Srq>,
        ahs: Handles,
    }

    impl Parts {
        fn new() -> Parts {
            let (mut cqs, mut qps) = (Registry::new(), Qps::new());
            cqs.add(20, Cq::new(1, 100, (0, -1), false));
            for (at, number) in [(30, 0x11), (31, 0x12)] {
                let mut created = new_qp(number);
                created.kind = IBV_QPT_UD;
                let mut qp = Qp::new(at, created, false);
                qp.state = IBV_QPS_RTS;
                qps.add(at, qp);
            }
            qps.change(30, |qp| qp.receives.post([receive(1, 7)]));
            let (srqs, ahs) = (Registry::new(), Handles::new());
            Parts {
                cqs,
                qps,
                srqs,
                ahs,
            }
        }

        /// The queue pair at `from` sends a datagram.
        fn send(&mut self, from: usize, remote_qpn: u32, ah: usize) {
            let mut datagram = request(1, 7);
            (datagram.remote_qpn, datagram.ah) = (remote_qpn, ah);
            self.qps.change(from, |qp| qp.sends.record([datagram]));
        }

        /// The reason why no datagram comes to 0x11.
        fn reason(&self) -> String {
            let wait = Wait {
                cqs: &self.cqs,
                qps: &self.qps,
                srqs: &self.srqs,
                ahs: &self.ahs,
                unread: |_| Some(0),
            };
            let waits = self.qps.get(&30).expect("it was added");
            wait.datagrams_elsewhere(waits).unwrap_or_default().0
        }
    }

    #[test]
    fn datagrams_to_a_number_that_no_queue_pair_has() {
        let mut parts = Parts::new();
        assert_eq!(parts.reason(), "");
        parts.send(31, 0x11, 5);
        assert_eq!(parts.reason(), "", "to the one that waits");
        parts.send(31, 0x77, 5);
        assert!(parts.reason().contains("has sent its last one to 0x77"));
        parts.send(31, 1, 5);
        assert_eq!(parts.reason(), "", "the general services interface");
        parts.send(30, 0x77, 5);
        assert_eq!(parts.reason(), "", "its own are for other processes");
    }

    #[test]
    fn datagrams_to_a_group_without_members() {
        let mut parts = Parts::new();
        parts.ahs.create(5, 10, Some(GROUP), false);
        parts.send(31, 0xff_ffff, 5);
        assert!(
            parts
                .reason()
                .contains("is attached to the multicast group")
        );
        parts.qps.change(30, |qp| qp.attach(GROUP, true));
        assert_eq!(parts.reason(), "");
        parts.qps.change(30, |qp| qp.attach(GROUP, false));
        parts.send(30, 0x12, 6);
        assert_eq!(parts.reason(), "", "it sends itself");
    }

    #[test]
    fn queue_pairs_that_the_program_has_ended() {
        let mut qp = Qp::new(30, new_qp(0x11), false);
        assert_eq!(ended(&qp), None);
        qp.enter_state(IBV_QPS_ERR);
        assert!(ended(&qp).unwrap().0.contains("nothing is flushed"));
        qp.enter_state(IBV_QPS_RTS);
        qp.sends.record([request(1, 7)]);
        qp.enter_state(IBV_QPS_ERR);
        qp.sends.finish_to(0);
        assert_eq!(ended(&qp), None, "what was outstanding is flushed");
        qp.enter_state(IBV_QPS_RTS);
        qp.sends.record([request(1, 7)]);
        qp.receives.post(vec![receive(1, 7), receive(2, 7)]);
        qp.enter_state(IBV_QPS_RESET);
        let (why, _) = ended(&qp).unwrap();
        assert!(why.contains("dropped 1 requests and 2 receives"), "{why}");
        qp.sends.record([request(1, 7)]);
        assert_eq!(ended(&qp), None, "it is used again");
    }

    #[test]
    fn an_overrun_fails_the_queue_pair() {
        let mut qp = Qp::new(30, new_qp(0x11), false);
        qp.state = IBV_QPS_RTS;
        assert_eq!(overrun(&qp, 3, 2), None);
        qp.evidence.has_failed = true;
        assert!(overrun(&qp, 3, 2).is_some());
        assert_eq!(overrun(&qp, 2, 2), None, "it has room for all");
        qp.state = IBV_QPS_ERR;
        assert_eq!(overrun(&qp, 3, 2), None, "the program knows the state");
    }
}
