//! Tests of `post.rs`.

use super::super::tests::{new_qp, qp_mut, request, rules, shadow_with_qp};
use super::*;
use crate::diagnose::shadow::{NewQp, Receive, Sges};

const CALL: &str = "ibv_post_send";

fn post(shadow: &mut Shadow, requests: Vec<SendRequest>, errno: i32) -> Vec<Rule> {
    let (posted, mut found) = shadow.posting(30, requests, 1, CALL);
    let accepted = if errno == 0 { posted.count } else { 0 };
    found.extend(shadow.posted(30, posted, accepted, CALL, Outcome::of(errno)));
    rules(&found)
}

#[test]
fn accepted_requests_are_recorded_refused_ones_are_not() {
    let mut shadow = shadow_with_qp(IBV_QPS_RTS);
    assert_eq!(post(&mut shadow, vec![request(1, 7), request(2, 7)], 0), []);
    assert_eq!(shadow.qps[&30].sends.len(), 2);
    let (posted, _) = shadow.posting(30, vec![request(3, 7), request(4, 7)], 1, CALL);
    shadow.posted(30, posted, 1, CALL, Outcome::of(libc::EINVAL));
    let ids: Vec<u64> = shadow.qps[&30]
        .sends
        .iter()
        .map(|request| request.wr_id)
        .collect();
    assert_eq!(ids, [1, 2, 3]);
}

#[test]
fn full_queues() {
    let mut shadow = shadow_with_qp(IBV_QPS_RTS);
    let unsignaled = |id| SendRequest {
        signaled: false,
        ..request(id, 7)
    };
    assert_eq!(post(&mut shadow, vec![unsignaled(1), unsignaled(2)], 0), []);
    let full = post(&mut shadow, vec![unsignaled(3)], libc::ENOMEM);
    assert_eq!(full, [Rule::NeverSignaled]);
    assert_eq!(post(&mut shadow, vec![request(4, 7)], 0), []);
    let full = post(&mut shadow, vec![request(5, 7)], libc::ENOMEM);
    assert_eq!(full, [Rule::SendQueueFull]);
}

/// A request without a signal may have completed without a trace, but the queue holds no more than
/// its capacity.
#[test]
fn completed_requests_are_not_counted_as_outstanding() {
    let mut shadow = shadow_with_qp(IBV_QPS_RTS);
    qp_mut(&mut shadow).created_mut().cap.max_send_wr = 2;
    let sends = (1..4).map(|id| SendRequest {
        signaled: id == 1,
        ..request(id, 7)
    });
    assert_eq!(post(&mut shadow, sends.collect(), 0), [Rule::SendQueueRnic]);
    let (posted, _) = shadow.posting(30, vec![request(4, 7)], 0, CALL);
    let found = shadow.posted(30, posted, 0, CALL, Outcome::of(libc::ENOMEM));
    assert_eq!(rules(&found), [Rule::NeverSignaled]);
    assert!(found.unwrap().values.contains(&("outstanding", "2".into())));
}

#[test]
fn limits_and_states() {
    let mut shadow = shadow_with_qp(IBV_QPS_RTS);
    let mut inline = request(1, 7);
    inline.inline = true;
    inline.sges[0].length = 100;
    let refused = post(&mut shadow, vec![inline], libc::EINVAL);
    assert_eq!(refused, [Rule::InlineLimit]);
    let mut many = request(1, 7);
    many.sges = Sges::from_elem(many.sges[0], 5);
    assert_eq!(
        post(&mut shadow, vec![many], libc::EINVAL),
        [Rule::SgeLimit]
    );
    qp_mut(&mut shadow).state = IBV_QPS_RTR;
    let early = post(&mut shadow, vec![request(1, 7)], libc::EINVAL);
    assert_eq!(early, [Rule::PostState]);
    assert_eq!(post(&mut shadow, vec![request(1, 7)], 0), []);
}

#[test]
fn more_signaled_requests_than_entries() {
    let mut shadow = shadow_with_qp(IBV_QPS_RTS);
    shadow.cqs.get_mut(&20).unwrap().entries = 2;
    assert_eq!(post(&mut shadow, vec![request(1, 7), request(2, 7)], 0), []);
    let more = post(&mut shadow, vec![request(3, 7)], 0);
    assert_eq!(more, [Rule::CqOverrunForeseen]);
}

#[test]
fn threads_overlap_only_within_a_domain() {
    let mut shadow = shadow_with_qp(IBV_QPS_RTS);
    let begin = |shadow: &mut Shadow, thread| {
        let (posted, found) = shadow.posting(30, vec![request(1, 7)], thread, CALL);
        (posted, rules(&found))
    };
    begin(&mut shadow, 1);
    assert_eq!(begin(&mut shadow, 2).1, []);
    qp_mut(&mut shadow).one_thread = super::super::overlap::OneThread::required(true);
    let (posted, found) = begin(&mut shadow, 1);
    assert_eq!(found, []);
    assert_eq!(begin(&mut shadow, 2).1, [Rule::ThreadDomain]);
    shadow.posted(30, posted, 1, CALL, Outcome::Succeeded);
    assert_eq!(begin(&mut shadow, 3).1, []);
}

#[test]
fn receives() {
    let mut shadow = shadow_with_qp(IBV_QPS_INIT);
    shadow.posting_receives(30, vec![Receive::default(); 3], 1);
    let refuse = |shadow: &mut Shadow, count, sges, errno| {
        let refused = |qp: &mut Qp| qp.receives_refused(count, sges, Outcome::of(errno));
        rules(&shadow.qps.change(30, refused))
    };
    let full = refuse(&mut shadow, 1, 1, libc::ENOMEM);
    assert_eq!(full, [Rule::RecvQueueFull]);
    assert_eq!(shadow.qps[&30].receives.posted(), 2);
    let many = refuse(&mut shadow, 0, 9, libc::EINVAL);
    assert_eq!(many, [Rule::SgeLimit]);
    qp_mut(&mut shadow).state = IBV_QPS_RESET;
    let early = refuse(&mut shadow, 0, 1, libc::EINVAL);
    assert_eq!(early, [Rule::PostState]);
}

#[test]
fn datagrams_to_itself() {
    let mut shadow = shadow_with_qp(IBV_QPS_RTS);
    let of_datagrams = NewQp {
        kind: IBV_QPT_UD,
        ..new_qp(18)
    };
    shadow.add_qp(31, of_datagrams);
    shadow.ahs.create(5, 10, None, true);
    shadow.ahs.create(6, 10, None, false);
    let judge = |shadow: &Shadow, ah, remote_qpn| {
        let datagram = SendRequest {
            ah,
            remote_qpn,
            ..request(1, 7)
        };
        rules(
            &Post::of(shadow, 31, CALL)
                .unwrap()
                .check_requests(&[datagram]),
        )
    };
    assert_eq!(judge(&shadow, 5, 18), [Rule::ToItself]);
    // Of another device, and of another queue pair.
    assert_eq!(judge(&shadow, 6, 18), []);
    assert_eq!(judge(&shadow, 5, 17), []);
    let receive = Receive {
        sges: request(1, 7).sges,
        ..Receive::default()
    };
    shadow.posting_receives(31, vec![receive], 1);
    assert_eq!(judge(&shadow, 5, 18), []);
}

#[test]
fn requests_have_a_place_in_their_list() {
    let shadow = shadow_with_qp(IBV_QPS_RTS);
    let unset = SendRequest {
        opcode: 0x5a5a_5a5a,
        ..request(2, 7)
    };
    let judge = |list: &[SendRequest]| {
        let found = Post::of(&shadow, 30, CALL).unwrap().check_requests(list);
        found[0].notes.concat()
    };
    assert_eq!(judge(std::slice::from_ref(&unset)), "");
    let note = judge(&[request(1, 7), unset]);
    assert!(note.starts_with("it is request 2 of the list, reached by `next` of wr_id 1; if one"));
}
