//! The way of a queue pair's packets to its peer.

use crate::wire::PAYLOAD_APART;

/// The longest padding of a payload, in bytes.
const MAX_PAD: usize = 3;

/// What carries the packets of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// A network, which may lose, reorder and duplicate packets.
    #[default]
    Network,
    /// Memory that a process of the same host shares. It keeps their order and loses none, so there is no
    /// congestion window, no RTT estimate and no pacing; and one packet may stand for several
    /// ([`crate::wire::Packet::gso_size`]).
    SharedMemory,
}

impl Link {
    /// How many packets of the path MTU one that is written to a buffer of that length may stand for.
    #[inline]
    pub fn packets_in(self, buffer: &[u8], mtu: u32) -> u32 {
        match self {
            Link::Network => 1,
            Link::SharedMemory => {
                let payload = buffer.len().saturating_sub(PAYLOAD_APART + MAX_PAD) as u32;
                (payload / mtu).max(1)
            }
        }
    }
}
