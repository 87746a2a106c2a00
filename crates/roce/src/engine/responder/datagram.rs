//! Datagrams (9.8.3).

use ibverbs_abi::*;

use super::execute::{capacity, place, recv_completion};
use super::nak::{ErrorReport, NakCause, ResponderAction, failed};
use super::{Attributes, Completion, Hca, Operation, Responder, WorkQueue};
use crate::engine::Addresses;
use crate::wire::Packet;

/// The service level of a received datagram, which RoCE packets do not have. As with mlx5 it says which
/// header the packet had: bit 3 for UDP, bits 0 to 2 for the network type. UCX before 1.19 reads the
/// network type there, and drops datagrams without one.
const SL_UDP_IPV4: u8 = 0b1010;
const SL_UDP_IPV6: u8 = 0b1001;

/// The longest payload of a datagram in bytes.
const MAX_DATAGRAM_LEN: usize = 4096;

impl Responder {
    /// A datagram to this queue pair.
    #[inline(always)]
    pub fn on_datagram(
        &mut self,
        operation: Operation,
        packet: &Packet,
        from: &Addresses,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> ResponderAction {
        let Some(deth) = packet.deth() else {
            return ResponderAction::None;
        };
        let is_send = matches!(operation, Operation::Send | Operation::SendImm);
        // A wrong Q_Key is a violation that is counted and not answered (10.2.5).
        if is_send && deth.qkey != attributes.qkey {
            self.counters.qkey_violation += 1;
            return ResponderAction::None;
        }
        if !is_send || packet.payload.len() > MAX_DATAGRAM_LEN {
            return ResponderAction::None;
        }
        let Some(wr) = self.recv_queue_mut().take(hca) else {
            self.counters.datagram_no_recv += 1;
            return ResponderAction::None;
        };
        if capacity(&wr) < (from.grh.len() + packet.payload.len()) as u64 {
            // 9.9.3, class D: the datagram is dropped, the next one takes the WR.
            self.counters.datagram_too_long += 1;
            self.recv_queue_mut().put_back(wr);
            return ResponderAction::None;
        }
        let mut len = 0;
        let placed = place(&wr, &mut len, &from.grh, hca)
            .and_then(|()| place(&wr, &mut len, packet.payload, hca));
        if let Err(cause) = placed {
            // The memory of the receive WR cannot be written (9.9.3, class A).
            let status = match cause {
                NakCause::RecvMemory(error) => error.status(),
                _ => IBV_WC_LOC_LEN_ERR,
            };
            return ResponderAction::Fail(ErrorReport::Completion {
                queue: WorkQueue::Recv,
                completion: failed(&wr, status),
            });
        }
        let is_ipv6 = from.grh[0] >> 4 == 6;
        let completion = Completion {
            src_qpn: deth.src_qpn,
            pkey_index: from.pkey_index,
            sl: if is_ipv6 { SL_UDP_IPV6 } else { SL_UDP_IPV4 },
            ..recv_completion(&wr, IBV_WC_RECV, len, packet)
        };
        if hca.complete(WorkQueue::Recv, completion).is_err() {
            return ResponderAction::Fatal;
        }
        self.counters.rdma_recvs += 1;
        ResponderAction::None
    }

    /// Why [`Responder::on_datagram`] is about to drop a datagram; None if it has an effect, as far as the
    /// headers show.
    pub fn datagram_drop_reason(
        &self,
        operation: Operation,
        packet: &Packet,
        from: &Addresses,
        attributes: &Attributes,
    ) -> Option<&'static str> {
        let is_send = matches!(operation, Operation::Send | Operation::SendImm);
        let qkey = packet.deth().map(|deth| deth.qkey);
        if !is_send || qkey.is_none() {
            return Some("dropped: not a SEND");
        }
        if qkey != Some(attributes.qkey) {
            return Some("dropped: wrong Q_Key");
        }
        let receives = self.recv_queue();
        if receives.is_shared() {
            return None;
        }
        let Some(receive) = receives.front() else {
            return Some("dropped: no receive posted");
        };
        let is_long = capacity(receive) < (from.grh.len() + packet.payload.len()) as u64;
        is_long.then_some("dropped: longer than the receive")
    }
}
