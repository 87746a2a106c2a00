//! Selective retransmission: only the packet that a NAK asks for is sent again, if the peer keeps what it
//! received behind it.
//!
//! uroce's responder keeps it (`responder::early`), and so do some RNICs; kernel rxe and others drop it. No
//! packet says so, but the acknowledgment of the packet that was sent again does: one that covers later
//! packets shows that they were kept. If it covers that packet alone, the peer has dropped what came behind
//! it, and all of that is retransmitted.
//!
//! A NAK may be lost, and the packet that was sent again, and the last ones before a pause. So the oldest
//! packet is sent alone, too, if no acknowledgment comes for some round trips: a probe, earlier than the
//! RTO, and without a reduction of the congestion window.

use std::time::Duration;

use super::window::SendWindow;
use crate::engine::Time;
use crate::engine::rtt::RttEstimator;
use crate::engine::send_queue::{OpClass, WqeState};

/// The shortest time after which a packet is sent alone once more, without an acknowledgment.
const MIN_INTERVAL: Duration = Duration::from_micros(500);
/// How often a packet is sent alone before the RTO.
const MAX_TRIES: u8 = 3;
/// Packets that are sent alone among those in flight at the first loss. If more of them were lost, all are
/// retransmitted: that takes one round trip, and sending them alone one for each.
const MAX_ALONE: u8 = 4;
/// Acknowledgments in a row that cover only the packet that was sent alone, from a peer that has kept
/// packets: more packets in a row were lost, or it does not keep them any more.
const MAX_SINGLE: u8 = 2;
/// The first and the largest number of losses before selective retransmission is tried again with a peer that
/// has dropped packets.
const PAUSE: (u32, u32) = (8, 1024);

/// The retransmission of one packet, and what is known of the peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Selective {
    attempt: Option<Attempt>,
    peer: PeerKeeps,
    /// A probe was sent since the last acknowledgment.
    has_probed: bool,
    /// Packets sent alone among those before `recovery_end`.
    count: u8,
    /// The packet after the last one that was sent when the first of them was lost.
    recovery_end: u64,
    /// The acknowledgment of the packet shows that the one behind it is missing.
    is_missing: bool,
    /// The acknowledgment shows that the peer has got none of those behind it.
    are_all_missing: bool,
    /// The whole flight is retransmitted after a NAK.
    all_after_nak: bool,
}

/// A packet that is sent alone.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    packet: u64,
    /// It is to be sent now, out of its turn. Otherwise it was sent, and is not acknowledged.
    is_due: bool,
    /// It is sent because no acknowledgment had come, not because of a NAK.
    is_probe: bool,
    /// How often it was sent alone.
    tries: u8,
    /// When it was sent alone last.
    sent_at: Time,
    /// The packet after the last one that was sent before it.
    end: u64,
}

impl Attempt {
    /// The oldest packet is to be sent alone, after `tries` times.
    fn new(window: &SendWindow, is_probe: bool, tries: u8) -> Attempt {
        Attempt {
            packet: window.oldest_unacked(),
            is_due: true,
            is_probe,
            tries,
            sent_at: Time(0),
            end: window.next(),
        }
    }
}

/// Whether the peer keeps packets that are ahead of a missing one.
#[derive(Clone, Copy, Debug)]
struct PeerKeeps {
    /// Packets in a row whose acknowledgment covered no other one, though later ones had been sent before.
    single: u8,
    /// How many of them a peer may have lost.
    max_single: u8,
    /// Losses until selective retransmission is tried again.
    pause: u32,
    /// The length of the next pause.
    next_pause: u32,
}

impl Default for PeerKeeps {
    fn default() -> PeerKeeps {
        PeerKeeps {
            single: 0,
            max_single: 0,
            pause: 0,
            next_pause: PAUSE.0,
        }
    }
}

impl PeerKeeps {
    /// The peer has kept packets behind one that was sent alone.
    fn on_kept(&mut self) {
        (self.single, self.max_single) = (0, MAX_SINGLE);
        self.next_pause = PAUSE.0;
    }

    /// The peer has kept packets though all were to be sent again.
    fn on_kept_all(&mut self) {
        (self.pause, self.next_pause) = (0, PAUSE.0);
        self.max_single = MAX_SINGLE;
    }

    /// The acknowledgment covers only the packet that was sent alone.
    fn on_single(&mut self) {
        if self.single < self.max_single {
            self.single += 1;
        } else {
            self.pause();
        }
    }

    /// The peer drops what comes behind a missing packet.
    fn pause(&mut self) {
        (self.single, self.max_single) = (0, 0);
        self.pause = self.next_pause;
        self.next_pause = (self.next_pause * 2).min(PAUSE.1);
    }

    /// Whether this loss is one of those for which selective retransmission is not tried.
    fn is_paused(&mut self) -> bool {
        let is_paused = self.pause > 0;
        self.pause = self.pause.saturating_sub(1);
        is_paused
    }
}

impl Selective {
    /// Whether a packet waits to be sent out of its turn.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.attempt.is_some_and(|attempt| attempt.is_due)
    }

    /// Ends selective retransmission: everything that is not acknowledged is retransmitted.
    pub fn stop(&mut self) {
        self.attempt = None;
        (self.is_missing, self.are_all_missing) = (false, false);
        self.all_after_nak = false;
    }

    /// Lets everything that is not acknowledged be retransmitted because of a NAK.
    pub fn start_all(&mut self) {
        self.all_after_nak = true;
    }

    /// The packets before `oldest_unacked` are acknowledged, and those from `next` on have not been
    /// retransmitted.
    #[inline]
    pub fn on_ack(&mut self, oldest_unacked: u64, next: u64, srtt: Duration, now: Time) {
        self.has_probed = false;
        if self.all_after_nak && next < oldest_unacked {
            self.peer.on_kept_all();
        }
        if let Some(acked) = self
            .attempt
            .take_if(|attempt| attempt.packet < oldest_unacked)
        {
            self.on_alone_acked(acked, oldest_unacked, now.since(acked.sent_at) >= srtt / 2);
        }
    }

    /// `is_late`: the acknowledgment can be that of the retransmission.
    #[cold]
    fn on_alone_acked(&mut self, acked: Attempt, oldest_unacked: u64, is_late: bool) {
        if acked.is_due || oldest_unacked >= acked.end {
            return;
        }
        let is_single = acked.packet + 1 == oldest_unacked;
        // A probe may have been needless, and this the acknowledgment of the first transmission.
        self.is_missing = !is_single || !acked.is_probe || is_late;
        match is_single {
            // Then the peer has not got any of those behind it.
            true if acked.is_probe => self.are_all_missing = is_late,
            true => self.peer.on_single(),
            false => self.peer.on_kept(),
        }
    }

    /// The peer is known to drop what comes behind a missing packet, for tests.
    #[cfg(test)]
    pub(super) fn pause(&mut self) {
        self.peer.pause();
    }

    /// A packet was lost; `all_sent`: no retransmission of all is under way. Whether the packet may be sent
    /// alone.
    fn may_send_alone(&mut self, packet: u64, highest_sent: u64, all_sent: bool) -> bool {
        if self.are_all_missing || self.peer.is_paused() {
            return false;
        }
        if !all_sent {
            return true;
        }
        if packet >= self.recovery_end {
            (self.count, self.recovery_end) = (0, highest_sent);
        }
        self.count = self.count.saturating_add(1);
        self.count <= MAX_ALONE
    }

    /// Whether the last acknowledgment, that of a packet that was sent alone, shows that the oldest packet is
    /// missing, too: it was sent before. Returns true once.
    #[inline]
    pub fn take_missing(&mut self) -> bool {
        std::mem::take(&mut self.is_missing)
    }

    /// The oldest packet was lost. Lets it be sent alone, if it belongs to a SEND or WRITE and the peer is
    /// not known to drop packets; false if not. A READ or atomic is requested again with all that follows.
    pub fn on_loss(&mut self, window: &SendWindow) -> bool {
        let (packet, highest_sent) = (window.oldest_unacked(), window.highest_sent());
        let all_sent = window.next() == highest_sent;
        if packet + 1 >= window.next()
            || alone_index(window, packet).is_none()
            || !self.may_send_alone(packet, highest_sent, all_sent)
        {
            return false;
        }
        self.attempt = Some(Attempt::new(window, false, 0));
        true
    }

    /// Takes the packet that is due, and the index of its WQE; None if there is none any more.
    pub fn take_due(&mut self, window: &SendWindow) -> Option<(u64, usize)> {
        let attempt = self.attempt.as_mut().filter(|attempt| attempt.is_due)?;
        attempt.is_due = false;
        let packet = attempt.packet;
        let index = alone_index(window, packet);
        if index.is_none() {
            self.attempt = None;
        }
        Some((packet, index?))
    }

    /// The packet that was due was sent alone. Returns how long its acknowledgment may take.
    pub fn on_sent(&mut self, rtt: &RttEstimator, now: Time) -> Duration {
        let Some(attempt) = &mut self.attempt else {
            return rtt.rto();
        };
        attempt.sent_at = now;
        attempt.tries += 1;
        match attempt.tries {
            MAX_TRIES.. => rtt.rto(),
            _ => MIN_INTERVAL.max(rtt.srtt() * 2),
        }
    }

    /// Whether a probe may be sent before the next RTO, if that is not backed off.
    #[inline]
    pub fn may_probe(&self) -> bool {
        !self.has_probed
    }

    /// The RTO, or the shorter time of a packet that is sent alone, has expired. Sends one alone, once more
    /// or as a probe, if it was not tried often enough.
    pub fn on_timeout(&mut self, window: &SendWindow, rtt: &RttEstimator) -> Retransmission {
        let sent = self.attempt.as_mut().filter(|attempt| !attempt.is_due);
        if let Some(attempt) = sent.filter(|attempt| attempt.tries < MAX_TRIES) {
            attempt.is_due = true;
            attempt.end = window.next();
            return Retransmission::Alone;
        }
        if !self.may_probe() || !rtt.is_settled() {
            return Retransmission::All;
        }
        self.has_probed = true;
        let packet = window.oldest_unacked();
        let all_sent = window.next() == window.highest_sent() && packet < window.next();
        if !all_sent || alone_index(window, packet).is_none() {
            return Retransmission::Later;
        }
        self.attempt = Some(Attempt::new(window, true, MAX_TRIES - 1));
        Retransmission::Alone
    }
}

/// The packets that are retransmitted after a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retransmission {
    /// The oldest one, which is due.
    Alone,
    /// None before the RTO has expired once more: a probe was not possible.
    Later,
    /// All that are not acknowledged.
    All,
}

/// The index of the WQE that the packet belongs to; None if its packets are not sent alone.
fn alone_index(window: &SendWindow, packet: u64) -> Option<usize> {
    let index = window.queue().iter().position(|wqe| wqe.end > packet)?;
    let wqe = window.queue().get(index)?;
    let is_possible = wqe.class() == OpClass::Acked && wqe.state == WqeState::Pending;
    is_possible.then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{SendFlags, SendOp};
    use crate::wire::Psn;

    /// A window of eight SENDs that are in flight.
    fn window() -> SendWindow {
        let mut window = SendWindow::starting_at(Psn::new(0));
        for _ in 0..8 {
            let wr = window.queue_mut().next_wr().unwrap();
            wr.begin(1, SendOp::Send, SendFlags::default());
            window.queue_mut().push_next(1024);
            let end = window.next() + 1;
            window.on_sent(end, end, OpClass::Acked);
        }
        window
    }

    /// An RTT estimate of 1 ms.
    fn rtt() -> RttEstimator {
        let mut rtt = RttEstimator::new(1);
        rtt.on_rtt_sample(Duration::from_millis(1));
        rtt
    }

    /// The oldest packet is lost; sends it alone, and it is acknowledged together with `more` packets.
    /// Returns whether it could be sent alone.
    fn lose_and_repair(selective: &mut Selective, window: &mut SendWindow, more: u64) -> bool {
        if !selective.on_loss(window) {
            return false;
        }
        let lost = window.oldest_unacked();
        assert_eq!(selective.take_due(window), Some((lost, 0)));
        selective.on_sent(&rtt(), Time(0));
        window.on_ack(lost + 1 + more);
        let (oldest, next) = (window.oldest_unacked(), window.next());
        selective.on_ack(oldest, next, Duration::from_millis(1), Time(5_000_000));
        window.next_finished();
        true
    }

    #[test]
    fn a_peer_that_keeps_nothing_gets_everything_again() {
        let (mut selective, mut window) = (Selective::default(), window());
        // The first loss shows that the peer drops what comes behind, and the next ones are not tried.
        assert!(lose_and_repair(&mut selective, &mut window, 0));
        assert!(selective.take_missing() && !selective.take_missing());
        for _ in 0..PAUSE.0 {
            assert!(!selective.on_loss(&window) && !selective.is_due());
        }
        assert!(selective.on_loss(&window));
    }

    #[test]
    fn a_peer_that_has_kept_packets_may_lose_two_in_a_row() {
        let (mut selective, mut window) = (Selective::default(), window());
        assert!(lose_and_repair(&mut selective, &mut window, 1));
        while window.next_finished().is_some() {}
        for _ in 0..=MAX_SINGLE {
            assert!(lose_and_repair(&mut selective, &mut window, 0));
        }
        assert!(!lose_and_repair(&mut selective, &mut window, 0));
    }

    #[test]
    fn a_probe_comes_once_before_everything() {
        let (mut selective, window, rtt) = (Selective::default(), window(), rtt());
        assert!(selective.may_probe());
        assert_eq!(selective.on_timeout(&window, &rtt), Retransmission::Alone);
        selective.take_due(&window).unwrap();
        assert_eq!(selective.on_sent(&rtt, Time(0)), rtt.rto());
        assert!(!selective.may_probe());
        assert_eq!(selective.on_timeout(&window, &rtt), Retransmission::All);
    }
}
