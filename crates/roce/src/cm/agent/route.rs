//! Messages to send, messages that were received, and the route between the two ends.

use crate::cm::mad::Mad;
use crate::engine::Gid;

/// The GIDs of both ends, and the GRH fields of packets between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The GID of this end.
    pub sgid: Gid,
    /// The GID of the peer.
    pub dgid: Gid,
    /// The traffic class.
    pub traffic_class: u8,
    /// The flow label, 20 bits.
    pub flow_label: u32,
}

impl Route {
    /// The route of answers to a message that has come from `src` to `dst`.
    pub fn back(src: Gid, dst: Gid) -> Route {
        Route {
            sgid: dst,
            dgid: src,
            traffic_class: 0,
            flow_label: 0,
        }
    }
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The way to the peer.
    pub route: Route,
    /// The message.
    pub mad: Mad,
}

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The sender's GID.
    pub src: Gid,
    /// The GID of this host that it was sent to.
    pub dst: Gid,
    /// The message.
    pub mad: Mad,
}
