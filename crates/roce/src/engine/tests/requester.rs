//! Requester and completer, packet by packet: what is sent when, and what responses cause.

use ibverbs_abi::*;

use super::network::*;
use super::peer::*;
use crate::engine::*;
use crate::wire::{AethKind, NakCode, Operation, Part};

pub fn fenced(id: u64) -> SendWr {
    let mut request = send_wr(id, SendOp::Send, &[]);
    request.flags.fence = true;
    request
}

/// 9.7.2.3. So does each packet after which no other request for an acknowledgment follows soon.
#[test]
fn the_last_packet_of_a_batch_requests_an_ack() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    for id in 0..3 {
        peer.post_send(id, 10);
    }
    assert_eq!(
        peer.sent_with_ack_req(),
        [(0, false), (1, false), (2, true)]
    );
    peer.ack(2);
    assert_eq!(peer.send_completions(), success(0..3));
    // The next WQE is local, or waits for the acknowledgment.
    peer.hca.add(7, 0, 1);
    peer.post_send(3, 10);
    peer.post_wr(send_wr(4, SendOp::LocalInv { rkey: 7 }, &[]));
    assert_eq!(peer.sent_with_ack_req(), [(3, true)]);
    peer.ack(3);
    assert_eq!(peer.sent_with_ack_req(), []);
    assert_eq!(peer.send_completions(), success(0..5));
    peer.post_send(5, 10);
    peer.post_wr(fenced(6));
    assert_eq!(peer.sent_with_ack_req(), [(4, true), (5, true)]);
    // A READ is acknowledged by its response.
    peer.post_read(7, 10);
    peer.post_send(8, 10);
    assert_eq!(peer.sent_with_ack_req(), [(6, true), (7, true)]);
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_send(0, 10);
    peer.post_wr(send_wr(1, SendOp::Send, &[sge(0, 1 << 31), sge(0, 1)]));
    assert_eq!(peer.sent_with_ack_req(), [(0, true)]);
    peer.ack(0);
    assert_eq!(
        peer.send_completions(),
        [(0, IBV_WC_SUCCESS), (1, IBV_WC_LOC_LEN_ERR)]
    );
}

#[test]
fn long_messages_request_acks_at_intervals() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_send(0, 100 << 10);
    let ack_reqs = |sent: Vec<(u32, bool)>| -> Vec<u32> {
        sent.iter()
            .filter(|(_, ack_req)| *ack_req)
            .map(|(at, _)| *at)
            .collect()
    };
    // The initial window is 64 packets.
    let sent = peer.sent_with_ack_req();
    assert_eq!((sent.len(), ack_reqs(sent)), (64, vec![32, 63]));
    assert_eq!(peer.sent_with_ack_req(), []);
    peer.ack(63);
    let sent = peer.sent_with_ack_req();
    assert_eq!((sent.len(), ack_reqs(sent)), (36, vec![96, 99]));
    // In a retransmission: the first packet, and one at half of the window, which was halved.
    peer.keeps_nothing();
    peer.nak(64, NakCode::PsnSequence);
    let sent = peer.sent_with_ack_req();
    assert_eq!((sent[0].0, ack_reqs(sent)), (64, vec![64, 97, 99]));
    // With larger packets the initial window is 16 packets; an ACK is requested at half of it.
    let mut peer = Peer::in_rts(QpChange {
        path_mtu: Some(4096),
        ..ATTRIBUTES
    });
    peer.post_send(0, 100 << 10);
    let sent = peer.sent_with_ack_req();
    assert_eq!((sent.len(), ack_reqs(sent)), (16, vec![8, 15]));
}

#[test]
fn acks_of_unsent_packets_are_ignored() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_send(0, 10);
    assert_eq!(peer.sent(), [0]);
    peer.ack(1);
    peer.nak(1, NakCode::RemoteAccess);
    peer.ack(1 << 22);
    assert_eq!(
        (peer.send_completions(), peer.qp.state()),
        (vec![], QpState::Rts)
    );
    peer.post_send(1, 10);
    assert_eq!(peer.sent(), [1]);
    peer.ack(1);
    assert_eq!(peer.send_completions(), success(0..2));
    // NAKs of acknowledged packets are ignored too.
    peer.nak(1, NakCode::RemoteAccess);
    peer.rnr_nak(0);
    peer.post_send(2, 10);
    assert_eq!(peer.sent(), [2]);
    assert_eq!(peer.qp.state(), QpState::Rts);
}

/// The congestion window limits the responses in flight, `max_rd_atomic` the requests.
#[test]
fn long_reads_are_split_into_requests() {
    let requests = |peer: &mut Peer| -> Vec<(u64, u32)> {
        let packets = peer.packets().into_iter();
        let reths = packets.map(|(headers, _)| headers.reth.unwrap());
        reths.map(|reth| (reth.va - BASE, reth.len)).collect()
    };
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_read(0, 200_000);
    assert_eq!(requests(&mut peer), [(0, 65536)]);
    let payload = [7; 1024];
    let mut requested = vec![];
    for at in 0..64 {
        let part = match at {
            0 => Part::First,
            63 => Part::Last,
            _ => Part::Middle,
        };
        // The window grows by one with each response.
        assert_eq!(requested.len(), usize::from(at >= 32));
        peer.read_response(part, at, &payload);
        requested.extend(requests(&mut peer));
    }
    assert_eq!(requested, [(65536, 65536), (131_072, 65536)]);
    peer.read_response(Part::First, 64, &payload);
    assert_eq!(requests(&mut peer), []);
    peer.read_response(Part::Middle, 65, &payload);
    assert_eq!(requests(&mut peer), [(196_608, 3392)]);
    // After a lost response the rest is requested from there on.
    peer.now = Time(peer.now.0 + 1_000_000);
    peer.read_response(Part::Middle, 67, &payload);
    assert_eq!(requests(&mut peer)[0], (66 << 10, 62 << 10));

    // Short READs are sent at once, up to `max_rd_atomic`.
    let mut peer = Peer::requester(3);
    for id in 0..5 {
        peer.post_read(id, 10);
    }
    assert_eq!(peer.sent(), [0, 1, 2]);
    peer.read_response(Part::Only, 0, &[1; 10]);
    assert_eq!(peer.sent(), [3]);
    // `max_rd_atomic` 0: READs fail.
    let mut peer = Peer::requester(0);
    peer.post_read(0, 10);
    assert_eq!(peer.sent(), []);
    assert_eq!(peer.send_completions(), [(0, IBV_WC_LOC_QP_OP_ERR)]);
}

/// 10.8.3.3.
#[test]
fn a_fence_waits_for_the_last_read_response() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_read(0, 2000);
    peer.post_wr(fenced(1));
    peer.post_send(2, 10);
    assert_eq!(peer.sent(), [0]);
    peer.read_response(Part::First, 0, &[1; 1024]);
    assert_eq!(peer.sent(), []);
    peer.read_response(Part::Last, 1, &[1; 976]);
    assert_eq!(peer.sent(), [2, 3]);
}

/// A message that cannot be finished is not started.
#[test]
fn sges_are_checked_before_the_first_packet() {
    let bad = Sge {
        lkey: 1,
        ..sge(0, 2000)
    };
    let (va, rkey) = (BASE, KEY);
    for kind in [SendOp::Send, SendOp::Write { va, rkey }] {
        let mut peer = Peer::in_rts(ATTRIBUTES);
        peer.post_wr(send_wr(0, kind, &[sge(0, 2000), bad]));
        assert_eq!(peer.sent(), [], "{kind:?}");
        let failed = [(0, IBV_WC_LOC_PROT_ERR)];
        assert_eq!(peer.send_completions(), failed, "{kind:?}");
        assert_eq!(peer.qp.state(), QpState::Err);
    }
    // Inline data has no SGEs: its L_Keys are not checked.
    let mut peer = Peer::in_rts(ATTRIBUTES);
    let mut inline = send_wr(0, SendOp::Send, &[bad]);
    let data: Vec<u8> = (0..1500).map(|at| (at / 7) as u8).collect();
    inline.data = Data::Inline(data.as_slice().into());
    peer.post_wr(inline);
    let sent: Vec<u8> = peer
        .packets()
        .into_iter()
        .flat_map(|packet| packet.1)
        .collect();
    assert!(sent == data);
}

/// 9.7.7.2: other messages are not limited.
#[test]
fn credits_limit_messages_that_consume_receives() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_send(0, 10);
    peer.post_send(1, 10);
    assert_eq!(peer.sent(), [0, 1]);
    // The peer has one receive WQE after message 0: for message 1, which is in flight.
    peer.respond_with(
        Operation::Ack,
        Part::Only,
        0,
        AethKind::Ack { credits: 1 },
        &[],
    );
    let (va, rkey) = (BASE, KEY);
    peer.post_wr(send_wr(2, SendOp::Write { va, rkey }, &[sge(0, 10)]));
    peer.post_send(3, 10);
    assert_eq!(peer.sent(), [2]);
    peer.ack(2);
    assert_eq!(peer.sent(), [3]);
    // The peer has three receive WQEs, the first of which message 0 consumed: two messages are sent.
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_send(0, 10);
    assert_eq!(peer.sent(), [0]);
    let kind = AethKind::Ack { credits: 3 };
    peer.respond_with(Operation::Ack, Part::Only, 0, kind, &[]);
    for id in 1..4 {
        peer.post_send(id, 10);
    }
    assert_eq!(peer.sent(), [1, 2]);
}

/// 9.7.5.1.2, 9.9.2: responses that do not match the request.
#[test]
fn invalid_responses_are_errors() {
    use Operation::*;
    let ok = AethKind::Ack { credits: 31 };
    let nak = AethKind::Nak(NakCode::RemoteAccess);
    for (operation, part, kind, data) in [
        (ReadResponse, Part::Only, ok, &[1; 9][..]),
        (ReadResponse, Part::Only, ok, &[1; 11]),
        (ReadResponse, Part::Only, ok, &[]),
        (ReadResponse, Part::Only, nak, &[1; 10]),
    ] {
        let mut peer = Peer::in_rts(ATTRIBUTES);
        peer.post_read(0, 10);
        peer.post_send(1, 10);
        peer.sent();
        peer.respond_with(operation, part, 0, kind, data);
        assert_eq!(
            peer.send_completions(),
            [(0, IBV_WC_BAD_RESP_ERR), (1, IBV_WC_WR_FLUSH_ERR)]
        );
        assert!(peer.hca.region(KEY).bytes[..10] == [0; 10]);
    }
    // A READ response to a SEND.
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_send(0, 10);
    peer.sent();
    peer.read_response(Part::Only, 0, &[1; 10]);
    assert_eq!(peer.send_completions(), [(0, IBV_WC_BAD_RESP_ERR)]);
    // An ACK of a READ: the READ response was lost.
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_read(0, 10);
    assert_eq!(peer.sent(), [0]);
    peer.ack(0);
    assert_eq!(peer.sent(), [0]);
    peer.read_response(Part::Only, 0, &[1; 10]);
    assert_eq!(peer.send_completions(), success([0]));
}

#[test]
fn naks_map_to_completion_statuses() {
    for (code, status) in [
        (NakCode::InvalidRequest, IBV_WC_REM_INV_REQ_ERR),
        (NakCode::RemoteAccess, IBV_WC_REM_ACCESS_ERR),
        (NakCode::RemoteOperational, IBV_WC_REM_OP_ERR),
        (NakCode::InvalidRdRequest, IBV_WC_REM_INV_RD_REQ_ERR),
    ] {
        let mut peer = Peer::in_rts(ATTRIBUTES);
        for id in 0..3 {
            peer.post_send(id, 10);
        }
        peer.sent();
        peer.nak(1, code);
        let expected = [(0, IBV_WC_SUCCESS), (1, status), (2, IBV_WC_WR_FLUSH_ERR)];
        assert_eq!(peer.send_completions(), expected);
        assert_eq!(peer.qp.state(), QpState::Err);
        assert_eq!(peer.qp.next_timeout(), None);
    }
}

/// `max_send_wr`, `max_recv_wr`.
#[test]
fn queues_are_limited_to_their_depth() {
    let limits = Limits {
        max_send_wr: 3,
        max_recv_wr: 2,
    };
    let config = QpConfig {
        limits,
        ..config(Service::Rc, 0)
    };
    let mut peer = Peer::in_rts_with(config, ATTRIBUTES);
    for id in 0..5 {
        let taken = peer
            .qp
            .post_send(send_wr(id, SendOp::Send, &[]), &mut peer.hca);
        assert_eq!(taken, id < 3);
        let taken = peer.qp.post_recv(recv_wr(id, &[]), &mut peer.hca);
        assert_eq!(taken, id < 2);
    }
    assert_eq!((peer.qp.send_depth(), peer.qp.recv_depth()), (3, 2));
    let new = Qp::new(config);
    assert_eq!((new.state(), new.sq_draining()), (QpState::Reset, false));
}

/// 9.2, 9.6: the fields of every packet, and those of a message's last packet.
#[test]
fn headers_carry_all_fields() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    let mut message = send_wr(0, SendOp::SendImm { imm: 9 }, &[sge(0, 1027)]);
    message.flags.solicited = true;
    peer.post_wr(message);
    let (va, rkey) = (BASE, KEY);
    let mut write = send_wr(1, SendOp::Write { va, rkey }, &[sge(0, 1026)]);
    write.flags.solicited = true;
    peer.post_wr(write);
    let packets = peer.packets();
    let seen: Vec<_> = packets
        .iter()
        .map(|(headers, payload)| {
            let bth = &headers.bth;
            assert_eq!(
                (bth.migrated, bth.pkey, bth.dest_qpn),
                (true, 0xffff, qpn(1))
            );
            let reth = headers.reth.map(|reth| (reth.va, reth.rkey, reth.len));
            (bth.solicited, bth.pad, headers.imm, reth, payload.len())
        })
        .collect();
    // A WRITE without immediate data consumes no receive WQE whose completion could be solicited.
    assert_eq!(
        seen,
        [
            (false, 0, None, None, 1024),
            (true, 1, Some(9), None, 3),
            (false, 0, None, Some((BASE, KEY, 1026)), 1024),
            (false, 2, None, None, 2),
        ]
    );
}

/// 10.7.3.1: errors always produce a CQE.
#[test]
fn unsignaled_wqes_complete_without_cqe() {
    let config = QpConfig {
        sq_sig_all: false,
        ..config(Service::Rc, 0)
    };
    let mut peer = Peer::in_rts_with(config, ATTRIBUTES);
    for id in 0..4 {
        let mut request = send_wr(id, SendOp::Send, &[]);
        request.flags.signaled = id == 1;
        peer.post_wr(request);
    }
    peer.sent();
    peer.ack(1);
    assert_eq!(
        (peer.send_completions(), peer.qp.send_depth()),
        (success([1]), 2)
    );
    peer.nak(2, NakCode::RemoteOperational);
    assert_eq!(
        peer.send_completions()[1..],
        [(2, IBV_WC_REM_OP_ERR), (3, IBV_WC_WR_FLUSH_ERR)]
    );
    let solicited = peer.hca.completions.iter().map(|c| c.1.solicited);
    assert!(solicited.eq([false, true, true]));
}

/// The completion queue is full: the queue pair moves to ERR.
#[test]
fn a_lost_send_completion_is_fatal() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.hca.room = Some(1);
    for id in 0..3 {
        peer.post_send(id, 10);
    }
    peer.sent();
    peer.ack(2);
    assert_eq!(peer.send_completions(), success([0]));
    assert_eq!((peer.qp.state(), peer.qp.send_depth()), (QpState::Err, 0));
    assert_eq!(peer.hca.events, [QpEvent::Fatal]);
    assert_eq!((peer.sent(), peer.qp.next_timeout()), (vec![], None));
}

/// An ATOMIC WRITE counts against `max_rd_atomic` until it is acknowledged itself.
#[test]
fn atomic_writes_occupy_rd_atomic_until_the_response() {
    let mut peer = Peer::requester(1);
    let (va, rkey, data) = (BASE, KEY, [1; 8]);
    peer.post_send(0, 10);
    for id in 1..4 {
        let kind = SendOp::AtomicWrite { va, rkey, data };
        peer.post_wr(send_wr(id, kind, &[]));
    }
    assert_eq!(peer.sent(), [0, 1]);
    peer.ack(0);
    assert_eq!(peer.sent(), []);
    peer.read_response(Part::Only, 1, &[]);
    assert_eq!(peer.sent(), [2]);
    // An ACK has the same effect as the response.
    peer.ack(2);
    assert_eq!(
        (peer.sent(), peer.send_completions()),
        (vec![3], success(0..3))
    );
}

/// 9.7.1.1. The memory does not exist, so a message of valid length fails with a protection error.
#[test]
fn the_longest_message_has_two_gibibytes() {
    for (more, status) in [(0, IBV_WC_LOC_PROT_ERR), (1, IBV_WC_LOC_LEN_ERR)] {
        let mut peer = Peer::in_rts(ATTRIBUTES);
        peer.post_send(0, (1 << 31) + more);
        assert_eq!(peer.sent(), []);
        assert_eq!(peer.send_completions(), [(0, status)]);
    }
}

/// The packet before it did not request an ACK, since another packet was to follow.
#[test]
fn a_failed_wqe_requests_the_outstanding_acks() {
    let bad = Sge {
        lkey: 1,
        ..sge(0, 10)
    };
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_send(0, 10);
    peer.post_wr(send_wr(1, SendOp::Send, &[bad]));
    assert_eq!(peer.sent_with_ack_req(), [(0, false)]);
    assert_eq!(peer.wait_for_timer(), us(0));
    assert_eq!(peer.sent_with_ack_req(), [(0, true)]);
    peer.ack(0);
    assert_eq!(
        peer.send_completions(),
        [(0, IBV_WC_SUCCESS), (1, IBV_WC_LOC_PROT_ERR)]
    );
}
