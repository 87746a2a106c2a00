//! The device of a process: shared by all its contexts.
//!
//! | file | what is in it |
//! |---|---|
//! | `config.rs` | `IBV_UROCE`: which devices there are (pure) |
//! | `progress.rs` | who runs the protocol: the polling threads, and one thread in the background |
//! | `timers.rs` | when each queue pair wants to be run next (pure) |

pub mod config;
