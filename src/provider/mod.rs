//! Providers: configuration, loading, registration, matching, contexts and their ops tables.

pub mod abi;
#[cfg(not(feature = "static"))]
pub mod config;
pub mod context;
pub mod device;
pub mod dmabuf;
#[cfg(not(feature = "static"))]
pub mod known;
#[cfg_attr(feature = "static", path = "load_static.rs")]
pub mod load;
pub mod matching;
pub mod ops;
pub mod registry;
#[cfg_attr(not(feature = "uroce"), path = "no_software.rs")]
pub mod software;
