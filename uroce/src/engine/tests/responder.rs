//! The responder, packet by packet: what kernel rxe and RNICs may send, and what they are answered.

use ibverbs_abi::*;

use super::network::*;
use super::peer::*;
use crate::engine::*;
use crate::wire::{
    Aeth, AethKind, Feth, Headers, ICRC_LEN, NakCode, Operation, Packet, Part, Reth,
};

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

/// 9.7.5.2.3: once for a gap; again if the peer began again.
#[test]
fn a_gap_is_complained_about_once() {
    let mut peer = Peer::new(QpChange::default());
    for id in 0..4 {
        peer.post(id);
    }
    peer.send(Part::Only, 0, b"");
    peer.send(Part::Only, 2, b"");
    peer.send(Part::Only, 3, b"");
    assert_eq!(peer.answers(), [ack(0), nak(1, NakCode::PsnSequence)]);
    peer.send(Part::Only, 4, b"");
    assert_eq!(peer.answers(), []);
    peer.send(Part::Only, 2, b"");
    assert_eq!(peer.answers(), [nak(1, NakCode::PsnSequence)]);
    peer.send(Part::Only, 1, b"");
    peer.send(Part::Only, 3, b"");
    assert_eq!(peer.answers(), [ack(1), nak(2, NakCode::PsnSequence)]);
    // It came before the complaint was sent.
    peer.send(Part::Only, 2, b"");
    peer.send(Part::Only, 4, b"");
    peer.send(Part::Only, 3, b"");
    assert_eq!(peer.answers(), [ack(3)]);
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

/// 9.7.5.1.4: a READ is answered again, whole or the rest of it, if it is the same.
#[test]
fn reads_are_replayed() {
    use Part::*;
    let mut peer = Peer::new(QpChange::default());
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

/// 9.7.4.1.2, 9.7.4.1.6: order of parts, and their lengths.
#[test]
fn malformed_messages_are_refused() {
    use Part::*;
    let whole = [1; 1024];
    for packets in [
        &[(Middle, &whole[..])][..],
        &[(Last, b"a")],
        &[(First, &whole), (First, &whole)],
        &[(First, &whole), (Only, b"a")],
        &[(First, &whole[..1020])],
        &[(First, &whole), (Middle, &whole[..4])],
        &[(First, &whole), (Last, b"")],
    ] {
        let mut peer = Peer::new(QpChange::default());
        peer.post(1);
        peer.post(2);
        for (at, (part, payload)) in packets.iter().enumerate() {
            peer.send(*part, at as u32, payload);
        }
        let last = packets.len() as i32 - 1;
        let refusal = nak(last, NakCode::InvalidRequest);
        assert_eq!(peer.answers().last(), Some(&refusal), "{packets:?}");
        assert_eq!(peer.qp.state(), QpState::Err);
        let statuses = peer.host.statuses(Completed::Receive);
        let begun = last > 0;
        let first = if begun {
            IBV_WC_REM_INV_REQ_ERR
        } else {
            IBV_WC_WR_FLUSH_ERR
        };
        assert_eq!(
            statuses,
            [(1, first), (2, IBV_WC_WR_FLUSH_ERR)],
            "{packets:?}"
        );
        assert_eq!(peer.host.events.contains(&QpEvent::RequestError), !begun);
    }
    // A WRITE whose length is another than it says.
    for (len, part, payload) in [
        (5, Only, 4),
        (3, Only, 4),
        (1024, First, 1024),
        (1 << 31 | 1, First, 1024),
    ] {
        let mut peer = Peer::new(QpChange::default());
        let reth = Some(Reth {
            va: BASE,
            rkey: KEY,
            len,
        });
        peer.give(
            Headers {
                reth,
                ..Peer::headers(Operation::Write, part, 0)
            },
            &whole[..payload],
        );
        assert_eq!(peer.answers(), [nak(0, NakCode::InvalidRequest)], "{len}");
    }
}

/// 9.7.5.2.8: a message waits for its receive; what follows is dropped without complaint.
#[test]
fn not_ready_is_said_once() {
    let mut peer = Peer::new(QpChange::default());
    peer.send(Part::Only, 0, b"");
    peer.send(Part::Only, 1, b"");
    let refusal = (
        Operation::Ack,
        Part::Only,
        0,
        Some(AethKind::RnrNak { timer: 12 }),
    );
    assert_eq!(peer.answers(), [refusal]);
    peer.post(1);
    peer.send(Part::Only, 0, b"");
    assert_eq!(peer.answers(), [ack(0)]);
    // A WRITE with immediate data needs it at its end only.
    let reth = Some(Reth {
        va: BASE,
        rkey: KEY,
        len: 1025,
    });
    peer.give(
        Headers {
            reth,
            ..Peer::headers(Operation::Write, Part::First, 1)
        },
        &[1; 1024],
    );
    let last = Headers {
        imm: Some(1),
        ..Peer::headers(Operation::WriteImm, Part::Last, 2)
    };
    peer.give(last, &[2]);
    let refusal = (
        Operation::Ack,
        Part::Only,
        2,
        Some(AethKind::RnrNak { timer: 12 }),
    );
    assert_eq!(peer.answers(), [ack(1), refusal]);
    assert_eq!(peer.host.region(KEY).bytes[1024], 0);
    peer.post(2);
    peer.give(last, &[2]);
    assert_eq!(peer.answers(), [ack(2)]);
    assert_eq!(peer.host.region(KEY).bytes[1024], 2);
}

/// 9.6.1.5: packets of others do not count; nor does anything in states that do not receive.
#[test]
fn strangers_and_wrong_states_get_no_answer() {
    let mut peer = Peer::new(QpChange::default());
    let datagram = {
        let headers = Peer::headers(Operation::Send, Part::Only, 0);
        let mut bytes = vec![0; headers.len() + ICRC_LEN];
        headers.write(&mut bytes);
        bytes
    };
    let packet = Packet::parse(&datagram).unwrap();
    let stranger = Addresses {
        src: [7; 16],
        ..addresses(1)
    };
    peer.qp
        .receive(&packet, &stranger, peer.now, &mut peer.host);
    assert_eq!(peer.answers(), []);
    for state in [QpState::Err, QpState::Reset, QpState::Init] {
        let change = QpChange {
            state: Some(state),
            ..QpChange::default()
        };
        peer.qp.modify(&change, peer.now, &mut peer.host);
        peer.send(Part::Only, 0, b"");
        assert_eq!(peer.answers(), []);
    }
    assert_eq!(peer.host.events, []);
}

/// 9.7.7.2: a peer that counts credits gets one message more than it has receives for, then the next
/// only when that one is acknowledged.
#[test]
fn credits_are_respected() {
    let mut peer = Peer::new(QpChange::default());
    let change = QpChange {
        state: Some(QpState::Rts),
        sq_psn: Some(psn(100)),
        ..QpChange::default()
    };
    peer.qp.modify(&change, peer.now, &mut peer.host);
    let post = |peer: &mut Peer, id| {
        let request = request(id, RequestKind::Send, &[]);
        assert!(peer.qp.post_send(request, peer.now, &mut peer.host));
        peer.answers().len()
    };
    assert_eq!(post(&mut peer, 1), 1);
    let answer = |peer: &mut Peer, at, credits, msn| {
        let aeth = Some(Aeth {
            kind: AethKind::Ack { credits },
            msn,
        });
        peer.give(
            Headers {
                aeth,
                ..Peer::headers(Operation::Ack, Part::Only, at)
            },
            &[],
        );
        peer.answers().len()
    };
    // The first message, and a receive for one more.
    assert_eq!(answer(&mut peer, 100, 1, 1), 0);
    assert_eq!([2, 3, 4].map(|id| post(&mut peer, id)), [1, 0, 0]);
    assert_eq!(answer(&mut peer, 101, 0, 2), 1);
    assert_eq!(answer(&mut peer, 102, 31, 3), 1);
    assert_eq!([5, 6].map(|id| post(&mut peer, id)), [1, 1]);
}

/// What regions allow is asked for what is done, and before anything is.
#[test]
fn regions_are_asked_for_what_is_done() {
    let write = |part, len, rkey| Headers {
        reth: Some(Reth {
            va: BASE,
            rkey,
            len,
        }),
        ..Peer::headers(Operation::Write, part, 0)
    };
    for (operation, change) in [
        (Operation::Write, QpChange::default()),
        (Operation::ReadRequest, QpChange::default()),
        (Operation::FetchAdd, QpChange::default()),
    ] {
        for others in [true, false] {
            let mut peer = Peer::new(change);
            let region = peer.host.region(KEY);
            region.writable = (operation == Operation::Write) == others;
            region.readable = (operation == Operation::ReadRequest) == others;
            region.atomic = (operation == Operation::FetchAdd) == others;
            match operation {
                Operation::Write => peer.give(write(Part::First, 2000, KEY), &[1; 1024]),
                Operation::ReadRequest => peer.read(0, BASE, 2000),
                _ => peer.add(0),
            }
            let refused = peer.answers() == [nak(0, NakCode::RemoteAccess)];
            assert_eq!(refused, !others, "{operation:?}");
            assert_eq!(
                peer.host.region(KEY).bytes[0] == 0,
                !others || operation == Operation::ReadRequest
            );
        }
    }
    // The longest there is: too long for the region only.
    for (len, code) in [
        (1 << 31, NakCode::RemoteAccess),
        ((1 << 31) + 1, NakCode::InvalidRequest),
    ] {
        let mut peer = Peer::new(QpChange::default());
        peer.give(write(Part::First, len, KEY), &[1; 1024]);
        assert_eq!(peer.answers(), [nak(0, code)]);
        let mut peer = Peer::new(QpChange::default());
        peer.read(0, BASE, len);
        assert_eq!(peer.answers(), [nak(0, code)]);
    }
}

/// A receive that has been taken tells of the error, else an event does (9.9.3.2).
#[test]
fn a_receive_that_was_taken_tells_of_the_error() {
    for (rkey, va, status) in [
        (KEY + 1, BASE, IBV_WC_REM_ACCESS_ERR),
        (KEY, 0, IBV_WC_REM_ACCESS_ERR),
    ] {
        let mut peer = Peer::new(QpChange::default());
        peer.post(1);
        peer.post(2);
        let headers = Headers {
            reth: Some(Reth { va, rkey, len: 4 }),
            imm: Some(1),
            ..Peer::headers(Operation::WriteImm, Part::Only, 0)
        };
        peer.give(headers, b"data");
        assert_eq!(peer.answers(), [nak(0, NakCode::RemoteAccess)]);
        assert_eq!(
            peer.host.statuses(Completed::Receive),
            [(1, status), (2, IBV_WC_WR_FLUSH_ERR)]
        );
        assert_eq!(peer.host.events, [QpEvent::CommunicationEstablished]);
    }
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
    let reth = Some(Reth {
        va: BASE,
        rkey: KEY,
        len: 8,
    });
    let headers = Peer::headers(Operation::AtomicWrite, Part::Only, 6);
    peer.give(Headers { reth, ..headers }, &[1; 8]);
    assert_eq!(counts(&mut peer), [Some(4)]);
    // Not what is refused, nor what comes again.
    peer.send(Part::Only, 1, &[1; 4]);
    peer.send(Part::Only, 7, &[1; 4]);
    assert_eq!(counts(&mut peer), [Some(4), Some(4)]);
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

/// 10.3.1.7: a message that was begun gives its receive back, before the others.
#[test]
fn a_message_that_was_begun_is_flushed_first() {
    for srq in [false, true] {
        let mut peer = Peer::new(QpChange::default());
        peer.qp.config.has_srq = srq;
        if srq {
            let receives = [1, 2].map(|id| receive(id, &[sge(0, 10_000)]));
            peer.host.shared.extend(receives);
        } else {
            peer.post(1);
            peer.post(2);
        }
        peer.send(Part::First, 0, &[1; 1024]);
        peer.modify(QpState::Err, QpChange::default());
        // A shared queue's are not this queue pair's.
        let flushed: &[u64] = if srq { &[1] } else { &[1, 2] };
        let flushed: Vec<_> = flushed
            .iter()
            .map(|id| (*id, IBV_WC_WR_FLUSH_ERR))
            .collect();
        assert_eq!(peer.host.statuses(Completed::Receive), flushed);
        let events = &peer.host.events[1..];
        assert_eq!(
            events,
            if srq {
                &[QpEvent::LastWqeReached][..]
            } else {
                &[]
            }
        );
        peer.modify(QpState::Err, QpChange::default());
        assert_eq!(peer.host.completions.len(), flushed.len());
    }
}

/// A peer that asks and asks makes no more wait than there is room for: what is behind is lost.
#[test]
fn answers_that_wait_are_limited() {
    let reth = |va| {
        let rkey = KEY;
        Some(Reth { va, rkey, len: 8 })
    };
    let mut peer = Peer::new(QpChange::default());
    for at in 0..1100_u32 {
        let headers = Peer::headers(Operation::AtomicWrite, Part::Only, at);
        let headers = Headers {
            reth: reth(BASE),
            ..headers
        };
        peer.give(headers, &u64::from(at).to_ne_bytes());
    }
    assert_eq!(peer.host.region(KEY).bytes[..8], 1023_u64.to_ne_bytes());
    // With the complaint about the one that was lost.
    assert_eq!(peer.answers().len(), 1025);
    let mut peer = Peer::new(QpChange::default());
    for at in 0..1100 {
        let headers = Peer::headers(Operation::Flush, Part::Only, at);
        let feth = Some(Feth {
            placement: 1,
            selectivity: 0,
        });
        let headers = Headers {
            feth,
            reth: reth(BASE),
            ..headers
        };
        peer.give(headers, &[]);
    }
    assert_eq!(
        (peer.host.flushes.len(), peer.answers().len()),
        (1024, 1025)
    );
    // What comes again waits no more either.
    for again in 0..3 {
        for at in 0..1100 {
            let headers = Peer::headers(Operation::Flush, Part::Only, at % 1024);
            let feth = Some(Feth {
                placement: 1,
                selectivity: 0,
            });
            let headers = Headers {
                feth,
                reth: reth(BASE),
                ..headers
            };
            peer.give(headers, &[]);
        }
        assert!(peer.answers().len() <= 1025, "{again}");
    }
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

/// Annex A19.4.2: eight bytes. (A packet with another payload is none.)
#[test]
fn atomic_writes_have_eight_bytes() {
    for (told, right) in [(8, true), (4, false), (0, false), (16, false)] {
        let mut peer = Peer::new(QpChange::default());
        let (va, rkey) = (BASE, KEY);
        let reth = Some(Reth {
            va,
            rkey,
            len: told,
        });
        let headers = Peer::headers(Operation::AtomicWrite, Part::Only, 0);
        peer.give(Headers { reth, ..headers }, &[1; 8]);
        let answer = (Operation::ReadResponse, Part::Only, 0, OK);
        let refusal = nak(0, NakCode::InvalidRequest);
        assert_eq!(peer.answers(), [if right { answer } else { refusal }]);
        assert_eq!(peer.host.atomics, u64::from(right));
    }
}

/// ATOMIC WRITE takes a place of the peer's; who has none is refused.
#[test]
fn prompt_answers_need_a_place() {
    let mut peer = Peer::new(QpChange {
        max_dest_rd_atomic: Some(0),
        ..QpChange::default()
    });
    let (va, rkey, len) = (BASE, KEY, 8);
    let headers = Peer::headers(Operation::AtomicWrite, Part::Only, 0);
    let reth = Some(Reth { va, rkey, len });
    peer.give(Headers { reth, ..headers }, &[1; 8]);
    assert_eq!(peer.answers(), [nak(0, NakCode::InvalidRequest)]);
    assert_eq!(peer.host.atomics, 0);
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
