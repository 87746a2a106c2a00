//! Unreliable datagrams (9.8.3).

use ibverbs_abi::*;

use super::{Addresses, Hca, Pace, Qp, Transmit, WorkQueue};
use crate::engine::responder::{NakCause, capacity, failed, place, recv_completion};
use crate::engine::{Completion, RecvWr};
use crate::wire::{Deth, Operation, Packet};

/// The service level of a received datagram, which RoCE packets do not have. As with mlx5 it says which
/// header the packet had: bit 3 for UDP, bits 0 to 2 for the network type. UCX before 1.19 reads the
/// network type there, and drops datagrams without one.
const SL_UDP_IPV4: u8 = 0b1010;
const SL_UDP_IPV6: u8 = 0b1001;

/// The longest payload of a datagram in bytes.
const MAX_DATAGRAM_LEN: usize = 4096;

impl Qp {
    /// Writes the next datagram into `buffer`.
    pub(super) fn next_datagram(
        &mut self,
        pace: Pace,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        while self.prepare_unreliable(pace, hca) {
            match self
                .sends
                .requester_mut()
                .send_ud(&self.attributes, pace, hca, buffer)
            {
                Ok(sent) => {
                    self.complete_sends(hca);
                    if sent.is_some() {
                        return sent;
                    }
                }
                Err(status) => self.fail_oldest_send(status, hca),
            }
        }
        None
    }

    /// A datagram to this queue pair.
    #[inline(always)]
    pub(super) fn receive_datagram(
        &mut self,
        operation: Operation,
        packet: &Packet,
        from: &Addresses,
        hca: &mut impl Hca,
    ) {
        let Some(deth) = packet.deth() else {
            return;
        };
        let is_send = matches!(operation, Operation::Send | Operation::SendImm);
        // A wrong Q_Key is a violation that is counted and not answered (10.2.5).
        if is_send && deth.qkey != self.attributes.qkey {
            self.counters.qkey_violation += 1;
            return;
        }
        if !is_send || packet.payload.len() > MAX_DATAGRAM_LEN {
            return;
        }
        let Some(wr) = self.responder.recv_queue_mut().take(hca) else {
            self.counters.datagram_no_recv += 1;
            return;
        };
        if capacity(&wr) < (from.grh.len() + packet.payload.len()) as u64 {
            // 9.9.3, class D: the datagram is dropped, the next one takes the WR.
            self.counters.datagram_too_long += 1;
            self.responder.recv_queue_mut().put_back(wr);
            return;
        }
        let mut len = 0;
        let placed = place(&wr, &mut len, &from.grh, hca)
            .and_then(|()| place(&wr, &mut len, packet.payload, hca));
        if let Err(cause) = placed {
            self.fail_recv(&wr, cause, hca);
            return;
        }
        let completion = recv_completion(&wr, IBV_WC_RECV, len, packet);
        self.complete_datagram(completion, &deth, from, hca);
    }

    /// Completes a receive WR that a datagram was written to.
    #[inline]
    fn complete_datagram(
        &mut self,
        completion: Completion,
        deth: &Deth,
        from: &Addresses,
        hca: &mut impl Hca,
    ) {
        let is_ipv6 = from.grh[0] >> 4 == 6;
        let completion = Completion {
            src_qpn: deth.src_qpn,
            pkey_index: from.pkey_index,
            sl: if is_ipv6 { SL_UDP_IPV6 } else { SL_UDP_IPV4 },
            ..completion
        };
        if hca.complete(WorkQueue::Recv, completion).is_err() {
            return self.enter_fatal_error(hca);
        }
        self.counters.rdma_recvs += 1;
    }

    /// The memory of a receive WR cannot be written: it fails, and the queue pair with it (9.9.3,
    /// class A).
    fn fail_recv(&mut self, wr: &RecvWr, cause: NakCause, hca: &mut impl Hca) {
        let status = match cause {
            NakCause::RecvMemory(error) => error.status(),
            _ => IBV_WC_LOC_LEN_ERR,
        };
        let _ = hca.complete(WorkQueue::Recv, failed(wr, status));
        self.enter_error(hca);
    }
}
