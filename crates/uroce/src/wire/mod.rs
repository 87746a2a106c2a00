//! RoCEv2 packets (InfiniBand Architecture Specification 1.7, chapter 9 and annexes A17, A19): what
//! stands in a UDP datagram to port 4791. Pure.

#![forbid(unsafe_code)]

mod address;
mod bth;
pub mod grh;
mod headers;
pub mod icrc;
mod opcode;
mod packet;
mod psn;
#[cfg(test)]
mod tests;

pub use address::{gid_of, ip_of};
pub use bth::Bth;
pub use headers::{Aeth, AethKind, AtomicEth, Deth, Feth, NakCode, Reth};
pub use icrc::{Flow, Fragmentation};
pub use opcode::{Opcode, Operation, Part, Transport};
pub use packet::{Headers, Malformed, Packet};
pub use psn::Psn;

/// The UDP port of RoCEv2.
pub const PORT: u16 = 4791;
/// Bytes of the invariant CRC at the end of each packet.
pub const ICRC_LEN: usize = 4;
/// The most that headers in front of a payload take, all extension headers of one opcode counted.
pub const MAX_HEADERS: usize = 64;
