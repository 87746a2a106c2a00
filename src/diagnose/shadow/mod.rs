//! The state of the program's objects, by their addresses, from the calls that it made.
//!
//! Responsible for the state, and for the findings that depend on it. Not here: conditions of arguments and
//! facts alone (`check`). [`Shadow`] holds the types that own a part of the state each; these know nothing of
//! each other, but for what the table says. Above them are the kinds of calls, which change or judge several
//! parts.
//!
//! | part | file | uses |
//! |---|---|---|
//! | devices, their lists and contexts | `devices.rs` | |
//! | protection domains | `domains.rs` | |
//! | memory regions | `regions.rs` | |
//! | memory windows, their keys | `windows.rs` | regions |
//! | address handles | `handles.rs` | |
//! | device memory, the regions in it | `device_memory.rs` | |
//! | CQs: polls, arming, waits | `cq.rs`, the threads that poll one: `pollers.rs` | |
//! | queue pairs, numbers, peers | `qps.rs`, each: `qp.rs` | devices |
//! | a queue pair's requests, receives | `sends.rs`, `receives.rs`, `building.rs` | |
//! | SRQs | `srq.rs` | receives |
//! | destroyed objects, places of creation, names | `gone.rs`, `places.rs`, `names.rs` | |
//!
//! | calls | files |
//! |---|---|
//! | create, destroy, close | `objects.rs` |
//! | modify a queue pair | `modify.rs` |
//! | post | `post.rs`, `requests.rs`, `data_order.rs`, `post_receives.rs` |
//! | poll | `completion.rs`; errors: `failure.rs`, `refused.rs`; data: `hazards.rs` |
//! | receive events | `notify.rs` |
//! | wait | `wait.rs`: `waiting.rs`, `quiet.rs`, `sleeping.rs` |
//!
//! Invariants: the lock around [`Shadow`] is never held across a call of a provider. Objects that providers
//! create by verbs of their own (mlx5dv and the like) are not known here: a lookup may find nothing.

mod building;
mod cm_ids;
mod completion;
mod connection;
mod cq;
mod data_order;
mod describe;
mod device_memory;
mod devices;
mod domains;
mod failure;
mod gone;
mod handles;
mod hazards;
mod limit;
mod modify;
mod names;
mod notify;
mod objects;
mod overlap;
mod places;
mod pollers;
mod post;
mod post_receives;
mod qp;
mod qps;
mod quiet;
mod receives;
mod refused;
mod regions;
mod registry;
mod request;
mod requests;
mod sends;
mod sleeping;
mod srq;
#[cfg(test)]
pub(super) mod tests;
mod wait;
mod waiting;
mod windows;

use core::sync::atomic::{AtomicBool, Ordering};

use super::facts;
use super::finding::Finding;
use super::report::{self, Reported};
use crate::memory::lock::ForkLock;

pub use super::mr::Mr;
pub use super::sge::Sge;
pub use cm_ids::CmIds;
pub use cq::Cq;
pub use describe::IN_THIS_PROCESS;
pub use device_memory::{CopyOps, DeviceMemories, DeviceMemory};
pub use domains::Pd;
pub use limit::{limit as wait_limit, set_limit};
pub use modify::Change;
pub use names::{Named, Names};
pub use post::Posted;
pub use qp::{NewQp, Qp};
pub use registry::Registry;
pub use request::{Completion, Receive, Receives, Remote, Requests, SendRequest, Sges};
pub use sleeping::Awaited;
pub use srq::Srq;

use devices::Devices;
use gone::Gone;
use handles::Handles;
use places::Places;
use qps::Qps;
use regions::Regions;
use windows::Windows;

/// The shadow: all that is known of the objects of the process.
pub struct Shadow {
    pub devices: Devices,
    pub pds: Registry<Pd>,
    pub mrs: Regions,
    pub mws: Windows,
    pub ahs: Handles,
    pub device_memories: DeviceMemories,
    pub cqs: Registry<Cq>,
    pub qps: Qps,
    pub srqs: Registry<Srq>,
    /// The identifiers of librdmacm.
    pub cm_ids: CmIds,
    pub names: Names,
    pub gone: Gone,
    pub places: Places,
    pub reported: Reported,
}

impl Shadow {
    pub const fn new() -> Shadow {
        Shadow {
            devices: Devices::new(),
            pds: Registry::new(),
            mrs: Regions::new(),
            mws: Windows::new(),
            ahs: Handles::new(),
            device_memories: DeviceMemories::new(),
            cqs: Registry::new(),
            qps: Qps::new(),
            srqs: Registry::new(),
            cm_ids: CmIds::new(),
            names: Names::new(),
            gone: Gone::new(),
            places: Places::new(),
            reported: Reported::new(),
        }
    }

    /// The queue pair at the other end of one, if it is in this process.
    pub fn peer(&self, qp: &Qp) -> Option<&Qp> {
        self.qps.peer(qp, &self.devices)
    }
}

/// Something has to be known before a poll: a CQ is for one thread, or this is a child of fork.
static POLLS_ARE_WATCHED: AtomicBool = AtomicBool::new(false);

/// Whether `polling` of the CQs has to be called before a poll.
pub fn polls_are_watched() -> bool {
    POLLS_ARE_WATCHED.load(Ordering::Relaxed)
}

/// From now on, [`polls_are_watched`] returns true.
fn watch_polls() {
    POLLS_ARE_WATCHED.store(true, Ordering::Relaxed);
}

static SHADOW: ForkLock<Shadow> = ForkLock::new(Shadow::new());

/// Runs `work` with the state, and writes what it found. Does nothing in a signal handler that interrupted
/// this thread in here.
pub fn observe<F: IntoIterator<Item = Finding>>(work: impl FnOnce(&mut Shadow) -> F) {
    let admitted = SHADOW.with(|shadow| {
        let found = Vec::from_iter(work(shadow));
        match found.is_empty() {
            true => found,
            false => admitted(shadow, found),
        }
    });
    match admitted {
        Some(found) if !found.is_empty() => report::write(&found),
        _ => {}
    }
}

/// The findings that are to be written, with what is known of their objects.
#[cold]
fn admitted(shadow: &mut Shadow, mut found: Vec<Finding>) -> Vec<Finding> {
    report::count_one();
    for finding in &mut found {
        finding.name = shadow.names.of(&finding.object).map(String::from);
        finding.created = shadow.places.get(finding.object.address).cloned();
    }
    found.retain(|finding| report::is_wanted(finding) && shadow.reported.admit(finding));
    found
}

/// Runs `work` with the state. None in a signal handler that interrupted this thread in here.
pub fn with<R>(work: impl FnOnce(&mut Shadow) -> R) -> Option<R> {
    SHADOW.with(work)
}

/// Before a fork, in the parent.
pub fn before_fork() {
    SHADOW.prepare_fork(|_| ());
}

/// After a fork, in the parent.
pub fn after_fork_in_parent() {
    SHADOW.after_fork();
}

/// The counts, when the program exits or the library is unloaded.
pub fn write_summary() {
    if let Some(reported) = SHADOW.with(|shadow| shadow.reported.take()) {
        report::write_summary(&reported);
    }
}

/// After a fork, in the child, which reports what it does itself.
pub fn after_fork_in_child() {
    facts::after_fork_in_child();
    watch_polls();
    SHADOW.after_fork();
    SHADOW.with(|shadow| shadow.reported.take());
}
