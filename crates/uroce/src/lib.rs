//! `uroce`: an RDMA device in plain user space, without hardware, kernel module or root. It speaks
//! RoCEv2 (InfiniBand transport over UDP port 4791), so its peers may be other processes with this
//! library, the kernel's Soft-RoCE, or an RNIC.
//!
//! | module | what is in it |
//! |---|---|
//! | `wire` | RoCEv2 packets: headers, opcodes, ICRC. Pure: no I/O, no unsafe |
//! | `engine` | the protocol of a queue pair: requester, responder, completer. Pure: packets and time in, packets and completions out |
//! | `transport` | what carries packets: UDP sockets |
//! | `memory` | protection domains, regions and windows: keys, rights, and the copies into the program's memory |
//! | `device` | the device of a process: configuration, GID table, port, queue pair numbers, progress, timers |
//! | `provider` | the verbs over it, as a provider of libibverbs implements them |
//!
//! Layers: `wire` < `engine`, `device::config` < `memory, transport` < `device` < `provider`.

pub mod device;
pub mod engine;
pub mod memory;
pub mod provider;
mod random;
pub mod transport;
pub mod wire;
