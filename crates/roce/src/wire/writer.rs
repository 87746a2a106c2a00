//! Writing the headers of a packet.

use super::{Aeth, AtomicEth, Bth, Deth, Feth, Psn, Reth};

/// The headers of a packet that is being written to a buffer: the BTH, and the extended headers of its
/// opcode, which the caller adds in their order on the wire. Those that the buffer has no room for are left
/// out: [`HeaderWriter::size`] is greater than its length then.
pub struct HeaderWriter<'a> {
    /// The BTH. It may be changed until [`HeaderWriter::finish`] writes it.
    pub bth: Bth,
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> HeaderWriter<'a> {
    /// A BTH without extended headers, at the start of `buffer`.
    #[inline]
    pub fn new(bth: Bth, buffer: &'a mut [u8]) -> HeaderWriter<'a> {
        let len = Bth::LEN;
        HeaderWriter { bth, buffer, len }
    }

    #[inline]
    fn put<const LEN: usize>(&mut self, bytes: &[u8; LEN]) {
        if let Some(to) = self.buffer.get_mut(self.len..self.len + LEN) {
            to.copy_from_slice(bytes);
        }
        self.len += LEN;
    }

    /// Adds a DETH.
    #[inline]
    pub fn deth(&mut self, deth: &Deth) {
        self.put(&deth.bytes());
    }

    /// Adds an XRCETH with the number of a shared receive queue.
    pub fn xrceth(&mut self, srqn: u32) {
        self.put(&(srqn & Psn::MASK).to_be_bytes());
    }

    /// Adds a FETH.
    pub fn feth(&mut self, feth: &Feth) {
        self.put(&feth.bytes());
    }

    /// Adds a RETH.
    #[inline]
    pub fn reth(&mut self, reth: &Reth) {
        self.put(&reth.bytes());
    }

    /// Adds an AtomicETH.
    pub fn atomic(&mut self, atomic: &AtomicEth) {
        self.put(&atomic.bytes());
    }

    /// Adds an AETH.
    #[inline]
    pub fn aeth(&mut self, aeth: &Aeth) {
        self.put(&aeth.bytes());
    }

    /// Adds an AtomicAckETH with the value before the operation.
    pub fn atomic_ack(&mut self, before: u64) {
        self.put(&before.to_be_bytes());
    }

    /// Adds an ImmDt, in network byte order as in `ibv_send_wr.imm_data`.
    #[inline]
    pub fn imm(&mut self, imm: u32) {
        self.put(&imm.to_ne_bytes());
    }

    /// Adds an IETH with the R_Key to invalidate.
    pub fn ieth(&mut self, rkey: u32) {
        self.put(&rkey.to_be_bytes());
    }

    /// The length of the headers in bytes.
    #[inline]
    pub fn size(&self) -> usize {
        self.len
    }

    /// The buffer, to write what follows the headers.
    #[inline]
    pub fn buffer(&mut self) -> &mut [u8] {
        self.buffer
    }

    /// Writes the BTH. Returns the length of the headers.
    #[inline]
    pub fn finish(self) -> usize {
        if let Some(bth) = self.buffer.first_chunk_mut() {
            *bth = self.bth.bytes();
        }
        self.len
    }
}
