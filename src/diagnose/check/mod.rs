//! The rules themselves: functions from facts to findings. Pure: no system calls, no lock, no `unsafe`.

pub mod arguments;
pub mod connection;
pub mod gid;
pub mod key;
pub mod memory;
pub mod reasons;
pub mod state;
pub mod values;
pub mod vendor;
