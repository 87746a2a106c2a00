//! The invariant CRC (ICRC; specification 7.8.1, annex A17.3.3): a CRC-32 over the whole IP packet, with one
//! bits in place of the fields that routers change.

use std::net::IpAddr;

use crc32fast::Hasher;

use super::{Bth, ICRC_LEN, gid_of};

/// The fields of the IP and UDP headers that the ICRC covers, besides constant ones and lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The sender's IP address.
    pub src: IpAddr,
    /// The receiver's IP address.
    pub dst: IpAddr,
    /// The sender's UDP port.
    pub src_port: u16,
    /// The receiver's UDP port.
    pub dst_port: u16,
}

/// The fields of the IPv4 header that the ICRC covers and that a UDP socket does not report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Fragmentation {
    /// The identification.
    pub id: u16,
    /// The "don't fragment" flag.
    pub dont_fragment: bool,
}

impl Fragmentation {
    /// The values that Linux sets in datagrams of an unconnected socket with IP_PMTUDISC_DO. In the
    /// datagrams of a GSO buffer (UDP_SEGMENT) the identification counts up from there.
    pub const SENT: Fragmentation = Fragmentation {
        id: 0,
        dont_fragment: true,
    };
}

const UDP: u8 = 17;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
/// One bits that precede the IP header, in place of an InfiniBand local route header (LRH).
const LRH_LEN: usize = 8;
/// The "don't fragment" flag in the IPv4 header's 16 bits of flags and fragment offset.
pub(super) const DONT_FRAGMENT: u16 = 0x4000;

impl Flow {
    /// The ICRC of a packet, which reaches from the BTH to the end of the padding. IPv6 ignores
    /// `fragmentation`.
    pub fn icrc(&self, packet: &[u8], fragmentation: Fragmentation) -> [u8; ICRC_LEN] {
        self.sum(packet, fragmentation).to_le_bytes()
    }

    /// Checks the ICRC of a datagram, which reaches from the BTH to the ICRC. None if the ICRC is wrong.
    ///
    /// Over IPv4 the identification and the "don't fragment" flag are not known: the check passes if the
    /// ICRC is right for any value of both, and returns these values. This leaves 15 of the 32 bits to
    /// detect errors: the caller must also check that the sender may have used these values.
    pub fn check(&self, datagram: &[u8]) -> Option<Fragmentation> {
        self.check_expecting(datagram, 0)
    }

    /// Checks the ICRC as `check` does. Faster if the identification is `expected_id` and the flag is set.
    pub fn check_expecting(&self, datagram: &[u8], expected_id: u16) -> Option<Fragmentation> {
        let (packet, &icrc) = datagram.split_last_chunk::<ICRC_LEN>()?;
        if packet.len() < Bth::LEN {
            return None;
        }
        let expected = Fragmentation {
            id: if self.is_ipv4() { expected_id } else { 0 },
            ..Fragmentation::SENT
        };
        let wrong = self.sum(packet, expected) ^ u32::from_le_bytes(icrc);
        if wrong == 0 {
            return Some(expected);
        }
        if !self.is_ipv4() {
            return None;
        }
        // A CRC is linear: the difference that other values of the two fields make depends only on that
        // change and on the number of bytes that follow. Computed back over these bytes, it shows the
        // change.
        let following = IPV4_HEADER - 8 + UDP_HEADER + packet.len();
        if following % 4 != 0 {
            return None;
        }
        let bits = message_change(wrong, following)?.swap_bytes();
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
        let mut head = [0xff; LRH_LEN + IPV6_HEADER + UDP_HEADER + Bth::LEN];
        let udp_len = (UDP_HEADER + packet.len() + ICRC_LEN) as u16;
        let ip = &mut head[LRH_LEN..];
        let mut at = LRH_LEN
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
        // FECN, BECN and reserved bits.
        head[at + 4] = 0xff;
        let mut hasher = Hasher::new();
        hasher.update(&head[..at + bth_len]);
        hasher.update(rest);
        hasher.finalize()
    }
}

/// The CRC-32 polynomial, bit-reflected: the most significant bit is the coefficient of x^0.
const POLYNOMIAL: u32 = 0xedb8_8320;
/// x^0.
const ONE: u32 = 1 << 31;
/// x^-8.
const INVERSE_OF_BYTE: u32 = {
    let (mut value, mut i) = (ONE, 0);
    while i < 8 {
        value = divide_by_x(value);
        i += 1;
    }
    value
};

/// `value` / x, modulo the polynomial.
const fn divide_by_x(value: u32) -> u32 {
    // The polynomial's x^0 is in its most significant bit; its x^32 is implied.
    if value & ONE == 0 {
        value << 1
    } else {
        (value ^ POLYNOMIAL) << 1 | 1
    }
}

/// `a` * `b`, modulo the polynomial.
const fn multiply(a: u32, b: u32) -> u32 {
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

/// x^(-32 * i), for each number i of words that may follow a change, up to those of the longest packet.
static INVERSES: [u32; 1100] = {
    let mut per_word = INVERSE_OF_BYTE;
    per_word = multiply(per_word, per_word);
    per_word = multiply(per_word, per_word);
    let (mut inverses, mut i) = ([ONE; 1100], 1);
    while i < inverses.len() {
        inverses[i] = multiply(inverses[i - 1], per_word);
        i += 1;
    }
    inverses
};

/// The change (XOR) of four bytes of a message, the first in the least significant bits, that changes the
/// message's CRC by `crc_change` if `following` bytes follow the four, a multiple of four. None for more
/// bytes than a packet has.
fn message_change(crc_change: u32, following: usize) -> Option<u32> {
    // Changing the last four bytes changes the CRC by the change times x^32.
    let words = following / 4 + 1;
    Some(multiply(crc_change, *INVERSES.get(words)?))
}
