//! What fuzz targets and benches use of the private modules. No stability is promised.

/// The transport protocol of a queue pair.
pub mod engine {
    pub use crate::engine::*;
}

/// The interface, as rtnetlink reports it.
pub mod rtnl {
    pub use crate::transport::rtnl::*;
}

/// RoCEv2 packets.
pub mod wire {
    pub use crate::wire::*;
}
