//! An ACK that is all there is to send, by the shorter way ([`Qp::take_lone_ack`]) and by the usual one.

use super::peer::*;
use crate::engine::*;
use crate::wire::{NakCode, Part};

/// Whether the ACK may take the shorter way, and what a queue pair has done before.
type Work<'a> = (bool, &'a dyn Fn(&mut Peer));

/// What a responder has to send after `work`, by the shorter way if `shorter`, and its counters then.
fn sent(work: &dyn Fn(&mut Peer), shorter: bool) -> (Vec<Vec<u8>>, Counters) {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    for id in 0..3 {
        peer.post_recv(id);
    }
    work(&mut peer);
    let mut packets = Vec::new();
    if shorter {
        packets.extend(peer.qp.take_lone_ack().map(|ack| ack.to_vec()));
    }
    let mut buffer = [0; 4300];
    while let Some(transmit) = peer.qp.transmit(peer.now, &mut peer.host, &mut buffer) {
        packets.push(buffer[..transmit.len].to_vec());
    }
    (packets, peer.qp.counters())
}

fn is_taken(work: &dyn Fn(&mut Peer)) -> bool {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    for id in 0..3 {
        peer.post_recv(id);
    }
    work(&mut peer);
    let has = peer.qp.has_lone_ack();
    let (state, depth) = (peer.qp.state(), peer.qp.send_depth());
    assert_eq!(peer.qp.take_lone_ack().is_some(), has);
    assert_eq!((peer.qp.state(), peer.qp.send_depth()), (state, depth));
    assert!(!has || !peer.qp.may_transmit());
    has
}

#[test]
fn both_ways_send_the_same() {
    let works: [Work; 9] = [
        (false, &|_| ()),
        (true, &|peer| peer.send(Part::Only, 0, b"one")),
        // One ACK for all.
        (true, &|peer| {
            for at in 0..3 {
                peer.send(Part::Only, at, b"some");
            }
        }),
        // A duplicate.
        (true, &|peer| {
            peer.send(Part::Only, 0, b"one");
            peer.responses();
            peer.send(Part::Only, 0, b"one");
        }),
        // Sent in ERR, too.
        (true, &|peer| {
            peer.send(Part::Only, 0, b"one");
            peer.modify(QpState::Err, QpChange::default());
        }),
        (false, &|peer| {
            peer.send(Part::Only, 0, b"one");
            peer.post_send(7, 10);
        }),
        // A NAK alone, and one behind an ACK.
        (false, &|peer| peer.send(Part::Only, 1, b"two")),
        (false, &|peer| {
            peer.send(Part::Only, 0, b"one");
            peer.send(Part::Only, 2, b"three");
        }),
        (false, &|peer| {
            peer.send(Part::Only, 0, b"one");
            peer.fetch_add(1);
        }),
    ];
    for (number, (taken, work)) in works.into_iter().enumerate() {
        assert_eq!(is_taken(work), taken, "{number}");
        assert_eq!(sent(work, true), sent(work, false), "{number}");
    }
}

/// In flight requests do not matter: their ACKs are the peer's.
#[test]
fn requests_in_flight_do_not_keep_an_ack() {
    let in_flight = |peer: &mut Peer| {
        peer.post_send(7, 10);
        assert_eq!(peer.sent(), [0]);
        peer.send(Part::Only, 0, b"one");
    };
    assert!(is_taken(&in_flight));
    let retransmits = |peer: &mut Peer| {
        in_flight(peer);
        peer.nak(0, NakCode::PsnSequence);
    };
    assert!(!is_taken(&retransmits));
    assert_eq!(sent(&retransmits, true), sent(&retransmits, false));
}
