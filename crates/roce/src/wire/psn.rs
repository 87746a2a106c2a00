//! Packet sequence numbers (PSN): 24 bits that wrap around.

use core::ops::{Add, Sub};

/// A packet sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    pub(super) const MASK: u32 = 0xff_ffff;

    /// The lower 24 bits of `value`.
    pub const fn new(value: u32) -> Psn {
        Psn(value & Psn::MASK)
    }

    /// The number, below 2^24.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number of packets from `other` to this one, in -2^23..2^23; negative if this one is earlier.
    pub const fn distance(self, other: Psn) -> i32 {
        ((self.0.wrapping_sub(other.0) << 8) as i32) >> 8
    }

    /// The PSN that follows, modulo 2^24.
    pub const fn next(self) -> Psn {
        Psn::new(self.0 + 1)
    }
}

impl Add<u32> for Psn {
    type Output = Psn;

    fn add(self, count: u32) -> Psn {
        Psn::new(self.0.wrapping_add(count))
    }
}

impl Sub<u32> for Psn {
    type Output = Psn;

    fn sub(self, count: u32) -> Psn {
        Psn::new(self.0.wrapping_sub(count))
    }
}
