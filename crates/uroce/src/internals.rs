//! What fuzz targets and benches use of the private modules. No stability is promised.

/// The connection manager.
pub mod cm {
    pub use crate::cm::fuzz::{commands, mad};
}

/// The transport protocol of a queue pair.
pub mod engine {
    pub use crate::engine::*;
}

/// Channels in shared memory.
pub mod local {
    pub use crate::local::fuzz::channel;
}

/// RoCEv2 packets.
pub mod wire {
    pub use crate::wire::*;
}
