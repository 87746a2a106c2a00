//! XRC (annex A14).

use ibverbs_abi::*;

use super::network::*;
use super::unreliable::{pair, statuses};
use crate::engine::*;

/// Annex A14: completions go to that SRQ's completion queue.
#[test]
fn xrc_takes_receives_from_the_named_srq() {
    let mut network = pair([Service::XrcSend, Service::XrcRecv], lossless(us(1)));
    for srqn in [8, 9] {
        let queue = [recv_wr(srqn.into(), &[sge(0, 5000)])].into();
        network.sides[1].hca.xrc.push((srqn, queue));
    }
    let with = |srqn, request| SendWr {
        xrc_srqn: srqn,
        ..request
    };
    let (va, rkey) = (BASE + 9000, KEY);
    network.post_send(0, with(9, send_wr(1, SendOp::Send, &[sge(0, 5000)])));
    network.post_send(
        0,
        with(
            8,
            send_wr(2, SendOp::WriteImm { va, rkey, imm: 1 }, &[sge(0, 2000)]),
        ),
    );
    network.post_send(
        0,
        with(
            8,
            send_wr(3, SendOp::Read { va, rkey }, &[sge(20_000, 2000)]),
        ),
    );
    network.run();
    assert_eq!(
        statuses(&network, 0, WorkQueue::Send),
        [1, 2, 3].map(|id| (id, IBV_WC_SUCCESS))
    );
    assert_eq!(
        statuses(&network, 1, WorkQueue::XrcSrq { srqn: 9 }),
        [(9, IBV_WC_SUCCESS)]
    );
    assert_eq!(
        statuses(&network, 1, WorkQueue::XrcSrq { srqn: 8 }),
        [(8, IBV_WC_SUCCESS)]
    );
    // An empty SRQ: RNR NAK. An SRQ that does not exist: invalid request.
    network.post_send(0, with(8, send_wr(4, SendOp::Send, &[sge(0, 1)])));
    network.run_for(ms(5));
    network.sides[1].hca.xrc[0]
        .1
        .push_back(recv_wr(10, &[sge(0, 1)]));
    network.run();
    network.post_send(0, with(7, send_wr(5, SendOp::Send, &[sge(0, 1)])));
    network.run();
    assert_eq!(
        statuses(&network, 0, WorkQueue::Send)[3..],
        [(4, IBV_WC_SUCCESS), (5, IBV_WC_REM_INV_REQ_ERR)]
    );
    assert_eq!(
        network.sides[1].hca.events,
        [QpEvent::RequestError, QpEvent::LastWqeReached]
    );
}

/// A key is checked against the SRQ that the request names, also when the memory is read later, after
/// requests that name other SRQs.
#[test]
fn xrc_keys_belong_to_the_named_srq() {
    let mut network = pair([Service::XrcSend, Service::XrcRecv], lossless(us(1)));
    network.sides[1].hca.add(77, 0, 20_000);
    network.sides[1].hca.region(77).xrc_srqn = Some(9);
    for srqn in [8, 9] {
        network.sides[1].hca.xrc.push((srqn, Default::default()));
    }
    let write = |rkey| SendOp::Write { va: 0, rkey };
    let with = |srqn, request| SendWr {
        xrc_srqn: srqn,
        ..request
    };
    let read = SendOp::Read { va: 0, rkey: 77 };
    let va = BASE;
    for (srqn, request) in [
        (9, send_wr(1, read, &[sge(0, 20_000)])),
        (8, send_wr(2, SendOp::Write { va, rkey: KEY }, &[sge(0, 8)])),
        (9, send_wr(3, write(77), &[sge(0, 8)])),
        (8, send_wr(4, write(77), &[sge(0, 8)])),
    ] {
        network.post_send(0, with(srqn, request));
    }
    network.run();
    assert_eq!(
        statuses(&network, 0, WorkQueue::Send),
        [
            (1, IBV_WC_SUCCESS),
            (2, IBV_WC_SUCCESS),
            (3, IBV_WC_SUCCESS),
            (4, IBV_WC_REM_ACCESS_ERR)
        ]
    );
}
