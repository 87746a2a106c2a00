//! RoCEv2 packets, the payload of UDP datagrams to port 4791: headers, opcodes, PSNs, ICRC (InfiniBand
//! Architecture Specification 1.7, chapter 9 and annexes A17, A19). Pure: any bytes may be parsed, and what
//! is written parses to the same values.

mod address;
mod bth;
pub mod grh;
mod headers;
pub mod icrc;
mod opcode;
mod packet;
mod psn;
mod qpn;
#[cfg(test)]
mod tests;
mod writer;

pub use address::{gid_of, ip_of, link_local_gid_of};
pub use bth::Bth;
pub use headers::{Aeth, AethKind, AtomicEth, Deth, Feth, NakCode, Reth};
pub use icrc::{Flow, Fragmentation};
pub use opcode::{Opcode, Operation, Part, Transport};
pub use packet::{Headers, Malformed, Packet};
pub use psn::Psn;
pub use qpn::{FIRST_PORT, MULTICAST_QPN, PORTS, QPNS_PER_PORT, first_qpn, port_of};
pub(crate) use writer::HeaderWriter;

/// The UDP port of RoCEv2.
pub const PORT: u16 = 4791;
/// Bytes of the ICRC at the end of each packet.
pub const ICRC_LEN: usize = 4;
/// An upper limit, in bytes, of the base header and all extension headers of a packet.
pub const MAX_HEADERS: usize = 64;
/// The longest packet without ICRC, in bytes: headers, the largest path MTU, padding.
pub const MAX_PACKET: usize = MAX_HEADERS + 4096 + 3;
