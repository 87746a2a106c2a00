//! The base transport header (BTH).

use super::{Malformed, Opcode, Psn};

/// The base transport header (specification 9.2): the first 12 bytes of each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// The opcode: the packet's operation, and the headers that follow.
    pub opcode: Opcode,
    /// SE: the completion at the responder raises a solicited event.
    pub solicited: bool,
    /// MigReq, the path migration state. RNICs send 1 ("migrated"), kernel rxe 0; receivers ignore it.
    pub migrated: bool,
    /// PadCnt: the bytes that pad the payload to a multiple of 4.
    pub pad: u8,
    /// The partition key.
    pub pkey: u16,
    /// DestQP, 24 bits.
    pub dest_qpn: u32,
    /// AckReq.
    pub ack_request: bool,
    /// The packet sequence number.
    pub psn: Psn,
}

pub(super) const SOLICITED: u8 = 0x80;
const MIGRATED: u8 = 0x40;
pub(super) const PAD_SHIFT: u8 = 4;
pub(super) const PAD: u8 = 3;
pub(super) const VERSION: u8 = 0x0f;
pub(super) const ACK_REQUEST: u8 = 0x80;

impl Bth {
    /// The length of the header in bytes.
    pub const LEN: usize = 12;

    /// Parses the header. Fails for a transport header version (TVer) other than 0. Reserved bits and those
    /// of congestion notification (FECN, BECN) are ignored.
    #[inline]
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

    /// The header as it is on the wire.
    #[inline]
    pub fn bytes(&self) -> [u8; Bth::LEN] {
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
