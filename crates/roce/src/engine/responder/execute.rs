//! Executes validated requests: SEND, WRITE, READ, atomics, ATOMIC WRITE, FLUSH.
//!
//! Not here: the validation and the order of requests (`super`), duplicates and sending the
//! responses (`responses`).
//!
//! Specification: 9.7.4, 9.7.5; ATOMIC WRITE and FLUSH: annex A19.

use ibverbs_abi::*;

use super::inbound::InboundMessage;
use super::nak::{Executed, NakCause};
use super::resources::{Resource, SavedResult};
use super::{Attributes, Completion, Hca, Operation, Part, RecvWr, Request, Responder};
use crate::engine::response_queue::{ReadResponse, Response};
use crate::engine::{Access, MAX_MESSAGE_LEN, RemoteKey};

impl Responder {
    /// Executes the request with the ePSN of a reliable connection.
    #[inline(always)]
    pub(super) fn execute(
        &mut self,
        operation: Operation,
        part: Part,
        request: &impl Request,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> Executed {
        match operation {
            Operation::Send | Operation::SendImm | Operation::SendInv => {
                self.execute_send(part, request, attributes, hca)
            }
            Operation::Write | Operation::WriteImm => {
                self.execute_write(part, request, attributes, hca)
            }
            _ if self.inbound.message().is_some() => Err(NakCause::InvalidRequest),
            // 9.7.4.1.2, 9.9.3 class C. (Kernel rxe drops the packet.)
            Operation::Reserved => Err(NakCause::InvalidRequest),
            Operation::ReadRequest => self.execute_read(request, attributes, hca),
            Operation::CmpSwap | Operation::FetchAdd => {
                self.execute_atomic(operation, request, attributes, hca)
            }
            Operation::AtomicWrite => self.execute_atomic_write(request, attributes, hca),
            Operation::Flush => self.execute_flush(request, attributes, hca),
            // Not requests: the queue pair hands them to the completer.
            Operation::ReadResponse | Operation::Ack | Operation::AtomicAck => Err(NakCause::Drop),
        }
    }

    /// A packet of a SEND (9.7.4.1, 9.7.5).
    #[inline(always)]
    pub(super) fn execute_send(
        &mut self,
        part: Part,
        request: &impl Request,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> Executed {
        let starts = matches!(part, Part::First | Part::Only);
        require(request.has_valid_len(part, attributes.mtu))?;
        let ends = matches!(part, Part::Last | Part::Only);
        if let (Some((recv, len)), false, false) = (self.inbound.send_mut(), starts, ends) {
            place(&recv.wr, len, request.payload(), hca)?;
            self.accept(request, attributes, false);
            return Ok(());
        }
        // A message of one packet is stored only if it fails.
        let (recv, mut len) = self.inbound.take_send(starts, request, attributes, hca)?;
        let mut done = place(&recv.wr, &mut len, request.payload(), hca);
        if let (Ok(()), Some(rkey)) = (done, request.ieth()) {
            let invalidated = hca.invalidate_remote(remote_key(request, rkey));
            done = invalidated.map_err(|_| NakCause::Invalidate {
                ack_request: request.requests_ack(),
            });
        }
        if done.is_err() || !ends {
            // The next packet continues with it; after an error it completes with that.
            self.inbound.keep(InboundMessage::Send { recv, len });
            done?;
            self.accept(request, attributes, false);
            return Ok(());
        }
        let completion = recv_completion(&recv.wr, IBV_WC_RECV, len, request);
        hca.complete(recv.queue, completion)?;
        self.counters.rdma_recvs += 1;
        self.accept(request, attributes, true);
        Ok(())
    }

    /// A packet of an RDMA WRITE (9.7.4.1, 9.7.5).
    pub(super) fn execute_write(
        &mut self,
        part: Part,
        request: &impl Request,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> Executed {
        let payload_len = request.payload().len() as u32;
        require(request.has_valid_len(part, attributes.mtu))?;
        let (reth, offset) = match (self.inbound.message(), request.reth()) {
            (None, Some(reth)) => {
                check_access(attributes, IBV_ACCESS_REMOTE_WRITE)?;
                if reth.len > MAX_MESSAGE_LEN {
                    return Err(NakCause::InvalidRequest);
                }
                if part == Part::First {
                    let key = remote_key(request, reth.rkey);
                    hca.check_remote(key, reth.va, reth.len.into(), Access::Write)?;
                }
                (reth, 0)
            }
            (Some(InboundMessage::Write { reth, len }), None) => (*reth, *len),
            _ => return Err(NakCause::InvalidRequest),
        };
        let ends = matches!(part, Part::Last | Part::Only);
        match (reth.len - offset).checked_sub(payload_len) {
            Some(0) if ends => {}
            Some(1..) if !ends => {}
            _ => return Err(NakCause::InvalidRequest),
        }
        let recv = match request.imm() {
            Some(_) => Some(self.inbound.take_recv(request, attributes, hca)?),
            None => None,
        };
        let va = reth.va.wrapping_add(offset.into());
        if payload_len > 0 {
            let key = remote_key(request, reth.rkey);
            if let Err(error) = hca.write_remote(key, va, request.payload()) {
                // The receive WR reports the error.
                if let Some(recv) = recv {
                    self.inbound.keep(InboundMessage::Send { recv, len: 0 });
                }
                return Err(error.into());
            }
        }
        let len = offset + payload_len;
        if !ends {
            self.inbound.keep(InboundMessage::Write { reth, len });
        } else {
            self.inbound.end_message();
            hca.on_peer_request(Access::Write, Some(len));
        }
        if let Some(recv) = recv {
            let opcode = IBV_WC_RECV_RDMA_WITH_IMM;
            let completion = recv_completion(&recv.wr, opcode, len, request);
            hca.complete(recv.queue, completion)?;
            self.counters.rdma_recvs += 1;
        }
        self.accept(request, attributes, ends);
        Ok(())
    }

    /// A READ request. Its memory is read when the responses are sent, or before a later request is executed
    /// ([`Responder::may_execute`]).
    fn execute_read(
        &mut self,
        request: &impl Request,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> Executed {
        let reth = request.reth().ok_or(NakCause::InvalidRequest)?;
        check_access(attributes, IBV_ACCESS_REMOTE_READ)?;
        self.check_resources(attributes)?;
        if reth.len > MAX_MESSAGE_LEN {
            return Err(NakCause::InvalidRequest);
        }
        let key = remote_key(request, reth.rkey);
        if reth.len > 0 {
            hca.check_remote(key, reth.va, reth.len.into(), Access::Read)?;
        }
        let psn = request.psn();
        let packets = request.read_psns(reth.len, attributes.mtu);
        let resource = Resource {
            first_psn: psn,
            packets,
            result: SavedResult::Read(reth),
        };
        let response = Response::Read(ReadResponse {
            first_psn: psn,
            psn,
            va: reth.va,
            key,
            remaining: reth.len,
            sent: 0,
            duplicate: false,
            repeats: false,
            copy: None,
        });
        self.answer(resource, response, attributes);
        Ok(())
    }

    /// A compare-and-swap or fetch-and-add.
    fn execute_atomic(
        &mut self,
        operation: Operation,
        request: &impl Request,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> Executed {
        let eth = request.atomic().ok_or(NakCause::InvalidRequest)?;
        check_access(attributes, IBV_ACCESS_REMOTE_ATOMIC)?;
        self.check_resources(attributes)?;
        check_aligned(eth.va)?;
        let key = remote_key(request, eth.rkey);
        let original_value = hca.atomic(key, eth.va, &mut |value| match operation {
            Operation::CmpSwap if value == eth.compare => eth.swap_add,
            Operation::CmpSwap => value,
            _ => value.wrapping_add(eth.swap_add),
        })?;
        let psn = request.psn();
        let resource = Resource {
            first_psn: psn,
            packets: 1,
            result: SavedResult::Atomic { original_value },
        };
        let response = Response::Atomic {
            psn,
            original_value,
            duplicate: false,
        };
        self.answer(resource, response, attributes);
        Ok(())
    }

    /// An ATOMIC WRITE (annex A19.4.2). The response is a READ response without payload, as from the
    /// kernel's rxe.
    fn execute_atomic_write(
        &mut self,
        request: &impl Request,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> Executed {
        let invalid = NakCause::InvalidRequest;
        let reth = request.reth().ok_or(invalid)?;
        check_access(attributes, IBV_ACCESS_REMOTE_WRITE)?;
        if attributes.max_dest_rd_atomic == 0 {
            return Err(invalid);
        }
        let data = *request.payload().first_chunk().ok_or(invalid)?;
        if reth.len != 8 || request.payload().len() != 8 {
            return Err(invalid);
        }
        check_aligned(reth.va)?;
        if !self.responses.queue().has_room() {
            return Err(NakCause::Drop);
        }
        hca.atomic_write(remote_key(request, reth.rkey), reth.va, data)?;
        self.accept_with_empty_response(request);
        Ok(())
    }

    /// A FLUSH (annex A19.4.1).
    fn execute_flush(
        &mut self,
        request: &impl Request,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> Executed {
        let (Some(feth), Some(reth)) = (request.feth(), request.reth()) else {
            return Err(NakCause::InvalidRequest);
        };
        let whole = match u32::from(feth.selectivity) {
            IBV_FLUSH_RANGE => false,
            IBV_FLUSH_MR => true,
            _ => return Err(NakCause::InvalidRequest),
        };
        let placement = u32::from(feth.placement);
        if placement == 0 || placement & !(IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT) != 0 {
            return Err(NakCause::InvalidRequest);
        }
        if !self.responses.queue().has_room() {
            return Err(NakCause::Drop);
        }
        let (key, len) = (remote_key(request, reth.rkey), reth.len.into());
        if placement & IBV_FLUSH_GLOBAL != 0 {
            check_access(attributes, IBV_ACCESS_FLUSH_GLOBAL)?;
            hca.flush(key, reth.va, len, whole, Access::FlushGlobal)?;
        }
        if placement & IBV_FLUSH_PERSISTENT != 0 {
            check_access(attributes, IBV_ACCESS_FLUSH_PERSISTENT)?;
            hca.flush(key, reth.va, len, whole, Access::FlushPersistent)?;
        }
        self.accept_with_empty_response(request);
        Ok(())
    }

    /// A packet of a SEND or WRITE was executed. Sends an ACK if the packet requests one.
    #[inline(always)]
    fn accept(&mut self, request: &impl Request, attributes: &Attributes, ends_message: bool) {
        self.sequence.accept(request.next_psn());
        if ends_message {
            self.responses.count_message();
        }
        if request.requests_ack() && attributes.config.service.is_reliable() {
            let ack_psn = self.sequence.ack_psn();
            self.responses.queue_mut().push_ack(ack_psn);
        }
    }

    fn accept_with_empty_response(&mut self, request: &impl Request) {
        let psn = request.psn();
        self.sequence.advance(psn.next());
        self.responses.count_message();
        self.responses.queue_mut().push(Response::Empty { psn });
    }

    /// A READ or atomic was executed, with this response.
    fn answer(&mut self, resource: Resource, response: Response, attributes: &Attributes) {
        self.sequence.advance(resource.first_psn + resource.packets);
        self.responses.count_message();
        let limit = attributes.max_dest_rd_atomic;
        self.responses.push_saved(resource, response, limit);
    }

    /// Whether a responder resource is free for one more READ or atomic (9.7.4.1.3).
    fn check_resources(&self, attributes: &Attributes) -> Executed {
        let pending = self.responses.queue().pending_rd_atomic();
        require(pending < attributes.max_dest_rd_atomic.into())
    }
}

/// Writes a payload to a receive WR, after the `len` bytes that it holds, and adds to `len`.
#[inline(always)]
pub fn place(wr: &RecvWr, len: &mut u32, payload: &[u8], hca: &mut impl Hca) -> Executed {
    if payload.is_empty() {
        return Ok(());
    }
    let end = u64::from(*len) + payload.len() as u64;
    if end > capacity(wr).min(MAX_MESSAGE_LEN.into()) {
        return Err(NakCause::MessageTooLong);
    }
    hca.scatter_recv(&wr.sges, (*len).into(), payload)
        .map_err(NakCause::RecvMemory)?;
    *len = end as u32;
    Ok(())
}

/// The bytes that a receive WR has room for.
pub fn capacity(wr: &RecvWr) -> u64 {
    wr.sges.iter().map(|sge| u64::from(sge.len)).sum()
}

/// The completion of a receive WR with a message of `len` bytes; `request` is the message's last part. The
/// GRH flag is set for every service: each RoCE packet has a global route. ibv_poll_cq(3) defines it for UD
/// only. But rxe sets it always, and rdma-core's mlx5, mlx4, mthca and hns take it from the CQE for every
/// service; bnxt_re, irdma and ocrdma set it for UD only.
#[inline(always)]
pub fn recv_completion(
    wr: &RecvWr,
    opcode: ibv_wc_opcode,
    len: u32,
    request: &impl Request,
) -> Completion {
    let (imm_or_rkey, wc_flags) = match (request.imm(), request.ieth()) {
        (Some(imm), _) => (imm, IBV_WC_GRH | IBV_WC_WITH_IMM),
        (_, Some(rkey)) => (rkey, IBV_WC_GRH | IBV_WC_WITH_INV),
        _ => (0, IBV_WC_GRH),
    };
    Completion {
        byte_len: len,
        imm_or_rkey,
        wc_flags,
        solicited: request.is_solicited(),
        ..Completion::new(wr.wr_id, IBV_WC_SUCCESS, opcode)
    }
}

/// An R_Key of the request.
pub fn remote_key(request: &impl Request, rkey: u32) -> RemoteKey {
    RemoteKey {
        rkey,
        xrc_srqn: request.xrc_srqn(),
    }
}

/// An invalid request unless `valid`.
fn require(valid: bool) -> Executed {
    if valid {
        Ok(())
    } else {
        Err(NakCause::InvalidRequest)
    }
}

/// Whether the queue pair grants its peer that access.
fn check_access(attributes: &Attributes, access: ibv_access_flags) -> Executed {
    require(attributes.access & access == access)
}

fn check_aligned(va: u64) -> Executed {
    require(va % 8 == 0)
}
