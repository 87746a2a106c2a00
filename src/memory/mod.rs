//! Registered memory: fork safety (madvise(2)), page sizes, RLIMIT_MEMLOCK.
//!
//! | file | what is in it |
//! |---|---|
//! | `fork.rs` | the four exported functions and their state |
//! | `ranges.rs` | which pages need MADV_DONTFORK or MADV_DOFORK: pure, no system calls |
//! | `refcounts.rs` | the refcount of each page, in a B+ tree |
//! | `advice.rs` | madvise(2) on a run of pages, and what to do when it fails |
//! | `page_size.rs` | base and huge page sizes |
//! | `single_threaded.rs` | whether the process has one thread |
//! | `lock.rs` | a lock that works in the child after fork(2) |
//! | `dma_heap.rs` | buffers of a DMA heap, for providers of ABI 64 and later |
//! | `memlock.rs` | the RLIMIT_MEMLOCK warnings |
//! | `shortage.rs` | log messages about registrations that failed for lack of memory or mappings |

mod advice;
pub mod dma_heap;
mod fork;
pub mod lock;
pub mod memlock;
mod page_size;
mod ranges;
mod refcounts;
pub mod shortage;
pub mod single_threaded;

pub use fork::{
    ibv_dofork_range, ibv_dontfork_range, ibv_fork_init, ibv_is_fork_initialized, report_too_late,
};
