//! The responses of a responder: those that wait, and what duplicates are answered from (9.7.5).
//!
//! Not here: their order in the queue (`response_queue`); writing them as packets (`transmit`) or into shared
//! memory (`fragments`).

mod fragments;
mod transmit;

use super::execute::remote_key;
use super::resources::{Resource, Resources, SavedResult};
use crate::engine::attributes::Attributes;
use crate::engine::pacer::Pacer;
use crate::engine::request::Request;
use crate::engine::response_queue::{ReadResponse, Response, ResponseQueue};
use crate::engine::{Access, Hca, QpConfig, RemoteKey};
use crate::wire::{AethKind, Operation, Psn, Reth};

/// The result of [`Responses::next_response`] and [`Responses::next_fragment`].
pub enum NextResponse<T> {
    /// Nothing can be sent now.
    None,
    /// Wrote a packet or a fragment.
    Sent(T),
    /// Wrote a NAK (None if the buffer is too small): the memory of a READ in
    /// progress is not accessible any more. The queue pair moves to ERR.
    AccessError(Option<T>),
}

impl<T> From<Option<T>> for NextResponse<T> {
    fn from(sent: Option<T>) -> NextResponse<T> {
        sent.map_or(NextResponse::None, NextResponse::Sent)
    }
}

/// The responses of a queue pair.
#[derive(Debug)]
pub struct Responses {
    queue: ResponseQueue,
    resources: Resources,
    /// Messages completed (MSN, 24 bits).
    msn: Psn,
    /// Paces READ responses.
    pacer: Pacer,
}

impl Responses {
    /// No responses of a queue pair.
    pub fn new(config: &QpConfig) -> Responses {
        Responses {
            queue: ResponseQueue::default(),
            resources: Resources::default(),
            msn: Psn::new(0),
            pacer: Pacer::new(config.service),
        }
    }

    /// Allocates what executing a request needs. False if there is no memory.
    pub fn try_reserve(&mut self) -> bool {
        self.queue.try_reserve() && self.resources.try_reserve()
    }

    /// The responses that wait.
    #[inline]
    pub fn queue(&self) -> &ResponseQueue {
        &self.queue
    }

    /// The responses that wait, to add or remove some.
    #[inline]
    pub fn queue_mut(&mut self) -> &mut ResponseQueue {
        &mut self.queue
    }

    /// Whether one waits to be sent.
    #[inline]
    pub fn has_next(&self) -> bool {
        self.queue.front().is_some()
    }

    /// A message is complete.
    #[inline]
    pub fn count_message(&mut self) {
        self.msn = self.msn.next();
    }

    /// Queues the NAK for the request with that PSN.
    pub(super) fn push_nak(&mut self, psn: Psn, kind: AethKind) {
        self.queue.push(Response::Nak { psn, kind });
    }

    /// Queues the response to a READ or atomic that was executed, and saves its resource. Resources beyond
    /// `max_dest_rd_atomic` are discarded, with their unsent responses.
    pub(super) fn push_saved(&mut self, resource: Resource, response: Response, limit: u8) {
        let queue = &mut self.queue;
        self.resources
            .save(resource, limit, |psn| queue.drop_read(psn));
        self.queue.push(response);
    }

    /// A READ has been answered completely for the first time.
    pub(super) fn report_read(&self, first_psn: Psn, hca: &mut impl Hca) {
        if let Some(len) = self.resources.read_len(first_psn) {
            hca.on_peer_request(Access::Read, Some(len));
        }
    }

    /// Answers a request that has been executed before; `ack_psn`: the last one that an ACK may cover.
    pub(super) fn on_duplicate(
        &mut self,
        operation: Operation,
        request: &impl Request,
        ack_psn: Psn,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) {
        let psn = request.psn();
        match operation {
            Operation::AtomicWrite | Operation::Flush => {
                self.queue.push_duplicate(Response::Empty { psn });
            }
            Operation::CmpSwap | Operation::FetchAdd => self.on_duplicate_atomic(psn),
            Operation::ReadRequest => self.on_duplicate_read(request, attributes, hca),
            Operation::Reserved => {}
            // A PSN after the last one that an ACK may cover was never executed as a SEND or WRITE.
            _ if psn.distance(ack_psn) <= 0 => self.queue.push_ack(ack_psn),
            _ => {}
        }
    }

    fn on_duplicate_atomic(&mut self, psn: Psn) {
        let result = self.resources.find(psn).map(|resource| resource.result);
        if let Some(SavedResult::Atomic { original_value }) = result {
            self.queue.push_duplicate(Response::Atomic {
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
        let (Some(resource), Some(reth)) = (self.resources.find(psn), request.reth()) else {
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
            self.queue.push_duplicate(Response::Read(ReadResponse {
                first_psn: resource.first_psn,
                psn,
                va: reth.va,
                key,
                remaining: reth.len,
                sent: 0,
                duplicate: true,
                repeats: true,
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
