//! The device of a process: one per name, shared by all contexts of that name.
//!
//! Not here: the objects that C sees (`provider`), packets and sockets (`transport`), the transport
//! protocol (`engine`).
//!
//! Lock order: an inbox; a queue pair; its send turn; then those of a completion queue, a shared receive
//! queue, an XRC domain, the memory table, the timers and an event queue.
//!
//! [`Device`] makes its queue pairs progress: it receives packets, sends what queue pairs have to send, and
//! runs their timers, in threads of the program and in one of its own. Methods of it are in these files:
//!
//! | file | responsible for |
//! |---|---|
//! | `open.rs`, `exit.rs` | opening and closing the device; what is sent at the end of the process |
//! | `progress.rs`, `background.rs` | who receives, sends and runs timers: pollers, the background thread |
//! | `receiving.rs` | a batch of packets, and the queue pairs that each is for |
//! | `sending.rs`, `channel_sending.rs` | sending by UDP, in PSN order; sending through shared memory |
//! | `packet_hooks.rs`, `faults.rs` | recording; packets that are lost or delayed on purpose |
//! | `gsi.rs`, `multicast.rs` | queue pair 1: management datagrams; multicast groups |
//! | `counters.rs`, `status.rs` | counters, as kernel devices name them; a snapshot for the control socket |
//!
//! It consists of these parts, each a type with private fields that is thread-safe by itself:
//!
//! | file | responsible for |
//! |---|---|
//! | `qp_table.rs` | the queue pairs that packets reach |
//! | `inboxes.rs`, `qp_cache.rs` | a thread receives while it holds one; queue pairs of earlier packets |
//! | `receive_order.rs` | whether several threads may receive |
//! | `outboxes.rs` | where a thread collects packets to send |
//! | `timers.rs` | when each queue pair's timer is due |
//! | `activity.rs`, `busy_poll.rs` | what pollers and the background thread share; when the latter sleeps |
//! | `deferred.rs`, `unreachable.rs` | queue pairs that send later; queue pairs whose peer has ended |
//! | `peer_channels.rs` | channels of shared memory, and which of them a queue pair takes |
//! | `direct.rs` | WRITE and READ on one host without the target's CPU |
//! | `events.rs`, `handles.rs`, `moderation.rs` | events of the program; what they name; which may wait |
//! | `command_file.rs` | the command descriptors of contexts |
//!
//! Objects that the program creates, as packets need them:
//!
//! | file | responsible for |
//! |---|---|
//! | `queue_pair.rs`, `qp_channel.rs`, `missed.rs` | a queue pair, its channel, the packets it has missed |
//! | `qp_hca.rs` | the device as a queue pair's engine sees it: memory, receives, completions, events |
//! | `completion.rs`, `polled.rs` | completion queues; completions for a program that is polling |
//! | `completion_counter.rs` | completion counters, and those attached to a queue pair |
//! | `shared_queue.rs`, `xrc.rs` | shared receive queues, XRC domains |
//!
//! Below them:
//!
//! | file | responsible for |
//! |---|---|
//! | `clock.rs`, `wait.rs` | the time; blocking and waking up |
//! | `lock_holder.rs`, `pending.rs` | a lock whose holder is preempted; a list for a later thread |
//! | `open_devices.rs`, `fork.rs` | the devices that the process has open; what a fork does |
//!
//! Calls: `provider`, `cm` and `umad` call the device, and `provider` the objects. The device calls its parts
//! and the objects, and passes a part what that needs of the others. A part calls objects, never the device.
//! An object calls neither, but for a completion queue whose events wait: it adds a timer
//! (`Device::add_moderation_timer`). The engine of a queue pair calls `qp_hca.rs` only. The device calls `cm`
//! and `umad` only through the handlers that these register in `gsi.rs`.

mod activity;
mod background;
mod busy_poll;
mod channel_sending;
pub mod clock;
pub mod command_file;
pub mod completion;
pub mod completion_counter;
pub mod counters;
mod deferred;
pub mod direct;
pub mod events;
pub mod exit;
pub mod faults;
pub mod fork;
pub mod gsi;
pub mod handles;
mod inboxes;
mod lock_holder;
mod missed;
mod moderation;
mod multicast;
mod open;
mod open_devices;
mod outboxes;
mod packet_hooks;
pub mod peer_channels;
mod pending;
pub mod polled;
mod progress;
mod qp_cache;
mod qp_channel;
mod qp_hca;
mod qp_table;
pub mod queue_pair;
mod receive_order;
mod receiving;
mod sending;
pub mod shared_queue;
pub mod status;
mod timers;
mod unreachable;
mod wait;
pub mod xrc;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;

use ibverbs_abi::*;

use crate::config::Config;
use crate::memory::{Busy, Memory, Reregistration};
use crate::process;
use crate::profile::Profile;
use crate::sync::Mutex;
use crate::transport::{self, Net, NetChange};
use activity::Activity;
use command_file::CommandFiles;
use completion::{CompletionQueue, Moderation};
use deferred::DeferredSends;
use direct::DirectAccess;
use events::OpenQueues;
use handles::ObjectCounts;
use inboxes::Inboxes;
use moderation::ModeratedQueues;
use multicast::MulticastGroups;
use outboxes::Outboxes;
use packet_hooks::PacketHooks;
use peer_channels::PeerChannels;
use qp_table::QpTable;
use queue_pair::QueuePair;
use roce::engine::Time;
use shared_queue::SrqNumbers;
use timers::Timers;
use unreachable::UnreachableQps;
use wait::Waker;
use xrc::NamedDomains;

/// A device that this process has open. Thread-safe.
pub struct Device {
    /// As in [`Config::name`].
    pub name: String,
    /// The profile: the device's identity, its limits and its services.
    pub profile: Profile,
    /// As [`transport::node_guid`], when the device was opened.
    pub node_guid: [u8; 8],
    /// The number of completion vectors: that of the profile, or one per CPU that this process may use when
    /// it opens the device. A thread that confines itself to some of the CPUs later can still name each
    /// vector.
    pub completion_vectors: u32,
    /// Sockets, GID table, port state, queue pair numbers.
    pub net: Net,
    /// Channels to processes of this host; None if they are switched off.
    channels: Option<PeerChannels>,
    /// Faults and recording of packets; None if there are none.
    hooks: Option<PacketHooks>,
    /// The memory that peers of this host may access directly.
    direct: DirectAccess,
    /// Memory regions and windows.
    pub memory: Arc<Memory>,
    /// The XRC domains that a file names.
    pub xrc_domains: Mutex<NamedDomains>,
    queue_pairs: QpTable,
    /// The multicast groups, with the queue pairs that are attached to each.
    pub multicast_groups: MulticastGroups,
    /// The event queues of open contexts and completion channels.
    pub events: OpenQueues,
    /// The command file of each open context.
    pub command_files: CommandFiles,
    /// The numbers of the shared receive queues.
    pub srq_numbers: SrqNumbers,
    next_handle: AtomicU32,
    /// How often the port has lost its link.
    link_downed: AtomicU64,
    /// How many objects of each kind the process has.
    pub objects: Arc<ObjectCounts>,
    /// [`process::generation`] when the device was opened.
    generation: u32,
    timers: Timers,
    /// Completion queues whose events may wait.
    moderated: ModeratedQueues,
    /// Queue pairs that have something to send, which was deferred.
    deferred_sends: DeferredSends,
    /// Queue pairs whose peer is gone, which fail once the program has read their completions.
    unreachable: UnreachableQps,
    outboxes: Outboxes,
    /// Held by the thread that receives.
    inboxes: Inboxes,
    activity: Activity,
    /// Wakes the background thread up.
    waker: Arc<Waker>,
}

impl Device {
    fn new(config: &Config) -> io::Result<Device> {
        let net = Net::open(config)?;
        let hooks = PacketHooks::open(&net);
        let memory = Arc::<Memory>::default();
        let waker = Arc::new(Waker::new()?);
        let (channels, exports) = PeerChannels::open(&net, hooks.is_some())?;
        if let Some(exports) = &exports {
            memory.set_exports(Arc::clone(exports));
        }
        Ok(Device {
            name: config.name.clone(),
            node_guid: transport::node_guid(config),
            completion_vectors: match config.profile.limits.num_comp_vectors {
                0 => std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
                vectors => vectors,
            },
            profile: config.profile,
            channels,
            direct: DirectAccess::new(exports),
            hooks,
            net,
            memory,
            xrc_domains: Mutex::default(),
            queue_pairs: QpTable::default(),
            multicast_groups: MulticastGroups::default(),
            events: OpenQueues::new(waker.clone()),
            command_files: CommandFiles::default(),
            srq_numbers: SrqNumbers::default(),
            next_handle: AtomicU32::new(1),
            link_downed: AtomicU64::new(0),
            objects: Arc::default(),
            generation: process::generation(),
            timers: Timers::new(),
            moderated: ModeratedQueues::default(),
            deferred_sends: DeferredSends::default(),
            unreachable: UnreachableQps::default(),
            outboxes: Outboxes::try_new().ok_or(io::ErrorKind::OutOfMemory)?,
            inboxes: Inboxes::try_new().ok_or(io::ErrorKind::OutOfMemory)?,
            activity: Activity::new(),
            waker,
        })
    }

    /// Ends the background thread, and lets go of the objects that the program has not destroyed.
    fn end(&self, background_thread: JoinHandle<()>) {
        self.activity.stop();
        self.waker.wake();
        let _ = background_thread.join();
        self.send_deferred_at_exit();
        if let Some(channels) = &self.channels {
            channels.close();
        }
        self.log_counters();
        // Queue pairs that the program has not destroyed hold references to the device's objects.
        self.queue_pairs.clear();
        self.deferred_sends.clear();
        self.unreachable.clear();
        self.multicast_groups.clear();
    }

    /// A number for a new protection domain, unique within the device until 2^32 have been created.
    pub fn alloc_handle(&self) -> u32 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    /// Lets packets reach the queue pair from now on.
    pub fn add_queue_pair(&self, qp: Arc<QueuePair>) {
        let count = self.queue_pairs.insert(qp);
        // Space for a deadline of each, so that a timer can be armed without memory: see `add_timer`.
        self.timers.reserve(2 * count);
    }

    /// Removes a queue pair. Sends what was deferred for it, unbinds its type 2 memory windows and frees
    /// its number. Once this returns, no thread runs it: neither its memory nor its completion queues are
    /// touched, whatever was looked up or waited for it before.
    pub fn remove_queue_pair(&self, qp: &QueuePair) {
        self.queue_pairs.remove(qp, || self.inboxes.forget(qp));
        self.end_qp(qp);
        self.queue_pairs.add_counters_of(qp);
        if qp.has_bound_mws.load(Ordering::Relaxed) {
            self.memory.unbind_all_of(qp.qpn);
        }
        self.net.free_qpn(qp.qpn);
    }

    /// Changes a memory region, which keeps its key. Once this returns, the old one is not accessed any more.
    /// Fails while windows are bound to it.
    pub fn reregister(&self, key: u32, change: &Reregistration) -> Result<(), Busy> {
        self.memory
            .reregister(key, change)
            .map(|cached_by| self.queue_pairs.wait_for(cached_by))
    }

    /// Removes a memory region. Once this returns, it is not accessed any more. Fails while windows are bound
    /// to it.
    pub fn deregister(&self, key: u32) -> Result<(), Busy> {
        self.memory
            .deregister(key)
            .map(|cached_by| self.queue_pairs.wait_for(cached_by))
    }

    /// [`Device::deregister`] that unbinds the region's windows instead of failing.
    pub fn unbind_and_deregister(&self, key: u32) {
        let cached_by = self.memory.unbind_and_deregister(key);
        self.queue_pairs.wait_for(cached_by);
    }

    /// Lets the events of a completion queue of this device wait for completions.
    pub fn moderate(self: &Arc<Device>, queue: &Arc<CompletionQueue>, moderation: Moderation) {
        self.moderated.add(queue);
        queue.moderate(moderation, self);
    }

    /// An event waits until this time.
    fn add_moderation_timer(&self, at: Time) {
        self.add_timer(at, faults::TIMER_QPN);
        self.wake_before(at);
    }

    /// The queue pair of this number.
    pub fn queue_pair(&self, qpn: u32) -> Option<Arc<QueuePair>> {
        self.queue_pairs.get(qpn)
    }

    /// Follows changes of the interface, counts them, and raises GID_CHANGE, PORT_ACTIVE and PORT_ERR for
    /// them in every context.
    fn apply_interface_changes(&self) {
        self.report_change(self.net.changes());
    }

    fn report_change(&self, change: NetChange) {
        if change != NetChange::default() {
            gsi::interface_changed();
        }
        let downed = u64::from(change.became_inactive);
        self.link_downed.fetch_add(downed, Ordering::Relaxed);
        for (happened, event_type) in [
            (change.gids, IBV_EVENT_GID_CHANGE),
            (change.became_active, IBV_EVENT_PORT_ACTIVE),
            (change.became_inactive, IBV_EVENT_PORT_ERR),
        ] {
            if happened {
                self.events.raise_port_event(event_type);
            }
        }
    }
}

#[cfg(test)]
pub mod tests;
