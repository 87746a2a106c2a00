//! A packet as it is on the wire: the IP and UDP headers, which a UDP socket does not show, and the datagram.

use std::net::IpAddr;

use roce::wire::grh::{IpHeader, checksum};
use roce::wire::{Flow, Fragmentation, PORT};

/// A RoCEv2 packet and the fields of its IP and UDP headers.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Addresses and ports.
    pub flow: Flow,
    /// Type of service, or traffic class.
    pub traffic_class: u8,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// IPv6 only.
    pub flow_label: u32,
    /// IPv4 only.
    pub fragmentation: Fragmentation,
    /// The bytes from the BTH to the ICRC.
    pub datagram: &'a [u8],
}

const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const IPV6_HEADER: usize = 40;

/// IP and UDP header: the first `len` bytes.
pub struct FrameHeaders {
    bytes: [u8; IPV6_HEADER + UDP_HEADER],
    start: usize,
}

impl FrameHeaders {
    /// The headers.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl Frame<'_> {
    /// The destination port, if the file shows 4791 in its place: Wireshark recognises
    /// RoCEv2 by port 4791.
    pub fn hidden_port(&self) -> Option<u16> {
        Some(self.flow.dst_port).filter(|port| *port != PORT)
    }

    /// The headers, with correct lengths and checksums and destination port 4791.
    pub fn headers(&self) -> FrameHeaders {
        let ip = IpHeader {
            src: self.flow.src,
            dst: self.flow.dst,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            flow_label: self.flow_label,
            fragmentation: self.fragmentation,
            datagram_len: self.datagram.len(),
        };
        let mut bytes = [0; IPV6_HEADER + UDP_HEADER];
        bytes[..IPV6_HEADER].copy_from_slice(&ip.grh());
        let udp_len = (self.datagram.len() + UDP_HEADER) as u16;
        let udp = &mut bytes[IPV6_HEADER..];
        udp[..2].copy_from_slice(&self.flow.src_port.to_be_bytes());
        udp[2..4].copy_from_slice(&PORT.to_be_bytes());
        udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
        let sum = self.udp_checksum(udp).to_be_bytes();
        udp[6..].copy_from_slice(&sum);
        let start = match self.flow.src {
            IpAddr::V4(_) => 20,
            IpAddr::V6(_) => 0,
        };
        FrameHeaders { bytes, start }
    }

    /// The checksum of the UDP header, whose own checksum is zero, the datagram and the pseudo-header.
    fn udp_checksum(&self, udp: &[u8]) -> u16 {
        let mut pseudo = [0; 40];
        pseudo[..16].copy_from_slice(&address(self.flow.src));
        pseudo[16..32].copy_from_slice(&address(self.flow.dst));
        pseudo[34..36].copy_from_slice(&udp[4..6]);
        pseudo[39] = UDP;
        match checksum(&[&pseudo, udp, self.datagram]) {
            0 => 0xffff,
            sum => sum,
        }
    }
}

/// The address in 16 bytes. The zeros in front of an IPv4 address change no sum.
fn address(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => {
            let mut bytes = [0; 16];
            bytes[12..].copy_from_slice(&v4.octets());
            bytes
        }
        IpAddr::V6(v6) => v6.octets(),
    }
}
