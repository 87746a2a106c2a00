//! Sending for unreliable services (9.8.2, 9.8.3): packets are never retransmitted, and a WQE completes
//! when its last packet has been sent.

use ibverbs_abi::*;

use super::write::write_packet;
use super::{Requester, payload};
use crate::engine::attributes::Attributes;
use crate::engine::emit::{self, Encoded, Layout, part_of};
use crate::engine::send_queue::{self, OpClass, WqeState};
use crate::engine::{Hca, SendOp, Time, Transmit};
use crate::wire::{Deth, Opcode, Operation, Part, Transport};

/// A Q_Key with this bit in a WR stands for the Q_Key of the queue pair (10.2.5).
const CONTROLLED_QKEY: u32 = 1 << 31;

/// How fast datagrams may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// By the pacer; the time now.
    Paced(Time),
    /// As fast as they can: shared memory carries them, where the sender waits for room.
    Unlimited,
}

/// The next step on an unreliable send queue.
pub enum UnreliableStep {
    /// Nothing can be sent now.
    Blocked,
    /// The oldest WQE is finished, or was executed just now: the queue pair has to complete it.
    Complete,
    /// The oldest WQE cannot be sent.
    Fail(ibv_wc_status),
    /// A packet of the oldest WQE can be sent.
    Send,
}

impl Requester {
    /// Decides what to do with the oldest WQE. Executes it if it is a local operation.
    pub fn unreliable_step(&mut self, pace: Pace, hca: &mut impl Hca) -> UnreliableStep {
        let queue = self.window.queue();
        let Some(wqe) = queue.front() else {
            return UnreliableStep::Blocked;
        };
        let may_not_begin = queue.drain().is_held() && wqe.first >= self.window.highest_sent();
        if queue.drain().stops(wqe.first) || may_not_begin {
            return UnreliableStep::Blocked;
        }
        match (wqe.state, wqe.class()) {
            (WqeState::Failed(_) | WqeState::Executed, _) => UnreliableStep::Complete,
            (WqeState::Pending, OpClass::Local) => {
                self.execute_local(hca);
                UnreliableStep::Complete
            }
            (WqeState::Pending, OpClass::Acked) => match pace {
                Pace::Paced(now) if !self.pacer.may_send(now) => UnreliableStep::Blocked,
                _ => UnreliableStep::Send,
            },
            (WqeState::Pending, _) => UnreliableStep::Fail(IBV_WC_LOC_QP_OP_ERR),
        }
    }

    /// When the pacer allows the next packet; None if no WQE waits.
    pub fn pacing_until(&self) -> Option<Time> {
        let waits = !self.window.queue().is_empty();
        waits.then(|| self.pacer.resumes_at())
    }

    /// Writes the next packet of the oldest WQE of a UC queue pair into the buffer. None if the buffer
    /// is too small. An error is the status that the WQE fails with.
    pub fn send_uc(
        &mut self,
        attributes: &Attributes,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Result<Option<Encoded>, ibv_wc_status> {
        let Some(wqe) = self.window.queue().front() else {
            return Ok(None);
        };
        let Some(operation) = wqe.operation() else {
            return Ok(None);
        };
        let packet = self.window.next();
        let mtu = attributes.mtu;
        let (is_first, is_last) = (packet == wqe.first, packet + 1 == wqe.end);
        if is_first && !is_last {
            wqe.check_payload(hca).map_err(|error| error.status())?;
        }
        let part = part_of(is_first, is_last);
        let psn = send_queue::psn(packet);
        let mut headers = emit::connected_headers(attributes, operation, part, psn, buffer);
        if headers.bth.opcode.parts().is_none() {
            return Err(IBV_WC_LOC_QP_OP_ERR);
        }
        let len = payload::extend_headers(wqe, packet, mtu, part, &mut headers);
        let encoded =
            write_packet(wqe, packet, mtu, headers, len, hca).map_err(|error| error.status())?;
        let Some(encoded) = encoded else {
            return Ok(None);
        };
        self.window.on_sent_unreliable(packet + 1, is_last);
        self.pacer.on_sent(encoded.len);
        Ok(Some(encoded))
    }

    /// Writes the datagram of the oldest WQE of a UD queue pair into the buffer. None if the message is
    /// longer than the path MTU: it is dropped without an error (C10-93.1.1). An error is the status
    /// that the WQE fails with.
    pub fn send_ud(
        &mut self,
        attributes: &Attributes,
        pace: Pace,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Result<Option<Transmit>, ibv_wc_status> {
        let Some(wqe) = self.window.queue().front() else {
            return Ok(None);
        };
        let (operation, imm) = match wqe.wr.op {
            SendOp::Send => (Operation::Send, None),
            SendOp::SendImm { imm } => (Operation::SendImm, Some(imm)),
            _ => return Err(IBV_WC_LOC_QP_OP_ERR),
        };
        let to = wqe.wr.ud.ok_or(IBV_WC_LOC_QP_OP_ERR)?;
        let end = wqe.end;
        if wqe.len > attributes.mtu {
            self.window.on_sent_unreliable(end, true);
            return Ok(None);
        }
        let opcode = Opcode::new(Transport::Ud, operation, Part::Only);
        let mut headers = emit::headers(opcode, to.qpn, send_queue::psn(wqe.first), buffer);
        headers.bth.solicited = wqe.wr.flags.solicited;
        headers.deth(&Deth {
            qkey: if to.qkey & CONTROLLED_QKEY != 0 {
                attributes.qkey
            } else {
                to.qkey
            },
            src_qpn: attributes.config.qpn,
        });
        if let Some(imm) = imm {
            headers.imm(imm);
        }
        let len = wqe.len as usize;
        let layout = Layout::new(headers.size(), len);
        let payload = layout
            .payload(headers.buffer())
            .ok_or(IBV_WC_LOC_QP_OP_ERR)?;
        if !payload.is_empty() {
            wqe.read_payload(0, payload, hca)
                .map_err(|error| error.status())?;
        }
        let encoded = layout.seal(headers);
        let len = encoded.ok_or(IBV_WC_LOC_QP_OP_ERR)?.len;
        self.window.on_sent_unreliable(end, true);
        if pace != Pace::Unlimited {
            self.pacer.on_sent(len);
        }
        Ok(Some(Transmit {
            av: to.av,
            dest_qpn: to.qpn,
            len,
        }))
    }
}
