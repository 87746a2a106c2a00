//! Delays, lines and bursts: what they do to a packet. Times and random numbers are passed in.

use std::time::Duration;

use crate::kind::Distribution;
use crate::rule::{CERTAIN, Latency};

/// The most that a delay varies, in multiples of the jitter.
const MOST: f64 = 20.0;

impl Latency {
    /// The delay of a packet. `random` returns random numbers of 64 bits.
    pub(crate) fn draw(&self, mut random: impl FnMut() -> u64) -> Duration {
        if self.jitter.is_zero() {
            return self.time;
        }
        // In (0, 1].
        let mut unit = || ((random() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        let factor = match self.distribution {
            Distribution::Uniform => 2.0 * unit() - 1.0,
            // The sum of twelve numbers between 0 and 1 has the variance 1.
            Distribution::Normal => (0..12).map(|_| unit()).sum::<f64>() - 6.0,
            // With the exponent 3 the mean is half of the scale; here the mean is 1.
            Distribution::Pareto => (2.0 * (1.0 / cube_root(unit()) - 1.0)).min(MOST),
        };
        let nanos = self.time.as_nanos() as f64 + factor * self.jitter.as_nanos() as f64;
        // The conversion makes 0 of a negative number.
        Duration::from_nanos(nanos as u64)
    }
}

/// The cube root of a number in (0, 1]. That of libm would need -lm where a program links the static library.
fn cube_root(x: f64) -> f64 {
    // Newton's method from above: each step takes a third off until it is near.
    let mut root = 1.0;
    for _ in 0..64 {
        root = (2.0 * root + x / (root * root)) / 3.0;
    }
    root
}

/// A line that carries a packet at a time, and a queue in front of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// When it has carried all that is queued.
    free: Duration,
}

impl Line {
    /// Carries a packet of `size` bytes at `bits` per second. Returns how long that takes, with the time in
    /// the queue; None if the queue, of `queue` bytes, has no room for it.
    pub(crate) fn carry(
        &mut self,
        size: u64,
        bits: u64,
        queue: u64,
        now: Duration,
    ) -> Option<Duration> {
        let nanos = |bytes: u64| u128::from(bytes) * 8_000_000_000 / u128::from(bits.max(1));
        let waiting = self.free.saturating_sub(now);
        let queued = waiting.as_nanos() * u128::from(bits) / 8_000_000_000;
        if queued + u128::from(size) > u128::from(queue.max(size)) {
            return None;
        }
        let own = u64::try_from(nanos(size)).unwrap_or(u64::MAX);
        self.free = self.free.max(now).saturating_add(Duration::from_nanos(own));
        Some(self.free.saturating_sub(now))
    }
}

/// Losses that come in bursts: the model of Gilbert and Elliott, with two states.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bursts {
    in_burst: bool,
}

impl Bursts {
    /// Whether the next packet is lost. A burst begins with the probability `begin`, and has `length` packets
    /// in the mean, of which each is lost with the probability `loss` (both out of 2^32).
    pub(crate) fn loses(
        &mut self,
        begin: u64,
        length: u32,
        loss: u64,
        mut random: impl FnMut() -> u64,
    ) -> bool {
        let mut happens = |probability: u64| random() >> 32 < probability;
        self.in_burst = match self.in_burst {
            true => !happens(CERTAIN / u64::from(length)),
            false => happens(begin),
        };
        self.in_burst && happens(loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots() {
        for x in [1.0, 0.999, 0.5, 1e-3, 1e-9, 1.0 / (1_u64 << 53) as f64] {
            let root = cube_root(x);
            assert!((root * root * root / x - 1.0).abs() < 1e-12, "{x}");
        }
    }

    fn random() -> impl FnMut() -> u64 {
        let mut state = 7_u64;
        move || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            state ^ state >> 29
        }
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Mean and standard deviation of many delays of 100 ms, in ms.
    fn drawn(distribution: Distribution) -> (f64, f64, Duration, Duration) {
        let latency = Latency {
            time: ms(100),
            jitter: ms(10),
            distribution,
        };
        let mut random = random();
        let all: Vec<Duration> = (0..20_000).map(|_| latency.draw(&mut random)).collect();
        let values = || all.iter().map(|delay| delay.as_secs_f64() * 1000.0);
        let mean = values().sum::<f64>() / all.len() as f64;
        let variance = values().map(|value| (value - mean).powi(2)).sum::<f64>() / all.len() as f64;
        let (least, most) = (*all.iter().min().unwrap(), *all.iter().max().unwrap());
        (mean, variance.sqrt(), least, most)
    }

    #[test]
    fn delays_are_distributed_as_they_say() {
        let (mean, deviation, least, most) = drawn(Distribution::Uniform);
        assert!(
            (99.5..100.5).contains(&mean) && (5.6..5.9).contains(&deviation),
            "{mean}"
        );
        assert!(least >= ms(90) && most <= ms(110));
        let (mean, deviation, ..) = drawn(Distribution::Normal);
        assert!(
            (99.5..100.5).contains(&mean) && (9.7..10.3).contains(&deviation),
            "{deviation}"
        );
        let (mean, _, least, most) = drawn(Distribution::Pareto);
        assert!((109.0..111.0).contains(&mean), "{mean}");
        assert!(least >= ms(100) && most > ms(150) && most <= ms(300));
        assert_eq!(Latency::of(ms(3)).draw(|| 0), ms(3));
        let negative = Latency {
            time: ms(1),
            jitter: ms(5),
            ..Latency::default()
        };
        assert_eq!(negative.draw(|| 0), Duration::ZERO);
    }

    #[test]
    fn a_line_carries_packets_one_after_the_other() {
        let mut line = Line::default();
        // A megabit per second: 1000 bytes take 8 ms.
        let mut carry = |size, now| line.carry(size, 1_000_000, 3000, ms(now));
        assert_eq!(carry(1000, 0), Some(ms(8)));
        assert_eq!(carry(1000, 0), Some(ms(16)));
        assert_eq!(carry(1000, 0), Some(ms(24)));
        assert_eq!(carry(1000, 0), None);
        assert_eq!(carry(1000, 8), Some(ms(24)));
        assert_eq!(carry(500, 1000), Some(ms(4)));
        // A packet larger than the queue passes an idle line.
        assert_eq!(carry(9000, 2000), Some(ms(72)));
    }

    #[test]
    fn bursts_have_their_mean_length() {
        let mut bursts = Bursts::default();
        let mut random = random();
        let lost: Vec<bool> = (0..200_000)
            .map(|_| bursts.loses(CERTAIN / 100, 8, CERTAIN, &mut random))
            .collect();
        let begins = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let mean = lost.iter().filter(|lost| **lost).count() as f64 / begins as f64;
        assert!((7.0..9.0).contains(&mean), "{mean}");
        assert!((1700..2000).contains(&begins), "{begins}");
        let none = (0..1000)
            .filter(|_| bursts.loses(CERTAIN, 8, 0, &mut random))
            .count();
        assert_eq!(none, 0);
    }
}
