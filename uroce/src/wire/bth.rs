//! The base transport header.

use super::{Opcode, Psn};

/// The base transport header (specification 9.2), 12 bytes, first in each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    pub opcode: Opcode,
    /// The responder is to raise a solicited completion event.
    pub solicited: bool,
    /// Path migration state. This device always sends 1 ("migrated"), as kernel rxe does.
    pub migrated: bool,
    /// Bytes that fill the payload up to a multiple of 4.
    pub pad: u8,
    pub pkey: u16,
    pub dest_qpn: u32,
    pub ack_request: bool,
    pub psn: Psn,
}

impl Bth {
    pub const LEN: usize = 12;
}
