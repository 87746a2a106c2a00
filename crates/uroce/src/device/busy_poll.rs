//! What the background thread does when it has looked for packets: sleep until there is one, rest, or look again at
//! once. Pure.

/// In how many wakes in a row it could have been spared before it rests.
const SPARED: u32 = 8;
/// How many polls between two looks show that a poller is at it.
const OFTEN: u64 = 4;
/// How long it rests at first, and at most, in nanoseconds.
const REST: (u64, u64) = (50_000, 1_000_000);
/// How long it looks for the next packet before it sleeps, in nanoseconds: the round trip of a peer that asks for
/// one thing after the other.
const EAGER: u64 = 50_000;
/// So many packets at once are no stream, for which sleeping until there are more would be as good.
pub const FEW: u64 = 4;
/// How long nobody must have polled before that, in nanoseconds.
const ALONE: u64 = 10_000_000;
/// How many wakes it sleeps at once after it has looked in vain: none, and then twice as many each time.
const MOST_SKIPPED: u32 = 256;
/// How long it does not look again once others have needed the processor meanwhile: at first, and at most.
const HUMBLE: (u64, u64) = (10_000_000, 1_000_000_000);

/// How the thread sleeps next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// Until there is a packet.
    Watching,
    /// That many nanoseconds, whatever comes: pollers keep up.
    Resting(u64),
}

/// What the thread has found when it woke.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// It was woken by a packet.
    pub woken: bool,
    /// How many packets were left for it.
    pub packets: u64,
    /// Peers have done something to memory since it last woke: for that, nobody polls.
    pub served: bool,
    /// A poller came for them while it took them.
    pub late: bool,
    /// How often pollers have looked since it last woke.
    pub polls: u64,
    /// The program has announced that it is going to sleep.
    pub expected: bool,
}

impl Found {
    /// Pollers would have done without this thread.
    fn could_be_spared(&self) -> bool {
        let polled = if self.packets > 0 {
            self.late || self.polls >= OFTEN
        } else {
            self.polls > 0
        };
        self.woken && polled && !self.served && !self.expected
    }
}

/// The state of the background thread.
pub struct Watch {
    sleep: Sleep,
    spared: u32,
    /// There is a processor to spare for looking in vain.
    can_be_eager: bool,
    alone_from: u64,
    skip: u32,
    skipped: u32,
    humble_until: u64,
    humble_for: u64,
}

/// How looking for the next packet before sleeping has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eager {
    /// There were packets; so there may be later.
    Paid,
    Vain,
    /// Others have been kept from the processor.
    InTheWay,
}

impl Watch {
    pub fn new(processors: usize) -> Watch {
        Watch {
            sleep: Sleep::Watching,
            spared: 0,
            can_be_eager: processors > 1,
            alone_from: 0,
            skip: 0,
            skipped: 0,
            humble_until: 0,
            humble_for: HUMBLE.0,
        }
    }

    pub fn sleep(&self) -> Sleep {
        self.sleep
    }

    /// It has rested, and asks whether it may go on: pollers have looked often enough, and `keeps_up`.
    pub fn rests_on(&mut self, polls: u64, keeps_up: impl FnOnce() -> bool) -> bool {
        let Sleep::Resting(rest) = self.sleep else {
            return false;
        };
        if polls >= OFTEN && keeps_up() {
            self.sleep = Sleep::Resting((rest * 2).min(REST.1));
            true
        } else {
            self.sleep = Sleep::Watching;
            self.spared = 0;
            false
        }
    }

    /// It has looked. Whether it rests from now on.
    pub fn looked(&mut self, found: Found) -> bool {
        if found.could_be_spared() {
            self.spared += 1;
        } else if found.packets > 0 || found.expected {
            self.spared = 0;
        }
        let rests = self.spared >= SPARED;
        if rests {
            self.spared = 0;
            self.sleep = Sleep::Resting(REST.0);
        }
        rests
    }

    /// For how long it is to look for more before it sleeps, if at all.
    pub fn eager(&mut self, found: Found, now: u64) -> Option<u64> {
        // Where there is a poller, that one looks.
        if found.polls > 0 || found.late || found.expected {
            self.alone_from = now.saturating_add(ALONE);
        }
        let few = (1..=FEW).contains(&found.packets);
        if !self.can_be_eager || !few || now < self.humble_until.max(self.alone_from) {
            return None;
        }
        if self.skipped < self.skip {
            self.skipped += 1;
            return None;
        }
        self.skipped = 0;
        Some(EAGER)
    }

    /// What has come of it.
    pub fn was_eager(&mut self, how: Eager, now: u64) {
        match how {
            Eager::Paid => {
                self.skip = 0;
                self.humble_for = HUMBLE.0;
            }
            Eager::Vain => self.skip = (self.skip * 2).clamp(1, MOST_SKIPPED),
            Eager::InTheWay => {
                self.humble_until = now.saturating_add(self.humble_for);
                self.humble_for = (self.humble_for * 2).min(HUMBLE.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Found = Found {
        woken: false,
        packets: 0,
        served: false,
        late: false,
        polls: 0,
        expected: false,
    };
    const LEFT: Found = Found {
        woken: true,
        packets: 1,
        ..NOTHING
    };
    const TAKEN: Found = Found {
        woken: true,
        polls: 100,
        ..NOTHING
    };

    fn tire(watch: &mut Watch) {
        for _ in 0..SPARED {
            watch.looked(TAKEN);
        }
    }

    #[test]
    fn it_rests_when_pollers_do_without_it_each_time() {
        let polled = Found {
            polls: OFTEN,
            ..LEFT
        };
        let needed = [
            LEFT,
            Found { polls: 1, ..LEFT },
            Found {
                served: true,
                ..polled
            },
            Found {
                expected: true,
                ..polled
            },
            Found {
                expected: true,
                ..TAKEN
            },
        ];
        for spared in [TAKEN, polled, Found { late: true, ..LEFT }] {
            let mut watch = Watch::new(2);
            for needed in needed {
                for _ in 1..SPARED {
                    assert!(!watch.looked(spared));
                    // A timer, or nobody at all, says nothing about pollers.
                    assert!(!watch.looked(NOTHING));
                    assert!(!watch.looked(Found { polls: 0, ..TAKEN }));
                }
                assert!(!watch.looked(needed));
            }
            for _ in 1..SPARED {
                assert!(!watch.looked(spared));
            }
            assert!(watch.looked(spared));
            assert_eq!(watch.sleep(), Sleep::Resting(REST.0));
        }
    }

    #[test]
    fn it_rests_longer_and_longer_as_long_as_pollers_keep_up() {
        let mut watch = Watch::new(2);
        tire(&mut watch);
        for expected in [100_000, 200_000, 400_000, 800_000, 1_000_000, 1_000_000] {
            assert!(watch.rests_on(OFTEN, || true));
            assert_eq!(watch.sleep(), Sleep::Resting(expected));
        }
        assert!(!watch.rests_on(OFTEN, || false));
        assert_eq!(watch.sleep(), Sleep::Watching);
        tire(&mut watch);
        assert!(!watch.rests_on(OFTEN - 1, || unreachable!()));
    }

    #[test]
    fn it_is_eager_where_that_pays() {
        let mut watch = Watch::new(2);
        assert_eq!(watch.eager(LEFT, 0), Some(EAGER));
        assert_eq!(watch.eager(NOTHING, 0), None);
        let stream = Found {
            packets: FEW + 1,
            ..LEFT
        };
        assert_eq!(watch.eager(stream, 0), None);
        let polled = Found { polls: 1, ..LEFT };
        let late = Found { late: true, ..LEFT };
        let expected = Found {
            expected: true,
            ..LEFT
        };
        let mut now = 0;
        for busy in [TAKEN, polled, late, expected] {
            assert_eq!(watch.eager(busy, now), None);
            assert_eq!(watch.eager(LEFT, now + ALONE - 1), None);
            now += ALONE;
            assert_eq!(watch.eager(LEFT, now), Some(EAGER));
        }
        for skipped in [1, 2, 4, 8, 16, 32, 64, 128, 256, 256] {
            watch.was_eager(Eager::Vain, now);
            for _ in 0..skipped {
                assert_eq!(watch.eager(LEFT, now), None);
            }
            assert_eq!(watch.eager(LEFT, now), Some(EAGER));
        }
        watch.was_eager(Eager::Paid, now);
        assert_eq!(watch.eager(LEFT, now), Some(EAGER));
        assert_eq!(Watch::new(1).eager(LEFT, 0), None);
    }

    #[test]
    fn it_leaves_the_processor_to_others() {
        let mut watch = Watch::new(2);
        let mut now = 5;
        for wait in [HUMBLE.0, 2 * HUMBLE.0, 4 * HUMBLE.0] {
            watch.was_eager(Eager::InTheWay, now);
            assert_eq!(watch.eager(LEFT, now + wait - 1), None);
            now += wait;
            assert_eq!(watch.eager(LEFT, now), Some(EAGER));
        }
    }
}
