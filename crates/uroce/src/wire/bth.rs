//! The base transport header.

use super::{Malformed, Opcode, Psn};

/// The base transport header (specification 9.2), 12 bytes, first in each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    pub opcode: Opcode,
    /// The responder is to raise a solicited completion event.
    pub solicited: bool,
    /// Path migration state. RNICs send 1 ("migrated"), kernel rxe 0; nobody looks at it.
    pub migrated: bool,
    /// Bytes that fill the payload up to a multiple of 4.
    pub pad: u8,
    pub pkey: u16,
    pub dest_qpn: u32,
    pub ack_request: bool,
    pub psn: Psn,
}

const SOLICITED: u8 = 0x80;
const MIGRATED: u8 = 0x40;
const PAD_SHIFT: u8 = 4;
const PAD: u8 = 3;
const VERSION: u8 = 0x0f;
const ACK_REQUEST: u8 = 0x80;

impl Bth {
    pub const LEN: usize = 12;

    /// Takes the header apart; refuses a transport header version other than 0. Reserved bits, and
    /// those of congestion notification, are not looked at.
    pub(super) fn parse(bytes: &[u8; Bth::LEN]) -> Result<Bth, Malformed> {
        let &[opcode, flags, k0, k1, _, q0, q1, q2, ack, p0, p1, p2] = bytes;
        if flags & VERSION != 0 {
            return Err(Malformed);
        }
        Ok(Bth {
            opcode: Opcode(opcode),
            solicited: flags & SOLICITED != 0,
            migrated: flags & MIGRATED != 0,
            pad: flags >> PAD_SHIFT & PAD,
            pkey: u16::from_be_bytes([k0, k1]),
            dest_qpn: u32::from_be_bytes([0, q0, q1, q2]),
            ack_request: ack & ACK_REQUEST != 0,
            psn: Psn::new(u32::from_be_bytes([0, p0, p1, p2])),
        })
    }

    pub(super) fn bytes(&self) -> [u8; Bth::LEN] {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(self.solicited, SOLICITED)
            | flag(self.migrated, MIGRATED)
            | (self.pad & PAD) << PAD_SHIFT;
        let [k0, k1] = self.pkey.to_be_bytes();
        let [_, q0, q1, q2] = self.dest_qpn.to_be_bytes();
        let [_, p0, p1, p2] = self.psn.get().to_be_bytes();
        let ack = flag(self.ack_request, ACK_REQUEST);
        [self.opcode.0, flags, k0, k1, 0, q0, q1, q2, ack, p0, p1, p2]
    }
}
