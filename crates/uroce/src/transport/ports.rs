//! [`QpnAllocator`]: queue pair numbers, which determine UDP ports ([`port_of`]). Pure.
//!
//! A number is random among those that are free, so that a peer cannot predict it. After a queue pair is
//! destroyed its number is in quarantine for a time, so that late packets of the old connection do not
//! reach a new one.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rustc_hash::FxHashSet;

use roce::wire::{FIRST_PORT, PORT, PORTS, QPNS_PER_PORT, first_qpn, port_of};

/// The last queue pair number of port 4791. Its first is 2: 0 and 1 are the management queue pairs'.
const LAST_QPN: u32 = 0x7f_ffff;
/// How long a freed number is not used again: longer than a packet stays in a network.
const REUSE_DELAY: Duration = Duration::from_secs(60);
/// The most numbers in quarantine. If more are freed, the oldest leave it early.
const MAX_QUARANTINED: usize = 1 << 16;
/// If all free numbers of the open ports are in quarantine, the one that was freed first is used again,
/// provided that at least this many are there. If there are fewer, another port is opened.
const MIN_CYCLE: usize = 1024;

/// The queue pair numbers that this process may use, by its ports, and those in use. Taking and freeing a
/// number takes constant time.
#[derive(Debug, Default)]
pub struct QpnAllocator {
    /// The numbers of port 4791, if this process has that port.
    roce_port: Option<RocePort>,
    other_ports: OtherPorts,
}

/// A number in quarantine.
#[derive(Clone, Copy, Debug)]
struct Freed {
    at: Duration,
    number: u32,
}

/// Numbers in quarantine, oldest first.
#[derive(Debug, Default)]
struct Quarantine(VecDeque<Freed>);

impl Quarantine {
    /// Adds a number. Returns one that leaves early.
    fn push(&mut self, number: u32, now: Duration) -> Option<u32> {
        self.0.push_back(Freed { at: now, number });
        (self.0.len() > MAX_QUARANTINED).then(|| self.pop())?
    }

    fn pop(&mut self) -> Option<u32> {
        self.0.pop_front().map(|freed| freed.number)
    }

    /// Takes a number that was freed [`REUSE_DELAY`] ago or earlier.
    fn pop_due(&mut self, now: Duration) -> Option<u32> {
        let oldest = self.0.front()?;
        (now.saturating_sub(oldest.at) >= REUSE_DELAY).then(|| self.pop())?
    }

    /// Removes and returns the numbers of a port, oldest first.
    fn split_off(&mut self, port: u16) -> Vec<Freed> {
        let of_port = |freed: &&Freed| port_of(freed.number) == port;
        let removed = self.0.iter().filter(of_port).copied().collect();
        self.0.retain(|freed| !of_port(&freed));
        removed
    }

    /// Adds numbers. Returns those that leave early.
    fn merge(&mut self, numbers: Vec<Freed>) -> impl Iterator<Item = u32> {
        self.0.extend(numbers);
        self.0.make_contiguous().sort_by_key(|freed| freed.at);
        let excess = self.0.len().saturating_sub(MAX_QUARANTINED);
        self.0.drain(..excess).map(|freed| freed.number)
    }
}

/// The numbers of port 4791. Most of them are free, so a random one soon is.
#[derive(Debug, Default)]
struct RocePort {
    in_use: FxHashSet<u32>,
    quarantine: Quarantine,
    /// The numbers of `quarantine`.
    quarantined: FxHashSet<u32>,
}

impl RocePort {
    /// None if half of the numbers are in use, so that a draw always succeeds soon.
    fn alloc(&mut self, now: Duration, mut random: impl FnMut() -> u32) -> Option<u32> {
        while let Some(number) = self.quarantine.pop_due(now) {
            self.quarantined.remove(&number);
        }
        if self.in_use.len() > LAST_QPN as usize / 2 {
            return None;
        }
        loop {
            let number = random() & LAST_QPN;
            if number >= 2 && !self.quarantined.contains(&number) && self.in_use.insert(number) {
                return Some(number);
            }
        }
    }

    /// Frees a number, if it is in use.
    fn free(&mut self, number: u32, now: Duration) {
        if !self.in_use.remove(&number) {
            return;
        }
        self.quarantined.insert(number);
        if let Some(early) = self.quarantine.push(number, now) {
            self.quarantined.remove(&early);
        }
    }
}

/// The ports other than 4791.
#[derive(Debug, Default)]
struct OtherPorts {
    /// The numbers of each open port that are in use.
    in_use: BTreeMap<u16, FxHashSet<u32>>,
    /// The numbers of all open ports that are neither in use nor in quarantine, in no order.
    free: Vec<u32>,
    /// The freed numbers of open ports.
    quarantine: Quarantine,
    /// The freed numbers of ports that were closed. Such a port may be opened again.
    closed: Quarantine,
}

impl OtherPorts {
    fn add(&mut self, port: u16) {
        let quarantined = self.closed.split_off(port);
        let is_free = |number: &u32| quarantined.iter().all(|freed| freed.number != *number);
        let all = first_qpn(port)..first_qpn(port) + QPNS_PER_PORT;
        self.free.extend(all.filter(is_free));
        self.free.extend(self.quarantine.merge(quarantined));
        self.in_use.insert(port, FxHashSet::default());
    }

    /// A free number, or that which has been in quarantine longest, if at least [`MIN_CYCLE`] are there.
    fn alloc(&mut self, now: Duration, mut random: impl FnMut() -> u32) -> Option<u32> {
        while let Some(number) = self.quarantine.pop_due(now) {
            self.free.push(number);
        }
        while self.closed.pop_due(now).is_some() {}
        let number = if !self.free.is_empty() {
            let at = random() as usize % self.free.len();
            self.free.swap_remove(at)
        } else if self.quarantine.0.len() >= MIN_CYCLE {
            self.quarantine.pop()?
        } else {
            return None;
        };
        self.in_use.get_mut(&port_of(number))?.insert(number);
        Some(number)
    }

    /// Frees a number, if it is in use. If this leaves two ports without a number in use, forgets and returns
    /// one of them.
    fn free(&mut self, number: u32, now: Duration) -> Option<u16> {
        let port = port_of(number);
        let in_use = self.in_use.get_mut(&port)?;
        if !in_use.remove(&number) {
            return None;
        }
        let idle = in_use.is_empty();
        if let Some(early) = self.quarantine.push(number, now) {
            self.free.push(early);
        }
        let mut others = self.in_use.iter().filter(|(other, _)| **other != port);
        let spare = idle && others.any(|(_, in_use)| in_use.is_empty());
        spare.then(|| self.close(port))
    }

    fn close(&mut self, port: u16) -> u16 {
        self.in_use.remove(&port);
        self.free.retain(|number| port_of(*number) != port);
        let quarantined = self.quarantine.split_off(port);
        drop(self.closed.merge(quarantined));
        port
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
            self.roce_port = Some(RocePort::default());
        } else {
            self.other_ports.add(port);
        }
    }

    /// Takes a random number that is free and not in quarantine. None if another port is needed. `now` is the
    /// time since a moment that is the same in all calls.
    pub fn alloc(&mut self, now: Duration, random: impl FnMut() -> u32) -> Option<u32> {
        match &mut self.roce_port {
            Some(port) => port.alloc(now, random),
            None => self.other_ports.alloc(now, random),
        }
    }

    /// Frees a number, if it is in use. If this leaves two ports without a number in use, forgets and returns
    /// one of them, for the caller to close.
    pub fn free(&mut self, number: u32, now: Duration) -> Option<u16> {
        if port_of(number) != PORT {
            return self.other_ports.free(number, now);
        }
        self.roce_port.as_mut()?.free(number, now);
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use proptest::prelude::*;
    use roce::wire::MULTICAST_QPN;

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
        assert_eq!(qpns.other_ports.in_use.len(), 1);
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

    /// The cycle is never short: with most numbers in use, few could be in quarantine, so another
    /// port is opened.
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
        let port = qpns.roce_port.unwrap();
        assert_eq!(port.quarantine.0.len(), MAX_QUARANTINED);
        assert_eq!(port.quarantined.len(), MAX_QUARANTINED);
    }

    /// Numbers of a port that is closed and opened again stay in quarantine. Each number is in one place.
    #[test]
    fn a_port_that_is_opened_again_has_its_quarantine() {
        let mut qpns = QpnAllocator::default();
        qpns.add_port(FIRST_PORT);
        qpns.add_port(FIRST_PORT + 1);
        let taken: Vec<u32> = (0..100).map(|i| qpns.alloc(NOW, || i).unwrap()).collect();
        let closed: Vec<u16> = taken.iter().filter_map(|n| qpns.free(*n, NOW)).collect();
        let [closed] = closed[..] else {
            panic!("{closed:?}")
        };
        let freed = |number: &&u32| port_of(**number) == closed;
        assert_eq!(
            qpns.other_ports.closed.0.len(),
            taken.iter().filter(freed).count()
        );
        qpns.add_port(closed);
        let other = &qpns.other_ports;
        assert_eq!((other.closed.0.len(), other.quarantine.0.len()), (0, 100));
        let free: HashSet<u32> = other.free.iter().copied().collect();
        assert_eq!(
            (free.len(), other.free.len()),
            (2 * 4096 - 100, 2 * 4096 - 100)
        );
        assert!(taken.iter().all(|number| !free.contains(number)));
    }

    /// Creating queue pairs faster than quarantine lets go of their numbers takes as long as creating the
    /// first: each needs one random number, and no search.
    #[test]
    fn a_number_is_found_without_a_search() {
        let mut qpns = QpnAllocator::default();
        qpns.add_port(FIRST_PORT);
        for i in 0..10 * QPNS_PER_PORT {
            let mut draws = 0;
            let number = qpns.alloc(NOW, || {
                draws += 1;
                i.wrapping_mul(0x9e37_79b9)
            });
            assert!(draws <= 1 && qpns.free(number.unwrap(), NOW).is_none());
            let other = &qpns.other_ports;
            assert_eq!(
                other.free.len() + other.quarantine.0.len(),
                QPNS_PER_PORT as usize
            );
        }
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
