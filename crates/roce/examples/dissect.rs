//! Prints the RoCEv2 packets of a pcapng file, one a line: addresses, operation, destination queue pair, PSN,
//! payload, and whether the ICRC is right.
//!
//!     IBV_UROCE=1 IBV_UROCE_PCAP=trace.pcapng with-ibverbs-rs PROGRAM
//!     cargo run --example dissect -- trace.pcapng

use std::error::Error;
use std::fs::File;
use std::io::{Write, stdout};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pcap_file::DataLink;
use pcap_file::pcapng::{Block, PcapNgReader};
use roce::wire::{Flow, PORT, Packet};

const UDP: u8 = 17;
const UDP_HEADER: usize = 8;

/// A UDP datagram: its addresses, and what follows the UDP header.
struct Datagram<'a> {
    flow: Flow,
    payload: &'a [u8],
}

/// The datagram in an IP packet without options or extension headers.
fn datagram(ip: &[u8]) -> Option<Datagram<'_>> {
    let (src, dst, protocol, header): (IpAddr, IpAddr, u8, usize) = match ip.first()? >> 4 {
        4 => {
            let address = |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&ip[at..at + 4]).unwrap());
            (ip.len() >= 20).then(|| (address(12).into(), address(16).into(), ip[9], 20))?
        }
        6 => {
            let address =
                |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&ip[at..at + 16]).unwrap());
            (ip.len() >= 40).then(|| (address(8).into(), address(24).into(), ip[6], 40))?
        }
        _ => return None,
    };
    let udp = ip
        .get(header..)
        .filter(|udp| protocol == UDP && udp.len() >= UDP_HEADER)?;
    let number = |at: usize| u16::from_be_bytes([udp[at], udp[at + 1]]);
    Some(Datagram {
        flow: Flow {
            src,
            dst,
            src_port: number(0),
            dst_port: number(2),
        },
        payload: udp.get(UDP_HEADER..usize::from(number(4)))?,
    })
}

/// The line for a packet; None if it is not one of RoCEv2.
fn line(ip: &[u8]) -> Option<String> {
    let Datagram { flow, payload } = datagram(ip)?;
    if flow.dst_port != PORT {
        return None;
    }
    let Ok(packet) = Packet::parse(payload) else {
        return Some(format!("{} > {}: malformed", flow.src, flow.dst));
    };
    let bth = &packet.bth;
    let (transport, operation, part) = bth.opcode.parts()?;
    let icrc = match flow.check(payload) {
        Some(_) => "right",
        None => "wrong",
    };
    let mut line = format!(
        "{} > {}: {transport:?} {operation:?} {part:?}, QP {:#08x}, PSN {}, {} bytes, ICRC {icrc}",
        flow.src,
        flow.dst,
        bth.dest_qpn,
        bth.psn.get(),
        packet.payload.len(),
    );
    if let Some(reth) = packet.reth() {
        line += &format!(
            ", R_Key {:#x}, {} bytes at {:#x}",
            reth.rkey, reth.len, reth.va
        );
    }
    if let Some(aeth) = packet.aeth() {
        line += &format!(", {:?}", aeth.kind);
    }
    Some(line)
}

/// The IP packet in a frame.
fn ip_packet(link: DataLink, frame: &[u8]) -> Option<&[u8]> {
    match link {
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => Some(frame),
        DataLink::ETHERNET => frame.get(14..),
        _ => None,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os()
        .nth(1)
        .ok_or("usage: dissect FILE.pcapng")?;
    let mut reader = PcapNgReader::new(File::open(path)?)?;
    let (mut links, mut out) = (Vec::new(), stdout().lock());
    while let Some(block) = reader.next_block() {
        match block? {
            Block::InterfaceDescription(interface) => links.push(interface.linktype),
            Block::EnhancedPacket(packet) => {
                let link = links.get(packet.interface_id as usize);
                let link = *link.ok_or("a packet of an unknown interface")?;
                if let Some(line) = ip_packet(link, &packet.data).and_then(line) {
                    writeln!(out, "{line}")?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
