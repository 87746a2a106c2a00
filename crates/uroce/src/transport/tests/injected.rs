//! Packets that a test puts on a cable with any IPv4 header.

use std::net::Ipv4Addr;

use super::super::*;
use super::namespaces::{await_carrier, in_namespace, ip};
use super::{at, datagram, payload, write};
use crate::config::Netdev;
use roce::wire::{Flow, Fragmentation, Headers, MULTICAST_QPN, PORT, Packet, Part, gid_of};

const PEER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 9);
const DEVICE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// Two cables; the device is on v0, the first one's end.
fn cables() -> Net {
    ip("link set lo up
        link add v0 address 02:00:00:00:00:01 mtu 9000 type veth peer name v1 mtu 9000
        link add v2 address 02:00:00:00:00:01 mtu 9000 type veth peer name v3 mtu 9000
        addr add 10.77.0.1/24 dev v0
        link set v0 up
        link set v1 up
        link set v2 up
        link set v3 up");
    await_carrier("v0");
    await_carrier("v2");
    for interface in ["all", "v0", "v2"] {
        let name = format!("/proc/sys/net/ipv4/conf/{interface}/rp_filter");
        std::fs::write(name, "0").unwrap();
    }
    at(Netdev::Interface("v0".into()))
}

/// The other end of a cable.
struct End {
    socket: socket2::Socket,
    to: socket2::SockAddr,
}

impl End {
    fn new(interface: &str) -> End {
        let protocol = socket2::Protocol::from(i32::from((libc::ETH_P_IP as u16).to_be()));
        let socket = socket2::Socket::new(
            socket2::Domain::PACKET,
            socket2::Type::DGRAM,
            Some(protocol),
        );
        let name = std::ffi::CString::new(interface).unwrap();
        // SAFETY: `name` is a string that ends with a zero byte.
        let ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) };
        let link = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_IP as u16).to_be(),
            sll_ifindex: ifindex as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 6,
            sll_addr: [2, 0, 0, 0, 0, 1, 0, 0],
        };
        // SAFETY: the storage is larger than the sockaddr_ll that is written to it, and its length is given.
        let ((), to) = unsafe {
            socket2::SockAddr::try_init(|storage, len| {
                storage.cast::<libc::sockaddr_ll>().write(link);
                *len = size_of::<libc::sockaddr_ll>() as u32;
                Ok(())
            })
        }
        .unwrap();
        End {
            socket: socket.unwrap(),
            to,
        }
    }

    /// Sends a RoCE packet, which ends with its ICRC, without a UDP checksum.
    fn send(&self, dst: Ipv4Addr, src_port: u16, sent: Fragmentation, packet: &[u8]) {
        let udp_len = packet.len() as u16 + 8;
        let mut bytes = vec![0x45, 0];
        bytes.extend((udp_len + 20).to_be_bytes());
        bytes.extend(sent.id.to_be_bytes());
        bytes.extend([u8::from(sent.dont_fragment) << 6, 0, 64, 17, 0, 0]);
        bytes.extend(PEER.octets());
        bytes.extend(dst.octets());
        let sum: u32 = bytes
            .chunks(2)
            .map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])))
            .sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        for value in [src_port, PORT, udp_len, 0] {
            bytes.extend(value.to_be_bytes());
        }
        bytes.extend(packet);
        self.socket.send_to(&bytes, &self.to).unwrap();
    }
}

fn df(id: u16) -> Fragmentation {
    Fragmentation {
        id,
        dont_fragment: true,
    }
}

/// A packet with the ICRC that it has if it is sent with that header.
fn packet(dst: Ipv4Addr, headers: Headers, len: usize, sent: Fragmentation) -> Vec<u8> {
    let mut bytes = vec![0; headers.encoded_len()];
    headers.write(&mut bytes);
    bytes.extend(payload(headers.bth.psn.get(), len));
    let icrc = flow(dst).icrc(&bytes, sent);
    bytes.extend(icrc);
    bytes
}

fn flow(dst: Ipv4Addr) -> Flow {
    Flow {
        src: PEER.into(),
        dst: dst.into(),
        src_port: PORT,
        dst_port: PORT,
    }
}

/// The PSNs of the packets that have arrived, after a last one with an identification of uroce.
fn psns(net: &Net, inbox: &mut Inbox, end: &End) -> Vec<u32> {
    const LAST: u32 = 0xff_fffe;
    let last = write(LAST, 2, Part::Middle);
    end.send(DEVICE, PORT, df(0), &packet(DEVICE, last, 8, df(0)));
    let mut psns = Vec::new();
    let start = std::time::Instant::now();
    while !psns.contains(&LAST) && start.elapsed() < std::time::Duration::from_secs(10) {
        net.receive(inbox, &mut |packet: &Packet, _: &_| {
            psns.push(packet.bth.psn.get());
        });
    }
    // Sockets are not emptied in the order of arrival.
    inbox.poll_all_sockets();
    while net.receive(inbox, &mut |packet, _| psns.push(packet.bth.psn.get())) > 0 {
        inbox.poll_all_sockets();
    }
    psns.retain(|psn| *psn != LAST);
    psns.sort_unstable();
    psns
}

fn dropped(counter: &std::sync::atomic::AtomicU64) -> u64 {
    counter.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn packets_through_another_interface_are_dropped() {
    in_namespace(|| {
        let net = cables();
        let (end, other) = (End::new("v1"), End::new("v3"));
        let mut inbox = Inbox::new();
        for psn in 1..=5 {
            let through = if psn % 2 == 1 { &end } else { &other };
            let packet = packet(DEVICE, write(psn, 2, Part::Middle), 8, df(0));
            through.send(DEVICE, PORT, df(0), &packet);
        }
        assert_eq!(psns(&net, &mut inbox, &end), [1, 3, 5]);
        assert_eq!(dropped(&net.ingress.dropped.interface), 2);
        assert_eq!(dropped(&net.ingress.dropped.icrc), 0);
    });
}

/// The kernel knows the identification: a damaged packet of uroce cannot pass for one of a sender that
/// numbers its packets, also if it is damaged in the same way each time.
#[test]
fn damage_that_looks_like_another_identification_is_detected() {
    in_namespace(|| {
        let net = cables();
        let end = End::new("v1");
        let mut inbox = Inbox::new();
        let group = Ipv4Addr::new(239, 77, 1, 4);
        net.join(&gid_of(group.into())).unwrap();
        for dst in [DEVICE, group] {
            let new = |psn| {
                let headers = match dst {
                    DEVICE => write(psn, 2, Part::Middle),
                    _ => datagram(psn, MULTICAST_QPN, 2),
                };
                packet(dst, headers, 4000, df(0))
            };
            let passes = |bit: &usize| {
                let mut wrong = new(1);
                wrong[bit / 8] ^= 1 << (bit % 8);
                bit / 8 >= 24 && bit / 8 != 4 && flow(dst).check(&wrong).is_some()
            };
            let bits: Vec<_> = (0..8 * new(1).len()).filter(passes).collect();
            assert!(!bits.is_empty());
            let before = dropped(&net.ingress.dropped.icrc);
            for bit in &bits {
                for psn in 1..=20 {
                    let mut packet = new(psn);
                    packet[bit / 8] ^= 1 << (bit % 8);
                    end.send(dst, PORT, df(0), &packet);
                }
                assert_eq!(psns(&net, &mut inbox, &end), []);
            }
            assert_eq!(
                dropped(&net.ingress.dropped.icrc) - before,
                20 * bits.len() as u64
            );
            end.send(dst, PORT, df(0), &new(7));
            assert_eq!(psns(&net, &mut inbox, &end), [7]);
        }
    });
}

/// A sender may skip an identification for each millisecond of a pause. The receiver sees the pause
/// in the times at which the packets arrived, not in those at which it gets to them.
#[test]
fn packets_that_wait_are_judged_by_their_arrival() {
    in_namespace(|| {
        let net = cables();
        let end = End::new("v1");
        let mut inbox = Inbox::new();
        let send = |psn, id| {
            let headers = write(psn, 2, Part::Middle);
            end.send(DEVICE, PORT, df(id), &packet(DEVICE, headers, 1000, df(id)));
        };
        send(1, 5000);
        send(2, 5001);
        assert_eq!(psns(&net, &mut inbox, &end), [2]);
        send(3, 5002);
        std::thread::sleep(std::time::Duration::from_millis(300));
        send(4, 5002 + 400);
        // Without a pause, that is too far.
        send(5, 5002 + 900);
        assert_eq!(psns(&net, &mut inbox, &end), [3, 4]);
    });
}

/// Kernel rxe's packets: numbered, from all over the range.
#[test]
fn a_sender_that_numbers_its_packets_is_understood() {
    in_namespace(|| {
        let net = cables();
        let end = End::new("v1");
        let mut inbox = Inbox::new();
        let mut next = 65_000_u16;
        let mut send = |psn, headers: Headers| {
            next = next.wrapping_add(1);
            let sent = df(next);
            end.send(DEVICE, PORT, sent, &packet(DEVICE, headers, 1000, sent));
            psn
        };
        // Reliable services retransmit the first packet of an unknown sender.
        send(1, write(1, 2, Part::Middle));
        assert_eq!(psns(&net, &mut inbox, &end), []);
        let mut all = Vec::new();
        for psn in 2..1200 {
            all.push(send(psn, write(psn, 2, Part::Middle)));
            if psn % 50 == 0 {
                assert_eq!(psns(&net, &mut inbox, &end), all);
                all.clear();
            }
        }
        assert_eq!(psns(&net, &mut inbox, &end), all);
    });
}
