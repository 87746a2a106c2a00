//! The way to a peer: through shared memory to processes of this host ([`crate::shm`]), by UDP to all
//! others.
//!
//! A connected queue pair takes a channel when nothing of it is in flight (`roce::engine`). Datagrams may
//! take either, one by one; a reordering would not be repaired. Therefore what takes a channel first waits
//! for what other threads are still sending by UDP (`Device::switch_path`). A queue pair starts with UDP,
//! unless there is a channel to its peer already.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use super::Device;
use super::inboxes::InboxGuard;
use super::queue_pair::{Inner, QueuePair, Unavailable};
use crate::direct::Exports;
use crate::shm::{Channel, Ends, Paths, Peers};
use crate::transport::Net;
use roce::engine::{AddressVector, Qp, QpState, Service};
use roce::wire::{Flow, port_of};

/// A poller checks the sockets at every poll of this number only. At the others it checks shared memory,
/// which takes no system call.
const POLLS_PER_SOCKET_POLL: u64 = 32;
/// How long [`Device::await_path`] waits for a peer. Its background thread usually answers within 0.2 ms.
const MAX_AWAITED: Duration = Duration::from_millis(100);

/// `IBV_UROCE_LOCAL`: whether devices that are opened from now on use shared memory.
static ENABLED: AtomicBool = AtomicBool::new(false);
/// The program has asked for [`Peers::AnyUser`].
static ANY_USER: AtomicBool = AtomicBool::new(false);

/// Lets devices that this process opens from now on use shared memory with these processes of its host; with
/// None by UDP only.
pub fn enable(peers: Option<Peers>) {
    ANY_USER.store(peers == Some(Peers::AnyUser), Ordering::Relaxed);
    ENABLED.store(peers.is_some(), Ordering::Relaxed);
}

/// Whether the program trusts the other users of the host.
pub fn trusts_any_user() -> bool {
    ANY_USER.load(Ordering::Relaxed)
}

/// The paths of a new device, and what peers may access directly. None if they are switched off, or the
/// packets of the device are to be datagrams (`has_hooks`).
pub fn open(net: &Net, has_hooks: bool) -> io::Result<(Option<Paths>, Option<Arc<Exports>>)> {
    if has_hooks || !ENABLED.load(Ordering::Relaxed) {
        return Ok((None, None));
    }
    let peers = match ANY_USER.load(Ordering::Relaxed) {
        true => Peers::AnyUser,
        false => Peers::SameUser,
    };
    // Others must not read the keys, and the kernel refuses their accesses anyway.
    let exports = (peers == Peers::SameUser)
        .then(super::direct::open)
        .flatten();
    let paths = Paths::new(net.ifindex(), peers, exports.clone())?;
    net.watch_paths(paths.fd())?;
    Ok((Some(paths), exports))
}

impl Device {
    pub(super) fn ends(&self, flow: &Flow) -> Option<Ends> {
        let ([gid, peer_gid], in_grh) = self.net.gids_of(flow)?;
        Some(Ends {
            flow: *flow,
            gid,
            peer_gid,
            in_grh,
        })
    }

    /// The program has changed a queue pair's attributes. From RTR on, peers of this host can find this
    /// process, and are offered a channel.
    pub(super) fn open_path(&self, qp: &QueuePair, engine: &Qp) {
        let Some(paths) = &self.paths else { return };
        if !matches!(engine.state(), QpState::Rtr | QpState::Rts) {
            return;
        }
        let port = port_of(qp.qpn);
        for ip in self.net.addresses_of(port) {
            paths.listen(ip, port);
        }
        if qp.service == Service::Ud {
            return;
        }
        if let Some(flow) = self.flow_to_peer(qp, engine) {
            self.offer_channel(paths, &flow);
        }
    }

    /// The program has moved a queue pair to RTS, and may post next: waits a moment for the answer to the
    /// offer of a channel. A stream of requests that begins by UDP keeps later ones from direct access, as
    /// there is always one outstanding.
    pub fn await_path(&self, qp: &QueuePair) {
        let Some(paths) = &self.paths else { return };
        if qp.service == Service::Ud {
            return;
        }
        let flow = self.flow_to_peer(qp, qp.inner.lock().engine());
        let Some(flow) = flow.filter(|flow| paths.find(flow).is_none()) else {
            return;
        };
        paths.await_answer(&flow, MAX_AWAITED);
        let inner = qp.inner.lock();
        qp.holder.locked();
        self.send(qp, inner);
    }

    /// The program is posting: a request that is executed directly needs the channel before it would be sent.
    #[inline]
    pub(super) fn refresh_path(&self, qp: &QueuePair, inner: &mut Inner) {
        if let (Some(paths), Some(_), Service::Rc) = (&self.paths, &self.exports, qp.service) {
            if !inner.path.is_of(paths.generation()) {
                self.find_path(paths, qp, inner);
            }
        }
    }

    fn offer_channel(&self, paths: &Paths, flow: &Flow) {
        if let Some(ends) = self.ends(flow) {
            paths.offer(ends);
        }
    }

    fn flow_to_peer(&self, qp: &QueuePair, engine: &Qp) -> Option<Flow> {
        let attributes = engine.attributes();
        self.net.flow(qp.qpn, &attributes.av?, attributes.dest_qpn?)
    }

    /// Whether a queue pair has nothing to send, and the channel of its peer is as of its last lookup.
    #[inline]
    pub(super) fn has_nothing_to_send(&self, qp: &QueuePair, inner: &Inner) -> bool {
        if inner.engine().may_transmit() {
            return false;
        }
        let Some(paths) = &self.paths else {
            return true;
        };
        // Outstanding requests fail when the peer is gone.
        let is_dead = |channel: &Arc<Channel>| channel.is_dead();
        let is_current = inner.path.is_of(paths.generation());
        qp.service == Service::Ud || is_current && !inner.path.channel().is_some_and(is_dead)
    }

    /// Looks up the channel that the next packet of a queue pair takes ([`Inner::split_path`]; it may be
    /// dead). False: UDP.
    #[inline]
    pub(super) fn find_path(&self, paths: &Paths, qp: &QueuePair, inner: &mut Inner) -> bool {
        let generation = paths.generation();
        if qp.service != Service::Ud && inner.path.is_for(generation, None) {
            return inner.path.channel().is_some();
        }
        self.look_up_path(paths, qp, inner, generation)
    }

    fn look_up_path(
        &self,
        paths: &Paths,
        qp: &QueuePair,
        inner: &mut Inner,
        generation: u32,
    ) -> bool {
        if inner.path.has_peer_ended() {
            return false;
        }
        let engine = inner.engine();
        if qp.service != Service::Ud {
            let flow = self.flow_to_peer(qp, engine);
            let found = flow.and_then(|flow| paths.find(&flow));
            // A queue pair keeps the channel of a peer that is gone, and does not take that of a later
            // process with the same address and port.
            let old = inner.path.channel().cloned();
            let channel = match old.filter(|old| old.is_dead()) {
                Some(old) if old.has_ended() || found.is_none() => Some(old),
                _ => found,
            };
            return self.switch_path(qp, inner, generation, None, channel);
        }
        let Some(to) = engine.next_destination() else {
            return false;
        };
        let (av, dest_qpn) = (to.av, to.qpn);
        let destination = Some((av, port_of(dest_qpn)));
        if inner.path.is_for(generation, destination) {
            return inner.path.channel().is_some();
        }
        let flow = self.net.flow(qp.qpn, &av, dest_qpn);
        let channel = flow.and_then(|flow| {
            let channel = paths.find(&flow);
            if channel.is_none() {
                self.offer_channel(paths, &flow);
            }
            channel
        });
        self.switch_path(qp, inner, generation, destination, channel)
    }

    /// The next packets of a queue pair take this channel; without one, UDP: then it returns false. Packets
    /// that another thread has taken from the queue pair before, and is sending by UDP, must not arrive after
    /// them: unreliable services cannot repair that.
    fn switch_path(
        &self,
        qp: &QueuePair,
        inner: &mut Inner,
        generation: u32,
        destination: Option<(AddressVector, u16)>,
        channel: Option<Arc<Channel>>,
    ) -> bool {
        let is_found = channel.is_some();
        if is_found {
            drop(qp.send_turn());
        }
        if inner.path.switch(generation, destination, channel) {
            inner.split(qp).0.on_other_memory();
        }
        is_found
    }

    /// The peer is gone, and all that it had sent is received: what is outstanding fails, but not before the
    /// program has read the completions that it has. Many programs end once they have those that they
    /// count, with others outstanding; their peers may be gone then. Until then the packets take UDP, and
    /// fail by timers.
    pub(super) fn fail_unreachable(&self, qp: &QueuePair, inner: &mut Inner) {
        // Otherwise the thread that delivers what was missed sends, too.
        if !inner.engine().can_fail_unreachable() || qp.missed.any() {
            return;
        }
        if qp.has_unread_completions() {
            self.await_reading(qp, inner);
            // The program may have read the last one before it could see that it is waited for.
            fence(Ordering::SeqCst);
        }
        if !qp.has_unread_completions() {
            let (engine, mut hca) = inner.split(qp);
            engine.fail_unreachable(&mut hca);
        }
    }

    /// Tries again when the program polls for the next completion, or is about to block until it comes.
    fn await_reading(&self, qp: &QueuePair, inner: &mut Inner) {
        if inner.is_unreachable {
            return;
        }
        if let Some(qp) = self.queue_pair(qp.qpn) {
            inner.is_unreachable = true;
            // Without memory, the queue pair's timers decide.
            self.unreachable.add(qp);
        }
    }

    /// Fails the queue pairs whose peer is gone, if the program has read their completions meanwhile.
    #[inline]
    pub(super) fn retry_unreachable(&self) {
        if self.unreachable.any() {
            self.retry_all_unreachable();
        }
    }

    #[cold]
    fn retry_all_unreachable(&self) {
        self.unreachable.take_each(|qp| {
            let locked = qp.lock_unless_preempted().map(|mut inner| {
                inner.is_unreachable = false;
                self.send(&qp, inner);
            });
            if locked == Err(Unavailable::Preempted) {
                self.unreachable.add_again(qp);
            }
        });
    }

    /// Whether a poller may skip the sockets at this poll, and check shared memory only.
    pub(super) fn skips_sockets(&self, polls: u64) -> bool {
        let used = self.paths.as_ref().is_some_and(Paths::is_used);
        used && polls % POLLS_PER_SOCKET_POLL != 0
    }

    /// Whether a packet waits in shared memory.
    #[inline]
    pub(super) fn has_local_packets(&self, inbox: &mut InboxGuard<'_>) -> bool {
        let paths = self.paths.as_ref();
        paths.is_some_and(|paths| paths.has_packet(inbox.channels()))
    }

    /// Whether a peer has hung up, and what it had sent may not be received yet.
    pub(super) fn has_dead_peers(&self) -> bool {
        self.paths.as_ref().is_some_and(Paths::has_dead)
    }

    /// Handles what has come through the connections of channels. `drained`: all datagrams were received that
    /// came before a peer hung up, so that such peers have ended once their channels are empty.
    pub(super) fn serve_paths(&self, inbox: &mut InboxGuard<'_>, drained: bool) {
        let Some(paths) = &self.paths else { return };
        if self.net.take_paths_readable() && paths.serve(&|flow| self.ends(flow)) {
            self.waker.wake();
        }
        if drained {
            self.end_dead_peers(paths);
            // Drops the channels that are gone.
            paths.has_packet(inbox.channels());
        }
    }

    fn end_dead_peers(&self, paths: &Paths) {
        while let Some(channel) = paths.take_dead() {
            self.queue_pairs.for_each(|qp| {
                // Otherwise it fails when it has something to send.
                let Ok(mut inner) = qp.lock_unless_preempted() else {
                    return;
                };
                let used = inner.path.channel();
                if !used.is_some_and(|used| Arc::ptr_eq(used, &channel)) {
                    return;
                }
                if qp.service == Service::Ud {
                    inner.path.forget(true);
                }
                self.send(qp, inner);
            });
        }
    }

    /// The background thread is about to sleep. Returns true if it must not, because packets have arrived.
    pub(super) fn prepare_sleep(&self) -> bool {
        self.paths.as_ref().is_some_and(Paths::prepare_sleep)
    }

    /// The background thread does not sleep any more. `readable`: a socket or a peer has woken it up.
    pub(super) fn end_sleep(&self, readable: bool) {
        if let Some(paths) = &self.paths {
            paths.end_sleep();
            if readable {
                paths.read_wakeups();
            }
        }
    }
}
