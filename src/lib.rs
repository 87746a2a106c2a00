//! `libibverbs.so.1` in Rust: rdma-core's RDMA verbs library, symbol by symbol and byte by byte.
//!
//! The layers, lowest first: `abi` < `sys, env, log` < `discover, memory, neigh, uverbs` <
//! `provider` < `verbs` < `compat` < `export`. Nothing imports a layer above its own, and a C symbol
//! is born in `export` only. ARCHITECTURE.md has the map.
//!
//! Errors follow the C library's conventions (errno values as positive return values, or NULL / -1
//! with errno set), function by function: what a program observes is the specification.

#[cfg(all(feature = "exports", not(test), not(panic = "abort")))]
compile_error!(
    "build with panic = \"abort\": an unwinding panic's landing pads would turn pthread_cancel of a \
     thread in ibv_get_cq_event into an abort of the process"
);

pub use ibverbs_abi as abi;

pub mod compat;
pub mod discover;
pub mod env;
#[cfg(all(feature = "exports", not(test)))]
mod export;
pub mod log;
pub mod memory;
pub mod neigh;
pub mod provider;
#[cfg(any(feature = "static", test))]
pub mod rdma_util;
pub mod sys;
pub mod uverbs;
pub mod verbs;
