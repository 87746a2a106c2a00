//! Packets that are written in a way of their own have the same bytes as others.

use super::network::*;
use super::peer::*;
use crate::engine::attributes::Attributes;
use crate::engine::*;
use crate::wire::Psn;

/// Each packet of SENDs of several lengths.
#[test]
fn a_send_is_written_as_other_requests() {
    let mut peer = Peer::in_rts(ATTRIBUTES);
    let mut attributes_of_peer = Attributes::new(config(Service::Rc, 0));
    attributes_of_peer.apply(&attributes(0, [Psn::new(5), Psn::new(5)], 1024));

    for (i, byte) in peer.host.regions[0].bytes.iter_mut().enumerate() {
        *byte = (i % 251) as u8;
    }
    let mut count = 0;
    for (id, len) in [0, 1, 8, 1023, 1024, 1025, 2600].into_iter().enumerate() {
        for solicited in [false, true] {
            let mut wr = send_wr(id as u64, SendOp::Send, &[sge(3, len)]);
            wr.flags.solicited = solicited;
            peer.post_wr(wr);
            while peer.qp.may_transmit() {
                let mut buffers = [[0xee; 1200]; 2];
                let lens = peer.qp.requester().write_both(
                    &attributes_of_peer,
                    &mut peer.host,
                    &mut buffers,
                );
                assert!(lens[0].is_some());
                assert_eq!(lens[0], lens[1], "{len}");
                assert_eq!(buffers[0], buffers[1], "{len}");
                let mut sent = [0xee; 1200];
                assert!(
                    peer.qp
                        .transmit(peer.now, &mut peer.host, &mut sent)
                        .is_some()
                );
                assert_eq!(sent, buffers[0], "{len}");
                count += 1;
            }
        }
    }
    assert_eq!(count, 2 * (1 + 1 + 1 + 1 + 1 + 2 + 3));
}
