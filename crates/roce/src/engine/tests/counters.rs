//! Tests of the counters: a packet exchange per counter.

use ibverbs_abi::*;

use super::network::ms;
use super::peer::*;
use crate::engine::*;
use crate::wire::{NakCode, Part};

/// The counters that a test expects, apart from those of packets and bytes.
fn errors(peer: &Peer) -> Counters {
    Counters {
        sent_pkts: 0,
        sent_bytes: 0,
        rcvd_pkts: 0,
        rcvd_bytes: 0,
        ..peer.qp.counters()
    }
}

fn none() -> Counters {
    Counters::default()
}

#[test]
fn packets_and_bytes() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_send(0, 1025);
    assert_eq!(peer.sent(), [0, 1]);
    // A BTH and an ICRC each; the last byte is padded.
    let sent = (12 + 1024 + 4) + (12 + 4 + 4);
    peer.ack(1);
    // With an AETH.
    let rcvd = 12 + 4 + 4;
    let expected = Counters {
        sent_pkts: 2,
        sent_bytes: sent,
        rcvd_pkts: 1,
        rcvd_bytes: rcvd,
        rdma_sends: 1,
        ..none()
    };
    assert_eq!(peer.qp.counters(), expected);
}

#[test]
fn sends_and_receives() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_read(0, 8);
    peer.post_send(1, 8);
    assert_eq!(peer.sent().len(), 2);
    peer.read_response(Part::Only, 0, &[0; 8]);
    assert_eq!(errors(&peer), none(), "a READ is no SEND");
    peer.ack(1);
    let rdma_sends = 1;
    let expected = Counters {
        rdma_sends,
        ..none()
    };
    assert_eq!(errors(&peer), expected);
    peer.post_recv(2);
    peer.send(Part::First, 0, &[0; 1024]);
    assert_eq!(errors(&peer), expected);
    peer.send(Part::Last, 1, &[0; 4]);
    let rdma_recvs = 1;
    let expected = Counters {
        rdma_recvs,
        ..expected
    };
    assert_eq!(errors(&peer), expected);
}

#[test]
fn duplicates_and_gaps() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_recv(0);
    peer.send(Part::Only, 0, &[]);
    for _ in 0..3 {
        peer.send(Part::Only, 0, &[]);
    }
    peer.send(Part::Only, 2, &[]);
    peer.send(Part::Only, 3, &[]);
    let expected = Counters {
        rdma_recvs: 1,
        duplicate_request: 3,
        out_of_seq_request: 2,
        ..none()
    };
    assert_eq!(errors(&peer), expected);
}

#[test]
fn receiver_not_ready() {
    let mut peer = Peer::in_rts(QpChange {
        rnr_retry: Some(1),
        ..ATTRIBUTES
    });
    peer.send(Part::Only, 0, &[]);
    let mut expected = Counters {
        send_rnr_err: 1,
        ..none()
    };
    assert_eq!(errors(&peer), expected);
    peer.packets();
    peer.post_send(0, 10);
    peer.post_send(1, 10);
    assert_eq!(peer.sent(), [0, 1]);
    peer.rnr_nak(0);
    expected.rcvd_rnr_err = 1;
    assert_eq!(errors(&peer), expected);
    peer.wait_for_timer();
    assert_eq!(peer.sent(), [0, 1]);
    peer.rnr_nak(0);
    expected.rcvd_rnr_err = 2;
    expected.retry_rnr_exceeded_err = 1;
    assert_eq!(errors(&peer), expected);
    let flushed = [(0, IBV_WC_RNR_RETRY_EXC_ERR), (1, IBV_WC_WR_FLUSH_ERR)];
    assert_eq!(peer.send_completions(), flushed);
}

#[test]
fn sequence_naks() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.keeps_nothing();
    peer.post_send(0, 4000);
    assert_eq!(peer.sent(), [0, 1, 2, 3]);
    peer.nak(1, NakCode::PsnSequence);
    assert_eq!(peer.sent(), [1, 2, 3]);
    // This one is ignored: it may refer to the first transmission.
    peer.nak(1, NakCode::PsnSequence);
    assert_eq!(peer.sent(), []);
    let expected = Counters {
        rcvd_seq_err: 2,
        completer_retry_err: 1,
        ..none()
    };
    assert_eq!(errors(&peer), expected);
    // A NAK of another kind is no sequence error.
    peer.nak(1, NakCode::RemoteAccess);
    assert_eq!(errors(&peer), expected);
}

#[test]
fn timeouts() {
    let mut peer = Peer::in_rts(QpChange {
        timeout: Some(1),
        retry_cnt: Some(2),
        ..ATTRIBUTES
    });
    peer.post_send(0, 10);
    assert_eq!(peer.sent(), [0]);
    for retries in 1..=2 {
        peer.wait_for_timer();
        assert_eq!(peer.sent(), [0]);
        let expected = Counters {
            completer_retry_err: retries,
            ..none()
        };
        assert_eq!(errors(&peer), expected);
    }
    peer.wait_for_timer();
    let expected = Counters {
        completer_retry_err: 2,
        retry_exceeded_err: 1,
        ..none()
    };
    assert_eq!(errors(&peer), expected);
    assert_eq!(peer.send_completions(), [(0, IBV_WC_RETRY_EXC_ERR)]);
}

/// A connection starts with counters as the last one left them, and the sum survives RESET.
#[test]
fn reset_clears_nothing() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_send(0, 4000);
    peer.packets();
    peer.nak(1, NakCode::PsnSequence);
    peer.send(Part::Only, 2, &[]);
    peer.sleep(ms(1));
    let before = peer.qp.counters();
    assert_eq!((before.rcvd_seq_err, before.out_of_seq_request), (1, 1));
    peer.modify(QpState::Reset, QpChange::default());
    assert_eq!(peer.qp.counters(), before);
    assert_eq!(peer.qp.take_counters(), before);
    assert_eq!(peer.qp.counters(), none());
}

#[test]
fn deferred_acks() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.qp.count_deferred_ack();
    let mut sum = peer.qp.counters();
    sum += peer.qp.counters();
    let ack_deferred = 2;
    assert_eq!(
        sum,
        Counters {
            ack_deferred,
            ..none()
        }
    );
}
