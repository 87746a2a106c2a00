//! Parses datagrams received on uroce's UDP port, and writes them again.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use roce::wire::{Bth, Flow, Fragmentation, ICRC_LEN, MAX_HEADERS, Packet};

const V4: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
];
const V6: [IpAddr; 2] = [
    IpAddr::V6(Ipv6Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9)),
];

fuzz_target!(|datagram: &[u8]| {
    if let Ok(packet) = Packet::parse(datagram) {
        assert!(packet.headers().encoded_len() <= MAX_HEADERS);
        let mut rewritten = vec![0; MAX_HEADERS];
        let len = packet.headers().write(&mut rewritten);
        assert_eq!(len, packet.headers().encoded_len());
        rewritten.truncate(len);
        rewritten.extend(packet.payload);
        let pad = usize::from(packet.bth.pad);
        rewritten.resize(rewritten.len() + pad + ICRC_LEN, 0);
        assert_eq!(rewritten.len(), datagram.len());
        let parsed = Packet::parse(&rewritten).unwrap();
        assert_eq!(parsed.headers(), packet.headers());
        assert_eq!(parsed.payload, packet.payload);
    }
    for [src, dst] in [V4, V6] {
        let flow = Flow {
            src,
            dst,
            src_port: 4791,
            dst_port: 4791,
        };
        match (flow.check(datagram), datagram.split_last_chunk()) {
            (Some(found), Some((packet, icrc))) => {
                assert!(packet.len() >= Bth::LEN);
                assert_eq!(flow.icrc(packet, found), *icrc);
                if src.is_ipv6() {
                    assert_eq!(found, Fragmentation::SENT);
                }
            }
            (None, Some((packet, icrc))) => {
                // Too short, or the ICRC is wrong.
                let wrong = flow.icrc(packet, Fragmentation::SENT) != *icrc;
                assert!(packet.len() < Bth::LEN || wrong);
            }
            (found, None) => assert_eq!(found, None),
        }
    }
});
