//! End-to-end flow control: how many receive WQEs the peer has (9.7.7.2).

use crate::engine::encoding;
use crate::wire::{Aeth, AethKind, Psn};

/// The credits that the peer has granted.
#[derive(Debug, Default)]
pub(super) struct Credits {
    /// The limit sequence number: the last message that the peer has a receive WQE for. None if the peer does
    /// not count credits.
    limit_ssn: Option<Psn>,
}

impl Credits {
    /// Takes over the credits of an ACK, unless it is older than the last one.
    pub fn on_ack(&mut self, aeth: &Aeth) {
        let AethKind::Ack { credits } = aeth.kind else {
            return;
        };
        let count = encoding::credit_count(credits);
        let limit = count.map(|count| Psn::new(aeth.msn.wrapping_add(count)));
        let is_newer = match (limit, self.limit_ssn) {
            (Some(new), Some(old)) => new.distance(old) > 0,
            _ => true,
        };
        if is_newer {
            self.limit_ssn = limit;
        }
    }

    /// Whether the peer counts credits.
    #[inline]
    pub fn are_counted(&self) -> bool {
        self.limit_ssn.is_some()
    }

    /// Whether the peer is known to have no receive WQE for the message with this send sequence number.
    #[inline]
    pub fn are_exceeded_by(&self, ssn: Psn) -> bool {
        self.limit_ssn.is_some_and(|limit| ssn.distance(limit) > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_ack_takes_no_credit_back() {
        let mut credits = Credits::default();
        let exceeds = |credits: &Credits, ssn| credits.are_exceeded_by(Psn::new(ssn));
        assert!(!credits.are_counted() && !exceeds(&credits, 9));
        let ack = |msn, credits| Aeth {
            msn,
            kind: AethKind::Ack { credits },
        };
        credits.on_ack(&ack(0xff_ffff, 2));
        assert_eq!((exceeds(&credits, 1), exceeds(&credits, 2)), (false, true));
        credits.on_ack(&ack(0xff_fffe, 2));
        assert!(credits.are_counted() && !exceeds(&credits, 1));
        // A NAK has none.
        let kind = AethKind::RnrNak { timer: 1 };
        credits.on_ack(&Aeth { msn: 50, kind });
        assert!(exceeds(&credits, 2));
        credits.on_ack(&ack(0, 31));
        assert!(!credits.are_counted() && !exceeds(&credits, 9));
    }
}
