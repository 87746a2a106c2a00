//! Transmissions that are deferred, so that packets leave together.

use ibverbs_abi::*;

use super::connection::{receives, sends};
use super::network::*;
use crate::engine::*;

/// Sends beyond eight outstanding WQEs are deferred and leave in batches; the others leave at once.
#[test]
fn a_stream_of_sends_is_coalesced() {
    let mut network = Network::rc(1024, lossless(us(10)));
    for id in 0..MESSAGES + 1 {
        network.post_recv(1, recv_wr(id, &[sge(0, 10)]));
    }
    // Not more than the congestion window allows.
    const MESSAGES: u64 = 60;
    let mut batches = 0;
    for id in 0..MESSAGES {
        let before = network.packets_sent[0];
        network.post_send(0, send_wr(id, SendOp::Send, &[sge(0, 10)]));
        assert!(id >= 8 || network.packets_sent[0] == before + 1);
        batches += u64::from(network.packets_sent[0] > before);
        assert!(network.sides[0].qp.sends().requester().window().unsent() < 32);
    }
    assert!(batches < 12, "{batches}");
    // Every deferred send is transmitted in the end.
    network.run();
    assert_eq!(sends(&network, 0).len(), MESSAGES as usize);
    assert_eq!(receives(&network, 1).len(), MESSAGES as usize);
    let before = network.packets_sent[0];
    network.post_send(0, send_wr(MESSAGES, SendOp::Send, &[sge(0, 10)]));
    assert_eq!(network.packets_sent[0], before + 1);
    network.run();
    assert_eq!(sends(&network, 0)[60], (MESSAGES, IBV_WC_SUCCESS));
}

/// The ACK follows the first request packet and precedes the second.
#[test]
fn an_ack_is_sent_after_the_first_request() {
    use std::cell::RefCell;
    use std::rc::Rc;

    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = seen.clone();
    let impair = move |side, packet: &crate::wire::Packet<'_>| {
        log.borrow_mut().push((side, packet.aeth().is_some()));
        vec![us(1)]
    };
    let mut network = Network::rc(1024, Box::new(impair));
    for side in 0..2 {
        for id in 0..3 {
            network.post_recv(side, recv_wr(id, &[sge(0, 10)]));
        }
    }
    // The responder transmits later than it receives.
    network.transmit_delay = us(5);
    network.post_send(0, send_wr(1, SendOp::Send, &[sge(0, 10)]));
    network.run_for(us(2));
    let Side { qp, hca } = &mut network.sides[1];
    for id in [7, 8] {
        let post = send_wr(id, SendOp::Send, &[sge(0, 10)]);
        assert!(qp.post_send(post, hca));
    }
    network.transmit(1);
    assert_eq!(
        *seen.borrow(),
        [(0, false), (1, false), (1, true), (1, false)]
    );
    network.run();
    assert_eq!(sends(&network, 0), [(1, IBV_WC_SUCCESS)]);
    assert_eq!(sends(&network, 1), [7, 8].map(|id| (id, IBV_WC_SUCCESS)));
}
