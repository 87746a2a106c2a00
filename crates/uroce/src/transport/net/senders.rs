//! Peers whose IPv4 identifications are followed: see [`crate::transport::ip_id`].

use std::net::IpAddr;

use super::Net;
use crate::transport::ip_id::AddressPair;
use roce::wire::Flow;

/// A peer of a connected queue pair, by its addresses. To be returned by [`Net::disconnect`].
#[derive(Debug, PartialEq, Eq)]
pub struct ConnectedPeer(AddressPair);

impl Net {
    /// A queue pair is connected: `flow` is that of the packets that it sends. None if nothing is to be known
    /// of its peer.
    pub fn connect(&self, flow: &Flow) -> Option<ConnectedPeer> {
        let (IpAddr::V4(own), IpAddr::V4(peer)) = (flow.src, flow.dst) else {
            return None;
        };
        let pair = (peer, own);
        self.senders
            .lock()
            .connect(pair)
            .then_some(ConnectedPeer(pair))
    }

    /// The queue pair is not connected any more.
    pub fn disconnect(&self, peer: ConnectedPeer) {
        self.senders.lock().disconnect(peer.0);
    }

    /// How many peers there are.
    #[cfg(test)]
    pub fn connected_peers(&self) -> usize {
        self.senders.lock().connected()
    }
}
