//! The device of a process: shared by all its contexts.
//!
//! | file | what is in it |
//! |---|---|
//! | `config.rs` | `IBV_UROCE`: which devices there are (pure) |
//! | `queue_pair.rs`, `completion.rs`, `shared_queue.rs`, `xrc.rs` | the objects that packets touch |
//! | `qp_host.rs` | what the engine finds around a queue pair |
//! | `progress.rs`, `background.rs` | who runs the protocol: the polling threads, and one thread in the background |
//! | `busy_poll.rs` | whether the background thread sleeps, rests, or looks for more (pure) |
//! | `timers.rs` | when each queue pair wants to be run next (pure) |
//! | `events.rs` | queues of events that a program reads from a file |
//! | `wait.rs`, `clock.rs`, `fork.rs` | sleeping, time, and what a fork does |
//!
//! Locks, in the order in which they are taken: the inbox, a queue pair, then those of a completion
//! queue, a shared receive queue, an XRC domain, the memory table, the timers, an event queue.

mod background;
mod busy_poll;
pub mod clock;
pub mod completion;
pub mod events;
pub mod fork;
mod progress;
mod qp_host;
pub mod queue_pair;
pub mod shared_queue;
mod timers;
mod wait;
pub mod xrc;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Once};
use std::thread::{self, JoinHandle};

use ibverbs_abi::*;
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;

use crate::config::Config;
use crate::engine::Gid;
use crate::memory::Memory;
use crate::transport::{Inbox, Net};
use crate::wire::ip_of;
use events::{AsyncEvents, CompletionEvents};
use progress::Handshake;
use queue_pair::QueuePair;
use timers::Timers;
use wait::Wake;
use xrc::NamedDomains;

/// A device that this process has open.
pub struct Device {
    pub name: String,
    pub net: Net,
    pub memory: Arc<Memory>,
    pub xrc_domains: Mutex<NamedDomains>,
    queue_pairs: RwLock<FxHashMap<u32, Arc<QueuePair>>>,
    groups: RwLock<HashMap<IpAddr, Vec<Arc<QueuePair>>>>,
    /// Of all open contexts.
    contexts: Mutex<Vec<Arc<AsyncEvents>>>,
    channels: Mutex<Vec<Arc<CompletionEvents>>>,
    next_number: AtomicU32,
    generation: u32,
    timers: Mutex<Timers>,
    /// Queue pairs that have something to send, which need not be at once.
    deferred: Mutex<Vec<Arc<QueuePair>>>,
    /// Held by the thread that receives.
    inbox: Mutex<Inbox>,
    handshake: Handshake,
    wake: Wake,
}

struct Open {
    device: Arc<Device>,
    contexts: usize,
    thread: JoinHandle<()>,
}

/// The devices that are open. Held across forks: see `fork`.
static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

impl Device {
    /// The device, for one more context of this process.
    pub fn open(config: &Config) -> io::Result<Arc<Device>> {
        fork::watch();
        watch_exit();
        let mut all = OPEN.lock();
        let generation = fork::generation();
        // What a parent had open is the parent's.
        while let Some(at) = all.iter().position(|o| o.device.generation != generation) {
            core::mem::forget(all.swap_remove(at));
        }
        if let Some(open) = all.iter_mut().find(|o| o.device.name == config.name) {
            open.contexts += 1;
            return Ok(open.device.clone());
        }
        let device = Arc::new(Device {
            name: config.name.clone(),
            net: Net::open(config)?,
            memory: Arc::default(),
            xrc_domains: Mutex::default(),
            queue_pairs: RwLock::default(),
            groups: RwLock::default(),
            contexts: Mutex::default(),
            channels: Mutex::default(),
            next_number: AtomicU32::new(1),
            generation,
            timers: Mutex::default(),
            deferred: Mutex::default(),
            inbox: Mutex::new(Inbox::new()),
            handshake: Handshake::new(),
            wake: Wake::new()?,
        });
        let thread = start(device.clone())?;
        all.push(Open {
            device: device.clone(),
            contexts: 1,
            thread,
        });
        Ok(device)
    }

    /// A context is closed. With the last one the thread ends and the sockets close.
    pub fn close(self: Arc<Device>) {
        if !self.is_ours() {
            core::mem::forget(self);
            return;
        }
        let mut all = OPEN.lock();
        let Some(at) = all.iter().position(|o| Arc::ptr_eq(&o.device, &self)) else {
            return;
        };
        all[at].contexts -= 1;
        if all[at].contexts == 0 {
            let open = all.swap_remove(at);
            drop(all);
            self.handshake.stop.store(true, Ordering::SeqCst);
            self.wake.wake();
            let _ = open.thread.join();
            self.send_at_exit();
            // Queue pairs that the program has forgotten; they go with the device.
            self.queue_pairs.write().clear();
            self.deferred.lock().clear();
            self.groups.write().clear();
        }
    }

    /// Whether this process opened the device, and not one that it was forked from.
    pub fn is_ours(&self) -> bool {
        self.generation == fork::generation()
    }

    /// A number for an object that has none of the network's.
    pub fn next_number(&self) -> u32 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// A context's events: port and device events go to all contexts.
    pub fn add_context(&self, events: &Arc<AsyncEvents>) {
        self.contexts.lock().push(events.clone());
    }

    pub fn remove_context(&self, events: &Arc<AsyncEvents>) {
        self.contexts.lock().retain(|e| !Arc::ptr_eq(e, events));
    }

    /// A completion channel, whose events are handed over later if nobody reads them in time.
    pub fn add_channel(&self, events: &Arc<CompletionEvents>) {
        self.channels.lock().push(events.clone());
    }

    pub fn remove_channel(&self, events: &Arc<CompletionEvents>) {
        self.channels.lock().retain(|e| !Arc::ptr_eq(e, events));
    }

    pub fn add_queue_pair(&self, qp: Arc<QueuePair>) {
        self.queue_pairs.write().insert(qp.qpn, qp);
    }

    /// No packet reaches the queue pair any more, once this returns.
    pub fn remove_queue_pair(&self, qp: &QueuePair) {
        self.send_last(qp);
        self.queue_pairs.write().remove(&qp.qpn);
        // Whoever found it before is done when its lock is free.
        drop(qp.inner.lock());
        if qp.binds.load(Ordering::Relaxed) {
            self.memory.unbind_all_of(qp.qpn);
        }
        self.net.free_qpn(qp.qpn);
    }

    pub fn queue_pair(&self, qpn: u32) -> Option<Arc<QueuePair>> {
        self.queue_pairs.read().get(&qpn).cloned()
    }

    /// Datagrams to the group reach the queue pair.
    pub fn attach(&self, qp: &Arc<QueuePair>, group: &Gid) -> io::Result<()> {
        let mut groups = self.groups.write();
        let members = groups.entry(ip_of(group)).or_default();
        if members.iter().any(|member| Arc::ptr_eq(member, qp)) {
            return Ok(());
        }
        if members.is_empty()
            && let Err(error) = self.net.join(group)
        {
            groups.remove(&ip_of(group));
            return Err(error);
        }
        members.push(qp.clone());
        Ok(())
    }

    /// False if it was not attached.
    pub fn detach(&self, qp: &Arc<QueuePair>, group: &Gid) -> bool {
        let mut groups = self.groups.write();
        let Some(members) = groups.get_mut(&ip_of(group)) else {
            return false;
        };
        let Some(at) = members.iter().position(|member| Arc::ptr_eq(member, qp)) else {
            return false;
        };
        members.swap_remove(at);
        if members.is_empty() {
            groups.remove(&ip_of(group));
            self.net.leave(group);
        }
        true
    }

    /// Whether the queue pair is in a group.
    pub fn is_attached(&self, qp: &Arc<QueuePair>) -> bool {
        let groups = self.groups.read();
        groups
            .values()
            .flatten()
            .any(|member| Arc::ptr_eq(member, qp))
    }

    fn group(&self, group: &Gid) -> Vec<Arc<QueuePair>> {
        self.groups
            .read()
            .get(&ip_of(group))
            .cloned()
            .unwrap_or_default()
    }

    /// Reads what has changed at the interface, and tells the program.
    fn apply_changes(&self) {
        let change = self.net.changes();
        for (happened, event_type) in [
            (change.gids, IBV_EVENT_GID_CHANGE),
            (change.became_active, IBV_EVENT_PORT_ACTIVE),
            (change.became_inactive, IBV_EVENT_PORT_ERR),
        ] {
            if happened {
                for events in self.contexts.lock().iter() {
                    events.push(ib_uverbs_async_event_desc {
                        element: 1,
                        event_type,
                        reserved: 0,
                    });
                }
            }
        }
    }

    /// Hands over events that were not read in time; false if some are left.
    fn flush_events(&self) -> bool {
        let contexts = self.contexts.lock();
        let channels = self.channels.lock();
        let mut done = true;
        for events in contexts.iter() {
            done &= events.flush();
        }
        for events in channels.iter() {
            done &= events.flush();
        }
        done
    }
}

/// A program may end as soon as it has its last message, and close nothing: what was put off is sent then.
fn watch_exit() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: the handler touches statics only, takes no lock that it would have to wait for, and does not
        // unwind.
        unsafe { libc::atexit(at_exit) };
    });
}

extern "C" fn at_exit() {
    if let Some(all) = OPEN.try_lock() {
        let ours = all.iter().filter(|open| open.device.is_ours());
        ours.for_each(|open| open.device.send_at_exit());
    }
}

/// Starts the background thread, with all signals blocked: they are the program's.
fn start(device: Arc<Device>) -> io::Result<JoinHandle<()>> {
    let mut all = core::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut old = core::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are writable, and initialised by these calls before they are read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr());
    }
    let thread = thread::Builder::new()
        .name("uroce".into())
        .stack_size(256 * 1024)
        .spawn(move || device.serve());
    // SAFETY: `old` is what the thread had before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old.as_ptr(), core::ptr::null_mut()) };
    thread
}

#[cfg(test)]
mod tests;
