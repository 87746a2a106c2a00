//! Reliable connections: what fails, when, and with which status.

use std::time::Duration;

use ibverbs_abi::*;

use super::connection::{fill, receives, sends};
use super::network::*;
use crate::engine::*;

/// 9.7.5.2.8. Then the WQE fails.
#[test]
fn rnr_naks_are_retried_rnr_retry_times() {
    for shared in [false, true] {
        for (retries, tries) in [(0, 1), (1, 2), (5, 6)] {
            let change = QpChange {
                rnr_retry: Some(retries),
                ..QpChange::default()
            };
            let mut network = Network::rc_with(1024, lossless(us(1)), change).sharing(shared);
            let begin = network.now;
            network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 10)]));
            network.post_send(0, send_wr(2, SendOp::Send, &[sge(0, 10)]));
            network.run();
            assert_eq!(
                sends(&network, 0),
                [(1, IBV_WC_RNR_RETRY_EXC_ERR), (2, IBV_WC_WR_FLUSH_ERR)]
            );
            assert_eq!(network.sides[0].qp.state(), QpState::Err);
            // Code 12 is 0.64 ms.
            let waited = network.now.since(begin);
            let expected = us(640) * u32::from(retries);
            assert!(
                (expected..expected + us(50)).contains(&waited),
                "{tries}: {waited:?}"
            );
        }
        // 7: no limit.
        let mut network = Network::rc(1024, lossless(us(1))).sharing(shared);
        network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 10)]));
        network.run_for(ms(100));
        assert_eq!(sends(&network, 0), []);
        network.post_recv(1, recv_wr(1, &[sge(0, 10)]));
        network.run();
        assert_eq!(sends(&network, 0), [(1, IBV_WC_SUCCESS)]);
    }
}

/// 9.7.6.1.3.
#[test]
fn a_dead_peer_fails_after_retry_cnt_ack_timeouts() {
    for (code, retry_cnt) in [(14, 0), (14, 2), (18, 7), (1, 3)] {
        let change = retries(code, retry_cnt);
        let mut network = Network::rc_with(1024, dead(), change);
        let begin = network.now;
        network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 10)]));
        network.run();
        assert_eq!(sends(&network, 0), [(1, IBV_WC_RETRY_EXC_ERR)]);
        let timeout = Duration::from_nanos(4096 << code.max(11));
        let expected = timeout * (u32::from(retry_cnt) + 1);
        assert_eq!(network.now.since(begin), expected);
    }
}

/// `timeout` 0: the ack timeout never expires.
#[test]
fn timeout_zero_retries_without_limit() {
    for shared in [false, true] {
        let change = QpChange {
            timeout: Some(0),
            ..QpChange::default()
        };
        let mut network = Network::rc_with(1024, dead(), change).sharing(shared);
        network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 10)]));
        network.run_for(Duration::from_secs(120));
        assert_eq!(sends(&network, 0), []);
        network.post_recv(1, recv_wr(1, &[sge(0, 10)]));
        network.impair = lossless(us(1));
        network.run();
        assert_eq!(sends(&network, 0), [(1, IBV_WC_SUCCESS)]);
    }
}

/// 9.7.4.1.5, 9.9.3 class C: the NAK has the right code, both queue pairs move to ERR, the responder raises
/// an event, and no memory is written.
#[test]
fn a_forbidden_access_gets_a_nak() {
    for shared in [false, true] {
        let (va, rkey) = (BASE, KEY);
        let wrong = KEY + 1;
        let end = BASE + LEN as u64;
        let access = (IBV_WC_REM_ACCESS_ERR, QpEvent::AccessError);
        let invalid = (IBV_WC_REM_INV_REQ_ERR, QpEvent::RequestError);
        let eight = [sge(0, 8)];
        let long = [sge(0, 5000)];
        for (kind, sges, (status, event)) in [
            (SendOp::Write { va, rkey: wrong }, &eight, access),
            (SendOp::Write { va, rkey: wrong }, &long, access),
            (write(end - 4999, rkey), &long, access),
            (SendOp::Write { va: end - 7, rkey }, &eight, access),
            (SendOp::Write { va: u64::MAX, rkey }, &eight, access),
            (SendOp::Read { va, rkey: wrong }, &eight, access),
            (read(end - 4999, rkey), &long, access),
            (fetch_add(va, wrong, 1), &eight, access),
            (fetch_add(va + 4, rkey, 1), &eight, invalid),
            (cmp_swap(end, rkey, 0, 0), &eight, access),
            (atomic_write(va + 1, rkey, [1; 8]), &eight, invalid),
            (atomic_write(va, wrong, [1; 8]), &eight, access),
            (flush(va, wrong, 1, 1), &eight, access),
            (flush(end - 8, rkey, 9, 2), &eight, access),
            (flush(va, rkey, 1, 0), &eight, invalid),
        ] {
            let mut network = Network::rc(1024, lossless(us(1))).sharing(shared);
            fill(&mut network, 0);
            network.post_recv(1, recv_wr(1, &[sge(0, 100)]));
            network.post_send(0, send_wr(1, kind, sges));
            network.run();
            assert_eq!(sends(&network, 0), [(1, status)], "{kind:?}");
            assert_eq!(network.sides[1].hca.events, [event], "{kind:?}");
            assert_eq!(receives(&network, 1), [(1, IBV_WC_WR_FLUSH_ERR)]);
            assert!(
                network
                    .sides
                    .iter()
                    .all(|side| side.qp.state() == QpState::Err)
            );
            assert!(network.is_memory_zero(1));
        }
        // The queue pair does not grant the access, although the R_Key does.
        for kind in [
            SendOp::Write { va, rkey },
            SendOp::Read { va, rkey },
            SendOp::FetchAdd { va, rkey, add: 1 },
            atomic_write(va, rkey, [1; 8]),
            flush(va, rkey, 1, 1),
        ] {
            let mut network = Network::rc(1024, lossless(us(1))).sharing(shared);
            network.modify(
                1,
                &QpChange {
                    access: Some(0),
                    ..QpChange::default()
                },
            );
            network.post_send(0, send_wr(1, kind, &eight));
            network.run();
            assert_eq!(
                sends(&network, 0),
                [(1, IBV_WC_REM_INV_REQ_ERR)],
                "{kind:?}"
            );
        }
    }
}

#[test]
fn a_message_longer_than_its_receive_wqe_is_an_error() {
    for shared in [false, true] {
        for (len, room) in [(11, 10), (5000, 4999), (1, 0)] {
            let mut network = Network::rc(1024, lossless(us(1))).sharing(shared);
            network.post_recv(1, recv_wr(1, &[sge(0, room)]));
            network.post_recv(1, recv_wr(2, &[sge(0, room)]));
            network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, len)]));
            network.run();
            assert_eq!(sends(&network, 0), [(1, IBV_WC_REM_INV_REQ_ERR)]);
            assert_eq!(
                receives(&network, 1),
                [(1, IBV_WC_LOC_LEN_ERR), (2, IBV_WC_WR_FLUSH_ERR)]
            );
        }
    }
}

#[test]
fn invalid_lkeys_fail_in_order() {
    for shared in [false, true] {
        let bad = Sge {
            lkey: 1,
            ..sge(0, 10)
        };
        let mut network = Network::rc(1024, lossless(us(1))).sharing(shared);
        network.post_recv(1, recv_wr(1, &[sge(0, 5000)]));
        network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 5000)]));
        network.post_send(0, send_wr(2, SendOp::Send, &[bad]));
        network.post_send(0, send_wr(3, SendOp::Send, &[sge(0, 10)]));
        network.run();
        assert_eq!(
            sends(&network, 0),
            [
                (1, IBV_WC_SUCCESS),
                (2, IBV_WC_LOC_PROT_ERR),
                (3, IBV_WC_WR_FLUSH_ERR),
            ]
        );
        assert_eq!(receives(&network, 1), [(1, IBV_WC_SUCCESS)]);

        // In a receive WR.
        let mut network = Network::rc(1024, lossless(us(1))).sharing(shared);
        network.post_recv(1, recv_wr(1, &[bad]));
        network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 10)]));
        network.run();
        assert_eq!(sends(&network, 0), [(1, IBV_WC_REM_OP_ERR)]);
        assert_eq!(receives(&network, 1), [(1, IBV_WC_LOC_PROT_ERR)]);
    }
}

/// 10.3.1.7: the send queue first.
#[test]
fn err_flushes_both_queues_in_order() {
    for shared in [false, true] {
        let mut network = Network::rc(1024, dead()).sharing(shared);
        for id in 1..4 {
            network.post_recv(0, recv_wr(10 + id, &[]));
            network.post_send(0, send_wr(id, SendOp::Send, &[]));
        }
        network.set_state(0, QpState::Err);
        let ids: Vec<u64> = network.sides[0]
            .hca
            .completions
            .iter()
            .map(|c| c.1.wr_id)
            .collect();
        assert_eq!(ids, [1, 2, 3, 11, 12, 13]);
        network.post_send(0, send_wr(4, SendOp::Send, &[]));
        network.post_recv(0, recv_wr(14, &[]));
        let flushed = |c: &(WorkQueue, Completion)| c.1.status == IBV_WC_WR_FLUSH_ERR;
        let hca = &network.sides[0].hca;
        assert!(hca.completions.len() == 8 && hca.completions.iter().all(flushed));
        network.set_state(0, QpState::Reset);
        assert_eq!(network.sides[0].hca.completions.len(), 8);
        assert_eq!(network.sides[0].qp.next_timeout(), None);
    }
}

/// 11.6.2: the fatal event is raised once, and the queue pair moves to ERR.
#[test]
fn a_cq_overrun_is_fatal() {
    for mut network in Network::both_ways(1024, us(1)) {
        network.sides[1].hca.room = Some(1);
        for id in 1..4 {
            network.post_recv(1, recv_wr(id, &[]));
            network.post_send(0, send_wr(id, SendOp::Send, &[]));
        }
        network.run();
        assert_eq!(network.sides[1].hca.events, [QpEvent::Fatal]);
        assert_eq!(network.sides[1].qp.state(), QpState::Err);
        assert_eq!(
            sends(&network, 0)[..2],
            [(1, IBV_WC_SUCCESS), (2, IBV_WC_REM_OP_ERR)]
        );
    }
}
