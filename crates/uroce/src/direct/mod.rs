//! RDMA WRITE and READ between processes of one host without the target's CPU: the initiator moves the bytes
//! itself, by process_vm_writev(2) and process_vm_readv(2).
//!
//! | file | responsible for |
//! |---|---|
//! | `exports.rs` | which regions and queue pairs of a process its peers may access |
//! | `table.rs` | the table of exports, in memory that peers can read |
//! | `imports.rs` | what a peer exports |
//! | `liveness.rs`, `fd_info.rs` | whether a peer's process exists; fields of a descriptor in /proc |
//! | `grant.rs` | the entries of that table, and the checks of a request against them (pure) |
//! | `accesses.rs` | which accesses an initiator has in progress, in memory of both |
//! | `accessors.rs` | the initiators, and waiting for their accesses |
//! | `process.rs` | the copies, and whether the kernel allows them |
//!
//! A target exports what its responder would grant ([`Exports`]). An initiator announces an access
//! ([`Accesses`]), looks up queue pair and region ([`Imports`]), copies, and ends the announcement. If
//! anything is missing or wrong, the request goes to the target's responder, which knows the protocol's
//! answer. So a table that lacks an entry costs time only.
//!
//! Invariant: once [`Exports::wait_for_region`] has returned, nobody accesses a region that was withdrawn
//! before; and so for a queue pair. A target first withdraws, then reads the announcements; an initiator
//! first announces, then reads the table; a fence stands between both steps on both sides. So at least one of
//! them sees the other. An initiator that is stopped between both looks at the table again when it continues:
//! the last look and the system call are one restartable sequence (`crate::restart`).
//!
//! Trust: an initiator that reads a wrong table writes to the target's own memory only, or fails. A target
//! trusts its initiators, which the kernel allows to write to its memory anyway (ptrace(2)).

mod accesses;
mod accessors;
mod exports;
mod fd_info;
mod grant;
mod imports;
mod liveness;
#[cfg(all(test, loom))]
mod model;
mod process;
mod table;

pub use accesses::Accesses;
pub use accessors::Accessor;
pub use exports::Exports;
pub use grant::{ExportedQp, ExportedRegion, Request};
pub use imports::{Imports, TableFd};
pub use process::{Copied, allow_peers};
