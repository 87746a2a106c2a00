//! `uroce`: a software RDMA device in user space. It needs no hardware, no kernel module and no root.
//! It speaks RoCEv2 (InfiniBand transport over UDP port 4791); its peers are other uroce processes,
//! the kernel's Soft-RoCE, or RNICs.
//!
//! The packets and the protocol of a queue pair are the crate [`roce`], which does no I/O: tools that parse,
//! check or make RoCEv2 packets use it without this crate.
//!
//! The library that embeds it uses this crate's root only: [`read_config`] reads `IBV_UROCE`,
//! [`check`] says whether a configured device can exist on this host now, and [`new_device`] makes the
//! `verbs_device` through whose ops table the library does everything else. [`install_view`] makes programs
//! find the devices' files. The library's fork handlers call [`before_fork`] and [`after_fork`].
//!
//! | module | responsible for |
//! |---|---|
//! | `arch` | what depends on the CPU architecture |
//! | `c_library` | what depends on the C library |
//! | `cancellation` | system calls that pthread_cancel(3) does not interrupt |
//! | `bypass` | calls of the library itself that see the kernel's files only |
//! | `capture` | `IBV_UROCE_PCAP`: a file with the packets that are sent and received |
//! | `config` | `IBV_UROCE`: which devices are configured |
//! | `profile`, `pci` | what a device says of itself and refuses; where it is plugged in. Pure |
//! | `descriptors` | the file descriptors of uroce, which a child of fork gives up |
//! | `nofault` | accesses to the program's memory that report a fault in place of a signal |
//! | `process` | which process this is, across forks |
//! | `random` | random numbers that cannot be guessed, across forks too |
//! | `restart` | system calls that begin only while some words have their values (rseq(2)) |
//! | `sync` | locks that a child of fork can use |
//! | `model` | waiting and waking up, for models of memory orders (`make test-orderings`) |
//! | `tick` | the kernel's coarse clock |
//! | `transport` | UDP sockets, the GID table, queue pair numbers |
//! | `direct` | RDMA WRITE and READ on one host without the target's CPU |
//! | `shm` | messages between processes of one host through shared memory |
//! | `memory` | memory regions and windows, and every copy from and to the program's memory |
//! | `device` | the device of a process: its objects, progress, timers, events, fork |
//! | `cm` | rdma_cm: the connection manager, and the commands of its device file |
//! | `umad` | the device files `/dev/infiniband/umadN`: management datagrams of fabric tools |
//! | `provider` | the verbs, as a libibverbs provider implements them |
//! | `view` | what the process sees of the devices in `/dev/infiniband` and `/sys` |
//! | `internals` | what fuzz targets drive directly (cargo feature `internals`). No stability is promised |
//!
//! Layers, lowest first: `arch`, `bypass`, `c_library`, `cancellation`, `config`, `descriptors`, `model`,
//! `nofault`, `pci`, `process`, `profile`, `random`, `restart`, `sync`, `tick`; `capture`; `direct`; `shm`,
//! `memory`, `transport`; `device`; `cm`; `umad`; `provider`; `view`; `internals`. No module imports from a
//! layer above its own (`scripts/lint-layers`). All but `internals` are private.

#![deny(missing_docs)]

#[macro_use]
mod arch;
mod bypass;
mod c_library;
mod cancellation;
mod capture;
mod cm;
mod config;
mod descriptors;
mod device;
mod direct;
#[cfg(feature = "internals")]
pub mod internals;
mod memory;
#[cfg(all(test, loom))]
mod model;
mod nofault;
mod pci;
mod process;
mod profile;
mod provider;
mod random;
mod restart;
mod shm;
mod sync;
mod tick;
mod transport;
mod umad;
mod view;

pub use bypass::Bypass as ViewBypass;
pub use capture::{CaptureSettings, start_capture};
pub use cm::ucma::alike::listener_alike;
pub use cm::ucma::observe::{ids_of_descriptor, set_cm_hook, unread_event};
pub use config::{
    Config, Netdev, Parsed as ParsedConfig, parse as parse_config, read as read_config,
};
pub use device::direct::enable as enable_direct_access;
pub use device::faults::{PacketFacts, PacketFault, PacketHook, set_gids, set_packet_hook};
pub use device::peer_channels::enable as enable_shared_memory;
pub use device::status::{DeviceStatus, QpStatus, status};
pub use provider::{new_device, unread_completions, unread_failure};
pub use shm::Peers as SharedMemoryPeers;
pub use transport::check;
pub use transport::lid::enable as enable_lids;
pub use view::librdmacm::watch as watch_librdmacm;
pub use view::{
    FIRST_UVERBS, install as install_view, read_file as read_view_file, redirect_new_objects,
};

/// Takes the locks that a child of fork needs. The library that embeds uroce calls this in its prepare
/// handler (pthread_atfork(3)).
pub fn before_fork() {
    view::before_fork();
    cm::ucma::before_fork();
    umad::before_fork();
    device::fork::before_fork();
}

/// Releases the locks in the parent and in the child. The child gives up what it has inherited.
///
/// # Safety
/// This thread has called [`before_fork`], and has not called this since.
pub unsafe fn after_fork(is_child: bool) {
    // SAFETY: `before_fork` took the locks of all in this thread, as the caller says.
    unsafe {
        device::fork::after_fork(is_child);
        umad::after_fork(is_child);
        cm::ucma::after_fork(is_child);
        view::after_fork();
    }
    if is_child {
        nofault::handler::after_fork();
    }
}
