//! A copy of a received packet, for a later time: the packet itself lies in the receiver's buffer.

use crate::wire::{Bth, Packet};

/// A packet that is delivered later.
#[derive(Debug)]
pub struct PacketCopy {
    bth: Bth,
    /// Headers and payload.
    bytes: Vec<u8>,
    headers_len: usize,
}

impl PacketCopy {
    /// None if there is no memory.
    pub fn try_new(packet: &Packet<'_>) -> Option<PacketCopy> {
        let (head, payload) = (packet.head(), packet.payload);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(head.len() + payload.len()).ok()?;
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(payload);
        Some(PacketCopy {
            bth: packet.bth,
            bytes,
            headers_len: head.len(),
        })
    }

    /// The packet.
    pub fn packet(&self) -> Packet<'_> {
        let (head, payload) = self.bytes.split_at(self.headers_len);
        Packet::from_parts(self.bth, head, payload)
    }

    /// The bytes of its headers and its payload.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The packet's BTH.
    pub fn bth(&self) -> &Bth {
        &self.bth
    }
}
