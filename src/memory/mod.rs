//! Memory that is registered: what a child of fork(2) gets of it, page sizes, RLIMIT_MEMLOCK.
//!
//! | file | what is in it |
//! |---|---|
//! | `fork.rs` | the four exported functions, and the one state behind them |
//! | `ranges.rs` | how many registrations hold each page: pure, no system calls |
//! | `counts.rs` | the B+ tree that the counts are kept in |
//! | `advice.rs` | madvise(2) over a range, and what to do when the kernel refuses |
//! | `page_size.rs` | base and huge page sizes |
//! | `single_threaded.rs` | whether the process has one thread |
//! | `lock.rs` | a lock that fork(2) leaves in a usable state |
//! | `memlock.rs` | the RLIMIT_MEMLOCK warnings |
//! | `shortage.rs` | the log's lines about a registration that failed for want of memory |

mod advice;
mod counts;
mod fork;
mod lock;
pub mod memlock;
mod page_size;
mod ranges;
pub mod shortage;
mod single_threaded;

pub use fork::{ibv_dofork_range, ibv_dontfork_range, ibv_fork_init, ibv_is_fork_initialized};
