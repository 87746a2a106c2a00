//! Writes a packet into the buffer it is sent from: headers, payload, padding. The ICRC is added by
//! the transport.

use super::attributes::Attributes;
use crate::wire::{Aeth, Bth, Headers, Opcode, Operation, Part, Psn};

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
pub fn connected_headers(
    attributes: &Attributes,
    operation: Operation,
    part: Part,
    psn: Psn,
) -> Headers {
    Headers::new(connected_bth(attributes, operation, part, psn))
}

/// The BTH of a packet to the peer of a connected queue pair.
pub fn connected_bth(attributes: &Attributes, operation: Operation, part: Part, psn: Psn) -> Bth {
    let transport = attributes.config.service.transport();
    let opcode = Opcode::new(transport, operation, part);
    bth(opcode, attributes.dest_qpn, psn)
}

/// The headers of a packet, without extension headers.
pub fn headers(opcode: Opcode, dest_qpn: u32, psn: Psn) -> Headers {
    Headers::new(bth(opcode, dest_qpn, psn))
}

fn bth(opcode: Opcode, dest_qpn: u32, psn: Psn) -> Bth {
    Bth {
        opcode,
        solicited: false,
        migrated: true,
        pad: 0,
        pkey: PKEY,
        dest_qpn,
        ack_request: false,
        psn,
    }
}

/// The place of the payload, `len` bytes, behind the headers. None if the buffer is too small.
pub fn payload<'a>(headers: &Headers, len: usize, buffer: &'a mut [u8]) -> Option<&'a mut [u8]> {
    let start = headers.encoded_len();
    buffer.get_mut(start..start + len)
}

/// The place of the payload, `len` bytes, behind a BTH. None if the buffer is too small.
pub fn payload_after_bth(len: usize, buffer: &mut [u8]) -> Option<&mut [u8]> {
    buffer.get_mut(Bth::LEN..Bth::LEN + len)
}

/// [`seal`] for a packet with a BTH only.
pub fn seal_bth(mut bth: Bth, len: usize, buffer: &mut [u8]) -> Option<usize> {
    let pad = len.wrapping_neg() % 4;
    bth.pad = pad as u8;
    let end = pad_payload(Bth::LEN + len, pad, buffer)?;
    buffer.get_mut(..Bth::LEN)?.copy_from_slice(&bth.bytes());
    Some(end)
}

/// Writes zeros behind a payload that ends there. Returns their end; None if the buffer is too small.
#[inline]
fn pad_payload(end: usize, pad: usize, buffer: &mut [u8]) -> Option<usize> {
    if pad > 0 {
        buffer.get_mut(end..end + pad)?.fill(0);
    }
    (end + pad <= buffer.len()).then_some(end + pad)
}

/// The length of an ACK or a NAK.
pub const ACK_LEN: usize = Bth::LEN + Aeth::LEN;

/// An ACK or a NAK.
pub fn ack(bth: Bth, aeth: &Aeth) -> [u8; ACK_LEN] {
    let mut packet = [0; ACK_LEN];
    packet[..Bth::LEN].copy_from_slice(&bth.bytes());
    packet[Bth::LEN..].copy_from_slice(&aeth.bytes());
    packet
}

/// Writes the headers before a payload of `len` bytes and the padding after it. Returns the length of
/// the packet; None if the buffer is too small.
pub fn seal(mut headers: Headers, len: usize, buffer: &mut [u8]) -> Option<usize> {
    let pad = len.wrapping_neg() % 4;
    headers.bth.pad = pad as u8;
    let end = pad_payload(headers.encoded_len() + len, pad, buffer)?;
    headers.write(buffer);
    Some(end)
}
