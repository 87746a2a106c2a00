//! The responder of a reliable connection (9.7.4, 9.7.5, 9.9.3): the checks of requests, and their
//! execution.

use std::collections::VecDeque;

use ibverbs_abi::*;

use super::complete::queue_of;
use super::duplicate::{Answer, Resource, packets_of};
use super::nak::{Executed, Refusal};
use super::response_queue::{ReadReply, Reply};
use super::{Access, Completion, Host, Qp, QpEvent, QpState, RecvWr, Service, XrcError};
use crate::wire::{AethKind, NakCode, Operation, Packet, Part, Psn, Reth};

/// The longest message (9.7.1.1).
pub const LONGEST: u32 = 1 << 31;

/// A message of which more packets are to come.
#[derive(Debug)]
pub enum Message {
    Send {
        receive: RecvWr,
        /// The shared receive queue that the receive is of.
        xrc: Option<u32>,
        /// Bytes so far.
        len: u32,
    },
    Write {
        reth: Reth,
        /// Bytes so far.
        len: u32,
    },
}

#[derive(Debug)]
pub struct Responder {
    /// The PSN of the next request packet.
    pub expected: Psn,
    /// Messages completed (24 bits).
    pub messages: u32,
    /// The last executed packet of a request that is answered by a mere acknowledgment; at first, the
    /// one before the first.
    pub acknowledged: Psn,
    /// A complaint has been sent about `expected`, because of that packet.
    pub complained: Option<Psn>,
    established: bool,
    pub message: Option<Message>,
    /// A receive that was taken for a message that did not come to its end; used first.
    pub held: Option<RecvWr>,
    pub resources: VecDeque<Resource>,
}

impl Responder {
    pub fn new() -> Responder {
        Responder {
            expected: Psn::new(0),
            messages: 0,
            acknowledged: Psn::new(0),
            complained: None,
            established: false,
            message: None,
            held: None,
            resources: VecDeque::new(),
        }
    }

    /// The peer begins with that packet.
    pub fn start(&mut self, psn: Psn) {
        self.expected = psn;
        self.acknowledged = psn - 1;
    }
}

impl Qp {
    pub(super) fn receive_request(
        &mut self,
        operation: Operation,
        part: Part,
        packet: &Packet,
        host: &mut impl Host,
    ) {
        self.tell_established(host);
        let psn = packet.headers.bth.psn;
        let ahead = psn.distance(self.responder.expected);
        if ahead > 0 {
            self.complain_about_gap(psn);
            return;
        }
        if ahead < 0 {
            self.answer_again(operation, packet, host);
            return;
        }
        self.responder.complained = None;
        self.replies.withdraw_complaint();
        let executed = match operation {
            Operation::Send | Operation::SendImm | Operation::SendInv => {
                self.execute_send(part, packet, host)
            }
            Operation::Write | Operation::WriteImm => self.execute_write(part, packet, host),
            _ if self.responder.message.is_some() => Err(Refusal::Invalid),
            Operation::ReadRequest => self.execute_read(packet, host),
            Operation::CmpSwap | Operation::FetchAdd => {
                self.execute_atomic(operation, packet, host)
            }
            Operation::AtomicWrite => self.execute_atomic_write(packet, host),
            Operation::Flush => self.execute_flush(packet, host),
            Operation::ReadResponse | Operation::Ack | Operation::AtomicAck => Err(Refusal::Drop),
        };
        if let Err(refusal) = executed {
            self.refuse(refusal, host);
        }
    }

    /// The first packet from a peer that is ready to send (11.6.3.1).
    pub(super) fn tell_established(&mut self, host: &mut impl Host) {
        if self.state == QpState::Rtr && !self.responder.established {
            self.responder.established = true;
            host.event(QpEvent::CommunicationEstablished);
        }
    }

    /// Complains once (9.7.5.2.3); and once more if the peer has begun again and lost the same packet.
    fn complain_about_gap(&mut self, psn: Psn) {
        let responder = &mut self.responder;
        if responder
            .complained
            .is_none_or(|before| psn.distance(before) <= 0)
        {
            responder.complained = Some(psn);
            self.replies.withdraw_complaint();
            self.replies.push(Reply::Refusal(
                responder.expected,
                AethKind::Nak(NakCode::PsnSequence),
            ));
        }
    }

    /// Allows the peer only what `access` says.
    pub(super) fn permits(&self, access: ibv_access_flags) -> Executed {
        if self.attributes.access & access == access {
            Ok(())
        } else {
            Err(Refusal::Invalid)
        }
    }

    /// The next receive, and whose it is.
    fn take_receive(
        &mut self,
        packet: &Packet,
        host: &mut impl Host,
    ) -> Result<(RecvWr, Option<u32>), Refusal> {
        if self.config.service == Service::XrcRecv {
            let srqn = packet.headers.xrc_srqn.ok_or(Refusal::Invalid)?;
            return match host.take_xrc_srq_wr(srqn) {
                Ok(receive) => Ok((receive, Some(srqn))),
                Err(XrcError::Empty) => Err(Refusal::NotReady),
                Err(XrcError::NoSuchQueue) => Err(Refusal::Invalid),
            };
        }
        let receive = self.next_receive(host).ok_or(Refusal::NotReady)?;
        Ok((receive, None))
    }

    /// The next receive of the queue pair's queue, its own or a shared one.
    pub(super) fn next_receive(&mut self, host: &mut impl Host) -> Option<RecvWr> {
        if let Some(receive) = self.responder.held.take() {
            Some(receive)
        } else if self.config.has_srq {
            host.take_srq_wr()
        } else {
            self.receives.pop_front()
        }
    }

    /// A packet of a SEND (9.7.4.1, 9.7.5).
    pub(super) fn execute_send(
        &mut self,
        part: Part,
        packet: &Packet,
        host: &mut impl Host,
    ) -> Executed {
        let starts = matches!(part, Part::First | Part::Only);
        check_length(part, packet.payload.len(), self.attributes.mtu)?;
        match (&self.responder.message, starts) {
            (None, true) => {
                let (receive, xrc) = self.take_receive(packet, host)?;
                let len = 0;
                self.responder.message = Some(Message::Send { receive, xrc, len });
            }
            (Some(Message::Send { .. }), false) => {}
            _ => return Err(Refusal::Invalid),
        }
        if let Some(Message::Send { receive, len, .. }) = &mut self.responder.message {
            place(receive, len, packet.payload, host)?;
        }
        if !matches!(part, Part::Last | Part::Only) {
            self.accept(packet, 0);
            return Ok(());
        }
        if let Some(rkey) = packet.headers.ieth {
            host.invalidate_remote(rkey)
                .map_err(|_| Refusal::Invalidate)?;
        }
        if let Some(Message::Send { receive, xrc, len }) = self.responder.message.take() {
            let completion = received(&receive, IBV_WC_RECV, len, packet);
            host.complete(queue_of(xrc), completion)?;
        }
        self.accept(packet, 1);
        Ok(())
    }

    /// A packet of an RDMA WRITE.
    pub(super) fn execute_write(
        &mut self,
        part: Part,
        packet: &Packet,
        host: &mut impl Host,
    ) -> Executed {
        let payload = packet.payload;
        let added = payload.len() as u32;
        check_length(part, payload.len(), self.attributes.mtu)?;
        let (reth, before) = match (&self.responder.message, packet.headers.reth) {
            (None, Some(reth)) => {
                self.permits(IBV_ACCESS_REMOTE_WRITE)?;
                if reth.len > LONGEST {
                    return Err(Refusal::Invalid);
                }
                if part == Part::First {
                    host.check_remote(reth.rkey, reth.va, reth.len.into(), Access::Write)?;
                }
                (reth, 0)
            }
            (Some(Message::Write { reth, len }), None) => (*reth, *len),
            _ => return Err(Refusal::Invalid),
        };
        let ends = matches!(part, Part::Last | Part::Only);
        let left = (reth.len - before).checked_sub(added);
        match left {
            Some(0) if ends => {}
            Some(1..) if !ends => {}
            _ => return Err(Refusal::Invalid),
        }
        let receive = match packet.headers.imm {
            Some(_) => Some(self.take_receive(packet, host)?),
            None => None,
        };
        if added > 0
            && let Err(error) =
                host.write_remote(reth.rkey, reth.va.wrapping_add(before.into()), payload)
        {
            // The receive tells the program of the error.
            if let Some((receive, xrc)) = receive {
                let len = 0;
                self.responder.message = Some(Message::Send { receive, xrc, len });
            }
            return Err(error.into());
        }
        let len = before + added;
        self.responder.message = (!ends).then_some(Message::Write { reth, len });
        if let Some((receive, xrc)) = receive {
            let completion = received(&receive, IBV_WC_RECV_RDMA_WITH_IMM, len, packet);
            host.complete(queue_of(xrc), completion)?;
        }
        self.accept(packet, ends.into());
        Ok(())
    }

    fn execute_read(&mut self, packet: &Packet, host: &mut impl Host) -> Executed {
        let reth = packet.headers.reth.ok_or(Refusal::Invalid)?;
        self.permits(IBV_ACCESS_REMOTE_READ)?;
        self.check_resources()?;
        if reth.len > LONGEST {
            return Err(Refusal::Invalid);
        }
        if reth.len > 0 {
            host.check_remote(reth.rkey, reth.va, reth.len.into(), Access::Read)?;
        }
        let psn = packet.headers.bth.psn;
        let packets = packets_of(reth.len, self.attributes.mtu);
        self.keep(psn, packets, Answer::Read(reth));
        self.replies.push(Reply::Read(ReadReply {
            first: psn,
            psn,
            va: reth.va,
            rkey: reth.rkey,
            left: reth.len,
            began: false,
            original: true,
        }));
        self.responder.expected = psn + packets;
        self.count_message();
        Ok(())
    }

    fn execute_atomic(
        &mut self,
        operation: Operation,
        packet: &Packet,
        host: &mut impl Host,
    ) -> Executed {
        let eth = packet.headers.atomic.ok_or(Refusal::Invalid)?;
        self.permits(IBV_ACCESS_REMOTE_ATOMIC)?;
        self.check_resources()?;
        check_aligned(eth.va)?;
        let before = host.atomic(eth.rkey, eth.va, &mut |value| match operation {
            Operation::CmpSwap if value == eth.compare => eth.swap_add,
            Operation::CmpSwap => value,
            _ => value.wrapping_add(eth.swap_add),
        })?;
        let psn = packet.headers.bth.psn;
        self.keep(psn, 1, Answer::Atomic(before));
        self.replies.push(Reply::Atomic {
            psn,
            before,
            original: true,
        });
        self.responder.expected = psn.next();
        self.count_message();
        Ok(())
    }

    /// Annex A19.4.2. The answer is a READ response without data, as kernel rxe's.
    fn execute_atomic_write(&mut self, packet: &Packet, host: &mut impl Host) -> Executed {
        let reth = packet.headers.reth.ok_or(Refusal::Invalid)?;
        self.permits(IBV_ACCESS_REMOTE_WRITE)?;
        if self.attributes.max_dest_rd_atomic == 0 {
            return Err(Refusal::Invalid);
        }
        let data = *packet.payload.first_chunk().ok_or(Refusal::Invalid)?;
        if reth.len != 8 || packet.payload.len() != 8 {
            return Err(Refusal::Invalid);
        }
        check_aligned(reth.va)?;
        if !self.replies.has_room() {
            return Err(Refusal::Drop);
        }
        host.atomic_write(reth.rkey, reth.va, data)?;
        self.accept_empty(packet);
        Ok(())
    }

    /// Annex A19.4.1.
    fn execute_flush(&mut self, packet: &Packet, host: &mut impl Host) -> Executed {
        let headers = &packet.headers;
        let (Some(feth), Some(reth)) = (headers.feth, headers.reth) else {
            return Err(Refusal::Invalid);
        };
        let whole = match u32::from(feth.selectivity) {
            IBV_FLUSH_RANGE => false,
            IBV_FLUSH_MR => true,
            _ => return Err(Refusal::Invalid),
        };
        let placement = u32::from(feth.placement);
        if placement == 0 || placement & !(IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT) != 0 {
            return Err(Refusal::Invalid);
        }
        if !self.replies.has_room() {
            return Err(Refusal::Drop);
        }
        let kinds = [
            (
                IBV_FLUSH_GLOBAL,
                IBV_ACCESS_FLUSH_GLOBAL,
                Access::FlushGlobal,
            ),
            (
                IBV_FLUSH_PERSISTENT,
                IBV_ACCESS_FLUSH_PERSISTENT,
                Access::FlushPersistent,
            ),
        ];
        for (asked, flag, access) in kinds {
            if placement & asked != 0 {
                self.permits(flag)?;
                host.flush(reth.rkey, reth.va, reth.len.into(), whole, access)?;
            }
        }
        self.accept_empty(packet);
        Ok(())
    }

    /// A packet that is answered by a mere acknowledgment, if it asks for one.
    fn accept(&mut self, packet: &Packet, messages: u32) {
        let bth = &packet.headers.bth;
        self.responder.expected = bth.psn.next();
        self.responder.acknowledged = bth.psn;
        if messages > 0 {
            self.count_message();
        }
        if bth.ack_request && self.config.service != Service::Uc {
            self.replies.ack(bth.psn);
        }
    }

    fn accept_empty(&mut self, packet: &Packet) {
        let psn = packet.headers.bth.psn;
        self.responder.expected = psn.next();
        self.count_message();
        self.replies.push(Reply::Empty(psn));
    }

    fn count_message(&mut self) {
        self.responder.messages = Psn::new(self.responder.messages).next().get();
    }

    /// Whether the peer may have one more READ or atomic under way (9.7.4.1.3).
    fn check_resources(&self) -> Executed {
        if self.replies.pending() < self.attributes.max_dest_rd_atomic.into() {
            Ok(())
        } else {
            Err(Refusal::Invalid)
        }
    }
}

/// Puts a payload into a receive behind what it has got.
pub fn place(receive: &RecvWr, len: &mut u32, payload: &[u8], host: &mut impl Host) -> Executed {
    if payload.is_empty() {
        return Ok(());
    }
    let end = u64::from(*len) + payload.len() as u64;
    if end > capacity(receive).min(LONGEST.into()) {
        return Err(Refusal::Length);
    }
    host.scatter(&receive.sges, (*len).into(), payload)
        .map_err(Refusal::Local)?;
    *len = end as u32;
    Ok(())
}

pub fn capacity(receive: &RecvWr) -> u64 {
    receive.sges.iter().map(|sge| u64::from(sge.len)).sum()
}

/// The completion of a receive.
pub fn received(receive: &RecvWr, opcode: ibv_wc_opcode, len: u32, packet: &Packet) -> Completion {
    let headers = &packet.headers;
    let (imm_or_rkey, wc_flags) = match (headers.imm, headers.ieth) {
        (Some(imm), _) => (imm, IBV_WC_WITH_IMM),
        (_, Some(rkey)) => (rkey, IBV_WC_WITH_INV),
        _ => (0, 0),
    };
    Completion {
        byte_len: len,
        imm_or_rkey,
        wc_flags,
        solicited: headers.bth.solicited,
        ..Completion::new(receive.wr_id, IBV_WC_SUCCESS, opcode)
    }
}

/// The payload that parts of a message have (9.7.4.1.6).
pub fn check_length(part: Part, len: usize, mtu: u32) -> Executed {
    let mtu = mtu as usize;
    let right = match part {
        Part::First | Part::Middle => len == mtu,
        Part::Last => len > 0 && len <= mtu,
        Part::Only => len <= mtu,
    };
    if right { Ok(()) } else { Err(Refusal::Invalid) }
}

fn check_aligned(va: u64) -> Executed {
    if va.is_multiple_of(8) {
        Ok(())
    } else {
        Err(Refusal::Invalid)
    }
}
