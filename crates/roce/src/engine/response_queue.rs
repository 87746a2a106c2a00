//! The responses that the responder of a reliable connection still has to send, in the order of their
//! PSNs (9.7.5.1). A READ is one entry; its response packets are built one at a time as they are sent. They
//! have the bytes as they were before later requests were executed ([`ResponseQueue::try_copy_reads`]).

use std::collections::VecDeque;

use super::read_copy::ReadCopy;
use super::{Hca, RemoteError, RemoteKey};
use crate::wire::{AethKind, NakCode, Psn};

/// The most responses that wait. A request whose response finds no room is dropped.
const MAX_RESPONSES: usize = 1024;

/// The most bytes of READs that a queue pair copies: the largest congestion window of a uroce peer.
const MAX_COPIED: usize = 2 << 20;

/// The responses to a READ request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadResponse {
    /// The PSN of the request when it was first executed.
    pub first_psn: Psn,
    /// The PSN of the next response packet.
    pub psn: Psn,
    pub va: u64,
    pub key: RemoteKey,
    /// Bytes that have not been sent.
    pub remaining: u32,
    /// Bytes that have been sent.
    pub sent: u32,
    /// The request is a duplicate.
    pub duplicate: bool,
    /// Some of these response packets may have been sent before.
    pub repeats: bool,
    /// The bytes, or those of the last response packets, if a later request may have changed the memory.
    pub copy: Option<Box<ReadCopy>>,
}

impl ReadResponse {
    /// Reads the bytes of the next response packet.
    pub fn read(&self, into: &mut [u8], hca: &mut impl Hca) -> Result<(), RemoteError> {
        let copy = self.copy.as_ref();
        match copy.and_then(|copy| copy.get(self.va, into.len())) {
            Some(bytes) => into.copy_from_slice(bytes),
            None => hca.read_remote(self.key, self.va, into)?,
        }
        Ok(())
    }

    /// The bytes that its copy has or would have.
    fn copied_len(&self) -> usize {
        let len = self.remaining as usize;
        self.copy.as_ref().map_or(len, |copy| copy.len().max(len))
    }

    /// Copies the bytes that have not been sent. False if there is no memory, or the peer may not read any
    /// more.
    fn try_copy(&mut self, hca: &mut impl Hca) -> bool {
        let len = self.remaining as usize;
        let copy = self.copy.as_deref();
        if len == 0 || copy.is_some_and(|copy| copy.get(self.va, len).is_some()) {
            return true;
        }
        let copied = ReadCopy::try_new(self.key, self.va, len, copy, hca);
        let is_copied = copied.is_some();
        if is_copied {
            self.copy = copied.map(Box::new);
        }
        is_copied
    }
}

/// A response that waits to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    Ack {
        psn: Psn,
    },
    Nak {
        psn: Psn,
        kind: AethKind,
    },
    Atomic {
        psn: Psn,
        original_value: u64,
        /// The request is a duplicate.
        duplicate: bool,
    },
    /// A READ response without payload, to an ATOMIC WRITE or FLUSH.
    Empty {
        psn: Psn,
    },
    Read(ReadResponse),
}

impl Response {
    fn psn(&self) -> Psn {
        match self {
            Response::Ack { psn }
            | Response::Nak { psn, .. }
            | Response::Atomic { psn, .. }
            | Response::Empty { psn } => *psn,
            Response::Read(read) => read.psn,
        }
    }
}

/// The waiting responses, in the order of their PSNs.
#[derive(Debug, Default)]
pub struct ResponseQueue {
    queue: VecDeque<Response>,
    /// A request was sent ahead of the first response.
    yielded: bool,
    /// A READ without a copy may wait.
    may_need_copies: bool,
}

impl ResponseQueue {
    /// Allocates space for what one request adds. False if there is no memory.
    pub fn try_reserve(&mut self) -> bool {
        // A response, and a NAK behind it.
        self.queue.try_reserve(2).is_ok()
    }

    /// The next response to send.
    pub fn front(&self) -> Option<&Response> {
        self.queue.front()
    }

    /// Removes the first response, which has been sent or is dropped.
    pub fn pop_front(&mut self) {
        self.queue.pop_front();
    }

    /// The first response has been sent.
    pub fn on_sent(&mut self) {
        self.queue.pop_front();
        self.yielded = false;
    }

    /// A response with `len` bytes of the READ at the front has been sent in place of that number of packets;
    /// more of them follow.
    pub fn on_read_response_sent(&mut self, len: u32, packets: u32) {
        if let Some(Response::Read(read)) = self.queue.front_mut() {
            read.psn = read.psn + packets;
            read.va = read.va.wrapping_add(len.into());
            read.remaining -= len;
            read.sent += len;
        }
    }

    /// Acknowledges all packets up to `psn`. Extends an ACK that waits (9.7.5.1.2).
    pub fn push_ack(&mut self, psn: Psn) {
        if self.queue.is_empty() {
            return self.queue.push_back(Response::Ack { psn });
        }
        let place = self.place_after(psn);
        match place.checked_sub(1).and_then(|i| self.queue.get_mut(i)) {
            Some(Response::Ack { psn: acked }) => *acked = psn,
            _ => self.queue.insert(place, Response::Ack { psn }),
        }
    }

    /// Appends the response to a new request.
    pub fn push(&mut self, response: Response) {
        self.may_need_copies |= matches!(response, Response::Read(_));
        self.queue.push_back(response);
    }

    /// Inserts the response to a duplicate request. A READ response that still waits restarts where the
    /// duplicate asks for it; any other response that still waits is not inserted a second time.
    pub fn push_duplicate(&mut self, response: Response) {
        self.may_need_copies |= matches!(response, Response::Read(_));
        let response = match response {
            Response::Read(new) => match self.restart_read(new) {
                None => return,
                Some(new) => Response::Read(new),
            },
            other => other,
        };
        let place = self.place_after(response.psn());
        let before = place.checked_sub(1).and_then(|i| self.queue.get(i));
        let waits = match (before, &response) {
            (Some(Response::Atomic { psn: old, .. }), Response::Atomic { psn: new, .. }) => {
                old == new
            }
            (before, response) => before == Some(response),
        };
        if !waits && self.has_room() {
            self.queue.insert(place, response);
        }
    }

    /// Replaces the waiting response to the same READ request. Returns the new one if there is none.
    fn restart_read(&mut self, new: ReadResponse) -> Option<ReadResponse> {
        let mut reads = self.queue.iter_mut().filter_map(|response| match response {
            Response::Read(read) => Some(read),
            _ => None,
        });
        let Some(old) = reads.find(|read| read.first_psn == new.first_psn) else {
            return Some(new);
        };
        let (duplicate, copy) = (old.duplicate, old.copy.take());
        *old = ReadResponse {
            duplicate,
            repeats: true,
            copy,
            ..new
        };
        None
    }

    /// Copies what the READs that wait have still to read: a request is about to be executed that may change
    /// memory, or after which the program may do so. False: that is too much, there is no memory, or the peer
    /// may not read any more.
    pub fn try_copy_reads(&mut self, hca: &mut impl Hca) -> bool {
        if !self.may_need_copies {
            return true;
        }
        let reads = self.queue.iter().filter_map(|response| match response {
            Response::Read(read) => Some(read.copied_len()),
            _ => None,
        });
        if reads.sum::<usize>() > MAX_COPIED {
            return false;
        }
        let mut is_copied = true;
        self.queue.retain_mut(|response| {
            let Response::Read(read) = response else {
                return true;
            };
            let has_copy = read.try_copy(hca);
            // The peer may ask for a duplicate once more.
            is_copied &= has_copy || read.duplicate;
            has_copy || !read.duplicate
        });
        self.may_need_copies = !is_copied;
        is_copied
    }

    /// The index after all responses to requests up to `psn`.
    fn place_after(&self, psn: Psn) -> usize {
        let later = |response: &&Response| response.psn().distance(psn) > 0;
        self.queue.len() - self.queue.iter().rev().take_while(later).count()
    }

    /// Whether the queue has room for one more response.
    pub fn has_room(&self) -> bool {
        self.queue.len() < MAX_RESPONSES
    }

    /// Removes an unsent RNR NAK or PSN sequence error NAK: a packet with the ePSN has arrived.
    pub fn withdraw_nak(&mut self) {
        if let Some(Response::Nak {
            kind: AethKind::RnrNak { .. } | AethKind::Nak(NakCode::PsnSequence),
            ..
        }) = self.queue.back()
        {
            self.queue.pop_back();
        }
    }

    /// READ and atomic requests, duplicates excluded, whose responses have not been sent completely.
    pub fn pending_rd_atomic(&self) -> usize {
        let pending = |response: &&Response| match response {
            Response::Read(read) => !read.duplicate,
            Response::Atomic { duplicate, .. } => !duplicate,
            _ => false,
        };
        self.queue.iter().filter(pending).count()
    }

    /// Whether the response to a READ waits that may have been sent before.
    #[inline]
    pub fn repeats_reads(&self) -> bool {
        let is_one = |response: &Response| match response {
            Response::Read(read) => read.repeats,
            _ => false,
        };
        self.queue.iter().any(is_one)
    }

    /// Drops the response to the READ request that was first executed at `first_psn`.
    pub fn drop_read(&mut self, first_psn: Psn) {
        self.queue.retain(|response| match response {
            Response::Read(read) => read.first_psn != first_psn,
            _ => true,
        });
    }

    /// Drops the first READ response and everything after it: memory must not be read any more.
    pub fn withhold_reads(&mut self) {
        let is_read = |response: &Response| matches!(response, Response::Read(_));
        if let Some(place) = self.queue.iter().position(is_read) {
            self.queue.truncate(place);
        }
    }

    /// Removes all responses.
    pub fn clear(&mut self) {
        self.queue.clear();
    }

    /// Whether a request packet may be sent before the first response. True once for an ACK: the kernel
    /// splits one buffer into several packets (UDP_SEGMENT) only if none but the last is shorter. With
    /// the ACK last, the program's reply and the ACK of the request leave in one system call.
    pub fn yields_to_request(&mut self) -> bool {
        let yields = !self.yielded && self.ack_is_next();
        self.yielded |= yields;
        yields
    }

    /// Whether the next response is an ACK.
    pub fn ack_is_next(&self) -> bool {
        matches!(self.queue.front(), Some(Response::Ack { .. }))
    }

    /// Whether the next response is a READ response, which the pacer may delay.
    pub fn read_is_next(&self) -> bool {
        matches!(self.queue.front(), Some(Response::Read(_)))
    }
}
