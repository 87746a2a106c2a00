//! Polled completions: finds the requests that are done, and the first that has failed.
//!
//! Not here: why it has failed (`failure.rs`).

use std::time::Instant;

use ibverbs_abi::*;

use super::{Cq, FirstError, Qp, Receive, SendRequest, Shadow, Waiting};
use crate::diagnose::check::reasons::{self, operation, status_text};
use crate::diagnose::check::vendor;
use crate::diagnose::finding::{Finding, Kind, Object, Outcome};
use crate::diagnose::rules::Rule;

/// The members of a work completion that the rules use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Completion {
    /// 0 if the program's CQ does not report it.
    pub qpn: u32,
    pub wr_id: u64,
    pub status: u32,
    /// Valid without error only.
    pub opcode: u32,
    pub vendor_err: u32,
}

/// The work queue that a completion is of.
pub(super) enum Done {
    Send(SendRequest),
    Receive(Receive),
    /// The request is not known.
    Unknown,
}

/// The statuses that only send requests have.
const SENDS_ONLY: [u32; 9] = [
    IBV_WC_MW_BIND_ERR,
    IBV_WC_BAD_RESP_ERR,
    IBV_WC_REM_INV_REQ_ERR,
    IBV_WC_REM_ACCESS_ERR,
    IBV_WC_REM_OP_ERR,
    IBV_WC_RETRY_EXC_ERR,
    IBV_WC_RNR_RETRY_EXC_ERR,
    IBV_WC_REM_INV_RD_REQ_ERR,
    IBV_WC_RESP_TIMEOUT_ERR,
];

/// The first completed receives of a queue pair are examined for overlaps.
const FIRST: u64 = 2;

impl Shadow {
    /// A poll of a CQ has returned these completions, of as many as `asked`.
    pub fn polled(
        &mut self,
        address: usize,
        asked: u32,
        completions: &[Completion],
        call: &'static str,
    ) -> Vec<Finding> {
        let Some(cq) = self.cqs.get_mut(&address) else {
            return Vec::new();
        };
        cq.polls += 1;
        cq.last_poll = Some(Instant::now());
        cq.notify.last_poll = Some((completions.len() as u32, asked));
        cq.notify.armed_after_poll = false;
        let context = cq.context;
        if completions.is_empty() {
            return Vec::new();
        }
        cq.waiting = Waiting::default();
        let mut found = Vec::new();
        for completion in completions {
            if let Some(qp) = self.qp_of(context, address, completion) {
                let these = self.completed(address, qp, completion, call);
                if !these.is_empty() {
                    found.extend(these);
                }
            }
        }
        found
    }

    /// A poll begins; `thread` polls. Reports another thread that is polling a CQ for one thread.
    pub fn polling(&mut self, address: usize, thread: i32, call: &'static str) -> Vec<Finding> {
        let Some(cq) = self.cqs.get_mut(&address) else {
            return Vec::new();
        };
        if call == "ibv_start_poll" && cq.open_by == thread {
            return vec![not_ended(address, call)];
        }
        if !cq.single_threaded {
            return Vec::new();
        }
        let other = core::mem::replace(&mut cq.thread, thread);
        if other == 0 || other == thread {
            return Vec::new();
        }
        let object = Object::at(Kind::Cq, address);
        let flag = "IBV_CREATE_CQ_ATTR_SINGLE_THREADED";
        vec![super::overlap::overlap(
            object, call, other, thread, "CQ", flag,
        )]
    }

    /// ibv_start_poll has returned 0: the thread has the queue until ibv_end_poll.
    pub fn poll_begun(&mut self, address: usize, thread: i32) {
        if let Some(cq) = self.cqs.get_mut(&address) {
            cq.open_by = thread;
        }
    }

    /// ibv_end_poll without a poll that has begun.
    pub fn not_begun(&self, address: usize, thread: i32) -> Option<Finding> {
        let cq = self.cqs.get(&address)?;
        (cq.open_by != thread).then(|| {
            let object = Object::at(Kind::Cq, address);
            Finding::new(Rule::Argument, object, "ibv_end_poll", Outcome::Called)
                .with(
                    "what",
                    "no poll of this thread has begun: ibv_start_poll returned an error, or was \
                               not called",
                )
                .with(
                    "why",
                    "it unlocks the CQ, which is locked only if ibv_start_poll returned 0",
                )
                .with(
                    "todo",
                    "call ibv_end_poll only after an ibv_start_poll that returned 0, once",
                )
        })
    }

    /// The thread's call of ibv_poll_cq has ended.
    pub fn left(&mut self, address: usize, thread: i32) {
        let used = self.cqs.get_mut(&address).map(|cq| &mut cq.thread);
        if let Some(thread) = used.filter(|by| **by == thread) {
            *thread = 0;
        }
    }

    /// The thread's poll, which ibv_start_poll has begun or not, has ended.
    pub fn poll_ended(&mut self, address: usize, thread: i32) {
        self.left(address, thread);
        let open = self.cqs.get_mut(&address).map(|cq| &mut cq.open_by);
        if let Some(thread) = open.filter(|by| **by == thread) {
            *thread = 0;
        }
    }

    /// The queue pair of a completion. Without its number: the only one that has the request outstanding.
    fn qp_of(&self, context: usize, cq: usize, completion: &Completion) -> Option<usize> {
        if completion.qpn != 0 {
            return self.numbers.get(&(context, completion.qpn)).copied();
        }
        let has = |qp: &Qp| {
            let id = completion.wr_id;
            qp.send_cq == cq && qp.sends.iter().any(|request| request.wr_id == id)
                || qp.recv_cq == cq && qp.receives.list.iter().any(|receive| receive.wr_id == id)
        };
        let mut having = self.qps.iter().filter(|(_, qp)| has(qp));
        let only = having.next()?;
        having.next().is_none().then_some(*only.0)
    }

    fn completed(
        &mut self,
        cq: usize,
        address: usize,
        completion: &Completion,
        call: &'static str,
    ) -> Vec<Finding> {
        let Some(qp) = self.qps.get_mut(&address) else {
            return Vec::new();
        };
        if completion.status == IBV_WC_SUCCESS && qp.finish_first(cq, completion) {
            return Vec::new();
        }
        let srq = match qp.srq {
            0 => None,
            srq => self.srqs.get_mut(&srq),
        };
        let mut done = retire(qp, cq, completion, srq.is_some());
        if let Done::Receive(receive) = &mut done {
            qp.receives.completed += 1;
            if let Some(srq) = srq {
                *receive = srq.receives.take(completion.wr_id);
            }
        }
        match completion.status {
            IBV_WC_SUCCESS => {
                qp.answered += 1;
                match &done {
                    Done::Send(request) => {
                        self.changed(address, request, call).into_iter().collect()
                    }
                    Done::Receive(receive) if qp.receives.completed <= FIRST => {
                        self.received(address, receive).into_iter().collect()
                    }
                    _ => Vec::new(),
                }
            }
            IBV_WC_WR_FLUSH_ERR => self.flushed(address, &done, call),
            _ => self.has_failed(address, completion, &done, call),
        }
    }

    /// A completion with an error: remembers it as the first of its queue pair, and says why.
    #[cold]
    fn has_failed(
        &mut self,
        address: usize,
        completion: &Completion,
        done: &Done,
        call: &'static str,
    ) -> Vec<Finding> {
        let Some(qp) = self.qps.get_mut(&address) else {
            return Vec::new();
        };
        let operation = match done {
            Done::Send(request) => operation(request.opcode),
            Done::Receive(_) => "receive",
            Done::Unknown => "request",
        };
        if qp.first_error.is_none() {
            qp.first_error = Some(FirstError {
                wr_id: completion.wr_id,
                operation,
                status: completion.status,
            });
            qp.error_serial = self.serial;
        }
        if qp.kind != IBV_QPT_UD {
            qp.state = IBV_QPS_ERR;
        }
        self.fill_evidence(address, done);
        let mut found = self.explain(address, completion.status, done, call);
        let is_explained = matches!(done, Done::Send(request) if request.is_explained);
        if found.is_empty() && !is_explained {
            found.push(self.unexplained(address, completion, operation, call));
        }
        let driver = self.qps.get(&address).map(|qp| self.driver_of(qp.context));
        let is_receive = matches!(done, Done::Receive(_));
        let meaning = driver.and_then(|of| vendor::meaning(of, completion.vendor_err, is_receive));
        if let Some(first) = found.first_mut() {
            first.notes.extend(meaning);
        }
        found
    }

    /// A completion with an error that the program has not polled when it destroys the queue pair.
    pub fn unread(
        &mut self,
        address: usize,
        cq: usize,
        failed: &Completion,
        call: &'static str,
    ) -> Vec<Finding> {
        let object = self.qp_object(address);
        let outcome = Outcome::Called;
        let mut found = self.completed(cq, address, failed, call);
        if call != "ibv_destroy_qp" {
            return found;
        }
        found.push(
            Finding::new(Rule::UnreadError, object, call, outcome)
                .with("wr_id", failed.wr_id)
                .with("status", failed.status)
                .with("text", status_text(failed.status)),
        );
        found
    }

    /// The queue pairs of flushed completions whose first error was not polled.
    pub fn flushed_by_unknown(&self, cq: usize, completions: &[Completion]) -> Vec<usize> {
        let Some(context) = self.cqs.get(&cq).map(|cq| cq.context) else {
            return Vec::new();
        };
        let flushed = completions
            .iter()
            .filter(|of| of.status == IBV_WC_WR_FLUSH_ERR);
        let mut found: Vec<usize> = flushed
            .filter_map(|of| self.qp_of(context, cq, of))
            .filter(|at| {
                let qp = self.qps.get(at);
                qp.is_some_and(|qp| qp.first_error.is_none() && qp.state == IBV_QPS_RTS)
            })
            .collect();
        found.dedup();
        found
    }

    /// Adds what this process knows of the peer, if nothing was found out before.
    fn fill_evidence(&mut self, address: usize, done: &Done) {
        let rkey = match done {
            Done::Send(request) => key_at_peer(request),
            _ => None,
        };
        let is_looked_up = |qp: &Qp| {
            qp.evidence.searched || !qp.evidence.own.is_empty() && qp.evidence.peer.is_some()
        };
        if self.qps.get(&address).is_some_and(is_looked_up) {
            return;
        }
        if let Some(at) = self.peer(address).map(|(at, _)| at) {
            let peer = self.describe(at, rkey);
            if let Some(qp) = self.qps.get_mut(&address) {
                qp.evidence.peer = peer;
            }
        }
    }

    /// The queue pairs of completions with errors that the peer has a part in, and the remote keys of the
    /// requests; each queue pair once.
    pub fn to_look_up(&self, cq: usize, completions: &[Completion]) -> Vec<(usize, Option<u32>)> {
        let Some(context) = self.cqs.get(&cq).map(|cq| cq.context) else {
            return Vec::new();
        };
        let mut found: Vec<(usize, Option<u32>)> = Vec::new();
        for completion in completions {
            let matters = SENDS_ONLY.contains(&completion.status);
            let address = self.qp_of(context, cq, completion).filter(|_| matters);
            let Some(qp) = address.and_then(|address| self.qps.get(&address)) else {
                continue;
            };
            let address = address.unwrap_or(0);
            if qp.first_error.is_none() && found.iter().all(|(of, _)| *of != address) {
                let mut sends = qp.sends.iter();
                let request = sends.find(|request| request.wr_id == completion.wr_id);
                found.push((address, request.and_then(key_at_peer)));
            }
        }
        found
    }

    /// An error for which no rule knows the cause.
    fn unexplained(
        &self,
        address: usize,
        completion: &Completion,
        operation: &'static str,
        call: &'static str,
    ) -> Finding {
        let (why, todo) = reasons::of_status(completion.status);
        let peer = self
            .qps
            .get(&address)
            .and_then(|qp| qp.evidence.peer.as_ref());
        let at_peer = peer.and_then(|peer| Some((peer, peer.error_status?)));
        let why = match at_peer {
            Some((peer, status)) if completion.status == IBV_WC_REM_OP_ERR => format!(
                "the peer's queue pair, {}, reports status {status} ({}) for its receive",
                peer.place,
                status_text(status as u32)
            ),
            _ => why.into(),
        };
        let outcome = Outcome::Completion(completion.status);
        Finding::new(Rule::RequestFailed, self.qp_object(address), call, outcome)
            .with("operation", operation)
            .with("wr_id", completion.wr_id)
            .with("status", completion.status)
            .with("text", status_text(completion.status))
            .with("why", why)
            .with("todo", todo)
    }
}

/// The peer's key that a request names.
fn key_at_peer(request: &SendRequest) -> Option<u32> {
    let invalidates = (request.opcode == IBV_WR_SEND_WITH_INV).then_some(request.invalidates);
    let remote = request.remote.map(|remote| remote.rkey);
    remote.or(invalidates)
}

/// A thread begins to poll a CQ whose last poll it has not ended.
fn not_ended(address: usize, call: &'static str) -> Finding {
    let object = Object::at(Kind::Cq, address);
    Finding::new(Rule::Argument, object, call, Outcome::Called)
        .with("what", "this thread has begun to poll the CQ before, and has not called ibv_end_poll since")
        .with(
            "why",
            "ibv_start_poll locks the CQ until ibv_end_poll, so the call waits without end",
        )
        .with(
            "todo",
            "call ibv_end_poll after each ibv_start_poll that returned 0, and ibv_next_poll between them",
        )
}

/// Takes out the request of a completion, and those before it, which are done too.
/// Receives of an SRQ (`has_srq`) are not among those of the queue pair.
fn retire(qp: &mut Qp, cq: usize, completion: &Completion, has_srq: bool) -> Done {
    let failed = completion.status != IBV_WC_SUCCESS;
    let id = completion.wr_id;
    // Only an error leaves open whose completion it is.
    let receives = completion.opcode & IBV_WC_RECV != 0;
    let send = (qp.send_cq == cq && (failed || !receives)).then(|| {
        let mut sends = qp.sends.iter();
        sends.position(|request| request.wr_id == id && (request.signaled || failed))
    });
    let receive = (qp.recv_cq == cq && (failed || receives)).then(|| {
        let mut receives = qp.receives.list.iter();
        receives.position(|receive| receive.wr_id == id)
    });
    let (send, receive) = (send.flatten(), receive.flatten());
    let is_receive = if failed {
        match (send, receive) {
            (None, None) if has_srq && qp.recv_cq == cq => true,
            (_, None) => send.is_none() && qp.send_cq != cq,
            // A receive has it if its message names a key that cannot be invalidated.
            (None, _) => {
                let status = completion.status;
                status == IBV_WC_REM_INV_REQ_ERR || !SENDS_ONLY.contains(&status)
            }
            // Both have this wr_id: only a receive can be too short.
            _ => completion.status == IBV_WC_LOC_LEN_ERR,
        }
    } else {
        receives
    };
    if is_receive {
        let receive = receive.and_then(|at| qp.receives.list.remove(at));
        return Done::Receive(receive.unwrap_or_default());
    }
    match send.and_then(|at| qp.sends.drain(..=at).next_back()) {
        Some(request) => Done::Send(request),
        None => Done::Unknown,
    }
}

impl Qp {
    /// Takes out the oldest request or receive, if a completion is its, and there is nothing to say of it.
    #[inline]
    fn finish_first(&mut self, cq: usize, completion: &Completion) -> bool {
        let id = completion.wr_id;
        let is_first = if completion.opcode & IBV_WC_RECV == 0 {
            let is_its = |of: &SendRequest| of.wr_id == id && of.signaled && of.digest == 0;
            let is_first = self.created.send_cq == cq && self.sends.front().is_some_and(is_its);
            if is_first {
                self.sends.pop_front();
            }
            is_first
        } else {
            let is_first = self.created.recv_cq == cq
                && self.receives.completed >= FIRST
                && self.receives.list.front().is_some_and(|of| of.wr_id == id);
            if is_first {
                self.receives.list.pop_front();
                self.receives.completed += 1;
            }
            is_first
        };
        self.answered += u64::from(is_first);
        is_first
    }
}

impl Cq {
    /// Whether a completion could be lost between the last poll and arming the queue.
    pub(super) fn polled_before(&self) -> bool {
        self.notify.last_poll.is_some()
    }
}

#[cfg(test)]
mod tests;
