//! Answers, packet by packet: in which order, how many, and what becomes of requests that come again.

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
    assert_eq!(peer.host.events, [QpEvent::CommunicationEstablished]);
}

/// What asks for no answer gets none; what is under way in between is acknowledged by the next.
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
    assert_eq!(peer.host.completions.len(), 3);
}

/// 9.7.5.1.1, 9.7.7.1: the MSN counts messages, each at its end, and goes with each answer.
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
    // Not what is refused, nor what comes again.
    peer.send(Part::Only, 1, &[1; 4]);
    peer.send(Part::Only, 7, &[1; 4]);
    assert_eq!(counts(&mut peer), [Some(4), Some(4)]);
}

/// 9.7.5.1.3: what is executed is not executed again, but acknowledged up to the newest.
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
    assert_eq!(peer.host.completions.len(), 3);
    assert_eq!(peer.host.region(KEY).bytes[0], 2);
}

/// A packet of an earlier connection, or of nobody: what has not come is not acknowledged.
#[test]
fn stray_packets_acknowledge_nothing() {
    let mut peer = Peer::in_rtr(QpChange::default());
    let before_the_first = 0xff_ffff;
    for at in [before_the_first, before_the_first - 5, 0x80_0001] {
        peer.send(Part::Only, at, b"");
        assert_eq!(peer.responses(), [ack(-1)]);
    }
    // A READ's answer is its response.
    peer.read(0, BASE, 1);
    peer.responses();
    peer.send(Part::Only, 0, b"");
    assert_eq!(peer.responses(), []);
    peer.send(Part::Only, before_the_first, b"");
    assert_eq!(peer.responses(), [ack(-1)]);
}

/// Answers leave in the order of their PSNs, responses with data among acknowledgments.
#[test]
fn responses_are_in_psn_order() {
    use Part::*;
    let mut peer = Peer::in_rtr(QpChange::default());
    peer.post_recv(1);
    peer.post_recv(2);
    peer.send(Only, 0, b"");
    peer.read(1, BASE, 2000);
    peer.send(Only, 3, b"");
    // Meanwhile the first one comes again.
    peer.send(Only, 0, b"");
    let response = |part, at| (Operation::ReadResponse, part, at, OK);
    assert_eq!(
        peer.responses(),
        [ack(0), response(First, 1), response(Last, 2), ack(3)]
    );
}

/// 9.7.5.1.4: a READ is answered again, whole or the rest of it, if it is the same.
#[test]
fn duplicate_reads_are_answered() {
    use Part::*;
    let mut peer = Peer::in_rtr(QpChange::default());
    peer.host.region(KEY).writable = false;
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
    // Another one: silence (9.7.5.1.4).
    peer.read(2, BASE, 1952);
    peer.read(2, BASE + 2048, 1953);
    assert_eq!(peer.responses(), []);
    // The expected PSN has not moved.
    peer.post_recv(1);
    peer.send(Only, 4, b"");
    assert_eq!(peer.responses(), [ack(4)]);
    // Forgotten when others have come.
    peer.read(5, BASE, 1);
    peer.read(6, BASE, 1);
    peer.responses();
    peer.read(0, BASE, 4000);
    assert_eq!(peer.responses(), []);
    // The key has gone: before the first answer that is an error, later it may be an old request.
    peer.host.region(KEY).valid = false;
    peer.read(6, BASE, 1);
    assert_eq!(peer.responses(), []);
    peer.host.region(KEY).valid = true;
    peer.read(7, BASE, 1);
    peer.host.region(KEY).valid = false;
    assert_eq!(peer.responses(), [nak(7, NakCode::RemoteAccess)]);
    assert_eq!(peer.qp.state(), QpState::Err);
    assert_eq!(peer.host.events[1..], [QpEvent::AccessError]);
}

/// What is asked for again before it was answered is answered once, from where it is asked for.
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

/// 9.7.5.1.4: what was asked for again, and has been followed by as many others as are kept, is
/// not answered any more; these are.
#[test]
fn new_reads_discard_the_oldest_resource() {
    let response = |at| (Operation::ReadResponse, Part::Only, at, OK);
    let mut peer = Peer::in_rtr(QpChange {
        max_dest_rd_atomic: Some(1),
        ..QpChange::default()
    });
    peer.read(0, BASE, 10);
    assert_eq!(peer.responses(), [response(0)]);
    peer.read(0, BASE, 10);
    peer.read(1, BASE, 10);
    assert_eq!(peer.responses(), [response(1)]);
    let mut peer = Peer::in_rtr(QpChange {
        max_dest_rd_atomic: Some(2),
        ..QpChange::default()
    });
    peer.read(0, BASE, 10);
    peer.read(1, BASE, 10);
    peer.responses();
    peer.read(0, BASE, 10);
    peer.read(1, BASE, 10);
    peer.read(2, BASE, 10);
    assert_eq!(peer.responses(), [response(1), response(2)]);
}

/// The key of what is asked for again has gone before it is sent: what follows is sent all the same.
#[test]
fn a_duplicate_read_without_access_is_dropped() {
    let mut peer = Peer::in_rtr(QpChange::default());
    peer.read(0, BASE, 10);
    peer.post_recv(1);
    assert_eq!(peer.responses().len(), 1);
    peer.read(0, BASE, 10);
    peer.send(Part::Only, 1, b"");
    peer.host.region(KEY).valid = false;
    assert_eq!(peer.responses(), [ack(1)]);
    assert_eq!(peer.qp.state(), QpState::Rtr);
}

/// The key has gone before the first answer, of one that sends too.
#[test]
fn a_read_that_loses_access_is_an_error() {
    let mut peer = Peer::in_rts(QpChange::default());
    peer.read(0, BASE, 10);
    peer.host.region(KEY).valid = false;
    assert_eq!(peer.responses(), [nak(0, NakCode::RemoteAccess)]);
    assert_eq!(peer.qp.state(), QpState::Err);
    assert_eq!(peer.host.events, [QpEvent::AccessError]);
}

/// The program's change to ERR ends the reading of its memory; answers before are still due.
#[test]
fn err_withholds_read_responses() {
    let mut peer = Peer::in_rtr(QpChange::default());
    peer.post_recv(1);
    peer.send(Part::Only, 0, b"");
    peer.read(1, BASE, 10);
    peer.send(Part::Only, 2, b"");
    peer.modify(QpState::Err, QpChange::default());
    assert_eq!(peer.responses(), [ack(0)]);
    // And nothing is taken any more.
    peer.read(3, BASE, 10);
    assert_eq!(peer.responses(), []);
}

/// A READ's responses go in bursts; what is behind them waits.
#[test]
fn read_responses_are_paced() {
    let mut peer = Peer::in_rtr(QpChange::default());
    peer.post_recv(1);
    peer.read(0, BASE, 200 << 10);
    peer.send(Part::Only, 200, b"");
    assert_eq!(peer.responses().len(), 128);
    assert_eq!(peer.responses(), []);
    assert_eq!(peer.wait_for_timer(), us(100));
    let answers = peer.responses();
    assert_eq!((answers.len(), answers.last()), (73, Some(&ack(200))));
}

/// A peer that asks and asks makes no more wait than there is room for: what is behind is lost.
#[test]
fn the_response_queue_is_bounded() {
    let mut peer = Peer::in_rtr(QpChange::default());
    for at in 0..1100 {
        peer.atomic_write(at, 8, at.into());
    }
    assert_eq!(peer.host.region(KEY).bytes[..8], 1023_u64.to_ne_bytes());
    // With the complaint about the one that was lost.
    assert_eq!(peer.responses().len(), 1025);
    let mut peer = Peer::in_rtr(QpChange::default());
    for at in 0..1100 {
        peer.flush(at);
    }
    assert_eq!(
        (peer.host.flushes.len(), peer.responses().len()),
        (1024, 1025)
    );
    // What comes again waits no more either.
    for at in 0..5000 {
        peer.flush(at % 1024);
    }
    assert!(peer.responses().len() <= 1025);
}

/// 9.7.4.1.3: more READs than `max_dest_rd_atomic`.
#[test]
fn reads_beyond_max_dest_rd_atomic_get_a_nak() {
    let mut peer = Peer::in_rtr(QpChange {
        max_dest_rd_atomic: Some(1),
        ..QpChange::default()
    });
    peer.read(0, BASE, 1);
    peer.read(1, BASE, 1);
    let answers = peer.responses();
    assert_eq!(answers[1..], [nak(1, NakCode::InvalidRequest)]);
    let mut peer = Peer::in_rtr(QpChange {
        max_dest_rd_atomic: Some(0),
        ..QpChange::default()
    });
    peer.read(0, BASE, 1);
    assert_eq!(peer.responses(), [nak(0, NakCode::InvalidRequest)]);
}

/// What is asked for again is no more than was asked for before, and answered once.
#[test]
fn duplicate_atomics_occupy_no_resource() {
    let mut peer = Peer::in_rtr(QpChange {
        max_dest_rd_atomic: Some(3),
        ..QpChange::default()
    });
    let answer = |at| (Operation::AtomicAck, Part::Only, at, OK);
    for at in 0..3 {
        peer.fetch_add(at);
    }
    peer.fetch_add(1);
    assert_eq!(peer.responses(), [answer(0), answer(1), answer(2)]);
    for at in [0, 1, 2, 2, 3, 4, 5] {
        peer.fetch_add(at);
    }
    assert_eq!(peer.responses(), [0, 1, 2, 3, 4, 5].map(answer));
    let value = &peer.host.region(KEY).bytes[..8];
    assert_eq!(value, 6u64.to_ne_bytes());
    for at in [6, 7, 8, 9] {
        peer.fetch_add(at);
    }
    let answers = peer.responses();
    assert_eq!(answers[3..], [nak(9, NakCode::InvalidRequest)]);
}
