//! Tests of the send side alone, without a queue pair.

use ibverbs_abi::*;

use super::hca::{Direct, TestHca};
use super::network::*;
use super::peer::{Peer, psn};
use crate::engine::attributes::Attributes;
use crate::engine::send_side::{SendError, SendSide};
use crate::engine::*;
use crate::wire::{Aeth, AethKind, Headers, NakCode, Operation, Packet, Part};

struct Alone {
    sends: SendSide,
    attributes: Attributes,
    hca: TestHca,
}

impl Alone {
    /// A send side with that many WRs of 8 bytes.
    fn with(wrs: u64, op: SendOp) -> Alone {
        let mut attributes = Attributes::new(config(Service::Rc, 0));
        attributes.apply(&super::network::attributes(0, [psn(0); 2], 1024));
        let (mut sends, mut hca) = (SendSide::new(&attributes.config), TestHca::default());
        hca.add(KEY, BASE, LEN);
        sends.start(psn(0), &attributes);
        for wr_id in 0..wrs {
            *sends.next_wr().unwrap() = send_wr(wr_id, op, &[sge(0, 8)]);
            let posted = sends.post_next(QpState::Rts, &attributes, &mut hca);
            assert_eq!(posted, Ok(true));
        }
        Alone {
            sends,
            attributes,
            hca,
        }
    }

    /// Sends all packets that may be sent; returns their number.
    fn send(&mut self) -> usize {
        let mut buffer = [0; 2048];
        let (attributes, hca) = (&self.attributes, &mut self.hca);
        let mut next = || {
            self.sends
                .next_packet(attributes, Time(0), hca, &mut buffer)
        };
        std::iter::from_fn(|| next().unwrap()).count()
    }

    /// An ACK or NAK for the request that is the `at`th.
    fn acknowledge(&mut self, at: u32, kind: AethKind) -> Result<(), SendError> {
        let headers = Headers {
            aeth: Some(Aeth { kind, msn: 0 }),
            ..Peer::headers(Operation::Ack, Part::Only, at)
        };
        let mut bytes = vec![0; headers.encoded_len()];
        headers.write(&mut bytes);
        let packet = Packet::parse_without_icrc(&bytes).unwrap();
        let (attributes, hca) = (&self.attributes, &mut self.hca);
        self.sends
            .on_response(Operation::Ack, &packet, attributes, Time(0), hca)
    }
}

#[test]
fn what_is_acknowledged_completes_and_the_rest_is_flushed() {
    let mut alone = Alone::with(3, SendOp::Send);
    assert_eq!(alone.send(), 3);
    let ack = AethKind::Ack { credits: 0 };
    assert_eq!(alone.acknowledge(0, ack), Ok(()));
    let refused = AethKind::Nak(NakCode::RemoteAccess);
    let error = SendError::Failed(IBV_WC_REM_ACCESS_ERR);
    assert_eq!(alone.acknowledge(1, refused), Err(error));
    // It is the queue pair that lets the WQE fail.
    let Alone { sends, hca, .. } = &mut alone;
    assert_eq!((sends.queue().len(), hca.completions.len()), (2, 1));
    assert_eq!(sends.fail_oldest(IBV_WC_REM_ACCESS_ERR, hca), Ok(()));
    sends.flush(hca);
    let statuses = [
        (0, IBV_WC_SUCCESS),
        (1, IBV_WC_REM_ACCESS_ERR),
        (2, IBV_WC_WR_FLUSH_ERR),
    ];
    assert_eq!(hca.statuses(WorkQueue::Send), statuses);
    assert!(!sends.has_unsent() && sends.counters().rdma_sends == 1);
}

#[test]
fn the_hca_executes_only_in_rts_and_with_nothing_outstanding() {
    let (va, rkey) = (BASE, KEY);
    let write = SendOp::Write { va, rkey };
    let Alone {
        mut sends,
        attributes,
        mut hca,
    } = Alone::with(0, write);
    (hca.direct, hca.peer_access) = (Direct::Granted, Some(IBV_ACCESS_REMOTE_WRITE));
    hca.peer_regions = Vec::from_iter(hca.regions.pop());
    hca.add(KEY, BASE, LEN);
    for (state, executed) in [(QpState::Rts, 1), (QpState::Sqd, 1), (QpState::Rts, 1)] {
        *sends.next_wr().unwrap() = send_wr(0, write, &[sge(0, 8)]);
        assert_eq!(sends.post_next(state, &attributes, &mut hca), Ok(true));
        assert_eq!(sends.counters().direct_ops, executed);
    }
    assert_eq!((sends.queue().len(), hca.completions.len()), (2, 1));
}
