//! Messages whose bytes the receiver copies from the sender's memory: a packet with a reference stands for
//! several packets with bytes, and takes their PSNs. So whatever is retransmitted can be sent as bytes.

use super::write::Written;
use super::{Requester, payload};
use crate::arch::COPIES_IN_ORDER;
use crate::engine::attributes::Attributes;
use crate::engine::emit::{self, part_of};
use crate::engine::send_queue::Wqe;
use crate::engine::{Host, SendOp, Service, Time};
use crate::wire::{Bth, ICRC_LEN, Reference};

/// Less is sent as bytes: two copies of it, by two processes at the same time, cost less than the system call
/// of one.
const MIN_LEN: u64 = if cfg!(test) { 8 << 10 } else { 32 << 10 };
/// After this number of losses in a row nothing is lent for [`PAUSE`].
const MAX_LOSSES: u8 = 4;
/// In packets. A peer that cannot copy says so (`Host::lend` returns None); what is lost otherwise was late,
/// because the host is busy, or will be lost the next time too.
const PAUSE: u64 = if cfg!(test) { 24 } else { 4096 };

/// What is lent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lending {
    /// The packets go to a process of this host.
    is_possible: bool,
    /// The packet number after the last one of a reference.
    end: u64,
    /// Packets before this one are sent as bytes: a reference to them may have been refused.
    as_bytes_until: u64,
    /// How often in a row a reference was lost, or refused.
    losses: u8,
}

/// A packet with a reference in a buffer.
pub struct Lent {
    /// Bytes in the buffer.
    pub len: usize,
    /// The packets that it stands for.
    pub packets: u64,
    /// Their bytes, from the BTH to the ICRC.
    pub bytes: u64,
}

impl Lending {
    /// Whether the packets go to a process of this host.
    #[inline]
    pub fn is_possible(&self) -> bool {
        self.is_possible
    }

    /// Packets from `before` on are acknowledged.
    #[inline]
    pub fn on_acked(&mut self, before: u64) {
        if before < self.end {
            self.losses = 0;
        }
    }

    /// The packets from `oldest` up to `highest` are retransmitted.
    pub fn on_loss(&mut self, oldest: u64, highest: u64) {
        if oldest < self.end {
            self.losses += 1;
            self.end = 0;
        }
        self.as_bytes_until = self.as_bytes_until.max(highest);
        if self.losses == MAX_LOSSES {
            // One more loss is a reason to pause again.
            self.losses = MAX_LOSSES - 1;
            self.as_bytes_until = highest + PAUSE;
        }
    }
}

impl Requester {
    /// See [`crate::engine::Qp::set_lending`].
    #[inline]
    pub fn set_lending(&mut self, lends: bool) {
        self.lending.is_possible = lends;
    }

    /// Whether the peer may still have to copy what was lent.
    #[inline]
    pub fn has_lent(&self) -> bool {
        self.oldest_unacked < self.lending.end
    }

    /// What is not acknowledged is sent again, as bytes.
    pub fn send_lent_as_bytes(&mut self) {
        self.lending.on_loss(self.oldest_unacked, self.highest_sent);
        self.rewind();
    }

    /// Whether the next packet of a WQE may be a reference.
    #[inline]
    fn may_lend(&self, wqe: &Wqe, attributes: &Attributes) -> bool {
        self.lending.is_possible
            && u64::from(wqe.len) >= MIN_LEN
            && is_lendable(wqe)
            && wqe.wr.inline().is_none()
            && attributes.config.service == Service::Rc
            && self.next >= self.lending.as_bytes_until
    }

    /// Writes a reference to the next bytes of the current WQE into the buffer. None if they are to be sent.
    #[inline]
    pub(super) fn send_reference(
        &mut self,
        attributes: &Attributes,
        now: Time,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<Lent> {
        let wqe = self.queue.get(self.current)?;
        if !self.may_lend(wqe, attributes) {
            return None;
        }
        let end = wqe.end;
        let Some((written, lent)) = self.write_reference(wqe, attributes, host, buffer) else {
            self.lending.as_bytes_until = end;
            return None;
        };
        self.lending.end = written.next_packet;
        self.on_written(&written, end, attributes, now);
        Some(lent)
    }

    fn write_reference(
        &self,
        wqe: &Wqe,
        attributes: &Attributes,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<(Written, Lent)> {
        let (packet, mtu) = (self.next, attributes.mtu);
        let offset = (packet - wqe.first) * u64::from(mtu);
        let left = u64::from(wqe.len).checked_sub(offset)?;
        if left < MIN_LEN {
            return None;
        }
        // All but the last packets are full.
        let most = Reference::MAX_LEN - Reference::MAX_LEN % mtu;
        let len = left.min(most.into()) as u32;
        let packets = len.div_ceil(mtu);
        let mut reference = host.lend(wqe.wr.sges(), offset, len)?;
        reference.packets = packets;
        let next_packet = packet + u64::from(packets);
        let part = part_of(packet == wqe.first, next_packet == wqe.end);
        let psn = self.queue.psn(packet);
        let mut headers = emit::connected_headers(attributes, wqe.operation()?, part, psn);
        payload::extend_headers(wqe, packet, mtu, part, &mut headers);
        let ack_req = self.needs_ack_req(wqe, next_packet, attributes, host);
        headers.bth.ack_request = ack_req;
        let encoded_len = reference.encoded_len();
        reference.write(emit::payload(&headers, encoded_len, buffer)?);
        let others = u64::from(packets - 1) * (Bth::LEN + ICRC_LEN) as u64;
        let bytes = (headers.encoded_len() + ICRC_LEN) as u64 + u64::from(len) + others;
        let written = Written {
            len: emit::seal(headers, encoded_len, buffer)?,
            next_packet,
            ack_req,
        };
        let lent = Lent {
            len: written.len,
            packets: packets.into(),
            bytes,
        };
        Some((written, lent))
    }
}

/// SENDs, and WRITEs with immediate data. Programs may wait for the last bytes of a WRITE, which have to
/// become visible last.
fn is_lendable(wqe: &Wqe) -> bool {
    match wqe.wr.op {
        SendOp::Send | SendOp::SendImm { .. } | SendOp::SendInv { .. } => true,
        SendOp::WriteImm { .. } => COPIES_IN_ORDER,
        _ => false,
    }
}
