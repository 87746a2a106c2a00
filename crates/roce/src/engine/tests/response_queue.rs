//! Responses, packet by packet: their order and number, and those to duplicate requests.

use super::network::*;
use super::peer::*;
use crate::engine::*;
use crate::wire::{NakCode, Operation, Part};

/// 9.7.5.1.2: one acknowledgment for several packets.
#[test]
fn acks_are_coalesced() {
    let mut peer = Peer::in_rtr(QpChange::default());
    for at in 0..4 {
        peer.post_recv(at.into());
        peer.send(Part::Only, at, b"abc");
    }
    assert_eq!(peer.responses(), [ack(3)]);
    assert_eq!(peer.hca.events, [QpEvent::CommunicationEstablished]);
}

/// An ACK covers the earlier packets that requested none.
#[test]
fn an_ack_is_sent_on_request_only() {
    let mut peer = Peer::in_rtr(QpChange::default());
    for at in 0..3 {
        peer.post_recv(at.into());
        let mut headers = Peer::headers(Operation::Send, Part::Only, at);
        headers.bth.ack_request = at == 1;
        peer.deliver(headers, b"");
    }
    assert_eq!(peer.responses(), [ack(1)]);
    assert_eq!(peer.hca.completions.len(), 3);
}

/// 9.7.5.1.1, 9.7.7.1: a message counts at its end. Every AETH carries the MSN.
#[test]
fn the_msn_counts_messages() {
    let mut peer = Peer::in_rtr(QpChange::default());
    let counts = |peer: &mut Peer| -> Vec<Option<u32>> {
        let packets = peer.packets().into_iter();
        packets
            .map(|(headers, _)| headers.aeth.map(|aeth| aeth.msn))
            .collect()
    };
    peer.post_recv(1);
    peer.send(Part::First, 0, &[1; 1024]);
    assert_eq!(counts(&mut peer), [Some(0)]);
    peer.send(Part::Last, 1, &[1; 4]);
    assert_eq!(counts(&mut peer), [Some(1)]);
    peer.read(2, BASE, 3000);
    assert_eq!(counts(&mut peer), [Some(2), None, Some(2)]);
    peer.fetch_add(5);
    assert_eq!(counts(&mut peer), [Some(3)]);
    peer.atomic_write(6, 8, 1);
    assert_eq!(counts(&mut peer), [Some(4)]);
    // Neither duplicates nor requests that get a NAK.
    peer.send(Part::Only, 1, &[1; 4]);
    peer.send(Part::Only, 7, &[1; 4]);
    assert_eq!(counts(&mut peer), [Some(4), Some(4)]);
}

/// 9.7.5.1.3: the ACK covers every executed packet.
#[test]
fn duplicates_are_acknowledged_and_not_executed() {
    let mut peer = Peer::in_rtr(QpChange::default());
    for at in 0..3 {
        peer.post_recv(at.into());
        peer.send(Part::Only, at, &[at as u8]);
    }
    assert_eq!(peer.responses(), [ack(2)]);
    peer.send(Part::Only, 0, &[9]);
    peer.send(Part::Only, 1, &[9]);
    assert_eq!(peer.responses(), [ack(2)]);
    assert_eq!(peer.hca.completions.len(), 3);
    assert_eq!(peer.hca.region(KEY).bytes[0], 2);
}

/// Packets of an earlier connection, for example.
#[test]
fn stray_packets_acknowledge_nothing() {
    let mut peer = Peer::in_rtr(QpChange::default());
    let before_the_first = 0xff_ffff;
    for at in [before_the_first, before_the_first - 5, 0x80_0001] {
        peer.send(Part::Only, at, b"");
        assert_eq!(peer.responses(), [ack(-1)]);
    }
    // A READ is not covered by an ACK.
    peer.read(0, BASE, 1);
    peer.responses();
    peer.send(Part::Only, 0, b"");
    assert_eq!(peer.responses(), []);
    peer.send(Part::Only, before_the_first, b"");
    assert_eq!(peer.responses(), [ack(-1)]);
}

/// READ responses among ACKs.
#[test]
fn responses_are_in_psn_order() {
    use Part::*;
    let mut peer = Peer::in_rtr(QpChange::default());
    peer.post_recv(1);
    peer.post_recv(2);
    peer.send(Only, 0, b"");
    peer.read(1, BASE, 2000);
    peer.send(Only, 3, b"");
    // A duplicate of the first request.
    peer.send(Only, 0, b"");
    let response = |part, at| (Operation::ReadResponse, part, at, OK);
    assert_eq!(
        peer.responses(),
        [ack(0), response(First, 1), response(Last, 2), ack(3)]
    );
}

/// 9.7.5.1.4: a duplicate may ask for all or for the rest of the original's data.
#[test]
fn duplicate_reads_are_answered() {
    use Part::*;
    let mut peer = Peer::in_rtr(QpChange::default());
    peer.hca.region(KEY).writable = false;
    let response = |part, at| {
        (
            Operation::ReadResponse,
            part,
            at,
            OK.filter(|_| part != Middle),
        )
    };
    peer.read(0, BASE, 4000);
    assert_eq!(
        peer.responses(),
        [
            response(First, 0),
            response(Middle, 1),
            response(Middle, 2),
            response(Last, 3)
        ]
    );
    peer.read(2, BASE + 2048, 1952);
    assert_eq!(peer.responses(), [response(First, 2), response(Last, 3)]);
    peer.read(3, BASE + 3072, 928);
    assert_eq!(peer.responses(), [response(Only, 3)]);
    // A different range: dropped.
    peer.read(2, BASE, 1952);
    peer.read(2, BASE + 2048, 1953);
    assert_eq!(peer.responses(), []);
    // The ePSN has not changed.
    peer.post_recv(1);
    peer.send(Only, 4, b"");
    assert_eq!(peer.responses(), [ack(4)]);
    // Newer READs have replaced the resource.
    peer.read(5, BASE, 1);
    peer.read(6, BASE, 1);
    peer.responses();
    peer.read(0, BASE, 4000);
    assert_eq!(peer.responses(), []);
    // The R_Key is invalid now: an error for a new request, but a duplicate may be an old packet.
    peer.hca.region(KEY).valid = false;
    peer.read(6, BASE, 1);
    assert_eq!(peer.responses(), []);
    peer.hca.region(KEY).valid = true;
    peer.read(7, BASE, 1);
    peer.hca.region(KEY).valid = false;
    assert_eq!(peer.responses(), [nak(7, NakCode::RemoteAccess)]);
    assert_eq!(peer.qp.state(), QpState::Err);
    assert_eq!(peer.hca.events[1..], [QpEvent::AccessError]);
}

/// The response restarts where the duplicate asks for it.
#[test]
fn a_duplicate_of_a_waiting_read_restarts_it() {
    let response = |part, at| (Operation::ReadResponse, part, at, OK);
    let mut peer = Peer::in_rtr(QpChange::default());
    peer.read(0, BASE, 2000);
    peer.read(0, BASE, 2000);
    let whole = [response(Part::First, 0), response(Part::Last, 1)];
    assert_eq!(peer.responses(), whole);
    peer.read(0, BASE, 2000);
    peer.read(1, BASE + 1024, 976);
    assert_eq!(peer.responses(), [response(Part::Only, 1)]);
}

/// 9.7.5.1.4: duplicates of the discarded READ are dropped.
#[test]
fn new_reads_discard_the_oldest_resource() {
    let response = |at| (Operation::ReadResponse, Part::Only, at, OK);
    let mut peer = Peer::responder(1);
    peer.read(0, BASE, 10);
    assert_eq!(peer.responses(), [response(0)]);
    peer.read(0, BASE, 10);
    peer.read(1, BASE, 10);
    assert_eq!(peer.responses(), [response(1)]);
    let mut peer = Peer::responder(2);
    peer.read(0, BASE, 10);
    peer.read(1, BASE, 10);
    peer.responses();
    peer.read(0, BASE, 10);
    peer.read(1, BASE, 10);
    peer.read(2, BASE, 10);
    assert_eq!(peer.responses(), [response(1), response(2)]);
}

/// The R_Key was invalidated before the response was sent. Later responses are sent.
#[test]
fn a_duplicate_read_without_access_is_dropped() {
    let mut peer = Peer::in_rtr(QpChange::default());
    peer.read(0, BASE, 10);
    peer.post_recv(1);
    assert_eq!(peer.responses().len(), 1);
    peer.send(Part::Only, 1, b"");
    peer.read(0, BASE, 10);
    peer.hca.region(KEY).valid = false;
    assert_eq!(peer.responses(), [ack(1)]);
    assert_eq!(peer.qp.state(), QpState::Rtr);
}

/// In RTS: the R_Key was invalidated before the first response was sent.
#[test]
fn a_read_that_loses_access_is_an_error() {
    let mut peer = Peer::in_rts(QpChange::default());
    peer.read(0, BASE, 10);
    peer.hca.region(KEY).valid = false;
    assert_eq!(peer.responses(), [nak(0, NakCode::RemoteAccess)]);
    assert_eq!(peer.qp.state(), QpState::Err);
    assert_eq!(peer.hca.events, [QpEvent::AccessError]);
}

/// After the program's move to ERR its memory must not be read. Earlier responses are sent.
#[test]
fn err_withholds_read_responses() {
    let mut peer = Peer::in_rtr(QpChange::default());
    peer.post_recv(1);
    peer.send(Part::Only, 0, b"");
    peer.read(1, BASE, 10);
    peer.send(Part::Only, 2, b"");
    peer.modify(QpState::Err, QpChange::default());
    assert_eq!(peer.responses(), [ack(0)]);
    // Requests are dropped in ERR.
    peer.read(3, BASE, 10);
    assert_eq!(peer.responses(), []);
}

/// Later responses wait for the READ responses.
#[test]
fn read_responses_are_paced() {
    let mut peer = Peer::in_rtr(QpChange::default());
    peer.post_recv(1);
    peer.read(0, BASE, 200 << 10);
    peer.send(Part::Only, 200, b"");
    assert_eq!(peer.responses().len(), 128);
    assert_eq!(peer.responses(), []);
    assert_eq!(peer.wait_for_timer(), us(100));
    let responses = peer.responses();
    assert_eq!((responses.len(), responses.last()), (73, Some(&ack(200))));
}

/// Requests beyond the bound are dropped.
#[test]
fn the_response_queue_is_bounded() {
    let mut peer = Peer::in_rtr(QpChange::default());
    for at in 0..1100 {
        peer.atomic_write(at, 8, at.into());
    }
    assert_eq!(peer.hca.region(KEY).bytes[..8], 1023_u64.to_ne_bytes());
    // The last one is the NAK for the dropped request.
    assert_eq!(peer.responses().len(), 1025);
    let mut peer = Peer::in_rtr(QpChange::default());
    for at in 0..1100 {
        peer.flush(at);
    }
    assert_eq!(
        (peer.hca.flushes.len(), peer.responses().len()),
        (1024, 1025)
    );
    // Duplicates do not exceed the bound either.
    for at in 0..5000 {
        peer.flush(at % 1024);
    }
    assert!(peer.responses().len() <= 1025);
}

/// 9.7.4.1.3.
#[test]
fn reads_beyond_max_dest_rd_atomic_get_a_nak() {
    let mut peer = Peer::responder(1);
    peer.read(0, BASE, 1);
    peer.read(1, BASE, 1);
    let responses = peer.responses();
    assert_eq!(responses[1..], [nak(1, NakCode::InvalidRequest)]);
    let mut peer = Peer::responder(0);
    peer.read(0, BASE, 1);
    assert_eq!(peer.responses(), [nak(0, NakCode::InvalidRequest)]);
}

/// A duplicate of a waiting atomic adds no response either.
#[test]
fn duplicate_atomics_occupy_no_resource() {
    let mut peer = Peer::responder(3);
    let response = |at| (Operation::AtomicAck, Part::Only, at, OK);
    for at in 0..3 {
        peer.fetch_add(at);
    }
    peer.fetch_add(1);
    assert_eq!(peer.responses(), [response(0), response(1), response(2)]);
    for at in [0, 1, 2, 2, 3, 4, 5] {
        peer.fetch_add(at);
    }
    assert_eq!(peer.responses(), [0, 1, 2, 3, 4, 5].map(response));
    let value = &peer.hca.region(KEY).bytes[..8];
    assert_eq!(value, 6u64.to_ne_bytes());
    for at in [6, 7, 8, 9] {
        peer.fetch_add(at);
    }
    let responses = peer.responses();
    assert_eq!(responses[3..], [nak(9, NakCode::InvalidRequest)]);
}
