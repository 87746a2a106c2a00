//! All queue pairs of the process: by their addresses and numbers, who is connected to whom, and what is
//! outstanding on them.

use core::ops::Deref;
use std::collections::{BTreeMap, VecDeque};

use super::devices::Devices;
use super::qp::{NewQp, Qp};
use super::registry::{Registry, push_bounded};
use super::request::Completion;
use crate::diagnose::finding::{Kind, Object};

/// More destroyed queue pairs than this are forgotten.
const MAX_GONE: usize = 1024;
/// The most queue pairs of a CQ of which both ends are examined.
const MAX_EXAMINED: usize = 8;

/// The queue pairs of the process. It derefs to the registry, which only methods of this one change, so that
/// the numbers are those of the queue pairs in it.
pub struct Qps {
    all: Registry<Qp>,
    /// The addresses by context and number.
    numbers: BTreeMap<(usize, u32), usize>,
    /// Devices and numbers of queue pairs that were destroyed, the latest last.
    gone: VecDeque<(String, u32)>,
    /// How many requests were posted to them.
    requests: u64,
}

impl Deref for Qps {
    type Target = Registry<Qp>;

    fn deref(&self) -> &Registry<Qp> {
        &self.all
    }
}

impl Qps {
    pub const fn new() -> Qps {
        Qps {
            all: Registry::new(),
            numbers: BTreeMap::new(),
            gone: VecDeque::new(),
            requests: 0,
        }
    }

    /// Adds a queue pair that is created, or was not destroyed.
    pub fn add(&mut self, address: usize, qp: Qp) {
        self.numbers.insert((qp.context, qp.number), address);
        self.all.add(address, qp);
    }

    /// Takes a queue pair out, before it is destroyed.
    pub fn take(&mut self, address: usize) -> Option<Qp> {
        let qp = self.all.take(address)?;
        self.numbers.remove(&(qp.context, qp.number));
        Some(qp)
    }

    /// Takes out the queue pairs of a context, whose device is closed. Returns their addresses.
    pub fn close(&mut self, context: usize) -> Vec<usize> {
        self.numbers.retain(|(of, _), _| *of != context);
        self.all.take_all(|qp| qp.context == context)
    }

    /// Remembers a queue pair that is destroyed: its peer may miss it.
    pub fn remember(&mut self, device: &str, qp: &NewQp) {
        push_bounded(&mut self.gone, MAX_GONE, (device.into(), qp.number));
    }

    pub fn get_mut(&mut self, address: &usize) -> Option<&mut Qp> {
        self.all.get_mut(address)
    }

    /// As [`Registry::change`].
    pub fn change<R: Default>(&mut self, address: usize, change: impl FnOnce(&mut Qp) -> R) -> R {
        self.all.change(address, change)
    }

    /// Takes serial numbers for this many requests. Returns the first.
    pub fn take_serials(&mut self, count: usize) -> u64 {
        let first = self.requests;
        self.requests += count as u64;
        first
    }

    /// Why no asynchronous event comes for the queue pairs of a context, and what to do.
    pub fn no_async_event(&self, context: usize) -> (String, &'static str) {
        let mut all = self.values().filter(|qp| qp.context == context);
        match all.find(|qp| qp.drains_unnoticed) {
            Some(qp) => (
                format!(
                    "queue pair {:#x} was modified to SQD without asking for IBV_EVENT_SQ_DRAINED, which \
                     comes only then",
                    qp.number
                ),
                "set en_sqd_async_notify to 1, and IBV_QP_EN_SQD_ASYNC_NOTIFY in the mask, when the queue \
                 pair is modified to SQD",
            ),
            None => (
                "asynchronous events tell of ports, errors and limits, and never of requests and receives"
                    .into(),
                "poll the CQs, or wait for completions with ibv_get_cq_event; read asynchronous events in a \
                 thread of their own",
            ),
        }
    }

    /// How many requests were posted.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The queue pair as an object of messages.
    pub fn object(&self, address: usize) -> Object {
        match self.get(&address) {
            Some(qp) => qp.object(),
            None => Object::at(Kind::Qp, address),
        }
    }

    /// The queue pair at the other end, if it is in this process: it has the number that this one names,
    /// and the source GID that is this one's destination, or is on the same device if the destination is
    /// this queue pair's own address.
    pub fn peer(&self, qp: &Qp, devices: &Devices) -> Option<&Qp> {
        let connection = &qp.connection;
        if !connection.receives {
            return None;
        }
        let loops_back = connection.sgid == connection.dgid;
        let is_peer = |peer: &&Qp| {
            peer.number == connection.dest_qpn
                && (peer.address != qp.address || qp.number == connection.dest_qpn)
                && if peer.connection.receives {
                    peer.connection.sgid == connection.dgid
                } else {
                    loops_back && devices.name(peer.context) == devices.name(qp.context)
                }
        };
        self.values().find(is_peer)
    }

    /// Whether the peer was a queue pair of this process that has been destroyed.
    pub fn peer_is_gone(&self, qp: &Qp, devices: &Devices) -> bool {
        let connection = &qp.connection;
        let device = devices.name(qp.context);
        let is_it = |(of, number): &(String, u32)| of == device && *number == connection.dest_qpn;
        connection.sgid == connection.dgid && self.gone.iter().any(is_it)
    }

    /// Whether a context has a queue pair of this number.
    pub fn has_number(&self, context: usize, number: u32) -> bool {
        self.numbers.contains_key(&(context, number))
    }

    /// A queue pair of this process that names `number` as its peer.
    pub fn naming(&self, number: u32) -> Option<&Qp> {
        let mut all = self.values();
        all.find(|qp| qp.connection.receives && qp.connection.dest_qpn == number)
    }

    /// The queue pair of a completion. Without its number: the only one that has the request outstanding.
    pub fn of_completion(
        &self,
        context: usize,
        cq: usize,
        completion: &Completion,
    ) -> Option<usize> {
        if completion.qpn != 0 {
            return self.numbers.get(&(context, completion.qpn)).copied();
        }
        let id = completion.wr_id;
        let has = |qp: &Qp| {
            qp.send_cq == cq && qp.sends.iter().any(|request| request.wr_id == id)
                || qp.recv_cq == cq && qp.receives.position(id).is_some()
        };
        let mut having = self.iter().filter(|(_, qp)| has(qp));
        let only = having.next()?;
        having.next().is_none().then_some(*only.0)
    }

    /// Queue pairs with completions on these CQs; the first few.
    pub fn on_cqs(&self, cqs: &[usize]) -> Vec<usize> {
        let uses = |qp: &Qp| cqs.contains(&qp.send_cq) || cqs.contains(&qp.recv_cq);
        let all = self.iter().filter(|(_, qp)| uses(qp));
        all.map(|(at, _)| *at).take(MAX_EXAMINED).collect()
    }

    /// Counts signaled requests and receives outstanding on a CQ.
    pub fn outstanding_on(&self, cq: usize) -> (usize, usize) {
        let mut counts = (0, 0);
        for qp in self.values() {
            if qp.send_cq == cq {
                counts.0 += qp.sends.signaled();
            }
            if qp.recv_cq == cq {
                counts.1 += qp.receives.len();
            }
        }
        counts
    }

    /// Whether something that `thread` has posted may still complete on a CQ.
    pub fn has_outstanding_of(&self, cq: usize, thread: i32) -> bool {
        self.values().any(|qp| {
            let mut sends = qp.sends.iter();
            let mut receives = qp.receives.iter();
            qp.send_cq == cq && sends.any(|of| of.signaled && of.poster == thread)
                || qp.recv_cq == cq && receives.any(|of| of.poster == thread)
        })
    }

    /// Whether receives of an SRQ complete on a CQ.
    pub fn receives_from_srq(&self, cq: usize) -> bool {
        self.values().any(|qp| qp.recv_cq == cq && qp.srq != 0)
    }

    /// A queue pair was connected.
    pub fn was_connected(&mut self, address: usize) {
        let now = self.requests;
        self.change(address, |qp| qp.resets.connected_at = now);
    }

    /// A queue pair was reset. A peer to which it has sent since that was connected still expects its PSNs.
    pub fn was_reset(&mut self, address: usize) {
        let Some(qp) = self.all.get_mut(&address) else {
            return;
        };
        qp.resets.peer_was_reset = false;
        let (number, context, last) = (qp.number, qp.context, qp.resets.last_posted);
        let is_peer = |peer: &Qp| {
            let connection = &peer.connection;
            let names_it = connection.receives && connection.dest_qpn == number;
            names_it && peer.context == context && last > peer.resets.connected_at
        };
        let is_it = |(at, peer): &(&usize, &Qp)| **at != address && is_peer(peer);
        let peer = self.all.iter().find(is_it).map(|(at, _)| *at);
        self.change(address, |qp| qp.resets.reconnects = peer.is_some());
        if let Some(peer) = peer {
            self.change(peer, |peer| peer.resets.peer_was_reset = true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{new_qp, receive, request};
    use super::*;

    /// Queue pairs at 30 and 31 with the numbers 17 and 18, connected to each other over one device.
    fn connected() -> (Qps, Devices) {
        let mut devices = Devices::new();
        devices.opened(1, "uroce0".into(), "uroce".into(), -1);
        let mut qps = Qps::new();
        for (at, number, dest) in [(30, 17, 18), (31, 18, 17)] {
            let mut qp = Qp::new(at, new_qp(number), false);
            qp.connection.receives = true;
            qp.connection.dest_qpn = dest;
            qps.add(at, qp);
        }
        (qps, devices)
    }

    #[test]
    fn numbers_are_those_of_live_queue_pairs() {
        let (mut qps, _) = connected();
        let of = |qps: &Qps| {
            let completion = Completion {
                qpn: 17,
                ..Completion::default()
            };
            qps.of_completion(1, 20, &completion)
        };
        assert_eq!(of(&qps), Some(30));
        let taken = qps.take(30).unwrap();
        assert_eq!((of(&qps), qps.has_number(1, 17)), (None, false));
        qps.add(30, taken);
        assert_eq!(of(&qps), Some(30));
        assert_eq!(qps.close(1), [30, 31]);
        assert_eq!((of(&qps), qps.on_cqs(&[20])), (None, vec![]));
    }

    #[test]
    fn a_completion_without_a_number_is_of_the_only_one_that_waits_for_it() {
        let (mut qps, _) = connected();
        let completion = Completion {
            wr_id: 5,
            ..Completion::default()
        };
        assert_eq!(qps.of_completion(1, 20, &completion), None);
        qps.change(30, |qp| qp.sends.record([request(5, 7)]));
        assert_eq!(qps.of_completion(1, 20, &completion), Some(30));
        assert_eq!(qps.of_completion(1, 21, &completion), None, "another CQ");
        qps.change(31, |qp| qp.receives.post([receive(5, 7)]));
        assert_eq!(qps.of_completion(1, 20, &completion), None, "two have it");
        assert_eq!(qps.outstanding_on(20), (1, 1));
    }

    #[test]
    fn threads_have_something_outstanding() {
        let (mut qps, _) = connected();
        let (mut sent, mut got) = (request(5, 7), receive(6, 7));
        (sent.poster, got.poster) = (5, 6);
        qps.change(30, |qp| qp.sends.record([sent]));
        qps.change(31, |qp| qp.receives.post([got]));
        let of = |cq| [5, 6, 7].map(|thread| qps.has_outstanding_of(cq, thread));
        assert_eq!(of(20), [true, true, false]);
        assert_eq!(of(21), [false; 3]);
    }

    #[test]
    fn peers() {
        let (mut qps, devices) = connected();
        let peer = |qps: &Qps| qps.peer(&qps.all[&30], &devices).map(|qp| qp.address);
        assert_eq!(peer(&qps), Some(31));
        assert_eq!(qps.naming(17).map(|qp| qp.number), Some(18));
        let gone = qps.take(31).unwrap();
        assert_eq!(peer(&qps), None);
        assert!(!qps.peer_is_gone(&qps.all[&30], &devices));
        qps.remember(devices.name(1), &gone);
        assert!(qps.peer_is_gone(&qps.all[&30], &devices));
        qps.change(30, |qp| qp.connection.dest_qpn = 17);
        assert_eq!(peer(&qps), Some(30), "connected to itself");
        qps.change(30, |qp| qp.connection.dgid = [1; 16]);
        assert_eq!(peer(&qps), None, "another address");
    }

    #[test]
    fn a_reset_concerns_a_peer_that_was_sent_to() {
        let (mut qps, _) = connected();
        let resets = |qps: &Qps| {
            (
                qps.all[&30].resets.reconnects,
                qps.all[&31].resets.peer_was_reset,
            )
        };
        qps.was_connected(31);
        qps.was_reset(30);
        assert_eq!(resets(&qps), (false, false), "nothing was sent");
        let first = qps.take_serials(1);
        qps.change(30, |qp| qp.record([request(1, 7)].into(), first));
        qps.was_reset(30);
        assert_eq!(resets(&qps), (true, true));
        qps.was_reset(31);
        assert!(!resets(&qps).1, "it is reset, too");
    }
}
