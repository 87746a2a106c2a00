//! The send queue as a sequence of packets: which of them are in flight, and which one is sent next.
//!
//! Not here: whether that one may be sent now (`super`), and when it is retransmitted (`timers`).
//!
//! Invariant: `oldest_unacked <= next <= highest_sent`, less than 2^23 apart, so that a PSN identifies a
//! packet in flight.

use crate::engine::Completion;
use crate::engine::send_queue::{self, Finished, OpClass, SendQueue, Wqe, WqeState};
use crate::wire::Psn;

/// The send queue, and the position of the packets in flight.
#[derive(Debug, Default)]
pub struct SendWindow {
    queue: SendQueue,
    /// The oldest packet that is not acknowledged.
    oldest_unacked: u64,
    /// The packet to send next: `highest_sent`, or an earlier one during a retransmission.
    next: u64,
    /// The packet after the last one that has ever been sent.
    highest_sent: u64,
    /// The index of the WQE that `next` belongs to.
    current: usize,
    /// READ, atomic, ATOMIC WRITE and FLUSH requests before `next` without a complete response. Each
    /// occupies one of the peer's `max_dest_rd_atomic` resources.
    rd_atomic_in_flight: u32,
}

impl SendWindow {
    /// The empty window of a new connection, whose first packet has that PSN.
    pub(super) fn starting_at(psn: Psn) -> SendWindow {
        let packet = send_queue::first_packet(psn);
        SendWindow {
            queue: SendQueue::starting_at(packet),
            oldest_unacked: packet,
            next: packet,
            highest_sent: packet,
            ..SendWindow::default()
        }
    }

    /// The send queue.
    #[inline]
    pub fn queue(&self) -> &SendQueue {
        &self.queue
    }

    /// The send queue, to append a WQE.
    #[inline]
    pub fn queue_mut(&mut self) -> &mut SendQueue {
        &mut self.queue
    }

    /// The oldest packet that is not acknowledged.
    #[inline]
    pub fn oldest_unacked(&self) -> u64 {
        self.oldest_unacked
    }

    /// The packet to send next.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The packet after the last one that has ever been sent.
    #[inline]
    pub fn highest_sent(&self) -> u64 {
        self.highest_sent
    }

    /// READ, atomic, ATOMIC WRITE and FLUSH requests in flight.
    #[inline]
    pub fn rd_atomic_in_flight(&self) -> u32 {
        self.rd_atomic_in_flight
    }

    /// The PSN of the packet to send next (`sq_psn` of `ibv_query_qp`).
    pub fn next_psn(&self) -> Psn {
        send_queue::psn(self.next)
    }

    /// Packets of posted WQEs from `next` on.
    pub fn unsent(&self) -> u64 {
        self.queue.end() - self.next
    }

    /// Whether packets have been sent that are not acknowledged.
    #[inline]
    pub fn is_in_flight(&self) -> bool {
        self.oldest_unacked < self.highest_sent
    }

    /// Whether nothing is in flight, and no message has been sent in part.
    pub fn is_idle(&self) -> bool {
        let begins = |wqe: &Wqe| wqe.first >= self.highest_sent;
        !self.is_in_flight() && self.queue.front().is_none_or(begins)
    }

    /// The WQE that the packet to send next belongs to; None if all are sent.
    #[inline]
    pub fn current(&self) -> Option<&Wqe> {
        self.queue.get(self.current)
    }

    /// Whether all WQEs before the current one have completed.
    #[inline]
    pub fn is_at_oldest(&self) -> bool {
        self.current == 0
    }

    /// The WQE behind the current one.
    #[inline]
    pub fn following(&self) -> Option<&Wqe> {
        self.queue.get(self.current + 1)
    }

    /// Whether there is a WQE that is not sent completely, or a local operation that is not executed.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.current < self.queue.len()
    }

    /// The packet that a PSN in a response stands for: one in flight or an older one. None if it has not been
    /// sent.
    #[inline]
    pub fn sent_packet(&self, psn: Psn) -> Option<u64> {
        let packet = send_queue::nearest_packet(psn, self.oldest_unacked);
        (packet < self.highest_sent).then_some(packet)
    }

    /// The packet after the last WQE that has begun.
    pub fn begun_end(&self) -> u64 {
        let has_begun = |wqe: &&Wqe| wqe.first < self.highest_sent;
        let begun = self.queue.iter().rev().find(has_begun);
        begun.map_or(self.highest_sent, |wqe| wqe.end)
    }

    /// Whether a READ or atomic that begins before `packet` still needs a response before that.
    pub fn awaits_response_before(&self, packet: u64) -> bool {
        let in_flight = self
            .queue
            .iter()
            .filter(|wqe| wqe.end > self.oldest_unacked);
        let mut before = in_flight.take_while(|wqe| wqe.first.max(self.oldest_unacked) < packet);
        before.any(|wqe| matches!(wqe.class(), OpClass::Read | OpClass::Atomic))
    }

    /// The packet after the last READ in flight behind which another operation has been sent. None if there
    /// is no such READ.
    pub fn followed_reads_end(&self) -> Option<u64> {
        let in_flight = |wqe: &&Wqe| {
            wqe.first < self.highest_sent
                && wqe.end > self.oldest_unacked
                && wqe.class() != OpClass::Local
        };
        let (mut last, mut followed) = (None, None);
        for wqe in self.queue.iter().filter(in_flight) {
            match wqe.class() {
                OpClass::Read => last = Some(wqe.end),
                _ => followed = last,
            }
        }
        followed
    }

    /// [`SendQueue::next_finished`].
    #[inline]
    pub fn next_finished(&mut self) -> Option<Finished> {
        let oldest_unacked = self.oldest_unacked;
        let is_acked = |wqe: &Wqe| wqe.end > wqe.first && wqe.end <= oldest_unacked;
        let finished = self.queue.next_finished(is_acked)?;
        if matches!(finished, Finished::Success { .. }) {
            self.current = self.current.saturating_sub(1);
        }
        Some(finished)
    }
}

/// The changes of the requester.
impl SendWindow {
    /// Goes on to the next WQE.
    #[inline]
    pub(super) fn skip(&mut self) {
        self.current += 1;
    }

    /// Changes the state of the current WQE.
    pub(super) fn set_state(&mut self, state: WqeState) {
        self.queue.set_state(self.current, state);
    }

    /// The packets from `next` to `end` have been sent: a request of the current WQE, which has that class
    /// and ends at `wqe_end`. Returns whether it was sent for the first time.
    #[inline]
    pub(super) fn on_sent(&mut self, end: u64, wqe_end: u64, class: OpClass) -> bool {
        if class != OpClass::Acked {
            self.rd_atomic_in_flight += 1;
        }
        if end >= wqe_end {
            self.current += 1;
        }
        let is_first = self.next >= self.highest_sent;
        self.next = end;
        self.highest_sent = self.highest_sent.max(end);
        is_first
    }

    /// Every packet before `end` has been sent, none of which is acknowledged: each WQE is complete with its
    /// last packet.
    pub(super) fn on_sent_unreliable(&mut self, end: u64, is_last: bool) {
        (self.next, self.highest_sent) = (end, end);
        if is_last {
            self.oldest_unacked = end;
        }
    }

    /// The peer has executed every packet before `end`. False if one of them is a READ or atomic request
    /// whose response has not arrived: then only the packets before it are acknowledged.
    #[inline(always)]
    pub(super) fn on_ack(&mut self, end: u64) -> bool {
        for wqe in self.queue.iter() {
            if self.oldest_unacked >= end {
                break;
            }
            if wqe.end <= self.oldest_unacked {
                continue;
            }
            match wqe.class() {
                OpClass::Read | OpClass::Atomic => break,
                OpClass::EmptyResponse => {
                    self.rd_atomic_in_flight = self.rd_atomic_in_flight.saturating_sub(1);
                }
                OpClass::Acked | OpClass::Local => {}
            }
            self.oldest_unacked = end.min(wqe.end);
        }
        self.oldest_unacked >= end
    }

    /// The response to the oldest packet was taken; `ends`: the last one of its request.
    pub(super) fn on_response(&mut self, ends: bool) {
        self.oldest_unacked += 1;
        if ends {
            self.rd_atomic_in_flight = self.rd_atomic_in_flight.saturating_sub(1);
        }
    }

    /// After a late acknowledgment: a retransmission skips what is acknowledged.
    #[inline]
    pub(super) fn catch_up(&mut self) {
        if self.next <= self.oldest_unacked {
            self.rewind();
        }
    }

    /// The next packet is the oldest one that is not acknowledged.
    pub(super) fn rewind(&mut self) {
        self.next = self.oldest_unacked;
        self.current = 0;
        self.rd_atomic_in_flight = 0;
    }

    /// WQE number `index` is the current one: it fails.
    pub(super) fn set_current(&mut self, index: usize) {
        self.current = index;
    }

    /// Nothing of the WQEs in the queue counts as sent: the next packet is the first one of the oldest WQE.
    pub fn restart(&mut self) {
        let first = self.queue.front().map_or(self.queue.end(), |wqe| wqe.first);
        (self.oldest_unacked, self.next, self.highest_sent) = (first, first, first);
        self.current = 0;
    }

    /// Removes all WQEs and returns their completions, oldest first. Later WQEs go on with the next PSN.
    pub(super) fn flush(&mut self) -> impl Iterator<Item = Completion> {
        (self.oldest_unacked, self.next) = (self.highest_sent, self.highest_sent);
        self.current = 0;
        self.queue.flush(self.highest_sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Data, SendFlags, SendOp, Sge};

    /// A window with a WQE for each operation, of that many bytes, with an MTU of 1024.
    fn window(wqes: &[(SendOp, u32)]) -> SendWindow {
        let mut window = SendWindow::starting_at(Psn::new(0xff_fffe));
        for (op, len) in wqes {
            let wr = window.queue_mut().next_wr().unwrap();
            wr.begin(1, *op, SendFlags::default());
            let (addr, lkey) = (0, 1);
            wr.data = Data::Sges(
                [Sge {
                    addr,
                    len: *len,
                    lkey,
                }]
                .as_slice()
                .into(),
            );
            window.queue_mut().push_next(1024);
        }
        window
    }

    /// Sends the next request.
    fn send(window: &mut SendWindow) -> bool {
        let wqe = window.current().unwrap();
        let (end, class) = (wqe.request_end(window.next(), 1024), wqe.class());
        let is_first = window.on_sent(end, wqe.end, class);
        window.check_invariants();
        is_first
    }

    const READ: SendOp = SendOp::Read { va: 0, rkey: 0 };

    #[test]
    fn a_retransmission_begins_at_the_oldest_packet() {
        let mut window = window(&[(SendOp::Send, 2500), (SendOp::Send, 10)]);
        assert!(window.is_idle() && (0..4).all(|_| send(&mut window)));
        assert!(!window.has_unsent() && window.next_psn() == Psn::new(2));
        let oldest = window.sent_packet(Psn::new(0xff_ffff)).unwrap();
        assert!(window.on_ack(oldest) && window.next_finished().is_none());
        assert_eq!(window.sent_packet(Psn::new(2)), None);
        window.rewind();
        assert!(window.oldest_unacked() == oldest && !send(&mut window));
        // All has arrived after all: nothing else is retransmitted.
        assert!(window.on_ack(window.highest_sent()));
        window.catch_up();
        assert!(!window.is_in_flight() && window.next() == window.highest_sent());
        let mut finished = || window.next_finished();
        assert!(finished().is_some() && finished().is_some() && finished().is_none());
    }

    #[test]
    fn an_ack_does_not_stand_for_a_read_response() {
        let mut window = window(&[(SendOp::Send, 1), (READ, 2000), (SendOp::Send, 1)]);
        (0..3).for_each(|_| assert!(send(&mut window)));
        assert_eq!((window.rd_atomic_in_flight(), window.unsent()), (1, 0));
        assert!(!window.on_ack(window.highest_sent()));
        window.on_response(false);
        assert_eq!(window.rd_atomic_in_flight(), 1);
        window.on_response(true);
        assert!(window.on_ack(window.highest_sent()) && window.rd_atomic_in_flight() == 0);
    }

    #[test]
    fn what_was_flushed_is_neither_in_flight_nor_unsent() {
        let mut window = window(&[(SendOp::Send, 2000), (SendOp::Send, 1)]);
        send(&mut window);
        assert_eq!(window.begun_end() - window.next(), 1);
        assert_eq!(window.flush().count(), 2);
        assert!(window.is_idle() && window.unsent() == 0 && !window.has_unsent());
        assert_eq!(window.next_psn(), Psn::new(0xff_ffff));
    }
}
