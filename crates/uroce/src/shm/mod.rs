//! Messages between processes of one host through shared memory, in place of UDP.
//!
//! [`Channels`] are those of a device. A channel carries the requests and responses of connected queue pairs
//! in fragments (`roce::engine`), and datagrams without ICRC. Where a channel cannot be used, packets take
//! UDP.
//!
//! Not here: which queue pair uses which channel (`device`), what requests and responses mean
//! (`roce::engine`), and WRITE and READ without the target's CPU (`direct`), for which a channel carries the
//! descriptors only.
//!
//! Invariant: what a peer writes is checked as packets of the network are, and is trusted no further. A
//! process shares memory with the processes that [`Peers`] allows, if they allow it too.
//!
//! | file | responsible for |
//! |---|---|
//! | `ring.rs` | records in one direction: one producer, one consumer |
//! | `segment.rs` | the memory of two rings, which both processes map |
//! | `offers.rs` | offering channels to peers, and accepting theirs |
//! | `handshake.rs` | the connection of two processes, and what each checks of the other |
//! | `peer_memory.rs` | the tables of `direct` that both processes share: the peer's, and this process's |
//! | `channel.rs` | two rings and a socket: sending, receiving, blocking, and the end of the peer |

mod channel;
#[cfg(any(test, feature = "internals"))]
pub mod fuzz;
mod handshake;
mod offers;
mod peer_memory;
mod ring;
mod segment;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use rustc_hash::FxHashMap;

pub use channel::{Channel, Ends, Sender, Unlocked};

use crate::direct::Exports;
use crate::epoll::Epoll;
use crate::sync::{Changes, Mutex, RwLock};
use offers::Offers;
use peer_memory::{Connection, PeerMemory};
use roce::engine::{Addresses, Fragment};
use roce::wire::{Flow, Packet};
use segment::Segment;

/// The most channels of a device. Peers beyond that use UDP.
const MAX_CHANNELS: usize = 1024;

/// The processes that this one shares memory with. Both processes must allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// The processes with the same effective user ID.
    SameUser,
    /// The processes of any user that allow it too.
    AnyUser,
}

/// Returns both ends of a flow from this process. None if the flow's source is not an address and port that
/// this process has.
pub type FindEnds<'a> = dyn Fn(&Flow) -> Option<Ends> + 'a;

/// The receiver of packets of channels.
pub trait Receiver {
    /// A datagram, and where it comes from.
    fn packet(&mut self, packet: &Packet<'_>, from: &Addresses);

    /// A fragment to a connected queue pair, and where it comes from.
    fn fragment(&mut self, fragment: &Fragment<'_>, from: &Addresses);
}

/// The channels of a device. Thread-safe.
pub struct Channels {
    epoll: Epoll,
    /// The index of the device's interface.
    ifindex: u32,
    peers: Peers,
    /// The table of memory that peers may access directly; None if they may access none, and this
    /// process does not either.
    exports: Option<Arc<Exports>>,
    table: RwLock<ChannelTable>,
    /// The number of channels.
    count: AtomicUsize,
    /// Changes with each channel that is added or removed. Never 0.
    generation: AtomicU32,
    /// A channel is dead.
    dead: AtomicBool,
    state: Mutex<Offers>,
    /// Answers that peers have given to offers.
    answers: Changes,
    /// The packets that removed channels have sent, and `received` those that they have received.
    sent: AtomicU64,
    received: AtomicU64,
}

type ChannelList = Arc<Vec<Arc<Channel>>>;

/// The channels of a device, as of the last [`Channels::has_packet`]. A thread that has its own looks for
/// packets without a lock, and holds none while it receives: another thread may look a channel up while it
/// has a queue pair locked.
#[derive(Default)]
pub struct SeenChannels {
    /// [`Channels::generation`] at that time; 0 before.
    generation: u32,
    all: ChannelList,
    /// No channel before this one had packets then.
    first: usize,
}

impl SeenChannels {
    /// Lets the next [`SeenChannels::receive`] receive the first packets of channels, too. Returns whether
    /// some wait.
    pub fn take_first_receive(&mut self) -> bool {
        let waits = |channel: &&Arc<Channel>| channel.is_fresh() && channel.has_packet();
        let fresh = self.all.iter().filter(waits);
        fresh.fold(false, |any, channel| any | channel.take_first_receive())
    }

    /// Whether a packet waits in a channel.
    #[inline]
    fn has_packet(&mut self) -> bool {
        // It is looked for once, and then received.
        let is_ready = |channel: &Arc<Channel>| channel.has_packet();
        if self.all.get(self.first).is_some_and(is_ready) {
            return true;
        }
        let first = self.all.iter().position(is_ready);
        self.first = first.unwrap_or(0);
        first.is_some()
    }

    /// Passes packets of all channels to `receiver`, a bounded number of each channel. Not
    /// the first packets of a channel: its peer has sent by UDP before, and those packets are to be received
    /// first.
    #[inline]
    pub fn receive(&mut self, receiver: &mut impl Receiver) -> ReceivedLocally {
        let mut received = ReceivedLocally::default();
        let first = core::mem::take(&mut self.first);
        let ready = |channel: &&Arc<Channel>| channel.has_packet();
        for channel in self.all.iter().skip(first).filter(ready) {
            if channel.is_fresh() {
                received.any_fresh = true;
            } else {
                received.packets += channel.receive(receiver);
            }
        }
        received
    }
}

/// The result of [`SeenChannels::receive`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedLocally {
    /// Packets that it has passed on.
    pub packets: usize,
    /// The first packets of a channel wait for [`SeenChannels::take_first_receive`].
    pub any_fresh: bool,
}

#[derive(Default)]
struct ChannelTable {
    /// Channels to receive from.
    all: ChannelList,
    /// The channel to send to a peer through.
    by_flow: FxHashMap<Flow, Arc<Channel>>,
}

impl Channels {
    /// A device without channels. Fails as epoll_create1(2).
    pub fn new(ifindex: u32, peers: Peers, exports: Option<Arc<Exports>>) -> io::Result<Channels> {
        Ok(Channels {
            epoll: Epoll::new()?,
            ifindex,
            peers,
            exports,
            table: RwLock::default(),
            count: AtomicUsize::new(0),
            generation: AtomicU32::new(1),
            dead: AtomicBool::new(false),
            state: Mutex::default(),
            answers: Changes::default(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        })
    }

    /// An epoll descriptor, readable when [`Channels::serve`] has something to do.
    pub fn fd(&self) -> RawFd {
        self.epoll.fd()
    }

    /// A number that changes whenever [`Channels::find`] may return something else.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Packets sent and received through channels.
    pub fn counts(&self) -> (u64, u64) {
        let table = self.table.read();
        let mut sum = (
            self.sent.load(Ordering::Relaxed),
            self.received.load(Ordering::Relaxed),
        );
        for (sent, received) in table.all.iter().map(|channel| channel.counts()) {
            sum = (sum.0 + sent, sum.1 + received);
        }
        sum
    }

    /// The channel to send to a peer through. None if there is none, or the peer has hung up.
    pub fn find(&self, flow: &Flow) -> Option<Arc<Channel>> {
        let table = self.table.read();
        let found = table.by_flow.get(flow);
        found.filter(|channel| !channel.is_dead()).cloned()
    }

    /// Whether there is a channel to a peer that has not hung up. Asks the kernel: a process that has its
    /// address and port now may be another one.
    fn is_connected(&self, flow: &Flow) -> bool {
        let Some(channel) = self.find(flow) else {
            return false;
        };
        if handshake::has_hung_up(channel.fd()) {
            self.on_hang_up(&channel);
            return false;
        }
        true
    }

    fn on_hang_up(&self, channel: &Channel) {
        channel.set_dead();
        self.unwatch(channel.fd());
        self.dead.store(true, Ordering::Release);
        self.changed();
    }

    /// Adds a channel that both sides have agreed on.
    fn add(
        &self,
        ends: Ends,
        segment: Segment,
        connection: Connection,
        peer_memory: Option<PeerMemory>,
    ) {
        let channel = Channel::new(ends, segment, connection, peer_memory);
        log::info!(
            "uroce: {} port {} to {} port {} through shared memory",
            ends.flow.src,
            ends.flow.src_port,
            ends.flow.dst,
            ends.flow.dst_port
        );
        let channel = Arc::new(channel);
        let mut table = self.table.write();
        self.remove_retired(&mut table);
        let mut all = Vec::clone(&table.all);
        all.push(Arc::clone(&channel));
        table.all = Arc::new(all);
        let used = table.by_flow.entry(ends.flow);
        let used = used.or_insert_with(|| Arc::clone(&channel));
        if used.is_dead() {
            *used = channel;
        }
        self.count.store(table.all.len(), Ordering::Release);
        self.changed();
    }

    fn changed(&self) {
        let old = self.generation.fetch_add(1, Ordering::AcqRel);
        if old == u32::MAX {
            self.generation.store(1, Ordering::Release);
        }
    }

    /// Whether there is any channel.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Brings `seen` up to date. Returns whether a packet waits in one of the channels.
    #[inline]
    pub fn has_packet(&self, seen: &mut SeenChannels) -> bool {
        // In this order: the list may be newer than the number, and is read again then.
        let generation = self.generation();
        if seen.generation != generation {
            *seen = SeenChannels {
                generation,
                all: Arc::clone(&self.table.read().all),
                first: 0,
            };
        }
        seen.has_packet()
    }

    /// Whether a peer has hung up whose channels are still there.
    pub fn has_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Takes a channel whose peer is gone, once all that came by any channel of the peer is received. The
    /// peer has ended, unless it has another channel that it has not hung up. To be called until there is
    /// none. Needs no memory.
    pub fn take_dead(&self) -> Option<Arc<Channel>> {
        if !self.has_dead() {
            return None;
        }
        let mut table = self.table.write();
        let ChannelTable { all, by_flow } = &mut *table;
        let of_peer = |flow: &Flow| {
            let flow = *flow;
            all.iter().filter(move |other| *other.flow() == flow)
        };
        let is_due = |channel: &&Arc<Channel>| {
            channel.is_dead()
                && !channel.is_retired()
                && !of_peer(channel.flow()).any(|other| other.has_packet())
        };
        let Some(channel) = all.iter().find(is_due).cloned() else {
            let is_any_dead = || {
                all.iter()
                    .any(|other| other.is_dead() && !other.is_retired())
            };
            // Another thread may notice a hang-up meanwhile. The swap reads its store, or comes before it.
            if !is_any_dead() && self.dead.swap(false, Ordering::Acquire) && is_any_dead() {
                self.dead.store(true, Ordering::Relaxed);
            }
            self.remove_retired(&mut table);
            drop(table);
            self.forget_gone();
            return None;
        };
        channel.retire();
        let flow = channel.flow();
        if of_peer(flow).all(|other| other.is_dead()) {
            channel.set_ended();
        }
        let mut others = of_peer(flow).filter(|other| !other.is_retired());
        let is_used = |used: &&mut Arc<Channel>| Arc::ptr_eq(used, &channel);
        if let Some(used) = by_flow.get_mut(flow).filter(is_used) {
            match others.next() {
                Some(other) => *used = Arc::clone(other),
                None => drop(by_flow.remove(flow)),
            }
        }
        self.changed();
        Some(channel)
    }

    /// Removes what [`Channels::take_dead`] has taken from the list that threads receive from. Without memory
    /// for another list, they stay there for now.
    fn remove_retired(&self, table: &mut ChannelTable) {
        let is_retired = |channel: &&Arc<Channel>| channel.is_retired();
        let mut kept = Vec::new();
        if !table.all.iter().any(|channel| is_retired(&channel))
            || kept.try_reserve(table.all.len()).is_err()
            || !offers::has_memory()
        {
            return;
        }
        for channel in table.all.iter() {
            if channel.is_retired() {
                let (sent, received) = channel.counts();
                self.sent.fetch_add(sent, Ordering::Relaxed);
                self.received.fetch_add(received, Ordering::Relaxed);
            } else {
                kept.push(Arc::clone(channel));
            }
        }
        table.all = Arc::new(kept);
        self.count.store(table.all.len(), Ordering::Release);
        self.changed();
    }

    /// Lets peers send wakeups with their next packets. Returns whether packets are there already,
    /// or a peer is gone.
    ///
    /// Only one thread may sleep, and only that one reads the wakeups ([`Channels::read_wakeups`]). If
    /// another thread read one before the kernel has run the sleeper, that would sleep on, and the peer would
    /// send no further wakeup.
    pub fn prepare_sleep(&self) -> bool {
        if !self.is_used() {
            return false;
        }
        // Fragments that the peer had sent are received first; its queue pairs fail then.
        if self.has_dead() {
            return true;
        }
        let table = self.table.read();
        let news = |any: bool, channel: &Arc<Channel>| any | channel.prepare_sleep();
        table.all.iter().fold(false, news)
    }

    /// Reverts [`Channels::prepare_sleep`].
    pub fn end_sleep(&self) {
        if self.is_used() {
            let table = self.table.read();
            table.all.iter().for_each(|channel| channel.end_sleep());
        }
    }

    /// Lets all peers see that this process has closed the device.
    pub fn close(&self) {
        let table = self.table.read();
        table.all.iter().for_each(|channel| channel.hang_up());
    }
}
