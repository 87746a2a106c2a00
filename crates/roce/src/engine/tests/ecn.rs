//! Congestion notification: marks, CNPs, and the window.

use super::network::{addresses, gid, qpn, us};
use super::peer::*;
use crate::engine::*;
use crate::wire::{Bth, ICRC_LEN, Opcode, Operation, Packet, Part, Psn};

/// A SEND of the peer arrives that a switch has marked.
fn marked_send(peer: &mut Peer, at: u32) {
    let headers = Peer::headers(Operation::Send, Part::Only, at);
    let mut datagram = vec![0; headers.encoded_len() + ICRC_LEN];
    headers.write(&mut datagram);
    let packet = Packet::parse(&datagram).unwrap();
    let from = Addresses {
        is_marked: true,
        ..addresses(1)
    };
    peer.qp.receive(&packet, &from, peer.now, &mut peer.hca);
}

/// A CNP as it is on the wire: its BTH, with BECN, and 16 reserved bytes.
fn cnp(dest_qpn: u32) -> Vec<u8> {
    let [_, q0, q1, q2] = dest_qpn.to_be_bytes();
    let bth = [0x81, 0x40, 0xff, 0xff, 0x40, q0, q1, q2, 0, 0, 0, 0];
    [&bth[..], &[0; 16]].concat()
}

fn receive_cnp(peer: &mut Peer, from: &Addresses) {
    let datagram = [&cnp(qpn(0))[..], &[0; ICRC_LEN]].concat();
    let packet = Packet::parse(&datagram).unwrap();
    peer.qp.receive(&packet, from, peer.now, &mut peer.hca);
}

fn next(peer: &mut Peer) -> Option<Vec<u8>> {
    let mut buffer = [0xee; 4300];
    let sent = peer.qp.transmit(peer.now, &mut peer.hca, &mut buffer)?;
    Some(buffer[..sent.len].to_vec())
}

#[test]
fn a_marked_packet_is_answered_with_one_cnp_in_50_us() {
    let mut peer = Peer::in_rtr(QpChange::default());
    for id in 0..4 {
        peer.post_recv(id);
    }
    marked_send(&mut peer, 0);
    assert!(peer.qp.may_transmit());
    assert_eq!(next(&mut peer), Some(cnp(qpn(1))));
    assert_eq!(peer.responses(), [ack(0)]);
    peer.sleep(us(49));
    marked_send(&mut peer, 1);
    assert_eq!(peer.responses(), [ack(1)]);
    peer.sleep(us(1));
    marked_send(&mut peer, 2);
    assert_eq!(next(&mut peer), Some(cnp(qpn(1))));
    assert_eq!(peer.responses(), [ack(2)]);
    // A packet without a mark.
    peer.sleep(us(100));
    peer.send(Part::Only, 3, b"");
    assert_eq!(peer.responses(), [ack(3)]);
    let counters = peer.qp.counters();
    assert_eq!(
        (counters.np_ecn_marked_roce_packets, counters.np_cnp_sent),
        (3, 2)
    );
}

#[test]
fn a_cnp_shrinks_the_window_once_for_all_in_flight() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    let cwnd = |peer: &Peer| peer.qp.sends().requester().cwnd();
    peer.post_send(0, 64 << 10);
    assert_eq!((peer.sent().len(), cwnd(&peer)), (64, 64));
    receive_cnp(&mut peer, &addresses(1));
    assert_eq!(cwnd(&peer), 32);
    receive_cnp(&mut peer, &addresses(1));
    assert_eq!(cwnd(&peer), 32);
    // Nothing is retransmitted.
    assert_eq!(peer.sent(), []);
    peer.ack(63);
    // Windows without marks make the next CNP count less.
    for id in 1..40 {
        peer.post_send(id, 64 << 10);
        let first = 64 * id as u32;
        while let Some(last) = peer.sent().last() {
            peer.ack(*last);
            assert!(*last < first + 64);
        }
    }
    let before = cwnd(&peer);
    peer.post_send(40, 64 << 10);
    peer.sent();
    receive_cnp(&mut peer, &addresses(1));
    let share = (before - cwnd(&peer)) as f64 / before as f64;
    assert!((0.01..0.1).contains(&share), "{before} {}", cwnd(&peer));
    assert_eq!(peer.qp.counters().rp_cnp_handled, 3);
}

/// A CNP of another host, or for a queue pair that sends nothing, has no effect.
#[test]
fn a_cnp_of_a_stranger_is_ignored() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_send(0, 64 << 10);
    peer.sent();
    let stranger = Addresses {
        src: gid(5),
        ..addresses(1)
    };
    receive_cnp(&mut peer, &stranger);
    assert_eq!(peer.qp.sends().requester().cwnd(), 64);
    assert_eq!(peer.qp.counters().rp_cnp_handled, 0);
    // An opcode beside it is no packet.
    let bth = Bth {
        opcode: Opcode(0x82),
        ..Peer::headers(Operation::Send, Part::Only, 0).bth
    };
    let bytes = [&bth.bytes()[..], &[0; 16]].concat();
    assert!(Packet::parse_without_icrc(&bytes).is_err());
    assert_eq!(
        Psn::new(0),
        Packet::parse_without_icrc(&cnp(1)).unwrap().bth.psn
    );
}
