//! Conditions of rules: functions from facts to findings. Pure: no system calls, no lock, no `unsafe`.
//!
//! Not here: names and texts (`rules/`); conditions of the state of the program's objects, and the calls of
//! all these (`calls/failed.rs` and `calls/arguments.rs` when a verb has failed; other wrappers of `calls/`,
//! and `shadow/`, otherwise).

pub mod binding;
pub mod gid;
pub mod key;
pub mod list;
pub mod memory;
pub mod reasons;
pub mod state;
pub mod values;
pub mod vendor;
