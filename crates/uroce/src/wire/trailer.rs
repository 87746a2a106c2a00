//! An ACK behind a packet of the same connection, through shared memory. It stands for the ACK that a network
//! carries as a packet of its own.

use super::{Aeth, Bth, Opcode, Operation, Part, Psn, Transport};

/// An ACK of an RC queue pair, without what follows from the packet that it is appended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckTrailer {
    /// The PSN of the BTH.
    pub psn: Psn,
    /// The AETH.
    pub aeth: Aeth,
}

impl AckTrailer {
    /// Its length in bytes.
    pub const LEN: usize = 4 + Aeth::LEN;
    /// The length of the ACK that it stands for.
    pub const PACKET_LEN: usize = Bth::LEN + Aeth::LEN;

    /// The trailer as it is in shared memory.
    #[inline]
    pub fn bytes(&self) -> [u8; AckTrailer::LEN] {
        let [p0, p1, p2, p3] = self.psn.get().to_be_bytes();
        let [a0, a1, a2, a3] = self.aeth.bytes();
        [p0, p1, p2, p3, a0, a1, a2, a3]
    }

    /// The packet that the trailer of a packet with this BTH stands for. It may be malformed.
    #[inline]
    pub fn packet(bth: &Bth, trailer: &[u8; AckTrailer::LEN]) -> [u8; AckTrailer::PACKET_LEN] {
        let [p0, p1, p2, p3, aeth @ ..] = *trailer;
        let ack = Bth {
            opcode: Opcode::new(Transport::Rc, Operation::Ack, Part::Only),
            solicited: false,
            pad: 0,
            ack_request: false,
            psn: Psn::new(u32::from_be_bytes([p0, p1, p2, p3])),
            ..*bth
        };
        let mut packet = [0; AckTrailer::PACKET_LEN];
        packet[..Bth::LEN].copy_from_slice(&ack.bytes());
        packet[Bth::LEN..].copy_from_slice(&aeth);
        packet
    }
}
