//! Short packets: a SEND of one packet and an ACK of a reliable connection, and a datagram of few bytes. They
//! are exchanged most within a host, and are read here with fewer instructions than [`super::Packet`] takes;
//! the bytes are the same.

use super::bth::{ACK_REQUEST, PAD, PAD_SHIFT, SOLICITED, VERSION};
use super::{Aeth, Bth, Deth, Opcode, Operation, Part, Psn, Transport};

/// The longest packet that fits an entry of a ring, in bytes. ACKs and short datagrams do; a SEND may be
/// longer.
pub const SHORT_MAX: usize = 56;
/// The longest payload of a short datagram, in bytes.
pub const SHORT_DATAGRAM_MAX: usize = SHORT_MAX - Bth::LEN - Deth::LEN;

/// A short packet without ICRC, and behind its end any bytes.
pub type ShortBytes = [u8; SHORT_MAX];

/// A short packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short<'a> {
    /// DestQP, 24 bits.
    pub dest_qpn: u32,
    /// The packet sequence number.
    pub psn: Psn,
    /// Bytes, without the ICRC.
    pub len: usize,
    /// What it is.
    pub content: ShortContent<'a>,
}

/// What a short packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortContent<'a> {
    /// A SEND of one packet.
    Send {
        /// AckReq.
        ack_request: bool,
        /// SE: the completion raises a solicited event.
        solicited: bool,
        /// Without padding.
        payload: &'a [u8],
    },
    /// An ACK that does not count credits.
    Ack,
    /// A SEND of an unreliable datagram queue pair.
    Datagram {
        /// The DETH.
        deth: Deth,
        /// SE: the completion raises a solicited event.
        solicited: bool,
        /// Without padding.
        payload: &'a [u8],
    },
}

const SEND_ONLY: u8 = Opcode::new(Transport::Rc, Operation::Send, Part::Only).0;
const ACKNOWLEDGE: u8 = Opcode::new(Transport::Rc, Operation::Ack, Part::Only).0;
const UD_SEND_ONLY: u8 = Opcode::new(Transport::Ud, Operation::Send, Part::Only).0;
/// The syndrome of an ACK that does not count credits (9.7.7.2).
const ACK_SYNDROME: u8 = 0x1f;
/// The length of an ACK: BTH and AETH.
const ACK_LEN: usize = Bth::LEN + Aeth::LEN;

impl Short<'_> {
    /// Parses a packet in memory that others may write to. `head` is a copy of its first bytes, and any bytes
    /// behind them if it is shorter. None if it is another packet, or malformed: [`super::Packet`] has it.
    #[inline(always)]
    pub fn parse<'a>(head: &'a ShortBytes, packet: &'a [u8]) -> Option<Short<'a>> {
        let len = packet.len();
        let bytes = if len <= SHORT_MAX { head } else { packet };
        let [
            opcode,
            flags,
            _,
            _,
            _,
            q0,
            q1,
            q2,
            ack,
            p0,
            p1,
            p2,
            syndrome,
            _,
            _,
            _,
        ] = *head.first_chunk::<16>()?;
        let pad = usize::from(flags >> PAD_SHIFT & PAD);
        let content = match opcode {
            SEND_ONLY if len % 4 == 0 => ShortContent::Send {
                ack_request: ack & ACK_REQUEST != 0,
                solicited: flags & SOLICITED != 0,
                payload: bytes.get(Bth::LEN..len.checked_sub(pad)?)?,
            },
            ACKNOWLEDGE if len == ACK_LEN && pad == 0 && syndrome == ACK_SYNDROME => {
                ShortContent::Ack
            }
            UD_SEND_ONLY if len % 4 == 0 && len <= SHORT_MAX => ShortContent::Datagram {
                deth: Deth::parse(head.get(Bth::LEN..)?.first_chunk()?),
                solicited: flags & SOLICITED != 0,
                payload: bytes.get(Bth::LEN + Deth::LEN..len.checked_sub(pad)?)?,
            },
            _ => return None,
        };
        (flags & VERSION == 0).then_some(Short {
            dest_qpn: u32::from_be_bytes([0, q0, q1, q2]),
            psn: Psn::new(u32::from_be_bytes([0, p0, p1, p2])),
            len,
            content,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::*;
    use super::*;

    /// What the general parser says of a packet that is short.
    fn general(bytes: &[u8]) -> Option<Short<'_>> {
        let packet = Packet::parse_without_icrc(bytes).ok()?;
        let bth = packet.headers.bth;
        let content = match bth.opcode.parts()? {
            (Transport::Rc, Operation::Send, Part::Only) => ShortContent::Send {
                ack_request: bth.ack_request,
                solicited: bth.solicited,
                payload: packet.payload,
            },
            (Transport::Ud, Operation::Send, Part::Only) => ShortContent::Datagram {
                deth: packet.headers.deth?,
                solicited: bth.solicited,
                payload: packet.payload,
            },
            (Transport::Rc, Operation::Ack, Part::Only)
                if packet.headers.aeth?.kind == (AethKind::Ack { credits: 31 }) =>
            {
                ShortContent::Ack
            }
            _ => return None,
        };
        Some(Short {
            dest_qpn: bth.dest_qpn,
            psn: bth.psn,
            len: bytes.len(),
            content,
        })
    }

    proptest! {
        /// Both parsers accept the same packets, and find the same in them.
        #[test]
        fn both_parsers_agree(
            opcode in prop_oneof![
                Just(SEND_ONLY), Just(ACKNOWLEDGE), Just(UD_SEND_ONLY), any::<u8>()
            ],
            version in prop_oneof![3 => Just(0), 1 => 0..16u8],
            syndrome in prop_oneof![Just(ACK_SYNDROME), any::<u8>()],
            mut bytes in proptest::collection::vec(any::<u8>(), 2 * SHORT_MAX),
            len in prop_oneof![
                3 => (0..=SHORT_MAX / 2).prop_map(|n| 4 * n), 1 => 0..=2 * SHORT_MAX
            ],
        ) {
            let len = len.min(bytes.len());
            bytes[0] = opcode;
            bytes[1] = bytes[1] & 0xf0 | version;
            bytes[12] = syndrome;
            let found = Short::parse(bytes.first_chunk().unwrap(), &bytes[..len]);
            let mut expected = general(&bytes[..len]);
            // An ACK has a reserved bit in its syndrome, which the general parser ignores.
            if opcode == ACKNOWLEDGE && syndrome != ACK_SYNDROME
                || opcode == UD_SEND_ONLY && len > SHORT_MAX
            {
                expected = None;
            }
            prop_assert_eq!(found, expected);
        }
    }
}
