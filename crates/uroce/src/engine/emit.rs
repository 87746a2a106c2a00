//! Putting a packet into the buffer it is sent from.

use super::Qp;
use crate::wire::{Bth, Headers, Opcode, Operation, Part, Psn};

/// The default partition, with full membership.
const PKEY: u16 = 0xffff;

impl Qp {
    /// The headers that all packets to the peer of a connected queue pair have.
    pub(super) fn headers(&self, operation: Operation, part: Part, psn: Psn) -> Headers {
        headers(
            Opcode::new(self.transport(), operation, part),
            self.attributes.dest_qpn,
            psn,
        )
    }
}

/// A packet's headers, without extension headers.
pub fn headers(opcode: Opcode, dest_qpn: u32, psn: Psn) -> Headers {
    Headers::new(Bth {
        opcode,
        solicited: false,
        migrated: true,
        pad: 0,
        pkey: PKEY,
        dest_qpn,
        ack_request: false,
        psn,
    })
}

/// Where the payload of a packet goes. None if the buffer is too small.
pub fn payload<'a>(headers: &Headers, len: usize, buffer: &'a mut [u8]) -> Option<&'a mut [u8]> {
    let start = headers.len();
    buffer.get_mut(start..start + len)
}

/// Puts headers before the payload and padding behind it; returns the packet's length.
pub fn seal(mut headers: Headers, len: usize, buffer: &mut [u8]) -> Option<usize> {
    let pad = len.wrapping_neg() % 4;
    headers.bth.pad = pad as u8;
    let end = headers.len() + len;
    buffer.get_mut(end..end + pad)?.fill(0);
    headers.write(buffer);
    Some(end + pad)
}
