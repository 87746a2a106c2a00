//! Numbers of queue pairs, and the ports that follow from them. Pure.

use std::collections::{BTreeMap, HashSet};

use super::{MULTICAST_QPN, port_of};
use crate::wire::PORT;

/// Numbers that port 4791 has: from 2 (0 and 1 are management's) to this.
const LAST: u32 = 0x7f_ffff;
/// Numbers that each other port has.
const PER_PORT: u32 = 256;
/// Ports that processes without port 4791 take. (The last one would have the number of multicast.)
const FIRST_PORT: u16 = 0x8000;
const PORTS: u16 = 0x7fff;

/// The numbers in use.
#[derive(Debug, Default)]
pub struct Numbers {
    /// Those of port 4791, if it is ours.
    primary: Option<HashSet<u32>>,
    /// For each other port of ours, which of its numbers are in use.
    ports: BTreeMap<u16, Used>,
}

#[derive(Debug, Default, Clone)]
struct Used {
    bits: [u64; 4],
    count: u32,
}

impl Used {
    fn contains(&self, i: u32) -> bool {
        self.bits[i as usize / 64] & 1 << (i % 64) != 0
    }

    fn flip(&mut self, i: u32) {
        self.bits[i as usize / 64] ^= 1 << (i % 64);
    }
}

/// A port to try for a process without port 4791.
pub fn candidate(random: u32) -> u16 {
    FIRST_PORT + (random % u32::from(PORTS)) as u16
}

impl Numbers {
    /// Numbers are the device's from now on, those of this port.
    pub fn add(&mut self, port: u16) {
        if port == PORT {
            self.primary = Some(HashSet::new());
        } else {
            self.ports.insert(port, Used::default());
        }
    }

    /// A free number, which is in use now; None if another port is needed.
    pub fn take(&mut self, mut random: impl FnMut() -> u32) -> Option<u32> {
        if let Some(used) = &mut self.primary {
            if used.len() > LAST as usize / 2 {
                return None;
            }
            loop {
                let number = random() & LAST;
                if number >= 2 && used.insert(number) {
                    return Some(number);
                }
            }
        }
        let (port, used) = self
            .ports
            .iter_mut()
            .find(|(_, used)| used.count < PER_PORT)?;
        let start = random();
        let i = (0..PER_PORT)
            .map(|i| start.wrapping_add(i) % PER_PORT)
            .find(|i| !used.contains(*i))?;
        used.flip(i);
        used.count += 1;
        Some(u32::from(*port) << 8 | i)
    }

    /// Gives a number back. Returns a port that is not needed any more: all its numbers are free, and
    /// those of another one.
    pub fn free(&mut self, number: u32) -> Option<u16> {
        let port = port_of(number);
        if port == PORT {
            if let Some(used) = &mut self.primary {
                used.remove(&number);
            }
            return None;
        }
        let i = number % PER_PORT;
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
    fn the_number_tells_the_port() {
        assert_eq!(port_of(0x11), 4791);
        assert_eq!(port_of(0x7f_ffff), 4791);
        assert_eq!(port_of(0x80_0000), 0x8000);
        assert_eq!(port_of(0xff_fe12), 0xfffe);
        assert_eq!(port_of(MULTICAST_QPN), 4791);
        assert_eq!(candidate(0), 0x8000);
        assert_eq!(candidate(u32::MAX), 0x8000 + (u32::MAX % 0x7fff) as u16);
        assert!((0..0x2_0000).all(|random| candidate(random) < 0xffff));
    }

    #[test]
    fn ten_thousand_on_ports_of_256() {
        let mut numbers = Numbers::default();
        let (mut taken, mut ports) = (HashSet::new(), 0);
        for i in 0..10_000_u32 {
            let number = numbers
                .take(|| i.wrapping_mul(0x9e37_79b9))
                .unwrap_or_else(|| {
                    numbers.add(FIRST_PORT + 3 * ports);
                    ports += 1;
                    numbers.take(|| 7).unwrap()
                });
            assert!(taken.insert(number));
            assert_eq!((port_of(number) - FIRST_PORT) % 3, 0);
        }
        assert_eq!(ports, 40);
        let closed: Vec<_> = taken
            .iter()
            .filter_map(|number| numbers.free(*number))
            .collect();
        assert_eq!(closed.len(), 39, "one stays");
        assert_eq!(numbers.ports.len(), 1);
        assert!(taken.iter().all(|number| numbers.free(*number).is_none()));
        assert!(numbers.take(|| 0).is_some());
    }

    proptest! {
        #[test]
        fn no_number_twice(seeds in prop::collection::vec(any::<u32>(), 1..300), primary: bool) {
            let mut numbers = Numbers::default();
            if primary {
                numbers.add(PORT);
            }
            let mut taken = Vec::new();
            for seed in seeds {
                if seed % 3 == 0 && !taken.is_empty() {
                    let number = taken.swap_remove(seed as usize % taken.len());
                    if let Some(port) = numbers.free(number) {
                        prop_assert!(taken.iter().all(|number| port_of(*number) != port));
                    }
                    continue;
                }
                let mut random = seed;
                let mut next = || {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    random
                };
                let number = numbers.take(&mut next).unwrap_or_else(|| {
                    numbers.add(candidate(seed));
                    numbers.take(&mut next).unwrap()
                });
                prop_assert!(!taken.contains(&number) && number > 1 && number < MULTICAST_QPN);
                taken.push(number);
            }
        }
    }
}
