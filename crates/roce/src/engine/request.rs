//! A request as the responder takes it: from a packet, or from shared memory.

use super::shm::Fragment;
use crate::wire::{AtomicEth, Feth, Packet, Part, Psn, Reth};

/// A request, or one of its packets or fragments.
pub trait Request {
    /// The packet, if it came in one.
    fn as_packet(&self) -> Option<&Packet<'_>>;

    /// The PSN of the request.
    fn psn(&self) -> Psn;

    /// The PSN that is expected behind it.
    fn next_psn(&self) -> Psn;

    /// Whether it goes on where the message that has `len` bytes until now ends.
    fn continues_at(&self, len: u32) -> bool;

    /// The payload of the request.
    fn payload(&self) -> &[u8];

    /// Whether the payload has the length that this part of a message must have (9.7.4.1.6).
    fn has_valid_len(&self, part: Part, mtu: u32) -> bool;

    /// Whether it raises a solicited event.
    fn is_solicited(&self) -> bool;

    /// Whether it requests an acknowledgment.
    fn requests_ack(&self) -> bool;

    /// Immediate data in network byte order.
    fn imm(&self) -> Option<u32>;

    /// The R_Key to invalidate.
    fn ieth(&self) -> Option<u32>;

    /// Address, R_Key and length.
    fn reth(&self) -> Option<Reth>;

    /// The operands of an atomic operation.
    fn atomic(&self) -> Option<AtomicEth>;

    /// The parameters of a FLUSH.
    fn feth(&self) -> Option<Feth>;

    /// XRC: the number of the shared receive queue.
    fn xrc_srqn(&self) -> Option<u32>;

    /// The PSNs that the responses to a READ of that many bytes take.
    fn read_psns(&self, len: u32, mtu: u32) -> u32;
}

impl Request for Packet<'_> {
    fn as_packet(&self) -> Option<&Packet<'_>> {
        Some(self)
    }

    #[inline(always)]
    fn psn(&self) -> Psn {
        self.bth.psn
    }

    #[inline(always)]
    fn next_psn(&self) -> Psn {
        self.bth.psn.next()
    }

    #[inline(always)]
    fn continues_at(&self, _len: u32) -> bool {
        // The packet's PSN has shown that.
        true
    }

    #[inline(always)]
    fn payload(&self) -> &[u8] {
        self.payload
    }

    #[inline(always)]
    fn has_valid_len(&self, part: Part, mtu: u32) -> bool {
        let (len, mtu) = (self.payload.len(), mtu as usize);
        match part {
            Part::First | Part::Middle => len == mtu,
            Part::Last => len > 0 && len <= mtu,
            Part::Only => len <= mtu,
        }
    }

    #[inline(always)]
    fn is_solicited(&self) -> bool {
        self.bth.solicited
    }

    #[inline(always)]
    fn requests_ack(&self) -> bool {
        self.bth.ack_request
    }

    #[inline(always)]
    fn imm(&self) -> Option<u32> {
        Packet::imm(self)
    }

    #[inline(always)]
    fn ieth(&self) -> Option<u32> {
        Packet::ieth(self)
    }

    #[inline(always)]
    fn reth(&self) -> Option<Reth> {
        Packet::reth(self)
    }

    fn atomic(&self) -> Option<AtomicEth> {
        Packet::atomic(self)
    }

    fn feth(&self) -> Option<Feth> {
        Packet::feth(self)
    }

    #[inline(always)]
    fn xrc_srqn(&self) -> Option<u32> {
        Packet::xrc_srqn(self)
    }

    fn read_psns(&self, len: u32, mtu: u32) -> u32 {
        len.div_ceil(mtu).max(1)
    }
}

/// A fragment to a queue pair of that transport service.
#[derive(Clone, Copy, Debug)]
pub struct SharedRequest<'a> {
    /// The fragment.
    pub fragment: &'a Fragment<'a>,
    /// The request names a shared receive queue.
    pub is_xrc: bool,
}

impl Request for SharedRequest<'_> {
    fn as_packet(&self) -> Option<&Packet<'_>> {
        None
    }

    #[inline(always)]
    fn psn(&self) -> Psn {
        self.fragment.psn()
    }

    #[inline(always)]
    fn next_psn(&self) -> Psn {
        match self.fragment.ends() {
            true => self.fragment.psn().next(),
            false => self.fragment.psn(),
        }
    }

    #[inline(always)]
    fn continues_at(&self, len: u32) -> bool {
        self.fragment.offset() == len
    }

    #[inline(always)]
    fn payload(&self) -> &[u8] {
        self.fragment.payload
    }

    #[inline(always)]
    fn has_valid_len(&self, part: Part, _mtu: u32) -> bool {
        part == Part::Only || !self.fragment.payload.is_empty()
    }

    #[inline(always)]
    fn is_solicited(&self) -> bool {
        self.fragment.is_solicited()
    }

    #[inline(always)]
    fn requests_ack(&self) -> bool {
        self.fragment.ends()
    }

    #[inline(always)]
    fn imm(&self) -> Option<u32> {
        self.fragment.imm()
    }

    #[inline(always)]
    fn ieth(&self) -> Option<u32> {
        self.fragment.invalidated_rkey()
    }

    #[inline(always)]
    fn reth(&self) -> Option<Reth> {
        self.fragment.reth()
    }

    fn atomic(&self) -> Option<AtomicEth> {
        self.fragment.atomic()
    }

    fn feth(&self) -> Option<Feth> {
        self.fragment.feth()
    }

    #[inline(always)]
    fn xrc_srqn(&self) -> Option<u32> {
        self.is_xrc.then(|| self.fragment.xrc_srqn())
    }

    fn read_psns(&self, _len: u32, _mtu: u32) -> u32 {
        1
    }
}
