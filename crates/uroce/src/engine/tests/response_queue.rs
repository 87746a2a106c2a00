//! Answers, packet by packet: in which order, how many, and what becomes of requests that come again.

use super::network::*;
use super::peer::*;
use crate::engine::*;
use crate::wire::{NakCode, Operation, Part};

/// 9.7.5.1.2: one acknowledgment for several packets.
#[test]
fn acknowledgments_are_coalesced() {
    let mut peer = Peer::new(QpChange::default());
    for at in 0..4 {
        peer.post(at.into());
        peer.send(Part::Only, at, b"abc");
    }
    assert_eq!(peer.answers(), [ack(3)]);
    assert_eq!(peer.host.events, [QpEvent::CommunicationEstablished]);
}

/// What asks for no answer gets none; what is under way in between is acknowledged by the next.
#[test]
fn only_what_asks_is_acknowledged() {
    let mut peer = Peer::new(QpChange::default());
    for at in 0..3 {
        peer.post(at.into());
        let mut headers = Peer::headers(Operation::Send, Part::Only, at);
        headers.bth.ack_request = at == 1;
        peer.give(headers, b"");
    }
    assert_eq!(peer.answers(), [ack(1)]);
    assert_eq!(peer.host.completions.len(), 3);
}

/// 9.7.5.1.1, 9.7.7.1: the MSN counts messages, each at its end, and goes with each answer.
#[test]
fn messages_are_counted() {
    let mut peer = Peer::new(QpChange::default());
    let counts = |peer: &mut Peer| -> Vec<Option<u32>> {
        let packets = peer.packets().into_iter();
        packets
            .map(|(headers, _)| headers.aeth.map(|aeth| aeth.msn))
            .collect()
    };
    peer.post(1);
    peer.send(Part::First, 0, &[1; 1024]);
    assert_eq!(counts(&mut peer), [Some(0)]);
    peer.send(Part::Last, 1, &[1; 4]);
    assert_eq!(counts(&mut peer), [Some(1)]);
    peer.read(2, BASE, 3000);
    assert_eq!(counts(&mut peer), [Some(2), None, Some(2)]);
    peer.add(5);
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
fn duplicates_are_acknowledged_and_no_more() {
    let mut peer = Peer::new(QpChange::default());
    for at in 0..3 {
        peer.post(at.into());
        peer.send(Part::Only, at, &[at as u8]);
    }
    assert_eq!(peer.answers(), [ack(2)]);
    peer.send(Part::Only, 0, &[9]);
    peer.send(Part::Only, 1, &[9]);
    assert_eq!(peer.answers(), [ack(2)]);
    assert_eq!(peer.host.completions.len(), 3);
    assert_eq!(peer.host.region(KEY).bytes[0], 2);
}

/// A packet of an earlier connection, or of nobody: what has not come is not acknowledged.
#[test]
fn strays_acknowledge_nothing() {
    let mut peer = Peer::new(QpChange::default());
    let before_the_first = 0xff_ffff;
    for at in [before_the_first, before_the_first - 5, 0x80_0001] {
        peer.send(Part::Only, at, b"");
        assert_eq!(peer.answers(), [ack(-1)]);
    }
    // A READ's answer is its response.
    peer.read(0, BASE, 1);
    peer.answers();
    peer.send(Part::Only, 0, b"");
    assert_eq!(peer.answers(), []);
    peer.send(Part::Only, before_the_first, b"");
    assert_eq!(peer.answers(), [ack(-1)]);
}

/// Answers leave in the order of their PSNs, responses with data among acknowledgments.
#[test]
fn answers_are_in_order() {
    use Part::*;
    let mut peer = Peer::new(QpChange::default());
    peer.post(1);
    peer.post(2);
    peer.send(Only, 0, b"");
    peer.read(1, BASE, 2000);
    peer.send(Only, 3, b"");
    // Meanwhile the first one comes again.
    peer.send(Only, 0, b"");
    let response = |part, at| (Operation::ReadResponse, part, at, OK);
    assert_eq!(
        peer.answers(),
        [ack(0), response(First, 1), response(Last, 2), ack(3)]
    );
}

/// 9.7.5.1.4: a READ is answered again, whole or the rest of it, if it is the same.
#[test]
fn reads_are_replayed() {
    use Part::*;
    let mut peer = Peer::new(QpChange::default());
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
        peer.answers(),
        [
            response(First, 0),
            response(Middle, 1),
            response(Middle, 2),
            response(Last, 3)
        ]
    );
    peer.read(2, BASE + 2048, 1952);
    assert_eq!(peer.answers(), [response(First, 2), response(Last, 3)]);
    peer.read(3, BASE + 3072, 928);
    assert_eq!(peer.answers(), [response(Only, 3)]);
    // Another one: silence (9.7.5.1.4).
    peer.read(2, BASE, 1952);
    peer.read(2, BASE + 2048, 1953);
    assert_eq!(peer.answers(), []);
    // The expected PSN has not moved.
    peer.post(1);
    peer.send(Only, 4, b"");
    assert_eq!(peer.answers(), [ack(4)]);
    // Forgotten when others have come.
    peer.read(5, BASE, 1);
    peer.read(6, BASE, 1);
    peer.answers();
    peer.read(0, BASE, 4000);
    assert_eq!(peer.answers(), []);
    // The key has gone: before the first answer that is an error, later it may be an old request.
    peer.host.region(KEY).valid = false;
    peer.read(6, BASE, 1);
    assert_eq!(peer.answers(), []);
    peer.host.region(KEY).valid = true;
    peer.read(7, BASE, 1);
    peer.host.region(KEY).valid = false;
    assert_eq!(peer.answers(), [nak(7, NakCode::RemoteAccess)]);
    assert_eq!(peer.qp.state(), QpState::Err);
    assert_eq!(peer.host.events[1..], [QpEvent::AccessError]);
}

/// What is asked for again before it was answered is answered once, from where it is asked for.
#[test]
fn reads_that_wait_are_answered_once() {
    let response = |part, at| (Operation::ReadResponse, part, at, OK);
    let mut peer = Peer::new(QpChange::default());
    peer.read(0, BASE, 2000);
    peer.read(0, BASE, 2000);
    let whole = [response(Part::First, 0), response(Part::Last, 1)];
    assert_eq!(peer.answers(), whole);
    peer.read(0, BASE, 2000);
    peer.read(1, BASE + 1024, 976);
    assert_eq!(peer.answers(), [response(Part::Only, 1)]);
}

/// 9.7.5.1.4: what was asked for again, and has been followed by as many others as are kept, is
/// not answered any more; these are.
#[test]
fn replays_give_way_to_new_requests() {
    let response = |at| (Operation::ReadResponse, Part::Only, at, OK);
    let mut peer = Peer::new(QpChange {
        max_dest_rd_atomic: Some(1),
        ..QpChange::default()
    });
    peer.read(0, BASE, 10);
    assert_eq!(peer.answers(), [response(0)]);
    peer.read(0, BASE, 10);
    peer.read(1, BASE, 10);
    assert_eq!(peer.answers(), [response(1)]);
    let mut peer = Peer::new(QpChange {
        max_dest_rd_atomic: Some(2),
        ..QpChange::default()
    });
    peer.read(0, BASE, 10);
    peer.read(1, BASE, 10);
    peer.answers();
    peer.read(0, BASE, 10);
    peer.read(1, BASE, 10);
    peer.read(2, BASE, 10);
    assert_eq!(peer.answers(), [response(1), response(2)]);
}

/// The key of what is asked for again has gone before it is sent: what follows is sent all the same.
#[test]
fn a_replay_without_its_key_is_left_out() {
    let mut peer = Peer::new(QpChange::default());
    peer.read(0, BASE, 10);
    peer.post(1);
    assert_eq!(peer.answers().len(), 1);
    peer.read(0, BASE, 10);
    peer.send(Part::Only, 1, b"");
    peer.host.region(KEY).valid = false;
    assert_eq!(peer.answers(), [ack(1)]);
    assert_eq!(peer.qp.state(), QpState::Rtr);
}

/// The key has gone before the first answer, of one that sends too.
#[test]
fn a_region_that_goes_while_it_is_read_is_an_error() {
    let mut peer = Peer::sending(QpChange::default());
    peer.read(0, BASE, 10);
    peer.host.region(KEY).valid = false;
    assert_eq!(peer.answers(), [nak(0, NakCode::RemoteAccess)]);
    assert_eq!(peer.qp.state(), QpState::Err);
    assert_eq!(peer.host.events, [QpEvent::AccessError]);
}

/// The program's change to ERR ends the reading of its memory; answers before are still due.
#[test]
fn in_error_no_memory_is_read() {
    let mut peer = Peer::new(QpChange::default());
    peer.post(1);
    peer.send(Part::Only, 0, b"");
    peer.read(1, BASE, 10);
    peer.send(Part::Only, 2, b"");
    peer.modify(QpState::Err, QpChange::default());
    assert_eq!(peer.answers(), [ack(0)]);
    // And nothing is taken any more.
    peer.read(3, BASE, 10);
    assert_eq!(peer.answers(), []);
}

/// A READ's responses go in bursts; what is behind them waits.
#[test]
fn responses_pause() {
    let mut peer = Peer::new(QpChange::default());
    peer.post(1);
    peer.read(0, BASE, 200 << 10);
    peer.send(Part::Only, 200, b"");
    assert_eq!(peer.answers().len(), 128);
    assert_eq!(peer.answers(), []);
    assert_eq!(peer.wait(), 100_000);
    let answers = peer.answers();
    assert_eq!((answers.len(), answers.last()), (73, Some(&ack(200))));
}

/// A peer that asks and asks makes no more wait than there is room for: what is behind is lost.
#[test]
fn answers_that_wait_are_limited() {
    let mut peer = Peer::new(QpChange::default());
    for at in 0..1100 {
        peer.atomic_write(at, 8, at.into());
    }
    assert_eq!(peer.host.region(KEY).bytes[..8], 1023_u64.to_ne_bytes());
    // With the complaint about the one that was lost.
    assert_eq!(peer.answers().len(), 1025);
    let mut peer = Peer::new(QpChange::default());
    for at in 0..1100 {
        peer.flush(at);
    }
    assert_eq!(
        (peer.host.flushes.len(), peer.answers().len()),
        (1024, 1025)
    );
    // What comes again waits no more either.
    for at in 0..5000 {
        peer.flush(at % 1024);
    }
    assert!(peer.answers().len() <= 1025);
}

/// 9.7.4.1.3: more READs than `max_dest_rd_atomic`.
#[test]
fn too_many_reads_are_refused() {
    let mut peer = Peer::new(QpChange {
        max_dest_rd_atomic: Some(1),
        ..QpChange::default()
    });
    peer.read(0, BASE, 1);
    peer.read(1, BASE, 1);
    let answers = peer.answers();
    assert_eq!(answers[1..], [nak(1, NakCode::InvalidRequest)]);
    let mut peer = Peer::new(QpChange {
        max_dest_rd_atomic: Some(0),
        ..QpChange::default()
    });
    peer.read(0, BASE, 1);
    assert_eq!(peer.answers(), [nak(0, NakCode::InvalidRequest)]);
}

/// What is asked for again is no more than was asked for before, and answered once.
#[test]
fn atomics_that_are_repeated_are_not_too_many() {
    let mut peer = Peer::new(QpChange {
        max_dest_rd_atomic: Some(3),
        ..QpChange::default()
    });
    let answer = |at| (Operation::AtomicAck, Part::Only, at, OK);
    for at in 0..3 {
        peer.add(at);
    }
    peer.add(1);
    assert_eq!(peer.answers(), [answer(0), answer(1), answer(2)]);
    for at in [0, 1, 2, 2, 3, 4, 5] {
        peer.add(at);
    }
    assert_eq!(peer.answers(), [0, 1, 2, 3, 4, 5].map(answer));
    let value = &peer.host.region(KEY).bytes[..8];
    assert_eq!(value, 6u64.to_ne_bytes());
    for at in [6, 7, 8, 9] {
        peer.add(at);
    }
    let answers = peer.answers();
    assert_eq!(answers[3..], [nak(9, NakCode::InvalidRequest)]);
}
