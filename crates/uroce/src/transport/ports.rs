//! [`QpnAllocator`]: queue pair numbers, which determine UDP ports ([`port_of`]). Pure.

use std::collections::{BTreeMap, HashSet};

use super::{MULTICAST_QPN, port_of};
use crate::wire::PORT;

/// The last queue pair number of port 4791. Its first is 2: 0 and 1 are the management queue pairs'.
const LAST_QPN: u32 = 0x7f_ffff;
/// Queue pair numbers of each other port.
const QPNS_PER_PORT: u32 = 256;
/// Ports of processes that do not have port 4791. Port 65535 is not used: its numbers include the multicast
/// queue pair number.
const FIRST_PORT: u16 = 0x8000;
const PORTS: u16 = 0x7fff;

/// The queue pair numbers that this process may use, by its ports, and those in use.
#[derive(Debug, Default)]
pub struct QpnAllocator {
    /// The numbers of port 4791 in use, if this process has that port.
    roce_port: Option<HashSet<u32>>,
    /// The numbers in use of each other port of this process.
    ports: BTreeMap<u16, QpnBitmap>,
}

/// Which of the numbers of a port are in use.
#[derive(Debug, Default, Clone)]
struct QpnBitmap {
    bits: [u64; 4],
    count: u32,
}

impl QpnBitmap {
    fn contains(&self, i: u32) -> bool {
        self.bits[i as usize / 64] & 1 << (i % 64) != 0
    }

    fn flip(&mut self, i: u32) {
        self.bits[i as usize / 64] ^= 1 << (i % 64);
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
            self.roce_port = Some(HashSet::new());
        } else {
            self.ports.insert(port, QpnBitmap::default());
        }
    }

    /// A random free number, which is in use now; None if another port is needed. Half of the numbers of port
    /// 4791 stay free, so that a random draw soon finds one.
    pub fn alloc(&mut self, mut random: impl FnMut() -> u32) -> Option<u32> {
        if let Some(used) = &mut self.roce_port {
            if used.len() > LAST_QPN as usize / 2 {
                return None;
            }
            loop {
                let number = random() & LAST_QPN;
                if number >= 2 && used.insert(number) {
                    return Some(number);
                }
            }
        }
        let (port, used) = self
            .ports
            .iter_mut()
            .find(|(_, used)| used.count < QPNS_PER_PORT)?;
        let start = random();
        let i = (0..QPNS_PER_PORT)
            .map(|i| start.wrapping_add(i) % QPNS_PER_PORT)
            .find(|i| !used.contains(*i))?;
        used.flip(i);
        used.count += 1;
        Some(u32::from(*port) << 8 | i)
    }

    /// Frees a number. If this leaves two ports without a number in use, forgets and returns one of them, for
    /// the caller to close.
    pub fn free(&mut self, number: u32) -> Option<u16> {
        let port = port_of(number);
        if port == PORT {
            if let Some(used) = &mut self.roce_port {
                used.remove(&number);
            }
            return None;
        }
        let i = number % QPNS_PER_PORT;
        let used = self.ports.get_mut(&port)?;
        if number == MULTICAST_QPN || !used.contains(i) {
            return None;
        }
        used.flip(i);
        used.count -= 1;
        let idle = used.count == 0;
        let spare = self
            .ports
            .iter()
            .any(|(other, used)| *other != port && used.count == 0);
        if !(idle && spare) {
            return None;
        }
        self.ports.remove(&port);
        Some(port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ports_of_queue_pair_numbers() {
        assert_eq!(port_of(0x11), 4791);
        assert_eq!(port_of(0x7f_ffff), 4791);
        assert_eq!(port_of(0x80_0000), 0x8000);
        assert_eq!(port_of(0xff_fe12), 0xfffe);
        assert_eq!(port_of(MULTICAST_QPN), 4791);
        assert_eq!(candidate_port(0), 0x8000);
        assert_eq!(
            candidate_port(u32::MAX),
            0x8000 + (u32::MAX % 0x7fff) as u16
        );
        assert!((0..0x2_0000).all(|random| candidate_port(random) < 0xffff));
    }

    #[test]
    fn ten_thousand_on_ports_of_256() {
        let mut qpns = QpnAllocator::default();
        let (mut taken, mut ports) = (HashSet::new(), 0);
        for i in 0..10_000_u32 {
            let number = qpns
                .alloc(|| i.wrapping_mul(0x9e37_79b9))
                .unwrap_or_else(|| {
                    qpns.add_port(FIRST_PORT + 3 * ports);
                    ports += 1;
                    qpns.alloc(|| 7).unwrap()
                });
            assert!(taken.insert(number));
            assert_eq!((port_of(number) - FIRST_PORT) % 3, 0);
        }
        assert_eq!(ports, 40);
        let closed: Vec<_> = taken
            .iter()
            .filter_map(|number| qpns.free(*number))
            .collect();
        assert_eq!(closed.len(), 39, "one stays");
        assert_eq!(qpns.ports.len(), 1);
        assert!(taken.iter().all(|number| qpns.free(*number).is_none()));
        assert!(qpns.alloc(|| 0).is_some());
    }

    proptest! {
        #[test]
        fn no_number_twice(seeds in prop::collection::vec(any::<u32>(), 1..300), primary: bool) {
            let mut qpns = QpnAllocator::default();
            if primary {
                qpns.add_port(PORT);
            }
            let mut taken = Vec::new();
            for seed in seeds {
                if seed % 3 == 0 && !taken.is_empty() {
                    let number = taken.swap_remove(seed as usize % taken.len());
                    if let Some(port) = qpns.free(number) {
                        prop_assert!(taken.iter().all(|number| port_of(*number) != port));
                    }
                    continue;
                }
                let mut random = seed;
                let mut next = || {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    random
                };
                let number = qpns.alloc(&mut next).unwrap_or_else(|| {
                    qpns.add_port(candidate_port(seed));
                    qpns.alloc(&mut next).unwrap()
                });
                prop_assert!(!taken.contains(&number) && number > 1 && number < MULTICAST_QPN);
                taken.push(number);
            }
        }
    }
}
