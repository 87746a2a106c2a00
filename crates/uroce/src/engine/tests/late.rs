//! Timeouts in a process that is kept from running.

use ibverbs_abi::*;

use super::connection::{receives, sends};
use super::network::*;
use crate::engine::*;

const TIMEOUT: u64 = 4096 << 14;

/// One request to a peer that never answers; `retries` of `retry_cnt` are left at first.
fn alone(retries: u8) -> Network {
    let mut network = Network::rc(1024, Box::new(|_, _| vec![]));
    let change = QpChange {
        timeout: Some(14),
        retry_cnt: Some(retries),
        ..QpChange::default()
    };
    network.sides[0].qp.attributes.apply(&change);
    network.sides[0].qp.requester.retries_left = retries;
    network.send(0, send_wr(1, SendOp::Send, &[sge(0, 10)]));
    network
}

/// The process runs again only `late` after the deadline.
fn run_late(network: &mut Network, late: u64) {
    let deadline = network.sides[0].qp.requester.deadline.unwrap();
    network.now = deadline.after(late);
    let Side { qp, host } = &mut network.sides[0];
    qp.handle_timeout(network.now, host);
    network.flush(0);
}

/// However late it is, one deadline is one try more; and one that is noticed late is not counted, thrice.
#[test]
fn a_stall_is_no_timeout() {
    let mut network = alone(7);
    for (left, tries) in [
        (7, 2),
        (7, 3),
        (7, 4),
        (6, 5),
        (6, 6),
        (6, 7),
        (6, 8),
        (5, 9),
    ] {
        run_late(&mut network, 100 * TIMEOUT);
        assert_eq!(network.counts[0], tries);
        let requester = &network.sides[0].qp.requester;
        assert_eq!(requester.retries_left, left);
        assert_eq!(requester.deadline, Some(network.now.after(TIMEOUT)));
    }
    // As late as any timer may be.
    for left in [4, 3] {
        run_late(&mut network, 1_900_000);
        assert_eq!(network.sides[0].qp.requester.retries_left, left);
    }
    run_late(&mut network, 2_000_000);
    run_late(&mut network, 2_000_000);
    run_late(&mut network, 0);
    let requester = &network.sides[0].qp.requester;
    assert_eq!((requester.retries_left, requester.excused), (2, 0));
}

/// Even without retries; and a peer that is dead is still given up.
#[test]
fn a_stall_breaks_no_connection() {
    let mut network = alone(0);
    run_late(&mut network, TIMEOUT);
    assert_eq!(sends(&network, 0), []);
    network.fate = calm(1000);
    network.recv(1, recv_wr(9, &[sge(0, 10)]));
    network.run();
    assert_eq!(sends(&network, 0), [(1, IBV_WC_SUCCESS)]);
    assert_eq!(receives(&network, 1), [(9, IBV_WC_SUCCESS)]);
    assert_eq!(network.sides[0].qp.requester.excused, 0);

    let mut network = alone(0);
    for _ in 0..3 {
        run_late(&mut network, TIMEOUT);
        assert_eq!(sends(&network, 0), []);
    }
    run_late(&mut network, TIMEOUT);
    assert_eq!(sends(&network, 0), [(1, IBV_WC_RETRY_EXC_ERR)]);
}
