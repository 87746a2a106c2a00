//! The responder, packet by packet: what the kernel's rxe and RNICs may send, and the responses.

use ibverbs_abi::*;

use super::network::*;
use super::peer::*;
use crate::engine::*;
use crate::wire::{
    Aeth, AethKind, Bth, FIRST_PORT, Headers, ICRC_LEN, NakCode, Opcode, Operation, PORT, Packet,
    Part, Reth, Transport, first_qpn,
};

/// 9.7.5.2.3. After a retransmission by the peer the gap causes another NAK.
#[test]
fn a_gap_causes_one_sequence_nak() {
    let mut peer = Peer::in_rtr(QpChange::default());
    for id in 0..7 {
        peer.post_recv(id);
    }
    peer.send(Part::Only, 0, b"");
    peer.send(Part::Only, 2, b"");
    peer.send(Part::Only, 3, b"");
    assert_eq!(peer.responses(), [ack(0), nak(1, NakCode::PsnSequence)]);
    peer.send(Part::Only, 4, b"");
    assert_eq!(peer.responses(), []);
    peer.send(Part::Only, 2, b"");
    assert_eq!(peer.responses(), [nak(1, NakCode::PsnSequence)]);
    peer.send(Part::Only, 1, b"");
    assert_eq!(peer.responses(), [ack(4)]);
    // The missing packet arrives before the NAK is sent: the NAK is withdrawn.
    peer.send(Part::Only, 6, b"");
    peer.send(Part::Only, 5, b"");
    assert_eq!(peer.responses(), [ack(6)]);
}

/// 9.7.4.1.2, 9.7.4.1.6: wrong order of parts, wrong lengths.
#[test]
fn malformed_messages_get_a_nak() {
    use Part::*;
    let full = [1; 1024];
    for packets in [
        &[(Middle, &full[..])][..],
        &[(Last, b"a")],
        &[(First, &full), (First, &full)],
        &[(First, &full), (Only, b"a")],
        &[(First, &full[..1020])],
        &[(First, &full), (Middle, &full[..4])],
        &[(First, &full), (Last, b"")],
    ] {
        let mut peer = Peer::in_rtr(QpChange::default());
        peer.post_recv(1);
        peer.post_recv(2);
        for (at, (part, payload)) in packets.iter().enumerate() {
            peer.send(*part, at as u32, payload);
        }
        let last = packets.len() as i32 - 1;
        let expected = nak(last, NakCode::InvalidRequest);
        assert_eq!(peer.responses().last(), Some(&expected), "{packets:?}");
        assert_eq!(peer.qp.state(), QpState::Err);
        let statuses = peer.hca.statuses(WorkQueue::Recv);
        let started = last > 0;
        let first = if started {
            IBV_WC_REM_INV_REQ_ERR
        } else {
            IBV_WC_WR_FLUSH_ERR
        };
        assert_eq!(
            statuses,
            [(1, first), (2, IBV_WC_WR_FLUSH_ERR)],
            "{packets:?}"
        );
        assert_eq!(peer.hca.events.contains(&QpEvent::RequestError), !started);
    }
    // WRITEs whose length is not that of their RETH.
    for (len, part, payload_len) in [
        (5, Only, 4),
        (3, Only, 4),
        (1024, First, 1024),
        (1 << 31 | 1, First, 1024),
    ] {
        let mut peer = Peer::in_rtr(QpChange::default());
        let reth = Some(Reth {
            va: BASE,
            rkey: KEY,
            len,
        });
        peer.deliver(
            Headers {
                reth,
                ..Peer::headers(Operation::Write, part, 0)
            },
            &full[..payload_len],
        );
        assert_eq!(peer.responses(), [nak(0, NakCode::InvalidRequest)], "{len}");
    }
}

/// 9.7.5.2.8: packets after the one without a receive WQE are dropped without a NAK.
#[test]
fn rnr_nak_is_sent_once() {
    let mut peer = Peer::in_rtr(QpChange::default());
    peer.send(Part::Only, 0, b"");
    peer.send(Part::Only, 1, b"");
    let expected = (
        Operation::Ack,
        Part::Only,
        0,
        Some(AethKind::RnrNak { timer: 12 }),
    );
    assert_eq!(peer.responses(), [expected]);
    peer.post_recv(1);
    peer.send(Part::Only, 0, b"");
    assert_eq!(peer.responses(), [ack(0)]);
    // A WRITE with immediate data needs its receive WQE for the last packet only.
    let reth = Some(Reth {
        va: BASE,
        rkey: KEY,
        len: 1025,
    });
    peer.deliver(
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
    peer.deliver(last, &[2]);
    let expected = (
        Operation::Ack,
        Part::Only,
        2,
        Some(AethKind::RnrNak { timer: 12 }),
    );
    assert_eq!(peer.responses(), [ack(1), expected]);
    assert_eq!(peer.hca.region(KEY).bytes[1024], 0);
    peer.post_recv(2);
    peer.deliver(last, &[2]);
    assert_eq!(peer.responses(), [ack(2)]);
    assert_eq!(peer.hca.region(KEY).bytes[1024], 2);
}

/// 9.6.1.5.
#[test]
fn packets_of_other_peers_or_in_wrong_states_are_dropped() {
    let mut peer = Peer::in_rtr(QpChange::default());
    let datagram = {
        let headers = Peer::headers(Operation::Send, Part::Only, 0);
        let mut bytes = vec![0; headers.encoded_len() + ICRC_LEN];
        headers.write(&mut bytes);
        bytes
    };
    let packet = Packet::parse(&datagram).unwrap();
    let other_peer = Addresses {
        src: [7; 16],
        ..addresses(1)
    };
    peer.qp
        .receive(&packet, &other_peer, peer.now, &mut peer.hca);
    assert_eq!(peer.responses(), []);
    // Packets of another transport service have no effect.
    for transport in [Transport::Uc, Transport::Xrc] {
        let mut headers = Peer::headers(Operation::Send, Part::Only, 0);
        headers.bth.opcode = Opcode::new(transport, Operation::Send, Part::Only);
        headers.xrc_srqn = (transport == Transport::Xrc).then_some(1);
        peer.deliver(headers, b"");
        assert_eq!((peer.responses(), peer.hca.events.len()), (vec![], 0));
    }
    for state in [QpState::Err, QpState::Reset, QpState::Init] {
        let change = to_state(state);
        peer.qp.modify(&change, peer.now, &mut peer.hca);
        peer.send(Part::Only, 0, b"");
        assert_eq!(peer.responses(), []);
    }
    assert_eq!(peer.hca.events, []);
}

/// A uroce process that does not have port 4791 sends from the port of its queue pair number. Other peers
/// send from any port.
#[test]
fn packets_from_another_port_than_the_peers_are_dropped() {
    let other_port = FIRST_PORT + 8;
    for (dest_qpn, src_port, accepted) in [
        (first_qpn(other_port), other_port, true),
        (first_qpn(other_port), other_port + 1, false),
        (first_qpn(other_port), PORT, false),
        (0x11, PORT, true),
        (0x11, 49_152, true),
    ] {
        let mut peer = Peer::in_rtr(QpChange::default());
        let change = QpChange {
            dest_qpn: Some(dest_qpn),
            ..QpChange::default()
        };
        peer.qp.modify(&change, peer.now, &mut peer.hca);
        let headers = Peer::headers(Operation::Send, Part::Only, 0);
        let mut datagram = vec![0; headers.encoded_len() + ICRC_LEN];
        headers.write(&mut datagram);
        let packet = Packet::parse(&datagram).unwrap();
        let from = Addresses {
            src_port,
            is_marked: false,
            ..addresses(1)
        };
        peer.qp.receive(&packet, &from, peer.now, &mut peer.hca);
        assert_eq!(!peer.responses().is_empty(), accepted, "{src_port}");
    }
}

/// 9.7.7.2: a peer that counts credits is sent one message more than it has receive WQEs for; the next one
/// follows when that is acknowledged.
#[test]
fn the_requester_respects_credits() {
    let mut peer = Peer::in_rtr(QpChange::default());
    let change = QpChange {
        state: Some(QpState::Rts),
        sq_psn: Some(psn(100)),
        ..QpChange::default()
    };
    peer.qp.modify(&change, peer.now, &mut peer.hca);
    let post = |peer: &mut Peer, id| {
        let request = send_wr(id, SendOp::Send, &[]);
        assert!(peer.qp.post_send(request, &mut peer.hca));
        peer.responses().len()
    };
    assert_eq!(post(&mut peer, 1), 1);
    let ack = |peer: &mut Peer, at, credits, msn| {
        let aeth = Some(Aeth {
            kind: AethKind::Ack { credits },
            msn,
        });
        peer.deliver(
            Headers {
                aeth,
                ..Peer::headers(Operation::Ack, Part::Only, at)
            },
            &[],
        );
        peer.responses().len()
    };
    // The first message is complete, and there is one more receive WQE.
    assert_eq!(ack(&mut peer, 100, 1, 1), 0);
    assert_eq!([2, 3, 4].map(|id| post(&mut peer, id)), [1, 0, 0]);
    assert_eq!(ack(&mut peer, 101, 0, 2), 1);
    assert_eq!(ack(&mut peer, 102, 31, 3), 1);
    assert_eq!([5, 6].map(|id| post(&mut peer, id)), [1, 1]);
}

/// The valid that the operation needs, and no other.
#[test]
fn access_rights_are_checked_before_execution() {
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
        for only_others in [true, false] {
            let mut peer = Peer::in_rtr(change);
            let region = peer.hca.region(KEY);
            region.writable = (operation == Operation::Write) == only_others;
            region.readable = (operation == Operation::ReadRequest) == only_others;
            region.atomic = (operation == Operation::FetchAdd) == only_others;
            match operation {
                Operation::Write => peer.deliver(write(Part::First, 2000, KEY), &[1; 1024]),
                Operation::ReadRequest => peer.read(0, BASE, 2000),
                _ => peer.fetch_add(0),
            }
            let rejected = peer.responses() == [nak(0, NakCode::RemoteAccess)];
            assert_eq!(rejected, !only_others, "{operation:?}");
            assert_eq!(
                peer.hca.region(KEY).bytes[0] == 0,
                !only_others || operation == Operation::ReadRequest
            );
        }
    }
    // The longest message is too long for the region only.
    for (len, code) in [
        (1 << 31, NakCode::RemoteAccess),
        ((1 << 31) + 1, NakCode::InvalidRequest),
    ] {
        let mut peer = Peer::in_rtr(QpChange::default());
        peer.deliver(write(Part::First, len, KEY), &[1; 1024]);
        assert_eq!(peer.responses(), [nak(0, code)]);
        let mut peer = Peer::in_rtr(QpChange::default());
        peer.read(0, BASE, len);
        assert_eq!(peer.responses(), [nak(0, code)]);
    }
}

/// 9.9.3.2: no event is raised in that case.
#[test]
fn a_taken_receive_wr_reports_the_error() {
    for (rkey, va) in [(KEY + 1, BASE), (KEY, 0)] {
        let mut peer = Peer::in_rtr(QpChange::default());
        peer.post_recv(1);
        peer.post_recv(2);
        let headers = Headers {
            reth: Some(Reth { va, rkey, len: 4 }),
            imm: Some(1),
            ..Peer::headers(Operation::WriteImm, Part::Only, 0)
        };
        peer.deliver(headers, b"data");
        assert_eq!(peer.responses(), [nak(0, NakCode::RemoteAccess)]);
        assert_eq!(
            peer.hca.statuses(WorkQueue::Recv),
            [(1, IBV_WC_LOC_ACCESS_ERR), (2, IBV_WC_WR_FLUSH_ERR)]
        );
        assert_eq!(peer.hca.events, [QpEvent::CommunicationEstablished]);
    }
}

/// 10.3.1.7.
#[test]
fn the_receive_wr_of_a_started_message_is_flushed_first() {
    for srq in [false, true] {
        let config = QpConfig {
            has_srq: srq,
            ..config(Service::Rc, 0)
        };
        let mut peer = Peer::in_rtr_with(config, QpChange::default());
        if srq {
            let receives = [1, 2].map(|id| recv_wr(id, &[sge(0, 10_000)]));
            peer.hca.shared.extend(receives);
        } else {
            peer.post_recv(1);
            peer.post_recv(2);
        }
        peer.send(Part::First, 0, &[1; 1024]);
        peer.modify(QpState::Err, QpChange::default());
        // The WRs in the shared receive queue do not belong to this queue pair.
        let flushed: &[u64] = if srq { &[1] } else { &[1, 2] };
        let flushed: Vec<_> = flushed
            .iter()
            .map(|id| (*id, IBV_WC_WR_FLUSH_ERR))
            .collect();
        assert_eq!(peer.hca.statuses(WorkQueue::Recv), flushed);
        let events = &peer.hca.events[1..];
        assert_eq!(
            events,
            if srq {
                &[QpEvent::LastWqeReached][..]
            } else {
                &[]
            }
        );
        peer.modify(QpState::Err, QpChange::default());
        assert_eq!(peer.hca.completions.len(), flushed.len());
    }
}

/// 9.7.4.1.2, 9.9.3 class C.
#[test]
fn reserved_opcodes_get_a_nak() {
    let reserved = |number, at| {
        let headers = Peer::headers(Operation::Send, Part::Only, at);
        let bth = Bth {
            opcode: Opcode(number),
            ..headers.bth
        };
        Headers::new(bth)
    };
    for number in [0x15, 0x18, 0x1b, 0x1e, 0x1f] {
        let mut peer = Peer::in_rtr(QpChange::default());
        peer.deliver(reserved(number, 0), b"abcd");
        assert_eq!(peer.responses(), [nak(0, NakCode::InvalidRequest)]);
        assert_eq!(peer.qp.state(), QpState::Err);
        assert!(peer.hca.events.contains(&QpEvent::RequestError));
    }
    // Only a packet with the ePSN.
    let mut peer = Peer::in_rtr(QpChange::default());
    peer.post_recv(1);
    peer.send(Part::Only, 0, b"");
    assert_eq!(peer.responses(), [ack(0)]);
    peer.deliver(reserved(0x15, 0), b"");
    assert_eq!(peer.responses(), []);
    peer.deliver(reserved(0x15, 2), b"");
    assert_eq!(peer.responses(), [nak(1, NakCode::PsnSequence)]);
    assert_eq!(peer.qp.state(), QpState::Rtr);
}

/// 9.9.3 class J: no NAK. The data has arrived.
#[test]
fn a_failed_invalidation_is_reported_to_the_receiver_only() {
    for ack_request in [true, false] {
        let mut peer = Peer::in_rtr(QpChange::default());
        peer.post_recv(1);
        peer.post_recv(2);
        peer.send(Part::First, 0, &[1; 1024]);
        assert_eq!(peer.responses(), [ack(0)]);
        let mut headers = Peer::headers(Operation::SendInv, Part::Last, 1);
        headers.ieth = Some(KEY + 1);
        headers.bth.ack_request = ack_request;
        peer.deliver(headers, b"data");
        let acks = [ack(1)];
        assert_eq!(peer.responses(), acks[..usize::from(ack_request)]);
        assert_eq!(peer.hca.region(KEY).bytes[1024..1028], *b"data");
        assert_eq!(
            peer.hca.statuses(WorkQueue::Recv),
            [(1, IBV_WC_REM_INV_REQ_ERR), (2, IBV_WC_WR_FLUSH_ERR)]
        );
        assert_eq!(peer.hca.events, [QpEvent::CommunicationEstablished]);
        assert_eq!(peer.qp.state(), QpState::Err);
    }
}

/// Neither new requests nor duplicates, whoever moved the queue pair to ERR.
#[test]
fn nothing_is_executed_in_err() {
    for by_the_peer in [true, false] {
        let mut peer = Peer::in_rts(ATTRIBUTES);
        peer.fetch_add(0);
        assert_eq!(peer.responses().len(), 1);
        peer.post_send(1, 10);
        peer.post_read(2, 10);
        assert_eq!(peer.sent(), [0, 1]);
        if by_the_peer {
            peer.deliver(Peer::headers(Operation::Send, Part::Last, 1), b"abcd");
            assert_eq!(peer.responses(), [nak(1, NakCode::InvalidRequest)]);
        } else {
            peer.modify(QpState::Err, QpChange::default());
        }
        let flushed = [1, 2].map(|id| (id, IBV_WC_WR_FLUSH_ERR));
        assert_eq!(peer.send_completions(), flushed);
        peer.fetch_add(0);
        peer.fetch_add(1);
        peer.atomic_write(1, 8, 9);
        peer.read(1, BASE, 8);
        peer.send(Part::Only, 1, b"abcd");
        peer.ack(0);
        peer.read_response(Part::Only, 1, &[9; 10]);
        assert_eq!(peer.responses(), []);
        assert_eq!(peer.qp.next_timeout(), None);
        assert_eq!(peer.hca.atomics, 1);
        assert_eq!(peer.hca.region(KEY).bytes[..16], {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&1u64.to_ne_bytes());
            bytes
        });
        assert_eq!(peer.send_completions(), flushed);
    }
}

/// Annex A19.4.2. (A packet with another payload is malformed.)
#[test]
fn atomic_writes_must_have_eight_bytes() {
    for (len, valid) in [(8, true), (4, false), (0, false), (16, false)] {
        let mut peer = Peer::in_rtr(QpChange::default());
        peer.atomic_write(0, len, 1);
        let response = (Operation::ReadResponse, Part::Only, 0, OK);
        let nak = nak(0, NakCode::InvalidRequest);
        assert_eq!(peer.responses(), [if valid { response } else { nak }]);
        assert_eq!(peer.hca.atomics, u64::from(valid));
    }
}

/// An ATOMIC WRITE occupies a responder resource.
#[test]
fn atomic_write_without_rd_atomic_resources_is_invalid() {
    let mut peer = Peer::responder(0);
    peer.atomic_write(0, 8, 1);
    assert_eq!(peer.responses(), [nak(0, NakCode::InvalidRequest)]);
    assert_eq!(peer.hca.atomics, 0);
}
