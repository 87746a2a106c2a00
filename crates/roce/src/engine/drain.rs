//! WQEs that may not begin: those behind the ones that were started before a move to SQD (10.3.1.5), and all
//! while the requester waits until nothing is in flight, to be bound to shared memory.

/// The limits of what may begin.
#[derive(Debug, Default)]
pub struct Drain {
    /// In SQD: the packet after the last WQE that was started before the move to SQD.
    end: Option<u64>,
    /// In SQD, and WQEs before `end` have not completed.
    is_draining: bool,
    is_held: bool,
}

impl Drain {
    /// Enters SQD: WQEs from packet `end` on do not begin.
    pub fn start(&mut self, end: u64) {
        (self.end, self.is_draining) = (Some(end), true);
    }

    /// Leaves SQD.
    pub fn resume(&mut self) {
        (self.end, self.is_draining) = (None, false);
    }

    /// Whether the send queue is draining (`sq_draining`).
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Whether draining has ended; `first`: the oldest WQE's first packet. Returns true once.
    pub fn take_drained(&mut self, first: Option<u64>) -> bool {
        let is_drained = self.is_draining && first.is_none_or(|first| self.stops(first));
        self.is_draining &= !is_drained;
        is_drained
    }

    /// Lets no WQE begin. Returns whether they could before.
    pub fn hold(&mut self) -> bool {
        !std::mem::replace(&mut self.is_held, true)
    }

    /// Lets WQEs begin, unless the queue pair is in SQD.
    pub fn release(&mut self) {
        self.is_held = false;
    }

    /// Whether no WQE may begin, outside of SQD too.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Whether a WQE with this first packet waits for the end of SQD.
    #[inline]
    pub fn stops(&self, first: u64) -> bool {
        self.end.is_some_and(|end| first >= end)
    }

    /// Whether `packet` does not follow soon.
    #[inline]
    pub fn ends_at(&self, packet: u64) -> bool {
        self.is_held || self.end == Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_started_is_finished_and_the_end_is_reported_once() {
        let mut drain = Drain::default();
        assert!(!drain.stops(0) && !drain.take_drained(None));
        drain.start(7);
        assert!(drain.is_draining() && drain.ends_at(7) && !drain.ends_at(6));
        assert_eq!((drain.stops(6), drain.stops(7)), (false, true));
        assert!(!drain.take_drained(Some(6)));
        assert!(drain.take_drained(Some(7)) && !drain.take_drained(None));
        assert!(!drain.is_draining() && drain.stops(7));
        drain.resume();
        assert!(!drain.stops(7) && !drain.ends_at(7));
    }

    #[test]
    fn sqd_does_not_release_what_is_held() {
        let mut drain = Drain::default();
        assert!(drain.hold() && !drain.hold());
        drain.start(3);
        drain.resume();
        assert!(drain.is_held() && drain.ends_at(9) && !drain.stops(9));
        drain.release();
        assert!(!drain.is_held() && !drain.ends_at(9));
    }
}
