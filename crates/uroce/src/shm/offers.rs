//! Offers of channels: makes them to peers, and accepts theirs, over connections.
//!
//! Not here: the messages of a connection (`handshake.rs`), the channels (`channel.rs`).
//!
//! Invariant: whatever goes wrong here ends the connection only; the packets use UDP.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ibverbs_os::unix::Peer;
use rustc_hash::FxHashMap;

use super::handshake::{self, Hello, HelloBytes};
use super::peer_memory::{Connection, PeerAccesses, PeerMemory};
use super::segment::{Segment, Side};
use super::{Channel, Channels, Ends, FindEnds, MAX_CHANNELS, Peers};
use crate::cancellation;
use crate::descriptors::{self, Owned};
use crate::direct::{self, TableFd};
use crate::process;
use crate::transport::udp_owners::{self, PortOwner};
use roce::wire::Flow;

/// The most connections of peers that have offered nothing yet.
const MAX_SILENT: usize = 64;
/// After a failed offer, no other is made to a peer for this long.
const RETRY: Duration = Duration::from_secs(1);
/// A connection that has sent nothing for this long makes room for others.
const MAX_SILENCE: Duration = Duration::from_secs(1);
/// A listener that could not accept, for want of a descriptor, is left alone for this long.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the owners of UDP ports are used as they were read. Who is not among them may have come since.
const OWNERS_FRESH: Duration = Duration::from_millis(10);
/// Descriptors that one call of [`Channels::serve`] handles.
const EVENTS: usize = 32;
/// More bytes than the objects of a new channel take that std cannot allocate fallibly (`Arc`).
const CHANNEL_MEMORY: usize = 16 << 10;

/// Whether there is memory for a new channel. If not, offers wait.
pub(super) fn has_memory() -> bool {
    process::has_memory(CHANNEL_MEMORY)
}

/// Connections without a channel yet, the listeners that accept them, and offers that failed.
#[derive(Default)]
pub struct Offers {
    /// The sockets that peers connect to.
    pub listeners: Vec<Listener>,
    pub pending: Vec<PendingConnection>,
    /// Peers to which an offer has failed, and when.
    pub unanswered: FxHashMap<Flow, Instant>,
    /// The owners of UDP ports, and when they were read.
    owners: Option<(Instant, Vec<PortOwner>)>,
}

impl Offers {
    /// Whether a user has a UDP port at an address of this host.
    pub(super) fn owns(&mut self, user: u32, ip: IpAddr, port: u16) -> bool {
        let owner = PortOwner { ip, port, user };
        let (read_at, owners) = self
            .owners
            .get_or_insert_with(|| (Instant::now(), udp_owners::read()));
        if !owners.contains(&owner) && read_at.elapsed() >= OWNERS_FRESH {
            (*read_at, *owners) = (Instant::now(), udp_owners::read());
        }
        owners.contains(&owner)
    }

    /// The offers that peers have not answered. One that is stopped has its offer until it ends: if this
    /// process withdrew it, the peer would take that for the end of this process.
    fn unanswered_offers(&self) -> impl Iterator<Item = &PendingConnection> {
        self.pending.iter().filter(|other| other.offered.is_some())
    }

    /// The number of connections that have not offered anything yet.
    fn silent_count(&self) -> usize {
        self.pending.len() - self.unanswered_offers().count()
    }
}

#[cfg(test)]
impl Offers {
    /// Fills the buffers of the connections without a channel: nothing can be sent.
    pub(super) fn fill_pending(&self) {
        for pending in &self.pending {
            let fd = pending.fd.as_raw_fd();
            while cancellation::send(fd, &[1], libc::MSG_DONTWAIT) == 1 {}
        }
    }

    /// Lets time pass for the connections without a channel.
    pub(super) fn age_pending(&mut self, by: Duration) {
        for pending in &mut self.pending {
            pending.since -= by;
        }
    }
}

#[cfg(test)]
impl Listener {
    /// Puts another socket in the place of the listener's.
    pub(super) fn set_fd(&mut self, fd: Owned<OwnedFd>) {
        self.fd = fd;
    }
}

pub struct Listener {
    ip: IpAddr,
    port: u16,
    fd: Owned<OwnedFd>,
    /// Since when it is not watched, because it could not accept.
    paused: Option<Instant>,
}

/// A connection without a channel yet.
pub struct PendingConnection {
    fd: Connection,
    since: Instant,
    /// The ends and the memory that the initiator has offered. None: the acceptor waits for that.
    offered: Option<(Ends, Segment)>,
}

impl Channels {
    /// Lets peers find this process at a port of one of its addresses. Does nothing if they can already, or
    /// if another process has the name.
    pub fn listen(&self, ip: IpAddr, port: u16) {
        let mut state = self.state.lock();
        self.resume_listeners(&mut state);
        if state
            .listeners
            .iter()
            .any(|other| (other.ip, other.port) == (ip, port))
        {
            return;
        }
        let opened = descriptors::open(|| handshake::listen(ip, port, self.ifindex));
        match opened.and_then(|fd| self.watch(&fd).map(|()| fd)) {
            Ok(fd) => state.listeners.push(Listener {
                ip,
                port,
                fd,
                paused: None,
            }),
            Err(error) => log::debug!("uroce: no channels to {ip} port {port}: {error}"),
        }
    }

    /// Offers a channel to a peer, unless there is one, or an offer has failed within the last second. It can
    /// be used once the peer has accepted it.
    pub fn offer(&self, ends: Ends) {
        let _no_cancellation = cancellation::disable();
        let flow = &ends.flow;
        let mut state = self.state.lock();
        self.resume_listeners(&mut state);
        let is_offered = |pending: &PendingConnection| {
            let offered = pending.offered.as_ref();
            offered.is_some_and(|(ends, _)| ends.flow == *flow)
        };
        let offered = state.unanswered_offers().count();
        if self.count.load(Ordering::Relaxed) + offered >= MAX_CHANNELS
            || state.pending.iter().any(is_offered)
            || state
                .unanswered
                .get(flow)
                .is_some_and(|at| at.elapsed() < RETRY)
            || self.is_connected(flow)
        {
            return;
        }
        match self.connect(&mut state, ends) {
            Ok(pending) => state.pending.push(pending),
            Err(error) => {
                self.forget_gone();
                if error.raw_os_error() != Some(libc::ECONNREFUSED) {
                    log::debug!("uroce: no channel to {}: {error}", flow.dst);
                }
                state.unanswered.retain(|_, at| at.elapsed() < RETRY);
                state.unanswered.insert(*flow, Instant::now());
            }
        }
    }

    /// Waits until a peer has answered the offer that was made to it, for `at_most` since then: then the
    /// first requests take the channel. Returns at once if there is no such offer. The threads that make
    /// progress read the answer ([`Channels::serve`]): if this one waited for the connection to be readable,
    /// it would miss an answer that another thread has just read.
    pub fn await_answer(&self, flow: &Flow, at_most: Duration) {
        let offer = |pending: &PendingConnection| {
            let (ends, _) = pending.offered.as_ref()?;
            (ends.flow == *flow).then_some(pending.since)
        };
        loop {
            let seen = self.answers.count();
            let found = self.state.lock().pending.iter().find_map(offer);
            let left = found.map(|since| at_most.saturating_sub(since.elapsed()));
            match left {
                Some(left) if !left.is_zero() => self.answers.wait(seen, left),
                _ => return,
            }
        }
    }

    pub(super) fn connect(&self, state: &mut Offers, ends: Ends) -> io::Result<PendingConnection> {
        if !has_memory() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let Flow { dst, dst_port, .. } = ends.flow;
        let connect = || handshake::connect(dst, dst_port, self.ifindex, self.peers);
        let fd = Arc::new(descriptors::open(connect)?);
        if !self.may_speak_for(state, &fd, dst, dst_port) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut segment = None;
        let memory = descriptors::open(|| {
            let (created, memory) = Segment::create()?;
            segment = Some(created);
            Ok(memory)
        })?;
        let hello = Hello {
            flow: ends.flow,
            exports: self.export_to(&fd, &memory, Side::Initiator),
        };
        handshake::send_hello(fd.as_raw_fd(), &hello, memory.as_raw_fd())?;
        self.watch(&fd)?;
        let segment = segment.ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(PendingConnection {
            fd,
            since: Instant::now(),
            offered: Some((ends, segment)),
        })
    }

    /// Whether the process at the other end of a connection may have an address and a UDP port. One of
    /// another user has to own the port: anyone can bind the name of a socket, and say any address.
    fn may_speak_for(&self, state: &mut Offers, socket: &OwnedFd, ip: IpAddr, port: u16) -> bool {
        if self.peers == Peers::SameUser {
            // The connection was checked when it was made.
            return true;
        }
        let peer = Peer::of(socket);
        peer.is_ok_and(|peer| peer.is_own_user() || state.owns(peer.user, ip, port))
    }

    /// Gives back what peers were exported that are gone, or have refused a channel.
    pub(super) fn forget_gone(&self) {
        if let Some(exports) = &self.exports {
            exports.remove_gone();
        }
    }

    /// Exports memory to the peer at the other end of a connection: from now on withdrawing memory
    /// waits for its accesses. Returns where it finds what this process exports, for its kernel to
    /// decide whether it may.
    fn export_to(&self, connection: &Connection, memory: &OwnedFd, side: Side) -> TableFd {
        let (Some(exports), Ok(segment)) = (&self.exports, Segment::map(memory.as_raw_fd(), side))
        else {
            return TableFd::NONE;
        };
        let socket: &OwnedFd = connection;
        let peer = Peer::of(socket).map_or(0, |peer| peer.pid);
        let accessor = Arc::new(PeerAccesses::new(segment, connection, peer));
        if !exports.add_accessor(accessor) {
            return TableFd::NONE;
        }
        if peer as u32 != std::process::id() {
            direct::allow_peers();
        }
        exports.place()
    }

    /// The memory of the peer, if it exports any and this process may access it.
    fn peer_memory(&self, connection: &OwnedFd, place: TableFd) -> Option<PeerMemory> {
        let own = self.exports.as_ref()?.place();
        if place == TableFd::NONE {
            return None;
        }
        PeerMemory::find(connection, place, own)
    }

    /// Makes [`Channels::fd`] readable with a descriptor, which stays open until it is dropped.
    pub(super) fn watch(&self, fd: &OwnedFd) -> io::Result<()> {
        let events = libc::EPOLLIN | libc::EPOLLRDHUP;
        self.epoll
            .add(fd.as_raw_fd(), events, fd.as_raw_fd() as u64)
    }

    /// Watches the listeners again that were left alone for [`PAUSE`].
    fn resume_listeners(&self, state: &mut Offers) {
        for listener in &mut state.listeners {
            if listener
                .paused
                .is_some_and(|since| since.elapsed() >= PAUSE)
            {
                listener.paused = None;
                let fd = listener.fd.as_raw_fd();
                self.epoll.change(fd, libc::EPOLLIN, fd as u64);
            }
        }
    }

    /// Reverts [`Channels::watch`]. A connection that has hung up is readable for good, and queue pairs may
    /// keep its channel after it has left the list: [`Channels::fd`] would stay readable without anything to
    /// do.
    pub(super) fn unwatch(&self, fd: RawFd) {
        self.epoll.remove(fd);
    }

    /// Handles what has come through the connections: offers, answers, hang-ups. Does not block. Returns
    /// whether channels were added, or have hung up: then a thread that sleeps is to be woken up, as it has
    /// prepared for the others only.
    pub fn serve(&self, find_ends: &FindEnds) -> bool {
        let _no_cancellation = cancellation::disable();
        let before = self.generation();
        let mut any_answered = false;
        self.for_each_event(|fd, hung_up| {
            if let Some(channel) = self.channel_with(fd) {
                if hung_up {
                    self.on_hang_up(&channel);
                }
                return;
            }
            if !has_memory() {
                return;
            }
            let mut state = self.state.lock();
            let state = &mut *state;
            self.resume_listeners(state);
            let is_fd = |owned: &Owned<OwnedFd>| owned.as_raw_fd() == fd;
            if let Some(listener) = state.listeners.iter().position(|other| is_fd(&other.fd)) {
                self.accept(state, listener, find_ends);
            } else if let Some(at) = state.pending.iter().position(|other| is_fd(&other.fd)) {
                any_answered |= state.pending[at].offered.is_some();
                self.serve_pending(state, at, find_ends);
            }
        });
        if any_answered {
            self.answers.notify();
        }
        self.generation() != before
    }

    /// Reads the wakeups that peers have sent, in the thread that has slept: see [`Channels::prepare_sleep`].
    pub fn read_wakeups(&self) {
        if !self.is_used() {
            return;
        }
        let _no_cancellation = cancellation::disable();
        self.for_each_event(|fd, _| {
            let Some(channel) = self.channel_with(fd) else {
                return;
            };
            if handshake::receive_bytes(fd, handshake::MESSAGES_PER_CALL) == HelloBytes::HangUp {
                self.on_hang_up(&channel);
            }
        });
    }

    /// Passes the descriptors that are readable to `each`, [`EVENTS`] at most, and whether the peer has hung
    /// up.
    fn for_each_event(&self, mut each: impl FnMut(RawFd, bool)) {
        const HUNG_UP: i32 = libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let ready = cancellation::epoll_poll(self.fd(), &mut events);
        for event in events.iter().take(ready.max(0) as usize) {
            each(event.u64 as RawFd, event.events & HUNG_UP as u32 != 0);
        }
    }

    /// The channel whose connection has this descriptor.
    fn channel_with(&self, fd: RawFd) -> Option<Arc<Channel>> {
        let table = self.table.read();
        table.all.iter().find(|channel| channel.fd() == fd).cloned()
    }

    /// Accepts the connections of a listener, which is closed if this process has lost its address or port.
    fn accept(&self, state: &mut Offers, listener: usize, find_ends: &FindEnds) {
        let Listener {
            ip, port, ref fd, ..
        } = state.listeners[listener];
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
        let is_silent = |pending: &PendingConnection| {
            pending.offered.is_none() && pending.since.elapsed() >= MAX_SILENCE
        };
        state.pending.retain(|pending| !is_silent(pending));
        for _ in 0..EVENTS {
            let accepted = descriptors::open(|| handshake::accept(listening, self.peers));
            let fd = match accepted {
                Ok(fd) => fd,
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // The connection stays, and would make the listener readable for good.
                    log::debug!("uroce: no channels to {ip} port {port} for now: {error}");
                    let listener = &mut state.listeners[listener];
                    listener.paused = Some(Instant::now());
                    let fd = listener.fd.as_raw_fd();
                    self.epoll.change(fd, 0, fd as u64);
                    return;
                }
            };
            if state.silent_count() < MAX_SILENT && self.watch(&fd).is_ok() {
                state.pending.push(PendingConnection {
                    fd: Arc::new(fd),
                    since: Instant::now(),
                    offered: None,
                });
            }
        }
    }

    /// A connection without a channel is readable. Anything unexpected ends it: the packets use UDP.
    fn serve_pending(&self, state: &mut Offers, at: usize, find_ends: &FindEnds) {
        let fd = state.pending[at].fd.as_raw_fd();
        if state.pending[at].offered.is_some() {
            // The answer only: behind it may be the peer's end, which is that of the channel.
            let answer = descriptors::transient(|| handshake::receive_answer(fd));
            if answer.as_ref().err().map(io::Error::kind) == Some(io::ErrorKind::WouldBlock) {
                return;
            }
            let PendingConnection { fd, offered, .. } = state.pending.swap_remove(at);
            let Some((ends, segment)) = offered else {
                return;
            };
            if let Ok(place) = answer {
                let peer_memory = self.peer_memory(&fd, place);
                self.add(ends, segment, fd, peer_memory);
            } else {
                state.unanswered.insert(ends.flow, Instant::now());
                drop(fd);
                self.forget_gone();
            }
            return;
        }
        let mut hello = None;
        let memory = descriptors::open(|| {
            let (received, memory) = handshake::receive_hello(fd)?;
            hello = Some(received);
            Ok(memory)
        });
        if memory.as_ref().err().map(io::Error::kind) == Some(io::ErrorKind::WouldBlock) {
            return;
        }
        let PendingConnection { fd, .. } = state.pending.swap_remove(at);
        if self.count.load(Ordering::Relaxed) >= MAX_CHANNELS {
            return;
        }
        let (Ok(memory), Some(Hello { flow, exports })) = (memory, hello) else {
            return;
        };
        if !self.may_speak_for(state, &fd, flow.src, flow.src_port) {
            return;
        }
        let ends = find_ends(&reversed(&flow));
        let segment = Segment::open(&memory).ok();
        if let (Some(ends), Some(segment)) = (ends, segment) {
            let peer_memory = self.peer_memory(&fd, exports);
            let exports = self.export_to(&fd, &memory, Side::Acceptor);
            let answered = handshake::send_answer(fd.as_raw_fd(), exports);
            // A peer that has ended meanwhile gets a channel, too: by that, queue pairs notice its end.
            if answered.is_ok() || handshake::has_hung_up(fd.as_raw_fd()) {
                self.add(ends, segment, fd, peer_memory);
            } else {
                drop((fd, peer_memory));
                self.forget_gone();
            }
        }
    }
}

/// The flow in the other direction.
pub fn reversed(flow: &Flow) -> Flow {
    Flow {
        src: flow.dst,
        dst: flow.src,
        src_port: flow.dst_port,
        dst_port: flow.src_port,
    }
}
