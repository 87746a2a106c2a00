//! Packets that a device sends and receives are recorded as they are on the wire.

use std::net::UdpSocket;
use std::sync::atomic::Ordering;

use super::*;
use crate::capture::tests::{RecordedPacket, TempDirectory, read};
use roce::wire::{Flow, Fragmentation, ICRC_LEN};

fn recorded_net(directory: &TempDirectory, name: &str, address: u8) -> Net {
    let config = Config::new(
        name,
        Netdev::Address {
            ip: Ipv4Addr::new(127, 1, 77, address).into(),
            scope: None,
        },
    );
    Net::open_with_tap(&config, Some(directory.tap(name, name))).unwrap()
}

/// The datagram of a recorded IPv4 packet, and whether its ICRC is right for the recorded header and the
/// given destination port.
fn datagram_of(packet: &RecordedPacket, dst_port: u16) -> (&[u8], bool) {
    let (header, datagram) = packet.data.split_at(28);
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let address = |at: usize| Ipv4Addr::from(*header[at..].first_chunk::<4>().unwrap());
    let flow = Flow {
        src: address(12).into(),
        dst: address(16).into(),
        src_port: word(20),
        dst_port,
    };
    let fragmentation = Fragmentation {
        id: word(4),
        dont_fragment: word(6) == 0x4000,
    };
    let (covered, icrc) = datagram.split_last_chunk::<ICRC_LEN>().unwrap();
    (datagram, flow.icrc(covered, fragmentation) == *icrc)
}

/// A batch that the kernel segments, to a port other than 4791.
#[test]
fn both_ends_record_the_same_packets() {
    let directory = TempDirectory::new("transport");
    let a = recorded_net(&directory, "a", 81);
    let _owner = alone(82);
    let b = recorded_net(&directory, "b", 82);
    let (here, there) = (a.alloc_qpn().unwrap(), b.alloc_qpn().unwrap());
    assert_eq!(port_of(here), PORT);
    let port = port_of(there);
    assert_ne!(port, PORT);
    let gid = b.gids()[1].unwrap().gid;
    let mut outbox = Outbox::try_new().unwrap();
    let path = AddressVector {
        traffic_class: 0x28,
        ..path(gid, 1)
    };
    for psn in 0..5 {
        let headers = write(psn, there, Part::Middle);
        push(&a, &mut outbox, here, headers, 1024, path);
    }
    a.flush(&mut outbox);
    assert_eq!(receive(&b, 5).len(), 5);
    drop((a, b));
    let [sent, received] = ["a", "b"].map(|name| read(&directory.file(name)));
    assert_eq!((sent.len(), received.len()), (5, 5));
    for (psn, (sent, received)) in (0..).zip(sent.iter().zip(&received)) {
        assert_eq!((sent.flags, received.flags), (2, 1));
        assert_eq!((&*sent.interface, &*received.interface), ("a", "b"));
        assert_eq!(sent.data, received.data, "TTL and identification too");
        assert_eq!(sent.data[1], 0x28);
        assert!(sent.at <= received.at);
        let (datagram, valid) = datagram_of(sent, port);
        assert!(valid);
        let packet = Packet::parse(datagram).unwrap();
        assert_eq!(packet.bth.psn, Psn::new(psn));
        assert_eq!(packet.payload, payload(psn, 1024));
        assert_eq!(sent.comment, format!("UDP destination port {port}"));
    }
}

/// Packets that are dropped are recorded with the reason.
#[test]
fn dropped_packets_are_recorded() {
    let directory = TempDirectory::new("dropped");
    let (net, peer) = (recorded_net(&directory, "a", 83), alone(84));
    let stranger = UdpSocket::bind("127.1.77.84:0").unwrap();
    let (here, there) = (peer.alloc_qpn().unwrap(), net.alloc_qpn().unwrap());
    let gid = net.gids()[1].unwrap().gid;
    let good = write(0, there, Part::Middle);
    let mut wrong_pkey = good;
    wrong_pkey.bth.pkey = 0x1234;
    let mut without_icrc = vec![0; good.encoded_len() + 12];
    good.write(&mut without_icrc);
    let (mut inbox, mut accepted) = (Inbox::new(), 0);
    let mut await_packets = |count: usize| {
        let start = Instant::now();
        while read(&directory.file("a")).len() < count {
            assert!(start.elapsed() < Duration::from_secs(10));
            net.receive(&mut inbox, &mut |_, _| accepted += 1);
        }
    };
    let to = (Ipv4Addr::new(127, 1, 77, 83), PORT);
    stranger.send_to(&[0xff; 20], to).unwrap();
    await_packets(1);
    stranger.send_to(&without_icrc, to).unwrap();
    await_packets(2);
    let mut outbox = Outbox::try_new().unwrap();
    push(&peer, &mut outbox, here, wrong_pkey, 8, path(gid, 1));
    push(&peer, &mut outbox, here, good, 8, path(gid, 1));
    peer.flush(&mut outbox);
    await_packets(4);
    let packets = read(&directory.file("a"));
    let comments: Vec<_> = packets.iter().map(|packet| &*packet.comment).collect();
    let expected = [
        "dropped: malformed",
        "dropped: wrong ICRC",
        "dropped: unknown P_Key",
        "",
    ];
    assert_eq!((comments, accepted), (expected.into(), 1));
    assert_eq!(packets[0].data[28..], [0xff; 20]);
    assert_eq!(packets[1].data[28..], without_icrc);
    let valid = packets.iter().map(|packet| datagram_of(packet, PORT).1);
    assert!(valid.eq([false, false, true, true]));
    let dropped = &net.ingress.dropped;
    for counter in [&dropped.malformed, &dropped.icrc, &dropped.pkey] {
        assert_eq!(counter.load(Ordering::Relaxed), 1);
    }
}
