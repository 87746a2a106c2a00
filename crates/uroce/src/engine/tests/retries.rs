//! What is sent again, packet by packet: on complaints, when the peer is not ready, after silence.

use ibverbs_abi::*;

use super::peer::*;
use crate::engine::*;
use crate::wire::NakCode;

#[test]
fn a_complaint_is_heeded_once_a_round_trip() {
    let mut peer = Peer::sending(OTHERWISE);
    peer.request_send(0, 4000);
    assert_eq!(peer.numbers(), [0, 1, 2, 3]);
    peer.now = Time(peer.now.0 + 50_000);
    assert_eq!(peer.qp.requester.window.size(), 64);
    peer.nak(1, NakCode::PsnSequence);
    assert_eq!(peer.numbers(), [1, 2, 3]);
    // One for packet 0, then half.
    assert_eq!(peer.qp.requester.window.size(), 32);
    peer.nak(1, NakCode::PsnSequence);
    assert_eq!(peer.numbers(), []);
    // Another packet, and later the same one.
    peer.nak(2, NakCode::PsnSequence);
    assert_eq!(peer.numbers(), [2, 3]);
    peer.now = Time(peer.now.0 + 499_999);
    peer.nak(2, NakCode::PsnSequence);
    assert_eq!(peer.numbers(), []);
    peer.now = Time(peer.now.0 + 1);
    peer.nak(2, NakCode::PsnSequence);
    assert_eq!(peer.numbers(), [2, 3]);
    peer.ack(3);
    assert_eq!(peer.completed(), success([0]));
}

/// Two of them, where they are long.
#[test]
fn complaints_wait_as_long_as_round_trips() {
    let mut peer = Peer::sending(OTHERWISE);
    peer.request_send(0, 10);
    assert_eq!(peer.numbers(), [0]);
    peer.now = Time(peer.now.0 + 1_000_000);
    peer.ack(0);
    peer.request_send(1, 2000);
    assert_eq!(peer.numbers(), [1, 2]);
    peer.nak(1, NakCode::PsnSequence);
    assert_eq!(peer.numbers(), [1, 2]);
    peer.now = Time(peer.now.0 + 1_999_999);
    peer.nak(1, NakCode::PsnSequence);
    assert_eq!(peer.numbers(), []);
    peer.now = Time(peer.now.0 + 1);
    peer.nak(1, NakCode::PsnSequence);
    assert_eq!(peer.numbers(), [1, 2]);
}

/// 9.7.6.1.3: whatever is acknowledged gives the whole count back.
#[test]
fn retries_are_counted_from_the_last_progress() {
    let mut peer = Peer::sending(QpChange {
        timeout: Some(1),
        retry_cnt: Some(1),
        ..OTHERWISE
    });
    peer.request_send(0, 10);
    peer.request_send(1, 10);
    assert_eq!(peer.numbers(), [0, 1]);
    // (Rounded up to 8.4 ms.)
    assert_eq!(peer.wait(), 4096 << 11);
    assert_eq!(peer.sent(), [(0, true), (1, true)]);
    peer.ack(0);
    assert_eq!(peer.numbers(), []);
    peer.wait();
    assert_eq!(peer.numbers(), [1]);
    // Not due yet.
    let due = peer.qp.next_timeout();
    peer.now = Time(due.unwrap().0 - 1);
    peer.qp.handle_timeout(peer.now, &mut peer.host);
    assert_eq!((peer.numbers(), peer.qp.next_timeout()), (vec![], due));
    peer.wait();
    assert_eq!(peer.numbers(), []);
    assert_eq!(
        peer.completed(),
        [(0, IBV_WC_SUCCESS), (1, IBV_WC_RETRY_EXC_ERR)]
    );
    assert_eq!(
        (peer.qp.state(), peer.qp.next_timeout()),
        (QpState::Err, None)
    );
}

/// 9.7.5.2.8.
#[test]
fn refusals_for_want_of_receives_are_counted_from_the_last_progress() {
    let mut peer = Peer::sending(QpChange {
        rnr_retry: Some(1),
        ..OTHERWISE
    });
    peer.request_send(0, 10);
    peer.request_send(1, 10);
    assert_eq!(peer.numbers(), [0, 1]);
    peer.not_ready(0);
    // What the peer said to the second one, or once more, counts as one.
    peer.not_ready(0);
    let window = peer.qp.requester.window.size();
    peer.nak(0, NakCode::PsnSequence);
    assert_eq!(peer.numbers(), []);
    assert_eq!(peer.qp.requester.window.size(), window);
    assert_eq!(peer.wait(), 640_000);
    assert_eq!(peer.sent(), [(0, true), (1, true)]);
    peer.ack(0);
    peer.not_ready(1);
    assert_eq!(peer.wait(), 640_000);
    assert_eq!(peer.numbers(), [1]);
    peer.not_ready(1);
    assert_eq!(
        peer.completed(),
        [(0, IBV_WC_SUCCESS), (1, IBV_WC_RNR_RETRY_EXC_ERR)]
    );
    // A receive that comes meanwhile, and is told of by an acknowledgment, ends the wait.
    let mut peer = Peer::sending(OTHERWISE);
    peer.request_send(0, 10);
    peer.request_send(1, 10);
    peer.numbers();
    peer.not_ready(0);
    peer.ack(0);
    assert_eq!(peer.numbers(), [1]);
}

/// A peer that is not ready is there: silence after it counts anew.
#[test]
fn a_peer_that_is_not_ready_is_not_silent() {
    let mut peer = Peer::sending(QpChange {
        timeout: Some(1),
        retry_cnt: Some(1),
        ..OTHERWISE
    });
    peer.request_send(0, 10);
    peer.numbers();
    for _ in 0..5 {
        peer.wait();
        assert_eq!(peer.numbers(), [0]);
        peer.not_ready(0);
        assert_eq!(peer.wait(), 640_000);
        assert_eq!(peer.numbers(), [0]);
    }
    assert_eq!(peer.completed(), []);
}

/// After silence two packets go; only if more than these are acknowledged were they not lost.
#[test]
fn silence_makes_the_window_small() {
    for (acknowledged, size) in [(0, 3), (1, 4), (2, 64 + 3)] {
        let mut peer = Peer::sending(OTHERWISE);
        peer.request_send(0, 10 << 10);
        assert_eq!(peer.numbers().len(), 10);
        assert_eq!(peer.wait(), 20_000_000);
        assert_eq!(peer.sent(), [(0, true), (1, true)]);
        peer.ack(acknowledged);
        assert_eq!(peer.qp.requester.window.size(), size);
    }
}

/// From a packet that asks to its answer; not of packets that were sent again (Karn).
#[test]
fn round_trips_are_timed() {
    let mut peer = Peer::sending(OTHERWISE);
    let pass = |peer: &mut Peer, nanoseconds| peer.now = Time(peer.now.0 + nanoseconds);
    let timed = |peer: &Peer| peer.qp.requester.window.round_trip();
    peer.request_send(0, 10);
    peer.request_send(1, 10);
    assert_eq!(peer.numbers(), [0, 1]);
    pass(&mut peer, 30_000);
    // The first did not ask.
    peer.ack(0);
    assert_eq!(timed(&peer), 0);
    pass(&mut peer, 20_000);
    peer.ack(1);
    assert_eq!(timed(&peer), 50_000);
    // The next one begins anew: an eighth of it counts.
    pass(&mut peer, 1_000_000);
    peer.request_send(2, 10);
    assert_eq!(peer.numbers(), [2]);
    pass(&mut peer, 130_000);
    peer.ack(2);
    assert_eq!(timed(&peer), 60_000);
    peer.request_send(3, 10);
    assert_eq!(peer.numbers(), [3]);
    peer.wait();
    assert_eq!(peer.numbers(), [3]);
    pass(&mut peer, 900_000);
    peer.ack(3);
    assert_eq!(timed(&peer), 60_000);
}
