//! A line with a queue in front of it: an output port of a switch, or of a NIC.

use roce::engine::Time;

use crate::random::Random;

/// Random early detection: packets are dropped before the queue is full, the more the longer it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// Up to this length no packet is dropped, in bytes.
    pub min: u64,
    /// The length from which every packet is dropped.
    pub max: u64,
    /// The probability just below `max`.
    pub probability: f64,
}

/// The properties of a port: its rate, its queue, and which packets it drops or marks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Bits per second.
    pub rate: u64,
    /// The bytes that may wait; a packet that finds no room is dropped.
    pub queue: u64,
    /// None: only a full queue drops.
    pub red: Option<Red>,
    /// A packet is marked (ECN) if as many bytes wait. None: no packet is.
    pub mark: Option<u64>,
}

/// A port.
#[derive(Clone, Debug)]
pub struct Port {
    line: Line,
    /// When the last packet will have left.
    free_at: Time,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets and bytes that have passed.
    pub passed: (u64, u64),
    /// The longest queue, in bytes.
    pub longest: u64,
}

impl Port {
    /// An idle port.
    pub fn new(line: Line) -> Port {
        Port {
            line,
            free_at: Time(0),
            dropped: 0,
            passed: (0, 0),
            longest: 0,
        }
    }

    /// The bytes that wait, or are being sent.
    pub fn waiting(&self, now: Time) -> u64 {
        let time = self.free_at.0.saturating_sub(now.0);
        (u128::from(time) * u128::from(self.line.rate) / 8_000_000_000) as u64
    }

    /// Whether a packet that arrives now is marked.
    pub fn marks(&self, now: Time) -> bool {
        self.line.mark.is_some_and(|most| self.waiting(now) >= most)
    }

    /// A packet of that length arrives. When its last bit will have left; None if it is dropped.
    pub fn accept(&mut self, len: u64, now: Time, random: &mut Random) -> Option<Time> {
        let waiting = self.waiting(now);
        let is_early = self.line.red.is_some_and(|red| {
            let span = red.max.saturating_sub(red.min).max(1) as f64;
            let above = waiting.saturating_sub(red.min) as f64 / span;
            waiting >= red.max || random.happens(above * red.probability)
        });
        if is_early || waiting + len > self.line.queue {
            self.dropped += 1;
            return None;
        }
        self.longest = self.longest.max(waiting + len);
        let takes = u128::from(len) * 8_000_000_000 / u128::from(self.line.rate);
        self.free_at = Time(self.free_at.max(now).0 + takes as u64);
        self.passed = (self.passed.0 + 1, self.passed.1 + len);
        Some(self.free_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: Line = Line {
        rate: 1_000_000_000,
        queue: 3000,
        red: None,
        mark: None,
    };

    #[test]
    fn packets_follow_each_other_and_the_tail_is_dropped() {
        let (mut port, mut random) = (Port::new(GIGABIT), Random::new(1));
        let mut at = |now| port.accept(1000, Time(now), &mut random);
        assert_eq!(at(100), Some(Time(8100)));
        assert_eq!(at(100), Some(Time(16_100)));
        assert_eq!(at(100), Some(Time(24_100)));
        assert_eq!(at(100), None);
        assert_eq!(at(8100), Some(Time(32_100)));
        assert_eq!(at(50_000), Some(Time(58_000)));
        assert_eq!(
            (port.dropped, port.passed, port.longest),
            (1, (5, 5000), 3000)
        );
    }

    #[test]
    fn red_drops_more_the_longer_the_queue_is() {
        let red = Red {
            min: 10_000,
            max: 50_000,
            probability: 0.5,
        };
        let line = Line {
            queue: 100_000,
            red: Some(red),
            ..GIGABIT
        };
        let dropped_at = |waiting: u64| {
            let mut random = Random::new(7);
            let tries = (0..1000).filter(|_| {
                let mut port = Port::new(line);
                port.free_at = Time(waiting * 8);
                port.accept(1000, Time(0), &mut random).is_none()
            });
            tries.count()
        };
        assert_eq!(dropped_at(9000), 0);
        let (some, more) = (dropped_at(20_000), dropped_at(40_000));
        assert!(
            (60..200).contains(&some) && (300..450).contains(&more),
            "{some} {more}"
        );
        assert_eq!(dropped_at(50_000), 1000);
    }
}
