//! How many packets may be under way, and when one is taken for lost.
//!
//! RoCE leaves congestion to lossless networks; ours are sockets that drop what does not fit. So the
//! window grows and shrinks as TCP's does (RFC 5681), counted in packets, and round trips are timed as
//! there (RFC 6298). Nothing of it is visible on the wire.

use super::Time;

/// Packets, at first; for large MTUs less.
const START: u32 = 64;
const START_BYTES: u32 = 64 << 10;
/// After the loss of the last packets under way.
const RESTART: u32 = 2;
const LEAST: u32 = 4;
/// At most: packets, and bytes.
const MOST: u32 = 1024;
const MOST_BYTES: u32 = 2 << 20;

/// The shortest time, in nanoseconds, after which silence is taken for loss; the first, before any
/// round trip was timed; and the longest.
const PATIENCE: (u64, u64, u64) = (4_000_000, 20_000_000, 2_000_000_000);

#[derive(Clone, Debug)]
pub struct Window {
    /// Packets that may be under way.
    size: u32,
    /// Up to there it grows by each acknowledged packet; from there, by one each round trip.
    threshold: u32,
    most: u32,
    /// Acknowledged packets since it last grew by one.
    acknowledged: u32,
    /// Losses of packets before this one have been answered.
    recover: u64,
    /// Size, threshold, and the packet from which on nothing was sent again, to return to if it turns
    /// out that nothing was lost.
    before: Option<(u32, u32, u64)>,
    /// Nanoseconds, smoothed, and their variation; 0 if nothing has been timed.
    round_trip: u64,
    variation: u64,
    /// How often in a row silence was taken for loss.
    silences: u32,
}

impl Window {
    pub fn new(mtu: u32) -> Window {
        let mtu = mtu.max(256);
        let most = (MOST_BYTES / mtu).clamp(START, MOST);
        Window {
            size: (START_BYTES / mtu).clamp(LEAST, START),
            threshold: most,
            most,
            acknowledged: 0,
            recover: 0,
            before: None,
            round_trip: 0,
            variation: 0,
            silences: 0,
        }
    }

    pub fn size(&self) -> u64 {
        self.size.into()
    }

    /// `count` packets, up to `next`, have been acknowledged.
    pub fn progress(&mut self, count: u64, next: u64) {
        if let Some((size, threshold, unsent)) = self.before
            && next >= unsent
        {
            // More than what was sent again: it had all arrived, only slowly.
            (self.size, self.threshold) = (size, threshold);
        }
        self.before = None;
        self.silences = 0;
        if next < self.recover {
            return;
        }
        let count = count.min(self.most.into()) as u32;
        if self.size < self.threshold {
            self.size = (self.size + count).min(self.most);
        } else {
            self.acknowledged += count;
            if self.acknowledged >= self.size {
                self.acknowledged -= self.size;
                self.size = (self.size + 1).min(self.most);
            }
        }
    }

    /// The peer misses packet `lost`, and has got later ones; all before `next` had been sent.
    pub fn loss(&mut self, lost: u64, next: u64) {
        if lost < self.recover {
            return;
        }
        self.recover = next;
        self.threshold = (self.size / 2).max(LEAST);
        self.size = self.threshold;
        self.before = None;
    }

    /// Nothing was heard for [`Window::patience`]; everything from `oldest` on is to be sent again.
    pub fn silence(&mut self, oldest: u64, next: u64) {
        if self.silences == 0 {
            self.before = Some((
                self.size,
                self.threshold,
                oldest + u64::from(RESTART).min(next - oldest) + 1,
            ));
            self.threshold = (self.size / 2).max(LEAST);
        } else {
            self.before = None;
        }
        self.size = RESTART;
        self.recover = 0;
        self.silences = (self.silences + 1).min(16);
    }

    /// A round trip was timed.
    pub fn timed(&mut self, nanoseconds: u64) {
        let sample = nanoseconds.clamp(1, PATIENCE.2);
        if self.round_trip == 0 {
            (self.round_trip, self.variation) = (sample, sample / 2);
        } else {
            let deviation = self.round_trip.abs_diff(sample);
            self.variation = (self.variation * 3 + deviation) / 4;
            self.round_trip = (self.round_trip * 7 + sample) / 8;
        }
    }

    /// How long to wait before silence is taken for loss.
    pub fn patience(&self) -> u64 {
        let (least, first, most) = PATIENCE;
        let base = if self.round_trip == 0 {
            first
        } else {
            (self.round_trip + 4 * self.variation).max(least)
        };
        (base << self.silences).min(most)
    }

    /// Nanoseconds within which a second complaint about a packet speaks of its first transmission.
    pub fn round_trip(&self) -> u64 {
        self.round_trip
    }
}

/// Evens out what nothing in the protocol holds back: so much at once, then a pause.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    burst: Burst,
    began: Time,
    packets: u32,
    bytes: usize,
}

/// What goes at once, and nanoseconds from its beginning to the next.
#[derive(Clone, Copy, Debug)]
struct Burst {
    packets: u32,
    bytes: usize,
    interval: u64,
}

/// Of read responses: the peer has asked for them, and has said how many at once.
const ANSWERS: Burst = Burst {
    packets: 128,
    bytes: 512 << 10,
    interval: 100_000,
};
/// Of services without acknowledgments: as fast as a process takes them out of its socket, whose
/// buffer is hardly larger than that.
const UNRELIABLE: Burst = Burst {
    packets: 64,
    bytes: 64 << 10,
    interval: 50_000,
};

impl Pace {
    pub fn new(unreliable: bool) -> Pace {
        Pace {
            burst: if unreliable { UNRELIABLE } else { ANSWERS },
            began: Time(0),
            packets: 0,
            bytes: 0,
        }
    }

    /// Whether a packet may go now.
    pub fn allows(&mut self, now: Time) -> bool {
        if now.0 >= self.began.0.saturating_add(self.burst.interval) {
            self.began = now;
            self.packets = 0;
            self.bytes = 0;
        }
        !self.is_over()
    }

    pub fn sent(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes;
    }

    /// When the next packet may go.
    pub fn resumes(&self) -> Time {
        if self.is_over() {
            Time(self.began.0.saturating_add(self.burst.interval))
        } else {
            self.began
        }
    }

    fn is_over(&self) -> bool {
        self.packets >= self.burst.packets || self.bytes >= self.burst.bytes
    }
}
