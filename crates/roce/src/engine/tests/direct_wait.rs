//! WRITEs and READs that wait for earlier requests, and are executed by the HCA then.

use ibverbs_abi::*;

use super::connection::{fill, receives, sends};
use super::hca::Direct;
use super::network::*;
use crate::engine::*;

const LONG: u32 = 8 << 10;

fn network(direct: Direct) -> Network {
    let mut network = Network::rc(1024, lossless(us(10)));
    network.shared_from = Some(network.now);
    network.sides[0].hca.direct = direct;
    fill(&mut network, 0);
    for wr_id in 0..20 {
        network.post_recv(1, recv_wr(wr_id, &[sge(900_000, 8)]));
    }
    network
}

fn post(network: &mut Network, wr_id: u64, op: SendOp, len: u32) {
    network.post_send(0, send_wr(wr_id, op, &[sge(0, len)]));
}

fn write() -> SendOp {
    let (va, rkey) = (BASE + 100_000, KEY);
    SendOp::Write { va, rkey }
}

fn read() -> SendOp {
    let (va, rkey) = (BASE + 100_000, KEY);
    SendOp::Read { va, rkey }
}

fn direct_ops(network: &Network) -> u64 {
    network.sides[0].qp.counters().direct_ops
}

fn assert_all_succeed(network: &mut Network, count: u64) {
    network.run();
    let expected: Vec<_> = (0..count).map(|id| (id, IBV_WC_SUCCESS)).collect();
    assert_eq!(sends(network, 0), expected);
    let late = |side: usize| network.sides[side].qp.counters().completer_retry_err;
    assert_eq!(late(0), 0);
}

/// The next SEND has the PSN that the peer expects: nothing is retransmitted.
#[test]
fn a_long_request_behind_a_send_is_executed_when_that_is_acknowledged() {
    for op in [write(), read()] {
        let mut network = network(Direct::Granted);
        post(&mut network, 0, SendOp::Send, 8);
        post(&mut network, 1, op, LONG);
        post(&mut network, 2, SendOp::Send, 8);
        assert_eq!((network.packets_sent[0], direct_ops(&network)), (1, 0));
        assert_all_succeed(&mut network, 3);
        assert_eq!((network.packets_sent[0], direct_ops(&network)), (2, 1));
        assert_eq!(receives(&network, 1).len(), 2);
        let [near, far] = &mut network.sides;
        let (near, far) = (&near.hca.region(KEY).bytes, &far.hca.region(KEY).bytes);
        assert!(near[..LONG as usize] == far[100_000..][..LONG as usize]);
    }
}

#[test]
fn a_short_request_is_sent() {
    let mut network = network(Direct::Granted);
    post(&mut network, 0, SendOp::Send, 8);
    post(&mut network, 1, write(), LONG - 1);
    post(&mut network, 2, write(), 8);
    assert_eq!(network.packets_sent[0], 3);
    assert_all_succeed(&mut network, 3);
    assert_eq!(direct_ops(&network), 0);
}

/// WRITEs behind one that was sent wait. So a stream that began before the peer granted any access
/// leaves the network.
#[test]
fn what_is_behind_a_write_that_was_sent_waits() {
    let mut network = network(Direct::Never);
    post(&mut network, 0, write(), 8);
    network.sides[0].hca.direct = Direct::Granted;
    for wr_id in 1..5 {
        post(&mut network, wr_id, write(), LONG);
    }
    // Not even a short one is sent then.
    post(&mut network, 5, write(), 8);
    assert_eq!(network.packets_sent[0], 1);
    assert_all_succeed(&mut network, 6);
    assert_eq!((network.packets_sent[0], direct_ops(&network)), (1, 5));
}

/// Without the acknowledgment that the SENDs before it must request, it would wait for a timer.
#[test]
fn what_is_posted_together_waits_for_one_acknowledgment() {
    let mut network = network(Direct::Granted);
    let Side { qp, hca } = &mut network.sides[0];
    for (wr_id, op, len) in [
        (0, SendOp::Send, 8),
        (1, SendOp::Send, 8),
        (2, write(), LONG),
        (3, SendOp::Send, 8),
    ] {
        assert!(qp.post_send(send_wr(wr_id, op, &[sge(0, len)]), hca));
    }
    network.transmit(0);
    assert_eq!(network.packets_sent[0], 2);
    let begin = network.now;
    while sends(&network, 0).len() < 4 {
        assert!(network.step());
    }
    assert!(network.now.since(begin) < us(100));
    assert_all_succeed(&mut network, 4);
    assert_eq!((network.packets_sent[0], direct_ops(&network)), (3, 1));
}

#[test]
fn what_the_host_refuses_is_sent_and_soon_does_not_wait() {
    let mut network = network(Direct::Refused);
    for round in 0..6 {
        post(&mut network, round * 2, SendOp::Send, 8);
        let before = network.packets_sent[0];
        post(&mut network, round * 2 + 1, write(), LONG);
        let waits = network.packets_sent[0] == before;
        assert_eq!(waits, round < 4, "{round}");
        network.run();
    }
    assert_all_succeed(&mut network, 12);
    assert_eq!(direct_ops(&network), 0);
}

#[test]
fn a_drained_queue_executes_nothing() {
    let mut network = network(Direct::Granted);
    post(&mut network, 0, SendOp::Send, 8);
    post(&mut network, 1, write(), LONG);
    network.set_state(0, QpState::Sqd);
    network.run();
    assert_eq!((sends(&network, 0).len(), direct_ops(&network)), (1, 0));
    network.set_state(0, QpState::Rts);
    network.run();
    assert_eq!(sends(&network, 0).len(), 2);
}

/// A failed SEND flushes what waits for it.
#[test]
fn what_waits_is_flushed() {
    let mut network = network(Direct::Granted);
    network.post_send(0, send_wr(0, SendOp::Send, &[sge(0, 9)]));
    post(&mut network, 1, write(), LONG);
    network.run();
    let expected = [(0, IBV_WC_REM_INV_REQ_ERR), (1, IBV_WC_WR_FLUSH_ERR)];
    assert_eq!(sends(&network, 0), expected);
    assert_eq!(direct_ops(&network), 0);
}

/// Other threads wait for the queue pair: one call copies 8 MiB. The next WR is sent, and the others wait for
/// it.
#[test]
fn behind_many_bytes_a_request_is_sent() {
    let mut network = network(Direct::Granted);
    post(&mut network, 0, SendOp::Send, 8);
    for wr_id in 1..21 {
        post(&mut network, wr_id, write(), 500_000);
    }
    // The ACK arrives; the side looks at its queue later.
    network.transmit_delay = us(50);
    while network.sides[0].qp.send_depth() == 21 {
        assert!(network.step());
    }
    network.run_side(0, |qp, hca| qp.execute_direct(hca));
    assert_eq!(network.sides[0].qp.send_depth(), 3);
    assert_all_succeed(&mut network, 21);
    assert_eq!(direct_ops(&network), 19);
}

/// A peer that never sends stays in RTR: perftest's servers.
#[test]
fn a_queue_pair_in_rtr_grants_access_from_its_first_packet_on() {
    let psns = [5, 6].map(crate::wire::Psn::new);
    let mut network = Network::rc(1024, lossless(us(1)));
    let Side { qp, hca } = &mut network.sides[1];
    for state in [QpState::Reset, QpState::Init, QpState::Rtr] {
        let change = QpChange {
            state: Some(state),
            sq_psn: None,
            rq_psn: Some(crate::wire::Psn::new(0xff_ffe0)).filter(|_| state == QpState::Rtr),
            ..attributes(1, psns, 1024)
        };
        qp.modify(&change, network.now, hca);
    }
    assert_eq!(qp.direct_access(), None);
    post(&mut network, 0, write(), 8);
    assert_all_succeed(&mut network, 1);
    assert!(network.sides[1].qp.direct_access().is_some());
    let events = &network.sides[1].hca.events;
    assert_eq!(events[..], [QpEvent::CommunicationEstablished]);
}
