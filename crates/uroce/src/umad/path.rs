//! How a MAD leaves the process. Pure.

use roce::engine::Gid;

/// A way to another port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The port that sends, by its place in the list of ports.
    pub port: u32,
    pub sgid_index: u8,
    pub dgid: Gid,
    pub traffic_class: u8,
}
