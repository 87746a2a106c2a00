//! READ responses and ATOMIC ACKs, and what the requester does with them.

use ibverbs_abi::*;

use super::network::*;
use super::peer::*;
use crate::engine::*;
use crate::wire::{Aeth, Headers, Operation, Part};

/// As by kernel rxe and RNICs: an atomic with an invalid L_Key is executed.
#[test]
fn what_a_response_is_written_to_is_checked_when_it_comes() {
    let bad = Sge {
        lkey: 1,
        ..sge(0, 1024)
    };
    let (va, rkey) = (BASE, KEY);
    let mut peer = Peer::in_rts(ATTRIBUTES);
    peer.post_wr(send_wr(0, SendOp::Read { va, rkey }, &[sge(0, 1024), bad]));
    assert_eq!(peer.sent(), [0]);
    peer.read_response(Part::First, 0, &[1; 1024]);
    assert_eq!(peer.send_completions(), []);
    peer.read_response(Part::Last, 1, &[1; 1024]);
    assert_eq!(peer.send_completions(), [(0, IBV_WC_LOC_PROT_ERR)]);
    for (sge, status) in [(bad, IBV_WC_LOC_PROT_ERR), (sge(0, 7), IBV_WC_LOC_LEN_ERR)] {
        let mut peer = Peer::in_rts(ATTRIBUTES);
        let op = SendOp::FetchAdd { va, rkey, add: 1 };
        peer.post_wr(send_wr(0, op, &[sge]));
        assert_eq!(peer.sent(), [0]);
        peer.deliver(
            Headers {
                aeth: OK.map(|kind| Aeth { kind, msn: 1 }),
                atomic_ack: Some(5),
                ..Peer::headers(Operation::AtomicAck, Part::Only, OUR_PSN)
            },
            &[],
        );
        assert_eq!(peer.send_completions(), [(0, status)]);
        assert_eq!(peer.qp.state(), QpState::Err);
    }
}

/// 9.7.5.1.4. A request that was sent again starts with any packet.
#[test]
fn read_responses_have_the_parts_of_their_request() {
    use Part::*;
    let wrong: [&[(Part, u32)]; 6] = [
        &[(Middle, 1024)],
        &[(Last, 1024)],
        &[(Only, 1024)],
        &[(First, 1024), (Last, 1024)],
        &[(First, 1024), (Middle, 1024), (Middle, 452)],
        &[(First, 1024), (First, 1024), (First, 452)],
    ];
    for parts in wrong {
        let mut peer = Peer::in_rts(ATTRIBUTES);
        peer.post_read(0, 2500);
        assert_eq!(peer.sent(), [0]);
        for (at, &(part, len)) in (0..).zip(parts) {
            assert_eq!(peer.send_completions(), [], "{parts:?}");
            peer.read_response(part, at, &vec![1; len as usize]);
        }
        assert_eq!(peer.send_completions(), [(0, IBV_WC_BAD_RESP_ERR)]);
    }
    for (second, third) in [(Middle, Last), (First, Last), (Middle, Only), (First, Only)] {
        let mut peer = Peer::in_rts(ATTRIBUTES);
        peer.post_read(0, 2500);
        assert_eq!(peer.sent(), [0]);
        peer.read_response(First, 0, &[1; 1024]);
        peer.read_response(second, 1, &[1; 1024]);
        peer.read_response(third, 2, &[1; 452]);
        assert_eq!(peer.send_completions(), success([0]));
    }
}
