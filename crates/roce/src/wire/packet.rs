//! Whole packets: parsing and writing the headers that an opcode has.
//!
//! Not here: the layout of each header (`bth`, `headers`), the ICRC (`icrc`).
//!
//! Specification: 9.2, 9.3.

use std::error::Error;
use std::fmt;

use super::{
    Aeth, AtomicEth, Bth, Deth, Feth, HeaderWriter, ICRC_LEN, MAX_HEADERS, Opcode, Operation, Part,
    Psn, Reth, Transport,
};

/// The headers of a packet: the BTH, and the extended transport headers that its opcode has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The BTH, in every packet.
    pub bth: Bth,
    /// The DETH, in datagrams.
    pub deth: Option<Deth>,
    /// XRCETH: the number of the shared receive queue.
    pub xrc_srqn: Option<u32>,
    /// The FETH, in FLUSH.
    pub feth: Option<Feth>,
    /// The RETH, in the first packet of a WRITE, in READ requests, FLUSH and ATOMIC WRITE.
    pub reth: Option<Reth>,
    /// The AtomicETH, in CmpSwap and FetchAdd.
    pub atomic: Option<AtomicEth>,
    /// The AETH, in acknowledges, and in READ responses but the middle ones.
    pub aeth: Option<Aeth>,
    /// AtomicAckETH: the value in memory before the operation.
    pub atomic_ack: Option<u64>,
    /// ImmDt: immediate data in network byte order, as in `ibv_wc.imm_data`.
    pub imm: Option<u32>,
    /// IETH: the R_Key to invalidate.
    pub ieth: Option<u32>,
}

/// A received packet. It has the headers of its opcode, and a payload of a length that the opcode permits.
/// The extended transport headers are decoded when they are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The BTH, in every packet.
    pub bth: Bth,
    /// All headers, and nothing behind them.
    head: &'a [u8],
    /// Without padding and ICRC.
    pub payload: &'a [u8],
}

/// The datagram is not a valid packet; receivers drop it silently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a RoCEv2 packet")
    }
}

impl Error for Malformed {}

impl<'a> Packet<'a> {
    /// Parses a datagram, which ends with the ICRC. The ICRC is not checked here, but by
    /// [`super::Flow::check_expecting`].
    pub fn parse(datagram: &'a [u8]) -> Result<Packet<'a>, Malformed> {
        let len = datagram.len().checked_sub(ICRC_LEN).ok_or(Malformed)?;
        Packet::parse_without_icrc(&datagram[..len])
    }

    /// Parses a packet that has no ICRC.
    pub fn parse_without_icrc(bytes: &'a [u8]) -> Result<Packet<'a>, Malformed> {
        Packet::parse_apart(bytes, bytes)
    }

    /// Parses a packet without ICRC in memory that others may write to. `head` is a copy of its first bytes,
    /// with all headers, or of all: only these are examined.
    #[inline]
    pub fn parse_apart(head: &'a [u8], packet: &'a [u8]) -> Result<Packet<'a>, Malformed> {
        Packet::parse_opcode(Packet::opcode(head), head, packet)
    }

    /// The opcode of the packet that begins so; any if that is empty.
    #[inline]
    pub fn opcode(head: &[u8]) -> Opcode {
        Opcode(head.first().copied().unwrap_or_default())
    }

    /// [`Packet::parse_apart`] for a packet that has this opcode. Where the compiler knows it, it leaves out
    /// the headers of other opcodes.
    #[inline(always)]
    pub fn parse_opcode(
        opcode: Opcode,
        head: &'a [u8],
        packet: &'a [u8],
    ) -> Result<Packet<'a>, Malformed> {
        let bth = Bth::parse(head.first_chunk().ok_or(Malformed)?)?;
        debug_assert_eq!(bth.opcode, opcode);
        let bth = Bth { opcode, ..bth };
        let extensions = Extensions::of(bth.opcode);
        let headers_len = usize::from(extensions.end);
        let headers = head.get(..headers_len).ok_or(Malformed)?;
        let padded = source(head, packet).get(headers_len..).ok_or(Malformed)?;
        let payload = padded.len().checked_sub(bth.pad.into());
        let payload = payload.and_then(|len| padded.get(..len)).ok_or(Malformed)?;
        let is_valid = match extensions.payload {
            PayloadRule::Padded => padded.len() % 4 == 0,
            PayloadRule::Empty => padded.is_empty(),
            PayloadRule::Eight => payload.len() == 8 && bth.pad == 0,
            PayloadRule::Any => true,
            PayloadRule::NoPacket => false,
        };
        let parsed = Packet {
            bth,
            head: headers,
            payload,
        };
        // The only extended header with invalid values.
        let is_valid = is_valid && (extensions.at(Extension::Aeth) == 0 || parsed.aeth().is_some());
        is_valid.then_some(parsed).ok_or(Malformed)
    }

    /// The packet that a copy was made of: of its BTH, all its headers ([`Packet::head`]) and its payload.
    pub(crate) fn from_parts(bth: Bth, head: &'a [u8], payload: &'a [u8]) -> Packet<'a> {
        Packet { bth, head, payload }
    }

    /// All headers, as they are in the packet.
    pub fn head(&self) -> &'a [u8] {
        self.head
    }

    /// All headers, decoded.
    pub fn headers(&self) -> Headers {
        Headers {
            bth: self.bth,
            deth: self.deth(),
            xrc_srqn: self.xrc_srqn(),
            feth: self.feth(),
            reth: self.reth(),
            atomic: self.atomic(),
            aeth: self.aeth(),
            atomic_ack: self.atomic_ack(),
            imm: self.imm(),
            ieth: self.ieth(),
        }
    }

    /// The bytes of an extended header, if the packet has it.
    #[inline]
    fn extension<const LEN: usize>(&self, which: Extension) -> Option<&'a [u8; LEN]> {
        match Extensions::of(self.bth.opcode).at(which) {
            0 => None,
            at => self.head.get(at..)?.first_chunk(),
        }
    }

    /// The DETH, in datagrams.
    #[inline]
    pub fn deth(&self) -> Option<Deth> {
        self.extension(Extension::Deth).map(Deth::parse)
    }

    /// XRCETH: the number of the shared receive queue.
    #[inline]
    pub fn xrc_srqn(&self) -> Option<u32> {
        let bytes = self.extension(Extension::Xrceth)?;
        Some(u32::from_be_bytes(*bytes) & Psn::MASK)
    }

    /// The FETH, in FLUSH.
    pub fn feth(&self) -> Option<Feth> {
        self.extension(Extension::Feth).map(Feth::parse)
    }

    /// The RETH, in the first packet of a WRITE, in READ requests, FLUSH and ATOMIC WRITE.
    #[inline]
    pub fn reth(&self) -> Option<Reth> {
        self.extension(Extension::Reth).map(Reth::parse)
    }

    /// The AtomicETH, in CmpSwap and FetchAdd.
    pub fn atomic(&self) -> Option<AtomicEth> {
        self.extension(Extension::AtomicEth).map(AtomicEth::parse)
    }

    /// The AETH, in acknowledges, and in READ responses but the middle ones.
    #[inline]
    pub fn aeth(&self) -> Option<Aeth> {
        Aeth::parse(self.extension(Extension::Aeth)?).ok()
    }

    /// Whether it is a NAK or an RNR NAK.
    #[inline]
    pub fn is_nak(&self) -> bool {
        self.extension(Extension::Aeth).is_some_and(Aeth::is_nak)
    }

    /// AtomicAckETH: the value in memory before the operation.
    #[inline]
    pub fn atomic_ack(&self) -> Option<u64> {
        let bytes = self.extension(Extension::AtomicAckEth)?;
        Some(u64::from_be_bytes(*bytes))
    }

    /// ImmDt: immediate data in network byte order, as in `ibv_wc.imm_data`.
    #[inline]
    pub fn imm(&self) -> Option<u32> {
        self.extension(Extension::ImmDt)
            .map(|bytes| u32::from_ne_bytes(*bytes))
    }

    /// IETH: the R_Key to invalidate.
    #[inline]
    pub fn ieth(&self) -> Option<u32> {
        self.extension(Extension::Ieth)
            .map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// The length of the datagram: headers, payload, padding and ICRC.
    #[inline]
    pub fn datagram_len(&self) -> usize {
        self.head.len() + self.payload.len() + usize::from(self.bth.pad) + ICRC_LEN
    }
}

// Never empty: there is always a BTH.
impl Headers {
    /// The headers of a packet with a BTH only.
    pub const fn new(bth: Bth) -> Headers {
        Headers {
            bth,
            deth: None,
            xrc_srqn: None,
            feth: None,
            reth: None,
            atomic: None,
            aeth: None,
            atomic_ack: None,
            imm: None,
            ieth: None,
        }
    }

    /// The number of bytes that [`Headers::write`] writes.
    pub fn encoded_len(&self) -> usize {
        Bth::LEN
            + self.deth.map_or(0, |_| Deth::LEN)
            + self.xrc_srqn.map_or(0, |_| 4)
            + self.feth.map_or(0, |_| Feth::LEN)
            + self.reth.map_or(0, |_| Reth::LEN)
            + self.atomic.map_or(0, |_| AtomicEth::LEN)
            + self.aeth.map_or(0, |_| Aeth::LEN)
            + self.atomic_ack.map_or(0, |_| 8)
            + self.imm.map_or(0, |_| 4)
            + self.ieth.map_or(0, |_| 4)
    }

    /// Writes the headers to the start of `buffer`, in their order on the wire. Returns their length. A
    /// buffer of [`MAX_HEADERS`] bytes is long enough; headers that do not fit are left out.
    pub fn write(&self, buffer: &mut [u8]) -> usize {
        let mut to = HeaderWriter::new(self.bth, buffer);
        self.deth.iter().for_each(|deth| to.deth(deth));
        self.xrc_srqn.iter().for_each(|srqn| to.xrceth(*srqn));
        self.feth.iter().for_each(|feth| to.feth(feth));
        self.reth.iter().for_each(|reth| to.reth(reth));
        self.atomic.iter().for_each(|atomic| to.atomic(atomic));
        self.aeth.iter().for_each(|aeth| to.aeth(aeth));
        self.atomic_ack
            .iter()
            .for_each(|value| to.atomic_ack(*value));
        self.imm.iter().for_each(|imm| to.imm(*imm));
        self.ieth.iter().for_each(|rkey| to.ieth(*rkey));
        to.finish()
    }
}

/// The extended transport headers, in their order on the wire.
#[derive(Clone, Copy)]
enum Extension {
    Deth,
    Xrceth,
    Feth,
    Reth,
    AtomicEth,
    Aeth,
    AtomicAckEth,
    ImmDt,
    Ieth,
}

/// The length of each extended transport header.
const EXTENSION_LEN: [usize; 9] = [
    Deth::LEN,
    4,
    Feth::LEN,
    Reth::LEN,
    AtomicEth::LEN,
    Aeth::LEN,
    8,
    4,
    4,
];

/// The payload that packets with an opcode may have.
#[derive(Clone, Copy)]
enum PayloadRule {
    /// Any, which is padded to a multiple of four bytes.
    Padded,
    Empty,
    /// Eight bytes.
    Eight,
    Any,
    /// No packet has the opcode.
    NoPacket,
}

/// The headers that follow the BTH in packets with an opcode.
#[derive(Clone, Copy)]
struct Extensions {
    /// The offset of each header in the packet; 0 if the packet has none. In the order of [`Extension`].
    offsets: [u8; 9],
    /// The length of all headers, BTH included.
    end: u8,
    payload: PayloadRule,
}

impl Extensions {
    #[inline]
    fn of(opcode: Opcode) -> &'static Extensions {
        static TABLE: [Extensions; 256] = {
            let mut table = [Extensions::new(Opcode(0)); 256];
            let mut opcode = 0;
            while opcode < 256 {
                table[opcode] = Extensions::new(Opcode(opcode as u8));
                opcode += 1;
            }
            table
        };
        &TABLE[usize::from(opcode.0)]
    }

    /// The offset of a header in the packet; 0 if the packet has none.
    #[inline]
    fn at(&self, which: Extension) -> usize {
        usize::from(self.offsets[which as usize])
    }

    const fn new(opcode: Opcode) -> Extensions {
        let mut extensions = Extensions {
            offsets: [0; 9],
            end: Bth::LEN as u8,
            payload: PayloadRule::NoPacket,
        };
        let Some((transport, operation, part)) = opcode.parts() else {
            if opcode.0 == Opcode::CNP.0 {
                extensions.payload = PayloadRule::Any;
            }
            return extensions;
        };
        let has = Extensions::of_packet(transport, operation, part);
        let mut i = 0;
        while i < has.len() {
            if has[i] {
                extensions.offsets[i] = extensions.end;
                extensions.end += EXTENSION_LEN[i] as u8;
            }
            i += 1;
        }
        extensions.payload = payload_rule(operation);
        extensions
    }

    /// The headers that a packet has, in the order of [`Extension`].
    const fn of_packet(transport: Transport, operation: Operation, part: Part) -> [bool; 9] {
        use Operation::*;
        let starts = matches!(part, Part::First | Part::Only);
        let answers = matches!(operation, Ack | AtomicAck | ReadResponse);
        let is_request = !answers && !matches!(operation, Reserved);
        [
            matches!(transport, Transport::Ud),
            matches!(transport, Transport::Xrc) && is_request,
            matches!(operation, Flush),
            starts
                && matches!(
                    operation,
                    Write | WriteImm | ReadRequest | Flush | AtomicWrite
                ),
            matches!(operation, CmpSwap | FetchAdd),
            answers && !matches!(part, Part::Middle),
            matches!(operation, AtomicAck),
            matches!(operation, SendImm | WriteImm),
            matches!(operation, SendInv),
        ]
    }
}

const fn payload_rule(operation: Operation) -> PayloadRule {
    use Operation::*;
    match operation {
        Send | SendImm | SendInv | Write | WriteImm | ReadResponse => PayloadRule::Padded,
        AtomicWrite => PayloadRule::Eight,
        ReadRequest | Ack | AtomicAck | CmpSwap | FetchAdd | Flush => PayloadRule::Empty,
        Reserved => PayloadRule::Any,
    }
}

/// Where the payload of a packet is read: in the copy, if that is all of it.
#[inline(always)]
fn source<'a>(head: &'a [u8], packet: &'a [u8]) -> &'a [u8] {
    if packet.len() == head.len() {
        head
    } else {
        packet
    }
}

const _: () = assert!(Bth::LEN + 4 + AtomicEth::LEN + 4 <= MAX_HEADERS);
