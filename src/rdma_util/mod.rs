//! What only a static library has: the names that let a program choose its providers, and the helpers that
//! rdma-core's provider archives and librdmacm.a expect in libibverbs.a. Their functions and structures are those
//! of rdma-core's `util/`; how they work is ours.
//!
//! `scripts/build-static` says under which names they are linked.

pub mod bitmap;
pub mod iset;
pub mod misc;
#[cfg(feature = "static")]
pub mod providers;
pub mod qmap;
#[cfg(feature = "static")]
pub mod rdmanl;
