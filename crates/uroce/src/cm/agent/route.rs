//! Messages to send, messages that were received, and the route between the two ends.

use crate::cm::mad::Mad;
use roce::engine::Gid;

/// The GIDs of both ends, and the GRH fields of packets between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub sgid: Gid,
    pub dgid: Gid,
    pub traffic_class: u8,
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
    pub route: Route,
    pub mad: Mad,
}

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The sender's GID.
    pub src: Gid,
    /// The GID of this host that it was sent to.
    pub dst: Gid,
    pub mad: Mad,
}
