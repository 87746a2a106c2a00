//! Congestion notification (annex A17, section 9.5): a switch marks packets in the ECN field of the IP
//! header; who receives a marked one sends a CNP to the sender's queue pair, which then sends less.
//!
//! A switch marks only packets whose traffic class allows it: programs ask for that as on an RNIC, in
//! `ibv_ah_attr.grh.traffic_class` (ECT(0) is 2).

use std::time::Duration;

use super::{Clock, Counters, Time};
use crate::engine::emit::{self, Encoded, Layout};
use crate::wire::{Opcode, Psn};

/// At most one CNP is sent in this time, as by DCQCN's notification point.
const CNP_INTERVAL: Duration = Duration::from_micros(50);
/// The bytes behind the BTH of a CNP, which are reserved.
const CNP_PAYLOAD: usize = 16;
/// BECN, in the fifth byte of the BTH.
const BECN: (usize, u8) = (4, 0x40);

/// The CNPs of a queue pair.
#[derive(Debug, Default)]
pub(super) struct Notification {
    is_due: bool,
    last: Option<Time>,
}

impl Notification {
    /// A packet of the peer was marked on its way.
    #[cold]
    pub fn on_marked(&mut self, clock: impl Clock, counters: &mut Counters) {
        counters.np_ecn_marked_roce_packets += 1;
        let now = clock.time();
        let is_early = |last: Time| now.since(last) < CNP_INTERVAL;
        if !self.last.is_some_and(is_early) {
            self.last = Some(now);
            self.is_due = true;
        }
    }

    /// Whether a CNP waits to be sent.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// Writes a CNP into `buffer`. None if that is too small.
    #[cold]
    pub fn next(
        &mut self,
        dest_qpn: u32,
        buffer: &mut [u8],
        counters: &mut Counters,
    ) -> Option<Encoded> {
        self.is_due = false;
        let headers = emit::headers(Opcode::CNP, dest_qpn, Psn::new(0), buffer);
        let headers_len = headers.size();
        let layout = Layout::new(headers_len, CNP_PAYLOAD);
        let encoded = layout.seal(headers)?;
        buffer.get_mut(headers_len..encoded.len)?.fill(0);
        *buffer.get_mut(BECN.0)? |= BECN.1;
        counters.np_cnp_sent += 1;
        Some(encoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_cnp_for_the_packets_of_50_us() {
        let (mut notification, mut counters) = (Notification::default(), Counters::default());
        for (at, is_due) in [(0, true), (49_999, false), (50_000, true), (60_000, false)] {
            notification.on_marked(Time(at), &mut counters);
            assert_eq!(notification.is_due(), is_due);
            if is_due {
                let mut buffer = [0xff; 64];
                let len = notification.next(0x12_3456, &mut buffer, &mut counters);
                let len = len.unwrap().len;
                assert_eq!((len, buffer[BECN.0] & BECN.1), (28, BECN.1));
                assert_eq!(
                    (&buffer[5..8], &buffer[12..28]),
                    (&[0x12, 0x34, 0x56][..], &[0; 16][..])
                );
            }
        }
        assert_eq!(
            (counters.np_ecn_marked_roce_packets, counters.np_cnp_sent),
            (4, 2)
        );
    }
}
