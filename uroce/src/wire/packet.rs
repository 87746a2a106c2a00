//! A whole packet: which headers an opcode has, taken apart and put together.

use super::{Aeth, AtomicEth, Bth, Deth, Feth, Reth};

/// The headers of a packet: the base header, and the extension headers that its opcode has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    pub bth: Bth,
    pub deth: Option<Deth>,
    /// XRC extended transport header: the number of the shared receive queue.
    pub xrc_srqn: Option<u32>,
    pub feth: Option<Feth>,
    pub reth: Option<Reth>,
    pub atomic: Option<AtomicEth>,
    pub aeth: Option<Aeth>,
    /// Atomic acknowledge extended transport header: what was in memory before.
    pub atomic_ack: Option<u64>,
    /// Immediate data, as it is to stand in `ibv_wc.imm_data` (network byte order).
    pub imm: Option<u32>,
    /// Invalidate extended transport header: an R_Key.
    pub ieth: Option<u32>,
}

/// A received packet, checked: it has the headers of its opcode, and a payload its opcode may have.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub headers: Headers,
    /// Without padding and ICRC.
    pub payload: &'a [u8],
}

/// A datagram that is no packet; it is dropped silently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;
