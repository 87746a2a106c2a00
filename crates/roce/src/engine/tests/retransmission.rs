//! Retransmissions, packet by packet: after sequence-error NAKs, RNR NAKs and timeouts.

use std::time::Duration;

use ibverbs_abi::*;

use super::network::{ms, us};
use super::peer::*;
use crate::engine::*;
use crate::wire::NakCode;

#[test]
fn a_repeated_sequence_nak_is_ignored_for_500_us() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.keeps_nothing();
    peer.post_send(0, 4000);
    assert_eq!(peer.sent(), [0, 1, 2, 3]);
    peer.sleep(us(50));
    assert_eq!(peer.qp.sends().requester().cwnd(), 64);
    peer.nak(1, NakCode::PsnSequence);
    assert_eq!(peer.sent(), [1, 2, 3]);
    // One more for packet 0, then halved.
    assert_eq!(peer.qp.sends().requester().cwnd(), 32);
    peer.nak(1, NakCode::PsnSequence);
    assert_eq!(peer.sent(), []);
    // For another packet, and later for the same one.
    peer.nak(2, NakCode::PsnSequence);
    assert_eq!(peer.sent(), [2, 3]);
    peer.sleep(us(500) - Duration::from_nanos(1));
    peer.nak(2, NakCode::PsnSequence);
    assert_eq!(peer.sent(), []);
    peer.sleep(Duration::from_nanos(1));
    peer.nak(2, NakCode::PsnSequence);
    assert_eq!(peer.sent(), [2, 3]);
    peer.ack(3);
    assert_eq!(peer.send_completions(), success([0]));
}

/// Twice the SRTT applies if it is longer than 500 us.
#[test]
fn a_repeated_sequence_nak_is_ignored_for_two_srtt() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.keeps_nothing();
    peer.post_send(0, 10);
    assert_eq!(peer.sent(), [0]);
    peer.sleep(ms(1));
    peer.ack(0);
    peer.post_send(1, 2000);
    assert_eq!(peer.sent(), [1, 2]);
    peer.nak(1, NakCode::PsnSequence);
    assert_eq!(peer.sent(), [1, 2]);
    peer.sleep(ms(2) - Duration::from_nanos(1));
    peer.nak(1, NakCode::PsnSequence);
    assert_eq!(peer.sent(), []);
    peer.sleep(Duration::from_nanos(1));
    peer.nak(1, NakCode::PsnSequence);
    assert_eq!(peer.sent(), [1, 2]);
}

/// 9.7.6.1.3.
#[test]
fn progress_restores_retry_cnt() {
    let mut peer = Peer::in_rts(QpChange {
        timeout: Some(1),
        retry_cnt: Some(1),
        ..ATTRIBUTES
    });
    peer.post_send(0, 10);
    peer.post_send(1, 10);
    assert_eq!(peer.sent(), [0, 1]);
    // Rounded up to 8.4 ms.
    assert_eq!(peer.wait_for_timer(), Duration::from_nanos(4096 << 11));
    assert_eq!(peer.sent_with_ack_req(), [(0, true), (1, true)]);
    peer.ack(0);
    assert_eq!(peer.sent(), []);
    peer.wait_for_timer();
    assert_eq!(peer.sent(), [1]);
    // The timer has not expired yet.
    let timeout = peer.qp.next_timeout();
    peer.now = Time(timeout.unwrap().0 - 1);
    peer.qp
        .handle_timeout(peer.now, PeerActivity::Unknown, &mut peer.hca);
    assert_eq!((peer.sent(), peer.qp.next_timeout()), (vec![], timeout));
    peer.wait_for_timer();
    assert_eq!(peer.sent(), []);
    assert_eq!(
        peer.send_completions(),
        [(0, IBV_WC_SUCCESS), (1, IBV_WC_RETRY_EXC_ERR)]
    );
    assert_eq!(
        (peer.qp.state(), peer.qp.next_timeout()),
        (QpState::Err, None)
    );
}

/// 9.7.5.2.8.
#[test]
fn progress_restores_rnr_retry() {
    let mut peer = Peer::in_rts(QpChange {
        rnr_retry: Some(1),
        ..ATTRIBUTES
    });
    peer.post_send(0, 10);
    peer.post_send(1, 10);
    assert_eq!(peer.sent(), [0, 1]);
    peer.rnr_nak(0);
    // While the RNR timer runs, further NAKs of either kind change nothing.
    peer.rnr_nak(0);
    let cwnd = peer.qp.sends().requester().cwnd();
    peer.nak(0, NakCode::PsnSequence);
    assert_eq!(peer.sent(), []);
    assert_eq!(peer.qp.sends().requester().cwnd(), cwnd);
    assert_eq!(peer.wait_for_timer(), us(640));
    assert_eq!(peer.sent_with_ack_req(), [(0, true), (1, true)]);
    peer.ack(0);
    peer.rnr_nak(1);
    assert_eq!(peer.wait_for_timer(), us(640));
    assert_eq!(peer.sent(), [1]);
    peer.rnr_nak(1);
    assert_eq!(
        peer.send_completions(),
        [(0, IBV_WC_SUCCESS), (1, IBV_WC_RNR_RETRY_EXC_ERR)]
    );
    // An acknowledgment stops the RNR timer: the peer has a receive WQE now.
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_send(0, 10);
    peer.post_send(1, 10);
    peer.sent();
    peer.rnr_nak(0);
    peer.ack(0);
    assert_eq!(peer.sent(), [1]);
}

/// An RNR NAK shows that the peer is alive.
#[test]
fn an_rnr_nak_restores_retry_cnt() {
    let mut peer = Peer::in_rts(QpChange {
        timeout: Some(1),
        retry_cnt: Some(1),
        ..ATTRIBUTES
    });
    peer.post_send(0, 10);
    peer.sent();
    for _ in 0..5 {
        peer.wait_for_timer();
        assert_eq!(peer.sent(), [0]);
        peer.rnr_nak(0);
        assert_eq!(peer.wait_for_timer(), us(640));
        assert_eq!(peer.sent(), [0]);
    }
    assert_eq!(peer.send_completions(), []);
}

/// Two packets are retransmitted. If a third one is acknowledged, the RTO was spurious.
#[test]
fn an_rto_shrinks_cwnd_unless_spurious() {
    for (acknowledged, cwnd) in [(0, 3), (1, 4), (2, 64 + 3)] {
        let mut peer = Peer::in_rts(ATTRIBUTES);
        peer.post_send(0, 10 << 10);
        assert_eq!(peer.sent().len(), 10);
        assert_eq!(peer.wait_for_timer(), ms(20));
        assert_eq!(peer.sent_with_ack_req(), [(0, true), (1, true)]);
        peer.ack(acknowledged);
        assert_eq!(peer.qp.sends().requester().cwnd(), cwnd);
    }
}

/// From a packet that requests an acknowledgment to its ACK; retransmitted packets are not measured.
#[test]
fn rtt_samples_follow_karns_algorithm() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    let srtt = |peer: &Peer| peer.qp.sends().requester().rtt().srtt();
    peer.post_send(0, 10);
    peer.post_send(1, 10);
    assert_eq!(peer.sent(), [0, 1]);
    peer.sleep(us(30));
    // Packet 0 did not request an acknowledgment.
    peer.ack(0);
    assert_eq!(srtt(&peer), us(0));
    peer.sleep(us(20));
    peer.ack(1);
    assert_eq!(srtt(&peer), us(50));
    // The next sample has a weight of one eighth.
    peer.sleep(ms(1));
    peer.post_send(2, 10);
    assert_eq!(peer.sent(), [2]);
    peer.sleep(us(130));
    peer.ack(2);
    assert_eq!(srtt(&peer), us(60));
    peer.post_send(3, 10);
    assert_eq!(peer.sent(), [3]);
    peer.wait_for_timer();
    assert_eq!(peer.sent(), [3]);
    peer.sleep(us(900));
    peer.ack(3);
    assert_eq!(srtt(&peer), us(60));
}
