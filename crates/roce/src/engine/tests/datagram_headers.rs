//! Tests of the header fields in a datagram's completion.

use ibverbs_abi::*;

use super::network::*;
use super::peer::*;
use crate::engine::*;
use crate::wire::{Bth, Deth, Headers, Opcode, Operation, Packet, Part, Transport};

/// UCX before 1.19 drops datagrams whose service level does not say which IP header they had.
#[test]
fn the_service_level_of_a_datagram_is_its_network_type() {
    let mut peer = Peer::in_rtr_with(config(Service::Ud, 0), QpChange::default());
    for (grh, sl) in [(0x60, 0b1001), (0, 0b1010)] {
        peer.hca.completions.clear();
        peer.post_recv(1);
        let headers = Headers {
            deth: Some(Deth {
                qkey: 0x1234,
                src_qpn: qpn(1),
            }),
            ..Headers::new(Bth {
                opcode: Opcode::new(Transport::Ud, Operation::Send, Part::Only),
                ..Peer::headers(Operation::Send, Part::Only, 0).bth
            })
        };
        let mut bytes = [0; 20];
        assert_eq!(headers.write(&mut bytes), bytes.len());
        let packet = Packet::parse_without_icrc(&bytes).unwrap();
        let from = Addresses {
            grh: [grh; 40],
            ..addresses(1)
        };
        peer.qp.receive(&packet, &from, peer.now, &mut peer.hca);
        let (_, completion) = peer.hca.completions[0];
        assert_eq!((completion.sl, completion.wc_flags), (sl, IBV_WC_GRH));
    }
}
