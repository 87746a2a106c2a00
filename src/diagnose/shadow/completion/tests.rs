//! Tests of `completion.rs`.

use super::super::tests::{mr, new_qp, qp_mut, receive, request, rules, shadow_with_qp};
use super::*;
use crate::diagnose::shadow::Remote;

fn failed(shadow: &mut Shadow, wr_id: u64, status: u32) -> Vec<Rule> {
    let completion = Completion {
        qpn: 17,
        wr_id,
        status,
        ..Completion::default()
    };
    rules(&shadow.polled(20, 1, &[completion], "ibv_poll_cq"))
}

fn shadow_with(requests: Vec<SendRequest>) -> Shadow {
    let mut shadow = shadow_with_qp(IBV_QPS_RTS);
    qp_mut(&mut shadow).sends.record(requests);
    shadow
}

#[test]
fn a_completion_retires_the_unsignaled_requests_before_it() {
    let unsignaled = |id| SendRequest {
        signaled: false,
        ..request(id, 7)
    };
    let mut shadow = shadow_with(vec![
        unsignaled(1),
        request(1, 7),
        unsignaled(2),
        request(3, 7),
    ]);
    for qpn in [17, 0] {
        let completion = Completion {
            qpn,
            wr_id: if qpn == 17 { 1 } else { 3 },
            ..Completion::default()
        };
        assert!(shadow.polled(20, 1, &[completion], "x").is_empty());
        let left = shadow.qps[&30].sends.len();
        assert_eq!(left, if qpn == 17 { 2 } else { 0 });
    }
    assert_eq!(shadow.qps[&30].answered, 2);
}

#[test]
fn a_queue_pair_in_error() {
    let mut shadow = shadow_with(vec![request(1, 7), request(2, 7)]);
    assert_eq!(
        failed(&mut shadow, 1, IBV_WC_RETRY_EXC_ERR),
        [Rule::RetryExceeded]
    );
    assert_eq!(failed(&mut shadow, 2, IBV_WC_WR_FLUSH_ERR), []);
    let qp = &shadow.qps[&30];
    assert_eq!(qp.state, IBV_QPS_ERR);
    assert_eq!(
        qp.first_error.as_ref().unwrap().status,
        IBV_WC_RETRY_EXC_ERR
    );
    let (posted, _) = shadow.posting(30, vec![request(3, 7)], 1, "x");
    let found = shadow.posted(30, posted, 1, "x", Outcome::Succeeded);
    assert_eq!(rules(&found), [Rule::PostInError]);
}

#[test]
fn local_keys() {
    let mut shadow = shadow_with(vec![request(1, 99)]);
    shadow.mrs.add(40, mr(7, 8));
    assert_eq!(
        failed(&mut shadow, 1, IBV_WC_LOC_PROT_ERR),
        [Rule::KeyUnknown]
    );
    qp_mut(&mut shadow).receives.post([receive(2, 8)]);
    assert_eq!(
        failed(&mut shadow, 2, IBV_WC_LOC_PROT_ERR),
        [Rule::KeySwapped]
    );
    // The keys are right: something else is wrong, which is not known here.
    qp_mut(&mut shadow).sends.record([request(3, 7)]);
    assert_eq!(
        failed(&mut shadow, 3, IBV_WC_LOC_PROT_ERR),
        [Rule::RequestFailed]
    );
}

#[test]
fn rxe_flushes_requests_with_wrong_keys() {
    let flushed = |shadow: &mut Shadow| failed(shadow, 1, IBV_WC_WR_FLUSH_ERR);
    assert_eq!(
        flushed(&mut shadow_with(vec![request(1, 99)])),
        [Rule::KeyUnknown]
    );
    // The program, or an earlier error, has moved the queue pair to ERR.
    let mut shadow = shadow_with(vec![request(1, 99)]);
    qp_mut(&mut shadow).state = IBV_QPS_ERR;
    assert_eq!(flushed(&mut shadow), []);
    let mut shadow = shadow_with(vec![request(1, 7)]);
    shadow.mrs.add(40, mr(7, 8));
    assert_eq!(flushed(&mut shadow), []);
    qp_mut(&mut shadow).receives.post([receive(2, 99)]);
    assert_eq!(
        failed(&mut shadow, 2, IBV_WC_LOC_QP_OP_ERR),
        [Rule::KeyUnknown]
    );
}

#[test]
fn messages_that_are_too_long() {
    let mut shadow = shadow_with(vec![]);
    qp_mut(&mut shadow).receives.post([receive(2, 7)]);
    assert_eq!(
        failed(&mut shadow, 2, IBV_WC_LOC_LEN_ERR),
        [Rule::ReceiveTooSmall]
    );
    let mut shadow = shadow_with(vec![request(1, 7)]);
    assert_eq!(
        failed(&mut shadow, 1, IBV_WC_REM_INV_REQ_ERR),
        [Rule::RequestFailed]
    );
}

#[test]
fn atomics_of_the_peer() {
    let atomic = |id, addr| SendRequest {
        opcode: IBV_WR_ATOMIC_FETCH_AND_ADD,
        remote: Some(Remote {
            addr,
            rkey: 8,
            length: Some(8),
        }),
        ..request(id, 7)
    };
    let requests = [(1, 0x1001), (2, 0x1000), (3, 0x1001)];
    let mut shadow = shadow_with(requests.map(|(id, addr)| atomic(id, addr)).into());
    for (id, status, rule) in [
        (1, IBV_WC_REM_INV_REQ_ERR, Rule::AtomicUnaligned),
        (2, IBV_WC_REM_INV_REQ_ERR, Rule::KeyRemote),
        (3, IBV_WC_REM_ACCESS_ERR, Rule::KeyRemote),
    ] {
        assert_eq!(failed(&mut shadow, id, status), [rule]);
    }
}

#[test]
fn keys_of_the_peer() {
    let write = |id, rkey| SendRequest {
        opcode: IBV_WR_RDMA_WRITE,
        remote: Some(Remote {
            addr: 0x1000,
            rkey,
            length: None,
        }),
        ..request(id, 7)
    };
    let flush = |id| SendRequest {
        opcode: IBV_WR_FLUSH,
        placement: IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT,
        ..write(id, 8)
    };
    let requests = [write(1, 8), write(2, 8), write(3, 99), write(4, 8)];
    let more = [flush(5), flush(6), write(7, 99)];
    let mut shadow = shadow_with([&requests[..], &more[..]].concat());
    shadow.mrs.add(40, mr(7, 8));
    let refused = |shadow: &mut Shadow, id| failed(shadow, id, IBV_WC_REM_ACCESS_ERR);
    // The peer is in another process.
    assert_eq!(refused(&mut shadow, 1), [Rule::KeyRemote]);
    // The peer is in this one.
    shadow.add_qp(
        31,
        crate::diagnose::shadow::NewQp {
            number: 18,
            ..new_qp(18)
        },
    );
    for (at, dest) in [(30, 18), (31, 17)] {
        let connection = &mut shadow.qps.get_mut(&at).unwrap().connection;
        connection.receives = true;
        connection.dest_qpn = dest;
    }
    assert_eq!(refused(&mut shadow, 2), [Rule::QpAccess]);
    shadow.qps.get_mut(&31).unwrap().access = IBV_ACCESS_REMOTE_WRITE;
    assert_eq!(refused(&mut shadow, 3), [Rule::KeyUnknown]);
    assert_eq!(refused(&mut shadow, 4), [Rule::KeyAccess]);
    // Of the two rights that the FLUSH needs, the queue pair has one; then both, and the region none.
    let peer = |shadow: &mut Shadow, right| shadow.qps.get_mut(&31).unwrap().access |= right;
    peer(&mut shadow, IBV_ACCESS_FLUSH_GLOBAL);
    assert_eq!(refused(&mut shadow, 5), [Rule::QpAccess]);
    peer(&mut shadow, IBV_ACCESS_FLUSH_PERSISTENT);
    assert_eq!(refused(&mut shadow, 6), [Rule::KeyAccess]);
    // The key may have been that of a window, which was bound and deallocated.
    shadow.add_mw(50, 10, (1, 0));
    shadow.mws.take(50);
    assert_eq!(refused(&mut shadow, 7), [Rule::KeyRemote]);
}
