//! Writes request packets of a reliable connection into the buffer that they are sent from.

use super::payload;
use crate::engine::attributes::Attributes;
use crate::engine::emit::{self, Encoded, Layout, part_of};
use crate::engine::send_queue::{self, Wqe};
use crate::engine::{Hca, LocalError, Service};
use crate::wire::{HeaderWriter, Operation, Part};

/// Writes a packet of a WQE into the buffer. None if the buffer is too small.
#[inline]
pub(super) fn write_request(
    wqe: &Wqe,
    packet: u64,
    ack_request: bool,
    attributes: &Attributes,
    hca: &mut impl Hca,
    buffer: &mut [u8],
) -> Result<Option<Encoded>, LocalError> {
    let Some(operation) = wqe.operation() else {
        return Ok(None);
    };
    let request = Request {
        wqe,
        packet,
        ack_request,
    };
    let part = part_of(packet == wqe.first, packet + 1 == wqe.end);
    // One implementation, compiled for what is sent most, and for anything.
    match (operation, part) {
        (Operation::Send, Part::Only) => {
            request.write(Operation::Send, Part::Only, attributes, hca, buffer)
        }
        _ => request.write_any(operation, part, attributes, hca, buffer),
    }
}

/// A packet of a WQE.
struct Request<'a> {
    wqe: &'a Wqe,
    packet: u64,
    ack_request: bool,
}

impl Request<'_> {
    #[inline(never)]
    fn write_any(
        &self,
        operation: Operation,
        part: Part,
        attributes: &Attributes,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Result<Option<Encoded>, LocalError> {
        self.write(operation, part, attributes, hca, buffer)
    }

    /// [`write_request`] for this part of a message.
    #[inline(always)]
    fn write(
        &self,
        operation: Operation,
        part: Part,
        attributes: &Attributes,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Result<Option<Encoded>, LocalError> {
        let (wqe, packet, mtu) = (self.wqe, self.packet, attributes.mtu);
        let psn = send_queue::psn(packet);
        let mut headers = emit::connected_headers(attributes, operation, part, psn, buffer);
        if attributes.config.service == Service::XrcSend {
            headers.xrceth(wqe.wr.xrc_srqn);
        }
        let len = payload::extend_headers(wqe, packet, mtu, part, &mut headers);
        headers.bth.ack_request = self.ack_request;
        write_packet(wqe, packet, mtu, headers, len, hca)
    }
}

/// Writes a packet of a WQE behind these headers, with `len` bytes of payload. None if the buffer is too
/// small.
#[inline(always)]
pub(super) fn write_packet(
    wqe: &Wqe,
    packet: u64,
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
        let offset = (packet - wqe.first) * u64::from(mtu);
        wqe.read_payload(offset, payload, hca)?;
    }
    Ok(layout.seal(headers))
}
