//! Unreliable connections and datagrams.

use ibverbs_abi::*;

use super::network::*;
use crate::engine::*;
use crate::wire::Psn;

pub fn pair(services: [Service; 2], impair: Box<Impair>) -> Network {
    let psns = [Psn::new(0xff_ffff), Psn::new(3)];
    let mut network = Network::new(
        [config(services[0], 0), config(services[1], 1)],
        [attributes(0, psns, 1024), attributes(1, psns, 1024)],
        impair,
    );
    let bytes = &mut network.sides[0].hca.region(KEY).bytes;
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = (i * 3 + i / 256) as u8;
    }
    network
}

pub fn statuses(network: &Network, side: usize, queue: WorkQueue) -> Vec<(u64, u32)> {
    network.sides[side].hca.statuses(queue)
}

/// 9.8.2.2: the next message takes the receive WR.
#[test]
fn uc_drops_messages_that_lost_a_packet() {
    for lost in 0..9 {
        let mut count = 0;
        let impair: Box<Impair> = Box::new(move |_, _| {
            count += 1;
            if count == lost { vec![] } else { vec![us(1)] }
        });
        let mut network = pair([Service::Uc, Service::Uc], impair);
        for id in 0..2 {
            network.post_recv(1, recv_wr(id, &[sge(id * 10_000, 4000)]));
        }
        network.post_send(0, send_wr(1, SendOp::Send, &[sge(7, 4000)]));
        network.post_send(
            0,
            send_wr(2, SendOp::SendImm { imm: 5 }, &[sge(5000, 3500)]),
        );
        network.run();
        // The sender does not notice.
        assert_eq!(
            statuses(&network, 0, WorkQueue::Send),
            [1, 2].map(|id| (id, IBV_WC_SUCCESS))
        );
        let got: Vec<u32> = network.sides[1]
            .hca
            .completions
            .iter()
            .map(|c| c.1.byte_len)
            .collect();
        let all = [4000, 3500];
        let expected = match lost {
            0 => &all[..],
            1..=4 => &all[1..],
            _ => &all[..1],
        };
        assert_eq!(got, expected, "{lost}");
        let [near, far] = &mut network.sides;
        let (near, far) = (&near.hca.region(KEY).bytes, &far.hca.region(KEY).bytes);
        match lost {
            1..=4 => assert!(near[5000..8500] == far[..3500]),
            _ => assert!(near[7..4007] == far[..4000]),
        }
    }
}

/// Threads of the receiver pass packets on in another order than they arrived in.
#[test]
fn uc_puts_packets_in_order_that_threads_reorder() {
    // The first packets of the first message come last.
    let late = |count: usize| if count <= 2 { us(50) } else { us(1) };
    for reorders in [true, false] {
        let mut count = 0;
        let impair: Box<Impair> = Box::new(move |_, _| {
            count += 1;
            vec![late(count)]
        });
        let mut network = pair([Service::Uc, Service::Uc], impair);
        network.sides[1].hca.reorders = reorders;
        for id in 0..2 {
            network.post_recv(1, recv_wr(id, &[sge(id * 10_000, 4000)]));
        }
        network.post_send(0, send_wr(1, SendOp::Send, &[sge(7, 4000)]));
        network.post_send(0, send_wr(2, SendOp::Send, &[sge(5000, 3500)]));
        network.run();
        let far = &network.sides[1];
        let got: Vec<u32> = far.hca.completions.iter().map(|c| c.1.byte_len).collect();
        assert_eq!(
            got,
            if reorders {
                vec![4000, 3500]
            } else {
                vec![3500]
            }
        );
        assert!(!far.qp.has_early_packets());
        if reorders {
            let near = &network.sides[0].hca.regions[0].bytes;
            let far = &network.sides[1].hca.regions[0].bytes;
            assert!(near[7..4007] == far[..4000] && near[5000..8500] == far[10_000..13_500]);
        }
    }
}

/// A packet that was lost holds up the messages behind it only as long as it may still come.
#[test]
fn uc_delivers_what_waits_for_a_lost_packet() {
    for reset in [false, true] {
        let mut count = 0;
        let impair: Box<Impair> = Box::new(move |_, _| {
            count += 1;
            if count == 2 { vec![] } else { vec![us(1)] }
        });
        let mut network = pair([Service::Uc, Service::Uc], impair);
        network.sides[1].hca.reorders = true;
        for id in 0..2 {
            network.post_recv(1, recv_wr(id, &[sge(id * 10_000, 4000)]));
        }
        network.post_send(0, send_wr(1, SendOp::Send, &[sge(7, 4000)]));
        network.post_send(0, send_wr(2, SendOp::Send, &[sge(5000, 3500)]));
        network.run();
        let far = &mut network.sides[1];
        far.qp.deliver_early(&mut far.hca);
        assert!(far.qp.has_early_packets() && far.hca.completions.is_empty());
        far.hca.reorders = false;
        if reset {
            let state = Some(QpState::Reset);
            let change = QpChange {
                state,
                ..QpChange::default()
            };
            far.qp.modify(&change, network.now, &mut far.hca);
        }
        far.qp.deliver_early(&mut far.hca);
        assert!(!far.qp.has_early_packets());
        let got: Vec<u32> = far.hca.completions.iter().map(|c| c.1.byte_len).collect();
        assert_eq!(got, if reset { vec![] } else { vec![3500] });
    }
}

#[test]
fn uc_drops_forbidden_writes_without_a_nak() {
    let mut network = pair([Service::Uc, Service::Uc], lossless(us(1)));
    let (va, rkey) = (BASE + 100, KEY);
    network.post_recv(1, recv_wr(1, &[]));
    network.post_send(
        0,
        send_wr(1, SendOp::Write { va, rkey: 1 }, &[sge(0, 3000)]),
    );
    network.post_send(0, send_wr(2, SendOp::Write { va: 0, rkey }, &[sge(0, 30)]));
    assert!(network.is_memory_zero(1));
    network.post_send(
        0,
        send_wr(3, SendOp::WriteImm { va, rkey, imm: 7 }, &[sge(0, 3000)]),
    );
    // There is no receive WR for this one.
    network.post_send(
        0,
        send_wr(4, SendOp::WriteImm { va, rkey, imm: 8 }, &[sge(9, 10)]),
    );
    network.run();
    assert_eq!(statuses(&network, 0, WorkQueue::Send).len(), 4);
    assert_eq!(
        statuses(&network, 1, WorkQueue::Recv),
        [(1, IBV_WC_SUCCESS)]
    );
    assert_eq!(network.sides[1].hca.completions[0].1.byte_len, 3000);
    let [near, far] = &mut network.sides;
    assert!(near.hca.region(KEY).bytes[..3000] == far.hca.region(KEY).bytes[100..3100]);
    assert_eq!(far.qp.state(), QpState::Rts);
}

/// 10.3.1.6: a local error stops the send queue only, until the move to RTS.
#[test]
fn unreliable_send_queues_go_to_sqe() {
    let mut network = pair([Service::Uc, Service::Uc], lossless(us(1)));
    network.post_recv(1, recv_wr(1, &[sge(0, 100)]));
    let bad = Sge {
        lkey: 1,
        ..sge(0, 10)
    };
    // Posted in SQD, so that both WQEs are queued when sending starts.
    network.set_state(0, QpState::Sqd);
    network.post_send(0, send_wr(1, SendOp::Send, &[bad]));
    network.post_send(0, send_wr(2, SendOp::Send, &[sge(0, 10)]));
    network.set_state(0, QpState::Rts);
    assert_eq!(network.sides[0].qp.state(), QpState::Sqe);
    network.post_send(0, send_wr(3, SendOp::Send, &[sge(0, 10)]));
    assert_eq!(
        statuses(&network, 0, WorkQueue::Send),
        [
            (1, IBV_WC_LOC_PROT_ERR),
            (2, IBV_WC_WR_FLUSH_ERR),
            (3, IBV_WC_WR_FLUSH_ERR),
        ]
    );
    network.set_state(0, QpState::Rts);
    network.post_send(0, send_wr(4, SendOp::Send, &[sge(0, 10)]));
    network.run();
    assert_eq!(
        statuses(&network, 0, WorkQueue::Send)[3..],
        [(4, IBV_WC_SUCCESS)]
    );
    assert_eq!(
        statuses(&network, 1, WorkQueue::Recv),
        [(1, IBV_WC_SUCCESS)]
    );
}

fn datagram(wr_id: u64, len: u32, qkey: u32) -> SendWr {
    let mut request = send_wr(wr_id, SendOp::SendImm { imm: 3 }, &[sge(0, len)]);
    request.ud = Some(UdAddress {
        av: av(1),
        qpn: qpn(1),
        qkey,
    });
    request
}

/// 9.8.3, 10.2.5. The GRH precedes the data.
#[test]
fn datagrams_arrive_if_the_qkey_matches() {
    let mut network = pair([Service::Ud, Service::Ud], lossless(us(1)));
    network.post_recv(1, recv_wr(1, &[sge(0, 20), sge(100, 200)]));
    network.post_recv(1, recv_wr(2, &[sge(0, 40)]));
    network.post_send(0, datagram(1, 90, 1));
    // With the highest bit set, the Q_Key of the queue pair is sent.
    network.post_send(0, datagram(2, 100, 1 << 31));
    // Too long for the receive WR: dropped. Then one that fits.
    network.post_send(0, datagram(3, 1, 0x1234));
    network.post_send(0, datagram(4, 0, 0x1234));
    // C10-93.1.1: longer than the path MTU, dropped by the sender.
    network.post_send(0, datagram(5, 1025, 0x1234));
    network.run();
    assert_eq!(
        statuses(&network, 0, WorkQueue::Send),
        [1, 2, 3, 4, 5].map(|id| (id, IBV_WC_SUCCESS))
    );
    assert_eq!(network.packets_sent[0], 4);
    assert_eq!(
        statuses(&network, 1, WorkQueue::Recv),
        [1, 2].map(|id| (id, IBV_WC_SUCCESS))
    );
    let (_, first) = network.sides[1].hca.completions[0];
    assert_eq!((first.byte_len, first.src_qpn), (140, qpn(0)));
    assert_eq!(first.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
    // The GRH is an IPv6 header.
    assert_eq!(first.sl, 0b1001);
    let [near, far] = &mut network.sides;
    let (near, far) = (&near.hca.region(KEY).bytes, &far.hca.region(KEY).bytes);
    assert!(far[100..120] == [0x60; 20] && far[120..220] == near[..100]);
}

/// 10.3.1.6, 9.8.2. And a message that cannot be finished is not started.
#[test]
fn operations_that_a_service_lacks_fail() {
    let (va, rkey) = (BASE, KEY);
    let bad = Sge {
        lkey: 1,
        ..sge(0, 2000)
    };
    let address = datagram(1, 1, 0).ud;
    for (service, kind, sges, ud, status) in [
        (
            Service::Uc,
            SendOp::SendInv { rkey },
            vec![],
            None,
            IBV_WC_LOC_QP_OP_ERR,
        ),
        (
            Service::Uc,
            SendOp::Read { va, rkey },
            vec![],
            None,
            IBV_WC_LOC_QP_OP_ERR,
        ),
        (
            Service::Uc,
            SendOp::Send,
            vec![sge(0, 2000), bad],
            None,
            IBV_WC_LOC_PROT_ERR,
        ),
        (
            Service::Ud,
            SendOp::Write { va, rkey },
            vec![],
            address,
            IBV_WC_LOC_QP_OP_ERR,
        ),
        (
            Service::Ud,
            SendOp::Read { va, rkey },
            vec![],
            address,
            IBV_WC_LOC_QP_OP_ERR,
        ),
        (
            Service::Ud,
            SendOp::Send,
            vec![],
            None,
            IBV_WC_LOC_QP_OP_ERR,
        ),
        (
            Service::Ud,
            SendOp::Send,
            vec![Sge { len: 20, ..bad }],
            address,
            IBV_WC_LOC_PROT_ERR,
        ),
    ] {
        let mut network = pair([service, service], lossless(us(1)));
        let mut first = send_wr(1, kind, &sges);
        first.ud = ud;
        network.post_send(0, first);
        assert_eq!(
            statuses(&network, 0, WorkQueue::Send),
            [(1, status)],
            "{service:?} {kind:?}"
        );
        assert_eq!(
            (network.sides[0].qp.state(), network.packets_sent[0]),
            (QpState::Sqe, 0)
        );
        // Receiving continues, and sending after the move to RTS.
        network.set_state(0, QpState::Rts);
        network.post_recv(1, recv_wr(1, &[sge(0, 3000)]));
        let mut second = send_wr(2, SendOp::Send, &[sge(0, 900)]);
        second.ud = datagram(1, 1, 0x1234).ud;
        network.post_send(0, second);
        network.run();
        assert_eq!(
            statuses(&network, 1, WorkQueue::Recv),
            [(1, IBV_WC_SUCCESS)]
        );
    }
    // Inline data has no SGEs: its L_Keys are not checked.
    let mut network = pair([Service::Uc, Service::Uc], lossless(us(1)));
    network.post_recv(1, recv_wr(1, &[sge(0, 3000)]));
    let mut inline = send_wr(1, SendOp::Send, &[bad]);
    inline.data = Data::Inline(vec![7; 1500].into());
    network.post_send(0, inline);
    network.run();
    assert!(network.sides[1].hca.region(KEY).bytes[..1500] == [7; 1500]);
}

/// 9.9.3, class A.
#[test]
fn unusable_receive_wrs_are_errors() {
    let bad = Sge {
        lkey: 1,
        ..sge(0, 200)
    };
    for (service, qkey) in [(Service::Uc, 0), (Service::Ud, 0x1234)] {
        let mut network = pair([service, service], lossless(us(1)));
        network.post_recv(1, recv_wr(1, &[bad]));
        network.post_recv(1, recv_wr(2, &[sge(0, 200)]));
        network.post_send(0, datagram(1, 100, qkey));
        network.run();
        assert_eq!(
            statuses(&network, 1, WorkQueue::Recv),
            [(1, IBV_WC_LOC_PROT_ERR), (2, IBV_WC_WR_FLUSH_ERR)],
            "{service:?}"
        );
        assert_eq!(network.sides[1].qp.state(), QpState::Err);
        // The sender does not notice.
        assert_eq!(network.sides[0].qp.state(), QpState::Rts);
    }
    for service in [Service::Uc, Service::Ud] {
        let mut network = pair([service, service], lossless(us(1)));
        network.sides[1].hca.room = Some(1);
        for id in 1..4 {
            network.post_recv(1, recv_wr(id, &[sge(0, 200)]));
            network.post_send(0, datagram(id, 100, 0x1234));
        }
        network.run();
        assert_eq!(
            statuses(&network, 1, WorkQueue::Recv),
            [(1, IBV_WC_SUCCESS)]
        );
        assert_eq!(network.sides[1].hca.events, [QpEvent::Fatal]);
        assert_eq!(network.sides[1].qp.state(), QpState::Err);
        assert_eq!(
            network.packets_sent[1], 0,
            "an unreliable service sent a response"
        );
    }
}

/// The WR was taken for a message that lost its end.
#[test]
fn a_returned_receive_wr_is_flushed_first() {
    let mut count = 0;
    let impair: Box<Impair> = Box::new(move |_, _| {
        count += 1;
        if count == 2 { vec![] } else { vec![us(1)] }
    });
    let mut network = pair([Service::Uc, Service::Uc], impair);
    for id in 1..3 {
        network.post_recv(1, recv_wr(id, &[sge(0, 4000)]));
    }
    network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 3000)]));
    network.run();
    assert_eq!(statuses(&network, 1, WorkQueue::Recv), []);
    network.set_state(1, QpState::Err);
    assert_eq!(
        statuses(&network, 1, WorkQueue::Recv),
        [1, 2].map(|id| (id, IBV_WC_WR_FLUSH_ERR))
    );
}

/// Datagrams that uroce never sends.
#[test]
fn invalid_datagrams_are_dropped() {
    use crate::wire::{Bth, Deth, Headers, ICRC_LEN, Opcode, Operation, Packet, Part, Transport};
    for (operation, len, taken) in [
        (Operation::Send, 4096_usize, true),
        (Operation::Send, 4097, false),
        (Operation::Send, 4100, false),
        (Operation::Write, 16, false),
    ] {
        let mut network = pair([Service::Ud, Service::Ud], lossless(us(1)));
        network.post_recv(1, recv_wr(1, &[sge(0, 5000)]));
        let mut headers = Headers::new(Bth {
            opcode: Opcode::new(Transport::Ud, operation, Part::Only),
            solicited: true,
            migrated: true,
            pad: len.wrapping_neg() as u8 & 3,
            pkey: 0xffff,
            dest_qpn: qpn(1),
            ack_request: false,
            psn: Psn::new(9),
        });
        headers.deth = Some(Deth {
            qkey: 0x1234,
            src_qpn: 77,
        });
        let mut bytes = vec![0; headers.encoded_len()];
        headers.write(&mut bytes);
        bytes.resize(bytes.len() + len.next_multiple_of(4) + ICRC_LEN, 1);
        // UD has no WRITE opcode.
        if operation != Operation::Send {
            assert!(Packet::parse(&bytes).is_err());
            continue;
        }
        network.deliver(1, &bytes);
        let completions = &network.sides[1].hca.completions;
        assert_eq!(completions.len(), usize::from(taken), "{operation:?} {len}");
        if let Some((_, completion)) = completions.first() {
            assert_eq!((completion.src_qpn, completion.solicited), (77, true));
            assert_eq!(completion.pkey_index, 3);
        }
    }
}

/// Pacing continues in SQD for a WQE that was started.
#[test]
fn unreliable_requests_are_paced() {
    for drain in [false, true] {
        let mut network = pair([Service::Uc, Service::Uc], lossless(us(1)));
        network.post_recv(1, recv_wr(1, &[sge(0, 500_000)]));
        network.post_recv(1, recv_wr(2, &[sge(0, 10)]));
        network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 500_000)]));
        network.post_send(0, send_wr(2, SendOp::Send, &[sge(0, 10)]));
        assert!(network.packets_sent[0] <= 64);
        if drain {
            network.set_state(0, QpState::Sqd);
        }
        network.run();
        let done: Vec<u64> = if drain { vec![1] } else { vec![1, 2] };
        let done: Vec<_> = done.into_iter().map(|id| (id, IBV_WC_SUCCESS)).collect();
        assert_eq!(statuses(&network, 0, WorkQueue::Send), done);
        assert_eq!(statuses(&network, 1, WorkQueue::Recv), done);
    }
    let mut network = pair([Service::Ud, Service::Ud], lossless(us(1)));
    for id in 0..200 {
        network.post_recv(1, recv_wr(id, &[sge(0, 1100)]));
        network.post_send(0, datagram(id, 1024, 0x1234));
    }
    assert!(network.packets_sent[0] <= 64);
    network.run();
    assert_eq!(statuses(&network, 1, WorkQueue::Recv).len(), 200);
}

/// 9.2.3.
#[test]
fn the_solicited_flag_is_on_the_last_packet() {
    for service in [Service::Uc, Service::Ud] {
        let mut network = pair([service, service], lossless(us(1)));
        for (id, solicited) in [(0, true), (1, false)] {
            network.post_recv(1, recv_wr(id, &[sge(0, 1000)]));
            let mut request = datagram(id, 900, 0x1234);
            request.flags.solicited = solicited;
            network.post_send(0, request);
        }
        network.run();
        let got = network.sides[1].hca.completions.iter();
        assert!(got.map(|c| c.1.solicited).eq([true, false]), "{service:?}");
    }
}

/// 9.8.2.2.4.
#[test]
fn a_new_message_drops_an_unfinished_one() {
    use crate::wire::{Bth, Headers, ICRC_LEN, Opcode, Operation, Part, Transport};
    let mut network = pair([Service::Uc, Service::Uc], lossless(us(1)));
    network.post_recv(1, recv_wr(1, &[sge(0, 5000)]));
    for (psn, part, len) in [(0xff_ffff, Part::First, 1024), (0, Part::Only, 8)] {
        let headers = Headers::new(Bth {
            opcode: Opcode::new(Transport::Uc, Operation::Send, part),
            solicited: false,
            migrated: true,
            pad: 0,
            pkey: 0xffff,
            dest_qpn: qpn(1),
            ack_request: false,
            psn: Psn::new(psn),
        });
        let mut bytes = vec![0; headers.encoded_len()];
        headers.write(&mut bytes);
        bytes.resize(bytes.len() + len + ICRC_LEN, 1);
        network.deliver(1, &bytes);
    }
    let completions = &network.sides[1].hca.completions;
    let got: Vec<_> = completions
        .iter()
        .map(|c| (c.1.wr_id, c.1.byte_len))
        .collect();
    assert_eq!(got, [(1, 8)]);
}

/// 9.9.3, class C: a receive that cannot be written ends the queue pair, without a NAK.
#[test]
fn uc_queues_no_nak() {
    let mut network = pair([Service::Uc, Service::Uc], lossless(us(1)));
    let bad = Sge {
        lkey: 1,
        ..sge(0, 10)
    };
    network.post_recv(1, recv_wr(1, &[bad]));
    network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 10)]));
    network.run();
    let qp = &network.sides[1].qp;
    assert_eq!(qp.state(), QpState::Err);
    assert!(!qp.responder().responses().has_next());
}
