//! Providers: configuration, loading, registration, matching, contexts and their ops tables.

pub mod abi;
pub mod config;
pub mod context;
pub mod device;
pub mod dmabuf;
pub mod known;
pub mod load;
pub mod matching;
pub mod ops;
pub mod registry;
pub mod soft;
