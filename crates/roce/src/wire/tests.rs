//! Tests of packets, ICRC and GRH.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::{
    grh::{GrhTemplate, IpHeader},
    *,
};

const SERVICES: [Transport; 4] = [Transport::Rc, Transport::Uc, Transport::Ud, Transport::Xrc];

fn known() -> impl Iterator<Item = (Opcode, Transport, Operation, Part)> {
    (0..=255).map(Opcode).filter_map(|opcode| {
        let (transport, operation, part) = opcode.parts()?;
        Some((opcode, transport, operation, part))
    })
}

#[test]
fn opcodes_have_the_numbers_of_the_specification() {
    use Operation::*;
    use Part::*;
    let count = |service| known().filter(|known| known.1 == service).count();
    assert_eq!(SERVICES.map(count), [32, 12, 2, 32]);
    for (opcode, transport, operation, part) in known() {
        if operation != Reserved {
            assert_eq!(Opcode::new(transport, operation, part), opcode);
        }
    }
    for (number, transport, operation, part) in [
        (0x00, Transport::Rc, Send, First),
        (0x0b, Transport::Rc, WriteImm, Only),
        (0x0f, Transport::Rc, ReadResponse, Last),
        (0x14, Transport::Rc, FetchAdd, Only),
        (0x17, Transport::Rc, SendInv, Only),
        (0x1c, Transport::Rc, Flush, Only),
        (0x1d, Transport::Rc, AtomicWrite, Only),
        (0x2a, Transport::Uc, Write, Only),
        (0x64, Transport::Ud, Send, Only),
        (0x65, Transport::Ud, SendImm, Only),
        (0xb1, Transport::Xrc, Ack, Only),
    ] {
        assert_eq!(
            Opcode(number).parts(),
            Some((transport, operation, part)),
            "{number:#x}"
        );
    }
    for number in [0x15, 0x18, 0x1b, 0x1e, 0x1f, 0xb5, 0xbf] {
        let parts = Opcode(number).parts();
        assert_eq!(parts.map(|parts| parts.1), Some(Reserved), "{number:#x}");
    }
    // Vendor-specific, congestion notification, reliable datagram, UC SEND with invalidate, reserved in UD.
    for number in [0xc0, 0x81, 0x40, 0x44, 0x36, 0x6a] {
        assert_eq!(Opcode(number).parts(), None, "{number:#x}");
    }
    assert_eq!(Opcode::new(Transport::Rc, SendImm, First), Opcode(0));
    assert_eq!(Opcode::new(Transport::Uc, WriteImm, Middle), Opcode(0x27));
}

#[test]
fn gids_are_addresses() {
    for (ip, gid) in [
        ("192.0.2.1", "::ffff:192.0.2.1"),
        ("fe80::1", "fe80::1"),
        ("::1", "::1"),
    ] {
        let (ip, gid): (IpAddr, Ipv6Addr) = (ip.parse().unwrap(), gid.parse().unwrap());
        assert_eq!(gid_of(ip), gid.octets());
        assert_eq!(ip_of(&gid.octets()), ip);
    }
    let group: Ipv6Addr = "ff0e::ffff:224.1.2.3".parse().unwrap();
    assert_eq!(ip_of(&group.octets()), IpAddr::from([224, 1, 2, 3]));
}

#[test]
fn packet_sequence_numbers_wrap() {
    let last = Psn::new(0xff_ffff);
    assert_eq!(last.next(), Psn::new(0));
    assert_eq!(last + 3, Psn::new(2));
    assert_eq!(Psn::new(1) - 2, last);
    assert_eq!(Psn::new(2).distance(last), 3);
    assert_eq!(last.distance(Psn::new(2)), -3);
    assert_eq!(Psn::new(0x80_0000).distance(Psn::new(0)), -0x80_0000);
}

fn bth(opcode: Opcode) -> Bth {
    Bth {
        opcode,
        solicited: true,
        migrated: true,
        pad: 0,
        pkey: 0xffff,
        dest_qpn: 0x12_3456,
        ack_request: false,
        psn: Psn::new(0xab_cdef),
    }
}

/// A whole packet with an ICRC of zeros.
fn written(headers: &Headers, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xee; MAX_HEADERS];
    let len = headers.write(&mut packet);
    assert_eq!(len, headers.encoded_len());
    packet.truncate(len);
    packet.extend(payload);
    packet.resize(packet.len() + usize::from(headers.bth.pad) + ICRC_LEN, 0);
    packet
}

#[test]
fn headers_are_as_in_the_specification() {
    let mut headers = Headers::new(Bth {
        ack_request: true,
        pad: 1,
        ..bth(Opcode(0xab))
    });
    headers.xrc_srqn = Some(0x65_4321);
    headers.reth = Some(Reth {
        va: 0x0102_0304_0506_0708,
        rkey: 0x1122_3344,
        len: 3,
    });
    headers.imm = Some(u32::from_ne_bytes(*b"IMMD"));
    let mut want = vec![0xab, 0xd0, 0xff, 0xff, 0, 0x12, 0x34, 0x56];
    want.extend([0x80, 0xab, 0xcd, 0xef, 0, 0x65, 0x43, 0x21]);
    want.extend([1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 3]);
    want.extend(b"IMMDabc\0\0\0\0\0");
    assert_eq!(written(&headers, b"abc"), want);
    let packet = Packet::parse(&want).unwrap();
    assert_eq!((packet.headers(), packet.payload), (headers, &b"abc"[..]));

    let mut headers = Headers::new(bth(Opcode(0x12)));
    headers.aeth = Some(Aeth {
        kind: AethKind::Ack { credits: 31 },
        msn: 0x01_0203,
    });
    headers.atomic_ack = Some(0x0807_0605_0403_0201);
    let bytes = written(&headers, &[]);
    assert_eq!(bytes[12..24], [31, 1, 2, 3, 8, 7, 6, 5, 4, 3, 2, 1]);

    let mut headers = Headers::new(bth(Opcode(0x1c)));
    headers.feth = Some(Feth {
        placement: 2,
        selectivity: 1,
    });
    headers.reth = Some(Reth {
        va: 1,
        rkey: 2,
        len: 3,
    });
    assert_eq!(written(&headers, &[])[12..16], [0, 0, 0, 0x12]);

    let mut headers = Headers::new(bth(Opcode(0x13)));
    headers.atomic = Some(AtomicEth {
        va: 1,
        rkey: 2,
        swap_add: 3,
        compare: 4,
    });
    let bytes = written(&headers, &[]);
    assert_eq!((bytes[19], bytes[23], bytes[31], bytes[39]), (1, 2, 3, 4));

    let mut headers = Headers::new(bth(Opcode(0x64)));
    headers.deth = Some(Deth {
        qkey: 0x1111_1111,
        src_qpn: 0x22_2222,
    });
    let bytes = written(&headers, &[]);
    assert_eq!(bytes[12..20], [0x11, 0x11, 0x11, 0x11, 0, 0x22, 0x22, 0x22]);
}

#[test]
fn syndromes() {
    let parsed = |syndrome: u8| {
        let packet = [&[0x11; 1][..], &[0x40; 1], &[0; 10], &[syndrome], &[0; 7]].concat();
        Packet::parse(&packet).map(|packet| packet.aeth().unwrap().kind)
    };
    assert_eq!(parsed(0x1f), Ok(AethKind::Ack { credits: 31 }));
    assert_eq!(parsed(0x2e), Ok(AethKind::RnrNak { timer: 14 }));
    assert_eq!(parsed(0x60), Ok(AethKind::Nak(NakCode::PsnSequence)));
    assert_eq!(parsed(0x64), Ok(AethKind::Nak(NakCode::InvalidRdRequest)));
    for reserved in [0x40, 0x65, 0x7f, 0x80, 0xe0] {
        assert_eq!(parsed(reserved), Err(Malformed), "{reserved:#x}");
    }
}

#[test]
fn invalid_packets_are_refused() {
    let send = written(&Headers::new(bth(Opcode(0x04))), &[1; 8]);
    assert!(Packet::parse(&send).is_ok());
    for len in 0..Bth::LEN + ICRC_LEN {
        assert!(Packet::parse(&send[..len]).is_err(), "{len}");
    }
    // A payload whose length is no multiple of 4; TVer 1; more padding than payload.
    assert!(Packet::parse(&send[..send.len() - 1]).is_err());
    let changed = |at: usize, to: u8| {
        let mut bytes = send.clone();
        bytes[at] = to;
        bytes
    };
    assert!(Packet::parse(&changed(1, 1)).is_err());
    let empty = &changed(1, 0x30)[..Bth::LEN + ICRC_LEN];
    assert!(Packet::parse(empty).is_err());
    // ACK, RDMA READ request and atomic with a payload; ATOMIC WRITE of 4 bytes.
    for (opcode, len) in [(0x11, 4), (0x0c, 16), (0x13, 28), (0x1c, 20), (0x1d, 16)] {
        let mut bytes = written(&Headers::new(bth(Opcode(opcode))), &vec![0; len + 4]);
        assert!(Packet::parse(&bytes).is_err(), "{opcode:#x}");
        if opcode == 0x1d {
            bytes.extend([0; 4]);
        } else {
            bytes.truncate(bytes.len() - 4);
        }
        assert!(Packet::parse(&bytes).is_ok(), "{opcode:#x}");
    }
}

prop_compose! {
    fn any_bth()(
        (opcode, ..) in proptest::sample::select(known().collect::<Vec<_>>()),
        solicited: bool,
        migrated: bool,
        ack_request: bool,
        pkey: u16,
        dest_qpn in 0..1_u32 << 24,
        psn in 0..1_u32 << 24,
    ) -> Bth {
        Bth { opcode, solicited, migrated, pad: 0, pkey, dest_qpn, ack_request, psn: Psn::new(psn) }
    }
}

fn any_ip(v4: bool) -> BoxedStrategy<IpAddr> {
    if v4 {
        any::<Ipv4Addr>().prop_map(IpAddr::V4).boxed()
    } else {
        any::<Ipv6Addr>().prop_map(IpAddr::V6).boxed()
    }
}

prop_compose! {
    fn any_flow(v4: bool)(
        src in any_ip(v4),
        dst in any_ip(v4),
        src_port: u16,
        dst_port: u16,
    ) -> Flow {
        Flow { src, dst, src_port, dst_port }
    }
}

fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    (3..1060_usize).prop_flat_map(|words| prop::collection::vec(any::<u8>(), 4 * words))
}

proptest! {
    /// Writing the parsed headers gives the same bytes, except for reserved bits.
    #[test]
    fn round_trip(bth in any_bth(), mut bytes in prop::collection::vec(any::<u8>(), 44..100)) {
        Headers::new(bth).write(&mut bytes);
        if let Ok(packet) = Packet::parse(&bytes) {
            let again = written(&packet.headers(), packet.payload);
            let parsed = Packet::parse(&again).unwrap();
            prop_assert_eq!(parsed.headers(), packet.headers());
            prop_assert_eq!(parsed.payload, packet.payload);
            prop_assert_eq!(again.len(), bytes.len());
        }
    }

    /// Each opcode with its headers and a payload that it permits.
    #[test]
    fn every_opcode_parses(bth in any_bth(), bytes: [u8; 48]) {
        let parses = (0..=48 - Bth::LEN).any(|len| {
            let mut packet = bytes;
            Headers::new(bth).write(&mut packet);
            packet[Bth::LEN] = 0x1f;
            Packet::parse(&packet[..Bth::LEN + len]).is_ok()
        });
        prop_assert!(parses, "{:?}", bth.opcode.parts());
    }

    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = Packet::parse(&bytes);
    }

    #[test]
    fn the_icrc_passes_for_every_identification(
        flow in any_flow(true),
        mut packet in any_packet(),
        id: u16,
        dont_fragment: bool,
    ) {
        let fragmentation = Fragmentation { id, dont_fragment };
        let icrc = flow.icrc(&packet, fragmentation);
        packet.extend(icrc);
        prop_assert_eq!(flow.check(&packet), Some(fragmentation));
        prop_assert_eq!(flow.check_expecting(&packet, id), Some(fragmentation));
        prop_assert_eq!(flow.check_expecting(&packet, !id), Some(fragmentation));
    }

    #[test]
    fn the_icrc_of_ipv6(flow in any_flow(false), mut packet in any_packet(), at: u32) {
        let icrc = flow.icrc(&packet, Fragmentation::SENT);
        packet.extend(icrc);
        prop_assert_eq!(flow.check(&packet), Some(Fragmentation::SENT));
        // Any single wrong bit is detected, except in the byte of FECN, BECN and reserved bits.
        let bit = at as usize % (8 * packet.len());
        packet[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(flow.check(&packet).is_some(), bit / 8 == 4);
    }

    /// The ICRC does not cover fields that routers change.
    #[test]
    fn congestion_bits_are_not_covered(flow in any_flow(true), mut packet in any_packet()) {
        let icrc = flow.icrc(&packet, Fragmentation::SENT);
        packet[4] ^= 0xff;
        prop_assert_eq!(flow.icrc(&packet, Fragmentation::SENT), icrc);
    }

    /// With 17 bits of the IPv4 header unknown, a packet with errors passes only if its ICRC is right for
    /// another identification or flag.
    #[test]
    fn burst_errors_are_detected_over_ipv4(
        flow in any_flow(true),
        mut packet in any_packet(),
        at: usize,
        burst in 1..=u8::MAX,
    ) {
        let icrc = flow.icrc(&packet, Fragmentation::SENT);
        packet.extend(icrc);
        let at = at % packet.len();
        prop_assume!(at != 4);
        packet[at] ^= burst;
        if let Some(found) = flow.check(&packet) {
            // Indistinguishable from a valid packet with this identification.
            let (body, icrc) = packet.split_last_chunk::<ICRC_LEN>().unwrap();
            prop_assert_eq!(flow.icrc(body, found), *icrc);
            prop_assert_ne!(found, Fragmentation::SENT);
        }
    }
}

#[test]
fn few_errors_pass_the_icrc() {
    let flow = Flow {
        src: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        dst: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
        src_port: 4791,
        dst_port: 4791,
    };
    let mut packet = vec![0x5a; 1024 + 12];
    packet.extend(flow.icrc(&packet, Fragmentation::SENT));
    // Every error of up to three adjacent bits.
    let mut passed = 0;
    for bit in (0..8 * packet.len()).filter(|bit| bit / 8 != 4) {
        for pattern in [1_u16, 3, 5, 7] {
            let mut wrong = packet.clone();
            let pattern = (pattern << (bit % 8)).to_le_bytes();
            wrong[bit / 8] ^= pattern[0];
            if let Some(next) = wrong.get_mut(bit / 8 + 1) {
                *next ^= pattern[1];
            }
            passed += u32::from(flow.check(&wrong).is_some());
        }
    }
    // One of 2^15 errors passes; there are about 33,000.
    assert!(passed < 12, "{passed}");
    assert_eq!(flow.check(&packet[..15]), None);
    assert_eq!(flow.check(&[]), None);
}

/// A packet that kernel rxe sent.
struct RxePacket {
    /// The packet from the UDP header on, in hexadecimal.
    hex: &'static str,
    /// The IP identification.
    id: u16,
    /// The sender: the last byte of its IP address.
    host: u8,
    /// The length of the payload, in bytes.
    len: usize,
}

/// Packets of kernel rxe (Linux 6.12) in the virtual machine.
const RXE_PACKETS: [RxePacket; 5] = [
    // ibv_ud_pingpong: SEND only
    RxePacket {
        hex: "df9412b7003400006430ffff00000011006acd1211111111000000117b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b\
         000000cb36a372",
        id: 0x1aa8,
        host: 1,
        len: 17,
    },
    RxePacket {
        hex: "df9412b7003400006430ffff00000011000b90b611111111000000117b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b\
         000000b277821c",
        id: 0x6c4d,
        host: 2,
        len: 17,
    },
    // ibv_rc_pingpong: SEND last, its ACK
    RxePacket {
        hex: "c14412b7002000000210ffff00000012803f0f8e7b7b7b7b7b7b7b00116ac344",
        id: 0x1d7d,
        host: 1,
        len: 7,
    },
    RxePacket {
        hex: "c14412b7001c00001100ffff00000012003f0f8e1f00000170081bbb",
        id: 0x6fd3,
        host: 2,
        len: 0,
    },
    // ibv_uc_pingpong: SEND only
    RxePacket {
        hex: "c16912b7001c00002410ffff000000130037fc887b7b7b0069812fb6",
        id: 0x2124,
        host: 1,
        len: 3,
    },
];

#[test]
fn packets_of_kernel_rxe() {
    for RxePacket { hex, id, host, len } in RXE_PACKETS {
        let digits = hex.as_bytes().chunks(2);
        let bytes: Vec<u8> = digits
            .map(|two| u8::from_str_radix(core::str::from_utf8(two).unwrap(), 16).unwrap())
            .collect();
        let (udp, datagram) = bytes.split_at(8);
        let flow = Flow {
            src: IpAddr::V4(Ipv4Addr::new(10, 9, 8, host)),
            dst: IpAddr::V4(Ipv4Addr::new(10, 9, 8, 3 - host)),
            src_port: u16::from_be_bytes([udp[0], udp[1]]),
            dst_port: PORT,
        };
        let fragmentation = Fragmentation {
            id,
            dont_fragment: true,
        };
        assert_eq!(flow.check(datagram), Some(fragmentation), "{hex}");
        let packet = Packet::parse(datagram).unwrap();
        assert!(!packet.bth.migrated);
        assert_eq!(packet.payload, vec![0x7b; len]);
        assert_eq!(
            written(&packet.headers(), packet.payload)[..datagram.len() - 4],
            datagram[..datagram.len() - 4]
        );
        match packet.bth.opcode.parts().unwrap() {
            (Transport::Ud, ..) => assert_eq!(packet.deth().unwrap().src_qpn, 0x11),
            (_, Operation::Ack, _) => {
                let aeth = packet.aeth().unwrap();
                assert_eq!((aeth.kind, aeth.msn), (AethKind::Ack { credits: 31 }, 1));
            }
            _ => {}
        }
    }
}

#[test]
fn grh_of_a_datagram() {
    let v4 = IpHeader {
        src: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        dst: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
        traffic_class: 2,
        hop_limit: 64,
        flow_label: 0,
        fragmentation: Fragmentation {
            id: 0x1234,
            dont_fragment: true,
        },
        datagram_len: 100,
    };
    let grh = v4.grh();
    assert_eq!(grh[..20], [0; 20]);
    assert_eq!(grh[20..30], [0x45, 2, 0, 128, 0x12, 0x34, 0x40, 0, 64, 17]);
    let words = grh[20..].chunks(2);
    let sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);

    let src = Ipv6Addr::new(0xfe80, 0, 0, 0, 1, 2, 3, 4);
    let v6 = IpHeader {
        src: IpAddr::V6(src),
        dst: IpAddr::V6(Ipv6Addr::LOCALHOST),
        flow_label: 0xabcde,
        ..v4
    };
    let grh = v6.grh();
    assert_eq!(grh[..8], [0x60, 0x2a, 0xbc, 0xde, 0, 108, 17, 64]);
    assert_eq!(grh[8..24], src.octets());
    assert_eq!(grh[24..], Ipv6Addr::LOCALHOST.octets());
}

proptest! {
    /// A template gives the header that is made anew.
    #[test]
    fn a_template_gives_the_same_header(
        v4 in any::<bool>(),
        addresses in any::<[u128; 2]>(),
        traffic_class in any::<u8>(),
        hop_limit in any::<u8>(),
        flow_label in 0..1u32 << 20,
        id in any::<u16>(),
        dont_fragment in any::<bool>(),
        datagram_len in 12..4300usize,
    ) {
        let [src, dst] = addresses.map(|address| match v4 {
            true => IpAddr::from(Ipv4Addr::from(address as u32)),
            false => IpAddr::from(Ipv6Addr::from(address)),
        });
        let header = IpHeader {
            src,
            dst,
            traffic_class,
            hop_limit,
            flow_label,
            fragmentation: Fragmentation { id, dont_fragment },
            datagram_len,
        };
        let template = GrhTemplate::new(&IpHeader { traffic_class: 7, datagram_len: 99, ..header });
        prop_assert_eq!(template.grh(traffic_class, datagram_len), header.grh());
    }
}
