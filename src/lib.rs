//! `libibverbs.so.1` in Rust: a drop-in replacement for rdma-core's RDMA verbs library, with the same
//! symbols, struct layouts, files, environment variables, messages and errno values. The reference is release
//! 44.0, that of Debian 12.
//!
//! Not here: the data path, which is the provider's (posting and polling call its functions directly), the
//! providers themselves, which are plug-ins, and the software device (`crates/uroce`).
//!
//! Layers, lowest first: `arch`, `sys`, `env`, `log`; `discover`, `memory`, `neigh`, `uverbs`; `provider`,
//! `rdma_util`; `diagnose`; `verbs`; `compat`; `export`. No module imports from a layer above its own
//! (`make lint` checks it), and only `export` defines C symbols. See ARCHITECTURE.md.
//!
//! Inside, failing functions return `Result<T, Errno>`. The functions that C calls convert that to the
//! C library's convention for the function: a positive errno value, or NULL or -1 with errno set.

#[cfg(all(feature = "exports", not(test), not(panic = "abort")))]
compile_error!(
    "build with panic = \"abort\": an unwinding panic's landing pads would turn pthread_cancel of a \
     thread in ibv_get_cq_event into an abort of the process"
);

pub use ibverbs_abi as abi;

#[macro_use]
mod arch;

pub mod compat;
pub mod diagnose;
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
