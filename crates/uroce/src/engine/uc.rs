//! Unreliable connections (9.8.2): nothing is answered. A message that lost a packet is dropped, and
//! the receive that it had taken is there for the next one.

use ibverbs_abi::*;

use super::nak::Refusal;
use super::requester::{describe, fill, part_of, status_of};
use super::responder::Message;
use super::send_queue::{self, Class, Progress};
use super::{Host, Qp, QpState, Time, emit};
use crate::wire::{Operation, Packet, Part};

impl Qp {
    pub(super) fn next_unreliable(
        &mut self,
        now: Time,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<usize> {
        while self.prepare_unreliable(host) {
            if !self.pace.allows(now) {
                return None;
            }
            match self.send_unreliable(host, buffer) {
                Ok(Some(len)) => {
                    self.pace.sent(len);
                    return Some(len);
                }
                Ok(None) => return None,
                Err(status) => self.fail_oldest(status, host),
            }
        }
        None
    }

    /// Does what is to be done without sending. Whether there is a request with a packet to send.
    pub(super) fn prepare_unreliable(&mut self, host: &mut impl Host) -> bool {
        loop {
            if !matches!(self.state, QpState::Rts | QpState::Sqd) {
                return false;
            }
            let Some(wqe) = self.send_queue.wqes.front() else {
                return false;
            };
            if (self.requester.drain_end).is_some_and(|end| wqe.first >= end) {
                return false;
            }
            match (wqe.progress, wqe.class()) {
                (Progress::Failed(_) | Progress::Executed, _) => self.settle(host),
                (Progress::Waiting, Class::Local) => self.execute_local(host),
                (Progress::Waiting, Class::Message) => return true,
                (Progress::Waiting, _) => self.fail_oldest(IBV_WC_LOC_QP_OP_ERR, host),
            }
        }
    }

    /// The next packet of the oldest request, which completes with its last one.
    fn send_unreliable(
        &mut self,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, ibv_wc_status> {
        let Some(wqe) = self.send_queue.wqes.front() else {
            return Ok(None);
        };
        let Some(operation) = wqe.operation() else {
            return Ok(None);
        };
        let number = self.requester.next;
        let mtu = self.attributes.mtu;
        let (first, last) = (number == wqe.first, number + 1 == wqe.end);
        if first && !last && wqe.wr.inline.is_none() {
            // No message is begun that cannot be ended.
            host.check_local(&wqe.wr.sges, false).map_err(status_of)?;
        }
        let part = part_of(first, last);
        let mut headers = self.headers(operation, part, send_queue::psn_of(number));
        if headers.bth.opcode.parts().is_none() {
            return Err(IBV_WC_LOC_QP_OP_ERR);
        }
        let (following, len) = describe(wqe, number, mtu, part, &mut headers);
        let Some(payload) = emit::payload(&headers, len, buffer) else {
            return Ok(None);
        };
        fill(wqe, number, mtu, payload, host).map_err(status_of)?;
        let Some(len) = emit::seal(headers, len, buffer) else {
            return Ok(None);
        };
        self.advance_unreliable(following, last, host);
        Ok(Some(len))
    }

    /// All before packet `following` has been sent; with the last packet of a request it is done.
    pub(super) fn advance_unreliable(&mut self, following: u64, last: bool, host: &mut impl Host) {
        self.requester.next = following;
        self.requester.sent = following;
        if last {
            self.requester.oldest = following;
            self.settle(host);
        }
    }

    pub(super) fn receive_unreliable(
        &mut self,
        operation: Operation,
        part: Part,
        packet: &Packet,
        host: &mut impl Host,
    ) {
        self.tell_established(host);
        let psn = packet.headers.bth.psn;
        let starts = matches!(part, Part::First | Part::Only);
        if starts || psn != self.responder.expected {
            self.abandon_message();
        }
        self.responder.expected = psn.next();
        if !starts && self.responder.message.is_none() {
            return;
        }
        let executed = match operation {
            Operation::Send | Operation::SendImm => self.execute_send(part, packet, host),
            Operation::Write | Operation::WriteImm => self.execute_write(part, packet, host),
            _ => Err(Refusal::Invalid),
        };
        match executed {
            Ok(()) => {}
            Err(refusal @ (Refusal::Local(_) | Refusal::Overrun)) => self.refuse(refusal, host),
            // 9.9.3, class D.
            Err(_) => self.abandon_message(),
        }
    }

    /// What has come of a message does not count.
    fn abandon_message(&mut self) {
        if let Some(Message::Send { receive, .. }) = self.responder.message.take() {
            self.responder.held = Some(receive);
        }
    }
}
