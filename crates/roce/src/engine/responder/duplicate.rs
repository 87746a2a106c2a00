//! Duplicate requests (9.7.5.1.3 to 9.7.5.1.5), and the responder resources from which duplicate READs and
//! atomics are answered.

use super::execute::remote_key;
use super::{Attributes, Hca, Operation, Psn, Request, Responder, Response, Reth};
use crate::engine::response_queue::ReadResponse;
use crate::engine::{Access, RemoteKey};

/// A READ or atomic request whose response may be requested again.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    pub first_psn: Psn,
    /// Response packets.
    pub packets: u32,
    pub result: SavedResult,
}

/// The data that responding again needs.
#[derive(Clone, Copy, Debug)]
pub enum SavedResult {
    /// The memory is read again.
    Read(Reth),
    Atomic {
        original_value: u64,
    },
}

impl Responder {
    /// Saves a resource. Discards the oldest ones beyond `max_dest_rd_atomic`, with their unsent
    /// responses.
    pub(super) fn save_resource(&mut self, resource: Resource, attributes: &Attributes) {
        let limit = usize::from(attributes.max_dest_rd_atomic).max(1);
        while self.resources.len() >= limit {
            if let Some(old) = self.resources.pop_front() {
                self.responses.drop_read(old.first_psn);
            }
        }
        self.resources.push_back(resource);
    }

    /// Allocates what executing a request needs. False if there is no memory.
    pub(in crate::engine) fn try_reserve(&mut self) -> bool {
        self.responses.try_reserve() && self.resources.try_reserve(1).is_ok()
    }

    /// A request that has been executed before.
    pub(super) fn on_duplicate(
        &mut self,
        operation: Operation,
        request: &impl Request,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) {
        let psn = request.psn();
        match operation {
            Operation::AtomicWrite | Operation::Flush => {
                self.responses.push_duplicate(Response::Empty { psn });
            }
            Operation::CmpSwap | Operation::FetchAdd => self.on_duplicate_atomic(psn),
            Operation::ReadRequest => self.on_duplicate_read(request, attributes, hca),
            Operation::Reserved => {}
            // A PSN after the last one that an ACK may cover was never executed as a SEND or WRITE.
            _ if psn.distance(self.ack_psn) <= 0 => self.responses.push_ack(self.ack_psn),
            _ => {}
        }
    }

    /// The resource of the request that `psn` belongs to.
    fn resource(&self, psn: Psn) -> Option<Resource> {
        let covers = |resource: &&Resource| {
            (0..resource.packets as i32).contains(&psn.distance(resource.first_psn))
        };
        self.resources.iter().find(covers).copied()
    }

    /// A READ has been answered completely for the first time.
    pub(super) fn report_read(&self, first_psn: Psn, hca: &mut impl Hca) {
        let is_it = |resource: &&Resource| resource.first_psn == first_psn;
        let resource = self.resources.iter().find(is_it);
        if let Some(SavedResult::Read(reth)) = resource.map(|resource| resource.result) {
            hca.on_peer_request(Access::Read, Some(reth.len));
        }
    }

    fn on_duplicate_atomic(&mut self, psn: Psn) {
        let result = self.resource(psn).map(|resource| resource.result);
        if let Some(SavedResult::Atomic { original_value }) = result {
            self.responses.push_duplicate(Response::Atomic {
                psn,
                original_value,
                duplicate: true,
            });
        }
    }

    /// Answers a READ request for all or the rest of what was requested before; drops any other
    /// (9.7.5.1.4).
    fn on_duplicate_read(
        &mut self,
        request: &impl Request,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) {
        let psn = request.psn();
        let (Some(resource), Some(reth)) = (self.resource(psn), request.reth()) else {
            return;
        };
        let SavedResult::Read(saved) = resource.result else {
            return;
        };
        let skipped = psn.distance(resource.first_psn) as u32;
        let offset = u64::from(skipped) * u64::from(attributes.mtu);
        let within = reth.rkey == saved.rkey
            && reth.va == saved.va.wrapping_add(offset)
            && offset + u64::from(reth.len) <= u64::from(saved.len)
            && skipped + request.read_psns(reth.len, attributes.mtu) <= resource.packets;
        // The key may have been invalidated since: the peer has all its data, and the network
        // duplicated the request. That must not break the connection.
        let key = remote_key(request, reth.rkey);
        if within && may_read(key, &reth, hca) {
            self.responses.push_duplicate(Response::Read(ReadResponse {
                first_psn: resource.first_psn,
                psn,
                va: reth.va,
                key,
                remaining: reth.len,
                sent: 0,
                duplicate: true,
                copy: None,
            }));
        }
    }
}

/// Whether the peer may still read the range.
fn may_read(key: RemoteKey, reth: &Reth, hca: &mut impl Hca) -> bool {
    let len = reth.len.into();
    len == 0 || hca.check_remote(key, reth.va, len, Access::Read).is_ok()
}
