//! [`QpnAllocator`]: queue pair numbers, which determine UDP ports ([`port_of`]). Pure.
//!
//! A number is random among those that are free, so that a peer cannot predict it. After a queue pair is
//! destroyed its number is in quarantine for a time, so that late packets of the old connection do not
//! reach a new one.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::wire::{FIRST_PORT, PORT, PORTS, QPNS_PER_PORT, first_qpn, port_of};

/// The last queue pair number of port 4791. Its first is 2: 0 and 1 are the management queue pairs'.
const LAST_QPN: u32 = 0x7f_ffff;
/// How long a freed number is not used again: longer than a packet stays in a network.
const REUSE_DELAY: Duration = Duration::from_secs(60);
/// The most numbers in quarantine. If more are freed, the oldest leave it early.
const MAX_QUARANTINED: usize = 1 << 16;
/// If all free numbers of the open ports are in quarantine, the one that was freed first is used again,
/// provided that at least this many are there. If there are fewer, another port is opened.
const MIN_CYCLE: usize = 1024;

/// The queue pair numbers that this process may use, by its ports, and those in use.
#[derive(Debug, Default)]
pub struct QpnAllocator {
    /// The numbers of port 4791 in use, if this process has that port.
    roce_port: Option<FxHashSet<u32>>,
    /// The numbers in use of each other port of this process.
    ports: BTreeMap<u16, FxHashSet<u32>>,
    quarantine: Quarantine,
}

/// A number in quarantine.
#[derive(Debug)]
struct Freed {
    at: Duration,
    number: u32,
}

/// Numbers that were freed recently, also those of ports that are closed.
#[derive(Debug, Default)]
struct Quarantine {
    /// Oldest first.
    queue: VecDeque<Freed>,
    numbers: FxHashSet<u32>,
    /// How many there are of each port.
    of_port: FxHashMap<u16, usize>,
}

impl Quarantine {
    fn push(&mut self, number: u32, now: Duration) {
        self.queue.push_back(Freed { at: now, number });
        self.numbers.insert(number);
        *self.of_port.entry(port_of(number)).or_default() += 1;
        if self.queue.len() > MAX_QUARANTINED {
            self.remove(0);
        }
    }

    fn remove(&mut self, at: usize) -> Option<u32> {
        let Freed { number, .. } = self.queue.remove(at)?;
        self.numbers.remove(&number);
        let port = port_of(number);
        if let Some(count) = self.of_port.get_mut(&port) {
            *count -= 1;
            if *count == 0 {
                self.of_port.remove(&port);
            }
        }
        Some(number)
    }

    /// Releases the numbers that were freed [`REUSE_DELAY`] ago or earlier.
    fn expire(&mut self, now: Duration) {
        let due = |freed: &Freed| now.saturating_sub(freed.at) >= REUSE_DELAY;
        while self.queue.front().is_some_and(due) {
            self.remove(0);
        }
    }

    fn contains(&self, number: u32) -> bool {
        self.numbers.contains(&number)
    }
}

/// A port to try for a process that does not have port 4791.
pub fn candidate_port(random: u32) -> u16 {
    FIRST_PORT + (random % u32::from(PORTS)) as u16
}

impl QpnAllocator {
    /// Adds the numbers of a port that this process has opened.
    pub fn add_port(&mut self, port: u16) {
        if port == PORT {
            self.roce_port = Some(FxHashSet::default());
        } else {
            self.ports.insert(port, FxHashSet::default());
        }
    }

    /// Takes a random number that is free and not in quarantine. None if another port is needed. Half of the
    /// numbers of port 4791 stay free, so that a random draw soon finds one. `now` is the time since a moment
    /// that is the same in all calls.
    pub fn alloc(&mut self, now: Duration, mut random: impl FnMut() -> u32) -> Option<u32> {
        self.quarantine.expire(now);
        if let Some(used) = &mut self.roce_port {
            if used.len() > LAST_QPN as usize / 2 {
                return None;
            }
            loop {
                let number = random() & LAST_QPN;
                if number >= 2 && !self.quarantine.contains(number) && used.insert(number) {
                    return Some(number);
                }
            }
        }
        let start = random();
        for (port, used) in &mut self.ports {
            let quarantined = self.quarantine.of_port.get(port).copied().unwrap_or(0);
            if used.len() + quarantined == QPNS_PER_PORT as usize {
                continue;
            }
            let number = (0..QPNS_PER_PORT)
                .map(|i| first_qpn(*port) + start.wrapping_add(i) % QPNS_PER_PORT)
                .find(|number| !used.contains(number) && !self.quarantine.contains(*number));
            if let Some(number) = number {
                used.insert(number);
                return Some(number);
            }
        }
        self.alloc_quarantined()
    }

    /// Takes the number of an open port that has been in quarantine longest, if at least [`MIN_CYCLE`]
    /// are there.
    fn alloc_quarantined(&mut self) -> Option<u32> {
        let mut of_open_ports = self
            .quarantine
            .queue
            .iter()
            .enumerate()
            .filter(|(_, Freed { number, .. })| self.ports.contains_key(&port_of(*number)))
            .map(|(at, _)| at);
        let first = of_open_ports.next()?;
        of_open_ports.nth(MIN_CYCLE - 2)?;
        let number = self.quarantine.remove(first)?;
        self.ports.get_mut(&port_of(number))?.insert(number);
        Some(number)
    }

    /// Frees a number. If this leaves two ports without a number in use, forgets and returns one of them, for
    /// the caller to close.
    pub fn free(&mut self, number: u32, now: Duration) -> Option<u16> {
        let port = port_of(number);
        let used = if port == PORT {
            self.roce_port.as_mut()?
        } else {
            self.ports.get_mut(&port)?
        };
        if !used.remove(&number) {
            return None;
        }
        let idle = used.is_empty();
        self.quarantine.push(number, now);
        let spare = self
            .ports
            .iter()
            .any(|(other, used)| *other != port && used.is_empty());
        if port == PORT || !(idle && spare) {
            return None;
        }
        self.ports.remove(&port);
        Some(port)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::wire::MULTICAST_QPN;
    use proptest::prelude::*;

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn ports_of_queue_pair_numbers() {
        assert_eq!(port_of(0x11), 4791);
        assert_eq!(port_of(0x7f_ffff), 4791);
        assert_eq!(port_of(0x80_0000), 61440);
        assert_eq!(port_of(0x80_0fff), 61440);
        assert_eq!(port_of(0x80_1000), 61441);
        assert_eq!(port_of(0xff_efff), 63486);
        assert_eq!(port_of(0xff_f000), 4791);
        assert_eq!(port_of(MULTICAST_QPN), 4791);
        assert_eq!(candidate_port(0), 61440);
        assert_eq!(candidate_port(u32::MAX), 61440 + (u32::MAX % 2047) as u16);
        for random in 0..0x1_0000 {
            let port = candidate_port(random);
            assert_eq!(port_of(first_qpn(port)), port);
            assert_eq!(port_of(first_qpn(port) + QPNS_PER_PORT - 1), port);
            assert!(first_qpn(port) + QPNS_PER_PORT < MULTICAST_QPN);
        }
    }

    #[test]
    fn twenty_thousand_on_ports_of_4096() {
        let mut qpns = QpnAllocator::default();
        let (mut taken, mut ports) = (HashSet::new(), 0);
        for i in 0..20_000_u32 {
            let number = qpns
                .alloc(NOW, || i.wrapping_mul(0x9e37_79b9))
                .unwrap_or_else(|| {
                    qpns.add_port(FIRST_PORT + 3 * ports);
                    ports += 1;
                    qpns.alloc(NOW, || 7).unwrap()
                });
            assert!(taken.insert(number));
            assert_eq!((port_of(number) - FIRST_PORT) % 3, 0);
        }
        assert_eq!(ports, 5);
        let closed: Vec<_> = taken
            .iter()
            .filter_map(|number| qpns.free(*number, NOW))
            .collect();
        assert_eq!(closed.len(), 4, "one stays");
        assert_eq!(qpns.ports.len(), 1);
        assert!(taken.iter().all(|number| qpns.free(*number, NOW).is_none()));
        let later = NOW + REUSE_DELAY;
        assert!(qpns.alloc(later, || 0).is_some());
    }

    /// Frees each number at once, as a program does that reconnects in a loop.
    fn reuse_after(qpns: &mut QpnAllocator, interval: Duration) -> (usize, Duration) {
        let (mut last, mut now, mut state) = (std::collections::HashMap::new(), NOW, 1_u32);
        let (mut numbers, mut time) = (usize::MAX, Duration::MAX);
        for i in 0..30_000_usize {
            now += interval;
            let number = qpns.alloc(now, || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state >> 9
            });
            let number = number.unwrap();
            if let Some((before, at)) = last.insert(number, (i, now)) {
                numbers = numbers.min(i - before);
                time = time.min(now - at);
            }
            qpns.free(number, now);
        }
        (numbers, time)
    }

    #[test]
    fn a_freed_number_is_quarantined() {
        for port in [PORT, FIRST_PORT + 7] {
            let new = || {
                let mut qpns = QpnAllocator::default();
                qpns.add_port(port);
                qpns
            };
            let slow = Duration::from_millis(100);
            assert!(reuse_after(&mut new(), slow).1 >= REUSE_DELAY);
            // More than one number per 15 ms: all others are used first.
            let (numbers, _) = reuse_after(&mut new(), Duration::from_millis(1));
            assert!(numbers >= QPNS_PER_PORT as usize, "{numbers}");
        }
    }

    /// With most numbers in use, few could be in quarantine: another port is opened.
    #[test]
    fn the_cycle_is_never_short() {
        let mut qpns = QpnAllocator::default();
        qpns.add_port(FIRST_PORT);
        let number = |qpns: &mut QpnAllocator| qpns.alloc(NOW, || 5);
        for _ in 0..QPNS_PER_PORT - 100 {
            number(&mut qpns).unwrap();
        }
        for _ in 0..100 {
            let fresh = number(&mut qpns).unwrap();
            qpns.free(fresh, NOW);
        }
        assert_eq!(number(&mut qpns), None);
        qpns.add_port(FIRST_PORT + 1);
        let mut seen = HashSet::new();
        for _ in 0..QPNS_PER_PORT {
            let fresh = number(&mut qpns).unwrap();
            assert!(seen.insert(fresh));
            qpns.free(fresh, NOW);
        }
        assert!(number(&mut qpns).is_some());
    }

    #[test]
    fn quarantined_numbers_are_bounded() {
        let mut qpns = QpnAllocator::default();
        qpns.add_port(PORT);
        let mut next = 2;
        for _ in 0..MAX_QUARANTINED + 10 {
            let number = qpns.alloc(NOW, || {
                next += 1;
                next
            });
            qpns.free(number.unwrap(), NOW);
        }
        assert_eq!(qpns.quarantine.queue.len(), MAX_QUARANTINED);
        assert_eq!(qpns.quarantine.numbers.len(), MAX_QUARANTINED);
    }

    proptest! {
        #[test]
        fn no_number_twice(seeds in prop::collection::vec(any::<u32>(), 1..300), primary: bool) {
            let mut qpns = QpnAllocator::default();
            if primary {
                qpns.add_port(PORT);
            }
            let mut taken = Vec::new();
            for (second, seed) in (0..).zip(seeds) {
                let now = Duration::from_secs(second);
                if seed % 3 == 0 && !taken.is_empty() {
                    let number = taken.swap_remove(seed as usize % taken.len());
                    if let Some(port) = qpns.free(number, now) {
                        prop_assert!(taken.iter().all(|number| port_of(*number) != port));
                    }
                    continue;
                }
                let mut random = seed;
                let mut next = || {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    random
                };
                let number = qpns.alloc(now, &mut next).unwrap_or_else(|| {
                    qpns.add_port(candidate_port(seed));
                    qpns.alloc(now, &mut next).unwrap()
                });
                prop_assert!(!taken.contains(&number) && number > 1 && number < MULTICAST_QPN);
                taken.push(number);
            }
        }
    }
}
