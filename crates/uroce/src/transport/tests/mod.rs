//! Devices on the loopback interface.

mod captured;
mod damage;
mod injected;
mod namespaces;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use super::*;
use crate::config::Netdev;
use roce::engine::{AddressVector, Addresses, Transmit};
use roce::wire::{
    Bth, Deth, Headers, MULTICAST_QPN, Opcode, Operation, PORT, Packet, Part, Psn, Reth, Transport,
    gid_of, ip_of, port_of,
};

fn at(netdev: Netdev) -> Net {
    Net::open(&Config::new("test", netdev)).unwrap()
}

/// A device at an address of the loopback network that no other test uses.
fn alone(test: u8) -> Net {
    at(Netdev::Address {
        ip: Ipv4Addr::new(127, 1, 77, test).into(),
        scope: None,
    })
}

fn lo() -> Net {
    at(Netdev::Interface("lo".into()))
}

fn path(dgid: Gid, sgid_index: u8) -> AddressVector {
    AddressVector {
        dgid,
        sgid_index,
        traffic_class: 0,
        hop_limit: 1,
        flow_label: 0,
    }
}

fn write(psn: u32, dest_qpn: u32, part: Part) -> Headers {
    let mut headers = Headers::new(Bth {
        opcode: Opcode::new(Transport::Rc, Operation::Write, part),
        solicited: false,
        migrated: true,
        pad: 0,
        pkey: 0xffff,
        dest_qpn,
        ack_request: false,
        psn: Psn::new(psn),
    });
    if matches!(part, Part::First | Part::Only) {
        headers.reth = Some(Reth {
            va: 1,
            rkey: 2,
            len: 3,
        });
    }
    headers
}

fn datagram(psn: u32, dest_qpn: u32, src_qpn: u32) -> Headers {
    let mut headers = write(psn, dest_qpn, Part::Middle);
    headers.bth.opcode = Opcode::new(Transport::Ud, Operation::Send, Part::Only);
    headers.deth = Some(Deth { qkey: 7, src_qpn });
    headers
}

/// A payload that differs from packet to packet.
fn payload(psn: u32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (psn as usize * 7 + i) as u8).collect()
}

fn push(
    net: &Net,
    outbox: &mut Outbox,
    src_qpn: u32,
    headers: Headers,
    len: usize,
    path: AddressVector,
) {
    if outbox.is_full() {
        net.flush(outbox);
    }
    let buffer = outbox.buffer();
    let head = headers.write(buffer);
    buffer[head..head + len].copy_from_slice(&payload(headers.bth.psn.get(), len));
    let packet = Transmit {
        av: path,
        dest_qpn: headers.bth.dest_qpn,
        len: head + len,
    };
    net.push(outbox, src_qpn, &packet);
}

type ReceivedPacket = (Headers, Vec<u8>, Addresses);

/// Receives `count` packets, or as many as come in ten seconds.
fn receive(net: &Net, count: usize) -> Vec<ReceivedPacket> {
    let mut inbox = Inbox::new();
    let (mut got, start) = (Vec::new(), Instant::now());
    while got.len() < count && start.elapsed() < Duration::from_secs(10) {
        let each = &mut |packet: &Packet, addresses: &Addresses| {
            got.push((packet.headers(), packet.payload.to_vec(), *addresses));
        };
        if net.receive(&mut inbox, each) == 0 {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    // And no more than these.
    let each = &mut |packet: &Packet, _: &Addresses| panic!("{packet:?}");
    while net.receive(&mut inbox, each) > 0 {}
    got
}

/// Sends messages of various lengths from one device to the other, and checks that they arrive unchanged.
fn exchange(from: &Net, to: &Net, sgid_index: u8, dgid: Gid, src: Gid) {
    let (here, there) = (from.alloc_qpn().unwrap(), to.alloc_qpn().unwrap());
    let mut outbox = Outbox::try_new().unwrap();
    let mut sent = Vec::new();
    // A long first packet, middle ones, then packets of lengths that cannot share a GSO buffer.
    let mut lens = vec![1024; 70];
    lens.extend([8, 8, 4096, 0, 64, 64, 12]);
    for (psn, len) in (0..).zip(lens) {
        let part = match psn {
            0 => Part::First,
            1..70 => Part::Middle,
            _ => Part::Only,
        };
        let headers = write(psn, there, part);
        push(
            from,
            &mut outbox,
            here,
            headers,
            len,
            path(dgid, sgid_index),
        );
        sent.push((headers, len));
    }
    from.flush(&mut outbox);
    let got = receive(to, sent.len());
    assert_eq!(got.len(), sent.len());
    for ((headers, len), (got, data, addresses)) in sent.into_iter().zip(got) {
        assert_eq!(got, headers);
        assert_eq!(data, payload(headers.bth.psn.get(), len));
        assert_eq!((addresses.src, addresses.dst), (src, gid_of(ip_of(&dgid))));
        assert_eq!(addresses.grh, [0; 40]);
    }
    from.free_qpn(here);
    to.free_qpn(there);
}

#[test]
fn two_processes_at_one_address() {
    let (first, second) = (alone(1), alone(1));
    let third = alone(1);
    let numbers = [&first, &second, &third].map(|net| net.alloc_qpn().unwrap());
    assert_eq!(port_of(numbers[0]), PORT);
    assert!(numbers[1] >= 0x80_0000 && numbers[2] >= 0x80_0000);
    assert_ne!(port_of(numbers[1]), port_of(numbers[2]));
    let gid = first.gids()[1].unwrap().gid;
    assert_eq!(ip_of(&gid).to_string(), "127.1.77.1");
    exchange(&first, &second, 1, gid, gid);
    exchange(&second, &first, 1, gid, gid);
    exchange(&second, &third, 1, gid, gid);
    exchange(&first, &first, 1, gid, gid);
    // Port 4791 is free once its device is closed.
    drop(first);
    let start = Instant::now();
    // A child process that another test is starting may hold the socket until its exec.
    while port_of(alone(1).alloc_qpn().unwrap()) != PORT {
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}

/// Index 0 of a device at one address is a link-local GID, under which others reach it too; index 1 is the
/// address. Neither takes a port away from a device at another address of the interface.
#[test]
fn both_gids_of_one_address() {
    let (a, b) = (alone(5), alone(6));
    for net in [&a, &b] {
        assert_eq!(port_of(net.alloc_qpn().unwrap()), PORT);
    }
    let gid = |net: &Net, index: usize| net.gids()[index].unwrap().gid;
    assert_eq!(
        (a.gids().len(), gid(&a, 0)[..2].to_vec()),
        (2, vec![0xfe, 0x80])
    );
    assert_ne!(gid(&a, 0), gid(&b, 0));
    for index in [0, 1] {
        for dgid in [gid(&b, 0), gid(&b, 1)] {
            exchange(&a, &b, index, dgid, gid(&a, 1));
        }
    }
}

#[test]
fn every_gid_of_the_loopback_interface() {
    let (a, b) = (lo(), lo());
    let gids = a.gids();
    assert_eq!(gids, b.gids());
    let text = |index: usize| ip_of(&gids[index].unwrap().gid).to_string();
    assert_eq!(text(0), "fe80::200:ff:fe00:0");
    assert_eq!(text(1), "127.0.0.1");
    for (index, entry) in gids.iter().enumerate() {
        let gid = entry.unwrap().gid;
        exchange(&a, &b, index as u8, gid, gid);
    }
    let state = a.port_state();
    assert_eq!((state.active, state.active_mtu), (true, 4096));
}

#[test]
fn a_ud_packet_has_its_grh() {
    let (a, b) = (lo(), lo());
    let (here, there) = (a.alloc_qpn().unwrap(), b.alloc_qpn().unwrap());
    for (index, entry) in b.gids().into_iter().enumerate() {
        let gid = entry.unwrap().gid;
        let mut outbox = Outbox::try_new().unwrap();
        let path = AddressVector {
            traffic_class: 0x28,
            ..path(gid, index as u8)
        };
        for psn in 0..3 {
            push(&a, &mut outbox, here, datagram(psn, there, here), 12, path);
        }
        a.flush(&mut outbox);
        let got = receive(&b, 3);
        assert_eq!(got.len(), 3);
        for (headers, data, addresses) in got {
            let psn = headers.bth.psn.get();
            assert_eq!(data, payload(psn, 12));
            let grh = addresses.grh;
            if ip_of(&gid).is_ipv4() {
                assert_eq!(grh[..20], [0; 20]);
                assert_eq!(grh[20..24], [0x45, 0x28, 0, 64]);
                assert_eq!(grh[28], 64, "the default TTL");
                assert_eq!(grh[32..36], gid[12..]);
                assert_eq!(grh[36..], gid[12..]);
            } else {
                assert_eq!(grh[0] >> 4, 6);
                assert_eq!(u16::from_be_bytes([grh[0], grh[1]]) >> 4 & 0xff, 0x28);
                assert_eq!(grh[4..7], [0, 44, 17]);
                assert_eq!(grh[7], 64);
                assert_eq!(grh[8..24], gid);
                assert_eq!(grh[24..], gid);
            }
        }
    }
}

#[test]
fn works_where_the_kernel_refuses_gso() {
    let (a, b) = (alone(2), alone(2));
    let gid = a.gids()[1].unwrap().gid;
    let port = port_of(a.alloc_qpn().unwrap());
    let socket = a.table().sender(port, 0).unwrap().clone();
    assert!(socket.gso());
    exchange(&a, &b, 0, gid, gid);
    assert!(socket.gso());
    socket.make_gso_fail();
    exchange(&a, &b, 0, gid, gid);
    assert!(!socket.gso());
    exchange(&a, &b, 0, gid, gid);
}

#[test]
fn invalid_packets_are_dropped() {
    let (a, b) = (alone(3), alone(3));
    let (here, there) = (a.alloc_qpn().unwrap(), b.alloc_qpn().unwrap());
    let gid = b.gids()[0].unwrap().gid;
    let to = (ip_of(&gid), port_of(there));
    let socket = std::net::UdpSocket::bind((ip_of(&gid), 0)).unwrap();
    socket.send_to(&[], to).unwrap();
    socket.send_to(&[0; 15], to).unwrap();
    // A valid header, but an invalid ICRC.
    let mut bytes = [0; 16];
    write(0, there, Part::Middle).write(&mut bytes);
    socket.send_to(&bytes, to).unwrap();
    // Another partition's P_Key, then a limited member's of the default partition, then another address's
    // GID.
    let mut outbox = Outbox::try_new().unwrap();
    for (psn, pkey) in [(1, 0x8001), (2, 0x7fff)] {
        let mut headers = write(psn, there, Part::Middle);
        headers.bth.pkey = pkey;
        push(&a, &mut outbox, here, headers, 8, path(gid, 0));
    }
    for (index, dgid) in [(9, gid), (0, gid_of(IpAddr::V6(Ipv6Addr::LOCALHOST)))] {
        let headers = write(3, there, Part::Middle);
        push(&a, &mut outbox, here, headers, 8, path(dgid, index));
    }
    a.flush(&mut outbox);
    let got = receive(&b, 1);
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].0.bth.psn, Psn::new(2));
    let dropped = &b.ingress.dropped;
    let dropped = [&dropped.malformed, &dropped.icrc, &dropped.pkey]
        .map(|count| count.load(std::sync::atomic::Ordering::Relaxed));
    // An empty datagram is not counted.
    assert_eq!(dropped, [1, 1, 1]);
}

#[test]
fn ten_thousand_numbers() {
    let _first = alone(4);
    let net = alone(4);
    let mut numbers: Vec<_> = (0..10_000).map(|_| net.alloc_qpn().unwrap()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 10_000);
    assert!(numbers.iter().all(|number| *number >= 0x80_0000));
    let sockets = || net.table().receivers.iter().flatten().count();
    assert_eq!(sockets(), 3);
    let (one, others) = numbers.split_first().unwrap();
    for number in others {
        net.free_qpn(*number);
    }
    assert!(sockets() <= 2, "{}", sockets());
    net.free_qpn(*one);
    net.free_qpn(*one);
    assert_eq!(sockets(), 1);
}

#[test]
fn multicast_reaches_all_members() {
    let nets = [lo(), lo(), lo()];
    let group = gid_of(Ipv4Addr::new(239, 77, 1, 2).into());
    let other_form = "ff0e::ffff:239.77.1.2"
        .parse::<Ipv6Addr>()
        .unwrap()
        .octets();
    for net in &nets[..2] {
        net.join(&group).unwrap();
        net.join(&other_form).unwrap();
    }
    assert!(nets[2].join(&nets[2].gids()[1].unwrap().gid).is_err());
    let qpn = nets[0].alloc_qpn().unwrap();
    let mut outbox = Outbox::try_new().unwrap();
    let mut send = |psn| {
        let headers = datagram(psn, MULTICAST_QPN, qpn);
        push(&nets[0], &mut outbox, qpn, headers, 8, path(group, 1));
        nets[0].flush(&mut outbox);
    };
    send(5);
    for (net, count) in [(&nets[0], 1), (&nets[1], 1), (&nets[2], 0)] {
        let got = receive(net, count);
        assert_eq!(got.len(), count);
        if let Some((headers, _, addresses)) = got.first() {
            assert_eq!(headers.bth.psn, Psn::new(5));
            assert_eq!((addresses.dst, addresses.src[12]), (group, 127));
            assert_eq!(addresses.grh[36..], [239, 77, 1, 2]);
        }
    }
    // Joined twice and left once, so still a member.
    nets[0].leave(&group);
    nets[1].leave(&group);
    nets[1].leave(&other_form);
    nets[1].leave(&group);
    send(6);
    assert_eq!(receive(&nets[0], 1).len(), 1);
    assert_eq!(receive(&nets[1], 0).len(), 0);
}

/// A packet to a group reaches no queue pair by a number of its own, and the multicast number is not valid at
/// an address of the device.
#[test]
fn the_multicast_number_belongs_to_groups() {
    let nets = [lo(), lo()];
    let group = gid_of(Ipv4Addr::new(239, 77, 1, 9).into());
    nets[1].join(&group).unwrap();
    let own = nets[1].gids()[1].unwrap().gid;
    let [here, there] = [&nets[0], &nets[1]].map(|net| net.alloc_qpn().unwrap());
    let mut outbox = Outbox::try_new().unwrap();
    for (psn, qpn, dgid) in [
        (1, 2, group),
        (2, MULTICAST_QPN, own),
        (3, MULTICAST_QPN, group),
        (4, there, own),
    ] {
        push(
            &nets[0],
            &mut outbox,
            here,
            datagram(psn, qpn, here),
            8,
            path(dgid, 1),
        );
    }
    nets[0].flush(&mut outbox);
    let got = receive(&nets[1], 2);
    let mut psns: Vec<_> = got
        .iter()
        .map(|(headers, ..)| headers.bth.psn.get())
        .collect();
    psns.sort_unstable();
    assert_eq!(psns, [3, 4]);
    let dropped: u64 = nets
        .iter()
        .map(|net| {
            net.ingress
                .dropped
                .malformed
                .load(std::sync::atomic::Ordering::Relaxed)
        })
        .sum();
    assert!(dropped >= 1);
}
