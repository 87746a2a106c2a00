//! Selective retransmission, packet by packet: by the requester, and what the responder keeps.

use super::network::{BASE, KEY, us};
use super::peer::*;
use crate::engine::*;
use crate::wire::{Headers, NakCode, Operation, Part, Reth};

const LOST: NakCode = NakCode::PsnSequence;

/// A queue pair that has sent packets 0 to 9, of which 2 is lost.
fn sender() -> Peer {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_send(0, 10 << 10);
    assert_eq!(peer.sent().len(), 10);
    peer.sleep(us(50));
    peer
}

#[test]
fn one_packet_is_retransmitted_to_a_peer_that_keeps_the_others() {
    let mut peer = sender();
    peer.nak(2, LOST);
    assert_eq!(peer.sent_with_ack_req(), [(2, true)]);
    peer.ack(9);
    assert_eq!(peer.sent(), []);
    assert_eq!(peer.send_completions(), success([0]));
}

/// The acknowledgment of the packet ends before another one that was sent before it.
#[test]
fn the_next_missing_packet_is_known_without_a_nak() {
    let mut peer = sender();
    peer.nak(2, LOST);
    assert_eq!(peer.sent(), [2]);
    peer.ack(4);
    assert_eq!(peer.sent(), [5]);
    // Two in a row.
    peer.ack(5);
    assert_eq!(peer.sent(), [6]);
    peer.ack(9);
    assert_eq!(peer.sent(), []);
    assert_eq!(peer.send_completions(), success([0]));
}

#[test]
fn all_is_retransmitted_to_a_peer_that_drops_the_others() {
    let mut peer = sender();
    peer.nak(2, LOST);
    assert_eq!(peer.sent(), [2]);
    peer.ack(2);
    assert_eq!(peer.sent(), [3, 4, 5, 6, 7, 8, 9]);
    peer.ack(9);
    // For eight losses, this one included, it is not tried again.
    for id in 1..9 {
        peer.post_send(id, 3 << 10);
        let first = 10 + 3 * (id as u32 - 1);
        assert_eq!(peer.sent(), [first, first + 1, first + 2]);
        peer.nak(first, LOST);
        match id {
            8 => assert_eq!(peer.sent(), [first]),
            _ => assert_eq!(peer.sent(), [first, first + 1, first + 2]),
        }
        peer.ack(first + 2);
    }
}

/// An acknowledgment of what has not been retransmitted.
#[test]
fn a_peer_shows_during_a_retransmission_that_it_keeps_packets() {
    let mut peer = sender();
    peer.keeps_nothing();
    peer.qp.sends_mut().requester_mut().assume_cwnd(4);
    peer.nak(2, LOST);
    assert_eq!(peer.sent(), [2, 3, 4, 5]);
    peer.ack(7);
    assert_eq!(peer.sent(), [8, 9]);
    peer.ack(9);
    peer.post_send(1, 3 << 10);
    assert_eq!(peer.sent(), [10, 11, 12]);
    peer.nak(10, LOST);
    assert_eq!(peer.sent(), [10]);
}

/// More lost packets than are sent alone: each of those takes a round trip.
#[test]
fn many_lost_packets_are_retransmitted_together() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_send(0, 40 << 10);
    assert_eq!(peer.sent().len(), 40);
    peer.nak(2, LOST);
    for at in [2, 4, 6, 8] {
        assert_eq!(peer.sent(), [at]);
        peer.ack(at + 1);
    }
    assert_eq!(peer.sent().len(), 30);
}

/// The retransmitted packet is lost, too: it is sent once more before the RTO, without a smaller window.
#[test]
fn a_lost_retransmission_is_repeated_before_the_rto() {
    let mut peer = sender();
    peer.nak(2, LOST);
    let cwnd = peer.qp.sends().requester().cwnd();
    for _ in 0..3 {
        assert_eq!(peer.sent(), [2]);
        assert_eq!(peer.qp.sends().requester().cwnd(), cwnd);
        peer.wait_for_timer();
    }
    // The RTO.
    assert_eq!(peer.sent(), [2, 3]);
    peer.ack(9);
    assert_eq!(peer.send_completions(), success([0]));
}

/// The last packets, or a NAK, are lost.
#[test]
fn a_probe_is_sent_before_the_rto() {
    let mut peer = sender();
    peer.ack(0);
    // The first sample comes with a packet that requests an acknowledgment.
    peer.ack(9);
    peer.sleep(us(10));
    peer.post_send(1, 3 << 10);
    assert_eq!(peer.sent(), [10, 11, 12]);
    let cwnd = peer.qp.sends().requester().cwnd();
    assert_eq!(peer.wait_for_timer(), us(500));
    assert_eq!(peer.sent_with_ack_req(), [(10, true)]);
    assert_eq!(peer.qp.sends().requester().cwnd(), cwnd);
    // The acknowledgment of the first transmission, as it comes too early for that of the probe: nothing else
    // is sent.
    peer.sleep(us(20));
    peer.ack(10);
    assert_eq!(peer.sent(), []);
    assert_eq!(peer.wait_for_timer(), us(500));
    assert_eq!(peer.sent(), [11]);
    // The peer has got nothing else.
    peer.sleep(us(50));
    peer.ack(11);
    assert_eq!(peer.sent(), [12]);
    // One more for packet 10, then halved.
    assert_eq!(peer.qp.sends().requester().cwnd(), (cwnd + 2) / 2);
}

/// After the probe comes the RTO.
#[test]
fn one_probe_is_sent() {
    let mut peer = sender();
    peer.ack(9);
    peer.post_send(1, 3 << 10);
    assert_eq!(peer.sent(), [10, 11, 12]);
    assert_eq!(peer.wait_for_timer(), us(500));
    assert_eq!(peer.sent(), [10]);
    assert_eq!(peer.wait_for_timer(), us(4000));
    assert_eq!(peer.sent(), [10, 11]);
}

/// A READ is requested again with all that follows.
#[test]
fn reads_are_not_retransmitted_alone() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_read(0, 100);
    peer.post_send(1, 100);
    assert_eq!(peer.sent(), [0, 1]);
    peer.nak(0, LOST);
    assert_eq!(peer.sent(), [0, 1]);
}

/// Early requests that wait are executed in the order of the PSNs, and once.
#[test]
fn early_requests_are_executed_in_order() {
    let mut peer = Peer::responder(4);
    for id in 0..4 {
        peer.post_recv(id);
    }
    peer.send(Part::Only, 4, b"");
    peer.fetch_add(2);
    peer.read(3, BASE, 8);
    peer.send(Part::Only, 1, b"");
    peer.fetch_add(2);
    assert_eq!(peer.hca.statuses(WorkQueue::Recv), []);
    peer.send(Part::Only, 0, b"");
    assert_eq!(peer.hca.statuses(WorkQueue::Recv), success([0, 1, 2]));
    let kinds = |peer: &mut Peer| -> Vec<_> {
        let responses = peer.responses().into_iter();
        responses
            .map(|(operation, _, at, _)| (operation, at))
            .collect()
    };
    let expected = [
        (Operation::Ack, 1),
        (Operation::AtomicAck, 2),
        (Operation::ReadResponse, 3),
        (Operation::Ack, 4),
    ];
    assert_eq!(kinds(&mut peer), expected);
    // The fetch-and-add was executed once.
    assert_eq!(peer.hca.region(KEY).bytes[..8], 1u64.to_ne_bytes());
}

/// A request that is too far ahead is of no use.
#[test]
fn requests_far_ahead_are_not_kept() {
    let mut peer = Peer::in_rtr(QpChange::default());
    for id in 0..3 {
        peer.post_recv(id);
    }
    peer.send(Part::Only, 1, b"");
    peer.send(Part::Only, 2049, b"");
    peer.send(Part::Only, 0, b"");
    assert_eq!(peer.responses(), [ack(1)]);
    for at in 2..2049 {
        let (va, rkey, len) = (BASE, KEY, 0);
        let reth = Some(Reth { va, rkey, len });
        let headers = Peer::headers(Operation::Write, Part::Only, at);
        peer.deliver(Headers { reth, ..headers }, &[]);
    }
    assert_eq!(peer.responses(), [ack(2048)]);
    assert_eq!(peer.hca.statuses(WorkQueue::Recv), success([0, 1]));
}

/// A request that fails ends it: what is behind it is not executed.
#[test]
fn nothing_is_executed_behind_an_early_request_that_fails() {
    let mut peer = Peer::in_rtr(QpChange::default());
    peer.post_recv(0);
    peer.post_recv(1);
    // A last part without a first one.
    peer.send(Part::Last, 1, b"x");
    peer.send(Part::Only, 2, b"x");
    peer.send(Part::Only, 0, b"x");
    assert_eq!(peer.qp.state(), QpState::Err);
    let invalid = nak(1, NakCode::InvalidRequest);
    assert_eq!(peer.responses(), [ack(0), invalid]);
}
