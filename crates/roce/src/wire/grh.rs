//! The 40 bytes of GRH that precede a UD message in its receive buffer (specification 8.3, annex A17.4.5.1):
//! the IPv6 header, or 20 bytes of zeros and the IPv4 header.

use std::net::IpAddr;

use super::{Fragmentation, gid_of, icrc::DONT_FRAGMENT};

/// The fields of a received datagram's IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// The sender's address.
    pub src: IpAddr,
    /// The receiver's address.
    pub dst: IpAddr,
    /// Type of service, or traffic class.
    pub traffic_class: u8,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// IPv6 only.
    pub flow_label: u32,
    /// IPv4 only.
    pub fragmentation: Fragmentation,
    /// The length of the UDP payload, in bytes.
    pub datagram_len: usize,
}

const UDP: u8 = 17;
const UDP_HEADER: usize = 8;

impl IpHeader {
    /// The GRH for the receive buffer, with the IP header as it was on the wire.
    pub fn grh(&self) -> [u8; 40] {
        let mut grh = [0; 40];
        let payload_len = self.datagram_len + UDP_HEADER;
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let ip = &mut grh[20..];
                let flags = if self.fragmentation.dont_fragment {
                    DONT_FRAGMENT
                } else {
                    0
                };
                ip[0] = 0x45;
                ip[1] = self.traffic_class;
                ip[2..4].copy_from_slice(&((payload_len + 20) as u16).to_be_bytes());
                ip[4..6].copy_from_slice(&self.fragmentation.id.to_be_bytes());
                ip[6..8].copy_from_slice(&flags.to_be_bytes());
                ip[8] = self.hop_limit;
                ip[9] = UDP;
                ip[12..16].copy_from_slice(&src.octets());
                ip[16..20].copy_from_slice(&dst.octets());
                let sum = checksum(&[&*ip]);
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            (src, dst) => {
                let first =
                    6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
                grh[..4].copy_from_slice(&first.to_be_bytes());
                grh[4..6].copy_from_slice(&(payload_len as u16).to_be_bytes());
                grh[6] = UDP;
                grh[7] = self.hop_limit;
                grh[8..24].copy_from_slice(&gid_of(src));
                grh[24..].copy_from_slice(&gid_of(dst));
            }
        }
        grh
    }
}

/// The GRH of all datagrams of a flow whose headers differ in traffic class and length only.
#[derive(Clone, Copy, Debug)]
pub struct GrhTemplate {
    /// The GRH of a datagram without bytes, with traffic class 0.
    grh: [u8; 40],
    is_ipv4: bool,
}

impl GrhTemplate {
    /// The template for datagrams with this header; its traffic class and length do not matter.
    pub fn new(header: &IpHeader) -> GrhTemplate {
        let header = IpHeader {
            traffic_class: 0,
            datagram_len: 0,
            ..*header
        };
        GrhTemplate {
            grh: header.grh(),
            is_ipv4: header.src.is_ipv4() && header.dst.is_ipv4(),
        }
    }

    /// Returns what [`IpHeader::grh`] does with this traffic class and length.
    #[inline]
    pub fn grh(&self, traffic_class: u8, datagram_len: usize) -> [u8; 40] {
        let mut grh = self.grh;
        if self.is_ipv4 {
            let added = datagram_len as u16;
            let old_len = u16::from_be_bytes([grh[22], grh[23]]);
            grh[21] = traffic_class;
            grh[22..24].copy_from_slice(&old_len.wrapping_add(added).to_be_bytes());
            // RFC 1624: the sum grows by what the words have grown by.
            let old_sum = !u16::from_be_bytes([grh[30], grh[31]]);
            let sum = u32::from(old_sum) + u32::from(traffic_class) + u32::from(added);
            grh[30..32].copy_from_slice(&folded(sum).to_be_bytes());
        } else {
            let old_len = u16::from_be_bytes([grh[4], grh[5]]);
            grh[0] |= traffic_class >> 4;
            grh[1] |= traffic_class << 4;
            grh[4..6].copy_from_slice(&old_len.wrapping_add(datagram_len as u16).to_be_bytes());
        }
        grh
    }
}

/// The internet checksum (RFC 1071) of parts whose own checksum field is zero. Each but the last has an even
/// number of bytes; they are at most 64 KiB in all.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum: u32 = words
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    folded(sum)
}

/// The checksum that belongs to a sum of words.
fn folded(sum: u32) -> u16 {
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}
