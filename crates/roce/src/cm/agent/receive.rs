//! Messages of peers: which connection or service each is for, and what is answered if it is for none.

use super::{Agent, AgentEntry, Incoming, Outgoing, Received, Remote, Route, prefix_of};
use crate::cm::connection::{Connection, State};
use crate::cm::mad::{About, CmMad, CmMessage, ConnectionType, Ids, Rep, Req, reason};
use crate::engine::{Gid, Time};

impl Agent {
    /// Handles a message. `mad` is what [`CmMad::parse`] made of it.
    pub fn receive(&mut self, from: &Incoming, mad: CmMad, now: Time) -> Received {
        match mad.message.clone() {
            CmMessage::Req(req) => self.on_req(from, req, mad, now),
            CmMessage::SidrReq(req) => {
                let known = self.resolutions.get(&(from.src, req.request_id));
                if let Some(entry) = known.and_then(|id| self.entries.get(id)) {
                    let answer = entry.connection.on_repeated_sidr_req();
                    let route = entry.route;
                    self.outgoing
                        .extend(answer.map(|mad| Outgoing { route, mad }));
                    return Received::Handled;
                }
                Received::Resolution { req, mad }
            }
            CmMessage::Rej(rej) if rej.reason == reason::TIMEOUT => {
                let remote = rej.info.unwrap_or_default();
                let found = self.remote_ids.get(&(remote, from.src, rej.ids.local));
                match found.copied() {
                    Some(id) => self.step(id, mad, now),
                    None => self.on_reply(from, rej.ids, mad, now),
                }
            }
            CmMessage::Rej(rej) => self.on_reply(from, rej.ids, mad, now),
            CmMessage::Rep(rep) => self.on_rep(from, &rep, mad, now),
            CmMessage::SidrRep(rep) => {
                if !self.is_with(rep.request_id, from) {
                    return Received::Handled;
                }
                self.step(rep.request_id, mad, now)
            }
            CmMessage::Mra { ids, .. }
            | CmMessage::Rtu(ids)
            | CmMessage::Drep(ids)
            | CmMessage::Lap(ids)
            | CmMessage::Apr(ids) => self.on_reply(from, ids, mad, now),
            CmMessage::Dreq { ids, .. } => {
                if !self.is_of(ids, from) {
                    // The connection is forgotten: the peer may forget it too.
                    let swapped = Ids {
                        local: ids.remote,
                        remote: ids.local,
                    };
                    let route = Route::back(from.src, from.dst);
                    self.send(mad.tid, route, CmMessage::Drep(swapped));
                    return Received::Handled;
                }
                self.step(ids.remote, mad, now)
            }
        }
    }

    /// The peer of a queue pair has ended, which cannot disconnect any more: its connection is over. Returns
    /// the event of each connection of these two queue pairs, at most one of which is established.
    pub fn peer_lost(&mut self, qpn: u32, peer: &Gid, peer_qpn: u32) -> Vec<Received> {
        let is_lost = |entry: &&AgentEntry| {
            entry.route.dgid == *peer && entry.connection.qpns() == (qpn, peer_qpn)
        };
        let lost = self.entries.values().filter(is_lost);
        let ids: Vec<u32> = lost.map(|entry| entry.connection.ids().local).collect();
        let events = ids.into_iter();
        events
            .map(|id| self.run(id, Connection::peer_lost))
            .collect()
    }

    /// The process whose communication IDs have this prefix has ended, at one of the addresses for which
    /// `is_its` is true. Connections that wait for its answer are rejected.
    pub fn process_ended(&mut self, prefix: u32, is_its: impl Fn(&Gid) -> bool) -> Vec<Received> {
        let waits = |entry: &&AgentEntry| {
            let peer = entry.connection.awaited_peer();
            peer.is_some_and(|id| prefix_of(id) == prefix) && is_its(&entry.route.dgid)
        };
        let waiting = self.entries.values().filter(waits);
        let ids: Vec<u32> = waiting.map(|entry| entry.connection.ids().local).collect();
        let events = ids.into_iter();
        events
            .map(|id| self.run(id, Connection::process_ended))
            .collect()
    }

    /// Whether a connection or a resolution is with the sender of a message.
    fn is_with(&self, id: u32, from: &Incoming) -> bool {
        let found = self.entries.get(&id);
        found.is_some_and(|entry| entry.route.dgid == from.src)
    }

    /// Whether a message with these IDs, which are the sender's, is of a connection with that sender.
    fn is_of(&self, ids: Ids, from: &Incoming) -> bool {
        self.entries.get(&ids.remote).is_some_and(|entry| {
            let known = entry.connection.ids().remote;
            entry.route.dgid == from.src && (known == ids.local || known == 0 || ids.local == 0)
        })
    }

    fn on_reply(&mut self, from: &Incoming, ids: Ids, mad: CmMad, now: Time) -> Received {
        let about_req = match &mad.message {
            CmMessage::Mra { about, .. } => *about == About::Req,
            CmMessage::Rej(rej) => rej.about == About::Req && rej.reason != reason::TIMEOUT,
            _ => false,
        };
        // The answer to a late copy of a REQ that the peer has accepted since.
        let accepted = |connection: &Connection| connection.ids().remote != 0;
        if about_req && self.connection(ids.remote).is_some_and(accepted) {
            return Received::Handled;
        }
        if self.is_of(ids, from) {
            self.step(ids.remote, mad, now)
        } else {
            Received::Handled
        }
    }

    fn on_req(&mut self, from: &Incoming, req: Box<Req>, mad: CmMad, now: Time) -> Received {
        let route = Route::back(from.src, from.dst);
        let key = (req.ca_guid, from.src, req.local_id);
        if let Some(entry) = self
            .remote_ids
            .get(&key)
            .and_then(|id| self.entries.get(id))
        {
            let answer = entry.connection.on_repeated_req();
            self.outgoing
                .extend(answer.map(|mad| Outgoing { route, mad }));
            return Received::Handled;
        }
        let key = (req.ca_guid, from.src, req.qpn);
        if let Some(id) = self.stale_connection(&key) {
            self.reject_request(&req, mad.tid, route, reason::STALE_CONNECTION);
            let _ = self.act(id, |connection| connection.disconnect(now));
            return Received::Handled;
        }
        if let ConnectionType::Unsupported { .. } = req.connection {
            self.reject_request(&req, mad.tid, route, reason::INVALID_TRANSPORT);
            return Received::Handled;
        }
        Received::Request { req, mad }
    }

    /// The connection that still has the peer's queue pair number. As in the kernel, it has it no more in
    /// TimeWait and after a rejection: peers reuse their queue pairs.
    fn stale_connection(&self, key: &(u64, Gid, u32)) -> Option<u32> {
        let id = *self.remote_qpns.get(key)?;
        let state = self.entries.get(&id)?.connection.state();
        let is_over = matches!(state, State::TimeWait | State::Idle);
        (!is_over).then_some(id)
    }

    fn on_rep(&mut self, from: &Incoming, rep: &Rep, mad: CmMad, now: Time) -> Received {
        let id = rep.ids.remote;
        if !self.entries.contains_key(&id) {
            // The peer need not wait for an RTU (12.6.7.2). It knows this end by `id`.
            let ids = Ids {
                local: id,
                remote: rep.ids.local,
            };
            let route = Route::back(from.src, from.dst);
            self.send_rej(ids, About::Rep, reason::INVALID_COMM_ID, mad.tid, route);
        }
        if !self.is_of(rep.ids, from) {
            return Received::Handled;
        }
        let replied = self.connection(id).is_some_and(|connection| {
            matches!(connection.state(), State::ReqSent | State::MraReqReceived)
        });
        if replied {
            let qpn = if rep.qpn == 0 { rep.xrc_qpn } else { rep.qpn };
            let remote = Remote {
                guid: rep.ca_guid,
                gid: from.src,
                id: rep.ids.local,
                qpn,
            };
            self.add_remote(id, remote);
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.remote = Some(remote);
            }
        }
        self.step(id, mad, now)
    }
}
