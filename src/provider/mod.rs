//! Providers (the vendors' libraries, such as libmlx5): configuration, loading, registration, matching
//! with devices, contexts and their ops tables.

pub mod abi;
#[cfg(not(feature = "static"))]
pub mod config;
pub mod context;
pub mod device;
pub mod dmabuf;
#[cfg(not(feature = "static"))]
pub mod elf;
pub mod event;
#[cfg(not(feature = "static"))]
pub mod file;
#[cfg_attr(feature = "static", path = "identify_static.rs")]
pub mod identify;
#[cfg_attr(feature = "static", path = "load_static.rs")]
pub mod load;
pub mod matching;
pub mod ops;
pub mod private;
#[cfg(not(feature = "static"))]
pub mod rdma_core;
pub mod registry;
#[cfg_attr(not(feature = "uroce"), path = "no_software.rs")]
pub mod software;
pub mod status;
