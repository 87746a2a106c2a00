//! The ids of librdmacm on software devices, the objects that it has made for them, and the threads that
//! destroy one.
//!
//! Not here: the calls and events that change them (`cm/`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::diagnose::finding::{Finding, Object, Outcome};
use crate::diagnose::rules::Rule;

/// Bytes of librdmacm's structure of an id, at most, in which the condition is that a destroy waits for.
const ID_SIZE: u64 = 1024;

/// A thread that has destroyed an id, or moves it to another channel: librdmacm waits until the program has
/// acknowledged all events.
#[derive(Clone, Copy)]
struct Destroying {
    id: u32,
    uid: u64,
    /// The events that were reported; None if that is not known.
    events: Option<u32>,
    call: &'static str,
    since: Instant,
    /// The end of the call is observed, too.
    is_observed: bool,
}

/// The ids of librdmacm, and the threads that destroy one.
#[derive(Default)]
pub struct CmIds {
    uids: BTreeMap<u32, u64>,
    destroying: BTreeMap<i32, Destroying>,
    /// Ids of requests for a connection, which were read and are not answered: since when.
    pub requests: BTreeMap<u32, Instant>,
    /// Ids whose peer has replied, as the program has read, and that have not confirmed it: since when.
    pub replies: BTreeMap<u32, Instant>,
    /// Channels of ids that were created without one.
    synchronous: BTreeSet<u64>,
    /// Ids, by librdmacm's numbers, with which groups are joined: that may take long.
    joining: BTreeSet<u64>,
    /// Ids whose connection was refused, or could not be made.
    pub refused: BTreeSet<u32>,
    pub made: Made,
}

impl CmIds {
    pub const fn new() -> CmIds {
        CmIds {
            uids: BTreeMap::new(),
            destroying: BTreeMap::new(),
            requests: BTreeMap::new(),
            replies: BTreeMap::new(),
            synchronous: BTreeSet::new(),
            joining: BTreeSet::new(),
            refused: BTreeSet::new(),
            made: Made::new(),
        }
    }

    /// The number of an id by librdmacm's.
    pub fn number(&self, uid: u64) -> Option<u32> {
        let found = self.uids.iter().find(|(_, of)| **of == uid);
        found.map(|(number, _)| *number)
    }

    /// The ids that exist: their numbers, and librdmacm's.
    pub fn all(&self) -> impl Iterator<Item = (u32, u64)> {
        self.uids.iter().map(|(number, uid)| (*number, *uid))
    }

    pub fn add_synchronous(&mut self, channel: u64) {
        self.synchronous.insert(channel);
    }

    /// librdmacm is about to destroy the channel of an id, if that was created without one. The next channel
    /// may be at its address.
    pub fn forget_synchronous(&mut self, channel: u64) {
        self.synchronous.remove(&channel);
    }

    pub fn joins(&mut self, uid: u64) {
        self.joining.insert(uid);
    }

    /// Whether a group has been joined with an id, or is to be.
    pub fn is_joining(&self, id: u32) -> bool {
        let uid = self.uids.get(&id);
        uid.is_some_and(|uid| self.joining.contains(uid))
    }

    pub fn is_synchronous(&self, channel: u64) -> bool {
        self.synchronous.contains(&channel)
    }

    /// The oldest request that has waited for an answer for this long.
    pub fn unanswered(&self, limit: Duration) -> Option<u32> {
        let mut all = self.requests.iter();
        all.find(|(_, since)| since.elapsed() >= limit)
            .map(|(id, _)| *id)
    }

    /// The oldest reply that has waited for rdma_establish for this long.
    pub fn unconfirmed(&self, limit: Duration) -> Option<u32> {
        let mut all = self.replies.iter();
        all.find(|(_, since)| since.elapsed() >= limit)
            .map(|(id, _)| *id)
    }

    pub fn known(&mut self, id: u32, uid: u64) {
        self.refused.remove(&id);
        self.requests.remove(&id);
        self.uids.insert(id, uid);
        self.made.exists(uid as usize);
    }

    pub fn destroyed(&mut self, id: u32, events: u32, thread: i32, is_observed: bool) {
        let uid = self.uids.remove(&id);
        if let Some(uid) = uid {
            self.made.destroyed(uid as usize);
        }
        self.joining.remove(&uid.unwrap_or(0));
        self.requests.remove(&id);
        self.replies.remove(&id);
        self.refused.remove(&id);
        self.destroying.remove(&thread);
        if let Some(uid) = uid.filter(|_| events > 0) {
            let since = Instant::now();
            let destroying = Destroying {
                id,
                uid,
                events: Some(events),
                call: "rdma_destroy_id",
                since,
                is_observed,
            };
            self.destroying.insert(thread, destroying);
        }
    }

    /// A thread is about to move an id to another event channel.
    pub fn migrating(&mut self, uid: u64, thread: i32, call: &'static str) {
        let moved = self.number(uid).map(|id| Destroying {
            id,
            uid,
            events: None,
            call,
            since: Instant::now(),
            is_observed: true,
        });
        self.destroying.extend(moved.map(|moved| (thread, moved)));
    }

    /// A call of librdmacm that this thread has made is over.
    pub fn returned(&mut self, thread: i32) {
        self.destroying.remove(&thread);
    }

    /// A thread is in a system call: futex(2) with this address, or another. Reports that it waits for events
    /// to be acknowledged, once it does so for `limit`.
    pub fn waits(&mut self, thread: i32, futex: Option<u64>, limit: Duration) -> Option<Finding> {
        let of = *self.destroying.get(&thread)?;
        let is_condition = |at: u64| (of.uid..of.uid.saturating_add(ID_SIZE)).contains(&at);
        if !futex.is_some_and(is_condition) {
            // If its end is observed: it may not have come to the wait yet.
            if !of.is_observed {
                self.destroying.remove(&thread);
            }
            return None;
        }
        if of.since.elapsed() < limit {
            return None;
        }
        self.destroying.remove(&thread);
        let count = match of.events {
            Some(events) => format!("some of {events}"),
            None => "some".into(),
        };
        let object = Object::cm_id(of.id);
        Some(
            Finding::new(Rule::EventsUnacked, object, of.call, Outcome::Called)
                .with("count", count)
                .with("events", "events of the id")
                .with("verb", "rdma_ack_cm_event"),
        )
    }
}

/// Objects that librdmacm has made for ids, and ids that are gone.
#[derive(Default)]
pub struct Made {
    /// The id of each queue pair and CQ.
    pub objects: BTreeMap<usize, usize>,
    gone: BTreeSet<usize>,
}

impl Made {
    pub const fn new() -> Made {
        Made {
            objects: BTreeMap::new(),
            gone: BTreeSet::new(),
        }
    }

    /// An id exists, perhaps at the address of one that is gone.
    pub fn exists(&mut self, id: usize) {
        self.gone.remove(&id);
    }

    /// The id is destroyed, as its command says, which only a software device gets.
    pub fn destroyed(&mut self, id: usize) {
        self.gone.insert(id);
    }

    /// The id is about to be destroyed. What is left then is the program's.
    pub fn leaves(&mut self, id: usize) {
        self.objects.retain(|_, of| *of != id);
    }

    pub fn is_gone(&self, id: usize) -> bool {
        self.gone.contains(&id)
    }
}
