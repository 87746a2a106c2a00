//! Writing the headers of a packet.

use super::{Aeth, AtomicEth, Bth, Deth, Feth, MAX_HEADERS, Psn, Reth};

/// The longest extended headers in bytes.
const EXTENSIONS_MAX: usize = MAX_HEADERS - Bth::LEN;

/// The headers of a packet that is being written: the BTH, and the extended headers of its opcode, which the
/// caller adds in their order on the wire.
pub struct HeaderWriter {
    /// The BTH. It may be changed until the headers are written.
    pub bth: Bth,
    extensions: [u8; EXTENSIONS_MAX],
    len: usize,
}

impl HeaderWriter {
    /// A BTH without extended headers.
    #[inline]
    pub fn new(bth: Bth) -> HeaderWriter {
        HeaderWriter {
            bth,
            extensions: [0; EXTENSIONS_MAX],
            len: 0,
        }
    }

    #[inline]
    fn put<const LEN: usize>(&mut self, bytes: &[u8; LEN]) {
        if let Some(to) = self.extensions.get_mut(self.len..self.len + LEN) {
            to.copy_from_slice(bytes);
            self.len += LEN;
        }
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
    pub fn len(&self) -> usize {
        Bth::LEN + self.len
    }

    /// Writes the headers to the start of `buffer`. False if it is too small.
    #[inline]
    pub fn write(&self, buffer: &mut [u8]) -> bool {
        let Some((bth, rest)) = buffer.split_first_chunk_mut() else {
            return false;
        };
        let (Some(to), Some(from)) = (rest.get_mut(..self.len), self.extensions.get(..self.len))
        else {
            return false;
        };
        *bth = self.bth.bytes();
        to.copy_from_slice(from);
        true
    }
}
