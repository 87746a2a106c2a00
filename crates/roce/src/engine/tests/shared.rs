//! Reliable and unreliable connections through shared memory: binding, and what the receiver drops.

use std::cell::Cell;
use std::rc::Rc;

use ibverbs_abi::*;

use super::connection::{fill, receives, sends};
use super::network::*;
use crate::engine::*;
use crate::wire::{Operation, Psn};

fn post(network: &mut Network, wr_id: u64, op: SendOp, len: u32) {
    network.post_send(0, send_wr(wr_id, op, &[sge(0, len)]));
}

fn shared() -> Network {
    Network::rc(1024, lossless(us(10))).sharing(true)
}

/// Drops the fragments of side 0 whose numbers, counted from 0, are among these.
fn drop_fragments(network: &mut Network, numbers: &'static [u32]) {
    let count = Cell::new(0);
    network.takes_fragment = Box::new(move |side, _| {
        if side != 0 {
            return true;
        }
        let number = count.replace(count.get() + 1);
        !numbers.contains(&number)
    });
}

/// Requests in flight by UDP when there is shared memory first end there. Nothing begins before
/// that, and nothing takes packets then.
#[test]
fn a_queue_pair_is_bound_when_nothing_is_in_flight() {
    let mut network = Network::rc(1024, lossless(us(10)));
    for wr_id in 0..4 {
        network.post_recv(1, recv_wr(wr_id, &[sge(0, 5000)]));
    }
    post(&mut network, 0, SendOp::Send, 3000);
    assert_eq!(network.packets_sent[0], 3);
    network.shared_from = Some(network.now);
    post(&mut network, 1, SendOp::Send, 3000);
    post(&mut network, 2, SendOp::Send, 10);
    assert!(!network.sides[0].qp.sends().is_bound());
    assert_eq!(network.packets_sent[0], 3);
    network.run();
    assert!(network.sides[0].qp.sends().is_bound());
    let expected = [0, 1, 2].map(|id| (id, IBV_WC_SUCCESS));
    assert_eq!(sends(&network, 0), expected);
    assert_eq!(receives(&network, 1), expected);
    // Two fragments, and perhaps packets that were sent again.
    let before = network.packets_sent[0];
    post(&mut network, 3, SendOp::Send, 4000);
    network.run();
    assert_eq!(network.packets_sent[0], before + 1);
    // A message has one PSN.
    let attributes = [0, 1].map(|side: usize| network.sides[side].qp.attributes());
    assert_eq!(attributes[0].sq_psn, attributes[1].rq_psn);
}

/// The peer's requester is not bound because this one is.
#[test]
fn each_direction_is_bound_alone() {
    let mut network = Network::rc(1024, lossless(us(10)));
    network.post_recv(1, recv_wr(1, &[sge(0, 10)]));
    network.post_recv(0, recv_wr(1, &[sge(0, 10)]));
    let Side { qp, .. } = &mut network.sides[0];
    assert!(qp.bind(network.now));
    network.shared_from = Some(network.now);
    post(&mut network, 2, SendOp::Send, 10);
    assert!(network.sides[0].qp.sends().is_bound() && !network.sides[1].qp.sends().is_bound());
    network.shared_from = None;
    network.post_send(1, send_wr(3, SendOp::Send, &[sge(0, 10)]));
    assert!(!network.sides[1].qp.sends().is_bound());
    network.shared_from = Some(network.now);
    network.run();
    assert_eq!(sends(&network, 0), [(2, IBV_WC_SUCCESS)]);
    assert_eq!(sends(&network, 1), [(3, IBV_WC_SUCCESS)]);
}

/// A fragment of a long message that the receiver has dropped: the message is sent again, and arrives once.
#[test]
fn a_message_with_a_missing_fragment_is_sent_again() {
    for dropped in [&[0][..], &[1], &[2], &[3], &[0, 1, 2, 3], &[1, 3]] {
        for op in [SendOp::Send, write(BASE + 200_000, KEY)] {
            let mut network = shared();
            fill(&mut network, 0);
            network.fragment_len = 1000;
            network.post_recv(1, recv_wr(7, &[sge(200_000, 4000)]));
            drop_fragments(&mut network, dropped);
            post(&mut network, 1, op, 3500);
            network.run();
            assert_eq!(sends(&network, 0), [(1, IBV_WC_SUCCESS)]);
            let received = usize::from(op == SendOp::Send);
            assert_eq!(receives(&network, 1).len(), received);
            // If no later part arrives, the ack timeout alone shows that some are missing.
            let later = |part: u32| part > dropped[0] && !dropped.contains(&part);
            let naks = network.sides[0].qp.counters().rcvd_seq_err;
            assert_eq!(naks, u64::from((0..4).any(later)), "{dropped:?}");
            let [near, far] = &mut network.sides;
            let (near, far) = (&near.hca.region(KEY).bytes, &far.hca.region(KEY).bytes);
            assert!(near[..3500] == far[200_000..][..3500]);
        }
    }
}

/// A fragment that the receiver drops for lack of memory consumes no retry before the ack timeout.
#[test]
fn a_dropped_request_is_sent_again_after_the_ack_timeout() {
    let mut network = shared();
    network.post_recv(1, recv_wr(7, &[sge(0, 10)]));
    drop_fragments(&mut network, &[0, 1]);
    let begin = network.now;
    post(&mut network, 1, SendOp::Send, 10);
    while sends(&network, 0).is_empty() {
        assert!(network.step());
    }
    assert_eq!(sends(&network, 0), [(1, IBV_WC_SUCCESS)]);
    // 4.096 us times 2 to the power of 14, twice.
    let waited = network.now.since(begin);
    assert!(waited > ms(134) && waited < ms(135), "{waited:?}");
}

#[test]
fn a_request_that_nobody_answers_fails_after_its_retries() {
    for retry_cnt in [0, 1, 7] {
        let change = QpChange {
            retry_cnt: Some(retry_cnt),
            ..QpChange::default()
        };
        let mut network = Network::rc_with(1024, lossless(us(10)), change).sharing(true);
        network.takes_fragment = Box::new(|_, _| false);
        let begin = network.now;
        post(&mut network, 1, SendOp::Send, 10);
        network.run();
        assert_eq!(sends(&network, 0), [(1, IBV_WC_RETRY_EXC_ERR)]);
        assert_eq!(network.packets_sent[0], u64::from(retry_cnt) + 1);
        let timeouts = u32::from(retry_cnt) + 1;
        assert_eq!(
            network.now.since(begin).as_nanos(),
            u128::from(timeouts) * (4096 << 14)
        );
    }
}

/// The RNR timer of the responder, and `rnr_retry`. Requests behind it wait, too, and are executed in order.
#[test]
fn rnr_naks_are_answered_as_by_packets() {
    for shares in [false, true] {
        let change = QpChange {
            rnr_retry: Some(2),
            ..QpChange::default()
        };
        let mut network = Network::rc_with(1024, lossless(us(1)), change).sharing(shares);
        post(&mut network, 1, SendOp::Send, 10);
        post(&mut network, 2, SendOp::Send, 20);
        let begin = network.now;
        network.run();
        let expected = [(1, IBV_WC_RNR_RETRY_EXC_ERR), (2, IBV_WC_WR_FLUSH_ERR)];
        assert_eq!(sends(&network, 0), expected);
        // The timer with code 12 is 640 us.
        let waited = network.now.since(begin);
        assert!(
            waited >= us(2 * 640) && waited < us(2 * 640 + 300),
            "{waited:?}"
        );
        let counters = [0, 1].map(|side: usize| network.sides[side].qp.counters());
        assert_eq!((counters[0].rcvd_rnr_err, counters[1].send_rnr_err), (3, 3));

        let mut network = Network::rc_with(1024, lossless(us(1)), change).sharing(shares);
        post(&mut network, 1, SendOp::Send, 10);
        post(&mut network, 2, SendOp::Send, 20);
        network.run_for(us(700));
        for wr_id in [5, 6] {
            network.post_recv(1, recv_wr(wr_id, &[sge(0, 20)]));
        }
        network.run();
        assert_eq!(sends(&network, 0), [1, 2].map(|id| (id, IBV_WC_SUCCESS)));
        assert_eq!(receives(&network, 1), [5, 6].map(|id| (id, IBV_WC_SUCCESS)));
    }
}

/// A response that this side has dropped is requested again. An atomic is not executed a second time.
#[test]
fn a_lost_response_is_requested_again() {
    let (va, rkey) = (BASE + 200_000, KEY);
    for op in [
        SendOp::Read { va, rkey },
        SendOp::FetchAdd { va, rkey, add: 1 },
    ] {
        let mut network = shared();
        network.fragment_len = 100;
        let len = match op {
            SendOp::Read { .. } => 350,
            _ => 8,
        };
        let lost = Rc::new(Cell::new(0));
        let count = Rc::clone(&lost);
        network.takes_fragment = Box::new(move |side, fragment| {
            let is_data = matches!(
                fragment.operation(),
                Operation::ReadResponse | Operation::AtomicAck
            );
            let loses = side == 1 && is_data && count.get() < 1;
            count.set(count.get() + u32::from(loses));
            !loses
        });
        post(&mut network, 1, op, len);
        post(&mut network, 2, write(va + 1000, rkey), 10);
        network.run();
        assert_eq!(lost.get(), 1);
        assert_eq!(sends(&network, 0), [1, 2].map(|id| (id, IBV_WC_SUCCESS)));
        let atomics = u64::from(!matches!(op, SendOp::Read { .. }));
        assert_eq!(network.sides[1].hca.atomics, atomics);
    }
}

/// With other shared memory to the same peer, what is in flight is sent again, and executed once.
#[test]
fn other_memory_loses_nothing() {
    let mut network = shared();
    for wr_id in 0..2 {
        network.post_recv(1, recv_wr(wr_id, &[sge(0, 10)]));
    }
    drop_fragments(&mut network, &[0]);
    post(&mut network, 1, SendOp::Send, 10);
    network.sides[0].qp.on_other_memory();
    network.transmit(0);
    post(&mut network, 2, SendOp::Send, 10);
    network.run_for(us(50));
    assert_eq!(sends(&network, 0), [1, 2].map(|id| (id, IBV_WC_SUCCESS)));
    network.sides[0].qp.on_other_memory();
    network.run();
    assert_eq!(receives(&network, 1), [0, 1].map(|id| (id, IBV_WC_SUCCESS)));
}

/// A reliable connection that is bound takes no packets, and fails when its retries are used up.
#[test]
fn a_bound_connection_without_memory_fails() {
    let mut network = shared();
    network.post_recv(1, recv_wr(7, &[sge(0, 10)]));
    post(&mut network, 1, SendOp::Send, 10);
    network.run();
    network.shared_from = None;
    let before = network.packets_sent[0];
    post(&mut network, 2, SendOp::Send, 10);
    let now = network.now;
    network.sides[0].qp.unbind(now);
    network.run();
    assert_eq!(network.packets_sent[0], before);
    assert_eq!(sends(&network, 0)[1..], [(2, IBV_WC_RETRY_EXC_ERR)]);
}

fn uc() -> Network {
    let psns = [5, 6].map(Psn::new);
    let changes = [0, 1].map(|side| attributes(side, psns, 1024));
    let configs = [0, 1].map(|side| config(Service::Uc, side));
    Network::new(configs, changes, lossless(us(1)))
}

/// An unreliable connection goes on with packets when there is no shared memory any more, and takes it again.
#[test]
fn an_unreliable_connection_changes_at_any_time() {
    let mut network = uc();
    for wr_id in 0..6 {
        network.post_recv(1, recv_wr(wr_id, &[sge(0, 5000)]));
    }
    for round in 0..3 {
        let is_shared = round == 1;
        network.shared_from = is_shared.then_some(network.now);
        if !is_shared {
            let now = network.now;
            network.sides[0].qp.unbind(now);
        }
        for wr_id in [2 * round, 2 * round + 1] {
            post(&mut network, wr_id, SendOp::Send, 4000);
        }
        assert_eq!(network.sides[0].qp.sends().is_bound(), is_shared);
        network.run();
    }
    let expected: Vec<_> = (0..6).map(|id| (id, IBV_WC_SUCCESS)).collect();
    assert_eq!(sends(&network, 0), expected);
    assert_eq!(receives(&network, 1), expected);
    // Four messages of four packets, and two of one fragment.
    assert_eq!(network.packets_sent[0], 4 * 4 + 2);
}

/// A message of UC that has lost a fragment is dropped, and the next one gets its receive.
#[test]
fn an_unreliable_message_without_a_fragment_is_dropped() {
    for dropped in [&[0][..], &[1], &[3]] {
        let mut network = uc().sharing(true);
        network.fragment_len = 1000;
        network.post_recv(1, recv_wr(7, &[sge(0, 5000)]));
        drop_fragments(&mut network, dropped);
        post(&mut network, 1, SendOp::Send, 3500);
        post(&mut network, 2, SendOp::Send, 10);
        network.run();
        assert_eq!(sends(&network, 0), [1, 2].map(|id| (id, IBV_WC_SUCCESS)));
        let received: Vec<_> = (network.sides[1].hca.completions.iter())
            .map(|(_, completion)| (completion.wr_id, completion.byte_len))
            .collect();
        assert_eq!(received, [(7, 10)]);
    }
}

/// A fragment of another transport service is dropped, as a packet is: the receiver's queue is left alone.
#[test]
fn a_fragment_of_another_service_is_dropped() {
    for services in [[Service::Rc, Service::Uc], [Service::Uc, Service::Rc]] {
        let psns = [5, 6].map(Psn::new);
        let changes = [0, 1].map(|side| attributes(side, psns, 1024));
        let configs = [0, 1].map(|side| config(services[side], side));
        let mut network = Network::new(configs, changes, lossless(us(10))).sharing(true);
        network.post_recv(1, recv_wr(7, &[sge(0, 10)]));
        post(&mut network, 1, SendOp::Send, 10);
        network.run();
        assert!(network.sides[0].qp.sends().is_bound());
        assert_eq!(receives(&network, 1), [], "{services:?}");
        let status = match services[0] {
            Service::Rc => IBV_WC_RETRY_EXC_ERR,
            _ => IBV_WC_SUCCESS,
        };
        assert_eq!(sends(&network, 0), [(1, status)]);
        assert!(network.sides[1].qp.counters().dropped_not_of_peer > 0);
    }
}
