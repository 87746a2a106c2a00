//! READs have the bytes from before the requests behind them, whenever their responses are sent.

use std::time::Duration;

use super::network::*;
use super::peer::*;
use crate::engine::*;
use crate::wire::{AtomicEth, Headers, NakCode, Operation, Part, Reth};

/// A queue pair in RTR whose memory counts in bytes.
fn peer(max_dest_rd_atomic: u8) -> Peer {
    let mut peer = Peer::responder(max_dest_rd_atomic);
    peer.hca.region(KEY).bytes = original(0, LEN);
    peer
}

/// The initial bytes of the memory.
fn original(offset: usize, len: usize) -> Vec<u8> {
    (offset..offset + len)
        .map(|at| (at ^ at >> 8) as u8)
        .collect()
}

fn write(peer: &mut Peer, at: u32, va: u64, data: &[u8]) {
    let (rkey, len) = (KEY, data.len() as u32);
    let reth = Some(Reth { va, rkey, len });
    let headers = Peer::headers(Operation::Write, Part::Only, at);
    peer.deliver(Headers { reth, ..headers }, data);
}

/// Transmits; returns the bytes of the READ responses.
fn read_data(peer: &mut Peer) -> Vec<u8> {
    let packets = peer.packets().into_iter();
    packets
        .filter(|(headers, _)| {
            let (_, operation, _) = headers.bth.opcode.parts().unwrap();
            operation == Operation::ReadResponse
        })
        .flat_map(|(_, payload)| payload)
        .collect()
}

#[test]
fn a_read_has_the_bytes_from_before_any_later_request() {
    let compare_swap = |peer: &mut Peer| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&original(0, 8));
        let atomic = Some(AtomicEth {
            va: BASE,
            rkey: KEY,
            swap_add: 7,
            compare: u64::from_ne_bytes(bytes),
        });
        let headers = Peer::headers(Operation::CmpSwap, Part::Only, 2);
        peer.deliver(Headers { atomic, ..headers }, &[]);
    };
    let later: [&dyn Fn(&mut Peer); 5] = [
        &|peer| write(peer, 2, BASE, &[0xee; 8]),
        &|peer| peer.send(Part::Only, 2, &[0xee; 8]),
        &|peer| peer.fetch_add(2),
        &compare_swap,
        &|peer| peer.atomic_write(2, 8, 7),
    ];
    for (case, request) in later.into_iter().enumerate() {
        let mut peer = peer(3);
        peer.post_recv(1);
        peer.read(0, BASE, 1500);
        request(&mut peer);
        assert_ne!(peer.hca.region(KEY).bytes[..8], original(0, 8), "{case}");
        peer.read(3, BASE, 8);
        let now = peer.hca.region(KEY).bytes[..8].to_vec();
        let expected = [original(0, 1500), now].concat();
        assert_eq!(read_data(&mut peer), expected, "{case}");
    }
}

/// The program may reuse the memory once a SEND has completed, whatever the SEND's length is.
#[test]
fn a_read_does_not_see_what_the_program_does_after_a_completion() {
    let write_imm = |peer: &mut Peer| {
        let (va, rkey, len) = (BASE, KEY, 0);
        let headers = Headers {
            reth: Some(Reth { va, rkey, len }),
            imm: Some(1),
            ..Peer::headers(Operation::WriteImm, Part::Only, 1)
        };
        peer.deliver(headers, &[]);
    };
    let send_inv = |peer: &mut Peer| {
        let headers = Headers {
            ieth: Some(KEY),
            ..Peer::headers(Operation::SendInv, Part::Only, 1)
        };
        peer.deliver(headers, &[]);
    };
    let later: [&dyn Fn(&mut Peer); 3] =
        [&|peer| peer.send(Part::Only, 1, &[]), &write_imm, &send_inv];
    for request in later {
        let mut peer = peer(1);
        peer.post_recv(1);
        peer.read(0, BASE, 100);
        request(&mut peer);
        assert_eq!(peer.hca.statuses(WorkQueue::Recv), success([1]));
        peer.hca.region(KEY).valid = false;
        assert_eq!(read_data(&mut peer), original(0, 100));
        assert_eq!(peer.qp.state(), QpState::Rtr);
    }
}

#[test]
fn a_read_that_is_partly_sent_keeps_the_rest() {
    let len = 200 << 10;
    let mut peer = peer(1);
    peer.read(0, BASE, len);
    assert_eq!(read_data(&mut peer), original(0, 128 << 10));
    write(&mut peer, 200, BASE + (150 << 10), &[0xee; 1024]);
    peer.wait_for_timer();
    assert_eq!(read_data(&mut peer), original(128 << 10, 72 << 10));
}

/// A duplicate reads again what was sent, as an RNIC does, but not what waits.
#[test]
fn a_duplicate_of_a_waiting_read_keeps_the_copy() {
    let mut peer = peer(1);
    peer.read(0, BASE, 200 << 10);
    read_data(&mut peer);
    write(&mut peer, 200, BASE + (127 << 10), &[0xee; 1024]);
    write(&mut peer, 201, BASE + (128 << 10), &[0xee; 1024]);
    peer.read(127, BASE + (127 << 10), 73 << 10);
    // The part before the copy is copied too.
    write(&mut peer, 202, BASE + (127 << 10), &[0xdd; 1024]);
    peer.wait_for_timer();
    let expected = [vec![0xee; 1024], original(128 << 10, 72 << 10)].concat();
    assert_eq!(read_data(&mut peer), expected);
    // Nothing waits any more.
    peer.read(127, BASE + (127 << 10), 2 << 10);
    peer.wait_for_timer();
    let expected = [[0xdd; 1024], [0xee; 1024]].concat();
    assert_eq!(read_data(&mut peer), expected);
}

/// A duplicate that waits is executed before a new request, too.
#[test]
fn a_duplicate_read_has_the_bytes_from_before_a_later_request() {
    let mut peer = peer(1);
    peer.read(0, BASE, 100);
    read_data(&mut peer);
    peer.read(0, BASE, 100);
    write(&mut peer, 1, BASE, &[0xee; 8]);
    assert_eq!(read_data(&mut peer), original(0, 100));
}

/// More bytes than a queue pair copies.
#[test]
fn a_request_behind_long_reads_waits_for_them() {
    let len = LEN as u32;
    let packets = len / 1024;
    let mut peer = peer(3);
    for at in 0..3 {
        peer.read(at * packets, BASE, len);
    }
    let next = 3 * packets;
    write(&mut peer, next, BASE, &[0xee; 8]);
    peer.fetch_add(next + 1);
    assert_eq!(peer.hca.region(KEY).bytes, original(0, LEN));
    let mut responses = Vec::new();
    loop {
        responses.extend(peer.responses());
        if peer.qp.next_timeout().is_none() {
            break;
        }
        peer.wait_for_timer();
    }
    assert_eq!(responses.len() as u32, next + 1);
    let expected = nak(next as i32, NakCode::PsnSequence);
    assert_eq!(responses.last(), Some(&expected));
    write(&mut peer, next, BASE, &[0xee; 8]);
    assert_eq!(peer.responses(), [ack(next as i32)]);
    assert_eq!(peer.hca.region(KEY).bytes[..8], [0xee; 8]);
}

/// An RNIC does not execute what follows a READ that fails.
#[test]
fn nothing_is_executed_behind_a_read_that_fails() {
    let mut peer = peer(1);
    peer.post_recv(1);
    peer.read(0, BASE, 100);
    peer.hca.region(KEY).readable = false;
    write(&mut peer, 1, BASE, &[0xee; 8]);
    assert_eq!(peer.responses(), [nak(0, NakCode::RemoteAccess)]);
    assert_eq!(peer.hca.region(KEY).bytes[..8], original(0, 8));
    assert_eq!(peer.qp.state(), QpState::Err);
}

/// A duplicate READ that fails holds nothing back: the peer has the bytes, or asks once more.
#[test]
fn a_duplicate_read_that_fails_holds_nothing_back() {
    let mut peer = peer(1);
    peer.read(0, BASE, 100);
    read_data(&mut peer);
    peer.read(0, BASE, 100);
    peer.hca.region(KEY).readable = false;
    write(&mut peer, 1, BASE, &[0xee; 8]);
    assert_eq!(peer.responses(), [ack(1)]);
    assert_eq!(peer.hca.region(KEY).bytes[..8], [0xee; 8]);
}

/// The response to a duplicate has later bytes, and another thread may still have the first one to send.
#[test]
fn a_duplicate_read_is_answered_behind_the_first_response() {
    for (overtakes, answered) in [(true, 0), (false, 100)] {
        let mut peer = peer(1);
        peer.read(0, BASE, 100);
        assert_eq!(read_data(&mut peer).len(), 100);
        peer.hca.overtakes = overtakes;
        peer.read(0, BASE, 100);
        assert_eq!(read_data(&mut peer).len(), answered);
        // What is sent for the first time has no other response to wait for.
        peer.read(1, BASE, 100);
        assert_eq!(read_data(&mut peer).len(), 100);
    }
}

/// Another thread may have the first packets of a READ that is sent in parts, from before a later request.
#[test]
fn a_read_that_restarts_waits_for_its_turn() {
    let mut peer = peer(1);
    peer.read(0, BASE, 200 << 10);
    assert_eq!(read_data(&mut peer).len(), 128 << 10);
    write(&mut peer, 200, BASE, &[0xee; 8]);
    peer.hca.overtakes = true;
    peer.read(0, BASE, 200 << 10);
    assert_eq!(read_data(&mut peer).len(), 0);
    peer.hca.overtakes = false;
    peer.wait_for_timer();
    let len = read_data(&mut peer).len();
    peer.wait_for_timer();
    assert_eq!(len + read_data(&mut peer).len(), 200 << 10);
}

/// A READ, a SEND and a READ, all of them sent.
fn requester() -> Peer {
    let mut peer = Peer::requester(3);
    peer.post_read(0, 8);
    peer.post_send(1, 8);
    peer.post_read(2, 8);
    assert_eq!(peer.sent(), [0, 1, 2]);
    peer
}

/// One thread has the first response and has not delivered it yet; another one has the next ones.
#[test]
fn responses_wait_for_the_one_that_another_thread_has() {
    let mut peer = requester();
    peer.hca.reorders = true;
    peer.read_response(Part::Only, 2, &[2; 8]);
    peer.ack(1);
    // A second response.
    peer.read_response(Part::Only, 2, &[9; 8]);
    assert_eq!((peer.send_completions(), peer.sent()), (vec![], vec![]));
    peer.hca.reorders = false;
    peer.read_response(Part::Only, 0, &[1; 8]);
    assert_eq!(peer.send_completions(), success(0..3));
    assert_eq!(peer.hca.region(KEY).bytes[..8], [2; 8]);
    // Without another thread the first response was lost.
    let mut peer = requester();
    peer.ack(1);
    assert_eq!(peer.sent(), [0, 1, 2]);
}

/// The responses that wait go with the connection.
#[test]
fn a_flushed_queue_has_no_responses_that_wait() {
    let mut peer = requester();
    peer.hca.reorders = true;
    peer.read_response(Part::Only, 2, &[2; 8]);
    peer.modify(QpState::Err, QpChange::default());
    assert_eq!(peer.send_completions().len(), 3);
    peer.read_response(Part::Only, 0, &[1; 8]);
    assert_eq!(peer.hca.region(KEY).bytes[..8], [0; 8]);
}

#[test]
fn a_read_that_was_followed_is_sent_again_only_in_order() {
    let mut peer = requester();
    peer.hca.reorders = true;
    let retries = peer.qp.sends().completer().retries_left();
    let start = peer.now;
    while peer.now.since(start) < Duration::from_millis(500) {
        peer.wait_for_timer();
        assert!(peer.sent().is_empty() && !peer.hca.in_order);
    }
    assert_eq!(peer.qp.sends().completer().retries_left(), retries);
    peer.hca.reorders = false;
    peer.wait_for_timer();
    assert_eq!((peer.sent(), peer.hca.in_order), (vec![0, 1], true));
    // Until the responses to all that were sent again.
    peer.read_response(Part::Only, 0, &[1; 8]);
    assert!(!peer.hca.in_order);
    assert_eq!(
        (peer.send_completions(), peer.sent()),
        (success([0]), vec![2])
    );
    // Nothing was sent behind the last one.
    peer.hca.reorders = true;
    peer.wait_for_timer();
    assert_eq!((peer.sent(), peer.hca.in_order), (vec![1, 2], false));
}

/// The other thread may never run again.
#[test]
fn a_retransmission_does_not_wait_for_good() {
    let mut peer = requester();
    peer.hca.reorders = true;
    let start = peer.now;
    while peer.sent().is_empty() {
        peer.wait_for_timer();
    }
    let waited = peer.now.since(start);
    assert!(
        waited >= Duration::from_secs(1) && waited < Duration::from_secs(3),
        "{waited:?}"
    );
    assert_eq!(peer.qp.state(), QpState::Rts);
}

#[test]
fn the_order_of_packets_is_kept_no_longer_than_the_connection() {
    for state in [QpState::Err, QpState::Reset] {
        let mut peer = requester();
        while !peer.hca.in_order {
            peer.wait_for_timer();
        }
        peer.modify(state, QpChange::default());
        assert!(!peer.hca.in_order);
    }
}
