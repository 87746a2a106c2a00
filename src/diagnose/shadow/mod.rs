//! The state of the program's objects, by their addresses, from the calls that it made.
//!
//! Responsible for the state, not for its interpretation: that is `check`. The files beside this one change
//! the state, one kind of call each, and return what `check` found.
//!
//! Invariants: the lock around [`Shadow`] is never held across a call of a provider. Objects that providers
//! create by verbs of their own (mlx5dv and the like) are not known here: a lookup may find nothing.

mod building;
mod completion;
mod device_memory;
mod elsewhere;
mod failure;
mod hazards;
mod modify;
mod names;
mod notify;
mod objects;
mod overlap;
mod post;
mod quiet;
mod receives;
mod refused;
mod request;
mod requests;
mod sleeping;
#[cfg(test)]
pub(super) mod tests;
mod waiting;
mod windows;

use core::ops::Deref;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use ibverbs_abi::ibv_qp_state;

use super::calls::{BuildOps, PollOps};
use super::cm::CmIds;
use super::facts;
use super::finding::{Finding, Kind, Object};
use super::peer::Evidence;
use super::report::{self, Reported};
use super::watch::Awaited;
use crate::memory::lock::ForkLock;

pub use completion::Completion;
pub use device_memory::{DeviceMemories, DeviceMemory};
pub use modify::Change;
pub use names::{Named, Names};
pub use objects::NewQp;
pub use post::Posted;
pub use receives::ReceiveQueue;
pub use request::{Receive, Receives, Remote, Requests, SendRequest, Sge, Sges};
pub use waiting::{IN_THIS_PROCESS, Waiting, limit as wait_limit, set_limit};

/// More outstanding requests of a queue than this are not recorded: their completions are not seen, because
/// the program polls by a provider's own functions.
const MAX_RECORDED: usize = 1 << 16;
/// How many deregistered regions are remembered.
const MAX_DEREGISTERED: usize = 1024;

/// A protection domain.
#[derive(Clone, Copy, Debug)]
pub struct Pd {
    pub context: usize,
    /// The domain that a parent domain was made from; 0 for other domains.
    pub parent: usize,
    /// The domain is a parent domain with a thread domain: the program promises that one thread at
    /// a time uses it.
    pub single_threaded: bool,
    /// The domain has memory windows, or had some: their keys are not known here.
    pub had_windows: bool,
}

/// A memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mr {
    pub context: usize,
    pub pd: usize,
    /// The I/O virtual address, which requests use.
    pub start: u64,
    pub length: u64,
    pub lkey: u32,
    pub rkey: u32,
    pub access: u32,
    /// The thread on whose stack it is, or 0.
    pub stack_of: i32,
    /// The region is memory of the process, at its own addresses.
    pub is_memory: bool,
}

/// A completion queue.
#[derive(Clone, Debug, Default)]
pub struct Cq {
    pub context: usize,
    pub entries: u32,
    pub channel: usize,
    /// Descriptor of the channel, or -1.
    pub channel_fd: i32,
    pub single_threaded: bool,
    /// The most requests that all queue pairs which send on it can have outstanding.
    pub sends_at_most: u64,
    /// How often it was polled.
    pub polls: u64,
    pub armed: u64,
    pub events: u64,
    pub async_events: u64,
    pub notify: Notify,
    /// The completions that cause the next event.
    pub is_armed: Armed,
    pub last_poll: Option<Instant>,
    /// The thread that is polling, or 0; only of single-threaded queues.
    pub thread: i32,
    /// The thread that is between ibv_start_poll and ibv_end_poll, or 0.
    pub open_by: i32,
    pub waiting: Waiting,
}

/// The completion that causes the next event of a CQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Armed {
    #[default]
    No,
    Solicited,
    Any,
}

/// The history of a CQ since its last event, in the order that matters for lost events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notify {
    /// An event was received before.
    pub had_event: bool,
    /// The last poll returned this many completions, of as many as were asked for.
    pub last_poll: Option<(u32, u32)>,
    /// The CQ was armed after `last_poll`, and not polled since.
    pub armed_after_poll: bool,
    /// Receives or signaled requests were outstanding when it was armed, so a completion could be missed.
    pub at_risk: bool,
    /// A request was posted since it was armed, whose completion causes the event.
    pub posted_since: bool,
}

/// The first error of a queue pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstError {
    pub wr_id: u64,
    pub operation: &'static str,
    pub status: u32,
}

/// The connection of a queue pair, as ibv_modify_qp has set it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    pub sgid_index: u8,
    pub sgid: [u8; 16],
    pub dgid: [u8; 16],
    pub dest_qpn: u32,
    /// In bytes.
    pub mtu: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub min_rnr_timer: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    /// The queue pair is in RTR or later, so the members for receiving are set.
    pub receives: bool,
    /// The queue pair has been in RTS, so the members for sending are set.
    pub sends: bool,
    /// The GID index is of type RoCE v1, and this other has the same address with v2.
    pub better_index: Option<u32>,
}

/// A queue pair. It derefs to what it was created with, which does not change.
#[derive(Clone)]
pub struct Qp {
    created: NewQp,
    pub single_threaded: bool,
    pub state: ibv_qp_state,
    pub access: u32,
    /// The active MTU of its port in bytes; 0 if it is not known.
    pub port_mtu: u32,
    pub connection: Connection,
    pub sends: VecDeque<SendRequest>,
    pub receives: ReceiveQueue,
    /// Requests of ibv_wr_* functions between ibv_wr_start and ibv_wr_complete.
    pub building: Vec<SendRequest>,
    /// The thread that is between these two calls, or 0.
    pub built_by: i32,
    /// Binds of them: the window, its key when they are posted, what it is bound to.
    pub binds: Vec<(usize, u32, windows::Binding)>,
    /// Requests that were posted, and those of them that consume a receive of the peer.
    pub sends_posted: u64,
    pub sends_consuming: u64,
    /// A request that was posted is signaled.
    pub ever_signaled: bool,
    /// The destination of the last datagram: the queue pair, and the address handle.
    pub last_remote_qpn: u32,
    pub last_ah: usize,
    /// The multicast groups that it is attached to.
    pub groups: Vec<[u8; 16]>,
    /// The digest of the first message that consumes a receive, and whether a later one differs.
    pub first_message: u64,
    pub messages_vary: bool,
    /// Two receives of one buffer, which matter if the messages vary.
    pub same_buffer: Option<Finding>,
    /// Completions without error, which show that the peer has answered.
    pub answered: u64,
    pub first_error: Option<FirstError>,
    /// The facts about both ends, from when a request had failed, or the program waited too long.
    pub evidence: Evidence,
    pub async_events: u64,
    /// rdma_create_qp has created it.
    pub is_of_cm: bool,
    /// The program has called rdma_disconnect for its id.
    pub is_disconnected: bool,
    /// The queue pair was reset after it had sent to a peer in this process, and has posted nothing since.
    pub reconnects: bool,
    /// The peer in this process was reset after it had sent, and this one was not.
    pub peer_was_reset: bool,
    /// The number of requests of the process when it was connected, and with its last one.
    pub connected_at: u64,
    pub last_posted: u64,
    /// The serial number of requests when its first error was polled.
    pub error_serial: u64,
    /// The state that the program has set last when nothing could complete from then on, and the requests and
    /// receives that were outstanding.
    pub ended: Option<(ibv_qp_state, usize, usize)>,
    /// The thread that is posting a send, or building one, or 0; only of single-threaded queue pairs.
    pub thread: i32,
}

impl Deref for Qp {
    type Target = NewQp;

    fn deref(&self) -> &NewQp {
        &self.created
    }
}

/// A shared receive queue.
#[derive(Clone, Debug, Default)]
pub struct Srq {
    pub context: usize,
    pub pd: usize,
    pub max: u32,
    pub max_sge: u32,
    pub receives: ReceiveQueue,
    /// The limit that is armed; 0 if none is.
    pub limit: u32,
    pub async_events: u64,
}

/// An open device.
#[derive(Clone, Debug, Default)]
pub struct Context {
    pub device: String,
    /// The process that opened it.
    pub pid: u32,
    /// The descriptor of its asynchronous events.
    pub async_fd: i32,
    /// The name of the device's driver.
    pub driver: String,
}

/// The shadow: all that is known of the objects of the process.
pub struct Shadow {
    pub contexts: BTreeMap<usize, Context>,
    /// The devices that a device list has had, by their addresses, and how many lists have them now.
    pub lists_of: BTreeMap<usize, usize>,
    /// The process that has opened all of them; 0 if it was not one.
    opened_by: u32,
    pub pds: BTreeMap<usize, Pd>,
    pub mrs: BTreeMap<usize, Mr>,
    /// A region was on the stack of a thread.
    had_stack_regions: bool,
    pub deregistered: VecDeque<Mr>,
    pub cqs: BTreeMap<usize, Cq>,
    pub qps: BTreeMap<usize, Qp>,
    pub srqs: BTreeMap<usize, Srq>,
    /// The PD of each address handle and of each memory window.
    pub ahs: BTreeMap<usize, usize>,
    pub mws: BTreeMap<usize, usize>,
    pub device_memories: DeviceMemories,
    /// The windows that have been bound.
    windows: BTreeMap<usize, windows::Window>,
    /// The keys of windows that are gone, with their contexts, the latest last.
    gone_windows: VecDeque<(usize, u32)>,
    /// The destinations of address handles that are multicast groups.
    pub group_ahs: BTreeMap<usize, [u8; 16]>,
    /// Queue pairs by context and number.
    numbers: BTreeMap<(usize, u32), usize>,
    /// Devices and numbers of queue pairs that were destroyed, the latest last.
    gone_qps: VecDeque<(String, u32)>,
    gone: BTreeSet<(Kind, usize)>,
    /// The objects in `gone` whose device was closed.
    closed: BTreeSet<(Kind, usize)>,
    /// The identifiers of librdmacm.
    pub cm_ids: CmIds,
    /// Where objects were created, by their addresses, if that is asked for.
    created: BTreeMap<usize, String>,
    /// The object that was destroyed last, whose place is still known.
    destroyed_last: Option<usize>,
    serial: u64,
    pub names: Names,
    pub reported: Reported,
    /// The provider's functions of extended queue pairs and CQs.
    pub build_ops: BTreeMap<usize, BuildOps>,
    pub poll_ops: BTreeMap<usize, PollOps>,
}

impl Shadow {
    pub const fn new() -> Shadow {
        Shadow {
            contexts: BTreeMap::new(),
            lists_of: BTreeMap::new(),
            opened_by: 0,
            pds: BTreeMap::new(),
            mrs: BTreeMap::new(),
            had_stack_regions: false,
            deregistered: VecDeque::new(),
            cqs: BTreeMap::new(),
            qps: BTreeMap::new(),
            srqs: BTreeMap::new(),
            ahs: BTreeMap::new(),
            mws: BTreeMap::new(),
            device_memories: DeviceMemories::new(),
            windows: BTreeMap::new(),
            gone_windows: VecDeque::new(),
            group_ahs: BTreeMap::new(),
            numbers: BTreeMap::new(),
            gone_qps: VecDeque::new(),
            gone: BTreeSet::new(),
            closed: BTreeSet::new(),
            cm_ids: CmIds::new(),
            created: BTreeMap::new(),
            destroyed_last: None,
            serial: 0,
            names: Names::new(),
            reported: Reported::new(),
            build_ops: BTreeMap::new(),
            poll_ops: BTreeMap::new(),
        }
    }

    /// The queue pair as an object of messages.
    pub fn qp_object(&self, address: usize) -> Object {
        match self.qps.get(&address) {
            Some(qp) => Object::qp(address, qp.number),
            None => Object::at(Kind::Qp, address),
        }
    }

    /// The queue pair at the other end, if it is in this process: it has the number that this one names,
    /// and the source GID that is this one's destination, or is on the same device if the destination is
    /// this queue pair's own address.
    pub fn peer(&self, address: usize) -> Option<(usize, &Qp)> {
        let qp = self.qps.get(&address)?;
        let connection = &qp.connection;
        if !connection.receives {
            return None;
        }
        let loops_back = connection.sgid == connection.dgid;
        let is_peer = |at: usize, peer: &Qp| {
            peer.number == connection.dest_qpn
                && (at != address || qp.number == connection.dest_qpn)
                && if peer.connection.receives {
                    peer.connection.sgid == connection.dgid
                } else {
                    loops_back && self.same_device(peer.context, qp.context)
                }
        };
        self.qps
            .iter()
            .map(|(at, peer)| (*at, peer))
            .find(|(at, peer)| is_peer(*at, peer))
    }

    /// The name of the driver of a context's device.
    pub fn driver_of(&self, context: usize) -> &str {
        let opened = self.contexts.get(&context);
        opened.map_or("", |opened| &opened.driver)
    }

    fn same_device(&self, a: usize, b: usize) -> bool {
        let device = |context| self.contexts.get(&context).map(|context| &context.device);
        device(a) == device(b)
    }

    /// The name of a context's device.
    pub fn device_of(&self, context: usize) -> String {
        let opened = self.contexts.get(&context);
        opened.map_or_else(String::new, |opened| opened.device.clone())
    }

    /// The descriptors on which a thread may sleep, what for, and a number that changes whenever something
    /// happens to that.
    pub fn awaited(&self) -> BTreeMap<i32, (Awaited, u64)> {
        let mut all = BTreeMap::new();
        for (at, context) in &self.contexts {
            if context.async_fd >= 0 && context.pid == facts::pid() {
                all.insert(context.async_fd, (Awaited::Async(*at), 0));
            }
        }
        for cq in self.cqs.values().filter(|cq| cq.channel_fd >= 0) {
            let what = (Awaited::Channel(cq.channel), self.serial);
            let (_, activity) = all.entry(cq.channel_fd).or_insert(what);
            *activity += cq.polls + cq.events + cq.armed;
        }
        all
    }

    /// Counts signaled requests and receives outstanding on a CQ.
    pub fn outstanding_on(&self, cq: usize) -> (usize, usize) {
        let mut counts = (0, 0);
        for qp in self.qps.values() {
            if qp.send_cq == cq {
                counts.0 += qp.sends.iter().filter(|request| request.signaled).count();
            }
            if qp.recv_cq == cq {
                counts.1 += qp.receives.list.len();
            }
        }
        counts
    }
}

/// Something has to be known before a poll: a CQ is for one thread, or this is a child of fork.
static POLLS_ARE_WATCHED: AtomicBool = AtomicBool::new(false);

/// Whether [`Shadow::polling`] has to be called before a poll.
pub fn polls_are_watched() -> bool {
    POLLS_ARE_WATCHED.load(Ordering::Relaxed)
}

/// From now on it has to.
fn watch_polls() {
    POLLS_ARE_WATCHED.store(true, Ordering::Relaxed);
}

static SHADOW: ForkLock<Shadow> = ForkLock::new(Shadow::new());

/// Runs `work` with the state, and writes what it found. Does nothing in a signal handler that interrupted
/// this thread in here.
pub fn observe(work: impl FnOnce(&mut Shadow) -> Vec<Finding>) {
    let admitted = SHADOW.with(|shadow| {
        let found = work(shadow);
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
        finding.created = shadow.created.get(&finding.object.address).cloned();
    }
    found.retain(|finding| report::is_wanted(finding) && shadow.reported.admit(finding));
    found
}

/// Runs `work` with the state. None in a signal handler that interrupted this thread in here.
pub fn with<R>(work: impl FnOnce(&mut Shadow) -> R) -> Option<R> {
    SHADOW.with(work)
}

/// Before a fork, in the parent.
pub extern "C" fn before_fork() {
    SHADOW.prepare_fork(|_| ());
}

/// After a fork, in the parent.
pub extern "C" fn after_fork_in_parent() {
    SHADOW.after_fork();
}

/// The counts, when the program exits or the library is unloaded.
pub fn write_summary() {
    if let Some(reported) = SHADOW.with(|shadow| shadow.reported.take()) {
        report::write_summary(&reported);
    }
}

/// After a fork, in the child, which reports what it does itself.
pub extern "C" fn after_fork_in_child() {
    facts::after_fork_in_child();
    watch_polls();
    SHADOW.after_fork();
    SHADOW.with(|shadow| shadow.reported.take());
}
