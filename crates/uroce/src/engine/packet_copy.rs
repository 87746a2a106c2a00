//! A copy of a received packet, for a later time: the packet itself lies in the receiver's buffer.

use crate::wire::{Headers, Packet, Psn};

/// A packet that is delivered later.
pub struct PacketCopy {
    headers: Headers,
    payload: Vec<u8>,
    gso_size: u32,
}

impl PacketCopy {
    /// None if there is no memory.
    pub fn try_new(packet: &Packet<'_>) -> Option<PacketCopy> {
        let mut payload = Vec::new();
        payload.try_reserve_exact(packet.payload.len()).ok()?;
        payload.extend_from_slice(packet.payload);
        Some(PacketCopy {
            headers: packet.headers,
            payload,
            gso_size: packet.gso_size,
        })
    }

    /// The packet.
    pub fn packet(&self) -> Packet<'_> {
        Packet {
            headers: self.headers,
            payload: &self.payload,
            gso_size: self.gso_size,
        }
    }

    /// Its PSN.
    pub fn psn(&self) -> Psn {
        self.headers.bth.psn
    }
}
