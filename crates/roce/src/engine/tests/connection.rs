//! Reliable connections, rule by rule.

use std::cell::Cell;
use std::rc::Rc;

use ibverbs_abi::*;

use super::network::*;
use crate::engine::*;
use crate::wire::{Packet, Psn};

pub fn fill(network: &mut Network, side: usize) {
    let bytes = &mut network.sides[side].hca.region(KEY).bytes;
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = (i * 7 + i / 251 + side * 13) as u8;
    }
}

pub fn sends(network: &Network, side: usize) -> Vec<(u64, u32)> {
    network.sides[side].hca.statuses(WorkQueue::Send)
}

pub fn receives(network: &Network, side: usize) -> Vec<(u64, u32)> {
    network.sides[side].hca.statuses(WorkQueue::Recv)
}

#[test]
fn messages_of_every_operation_arrive() {
    for shared in [false, true] {
        for mtu in [256, 1024, 4096] {
            let mut network = Network::rc(mtu, lossless(us(10))).sharing(shared);
            fill(&mut network, 0);
            let len = 100_000;
            network.post_recv(1, recv_wr(1, &[sge(0, 50_000), sge(60_000, 50_000)]));
            network.post_send(0, send_wr(2, SendOp::Send, &[sge(5, len)]));
            let (va, rkey) = (BASE + 200_000, KEY);
            network.post_send(0, send_wr(3, SendOp::Write { va, rkey }, &[sge(7, len)]));
            network.post_send(
                0,
                send_wr(4, SendOp::Read { va, rkey }, &[sge(500_000, len)]),
            );
            network.run();
            assert_eq!(receives(&network, 1), [(1, IBV_WC_SUCCESS)]);
            assert_eq!(sends(&network, 0), [2, 3, 4].map(|id| (id, IBV_WC_SUCCESS)));
            let [near, far] = &mut network.sides;
            let (near, far) = (&near.hca.region(KEY).bytes, &far.hca.region(KEY).bytes);
            let len = len as usize;
            assert!(near[5..][..50_000] == far[..50_000]);
            assert!(near[5 + 50_000..][..50_000] == far[60_000..][..50_000]);
            assert!(near[7..][..len] == far[200_000..][..len]);
            assert!(near[7..][..len] == near[500_000..][..len]);
        }
    }
}

#[test]
fn zero_length_messages_are_delivered() {
    for mut network in Network::both_ways(1024, us(1)) {
        network.post_recv(1, recv_wr(1, &[]));
        network.post_recv(1, recv_wr(2, &[]));
        // The R_Key of a zero-length message is not checked (9.7.4.1.5).
        let (va, rkey) = (0, 0);
        network.post_send(0, send_wr(1, SendOp::Send, &[]));
        network.post_send(0, send_wr(2, SendOp::Write { va, rkey }, &[]));
        network.post_send(0, send_wr(3, SendOp::WriteImm { va, rkey, imm: 9 }, &[]));
        network.post_send(0, send_wr(4, SendOp::Read { va, rkey }, &[]));
        network.run();
        assert_eq!(
            sends(&network, 0),
            [1, 2, 3, 4].map(|id| (id, IBV_WC_SUCCESS))
        );
        assert_eq!(receives(&network, 1), [1, 2].map(|id| (id, IBV_WC_SUCCESS)));
        let (_, imm) = network.sides[1].hca.completions[1];
        assert_eq!(
            (imm.opcode, imm.wc_flags, imm.imm_or_rkey),
            (IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_GRH | IBV_WC_WITH_IMM, 9)
        );
    }
}

/// The RTO is much shorter than `timeout`.
#[test]
fn a_lost_tail_is_retransmitted_before_the_ack_timeout() {
    for lost in 0..20 {
        let mut count = 0;
        let mut network = Network::rc(
            1024,
            Box::new(move |_, _| {
                count += 1;
                if count - 1 == lost {
                    vec![]
                } else {
                    vec![us(10)]
                }
            }),
        );
        network.post_recv(1, recv_wr(1, &[sge(0, 10_000)]));
        network.post_recv(1, recv_wr(2, &[sge(0, 10_000)]));
        let begin = network.now;
        network.post_send(0, send_wr(1, SendOp::Send, &[sge(5, 10_000)]));
        network.run();
        network.post_send(0, send_wr(2, SendOp::Send, &[sge(5, 4_000)]));
        network.run();
        assert_eq!(sends(&network, 0), [1, 2].map(|id| (id, IBV_WC_SUCCESS)));
        assert_eq!(receives(&network, 1), [1, 2].map(|id| (id, IBV_WC_SUCCESS)));
        assert!(
            network.now.since(begin) < ms(30),
            "{lost}: {:?}",
            network.now.since(begin)
        );
    }
}

#[test]
fn atomics_execute_and_return_the_original_value() {
    for mut network in Network::both_ways(1024, us(1)) {
        let (va, rkey) = (BASE + 64, KEY);
        network.sides[1].hca.region(KEY).bytes[64..72].copy_from_slice(&40u64.to_ne_bytes());
        let kinds = [
            SendOp::FetchAdd { va, rkey, add: 2 },
            cmp_swap(va, rkey, 42, 7),
            cmp_swap(va, rkey, 42, 8),
            fetch_add(va, rkey, u64::MAX),
        ];
        for (i, kind) in kinds.into_iter().enumerate() {
            network.post_send(0, send_wr(i as u64, kind, &[sge(i as u64 * 8, 8)]));
        }
        let data = *b"12345678";
        network.post_send(0, send_wr(4, atomic_write(va + 8, rkey, data), &[]));
        let of_range = flush(va, rkey, 16, 3);
        network.post_send(0, send_wr(5, of_range, &[]));
        network.run();
        assert_eq!(
            sends(&network, 0),
            [0, 1, 2, 3, 4, 5].map(|id| (id, IBV_WC_SUCCESS))
        );
        let got: Vec<u64> = network.sides[0].hca.region(KEY).bytes[..32]
            .chunks(8)
            .map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap()))
            .collect();
        assert_eq!(got, [40, 42, 7, 7]);
        let hca = &mut network.sides[1].hca;
        assert_eq!(hca.region(KEY).bytes[64..72], 6u64.to_ne_bytes());
        assert_eq!(hca.region(KEY).bytes[72..80], data);
        assert_eq!(hca.atomics, 5);
        assert_eq!(hca.flushes, [Access::FlushGlobal, Access::FlushPersistent]);
        let opcodes: Vec<u32> = network.sides[0]
            .hca
            .completions
            .iter()
            .map(|c| c.1.opcode)
            .collect();
        assert_eq!(
            opcodes,
            [
                IBV_WC_FETCH_ADD,
                IBV_WC_COMP_SWAP,
                IBV_WC_COMP_SWAP,
                IBV_WC_FETCH_ADD,
                IBV_WC_ATOMIC_WRITE,
                IBV_WC_FLUSH,
            ]
        );
    }
}

/// Annex A19.4.1.
#[test]
fn flush_of_a_region_ignores_the_range() {
    for mut network in Network::both_ways(1024, us(1)) {
        for (id, selectivity) in [(0, IBV_FLUSH_MR), (1, IBV_FLUSH_RANGE)] {
            let kind = SendOp::Flush {
                va: BASE,
                rkey: KEY,
                len: LEN as u32 + 1,
                placement: 1,
                selectivity: selectivity as u8,
            };
            network.post_send(0, send_wr(id, kind, &[]));
            network.run();
        }
        assert_eq!(
            sends(&network, 0),
            [(0, IBV_WC_SUCCESS), (1, IBV_WC_REM_ACCESS_ERR)]
        );
    }
}

/// A path MTU above the port's active MTU: packets have the active MTU, and both sides agree on it.
#[test]
fn packets_fit_the_active_mtu() {
    let psns = [Psn::new(5), Psn::new(6)];
    let changes = [0, 1].map(|side| QpChange {
        active_mtu: Some(1024),
        ..attributes(side, psns, 4096)
    });
    let configs = [0, 1].map(|side| config(Service::Rc, side));
    let longest = Rc::new(Cell::new(0));
    let seen = longest.clone();
    let link = move |_, packet: &Packet| {
        seen.set(seen.get().max(packet.payload.len()));
        vec![us(10)]
    };
    let mut network = Network::new(configs, changes, Box::new(link));
    fill(&mut network, 0);
    network.post_recv(1, recv_wr(1, &[sge(0, 50_000)]));
    network.post_send(0, send_wr(2, SendOp::Send, &[sge(5, 50_000)]));
    let (va, rkey) = (BASE + 200_000, KEY);
    network.post_send(0, send_wr(3, SendOp::Write { va, rkey }, &[sge(7, 50_000)]));
    let read = send_wr(4, SendOp::Read { va, rkey }, &[sge(500_000, 50_000)]);
    network.post_send(0, read);
    network.run();
    assert_eq!(sends(&network, 0), [2, 3, 4].map(|id| (id, IBV_WC_SUCCESS)));
    assert_eq!(receives(&network, 1), [(1, IBV_WC_SUCCESS)]);
    assert_eq!(longest.get(), 1024);
    let attributes = network.sides[0].qp.attributes();
    assert_eq!(attributes.path_mtu, Some(4096));
    let near = &network.sides[0].hca.region(KEY).bytes;
    assert!(near[7..][..50_000] == near[500_000..][..50_000]);
}

/// 10.8.3.3.
#[test]
fn a_fenced_wqe_waits_for_reads() {
    for mut network in Network::both_ways(1024, us(1)) {
        fill(&mut network, 1);
        let (va, rkey) = (BASE, KEY);
        network.post_send(0, send_wr(1, SendOp::Read { va, rkey }, &[sge(0, 200_000)]));
        let mut write = send_wr(2, write(va + 300_000, rkey), &[sge(0, 200_000)]);
        write.flags.fence = true;
        network.post_send(0, write);
        network.run();
        assert_eq!(sends(&network, 0), [1, 2].map(|id| (id, IBV_WC_SUCCESS)));
        let bytes = &network.sides[1].hca.region(KEY).bytes;
        assert!(bytes[..200_000] == bytes[300_000..500_000]);
    }
}

#[test]
fn local_operations_execute_in_order() {
    for mut network in Network::both_ways(1024, us(1)) {
        network.sides[0].hca.add(7, 0, 100);
        network.post_recv(1, recv_wr(1, &[sge(0, 5000)]));
        let bind = Bind {
            rkey: 9,
            mr_lkey: KEY,
            addr: BASE,
            len: 5,
            access: 0,
        };
        network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 5000)]));
        network.post_send(0, send_wr(2, SendOp::BindMw(bind), &[]));
        network.post_send(0, send_wr(3, SendOp::LocalInv { rkey: 7 }, &[]));
        assert!(network.sides[0].hca.region(7).valid && network.sides[0].hca.binds == [bind]);
        network.run();
        assert_eq!(sends(&network, 0), [1, 2, 3].map(|id| (id, IBV_WC_SUCCESS)));
        assert!(!network.sides[0].hca.region(7).valid);
        network.post_send(0, send_wr(4, SendOp::LocalInv { rkey: 7 }, &[]));
        assert_eq!(sends(&network, 0)[3..], [(4, IBV_WC_MW_BIND_ERR)]);
    }
}

#[test]
fn send_with_invalidate_invalidates_the_rkey() {
    for mut network in Network::both_ways(1024, us(1)) {
        network.sides[1].hca.add(7, 0, 100);
        for id in 1..3 {
            network.post_recv(1, recv_wr(id, &[sge(0, 10)]));
            network.post_send(0, send_wr(id, SendOp::SendInv { rkey: 7 }, &[sge(0, 10)]));
        }
        network.run();
        assert!(!network.sides[1].hca.region(7).valid);
        let (_, first) = network.sides[1].hca.completions[0];
        let flags = IBV_WC_GRH | IBV_WC_WITH_INV;
        assert_eq!((first.wc_flags, first.imm_or_rkey), (flags, 7));
        assert_eq!(sends(&network, 0), [1, 2].map(|id| (id, IBV_WC_SUCCESS)));
        assert_eq!(
            receives(&network, 1),
            [(1, IBV_WC_SUCCESS), (2, IBV_WC_REM_INV_REQ_ERR)]
        );
        assert_eq!(network.sides[1].qp.state(), QpState::Err);
    }
}
