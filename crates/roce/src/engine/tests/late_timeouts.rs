//! Ack timeouts in a process that was descheduled.

use std::time::Duration;

use ibverbs_abi::*;

use super::connection::{receives, sends};
use super::network::*;
use crate::engine::timer::Timer;
use crate::engine::*;

const TIMEOUT: Duration = Duration::from_nanos(4096 << 14);

/// One request to a peer that never responds.
fn unanswered_request(retry_cnt: u8) -> Network {
    let change = retries(14, retry_cnt);
    let mut network = Network::rc_with(1024, dead(), change);
    network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 10)]));
    network
}

/// The process runs again only `late` after the ack timeout.
fn run_late(network: &mut Network, late: Duration) {
    let requester = network.sides[0].qp.sends().requester();
    let timeout_at = requester.timers().get(Timer::AckTimeout).unwrap();
    network.now = timeout_at.after(late);
    let Side { qp, hca } = &mut network.sides[0];
    qp.handle_timeout(network.now, PeerActivity::Unknown, hca);
    network.transmit(0);
}

/// Each late timeout retransmits once; up to three in a row consume no retry.
#[test]
fn a_late_timeout_consumes_no_retry() {
    let mut network = unanswered_request(7);
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
        assert_eq!(network.packets_sent[0], tries);
        let qp = &network.sides[0].qp;
        assert_eq!(qp.sends().completer().retries_left(), left);
        let timeout_at = qp.sends().requester().timers().get(Timer::AckTimeout);
        assert_eq!(timeout_at, Some(network.now.after(TIMEOUT)));
    }
    // Less than a quarter of the timeout: an ordinary timeout.
    for left in [4, 3] {
        run_late(&mut network, TIMEOUT / 4 - us(1));
        assert_eq!(network.sides[0].qp.sends().completer().retries_left(), left);
    }
    run_late(&mut network, TIMEOUT / 4);
    run_late(&mut network, TIMEOUT / 4);
    run_late(&mut network, Duration::ZERO);
    let completer = network.sides[0].qp.sends().completer();
    assert_eq!(
        (completer.retries_left(), completer.late_timeouts()),
        (2, 0)
    );
}

/// A process that always runs some ms late, on a busy host, reports a dead peer about when another one does.
#[test]
fn a_long_timeout_counts_although_it_is_a_little_late() {
    let change = retries(18, 5);
    let mut network = Network::rc_with(1024, dead(), change);
    let begin = network.now;
    network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 10)]));
    for _ in 0..6 {
        assert_eq!(sends(&network, 0), []);
        run_late(&mut network, ms(20));
    }
    assert_eq!(sends(&network, 0), [(1, IBV_WC_RETRY_EXC_ERR)]);
    let timeout = Duration::from_nanos(4096 << 18);
    assert_eq!(network.now.since(begin), 6 * (timeout + ms(20)));
}

/// Even with `retry_cnt` 0. A request to a dead peer still fails.
#[test]
fn a_late_timeout_does_not_break_the_connection() {
    let mut network = unanswered_request(0);
    run_late(&mut network, TIMEOUT);
    assert_eq!(sends(&network, 0), []);
    network.impair = lossless(us(1));
    network.post_recv(1, recv_wr(9, &[sge(0, 10)]));
    network.run();
    assert_eq!(sends(&network, 0), [(1, IBV_WC_SUCCESS)]);
    assert_eq!(receives(&network, 1), [(9, IBV_WC_SUCCESS)]);
    assert_eq!(network.sides[0].qp.sends().completer().late_timeouts(), 0);

    let mut network = unanswered_request(0);
    for _ in 0..3 {
        run_late(&mut network, TIMEOUT);
        assert_eq!(sends(&network, 0), []);
    }
    run_late(&mut network, TIMEOUT);
    assert_eq!(sends(&network, 0), [(1, IBV_WC_RETRY_EXC_ERR)]);
}

/// [`unanswered_request`] through shared memory, from which the peer takes nothing.
fn untaken_request(change: QpChange) -> Network {
    let mut network = Network::rc_with(1024, dead(), change);
    network.shared_from = Some(network.now);
    network.takes_fragment = Box::new(|_, _| false);
    network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 10)]));
    network
}

/// Lets the ack timeouts expire, as long as the request has not completed, at most until `end`.
fn run_idle(network: &mut Network, end: Time) {
    while sends(network, 0).is_empty() && network.now < end {
        network.now = network.sides[0].qp.next_timeout().unwrap();
        let Side { qp, hca } = &mut network.sides[0];
        qp.handle_timeout(network.now, PeerActivity::Idle, hca);
        network.transmit(0);
    }
}

/// A peer whose process is there, but does not run, is given up after four seconds. Nothing is lost, so
/// nothing is retransmitted.
#[test]
fn an_idle_peer_is_waited_for() {
    for retry_cnt in [0, 2, 7] {
        let mut network = untaken_request(retries(14, retry_cnt));
        let begin = network.now;
        run_idle(&mut network, begin.after(ms(3900)));
        assert_eq!(sends(&network, 0), []);
        assert_eq!(network.packets_sent[0], 1);
        run_idle(&mut network, begin.after(ms(4200)));
        assert_eq!(sends(&network, 0), [(1, IBV_WC_RETRY_EXC_ERR)]);
    }
}

/// Both processes were stopped (a shell's Ctrl-Z, a frozen container), and the peer runs again a little
/// later: the four seconds are those in which this process could have seen an answer.
#[test]
fn the_time_in_which_this_process_did_not_run_does_not_count() {
    let mut network = untaken_request(QpChange {
        timeout: Some(14),
        retry_cnt: Some(7),
        ..QpChange::default()
    });
    let end = network.now.after(ms(1000));
    run_idle(&mut network, end);
    let timeout_at = network.sides[0].qp.next_timeout().unwrap();
    network.now = timeout_at.after(ms(7000));
    let Side { qp, hca } = &mut network.sides[0];
    qp.handle_timeout(network.now, PeerActivity::Idle, hca);
    let resumed = network.now;
    run_idle(&mut network, resumed.after(ms(2700)));
    assert_eq!(sends(&network, 0), []);
    run_idle(&mut network, resumed.after(ms(3300)));
    assert_eq!(sends(&network, 0), [(1, IBV_WC_RETRY_EXC_ERR)]);
}

/// If all retries last longer than that, they are what counts.
#[test]
fn an_idle_peer_is_not_given_up_before_its_retries() {
    let change = retries(18, 5);
    let mut network = untaken_request(change);
    let begin = network.now;
    run_idle(&mut network, begin.after(ms(60_000)));
    assert_eq!(sends(&network, 0), [(1, IBV_WC_RETRY_EXC_ERR)]);
    let timeout = Duration::from_nanos(4096 << 18);
    assert_eq!(network.now.since(begin), 6 * timeout);
}

/// A request that has no room on its way to the peer was not sent, and fails when its retries are used up.
#[test]
fn a_request_without_room_fails_in_time() {
    let change = retries(14, 1);
    let mut network = Network::rc_with(1024, dead(), change);
    let begin = network.now;
    let Side { qp, hca } = &mut network.sides[0];
    assert!(qp.bind(begin));
    qp.on_no_room(begin);
    assert_eq!(qp.next_timeout(), None, "there is no request");
    assert!(qp.post_send(send_wr(1, SendOp::Send, &[sge(0, 10)]), hca));
    for _ in 0..2 {
        qp.on_no_room(network.now);
        network.now = qp.next_timeout().unwrap();
        qp.handle_timeout(network.now, PeerActivity::Unknown, hca);
    }
    assert_eq!(sends(&network, 0), [(1, IBV_WC_RETRY_EXC_ERR)]);
    assert_eq!(network.now.since(begin), 2 * TIMEOUT);
    assert_eq!(network.packets_sent[0], 0);
}
