//! Where received packets come from, and where packets are sent to.

use super::{AddressVector, Gid};
use crate::wire::PORT;

/// The addresses of a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The source address.
    pub src: Gid,
    /// The destination address.
    pub dst: Gid,
    /// The UDP port that it was sent from.
    pub src_port: u16,
    /// A switch has marked it: its ECN field is CE, "congestion experienced".
    pub is_marked: bool,
    /// The GRH that a UD receive buffer begins with.
    pub grh: [u8; 40],
    /// The index of the packet's P_Key in the P_Key table. The HCA drops packets with an unknown
    /// P_Key.
    pub pkey_index: u16,
}

impl Addresses {
    /// The addresses of a packet from port 4791, unmarked, with the first P_Key and an empty GRH.
    pub fn new(src: Gid, dst: Gid) -> Addresses {
        Addresses {
            src,
            dst,
            src_port: PORT,
            is_marked: false,
            grh: [0; 40],
            pkey_index: 0,
        }
    }
}

/// A packet to send. It is in the buffer that [`super::Qp::transmit`] was given, without the ICRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where to send it.
    pub av: AddressVector,
    /// Determines the destination's UDP port.
    pub dest_qpn: u32,
    /// Bytes in the buffer: headers, payload, padding.
    pub len: usize,
}
