//! Writes a packet into the buffer it is sent from: headers, payload, padding. The ICRC is added by
//! the transport.
//!
//! Not here: the choice of the packet (`requester`, `responder`).

use super::attributes::Attributes;
use crate::wire::{Bth, HeaderWriter, Opcode, Operation, Part, Psn};

/// The default P_Key, with full membership.
const PKEY: u16 = 0xffff;

/// The position of a packet in its message.
pub fn part_of(is_first: bool, is_last: bool) -> Part {
    match (is_first, is_last) {
        (true, true) => Part::Only,
        (true, false) => Part::First,
        (false, false) => Part::Middle,
        (false, true) => Part::Last,
    }
}

/// The headers of a packet to the peer of a connected queue pair, without extension headers.
#[inline]
pub fn connected_headers<'a>(
    attributes: &Attributes,
    operation: Operation,
    part: Part,
    psn: Psn,
    buffer: &'a mut [u8],
) -> HeaderWriter<'a> {
    let transport = attributes.config.service.transport();
    let opcode = Opcode::new(transport, operation, part);
    headers(opcode, attributes.dest_qpn, psn, buffer)
}

/// The headers of a packet, without extension headers.
#[inline]
pub fn headers(opcode: Opcode, dest_qpn: u32, psn: Psn, buffer: &mut [u8]) -> HeaderWriter<'_> {
    let bth = Bth {
        opcode,
        solicited: false,
        migrated: true,
        pad: 0,
        pkey: PKEY,
        dest_qpn,
        ack_request: false,
        psn,
    };
    HeaderWriter::new(bth, buffer)
}

/// A packet in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Bytes in the buffer.
    pub len: usize,
}

/// Where the payload of a packet lies in the buffer that the packet is written to.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    start: usize,
    len: usize,
}

impl Layout {
    /// The layout of a payload of `len` bytes behind headers of length `start`.
    #[inline]
    pub fn new(start: usize, len: usize) -> Layout {
        Layout { start, len }
    }

    /// The place of the payload. None if the buffer is too small.
    #[inline]
    pub fn payload<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a mut [u8]> {
        buffer.get_mut(self.start..self.start + self.len)
    }

    /// Writes the padding behind the payload, and the BTH. None if the buffer is too small.
    #[inline]
    pub fn seal(&self, mut headers: HeaderWriter<'_>) -> Option<Encoded> {
        let pad = self.len.wrapping_neg() % 4;
        let len = pad_payload(self.start + self.len, pad, headers.buffer())?;
        headers.bth.pad = pad as u8;
        headers.finish();
        Some(Encoded { len })
    }
}

/// Writes zeros behind a payload that ends there. Returns their end; None if the buffer is too small.
#[inline]
fn pad_payload(end: usize, pad: usize, buffer: &mut [u8]) -> Option<usize> {
    if pad > 0 {
        buffer.get_mut(end..end + pad)?.fill(0);
    }
    (end + pad <= buffer.len()).then_some(end + pad)
}
