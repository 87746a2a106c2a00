//! Packets between processes of one host through shared memory, in place of UDP.
//!
//! [`Paths`] has the channels of a device. A channel carries the same packets as UDP, less the ICRC, so a
//! packet may take either way, and the protocol of the queue pairs (`engine`) does not know which it
//! took. Where a channel cannot be used, packets take UDP. The device decides which queue pair uses which
//! channel.
//!
//! | file | responsible for |
//! |---|---|
//! | `ring.rs` | packets in one direction: one producer, one consumer |
//! | `segment.rs` | the memory of two rings, which both processes map |
//! | `rendezvous.rs` | how processes meet, and what they check of each other |
//! | `channel.rs` | two rings and a connection: sending, receiving, sleeping, the end of the peer |
//!
//! Trust: the peer has the same user ID. It can still be damaged, so nothing that it writes is trusted for
//! more than the content of packets, which are checked as those of the network are.

mod channel;
mod rendezvous;
mod ring;
mod segment;
#[cfg(test)]
mod tests;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

pub use channel::{Channel, Ends};

use crate::cancellation;
use crate::descriptors::{self, Owned};
use crate::engine::Addresses;
use crate::sync::{Mutex, RwLock};
use crate::wire::{Flow, Packet};
use rendezvous::{Hello, Received};
use segment::Segment;

/// The most channels of a device. Peers beyond that use UDP.
const MAX_CHANNELS: usize = 1024;
/// The most connections without a channel yet.
const MAX_PENDING: usize = 64;
/// After a failed offer, no other is made to a peer for this long.
const RETRY: Duration = Duration::from_secs(1);
/// Descriptors that one call of [`Paths::serve`] handles.
const EVENTS: usize = 32;

/// Returns both ends of a flow from this process. None if the flow's source is not an address and port that
/// this process has.
pub type FindEnds<'a> = dyn Fn(&Flow) -> Option<Ends> + 'a;

/// The channels of a device. Thread-safe.
pub struct Paths {
    epoll: Owned<OwnedFd>,
    /// The index of the device's interface.
    ifindex: u32,
    channels: RwLock<Channels>,
    /// How many there are.
    count: AtomicUsize,
    /// Changes with each channel that is added or removed. Never 0.
    generation: AtomicU32,
    /// There is a channel from which nothing has been received yet.
    fresh: AtomicBool,
    /// There is a dead channel.
    dead: AtomicBool,
    state: Mutex<State>,
    /// What removed channels have counted.
    sent: AtomicU64,
    received: AtomicU64,
}

#[derive(Default)]
struct Channels {
    /// Those to receive from.
    all: Arc<Vec<Arc<Channel>>>,
    /// The one to send to a peer by.
    by_flow: FxHashMap<Flow, Arc<Channel>>,
}

#[derive(Default)]
struct State {
    listeners: Vec<Listener>,
    pending: Vec<Pending>,
    /// Peers to which an offer has failed, and when.
    unanswered: FxHashMap<Flow, Instant>,
}

struct Listener {
    ip: IpAddr,
    port: u16,
    fd: Owned<OwnedFd>,
}

/// A connection without a channel yet.
struct Pending {
    fd: Owned<OwnedFd>,
    /// What the initiator has offered. None: the acceptor waits for that.
    offered: Option<(Ends, Segment)>,
}

impl Paths {
    /// A device without channels. Fails as epoll_create1(2).
    pub fn new(ifindex: u32) -> io::Result<Paths> {
        let epoll = descriptors::open(|| {
            // SAFETY: epoll_create1 has no preconditions.
            let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
            if epoll < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: epoll_create1 has just returned the descriptor, so nothing else owns it.
            Ok(unsafe { OwnedFd::from_raw_fd(epoll) })
        })?;
        Ok(Paths {
            epoll,
            ifindex,
            channels: RwLock::default(),
            count: AtomicUsize::new(0),
            generation: AtomicU32::new(1),
            fresh: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            state: Mutex::default(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        })
    }

    /// An epoll descriptor, readable when [`Paths::serve`] has something to do.
    pub fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// A number that changes whenever [`Paths::find`] may return something else.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Packets sent and received through channels.
    pub fn counts(&self) -> (u64, u64) {
        let channels = self.channels.read();
        let mut sum = (
            self.sent.load(Ordering::Relaxed),
            self.received.load(Ordering::Relaxed),
        );
        for (sent, received) in channels.all.iter().map(|channel| channel.counts()) {
            sum = (sum.0 + sent, sum.1 + received);
        }
        sum
    }

    /// Lets peers find this process at a port of one of its addresses. Does nothing if they can already, or
    /// if another process has the name.
    pub fn listen(&self, ip: IpAddr, port: u16) {
        let mut state = self.state.lock();
        if state
            .listeners
            .iter()
            .any(|other| (other.ip, other.port) == (ip, port))
        {
            return;
        }
        let opened = descriptors::open(|| rendezvous::listen(ip, port, self.ifindex));
        match opened.and_then(|fd| self.watch(&fd).map(|()| fd)) {
            Ok(fd) => state.listeners.push(Listener { ip, port, fd }),
            Err(error) => log::debug!("uroce: no channels to {ip} port {port}: {error}"),
        }
    }

    /// The channel to send to a peer by.
    pub fn find(&self, flow: &Flow) -> Option<Arc<Channel>> {
        self.channels.read().by_flow.get(flow).cloned()
    }

    /// Offers a channel to a peer, unless there is one, or an offer has failed within the last second. It can
    /// be used once the peer has accepted it.
    pub fn offer(&self, ends: Ends) {
        let _no_cancellation = cancellation::disable();
        let flow = &ends.flow;
        let mut state = self.state.lock();
        let is_offered = |pending: &Pending| {
            let offered = pending.offered.as_ref();
            offered.is_some_and(|(ends, _)| ends.flow == *flow)
        };
        if self.count.load(Ordering::Relaxed) >= MAX_CHANNELS
            || state.pending.len() >= MAX_PENDING
            || state.pending.iter().any(is_offered)
            || state
                .unanswered
                .get(flow)
                .is_some_and(|at| at.elapsed() < RETRY)
            || self.find(flow).is_some()
        {
            return;
        }
        match self.connect(ends) {
            Ok(pending) => state.pending.push(pending),
            Err(error) => {
                if error.raw_os_error() != Some(libc::ECONNREFUSED) {
                    log::debug!("uroce: no channel to {}: {error}", flow.dst);
                }
                state.unanswered.retain(|_, at| at.elapsed() < RETRY);
                state.unanswered.insert(*flow, Instant::now());
            }
        }
    }

    fn connect(&self, ends: Ends) -> io::Result<Pending> {
        let Flow { dst, dst_port, .. } = ends.flow;
        let fd = descriptors::open(|| rendezvous::connect(dst, dst_port, self.ifindex))?;
        let mut segment = None;
        let memory = descriptors::open(|| {
            let (created, memory) = Segment::create()?;
            segment = Some(created);
            Ok(memory)
        })?;
        let hello = Hello { flow: ends.flow };
        rendezvous::send_hello(fd.as_raw_fd(), &hello, memory.as_raw_fd())?;
        self.watch(&fd)?;
        let segment = segment.ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Pending {
            fd,
            offered: Some((ends, segment)),
        })
    }

    /// Makes [`Paths::fd`] readable with a descriptor, which stays open until it is dropped.
    fn watch(&self, fd: &OwnedFd) -> io::Result<()> {
        let fd = fd.as_raw_fd();
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLRDHUP) as u32,
            u64: fd as u64,
        };
        // SAFETY: the event is readable during the call.
        let result = unsafe { libc::epoll_ctl(self.fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Handles what has come through the connections: offers, answers, wakeups, hang-ups. Does not block.
    pub fn serve(&self, find_ends: &FindEnds) {
        let _no_cancellation = cancellation::disable();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let ready = cancellation::epoll_poll(self.fd(), &mut events);
        for event in events.iter().take(ready.max(0) as usize) {
            let fd = event.u64 as RawFd;
            if self.serve_channel(fd) {
                continue;
            }
            let mut state = self.state.lock();
            let state = &mut *state;
            let is_fd = |owned: &Owned<OwnedFd>| owned.as_raw_fd() == fd;
            if let Some(listener) = state.listeners.iter().position(|other| is_fd(&other.fd)) {
                self.accept(state, listener, find_ends);
            } else if let Some(at) = state.pending.iter().position(|other| is_fd(&other.fd)) {
                self.serve_pending(state, at, find_ends);
            }
        }
    }

    /// Reads wakeups of a channel, and whether the peer has hung up. False if no channel has the descriptor.
    fn serve_channel(&self, fd: RawFd) -> bool {
        let channels = self.channels.read();
        let Some(channel) = channels.all.iter().find(|channel| channel.fd() == fd) else {
            return false;
        };
        if rendezvous::receive_bytes(fd, rendezvous::MESSAGES_PER_CALL) == Received::HangUp {
            channel.set_dead();
            self.dead.store(true, Ordering::Relaxed);
        }
        true
    }

    /// Accepts the connections of a listener, which is closed if this process has lost its address or port.
    fn accept(&self, state: &mut State, listener: usize, find_ends: &FindEnds) {
        let Listener { ip, port, ref fd } = state.listeners[listener];
        let own = Flow {
            src: ip,
            src_port: port,
            dst: ip,
            dst_port: port,
        };
        let listening = fd.as_raw_fd();
        if find_ends(&own).is_none() {
            state.listeners.swap_remove(listener);
            return;
        }
        for _ in 0..EVENTS {
            let accepted = descriptors::open(|| rendezvous::accept(listening));
            let fd = match accepted {
                Ok(fd) => fd,
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
                Err(_) => return,
            };
            if state.pending.len() < MAX_PENDING && self.watch(&fd).is_ok() {
                let offered = None;
                state.pending.push(Pending { fd, offered });
            }
        }
    }

    /// A connection without a channel is readable. Anything unexpected ends it: the packets use UDP.
    fn serve_pending(&self, state: &mut State, at: usize, find_ends: &FindEnds) {
        let fd = state.pending[at].fd.as_raw_fd();
        if state.pending[at].offered.is_some() {
            // The answer only: behind it may be the peer's end, which is that of the channel.
            match rendezvous::receive_bytes(fd, 1) {
                Received::Bytes(false) => return,
                Received::Bytes(true) => {
                    let Pending { fd, offered } = state.pending.swap_remove(at);
                    if let Some((ends, segment)) = offered {
                        self.add(ends, segment, fd);
                    }
                }
                Received::HangUp => {
                    let Pending { offered, .. } = state.pending.swap_remove(at);
                    if let Some((ends, _)) = offered {
                        state.unanswered.insert(ends.flow, Instant::now());
                    }
                }
            }
            return;
        }
        let mut hello = None;
        let memory = descriptors::open(|| {
            let (received, memory) = rendezvous::receive_hello(fd)?;
            hello = Some(received);
            Ok(memory)
        });
        if memory.as_ref().err().map(io::Error::kind) == Some(io::ErrorKind::WouldBlock) {
            return;
        }
        let Pending { fd, .. } = state.pending.swap_remove(at);
        if self.count.load(Ordering::Relaxed) >= MAX_CHANNELS {
            return;
        }
        let (Ok(memory), Some(Hello { flow })) = (memory, hello) else {
            return;
        };
        let ends = find_ends(&reversed(&flow));
        let segment = Segment::open(&memory).ok();
        if let (Some(ends), Some(segment)) = (ends, segment) {
            let raw = fd.as_raw_fd();
            if self.add(ends, segment, fd) {
                rendezvous::send_byte(raw);
            }
        }
    }

    /// Adds a channel that both sides have agreed on. False if there is no memory.
    fn add(&self, ends: Ends, segment: Segment, fd: Owned<OwnedFd>) -> bool {
        let Some(channel) = Channel::try_new(ends, segment, fd) else {
            return false;
        };
        log::info!(
            "uroce: {} port {} to {} port {} through shared memory",
            ends.flow.src,
            ends.flow.src_port,
            ends.flow.dst,
            ends.flow.dst_port
        );
        let channel = Arc::new(channel);
        let mut channels = self.channels.write();
        let mut all = Vec::clone(&channels.all);
        all.push(Arc::clone(&channel));
        channels.all = Arc::new(all);
        channels.by_flow.entry(ends.flow).or_insert(channel);
        self.count.store(channels.all.len(), Ordering::Release);
        self.fresh.store(true, Ordering::Release);
        self.changed();
        true
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

    /// Whether a packet waits to be received.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.is_used()
            && self
                .channels
                .read()
                .all
                .iter()
                .any(|channel| channel.has_news())
    }

    /// Whether there is a channel that was added since the last call. Its peer has sent by UDP before: those
    /// packets are to be received first.
    pub fn take_fresh(&self) -> bool {
        self.fresh.load(Ordering::Relaxed) && self.fresh.swap(false, Ordering::AcqRel)
    }

    /// Passes packets of all channels to `each`, a bounded number of each. Returns their number.
    pub fn receive(&self, each: &mut dyn FnMut(&Packet<'_>, &Addresses)) -> usize {
        if !self.is_used() {
            return 0;
        }
        // Not with the lock held: `each` locks queue pairs, and who has locked one may look a channel up.
        let all = Arc::clone(&self.channels.read().all);
        let mut count = 0;
        for channel in all.iter().filter(|channel| channel.has_news()) {
            count += channel.receive(each);
        }
        count
    }

    /// Removes the channels of peers that are gone, once all that they had sent is received.
    pub fn take_dead(&self) -> Vec<Arc<Channel>> {
        if !self.dead.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut channels = self.channels.write();
        let is_drained = |channel: &Arc<Channel>| channel.is_dead() && !channel.has_news();
        let (removed, kept): (Vec<_>, Vec<_>) = channels.all.iter().cloned().partition(is_drained);
        let left = kept.iter().any(|channel| channel.is_dead());
        channels.all = Arc::new(kept);
        for channel in &removed {
            let (sent, received) = channel.counts();
            self.sent.fetch_add(sent, Ordering::Relaxed);
            self.received.fetch_add(received, Ordering::Relaxed);
            let flow = channel.flow();
            if channels
                .by_flow
                .get(flow)
                .is_some_and(|used| Arc::ptr_eq(used, channel))
            {
                channels.by_flow.remove(flow);
                let other = channels
                    .all
                    .iter()
                    .find(|other| other.flow() == flow)
                    .cloned();
                if let Some(other) = other {
                    channels.by_flow.insert(*flow, other);
                }
            }
        }
        self.dead.store(left, Ordering::Relaxed);
        self.count.store(channels.all.len(), Ordering::Release);
        self.changed();
        removed
    }

    /// From now on peers send wakeups with their next packets. Returns whether packets are there already.
    pub fn prepare_sleep(&self) -> bool {
        if !self.is_used() {
            return false;
        }
        let channels = self.channels.read();
        let news = |any: bool, channel: &Arc<Channel>| any | channel.prepare_sleep();
        channels.all.iter().fold(false, news)
    }

    /// Reverts [`Paths::prepare_sleep`].
    pub fn end_sleep(&self) {
        if self.is_used() {
            let channels = self.channels.read();
            channels.all.iter().for_each(|channel| channel.end_sleep());
        }
    }

    /// Lets all peers see that this process has closed the device.
    pub fn close(&self) {
        let channels = self.channels.read();
        channels.all.iter().for_each(|channel| channel.hang_up());
    }
}

/// The flow in the other direction.
fn reversed(flow: &Flow) -> Flow {
    Flow {
        src: flow.dst,
        dst: flow.src,
        src_port: flow.dst_port,
        dst_port: flow.src_port,
    }
}
