//! Writes request packets of a reliable connection into the buffer that they are sent from.

use super::{Requester, payload};
use crate::engine::attributes::Attributes;
use crate::engine::emit::{self, Encoded, Layout, part_of};
use crate::engine::send_queue::{OpClass, Wqe, WqeState};
use crate::engine::{Hca, LocalError, Service};
use crate::wire::{HeaderWriter, Operation, Part};

/// The most packets in a row that do not request an acknowledgment.
const ACK_REQ_INTERVAL: u64 = 32;

/// A request packet in a buffer.
pub(super) struct Written {
    pub encoded: Encoded,
    /// The packet number after it.
    pub next_packet: u64,
    /// The packet requests an acknowledgment.
    pub ack_req: bool,
}

impl Requester {
    /// Writes packet `next` of a WQE into the buffer. None if the buffer is too small.
    #[inline]
    pub(super) fn write_request(
        &self,
        wqe: &Wqe,
        attributes: &Attributes,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Result<Option<Written>, LocalError> {
        let Some(operation) = wqe.operation() else {
            return Ok(None);
        };
        let packet = self.next;
        let part = part_of(packet == wqe.first, packet + 1 == wqe.end);
        // One implementation, compiled for what is sent most, and for anything.
        match (operation, part) {
            (Operation::Send, Part::Only) => {
                self.write_part(wqe, (Operation::Send, Part::Only), attributes, hca, buffer)
            }
            parts => self.write_any(wqe, parts, attributes, hca, buffer),
        }
    }

    #[inline(never)]
    fn write_any(
        &self,
        wqe: &Wqe,
        parts: (Operation, Part),
        attributes: &Attributes,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Result<Option<Written>, LocalError> {
        self.write_part(wqe, parts, attributes, hca, buffer)
    }

    /// [`Requester::write_request`] for this part of a message.
    #[inline(always)]
    fn write_part(
        &self,
        wqe: &Wqe,
        (operation, part): (Operation, Part),
        attributes: &Attributes,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Result<Option<Written>, LocalError> {
        let (packet, mtu) = (self.next, attributes.mtu);
        let psn = self.queue.psn(packet);
        let mut headers = emit::connected_headers(attributes, operation, part, psn, buffer);
        if attributes.config.service == Service::XrcSend {
            headers.xrceth(wqe.wr.xrc_srqn);
        }
        let content = payload::extend_headers(wqe, packet, mtu, part, &mut headers);
        let next_packet = content.next_packet;
        let ack_req = self.needs_ack_req(wqe, next_packet);
        headers.bth.ack_request = ack_req;
        let len = content.payload_len;
        let encoded = self.write_packet(wqe, mtu, headers, len, hca)?;
        Ok(encoded.map(|encoded| Written {
            encoded,
            next_packet,
            ack_req,
        }))
    }

    /// Writes packet `next` of a WQE behind these headers, with `len` bytes of payload. None if the buffer
    /// is too small.
    #[inline(always)]
    pub(super) fn write_packet(
        &self,
        wqe: &Wqe,
        mtu: u32,
        mut headers: HeaderWriter<'_>,
        len: usize,
        hca: &mut impl Hca,
    ) -> Result<Option<Encoded>, LocalError> {
        let layout = Layout::new(headers.size(), len);
        let Some(payload) = layout.payload(headers.buffer()) else {
            return Ok(None);
        };
        if !payload.is_empty() {
            let offset = (self.next - wqe.first) * u64::from(mtu);
            wqe.read_payload(offset, payload, hca)?;
        }
        Ok(layout.seal(headers))
    }

    /// Whether the packet before `next` has to request an acknowledgment (9.7.2.3): if no packet that
    /// does can be expected to follow soon.
    pub(super) fn needs_ack_req(&self, wqe: &Wqe, next: u64) -> bool {
        let window = self.congestion.cwnd();
        if self.force_ack_req
            || wqe.class() != OpClass::Acked
            || self.since_ack_req >= (window / 2).min(ACK_REQ_INTERVAL)
            || next - self.oldest_unacked >= window
            || self.drain_end == Some(next)
            || self.is_stopped
            || self.exceeds_credits(wqe)
        {
            return true;
        }
        if next < wqe.end {
            return false;
        }
        self.queue.get(self.current + 1).is_none_or(|following| {
            self.limit_ssn.is_some()
                || following.wr.flags.fence
                || following.class() == OpClass::Local
                || following.state != WqeState::Pending
        })
    }
}
