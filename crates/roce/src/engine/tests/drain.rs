//! The send queue drained state, SQD.

use ibverbs_abi::*;

use super::connection::sends;
use super::network::*;
use super::peer::*;
use super::requester::fenced;
use super::unreliable::pair;
use crate::engine::*;
use crate::wire::{NakCode, Part};

/// 10.3.1.5: started WQEs complete, then the event is raised; the others wait for RTS.
#[test]
fn sqd_drains_the_send_queue() {
    let mut network = Network::rc(1024, lossless(us(100)));
    network.post_recv(1, recv_wr(1, &[sge(0, 300_000)]));
    network.post_recv(1, recv_wr(2, &[sge(0, 300_000)]));
    network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 300_000)]));
    network.post_send(0, send_wr(2, SendOp::Send, &[sge(0, 300_000)]));
    network.set_state(0, QpState::Sqd);
    assert!(network.sides[0].qp.sq_draining());
    network.run();
    assert_eq!(sends(&network, 0), [(1, IBV_WC_SUCCESS)]);
    assert_eq!(network.sides[0].hca.events, [QpEvent::SendQueueDrained]);
    assert!(!network.sides[0].qp.sq_draining());
    network.set_state(0, QpState::Rts);
    network.run();
    assert_eq!(sends(&network, 0), [1, 2].map(|id| (id, IBV_WC_SUCCESS)));
    network.set_state(0, QpState::Sqd);
    assert_eq!(network.sides[0].hca.events, [QpEvent::SendQueueDrained; 2]);
}

/// 10.3.1.5: later WQEs wait, even those that will fail.
#[test]
fn draining_completes_started_wqes_only() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_send(0, 100 << 10);
    assert_eq!(peer.sent().len(), 64);
    peer.post_wr(send_wr(1, SendOp::Send, &[sge(0, 1 << 31), sge(0, 1)]));
    peer.modify(QpState::Sqd, QpChange::default());
    peer.post_send(2, 10);
    assert!(peer.qp.sq_draining() && peer.qp.attributes().state == Some(QpState::Sqd));
    peer.ack(63);
    // The last packet requests an ACK, since no other follows.
    assert_eq!(peer.sent_with_ack_req().last(), Some(&(99, true)));
    peer.ack(98);
    assert_eq!(
        (peer.send_completions(), peer.qp.sq_draining()),
        (vec![], true)
    );
    peer.ack(99);
    assert_eq!(
        (peer.send_completions(), peer.qp.sq_draining()),
        (success([0]), false)
    );
    assert_eq!(peer.hca.events, [QpEvent::SendQueueDrained]);
    assert_eq!((peer.sent(), peer.qp.state()), (vec![], QpState::Sqd));
    peer.modify(QpState::Rts, QpChange::default());
    assert_eq!(peer.sent(), []);
    assert_eq!(
        peer.send_completions()[1..],
        [(1, IBV_WC_LOC_LEN_ERR), (2, IBV_WC_WR_FLUSH_ERR)]
    );
    assert_eq!(peer.hca.events, [QpEvent::SendQueueDrained]);
    // A WQE that its fence holds back has not been started.
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_read(0, 10);
    peer.post_wr(fenced(1));
    assert_eq!(peer.sent(), [0]);
    peer.modify(QpState::Sqd, QpChange::default());
    peer.read_response(Part::Only, 0, &[1; 10]);
    assert_eq!((peer.sent(), peer.qp.sq_draining()), (vec![], false));
    peer.modify(QpState::Rts, QpChange::default());
    assert_eq!(peer.sent(), [1]);
    // Back to RTS before the queue is drained: no event.
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_send(0, 10);
    peer.sent();
    peer.modify(QpState::Sqd, QpChange::default());
    peer.modify(QpState::Rts, QpChange::default());
    peer.ack(0);
    assert_eq!(
        (peer.send_completions(), peer.qp.sq_draining()),
        (success([0]), false)
    );
    assert_eq!(peer.hca.events, []);
    // Without `en_sqd_async_notify` there is no event.
    let mut peer = Peer::in_rts(ATTRIBUTES);
    let change = to_state(QpState::Sqd);
    peer.qp.modify(&change, peer.now, &mut peer.hca);
    assert_eq!((peer.qp.sq_draining(), peer.hca.events.len()), (false, 0));
}

/// The last packet in flight may not have requested an ACK, so the packets are retransmitted at once.
#[test]
fn draining_requests_an_ack_at_once() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_send(0, 200 << 10);
    // 64 of 200 packets are in flight.
    peer.sent();
    peer.modify(QpState::Sqd, QpChange::default());
    assert_eq!(peer.wait_for_timer(), us(0));
    assert_eq!(peer.sent_with_ack_req()[0], (0, true));
}

/// Only the move to SQD says whether there is an event: attributes that are set while the send queue
/// drains do not take it back.
#[test]
fn a_modify_while_draining_keeps_the_drained_event() {
    for shared in [false, true] {
        for (notify, expected) in [(Some(true), 1), (Some(false), 0), (None, 0)] {
            let mut network = Network::rc(1024, lossless(us(100))).sharing(shared);
            let modify = |network: &mut Network, change| {
                let side = &mut network.sides[0];
                side.qp.modify(&change, network.now, &mut side.hca);
            };
            network.post_recv(1, recv_wr(1, &[sge(0, 300_000)]));
            network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 300_000)]));
            modify(
                &mut network,
                QpChange {
                    state: Some(QpState::Sqd),
                    sqd_async_notify: notify,
                    ..QpChange::default()
                },
            );
            assert!(network.sides[0].qp.sq_draining());
            for state in [None, Some(QpState::Sqd)] {
                modify(
                    &mut network,
                    QpChange {
                        state,
                        min_rnr_timer: Some(5),
                        ..QpChange::default()
                    },
                );
            }
            network.run();
            let events = &network.sides[0].hca.events;
            assert_eq!(events[..], vec![QpEvent::SendQueueDrained; expected]);
        }
    }
}

/// A request that waits after an RNR NAK has begun, so that draining takes until it is answered.
#[test]
fn what_waits_for_a_receive_is_drained() {
    for mut network in Network::both_ways(1024, us(100)) {
        network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 3000)]));
        while network.sides[0].qp.counters().rcvd_rnr_err == 0 {
            assert!(network.step());
        }
        let change = QpChange {
            state: Some(QpState::Sqd),
            sqd_async_notify: Some(true),
            ..QpChange::default()
        };
        let side = &mut network.sides[0];
        side.qp.modify(&change, network.now, &mut side.hca);
        assert!(side.qp.sq_draining());
        network.post_recv(1, recv_wr(1, &[sge(0, 3000)]));
        network.run();
        let side = &network.sides[0];
        assert!(!side.qp.sq_draining());
        assert_eq!(side.hca.events[..], [QpEvent::SendQueueDrained]);
        assert_eq!(side.hca.completions.len(), 1);
    }
}

/// A queue pair that moves to ERR or SQE drains no more, and does not raise the event.
#[test]
fn an_error_ends_draining() {
    let sqd = |peer: &mut Peer| {
        peer.post_send(0, 10);
        peer.sent();
        peer.modify(QpState::Sqd, QpChange::default());
        assert!(peer.qp.sq_draining());
    };
    let ended = |peer: &Peer, state| {
        assert_eq!((peer.qp.state(), peer.qp.sq_draining()), (state, false));
        assert!(!peer.hca.events.contains(&QpEvent::SendQueueDrained));
    };
    let mut peer = Peer::in_rts(ATTRIBUTES);
    sqd(&mut peer);
    peer.modify(QpState::Err, QpChange::default());
    ended(&peer, QpState::Err);
    // A response that fails its request.
    let mut peer = Peer::in_rts(ATTRIBUTES);
    sqd(&mut peer);
    peer.nak(0, NakCode::RemoteAccess);
    ended(&peer, QpState::Err);
    // A completion that does not fit.
    let mut peer = Peer::in_rts(ATTRIBUTES);
    sqd(&mut peer);
    peer.hca.room = Some(0);
    peer.ack(0);
    ended(&peer, QpState::Err);
    // The next message of an unreliable service.
    let mut network = pair([Service::Uc, Service::Uc], lossless(us(1)));
    network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 300_000)]));
    network.sides[0].hca.region(KEY).valid = false;
    network.set_state(0, QpState::Sqd);
    network.run();
    let qp = &network.sides[0].qp;
    assert_eq!((qp.state(), qp.sq_draining()), (QpState::Sqe, false));
    assert_eq!(network.sides[0].hca.events, []);
}
