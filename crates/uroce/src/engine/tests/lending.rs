//! Messages whose bytes the receiver copies from the sender's memory.

use ibverbs_abi::*;

use super::connection::{fill, receives, sends};
use super::host::Direct;
use super::network::*;
use crate::engine::*;

const LONG: u32 = 8 << 10;

/// Side 0 lends its memory, and side 1 copies which of it?
fn network(mtu: u32, copies: Direct) -> Network {
    let mut network = Network::rc(mtu, lossless(us(10)));
    network.sides[0].host.lends = true;
    network.sides[1].host.copies = copies;
    fill(&mut network, 0);
    network
}

fn receive_into(network: &mut Network, count: u64, len: u32) {
    for wr_id in 0..count {
        network.post_recv(1, recv_wr(wr_id, &[sge(0, len)]));
    }
}

fn post(network: &mut Network, wr_id: u64, op: SendOp, len: u32) {
    network.post_send(0, send_wr(wr_id, op, &[sge(0, len)]));
}

fn copied(network: &Network) -> [u64; 2] {
    network.sides[1].host.copied
}

fn assert_all_arrive(network: &mut Network, count: u64, len: u32) {
    network.run();
    let expected: Vec<_> = (0..count).map(|id| (id, IBV_WC_SUCCESS)).collect();
    assert_eq!(
        (sends(network, 0), receives(network, 1)),
        (expected.clone(), expected)
    );
    let [near, far] = &mut network.sides;
    let (near, far) = (&near.host.region(KEY).bytes, &far.host.region(KEY).bytes);
    assert!(near[..len as usize] == far[..len as usize]);
}

/// Its packets have the PSNs that they would have had, and both sides count them.
#[test]
fn a_message_is_one_packet() {
    for (mtu, len) in [(1024, LONG), (4096, LONG), (4096, LONG + 1), (256, 100_001)] {
        let mut network = network(mtu, Direct::Granted);
        receive_into(&mut network, 2, len);
        post(&mut network, 0, SendOp::Send, len);
        let packets = len.div_ceil(mtu);
        assert_eq!(network.packets_sent[0], 1);
        let psn = network.sides[0].qp.attributes().sq_psn.unwrap();
        assert_eq!(psn, crate::wire::Psn::new(0xff_ffe0) + packets);
        network.run();
        post(&mut network, 1, SendOp::SendImm { imm: 5 }, len);
        assert_all_arrive(&mut network, 2, len);
        assert_eq!((network.packets_sent[0], copied(&network)), (2, [2, 0]));
        let [sent, received] = [0, 1].map(|side| network.sides[side].qp.counters());
        assert_eq!(
            (sent.sent_pkts, sent.lent_pkts),
            (u64::from(packets) * 2, sent.sent_pkts)
        );
        assert_eq!(
            (sent.sent_pkts, sent.sent_bytes),
            (received.rcvd_pkts, received.rcvd_bytes)
        );
        let last = network.sides[1].host.completions.last().unwrap().1;
        assert_eq!((last.byte_len, last.imm_or_rkey), (len, 5));
    }
}

#[test]
fn a_long_message_is_several_packets() {
    let mut network = network(1024, Direct::Granted);
    let len = LEN as u32;
    receive_into(&mut network, 1, len);
    let sges = [sge(0, len / 2), sge(u64::from(len) / 2, len / 2)];
    network.post_send(0, send_wr(0, SendOp::Send, &sges));
    assert_all_arrive(&mut network, 1, len);
    assert_eq!((network.packets_sent[0], copied(&network)), (1, [1, 0]));
    network.sides[1].host.completions.clear();
    network.sides[0].host.completions.clear();
    // More than one reference names: the rest follows in another, or as bytes.
    let twice = [sge(0, len), sge(0, len)];
    network.post_recv(1, recv_wr(0, &twice));
    network.post_send(0, send_wr(0, SendOp::Send, &[sge(0, len), sge(0, len - 9)]));
    assert_all_arrive(&mut network, 1, len);
    assert_eq!(copied(&network), [3, 0]);
}

#[test]
fn a_write_with_immediate_data_is_lent() {
    let mut network = network(1024, Direct::Granted);
    receive_into(&mut network, 1, 0);
    let (va, rkey, imm) = (BASE, KEY, 7);
    post(&mut network, 0, SendOp::WriteImm { va, rkey, imm }, LONG);
    assert_all_arrive(&mut network, 1, LONG);
    assert_eq!((network.packets_sent[0], copied(&network)), (1, [1, 0]));
}

#[test]
fn short_inline_and_scattered_messages_are_sent() {
    let mut network = network(1024, Direct::Granted);
    receive_into(&mut network, 3, LONG);
    post(&mut network, 0, SendOp::Send, LONG - 1);
    assert_eq!(network.packets_sent[0], 8);
    let mut inline = send_wr(1, SendOp::Send, &[]);
    inline.data = Data::Inline(vec![9; LONG as usize].into());
    network.post_send(0, inline);
    network.run();
    let sges: Vec<_> = (0..4).map(|i| sge(i * 2048, 2048)).collect();
    network.post_send(0, send_wr(2, SendOp::Send, &sges));
    assert_all_arrive(&mut network, 3, LONG);
    assert_eq!(copied(&network), [0, 0]);
}

/// The receive WR goes to the message that is sent again. After some losses in a row, one message in four is
/// lent, the others of 8 packets are in the pause.
#[test]
fn what_is_not_copied_is_sent_and_soon_seldom_lent() {
    for op in [SendOp::Send, write_imm()] {
        let mut network = network(1024, Direct::Refused);
        receive_into(&mut network, 16, LONG);
        let mut refused = Vec::new();
        for wr_id in 0..12 {
            post(&mut network, wr_id, op, LONG);
            network.run();
            refused.push(copied(&network)[1]);
        }
        assert_eq!(refused, [1, 2, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6]);
        let counters = network.sides[0].qp.counters();
        assert_eq!((counters.rcvd_seq_err, counters.rcvd_rnr_err), (6, 0));

        // The host is less busy now.
        network.sides[1].host.copies = Direct::Granted;
        for wr_id in 12..16 {
            post(&mut network, wr_id, op, LONG);
            network.run();
        }
        assert_all_arrive(&mut network, 16, LONG);
        assert_eq!(copied(&network), [1, 6]);
    }
}

fn write_imm() -> SendOp {
    let (va, rkey, imm) = (BASE, KEY, 7);
    SendOp::WriteImm { va, rkey, imm }
}

/// It waits for a receive, and is lent again.
#[test]
fn a_receiver_that_is_not_ready() {
    let mut network = network(1024, Direct::Granted);
    post(&mut network, 0, SendOp::Send, LONG);
    network.run_for(us(100));
    assert_eq!((copied(&network), sends(&network, 0).len()), ([0, 0], 0));
    receive_into(&mut network, 1, LONG);
    assert_all_arrive(&mut network, 1, LONG);
    assert_eq!((network.packets_sent[0], copied(&network)), (2, [1, 0]));
}

#[test]
fn a_message_that_does_not_fit() {
    let mut network = network(1024, Direct::Granted);
    receive_into(&mut network, 1, LONG - 1);
    post(&mut network, 0, SendOp::Send, LONG);
    network.run();
    assert_eq!(sends(&network, 0), [(0, IBV_WC_REM_INV_REQ_ERR)]);
    assert_eq!(receives(&network, 1), [(0, IBV_WC_LOC_LEN_ERR)]);
    assert!(network.is_memory_zero(1) && copied(&network) == [0, 0]);
}

/// The program has its memory back, although the reference has not arrived.
#[test]
fn what_is_flushed_is_not_copied() {
    for state in [QpState::Err, QpState::Reset] {
        let mut network = network(1024, Direct::Granted);
        receive_into(&mut network, 1, LONG);
        post(&mut network, 0, SendOp::Send, LONG);
        network.set_state(0, state);
        network.sides[0].host.region(KEY).bytes.fill(1);
        network.run();
        assert_eq!(receives(&network, 1), []);
        assert!(network.is_memory_zero(1) && copied(&network) == [0, 1]);
    }
}

/// The lengths that the ends take for the path MTU differ: an error, as with bytes.
#[test]
fn the_number_of_packets_must_fit() {
    let psns = [5, 6].map(crate::wire::Psn::new);
    let mut network = Network::new(
        [config(Service::Rc, 0), config(Service::Rc, 1)],
        [attributes(0, psns, 1024), attributes(1, psns, 4096)],
        lossless(us(1)),
    );
    network.sides[0].host.lends = true;
    network.sides[1].host.copies = Direct::Granted;
    receive_into(&mut network, 1, LONG);
    post(&mut network, 0, SendOp::Send, LONG);
    network.run();
    assert_eq!(sends(&network, 0), [(0, IBV_WC_REM_INV_REQ_ERR)]);
    assert_eq!(copied(&network), [0, 0]);
}
