//! Unreliable datagrams (9.8.3).

use ibverbs_abi::*;

use super::nak::Refusal;
use super::requester::{fill, status_of};
use super::responder;
use super::send_queue;
use super::{Addresses, Host, Qp, RecvWr, SendOp, Time, Transmit, WorkQueue, emit};
use crate::wire::{Deth, Opcode, Operation, Packet, Part, Transport};

/// A Q_Key with this bit in a request stands for the queue pair's own (10.2.5).
const OWN_QKEY: u32 = 1 << 31;
/// The longest datagram.
const LONGEST: usize = 4096;

impl Qp {
    pub(super) fn next_datagram(
        &mut self,
        now: Time,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        while self.prepare_unreliable(host) {
            if !self.pace.allows(now) {
                return None;
            }
            match self.send_datagram(host, buffer) {
                Ok(Some(transmit)) => {
                    self.pace.sent(transmit.len);
                    return Some(transmit);
                }
                Ok(None) => {}
                Err(status) => self.fail_oldest(status, host),
            }
        }
        None
    }

    /// Sends the oldest request. None: nothing came of it.
    fn send_datagram(
        &mut self,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Result<Option<Transmit>, ibv_wc_status> {
        let Some(wqe) = self.send_queue.wqes.front() else {
            return Ok(None);
        };
        let (operation, imm) = match wqe.wr.op {
            SendOp::Send => (Operation::Send, None),
            SendOp::SendImm { imm } => (Operation::SendImm, Some(imm)),
            _ => return Err(IBV_WC_LOC_QP_OP_ERR),
        };
        let to = wqe.wr.ud.ok_or(IBV_WC_LOC_QP_OP_ERR)?;
        let end = wqe.end;
        if wqe.len > self.attributes.mtu {
            // C10-93.1.1: neither packet nor error.
            self.advance_unreliable(end, true, host);
            return Ok(None);
        }
        let opcode = Opcode::new(Transport::Ud, operation, Part::Only);
        let psn = send_queue::psn_of(wqe.first);
        let mut headers = emit::headers(opcode, to.qpn, psn);
        headers.bth.solicited = wqe.wr.flags.solicited;
        headers.imm = imm;
        headers.deth = Some(Deth {
            qkey: if to.qkey & OWN_QKEY != 0 {
                self.attributes.qkey
            } else {
                to.qkey
            },
            src_qpn: self.config.qpn,
        });
        let len = wqe.len as usize;
        let payload = emit::payload(&headers, len, buffer).ok_or(IBV_WC_LOC_QP_OP_ERR)?;
        fill(wqe, wqe.first, self.attributes.mtu, payload, host).map_err(status_of)?;
        let len = emit::seal(headers, len, buffer).ok_or(IBV_WC_LOC_QP_OP_ERR)?;
        self.advance_unreliable(end, true, host);
        Ok(Some(Transmit {
            av: to.av,
            dest_qpn: to.qpn,
            len,
        }))
    }

    pub(super) fn receive_datagram(
        &mut self,
        operation: Operation,
        packet: &Packet,
        from: &Addresses,
        host: &mut impl Host,
    ) {
        let Some(deth) = packet.headers.deth else {
            return;
        };
        let sends = matches!(operation, Operation::Send | Operation::SendImm);
        // A wrong Q_Key is a violation that is counted, not answered (10.2.5).
        if !sends || deth.qkey != self.attributes.qkey || packet.payload.len() > LONGEST {
            return;
        }
        let Some(receive) = self.next_receive(host) else {
            return;
        };
        let mut len = 0;
        let placed = (responder::capacity(&receive)
            >= (from.grh.len() + packet.payload.len()) as u64)
            .then(|| {
                responder::place(&receive, &mut len, &from.grh, host)?;
                responder::place(&receive, &mut len, packet.payload, host)
            });
        match placed {
            // 9.9.3, class D: the receive is for the next one.
            None => self.responder.held = Some(receive),
            Some(Ok(())) => {
                let mut completion = responder::received(&receive, IBV_WC_RECV, len, packet);
                completion.src_qpn = deth.src_qpn;
                completion.wc_flags |= IBV_WC_GRH;
                completion.pkey_index = from.pkey_index;
                if host.complete(WorkQueue::Recv, completion).is_err() {
                    self.fatal(host);
                }
            }
            Some(Err(refusal)) => self.fail_receive(&receive, refusal, host),
        }
    }

    /// The receive cannot be used: it and the queue pair are in error (class A).
    fn fail_receive(&mut self, receive: &RecvWr, refusal: Refusal, host: &mut impl Host) {
        let status = match refusal {
            Refusal::Local(error) => status_of(error),
            _ => IBV_WC_LOC_LEN_ERR,
        };
        let _ = host.complete(WorkQueue::Recv, super::complete::failed(receive, status));
        self.enter_error(host);
    }
}
