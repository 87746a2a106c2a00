//! Executes the most frequent request, a SEND in a short packet, with fewer instructions than
//! [`Responder::on_request`] takes, while nothing unusual happens.

use ibverbs_abi::*;

use super::nak::Executed;
use super::{Completion, Host, Responder, WorkQueue, capacity};
use crate::wire::{Psn, ShortContent};

impl Responder {
    /// Executes the request with the ePSN of an RC queue pair, if it is a SEND that a receive WR has room
    /// for. None if nothing was done: it is another packet or another case.
    #[inline]
    pub fn execute_short(
        &mut self,
        psn: Psn,
        content: ShortContent<'_>,
        host: &mut impl Host,
    ) -> Option<Executed> {
        let ShortContent::Send {
            ack_request,
            solicited,
            payload,
        } = content
        else {
            return None;
        };
        // A response other than ACKs has a place in the order, and a NAK may have to be withdrawn.
        let is_next = psn == self.epsn && self.message.is_none() && self.responses.has_only_acks();
        if !is_next || !self.responses.try_reserve() {
            return None;
        }
        let wr = self.recv_queue.take(host)?;
        let is_placed = payload.is_empty()
            || payload.len() as u64 <= capacity(&wr)
                && host.scatter_recv(&wr.sges, 0, payload).is_ok();
        if !is_placed {
            self.recv_queue.put_back(wr);
            return None;
        }
        let completion = Completion {
            byte_len: payload.len() as u32,
            wc_flags: IBV_WC_GRH,
            solicited,
            ..Completion::new(wr.wr_id, IBV_WC_SUCCESS, IBV_WC_RECV)
        };
        self.nak_sent = None;
        if let Err(overrun) = host.complete(WorkQueue::Recv, completion) {
            return Some(Err(overrun.into()));
        }
        self.counters.rdma_recvs += 1;
        self.epsn = psn.next();
        self.ack_psn = psn;
        self.count_message();
        if ack_request {
            self.responses.push_ack(psn);
        }
        Some(Ok(()))
    }
}
