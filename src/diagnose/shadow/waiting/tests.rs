//! Tests of `waiting.rs`.

use super::super::tests::{qp_mut, receive, request, shadow_with_qp};
use super::*;

fn none(_cq: usize) -> Option<usize> {
    Some(0)
}

fn two(_cq: usize) -> Option<usize> {
    Some(2)
}

fn why(shadow: &Shadow) -> String {
    shadow.wait(none).no_completion(20).unwrap_or_default().0
}

#[test]
fn the_cq_of_no_queue_pair() {
    let mut shadow = shadow_with_qp(IBV_QPS_RTS);
    let cq = shadow.cqs[&20].clone();
    shadow.add_cq(99, cq);
    // Nothing is outstanding anywhere: the program may be waiting for a peer.
    assert_eq!(shadow.wait(none).no_completion(99), None);
    let waits = shadow.wait(two).no_completion(99).unwrap().0;
    assert!(waits.starts_with("no queue pair") && waits.contains("2 completions wait"));
    let qp = qp_mut(&mut shadow);
    qp.receives.post([receive(1, 7)]);
    let waits = shadow.wait(none).no_completion(99).unwrap().0;
    assert!(
        waits.contains("1 receives are outstanding on the CQ 0x14"),
        "{waits}"
    );
}

#[test]
fn requests() {
    let mut shadow = shadow_with_qp(IBV_QPS_RTS);
    assert_eq!(why(&shadow), "");
    let unsignaled = SendRequest {
        signaled: false,
        ..request(1, 7)
    };
    qp_mut(&mut shadow).sends.record([unsignaled]);
    assert!(why(&shadow).contains("none is signaled"));
    let qp = qp_mut(&mut shadow);
    qp.sends.record([request(2, 7)]);
    assert!(why(&shadow).contains("timeout 0 never notices"));
    let qp = qp_mut(&mut shadow);
    qp.evidence.own = vec![("rcvd_rnr_err", 3)];
    assert!(why(&shadow).contains("3 RNR NAKs"));
    qp_mut(&mut shadow).state = IBV_QPS_SQD;
    assert!(why(&shadow).contains("is in SQD"));
    let qp = qp_mut(&mut shadow);
    qp.building.push(request(3, 7), "ibv_wr_send");
    assert!(why(&shadow).contains("ibv_wr_complete, which was not called"));
}

#[test]
fn fewer_completions_than_requests() {
    let counts = |shadow: &Shadow| {
        let wait = shadow.wait(none);
        wait.counts_unsignaled(20).unwrap_or_default().0
    };
    let by = |poster, signaled| SendRequest {
        poster,
        signaled,
        ..request(1, 7)
    };
    let mut shadow = shadow_with_qp(IBV_QPS_RTS);
    let sends = [by(5, false), by(5, false), by(5, true)];
    shadow.qps.change(30, |qp| qp.sends.record(sends.to_vec()));
    shadow.cqs.polled(20, 1, 1, 5);
    assert_eq!(counts(&shadow), "", "one is outstanding");
    shadow.qps.change(30, |qp| qp.sends.finish_to(2));
    assert!(
        counts(&shadow).contains("all 1 signaled requests") && counts(&shadow).contains("2 others")
    );
    shadow.cqs.polled(20, 1, 0, 6);
    assert_eq!(counts(&shadow), "", "another thread polls");
    shadow.cqs.polled(20, 1, 0, 5);
    shadow
        .qps
        .change(30, |qp| qp.receives.post([receive(1, 7)]));
    assert_eq!(counts(&shadow), "", "it may wait for a message");
    shadow.qps.change(30, |qp| qp.receives.clear());
    assert!(!counts(&shadow).is_empty());
    shadow.qps.change(30, |qp| qp.state = IBV_QPS_SQD);
    assert_eq!(counts(&shadow), "", "its state is the reason");
}

#[test]
fn receives_of_an_idle_server_are_right() {
    let mut shadow = shadow_with_qp(IBV_QPS_INIT);
    let qp = qp_mut(&mut shadow);
    qp.receives.post([receive(1, 7)]);
    assert!(why(&shadow).contains("is in INIT"));
    qp_mut(&mut shadow).state = IBV_QPS_RTS;
    assert_eq!(why(&shadow), "");
    for (counter, text) in [
        ("qkey_violation", "a Q_Key that is not its own"),
        ("datagram_too_long", "40 bytes for the GRH"),
        ("datagram_no_recv", "no receive was posted"),
    ] {
        qp_mut(&mut shadow).evidence.own = vec![(counter, 2)];
        assert!(why(&shadow).contains(text), "{}", why(&shadow));
    }
    let qp = qp_mut(&mut shadow);
    qp.receives.clear();
    qp.evidence.own = vec![("send_rnr_err", 2)];
    assert!(why(&shadow).contains("answered 2 messages"));
}

#[test]
fn a_queue_pair_in_error() {
    let mut shadow = shadow_with_qp(IBV_QPS_ERR);
    qp_mut(&mut shadow).first_error = Some(super::super::qp::FirstError {
        wr_id: 3,
        operation: "SEND",
        status: 12,
        serial: 0,
    });
    assert!(why(&shadow).contains("a SEND (wr_id 3) completed with status 12"));
}

#[test]
fn events() {
    let mut shadow = shadow_with_qp(IBV_QPS_RTS);
    shadow.cqs.get_mut(&20).unwrap().channel = 50;
    let why = |shadow: &Shadow, unread| {
        shadow
            .wait(unread)
            .no_event(50, false)
            .unwrap_or_default()
            .0
    };
    assert!(why(&shadow, none).contains("was never armed: only"));
    shadow.armed(20, false);
    assert_eq!(why(&shadow, none), "");
    assert!(why(&shadow, two).contains("came before it was armed"));
    let alone = shadow.wait(none).no_event(50, true).unwrap().0;
    assert!(alone.contains("neither a signaled request nor a receive"));
    shadow.cqs.completion_event(20);
    assert!(why(&shadow, none).contains("was not armed again"));
    shadow.armed(20, true);
    assert!(why(&shadow, two).contains("solicited completions only"));
    let qp = qp_mut(&mut shadow);
    qp.sends.record([request(1, 7)]);
    assert!(why(&shadow, none).contains("are not acknowledged"));
}
