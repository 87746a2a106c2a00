//! Which packets request an acknowledgment although another one follows (9.7.2.3).

/// The most packets in a row that do not request an acknowledgment.
const INTERVAL: u64 = 32;

/// The packets since the last one that requested an acknowledgment.
#[derive(Debug, Default)]
pub(super) struct AckRequests {
    since: u64,
}

impl AckRequests {
    /// A retransmission begins: its first packet requests an acknowledgment.
    pub fn restart(&mut self) {
        self.since = INTERVAL;
    }

    /// Whether the next packet has to request one, with this congestion window.
    #[inline]
    pub fn is_due(&self, cwnd: u64) -> bool {
        self.since >= (cwnd / 2).min(INTERVAL)
    }

    /// A request was sent, which counts as that number of packets.
    #[inline]
    pub fn on_sent(&mut self, packets: u64, is_requested: bool) {
        self.since = match is_requested {
            true => 0,
            false => self.since + packets,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_window_or_32_packets_go_without_a_request() {
        for (cwnd, count) in [(8, 4), (200, 32)] {
            let mut requests = AckRequests::default();
            for _ in 0..count {
                assert!(!requests.is_due(cwnd));
                requests.on_sent(1, false);
            }
            assert!(requests.is_due(cwnd));
            requests.on_sent(1, true);
            assert!(!requests.is_due(cwnd));
            requests.restart();
            assert!(requests.is_due(cwnd));
            requests.on_sent(1, true);
            assert!(!requests.is_due(cwnd));
        }
    }
}
