//! Whole packets: parsing and writing the headers that an opcode has.

use super::{
    Aeth, AtomicEth, Bth, Deth, Feth, ICRC_LEN, MAX_HEADERS, Operation, Part, Psn, Reth, Transport,
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
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// BTH and extended headers.
    pub headers: Headers,
    /// Without padding and ICRC.
    pub payload: &'a [u8],
    /// As in Linux's segmentation offload: the payload is that of several packets, of this number of bytes
    /// each but the last. 0: it is one packet.
    pub gso_size: u32,
}

/// Where the payload of a packet with a [`Packet::gso_size`] begins: behind the headers there is a gap.
pub const PAYLOAD_APART: usize = 56;

/// The datagram is not a valid packet; receivers drop it silently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl Packet<'_> {
    /// Parses a datagram, which ends with the ICRC. The ICRC is not checked here, but by
    /// [`super::Flow::check_expecting`].
    pub fn parse(datagram: &[u8]) -> Result<Packet<'_>, Malformed> {
        let len = datagram.len().checked_sub(ICRC_LEN).ok_or(Malformed)?;
        Packet::parse_without_icrc(&datagram[..len])
    }

    /// [`Packet::parse_apart`] for the packets that are most frequent: a SEND of RC or UC, and an ACK or NAK.
    /// None: it is another, or malformed.
    #[inline(always)]
    pub fn parse_common<'a>(head: &'a [u8], packet: &'a [u8]) -> Option<Packet<'a>> {
        let (bth, rest) = head.split_first_chunk::<{ Bth::LEN }>()?;
        let bth = Bth::parse(bth).ok()?;
        let (transport, operation, _) = bth.opcode.parts()?;
        let is_connected = matches!(transport, Transport::Rc | Transport::Uc);
        let (aeth, payload) = match operation {
            Operation::Send if is_connected && packet.len() % 4 == 0 => {
                let end = packet.len().checked_sub(bth.pad.into())?;
                (None, source(head, packet).get(Bth::LEN..end)?)
            }
            Operation::Ack if bth.pad == 0 && packet.len() == head.len() => {
                (Some(Aeth::parse(rest.try_into().ok()?).ok()?), &rest[..0])
            }
            _ => return None,
        };
        Some(Packet {
            headers: Headers {
                aeth,
                ..Headers::new(bth)
            },
            payload,
            gso_size: 0,
        })
    }

    /// Parses a packet that has no ICRC.
    pub fn parse_without_icrc(bytes: &[u8]) -> Result<Packet<'_>, Malformed> {
        Packet::parse_apart(bytes, bytes)
    }

    /// Parses a packet without ICRC in memory that others may write to. `head` is a copy of its first bytes,
    /// with all headers, or of all: only these are examined.
    pub fn parse_apart<'a>(head: &'a [u8], packet: &'a [u8]) -> Result<Packet<'a>, Malformed> {
        let mut rest = Rest(head);
        let headers = rest.headers()?;
        let start = head.len() - rest.0.len();
        let padded = source(head, packet).get(start..).ok_or(Malformed)?;
        Packet::with_payload(headers, padded)
    }

    /// [`Packet::parse_apart`] for one with a [`Packet::gso_size`]: its payload begins at [`PAYLOAD_APART`].
    pub fn parse_gso<'a>(
        head: &[u8],
        packet: &'a [u8],
        gso_size: u32,
    ) -> Result<Packet<'a>, Malformed> {
        let headers = Rest(head).headers()?;
        let padded = packet.get(PAYLOAD_APART..).ok_or(Malformed)?;
        let packet = Packet::with_payload(headers, padded)?;
        Ok(Packet { gso_size, ..packet })
    }

    fn with_payload(headers: Headers, padded: &[u8]) -> Result<Packet<'_>, Malformed> {
        let (_, operation, _) = headers.bth.opcode.parts().ok_or(Malformed)?;
        let payload = padded
            .len()
            .checked_sub(headers.bth.pad.into())
            .and_then(|len| padded.get(..len))
            .ok_or(Malformed)?;
        let len_allowed = match operation {
            Operation::Send
            | Operation::SendImm
            | Operation::SendInv
            | Operation::Write
            | Operation::WriteImm
            | Operation::ReadResponse => padded.len() % 4 == 0,
            Operation::AtomicWrite => payload.len() == 8 && headers.bth.pad == 0,
            Operation::ReadRequest
            | Operation::Ack
            | Operation::AtomicAck
            | Operation::CmpSwap
            | Operation::FetchAdd
            | Operation::Flush => padded.is_empty(),
            Operation::Reserved => true,
        };
        if !len_allowed {
            return Err(Malformed);
        }
        Ok(Packet {
            headers,
            payload,
            gso_size: 0,
        })
    }

    /// The number of packets that it stands for.
    #[inline]
    pub fn packets(&self) -> u32 {
        match self.gso_size {
            0 => 1,
            // A payload has less than 2^16 bytes.
            size => (self.payload.len() as u32).div_ceil(size).max(1),
        }
    }

    /// Whether it is one packet, or stands for packets of this path MTU.
    #[inline]
    pub fn is_of_mtu(&self, mtu: u32) -> bool {
        self.gso_size == 0 || self.gso_size == mtu
    }

    /// The length of the datagrams: headers, payload, padding and ICRC.
    pub fn datagrams_len(&self) -> usize {
        let padded = self.payload.len() + usize::from(self.headers.bth.pad);
        let others = self.packets() as usize - 1;
        self.headers.encoded_len() + padded + ICRC_LEN + others * (Bth::LEN + ICRC_LEN)
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
        let mut to = Writer { buffer, len: 0 };
        to.put(&self.bth.bytes());
        if let Some(deth) = &self.deth {
            to.put(&deth.bytes());
        }
        if let Some(srqn) = self.xrc_srqn {
            to.put(&(srqn & Psn::MASK).to_be_bytes());
        }
        if let Some(feth) = &self.feth {
            to.put(&feth.bytes());
        }
        if let Some(reth) = &self.reth {
            to.put(&reth.bytes());
        }
        if let Some(atomic) = &self.atomic {
            to.put(&atomic.bytes());
        }
        if let Some(aeth) = &self.aeth {
            to.put(&aeth.bytes());
        }
        if let Some(before) = self.atomic_ack {
            to.put(&before.to_be_bytes());
        }
        if let Some(imm) = self.imm {
            to.put(&imm.to_ne_bytes());
        }
        if let Some(rkey) = self.ieth {
            to.put(&rkey.to_be_bytes());
        }
        to.len
    }
}

/// Which extended transport headers a packet has.
struct Extensions {
    deth: bool,
    xrc: bool,
    feth: bool,
    reth: bool,
    atomic: bool,
    aeth: bool,
    atomic_ack: bool,
    imm: bool,
    ieth: bool,
}

impl Extensions {
    fn of(transport: Transport, operation: Operation, part: Part) -> Extensions {
        use Operation::*;
        let starts = matches!(part, Part::First | Part::Only);
        let answers = matches!(operation, Ack | AtomicAck | ReadResponse);
        Extensions {
            deth: transport == Transport::Ud,
            xrc: transport == Transport::Xrc && !answers && operation != Reserved,
            feth: operation == Flush,
            reth: starts
                && matches!(
                    operation,
                    Write | WriteImm | ReadRequest | Flush | AtomicWrite
                ),
            atomic: matches!(operation, CmpSwap | FetchAdd),
            aeth: answers && part != Part::Middle,
            atomic_ack: operation == AtomicAck,
            imm: matches!(operation, SendImm | WriteImm),
            ieth: operation == SendInv,
        }
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

/// The part of a packet that is not parsed yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// Takes the headers that the packet begins with.
    fn headers(&mut self) -> Result<Headers, Malformed> {
        let bth = Bth::parse(self.take()?)?;
        let (transport, operation, part) = bth.opcode.parts().ok_or(Malformed)?;
        let mut headers = Headers::new(bth);
        let has = Extensions::of(transport, operation, part);
        if has.deth {
            headers.deth = Some(Deth::parse(self.take()?));
        }
        if has.xrc {
            headers.xrc_srqn = Some(u32::from_be_bytes(*self.take()?) & Psn::MASK);
        }
        if has.feth {
            headers.feth = Some(Feth::parse(self.take()?));
        }
        if has.reth {
            headers.reth = Some(Reth::parse(self.take()?));
        }
        if has.atomic {
            headers.atomic = Some(AtomicEth::parse(self.take()?));
        }
        if has.aeth {
            headers.aeth = Some(Aeth::parse(self.take()?)?);
        }
        if has.atomic_ack {
            headers.atomic_ack = Some(u64::from_be_bytes(*self.take()?));
        }
        if has.imm {
            headers.imm = Some(u32::from_ne_bytes(*self.take()?));
        }
        if has.ieth {
            headers.ieth = Some(u32::from_be_bytes(*self.take()?));
        }
        Ok(headers)
    }

    fn take<const LEN: usize>(&mut self) -> Result<&'a [u8; LEN], Malformed> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(first)
    }
}

struct Writer<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl Writer<'_> {
    fn put<const LEN: usize>(&mut self, bytes: &[u8; LEN]) {
        if let Some(to) = self.buffer.get_mut(self.len..self.len + LEN) {
            to.copy_from_slice(bytes);
            self.len += LEN;
        }
    }
}

const _: () = assert!(Bth::LEN + 4 + AtomicEth::LEN + 4 <= MAX_HEADERS);
// The headers of a packet that may have a longer payload than others: XRCETH, RETH and ImmDt.
const _: () = assert!(Bth::LEN + 4 + Reth::LEN + 4 <= PAYLOAD_APART);
