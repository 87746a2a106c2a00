//! What the responder of a reliable connection has to send: acknowledgments and responses, in the
//! order of their PSNs (9.7.5.1). Read responses are made one by one as they are sent.

use std::collections::VecDeque;

use super::{Access, Host, Qp, QpEvent, QpState, Time, emit, requester::part_of};
use crate::wire::{Aeth, AethKind, Headers, NakCode, Operation, Part, Psn};

/// Credits are not counted.
const CREDITS: u8 = 31;
/// More answers than that do not wait; the requests behind them are lost.
const MOST: usize = 1024;

/// The answer to a READ request that is being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadReply {
    /// The PSN of the request's first execution.
    pub first: Psn,
    /// Of the next response.
    pub psn: Psn,
    pub va: u64,
    pub rkey: u32,
    pub left: u32,
    /// A response has been sent.
    pub began: bool,
    /// The request came for the first time.
    pub original: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Ack(Psn),
    Refusal(Psn, AethKind),
    Atomic {
        psn: Psn,
        before: u64,
        /// The request came for the first time.
        original: bool,
    },
    /// Of a request that is answered without data.
    Empty(Psn),
    Read(ReadReply),
}

impl Reply {
    fn psn(&self) -> Psn {
        match self {
            Reply::Ack(psn)
            | Reply::Refusal(psn, _)
            | Reply::Atomic { psn, .. }
            | Reply::Empty(psn) => *psn,
            Reply::Read(read) => read.psn,
        }
    }
}

#[derive(Debug, Default)]
pub struct Replies {
    queue: VecDeque<Reply>,
    /// A request has been let go before the first.
    gave_way: bool,
}

impl Replies {
    /// Acknowledges all up to that packet; one acknowledgment stands for several.
    pub fn ack(&mut self, psn: Psn) {
        let place = self.place_behind(psn);
        match place.checked_sub(1).and_then(|i| self.queue.get_mut(i)) {
            Some(Reply::Ack(before)) => *before = psn,
            _ => self.queue.insert(place, Reply::Ack(psn)),
        }
    }

    /// The answer to a new request.
    pub fn push(&mut self, reply: Reply) {
        self.queue.push_back(reply);
    }

    /// The answer to a request that had been executed before.
    pub fn again(&mut self, reply: Reply) {
        if let Reply::Read(new) = reply {
            let same = |old: &&mut Reply| matches!(old, Reply::Read(old) if old.first == new.first);
            if let Some(Reply::Read(old)) = self.queue.iter_mut().find(same) {
                let original = old.original;
                *old = ReadReply { original, ..new };
                return;
            }
        }
        let place = self.place_behind(reply.psn());
        let there = place.checked_sub(1).and_then(|i| self.queue.get(i));
        let waits = match (there, &reply) {
            (Some(Reply::Atomic { psn: old, .. }), Reply::Atomic { psn: new, .. }) => old == new,
            (there, reply) => there == Some(reply),
        };
        if !waits && self.has_room() {
            self.queue.insert(place, reply);
        }
    }

    /// Behind all answers to requests up to that packet.
    fn place_behind(&self, psn: Psn) -> usize {
        let later = |reply: &&Reply| reply.psn().distance(psn) > 0;
        self.queue.len() - self.queue.iter().rev().take_while(later).count()
    }

    pub fn has_room(&self) -> bool {
        self.queue.len() < MOST
    }

    /// What was complained about has come.
    pub fn withdraw_complaint(&mut self) {
        if let Some(Reply::Refusal(
            _,
            AethKind::RnrNak { .. } | AethKind::Nak(NakCode::PsnSequence),
        )) = self.queue.back()
        {
            self.queue.pop_back();
        }
    }

    /// Requests for data, made once, whose answers have not been sent.
    pub fn pending(&self) -> usize {
        let pending = |reply: &&Reply| match reply {
            Reply::Read(read) => read.original,
            Reply::Atomic { original, .. } => *original,
            _ => false,
        };
        self.queue.iter().filter(pending).count()
    }

    /// That request's answer cannot be asked for any more.
    pub fn forget(&mut self, first: Psn) {
        self.queue
            .retain(|reply| !matches!(reply, Reply::Read(read) if read.first == first));
    }

    /// No memory is read any more.
    pub fn withhold_reads(&mut self) {
        if let Some(place) = (self.queue.iter()).position(|reply| matches!(reply, Reply::Read(_))) {
            self.queue.truncate(place);
        }
    }

    /// Whether the first is an acknowledgment that lets a request go before it; each does so once.
    pub fn gives_way(&mut self) -> bool {
        let gives_way = !self.gave_way && matches!(self.queue.front(), Some(Reply::Ack(_)));
        self.gave_way |= gives_way;
        gives_way
    }

    pub fn reads_next(&self) -> bool {
        matches!(self.queue.front(), Some(Reply::Read(_)))
    }
}

impl Qp {
    /// The next answer to the peer's requests.
    pub(super) fn next_reply(
        &mut self,
        now: Time,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<usize> {
        let ack = AethKind::Ack { credits: CREDITS };
        let headers = match *self.replies.queue.front()? {
            Reply::Ack(psn) => self.reply(Operation::Ack, Part::Only, psn, ack),
            Reply::Refusal(psn, kind) => self.reply(Operation::Ack, Part::Only, psn, kind),
            Reply::Empty(psn) => self.reply(Operation::ReadResponse, Part::Only, psn, ack),
            Reply::Atomic { psn, before, .. } => Headers {
                atomic_ack: Some(before),
                ..self.reply(Operation::AtomicAck, Part::Only, psn, ack)
            },
            Reply::Read(read) => return self.next_response(read, now, host, buffer),
        };
        self.replies.queue.pop_front();
        self.replies.gave_way = false;
        emit::seal(headers, 0, buffer)
    }

    fn reply(&self, operation: Operation, part: Part, psn: Psn, kind: AethKind) -> Headers {
        Headers {
            aeth: Some(Aeth {
                kind,
                msn: self.responder.messages,
            })
            .filter(|_| part != Part::Middle),
            ..self.headers(operation, part, psn)
        }
    }

    fn next_response(
        &mut self,
        read: ReadReply,
        now: Time,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<usize> {
        if !self.pace.allows(now) {
            return None;
        }
        let mtu = self.attributes.mtu;
        let len = read.left.min(mtu);
        let part = part_of(!read.began, read.left <= mtu);
        let ack = AethKind::Ack { credits: CREDITS };
        let headers = self.reply(Operation::ReadResponse, part, read.psn, ack);
        let payload = emit::payload(&headers, len as usize, buffer)?;
        if len > 0 && host.read_remote(read.rkey, read.va, payload).is_err() {
            // The key has gone since.
            if !read.original {
                self.replies.queue.pop_front();
                return self.next_reply(now, host, buffer);
            }
            self.replies.queue.clear();
            let access = AethKind::Nak(NakCode::RemoteAccess);
            if self.state != QpState::Err {
                host.event(QpEvent::AccessError);
                self.enter_error(host);
            }
            let headers = self.reply(Operation::Ack, Part::Only, read.psn, access);
            return emit::seal(headers, 0, buffer);
        }
        let sealed = emit::seal(headers, len as usize, buffer)?;
        self.pace.sent(sealed);
        if read.left > mtu {
            self.replies.queue[0] = Reply::Read(ReadReply {
                psn: read.psn.next(),
                va: read.va.wrapping_add(len.into()),
                left: read.left - len,
                began: true,
                ..read
            });
        } else {
            self.replies.queue.pop_front();
        }
        Some(sealed)
    }

    /// Whether a peer may still read what it asks for again.
    pub(super) fn may_read(&self, host: &mut impl Host, rkey: u32, va: u64, len: u32) -> bool {
        len == 0
            || host
                .check_remote(rkey, va, len.into(), Access::Read)
                .is_ok()
    }
}
