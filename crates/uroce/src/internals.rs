//! Entry points of fuzz targets to the private modules. No stability is promised.

/// The connection manager.
pub mod cm {
    pub use crate::cm::fuzz::{commands, mad};
}

/// Channels in shared memory.
pub mod shm {
    pub use crate::shm::fuzz::channel;
}
