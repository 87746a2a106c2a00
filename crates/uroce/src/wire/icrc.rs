//! The invariant CRC (specification 7.8.1, annex A17.3.3): a CRC-32 over the whole IP packet, with ones
//! in place of what routers change.

use std::net::IpAddr;

use crc32fast::Hasher;

use super::{Bth, ICRC_LEN, gid_of};

/// What of the IP and UDP headers the ICRC covers, besides constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub src_port: u16,
    pub dst_port: u16,
}

/// The IPv4 fields that the ICRC covers and that a UDP socket cannot see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Fragmentation {
    /// The identification.
    pub id: u16,
    /// The "don't fragment" flag.
    pub dont_fragment: bool,
}

impl Fragmentation {
    /// What Linux gives the datagrams of a socket that is not connected and has IP_PMTUDISC_DO; those
    /// that UDP_SEGMENT cuts out of one buffer are numbered from there.
    pub const SENT: Fragmentation = Fragmentation {
        id: 0,
        dont_fragment: true,
    };
}

const UDP: u8 = 17;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
/// In front of the IP header stand eight bytes of ones, for an InfiniBand local route header.
const ONES: usize = 8;
/// The flag's bit beside the fragment offset, in an IPv4 header.
pub(super) const DONT_FRAGMENT: u16 = 0x4000;

impl Flow {
    /// The ICRC of a packet, from its base header to the end of its padding. `fragmentation` does not
    /// matter for IPv6.
    pub fn icrc(&self, packet: &[u8], fragmentation: Fragmentation) -> [u8; ICRC_LEN] {
        self.sum(packet, fragmentation).to_le_bytes()
    }

    /// Checks the ICRC of a datagram, from its base header to the ICRC. None if it is wrong.
    ///
    /// Over IPv4 it must be right for some identification and some "don't fragment" flag: these are
    /// returned. (17 of the 32 bits then say nothing; the UDP checksum is there beside them.)
    #[cfg(any(test, feature = "internals"))]
    pub fn check(&self, datagram: &[u8]) -> Option<Fragmentation> {
        self.check_expecting(datagram, 0)
    }

    /// The same, quicker if the identification is the one expected (and the flag is set).
    pub fn check_expecting(&self, datagram: &[u8], id: u16) -> Option<Fragmentation> {
        let (packet, &icrc) = datagram.split_last_chunk::<ICRC_LEN>()?;
        if packet.len() < Bth::LEN {
            return None;
        }
        let expected = Fragmentation {
            id: if self.is_ipv4() { id } else { 0 },
            ..Fragmentation::SENT
        };
        let wrong = self.sum(packet, expected) ^ u32::from_le_bytes(icrc);
        if wrong == 0 {
            return Some(expected);
        }
        if !self.is_ipv4() {
            return None;
        }
        // A CRC is linear: what other values of the fields change in it does not depend on anything
        // else but on how many bytes follow them. Turned back over these, the difference shows the bits.
        let following = IPV4_HEADER - 8 + UDP_HEADER + packet.len();
        if !following.is_multiple_of(4) {
            return None;
        }
        let bits = turn_back(wrong, following)?.swap_bytes();
        let (change, flags) = ((bits >> 16) as u16, bits as u16);
        (flags & !DONT_FRAGMENT == 0).then_some(Fragmentation {
            id: expected.id ^ change,
            dont_fragment: flags == 0,
        })
    }

    fn is_ipv4(&self) -> bool {
        self.src.is_ipv4() && self.dst.is_ipv4()
    }

    fn sum(&self, packet: &[u8], fragmentation: Fragmentation) -> u32 {
        let mut head = [0xff; ONES + IPV6_HEADER + UDP_HEADER + Bth::LEN];
        let udp_len = (UDP_HEADER + packet.len() + ICRC_LEN) as u16;
        let ip = &mut head[ONES..];
        let mut at = ONES
            + match (self.src, self.dst) {
                (IpAddr::V4(src), IpAddr::V4(dst)) => {
                    let flags = if fragmentation.dont_fragment {
                        DONT_FRAGMENT
                    } else {
                        0
                    };
                    ip[0] = 0x45;
                    ip[2..4]
                        .copy_from_slice(&udp_len.wrapping_add(IPV4_HEADER as u16).to_be_bytes());
                    ip[4..6].copy_from_slice(&fragmentation.id.to_be_bytes());
                    ip[6..8].copy_from_slice(&flags.to_be_bytes());
                    ip[9] = UDP;
                    ip[12..16].copy_from_slice(&src.octets());
                    ip[16..20].copy_from_slice(&dst.octets());
                    IPV4_HEADER
                }
                (src, dst) => {
                    ip[0] = 0x6f;
                    ip[4..6].copy_from_slice(&udp_len.to_be_bytes());
                    ip[6] = UDP;
                    ip[8..24].copy_from_slice(&gid_of(src));
                    ip[24..40].copy_from_slice(&gid_of(dst));
                    IPV6_HEADER
                }
            };
        head[at..at + 2].copy_from_slice(&self.src_port.to_be_bytes());
        head[at + 2..at + 4].copy_from_slice(&self.dst_port.to_be_bytes());
        head[at + 4..at + 6].copy_from_slice(&udp_len.to_be_bytes());
        at += UDP_HEADER;
        let bth_len = packet.len().min(Bth::LEN);
        let (bth, rest) = packet.split_at(bth_len);
        head[at..at + bth_len].copy_from_slice(bth);
        // Congestion bits and reserved ones.
        head[at + 4] = 0xff;
        let mut hasher = Hasher::new();
        hasher.update(&head[..at + bth_len]);
        hasher.update(rest);
        hasher.finalize()
    }
}

/// The polynomial, its bits in the order of a reflected CRC: the highest bit stands for x^0.
const POLYNOMIAL: u32 = 0xedb8_8320;
/// x^0 and x^-8.
const ONE: u32 = 1 << 31;
const PER_BYTE: u32 = {
    let (mut value, mut i) = (ONE, 0);
    while i < 8 {
        value = by_inverse(value);
        i += 1;
    }
    value
};

/// `value` / x.
const fn by_inverse(value: u32) -> u32 {
    // The polynomial's x^0 is in its highest bit, and its x^32 is implied.
    if value & ONE == 0 {
        value << 1
    } else {
        (value ^ POLYNOMIAL) << 1 | 1
    }
}

/// `a` * `b`.
const fn times(a: u32, b: u32) -> u32 {
    let (mut product, mut shifted, mut i) = (0, b, 0);
    while i < 32 {
        if a & ONE >> i != 0 {
            product ^= shifted;
        }
        shifted = shifted >> 1 ^ if shifted & 1 != 0 { POLYNOMIAL } else { 0 };
        i += 1;
    }
    product
}

/// x^(-8 * 4 * i): for each number of words that stand behind a change, up to those of the longest packet.
static INVERSES: [u32; 1100] = {
    let mut per_word = PER_BYTE;
    per_word = times(per_word, per_word);
    per_word = times(per_word, per_word);
    let (mut inverses, mut i) = ([ONE; 1100], 1);
    while i < inverses.len() {
        inverses[i] = times(inverses[i - 1], per_word);
        i += 1;
    }
    inverses
};
/// The four bytes (the first in the lowest bits) that, changed in a message, change its CRC by
/// `change` when `following` bytes come after them, a multiple of four. None for more than there can be.
fn turn_back(change: u32, following: usize) -> Option<u32> {
    // The CRC of a change of the four last bytes is it times x^32.
    let words = following / 4 + 1;
    Some(times(change, *INVERSES.get(words)?))
}
