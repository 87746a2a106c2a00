//! Functions that only the static library has: the symbols by which a program selects its providers, and
//! the helpers that rdma-core's provider archives and librdmacm.a expect in libibverbs.a.
//!
//! The helpers have the signatures and structs of rdma-core's `util/`, and implementations of their own.
//! `scripts/build-static` links them under the names that each release uses.

pub mod bitmap;
pub mod iset;
pub mod misc;
#[cfg(feature = "static")]
pub mod providers;
pub mod qmap;
#[cfg(feature = "static")]
pub mod rdmanl;
