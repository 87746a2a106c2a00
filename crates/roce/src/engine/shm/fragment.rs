//! Requests and responses as bytes: a header of 24 to 56 bytes, and the payload behind it. Numbers are in the
//! byte order of the host, as both processes run on it.
//!
//! | bytes | content |
//! |---|---|
//! | 0 | the operation |
//! | 1 | flags: place in the message, transport service of a request, solicited event, where the payload is |
//! | 4 to 7 | the number of the receiving queue pair |
//! | 8 to 11 | the PSN |
//! | 12 to 15 | the offset of the payload in its message |
//! | 16 to 19 | immediate data, an R_Key to invalidate, what a FLUSH does, or the syndrome of an AETH |
//! | 20 to 23 | XRC: the number of the shared receive queue |
//! | 24 to 39 | WRITE, READ, FLUSH, atomics: address, R_Key, length. The original value of an atomic |
//! | 40 to 55 | atomics: the two operands |

use crate::wire::{Aeth, AethKind, AtomicEth, Feth, Operation, Part, Psn, Reth, Transport};

/// The longest header, in bytes. A payload that does not fit into that many with its header begins behind
/// them, at the start of a cache line: copies there and from there are up to twice as fast (benches/uroce).
pub const HEAD_LEN: usize = 56;

/// The first fragment of a message.
const STARTS: u8 = 1;
/// The last fragment of a message.
const ENDS: u8 = 2;
/// The fragment raises a solicited event.
const SOLICITED: u8 = 4;
/// The payload begins at [`HEAD_LEN`].
const APART: u8 = 8;
/// The request is one of UC, or of XRC; else of RC. Responses have neither flag.
const OF_UC: u8 = 16;
const OF_XRC: u8 = 32;

/// The operations that a fragment can have. Their places are their codes.
const OPERATIONS: [Operation; 13] = [
    Operation::Send,
    Operation::SendImm,
    Operation::SendInv,
    Operation::Write,
    Operation::WriteImm,
    Operation::ReadRequest,
    Operation::CmpSwap,
    Operation::FetchAdd,
    Operation::Flush,
    Operation::AtomicWrite,
    Operation::ReadResponse,
    Operation::Ack,
    Operation::AtomicAck,
];

/// The place of an operation in [`OPERATIONS`].
const fn code(operation: Operation) -> u8 {
    match operation {
        Operation::Send => 0,
        Operation::SendImm => 1,
        Operation::SendInv => 2,
        Operation::Write => 3,
        Operation::WriteImm => 4,
        Operation::ReadRequest => 5,
        Operation::CmpSwap => 6,
        Operation::FetchAdd => 7,
        Operation::Flush => 8,
        Operation::AtomicWrite => 9,
        Operation::ReadResponse => 10,
        Operation::Ack => 11,
        Operation::AtomicAck => 12,
        // Never written, and refused by the reader.
        Operation::Reserved => u8::MAX,
    }
}

/// The bytes of the header that fragments with an operation have.
const fn header_len(operation: Operation) -> usize {
    match operation {
        Operation::CmpSwap | Operation::FetchAdd => 56,
        Operation::Write
        | Operation::WriteImm
        | Operation::ReadRequest
        | Operation::Flush
        | Operation::AtomicWrite => 40,
        Operation::AtomicAck => 32,
        _ => 24,
    }
}

/// A fragment: a request or a response, or one of the pieces of a long one, as it was received.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    head: &'a [u8; HEAD_LEN],
    operation: Operation,
    /// The fragment's payload. A hostile peer may change it while it is read.
    pub payload: &'a [u8],
}

impl<'a> Fragment<'a> {
    /// The fragment that `body` contains; None if it contains none. `head` is a copy of its first bytes: only
    /// these are examined.
    #[inline(always)]
    pub fn parse(head: &'a [u8; HEAD_LEN], body: &'a [u8]) -> Option<Fragment<'a>> {
        let operation = *OPERATIONS.get(usize::from(head[0]))?;
        let start = match head[1] & APART {
            0 => header_len(operation),
            _ => HEAD_LEN,
        };
        let payload = match body.len() <= HEAD_LEN {
            true => head.get(start..body.len()),
            false => body.get(start..),
        };
        Some(Fragment {
            head,
            operation,
            payload: payload?,
        })
    }

    #[inline(always)]
    fn u32_at<const AT: usize>(&self) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.head[AT..AT + 4]);
        u32::from_ne_bytes(bytes)
    }

    #[inline(always)]
    fn u64_at<const AT: usize>(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.head[AT..AT + 8]);
        u64::from_ne_bytes(bytes)
    }

    #[inline(always)]
    fn has(&self, flag: u8) -> bool {
        self.head[1] & flag != 0
    }

    /// The operation of the fragment. Never `Reserved`.
    #[inline]
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The position of the fragment in its message.
    #[inline]
    pub fn part(&self) -> Part {
        match (self.starts(), self.ends()) {
            (true, true) => Part::Only,
            (true, false) => Part::First,
            (false, false) => Part::Middle,
            (false, true) => Part::Last,
        }
    }

    /// Whether it is the first fragment of its message.
    #[inline]
    pub fn starts(&self) -> bool {
        self.has(STARTS)
    }

    /// Whether it is the last fragment of its message.
    #[inline]
    pub fn ends(&self) -> bool {
        self.has(ENDS)
    }

    /// The transport service of the queue pair that has sent the request.
    #[inline(always)]
    pub fn transport(&self) -> Transport {
        match self.head[1] & (OF_UC | OF_XRC) {
            0 => Transport::Rc,
            OF_UC => Transport::Uc,
            _ => Transport::Xrc,
        }
    }

    /// Whether it raises a solicited event.
    #[inline]
    pub fn is_solicited(&self) -> bool {
        self.has(SOLICITED)
    }

    /// The number of the queue pair that it is for.
    #[inline]
    pub fn dest_qpn(&self) -> u32 {
        self.u32_at::<4>()
    }

    /// The PSN of a request. All its fragments have it, and all its responses.
    #[inline]
    pub fn psn(&self) -> Psn {
        Psn::new(self.u32_at::<8>())
    }

    /// Where in its message the payload begins, in bytes.
    #[inline]
    pub fn offset(&self) -> u32 {
        self.u32_at::<12>()
    }

    /// Whether it answers a request.
    #[inline]
    pub fn is_response(&self) -> bool {
        matches!(
            self.operation,
            Operation::Ack | Operation::AtomicAck | Operation::ReadResponse
        )
    }

    /// Whether it is a NAK or an RNR NAK.
    #[inline]
    pub fn is_nak(&self) -> bool {
        self.operation == Operation::Ack
            && !matches!(self.acknowledgment(), Some(AethKind::Ack { .. }))
    }

    /// The content of an ACK or NAK; None if it is none, or says nothing that exists.
    #[inline]
    pub fn acknowledgment(&self) -> Option<AethKind> {
        let is_ack = self.operation == Operation::Ack;
        let aeth = is_ack.then(|| Aeth::parse(&self.u32_at::<16>().to_ne_bytes()).ok());
        Some(aeth??.kind)
    }

    /// The value in memory before an atomic operation.
    #[inline]
    pub fn original_value(&self) -> u64 {
        self.u64_at::<24>()
    }

    /// Immediate data in network byte order; only the last fragment has it.
    #[inline]
    pub fn imm(&self) -> Option<u32> {
        let has = matches!(self.operation, Operation::SendImm | Operation::WriteImm) && self.ends();
        has.then(|| self.u32_at::<16>())
    }

    /// The R_Key to invalidate; only the last fragment has it.
    #[inline]
    pub fn invalidated_rkey(&self) -> Option<u32> {
        let has = self.operation == Operation::SendInv && self.ends();
        has.then(|| self.u32_at::<16>())
    }

    /// XRC: the number of the shared receive queue.
    #[inline]
    pub fn xrc_srqn(&self) -> u32 {
        self.u32_at::<20>()
    }

    /// Address, R_Key and length; only the first fragment has them.
    #[inline]
    pub fn reth(&self) -> Option<Reth> {
        let has = header_len(self.operation) == 40 && self.starts();
        has.then(|| Reth {
            va: self.u64_at::<24>(),
            rkey: self.u32_at::<32>(),
            len: self.u32_at::<36>(),
        })
    }

    /// The operands of an atomic operation.
    pub fn atomic(&self) -> Option<AtomicEth> {
        let has = header_len(self.operation) == 56;
        has.then(|| AtomicEth {
            va: self.u64_at::<24>(),
            rkey: self.u32_at::<32>(),
            compare: self.u64_at::<40>(),
            swap_add: self.u64_at::<48>(),
        })
    }

    /// The parameters of a FLUSH.
    pub fn feth(&self) -> Option<Feth> {
        let [placement, selectivity, ..] = self.u32_at::<16>().to_ne_bytes();
        (self.operation == Operation::Flush).then_some(Feth {
            placement,
            selectivity,
        })
    }
}

/// A fragment for a later time: the fragment itself lies in shared memory.
pub struct FragmentCopy {
    head: [u8; HEAD_LEN],
    operation: Operation,
    payload: Vec<u8>,
}

impl FragmentCopy {
    /// None if there is no memory.
    pub fn try_new(fragment: &Fragment<'_>) -> Option<FragmentCopy> {
        let mut payload = Vec::new();
        payload.try_reserve_exact(fragment.payload.len()).ok()?;
        payload.extend_from_slice(fragment.payload);
        Some(FragmentCopy {
            head: *fragment.head,
            operation: fragment.operation,
            payload,
        })
    }

    /// The fragment.
    pub fn fragment(&self) -> Fragment<'_> {
        Fragment {
            head: &self.head,
            operation: self.operation,
            payload: &self.payload,
        }
    }
}

/// Writes a fragment into the memory that the peer reads it from.
pub struct FragmentWriter<'a> {
    head: &'a mut [u8; HEAD_LEN],
    /// Behind the longest header.
    tail: &'a mut [u8],
    operation: Operation,
}

impl<'a> FragmentWriter<'a> {
    /// A fragment for the queue pair of that number. None if the buffer is shorter than the longest header.
    #[inline(always)]
    pub fn new(
        operation: Operation,
        part: Part,
        (dest_qpn, psn): (u32, Psn),
        offset: u32,
        buffer: &'a mut [u8],
    ) -> Option<FragmentWriter<'a>> {
        let (head, tail) = buffer.split_first_chunk_mut::<HEAD_LEN>()?;
        let flags = match part {
            Part::First => STARTS,
            Part::Middle => 0,
            Part::Last => ENDS,
            Part::Only => STARTS | ENDS,
        };
        head[..4].copy_from_slice(&[code(operation), flags, 0, 0]);
        head[4..8].copy_from_slice(&dest_qpn.to_ne_bytes());
        head[8..12].copy_from_slice(&psn.get().to_ne_bytes());
        head[12..16].copy_from_slice(&offset.to_ne_bytes());
        head[16..24].fill(0);
        Some(FragmentWriter {
            head,
            tail,
            operation,
        })
    }

    /// Marks the fragment as one that raises a solicited event.
    #[inline(always)]
    pub fn solicited(&mut self) {
        self.head[1] |= SOLICITED;
    }

    /// Marks the fragment as one of a request of this transport service.
    #[inline(always)]
    pub fn transport(&mut self, transport: Transport) {
        self.head[1] |= match transport {
            Transport::Uc => OF_UC,
            Transport::Xrc => OF_XRC,
            _ => 0,
        };
    }

    /// Immediate data, or the R_Key to invalidate.
    #[inline(always)]
    pub fn imm_or_rkey(&mut self, value: u32) {
        self.head[16..20].copy_from_slice(&value.to_ne_bytes());
    }

    /// XRC: the number of the shared receive queue.
    #[inline(always)]
    pub fn xrc_srqn(&mut self, srqn: u32) {
        self.head[20..24].copy_from_slice(&srqn.to_ne_bytes());
    }

    /// Address, R_Key and length.
    #[inline(always)]
    pub fn reth(&mut self, reth: &Reth) {
        self.head[24..32].copy_from_slice(&reth.va.to_ne_bytes());
        self.head[32..36].copy_from_slice(&reth.rkey.to_ne_bytes());
        self.head[36..40].copy_from_slice(&reth.len.to_ne_bytes());
    }

    /// The operands of an atomic operation.
    pub fn atomic(&mut self, atomic: &AtomicEth) {
        let (va, rkey) = (atomic.va, atomic.rkey);
        self.reth(&Reth { va, rkey, len: 8 });
        self.head[40..48].copy_from_slice(&atomic.compare.to_ne_bytes());
        self.head[48..].copy_from_slice(&atomic.swap_add.to_ne_bytes());
    }

    /// Writes the parameters of a FLUSH.
    pub fn feth(&mut self, feth: &Feth) {
        let bytes = [feth.placement, feth.selectivity, 0, 0];
        self.imm_or_rkey(u32::from_ne_bytes(bytes));
    }

    /// Writes the content of an ACK or NAK.
    #[inline(always)]
    pub fn acknowledgment(&mut self, kind: AethKind) {
        self.head[16..20].copy_from_slice(&Aeth { kind, msn: 0 }.bytes());
    }

    /// The value in memory before an atomic operation.
    pub fn original_value(&mut self, value: u64) {
        self.head[24..32].copy_from_slice(&value.to_ne_bytes());
    }

    /// The place of a payload of `len` bytes. None if it is too long for the buffer.
    #[inline(always)]
    pub fn payload(&mut self, len: usize) -> Option<&mut [u8]> {
        let start = header_len(self.operation);
        if start + len <= HEAD_LEN {
            return self.head.get_mut(start..start + len);
        }
        self.head[1] |= APART;
        self.tail.get_mut(..len)
    }

    /// The length of the fragment with a payload of that length, in bytes.
    #[inline(always)]
    pub fn len(&self, payload_len: usize) -> usize {
        match self.head[1] & APART {
            0 => header_len(self.operation) + payload_len,
            _ => HEAD_LEN + payload_len,
        }
    }
}

#[cfg(test)]
mod tests;
