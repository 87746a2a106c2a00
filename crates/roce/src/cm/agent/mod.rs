//! The communication manager of a process: a table of connections by communication ID, their timers, and the
//! dispatch of messages to them. Pure: messages and the time go in; messages and events come out.
//!
//! Not here: the state machine of one connection (`connection`), the ids of librdmacm (`ucma`).
//!
//! A communication ID is unique on the host: its upper bits are a prefix of the process, so that the process
//! with port 4791 finds out from a message which process it is for ([`prefix_of`]). A process has as many
//! prefixes as it needs: there are far more of them than another user can take away.
//!
//! Specification: chapter 12.

mod receive;
mod route;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

pub use route::{Incoming, Outgoing, Route};

use super::Error;
use super::connection::{Connection, Effects, Event, FIRST_RETRY};
use super::mad::{
    About, CmMad, CmMessage, Ids, Mad, REJ_PRIVATE, Rej, Req, SIDR_REP_PRIVATE, SidrRep, SidrReq,
    sidr_status,
};
use crate::engine::{Gid, Time};

/// Bits of a communication ID below the prefix.
const INDEX_BITS: u32 = 8;
/// Communication IDs with one prefix.
pub const IDS_PER_PREFIX: u32 = 1 << INDEX_BITS;
/// The prefixes of a network namespace are from 1 to this.
pub const PREFIXES: u32 = (1 << (32 - INDEX_BITS)) - 1;
/// Connections that a process may have.
const CONNECTIONS_MAX: usize = 1 << 17;

/// The prefix of a communication ID.
pub fn prefix_of(id: u32) -> u32 {
    id >> INDEX_BITS
}

/// The result of receiving a message: the connection it is for, and the event.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// The message was handled; there is no event to report.
    Handled,
    /// The owner of a connection gets an event.
    Event {
        /// The owner of the connection, as [`Agent::start`] and the like got it.
        owner: u32,
        /// The event.
        event: Event,
    },
    /// A peer asks for a connection, and this process has none with its IDs.
    Request {
        /// The REQ.
        req: Box<Req>,
        /// The MAD that it came in.
        mad: CmMad,
    },
    /// A peer asks for the queue pair of a service.
    Resolution {
        /// The SIDR_REQ.
        req: Box<SidrReq>,
        /// The MAD that it came in.
        mad: CmMad,
    },
}

struct AgentEntry {
    connection: Connection,
    route: Route,
    /// The id that gets the events; None after the program has destroyed it.
    owner: Option<u32>,
    remote: Option<Remote>,
}

/// The peer's end of a connection, by which its messages are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Remote {
    guid: u64,
    gid: Gid,
    id: u32,
    qpn: u32,
}

/// All connections of a process.
#[derive(Default)]
pub struct Agent {
    /// The next communication ID, and how many there are with its prefix from there.
    next_id: u32,
    ids_left: u32,
    /// Connections by prefix.
    prefixes: FxHashMap<u32, u32>,
    entries: FxHashMap<u32, AgentEntry>,
    /// Connections by the peer's GUID and communication ID.
    remote_ids: FxHashMap<(u64, Gid, u32), u32>,
    /// Connections by the peer's GUID and queue pair.
    remote_qpns: FxHashMap<(u64, Gid, u32), u32>,
    /// Service ID resolutions by the peer's GID and request ID.
    resolutions: FxHashMap<(Gid, u32), u32>,
    deadlines: BTreeSet<(Time, u32)>,
    outgoing: Vec<Outgoing>,
}

impl Agent {
    /// An agent without connections.
    pub fn new() -> Agent {
        Agent::default()
    }

    /// Whether [`Agent::alloc_id`] needs a new prefix.
    pub fn needs_prefix(&self) -> bool {
        self.ids_left == 0
    }

    /// The next communication IDs have this prefix, which no process of the host has had for long.
    pub fn add_prefix(&mut self, prefix: u32) {
        self.next_id = prefix << INDEX_BITS;
        self.ids_left = IDS_PER_PREFIX;
    }

    /// Whether a connection has a communication ID with this prefix, or the next one will.
    pub fn uses_prefix(&self, prefix: u32) -> bool {
        self.prefixes.contains_key(&prefix)
            || self.ids_left > 0 && prefix_of(self.next_id) == prefix
    }

    /// The messages to send, in their order; the agent forgets them.
    pub fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    /// When [`Agent::handle_timeout`] is due.
    pub fn deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Whether the program has no connection, and no peer has to confirm that one is over. What is left is in
    /// TimeWait, for messages that are late.
    pub fn is_done(&self) -> bool {
        let done =
            |entry: &AgentEntry| entry.owner.is_none() && !entry.connection.awaits_confirmation();
        self.entries.values().all(done)
    }

    /// A communication ID for a new connection. Fails if there are too many, or without a prefix.
    pub fn alloc_id(&mut self) -> Result<u32, Error> {
        if self.entries.len() >= CONNECTIONS_MAX || self.needs_prefix() {
            return Err(Error::TooMany);
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        self.ids_left -= 1;
        Ok(id)
    }

    /// Adds a connection of `owner` that has been started, and sends its first message.
    pub fn start(&mut self, owner: u32, connection: Connection, route: Route, first: Mad) -> u32 {
        self.outgoing.push(Outgoing { route, mad: first });
        self.insert(owner, connection, route, None)
    }

    /// Adds the connection that a peer asks for. Returns its communication ID.
    pub fn accept_request(
        &mut self,
        owner: u32,
        req: &Req,
        tid: u64,
        route: Route,
        own_guid: u64,
    ) -> Result<u32, Error> {
        let id = self.alloc_id()?;
        let remote = Remote {
            guid: req.ca_guid,
            gid: route.dgid,
            id: req.local_id,
            qpn: req.qpn,
        };
        let connection = Connection::requested(req, tid, id, own_guid);
        Ok(self.insert(owner, connection, route, Some(remote)))
    }

    /// Adds the service ID resolution that a peer asks for. Returns its communication ID.
    pub fn accept_resolution(
        &mut self,
        owner: u32,
        req: &SidrReq,
        tid: u64,
        route: Route,
    ) -> Result<u32, Error> {
        let id = self.alloc_id()?;
        let connection = Connection::resolution_requested(req, tid, id);
        self.resolutions.insert((route.dgid, req.request_id), id);
        Ok(self.insert(owner, connection, route, None))
    }

    fn insert(
        &mut self,
        owner: u32,
        connection: Connection,
        route: Route,
        remote: Option<Remote>,
    ) -> u32 {
        let id = connection.ids().local;
        if let Some(deadline) = connection.deadline() {
            self.deadlines.insert((deadline, id));
        }
        if let Some(remote) = remote {
            self.add_remote(id, remote);
        }
        *self.prefixes.entry(prefix_of(id)).or_default() += 1;
        self.entries.insert(
            id,
            AgentEntry {
                connection,
                route,
                owner: Some(owner),
                remote,
            },
        );
        id
    }

    fn add_remote(&mut self, id: u32, remote: Remote) {
        let Remote { guid, gid, .. } = remote;
        self.remote_ids.insert((guid, gid, remote.id), id);
        self.remote_qpns.insert((guid, gid, remote.qpn), id);
    }

    /// The connection with this communication ID.
    pub fn connection(&self, id: u32) -> Option<&Connection> {
        self.entries.get(&id).map(|entry| &entry.connection)
    }

    /// Lets `step` act on a connection, and sends the message that it returns. Fails if there is none.
    pub fn act(
        &mut self,
        id: u32,
        step: impl FnOnce(&mut Connection) -> Result<Mad, Error>,
    ) -> Result<(), Error> {
        let entry = self.entries.get_mut(&id).ok_or(Error::NoConnection)?;
        let before = entry.connection.deadline();
        let result = step(&mut entry.connection);
        let route = entry.route;
        self.rearm(id, before);
        self.outgoing.push(Outgoing {
            route,
            mad: result?,
        });
        Ok(())
    }

    /// The program received a packet of the peer before the peer's RTU.
    pub fn communication_established(&mut self, id: u32) -> Result<Event, Error> {
        let entry = self.entries.get_mut(&id).ok_or(Error::NoConnection)?;
        let before = entry.connection.deadline();
        let result = entry.connection.communication_established();
        self.rearm(id, before);
        result
    }

    /// The program has destroyed the connection: the peer gets a DREQ or REJ, and no event is reported.
    pub fn destroy(&mut self, id: u32, now: Time) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.owner = None;
        let before = entry.connection.deadline();
        let (mad, route) = (entry.connection.destroy(now), entry.route);
        self.outgoing.extend(mad.map(|mad| Outgoing { route, mad }));
        self.rearm(id, before);
    }

    /// Rejects a request, of which nothing is remembered.
    pub fn reject_request(&mut self, req: &Req, tid: u64, route: Route, reason: u16) {
        let ids = Ids {
            local: 0,
            remote: req.local_id,
        };
        self.send_rej(ids, About::Req, reason, tid, route);
    }

    /// Rejects a message of a connection that this process does not have.
    fn send_rej(&mut self, ids: Ids, about: About, reason: u16, tid: u64, route: Route) {
        let rej = Rej {
            ids,
            about,
            reason,
            info: None,
            private: [0; REJ_PRIVATE],
        };
        self.send(tid, route, CmMessage::Rej(Box::new(rej)));
    }

    /// Answers that nobody offers the service.
    pub fn reject_resolution(&mut self, req: &SidrReq, tid: u64, route: Route) {
        let message = CmMessage::SidrRep(Box::new(SidrRep {
            request_id: req.request_id,
            status: sidr_status::UNSUPPORTED,
            qpn: 0,
            service_id: req.service_id,
            qkey: 0,
            private: [0; SIDR_REP_PRIVATE],
        }));
        self.send(tid, route, message);
    }

    fn send(&mut self, tid: u64, route: Route, message: CmMessage) {
        let mad = CmMad {
            tid,
            modifier: 0,
            message,
        }
        .bytes();
        self.outgoing.push(Outgoing { route, mad });
    }

    /// Lets a connection handle a message.
    fn step(&mut self, id: u32, mad: CmMad, now: Time) -> Received {
        self.run(id, |connection| connection.receive(mad, now))
    }

    fn run(&mut self, id: u32, step: impl FnOnce(&mut Connection) -> Effects) -> Received {
        let Some(entry) = self.entries.get_mut(&id) else {
            return Received::Handled;
        };
        let before = entry.connection.deadline();
        let output = step(&mut entry.connection);
        let (route, owner) = (entry.route, entry.owner);
        self.outgoing
            .extend(output.send.map(|mad| Outgoing { route, mad }));
        self.rearm(id, before);
        match (owner, output.event) {
            (Some(owner), Some(event)) => Received::Event { owner, event },
            _ => Received::Handled,
        }
    }

    /// Handles the timeout of the connection with the earliest deadline. None if none is due.
    pub fn handle_timeout(&mut self, now: Time) -> Option<Received> {
        let (at, id) = *self.deadlines.first()?;
        (at <= now).then(|| self.run(id, |connection| connection.handle_timeout(now)))
    }

    /// Sends once more what was sent once and is not answered: for a process that ends, and cannot retransmit
    /// it later.
    pub fn repeat_first_messages(&mut self, now: Time) {
        let later = now.after(FIRST_RETRY);
        while self.handle_timeout(later).is_some() {}
    }

    /// Follows a change of a connection's deadline, and forgets a connection that is over.
    fn rearm(&mut self, id: u32, before: Option<Time>) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        // A peer that disconnects after the program has destroyed the connection gets its answer.
        let after = entry.connection.deadline();
        let over = entry.owner.is_none() && after.is_none();
        if before != after {
            if let Some(before) = before {
                self.deadlines.remove(&(before, id));
            }
            if let Some(after) = after {
                self.deadlines.insert((after, id));
            }
        }
        if over {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: u32) {
        let Some(entry) = self.entries.remove(&id) else {
            return;
        };
        if let Entry::Occupied(mut connections) = self.prefixes.entry(prefix_of(id)) {
            *connections.get_mut() -= 1;
            if *connections.get() == 0 {
                connections.remove();
            }
        }
        if let Some(Remote {
            guid,
            gid,
            id: remote_id,
            qpn,
        }) = entry.remote
        {
            remove_if(&mut self.remote_ids, (guid, gid, remote_id), id);
            remove_if(&mut self.remote_qpns, (guid, gid, qpn), id);
        }
        let request = (entry.route.dgid, entry.connection.ids().remote);
        remove_if(&mut self.resolutions, request, id);
    }
}

/// Removes an entry unless it is another connection's by now.
fn remove_if<K: Eq + std::hash::Hash>(map: &mut FxHashMap<K, u32>, key: K, id: u32) {
    if map.get(&key) == Some(&id) {
        map.remove(&key);
    }
}
