//! Short packets by the fast path ([`Qp::receive_short`], [`Qp::transmit_short`]), and by the general path.
//! That both have the same effect is tested in `schedules.rs`, too; here, which packets take which.

use proptest::collection::vec;
use proptest::prelude::*;

use super::network::*;
use super::peer::*;
use super::unreliable::pair;
use crate::engine::*;
use crate::wire::{Aeth, AethKind, NakCode, Operation, Part, SHORT_MAX, Short, ShortContent};

/// What a queue pair with three receives has done before.
type Work<'a> = &'a dyn Fn(&mut Peer);

fn after(work: Work) -> Peer {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    // Within a host, where no round trip is measured.
    peer.qp.set_link(Link::SharedMemory);
    for id in 0..3 {
        peer.post_recv(id);
    }
    work(&mut peer);
    peer
}

/// What is sent after `work`, by the fast path as far as it goes with `room` bytes for a packet, and the
/// counters then. Also how many packets took it.
fn sent(work: Work, room: usize) -> (Vec<Vec<u8>>, Counters, usize) {
    let mut peer = after(work);
    let mut packets = Vec::new();
    let mut bytes = [0; 4300];
    let mut next_short = |peer: &mut Peer| {
        let (now, host) = (peer.now, &mut peer.host);
        let len = peer.qp.transmit_short(|| now, host, &mut bytes[..room])?;
        Some(bytes[..len].to_vec())
    };
    if room > 0 {
        packets.extend(core::iter::from_fn(|| next_short(&mut peer)));
    }
    let count = packets.len();
    let mut buffer = [0; 4300];
    while let Some(transmit) = peer.qp.transmit(peer.now, &mut peer.host, &mut buffer) {
        packets.push(buffer[..transmit.len].to_vec());
    }
    (packets, peer.qp.counters(), count)
}

#[test]
fn what_is_sent_by_the_fast_path() {
    let receives = |peer: &mut Peer| peer.send(Part::Only, 0, b"one");
    let works: [(usize, Work); 15] = [
        (0, &|_| ()),
        (1, &receives),
        // One ACK for all.
        (1, &|peer| {
            for at in 0..3 {
                peer.send(Part::Only, at, b"some");
            }
        }),
        // A duplicate.
        (1, &|peer| {
            receives(peer);
            peer.responses();
            receives(peer);
        }),
        // Sent in ERR, too.
        (1, &|peer| {
            receives(peer);
            peer.modify(QpState::Err, QpChange::default());
        }),
        // The request goes before the ACK.
        (2, &|peer| {
            receives(peer);
            peer.post_send(7, 10);
        }),
        (3, &|peer| (1..4).for_each(|id| peer.post_send(id, 44))),
        // Too long; with other headers; of another operation.
        (0, &|peer| peer.post_send(7, 45)),
        (0, &|peer| {
            peer.post_wr(send_wr(7, SendOp::SendImm { imm: 1 }, &[sge(0, 8)]));
        }),
        (0, &|peer| peer.post_read(7, 8)),
        // A NAK alone, and one behind an ACK; another response.
        (0, &|peer| peer.send(Part::Only, 1, b"two")),
        (0, &|peer| {
            receives(peer);
            peer.send(Part::Only, 2, b"three");
        }),
        (0, &|peer| {
            receives(peer);
            peer.fetch_add(1);
        }),
        // A retransmission.
        (0, &|peer| {
            peer.post_send(7, 10);
            peer.sent();
            peer.nak(0, NakCode::PsnSequence);
        }),
        // Memory that may not be read: the WR fails by the general path.
        (0, &|peer| {
            let mut wrong = sge(0, 8);
            wrong.lkey += 1;
            peer.post_wr(send_wr(7, SendOp::Send, &[wrong]));
        }),
    ];
    for (number, (count, work)) in works.into_iter().enumerate() {
        let (packets, counters, taken) = sent(work, SHORT_MAX);
        assert_eq!(taken, count, "{number}");
        let (expected, counters_expected, _) = sent(work, 0);
        assert_eq!(
            (packets, counters),
            (expected, counters_expected),
            "{number}"
        );
    }
}

/// A SEND of one packet is written where there is room for it.
#[test]
fn longer_sends_take_the_fast_path() {
    for (len, room, count) in [
        (45, 60, 1),
        (45, 59, 0),
        (511, 524, 1),
        (508, 519, 0),
        // These lie apart from their headers.
        (512, 4300, 0),
        (1024, 4300, 0),
    ] {
        let work = |peer: &mut Peer| peer.post_send(7, len);
        let (packets, counters, taken) = sent(&work, room);
        assert_eq!(taken, count, "{len} {room}");
        let (expected, counters_expected, _) = sent(&work, 0);
        assert_eq!((packets, counters), (expected, counters_expected));
    }
}

/// Whether a packet is received by the fast path. If it is not, the general path has the effect that it has
/// without that try.
fn takes(work: Work, operation: Operation, at: u32, payload: &[u8]) -> bool {
    let mut headers = Peer::headers(operation, Part::Only, at);
    if operation == Operation::Ack {
        let kind = AethKind::Ack { credits: 31 };
        headers.aeth = Some(Aeth { kind, msn: 0 });
    }
    headers.bth.pad = (payload.len().wrapping_neg() & 3) as u8;
    let mut bytes = [0; 4300];
    let start = headers.write(&mut bytes);
    bytes[start..start + payload.len()].copy_from_slice(payload);
    let len = start + payload.len() + usize::from(headers.bth.pad);
    let packet = Short::parse(bytes.first_chunk().unwrap(), &bytes[..len]).expect("a short packet");

    let mut peers = [after(work), after(work)];
    let [peer, usual] = &mut peers;
    let (now, from) = (peer.now, addresses(1));
    let is_taken = peer
        .qp
        .receive_short(&packet, &from, || now, &mut peer.host);
    if !is_taken {
        peer.deliver(headers, payload);
    }
    usual.deliver(headers, payload);
    let [seen, expected] = peers.map(|mut peer| {
        let packets = peer.packets();
        let completions = peer.host.completions;
        (
            packets,
            completions,
            peer.host.events,
            peer.qp.counters(),
            peer.qp.state(),
        )
    });
    assert_eq!(seen, expected);
    is_taken
}

#[test]
fn what_is_received_by_the_fast_path() {
    let send = |work: Work, at, payload: &[u8]| takes(work, Operation::Send, at, payload);
    let nothing = |_: &mut Peer| ();
    assert!(send(&nothing, 0, b"12345678"));
    assert!(send(&nothing, 0, b""));
    assert!(send(&nothing, 0, &[7; 43]));
    assert!(send(&nothing, 0, &[7; 45]) && send(&nothing, 0, &[7; 1024]));
    // Longer than the path MTU.
    assert!(!send(&nothing, 0, &[7; 1028]));
    // Not the next one: a NAK, or a duplicate.
    assert!(!send(&nothing, 1, b"1"));
    assert!(!send(&|peer| peer.send(Part::Only, 0, b"1"), 0, b"1"));
    // A message is in progress.
    assert!(!send(
        &|peer| peer.send(Part::First, 0, &[0; 1024]),
        1,
        b"1"
    ));
    // A response that is no ACK waits.
    assert!(!send(&|peer| peer.fetch_add(0), 1, b"1"));
    // No receive: an RNR NAK.
    let all = |peer: &mut Peer| (0..3).for_each(|at| peer.send(Part::Only, at, b"1"));
    assert!(!send(&all, 3, b"1"));
    // The receive is too short, or its memory is not accessible: it completes with an error.
    for (len, key) in [(4, KEY), (100, KEY + 1)] {
        let short = |peer: &mut Peer| {
            all(peer);
            let sge = Sge {
                lkey: key,
                ..sge(0, len)
            };
            assert!(peer.qp.post_recv(recv_wr(9, &[sge]), &mut peer.host));
        };
        assert!(!send(&short, 3, b"12345678"));
    }
    for state in [QpState::Reset, QpState::Err] {
        assert!(!send(
            &|peer| peer.modify(state, QpChange::default()),
            0,
            b"1"
        ));
    }

    let ack = |work: Work, at| takes(work, Operation::Ack, OUR_PSN + at, b"");
    let in_flight = |peer: &mut Peer| {
        (1..4).for_each(|id| peer.post_send(id, 10));
        assert_eq!(peer.sent(), [0, 1, 2]);
    };
    assert!(ack(&in_flight, 0) && ack(&in_flight, 2));
    // A sample of the round-trip time.
    assert!(!ack(
        &|peer| {
            peer.qp.set_link(Link::Network);
            in_flight(peer);
        },
        2
    ));
    // Of no packet in flight.
    assert!(!ack(&in_flight, 3) && !ack(&nothing, 0));
    assert!(!ack(
        &|peer| {
            in_flight(peer);
            peer.ack(2);
        },
        1
    ));
}

/// A READ before the acknowledged request has lost its response.
#[test]
fn an_ack_behind_a_read_retransmits_it() {
    let work = |peer: &mut Peer| {
        peer.post_read(1, 8);
        peer.post_send(2, 8);
        assert_eq!(peer.sent(), [0, 1]);
    };
    assert!(takes(&work, Operation::Ack, OUR_PSN + 1, b""));
    let mut peer = after(&work);
    let packet = Short {
        dest_qpn: qpn(0),
        psn: psn(OUR_PSN + 1),
        len: 16,
        content: ShortContent::Ack,
    };
    let (now, host) = (peer.now, &mut peer.host);
    assert!(peer.qp.receive_short(&packet, &addresses(1), || now, host));
    assert_eq!(peer.sent(), [0, 1]);
    assert_eq!(peer.send_completions(), []);
}

/// The completion of a SEND does not fit the completion queue.
#[test]
fn a_lost_completion_is_fatal() {
    let mut peer = after(&|peer| peer.host.room = Some(0));
    let packet = Short {
        dest_qpn: qpn(0),
        psn: psn(0),
        len: 12,
        content: ShortContent::Send {
            ack_request: true,
            solicited: false,
            payload: &[],
        },
    };
    let (now, host) = (peer.now, &mut peer.host);
    assert!(peer.qp.receive_short(&packet, &addresses(1), || now, host));
    assert_eq!(peer.qp.state(), QpState::Err);
    assert_eq!(peer.host.events, [QpEvent::Fatal]);
    let expected = [nak(0, NakCode::RemoteOperational)];
    assert_eq!(peer.responses(), expected);
}

/// Two datagram queue pairs; one sends, the other has receives of several lengths.
fn exchange_datagrams(
    fast_path: FastPath,
    receives: &[(u32, bool)],
    datagrams: &[(u32, u32, bool, bool)],
) -> Network {
    let mut network = pair([Service::Ud, Service::Ud], lossless(us(1)));
    network.fast_path = fast_path;
    network.trace = Some(Vec::new());
    for (id, &(len, valid)) in receives.iter().enumerate() {
        let mut sge = sge(100 * id as u64, len);
        sge.lkey += u32::from(!valid);
        network.post_recv(1, recv_wr(id as u64, &[sge]));
    }
    for (id, &(len, qkey, solicited, imm)) in datagrams.iter().enumerate() {
        let op = match imm {
            true => SendOp::SendImm { imm: 1 },
            false => SendOp::Send,
        };
        let mut wr = send_wr(id as u64, op, &[sge(7 * id as u64, len)]);
        wr.flags.solicited = solicited;
        wr.ud = Some(UdAddress {
            av: av(1),
            qpn: qpn(1),
            qkey,
        });
        network.post_send(0, wr);
    }
    network.run();
    network
}

/// That of the receiver, another one, and the one that stands for the sender's.
fn qkey() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(0x1234), 1 => Just(1), 1 => Just(1 << 31)]
}

proptest! {
    /// Datagrams of several lengths, with right and wrong Q_Keys, to receives that are too short, not
    /// accessible, or missing.
    #[test]
    fn datagrams_have_the_same_effect(
        receives in vec((30..100u32, prop_oneof![9 => Just(true), 1 => Just(false)]), 0..8),
        datagrams in vec((0..44u32, qkey(), any::<bool>(), any::<bool>()), 0..12),
    ) {
        let play = |way| exchange_datagrams(way, &receives, &datagrams);
        let [mut usual, mut shorter] = [FastPath::Never, FastPath::Always].map(play);
        prop_assert_eq!(&usual.trace, &shorter.trace);
        for side in 0..2 {
            let [one, other] = [&mut usual.sides[side], &mut shorter.sides[side]];
            prop_assert_eq!(&one.host.completions, &other.host.completions);
            prop_assert_eq!(one.qp.counters(), other.qp.counters());
            prop_assert_eq!(one.qp.state(), other.qp.state());
            prop_assert!(one.host.region(KEY).bytes == other.host.region(KEY).bytes);
        }
        let may_be_short = datagrams.iter().any(|(len, _, _, imm)| *len <= 36 && !imm);
        prop_assert!(shorter.short[0] > 0 || !may_be_short);
    }
}
