//! The PSNs of the requests: which one is expected, and what an ACK may cover (9.7.4.1, 9.7.5.1).

use crate::wire::Psn;

/// The position of the responder in the peer's requests.
#[derive(Debug)]
pub(super) struct Sequence {
    /// The PSN of the next request packet (ePSN).
    epsn: Psn,
    /// Last executed PSN that an ACK may cover; initially ePSN - 1. A READ, atomic, ATOMIC WRITE or
    /// FLUSH is acknowledged by its own response instead.
    ack_psn: Psn,
    /// A NAK has been sent for the ePSN; the PSN of the packet that caused it.
    nak_sent: Option<Psn>,
}

impl Sequence {
    /// The peer's first request packet has this PSN.
    pub fn starting_at(psn: Psn) -> Sequence {
        Sequence {
            epsn: psn,
            ack_psn: psn - 1,
            nak_sent: None,
        }
    }

    /// The PSN of the next request packet (ePSN).
    #[inline]
    pub fn epsn(&self) -> Psn {
        self.epsn
    }

    /// The last PSN that an ACK may cover.
    #[inline]
    pub fn ack_psn(&self) -> Psn {
        self.ack_psn
    }

    /// A request that an ACK covers was executed; `next`: the PSN behind it.
    #[inline(always)]
    pub fn accept(&mut self, next: Psn) {
        self.epsn = next;
        self.ack_psn = next - 1;
    }

    /// A request was executed that has its own response, or is of a service without any; `next`: the PSN
    /// behind it.
    #[inline]
    pub fn advance(&mut self, next: Psn) {
        self.epsn = next;
    }

    /// A request with the ePSN has arrived.
    #[inline]
    pub fn on_expected(&mut self) {
        self.nak_sent = None;
    }

    /// The request with the ePSN gets a NAK, and is retransmitted.
    pub fn on_nak(&mut self) {
        self.nak_sent = Some(self.epsn);
    }

    /// Whether the peer retransmits from the ePSN because of [`Sequence::on_nak`].
    pub fn is_refused(&self) -> bool {
        self.nak_sent == Some(self.epsn)
    }

    /// Whether a NAK has been sent for the ePSN.
    pub fn has_nak(&self) -> bool {
        self.nak_sent.is_some()
    }

    /// The packet with this PSN shows that a packet before it was lost. Whether a PSN sequence error NAK is
    /// due: one (9.7.5.2.3), and another one if the peer has retransmitted and the same packet is missing
    /// still.
    pub fn needs_nak(&mut self, psn: Psn) -> bool {
        let is_due = self.nak_sent.is_none_or(|cause| psn.distance(cause) <= 0);
        if is_due {
            self.nak_sent = Some(psn);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_gets_one_nak_for_each_time_that_the_peer_sends_what_is_behind_it() {
        let mut sequence = Sequence::starting_at(Psn::new(0xff_ffff));
        sequence.accept(Psn::new(0));
        assert_eq!(sequence.ack_psn(), Psn::new(0xff_ffff));
        let due = [5, 6, 7, 5, 6].map(|psn| sequence.needs_nak(Psn::new(psn)));
        assert_eq!(due, [true, false, false, true, false]);
        assert!(sequence.has_nak() && !sequence.is_refused());
        sequence.on_expected();
        sequence.advance(Psn::new(1));
        assert!(!sequence.has_nak() && sequence.needs_nak(Psn::new(9)));
        // An ACK does not cover the request that has its own response.
        assert_eq!(sequence.ack_psn(), Psn::new(0xff_ffff));
        sequence.on_nak();
        assert!(sequence.is_refused() && !sequence.needs_nak(Psn::new(2)));
    }
}
