//! Polled completions: finds the requests that are done, and the first that has failed.
//!
//! Not here: why it has failed (`failure.rs`).

use std::time::Instant;

use ibverbs_abi::*;

use super::failure::{Done, Failure};
use super::limit::limit;
use super::pollers::Taken;
use super::qp::FirstError;
use super::{Completion, Qp, SendRequest, Shadow};
use crate::diagnose::check::reasons::status_text;
use crate::diagnose::check::vendor;
use crate::diagnose::facts;
use crate::diagnose::finding::{Finding, Outcome, add};
use crate::diagnose::rules::Rule;

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
        let thread = facts::thread();
        let count = completions.len();
        let Some(context) = self.cqs.polled(address, asked, count, thread) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        if count == 0 {
            add(&mut found, self.waits_for_taken(address, thread, call));
        }
        for completion in completions {
            if let Some(qp) = self.qps.of_completion(context, address, completion) {
                found.extend(self.completed(address, qp, completion, (thread, call)));
            }
        }
        found
    }

    fn completed(
        &mut self,
        cq: usize,
        address: usize,
        completion: &Completion,
        (thread, call): (i32, &'static str),
    ) -> Vec<Finding> {
        let Some(qp) = self.qps.get_mut(&address) else {
            return Vec::new();
        };
        let is_good = completion.status == IBV_WC_SUCCESS;
        if let Some(poster) = is_good.then(|| qp.finish_first(cq, completion)).flatten() {
            if poster != thread {
                self.taken(cq, address, completion, (poster, thread));
            }
            return Vec::new();
        }
        let srq = match qp.srq {
            0 => None,
            srq => self.srqs.get_mut(&srq),
        };
        let mut done = qp.retire(cq, completion, srq.is_some());
        if let (Done::Receive(receive), Some(srq)) = (&mut done, srq) {
            *receive = srq.receives.take(completion.wr_id);
        }
        let received = qp.receives.completed();
        let poster = done.poster();
        if poster != thread {
            self.taken(cq, address, completion, (poster, thread));
        }
        match completion.status {
            IBV_WC_SUCCESS => {
                self.qps.change(address, |qp| qp.answered += 1);
                match &done {
                    Done::Send(request) => {
                        let found = self.qps.changed(address, request, call);
                        found.into_iter().collect()
                    }
                    Done::Receive(receive) if received <= FIRST => {
                        self.received(address, receive).into_iter().collect()
                    }
                    _ => Vec::new(),
                }
            }
            IBV_WC_WR_FLUSH_ERR => {
                let found = self.flushed(address, &done, call);
                found.into_iter().collect()
            }
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
        let operation = match done {
            Done::Send(request) => request.operation(),
            Done::Receive(_) => "receive",
            Done::Unknown => "request",
        };
        let error = FirstError {
            wr_id: completion.wr_id,
            operation,
            status: completion.status,
            serial: self.qps.requests(),
        };
        self.qps.change(address, |qp| qp.fail(error));
        self.fill_evidence(address, done);
        let status = completion.status;
        let Some(failure) = Failure::of(self, address, status, call) else {
            return Vec::new();
        };
        let mut found = failure.explain(done);
        let is_explained = matches!(done, Done::Send(request) if request.is_explained);
        if found.is_empty() && !is_explained {
            found.push(failure.unexplained(completion, operation));
        }
        let driver = self.devices.driver(failure.qp.context);
        let is_receive = matches!(done, Done::Receive(_));
        let meaning = vendor::meaning(driver, completion.vendor_err, is_receive);
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
        let object = self.qps.object(address);
        let outcome = Outcome::Called;
        let mut found = self.completed(cq, address, failed, (0, call));
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

    /// A completion was polled by another thread than the one that had posted its request, if both are known.
    #[cold]
    fn taken(&mut self, cq: usize, qp: usize, completion: &Completion, (poster, by): (i32, i32)) {
        let is_good = completion.status == IBV_WC_SUCCESS;
        let taken = Taken {
            qp,
            wr_id: completion.wr_id,
            is_receive: is_good && completion.opcode & IBV_WC_RECV != 0,
            by,
            at: Instant::now(),
        };
        if is_good && poster != 0 && by != 0 {
            self.cqs.change(cq, |cq| cq.pollers.took(poster, taken));
        }
    }

    /// A thread that polls for so long that it waits, if another one has polled its completion, and nothing
    /// else that it has posted can come to the CQ.
    fn waits_for_taken(&mut self, cq: usize, thread: i32, call: &'static str) -> Option<Finding> {
        let limit = limit()?;
        let taken = self.cqs.get(&cq)?.pollers.misses(thread, limit)?;
        if self.qps.has_outstanding_of(cq, thread) {
            return None;
        }
        self.cqs.change(cq, |cq| cq.pollers.reported(thread));
        let what = match taken.is_receive {
            true => "receive",
            false => "request",
        };
        let object = self.qps.object(taken.qp);
        let found = Finding::new(Rule::CompletionTaken, object, call, Outcome::Succeeded)
            .with("thread", facts::thread_text(thread))
            .with("seconds", limit.as_secs())
            .with("what", what)
            .with("wr_id", taken.wr_id)
            .with("by", facts::thread_text(taken.by))
            .with("ago", format!("{:.1}", taken.at.elapsed().as_secs_f32()));
        Some(found)
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
            .filter_map(|of| self.qps.of_completion(context, cq, of))
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
        let qp = self.qps.get(&address).filter(|qp| !is_looked_up(qp));
        if let Some(peer) = qp.and_then(|qp| self.peer(qp)) {
            let peer = self.describe(peer.address, rkey);
            self.qps.change(address, |qp| qp.evidence.peer = peer);
        }
    }

    /// The queue pairs of completions with errors that the peer has a part in, and the remote keys of the
    /// requests, also one that is misplaced; each queue pair once.
    pub fn to_look_up(
        &self,
        cq: usize,
        completions: &[Completion],
    ) -> Vec<(usize, Option<u32>, Option<u32>)> {
        let Some(context) = self.cqs.get(&cq).map(|cq| cq.context) else {
            return Vec::new();
        };
        let mut found: Vec<(usize, Option<u32>, Option<u32>)> = Vec::new();
        let failed = completions.iter();
        for completion in failed.filter(|of| SENDS_ONLY.contains(&of.status)) {
            let Some(address) = self.qps.of_completion(context, cq, completion) else {
                continue;
            };
            let Some(qp) = self.qps.get(&address) else {
                continue;
            };
            if qp.first_error.is_none() && found.iter().all(|(of, ..)| *of != address) {
                let mut sends = qp.sends.iter();
                let request = sends.find(|request| request.wr_id == completion.wr_id);
                let misplaced = request.map(|request| request.misplaced_rkey);
                let misplaced = misplaced.filter(|rkey| *rkey != 0);
                found.push((address, request.and_then(key_at_peer), misplaced));
            }
        }
        found
    }
}

/// The peer's key that a request names.
fn key_at_peer(request: &SendRequest) -> Option<u32> {
    let invalidates = (request.opcode == IBV_WR_SEND_WITH_INV).then_some(request.invalidates);
    let remote = request.remote.map(|remote| remote.rkey);
    remote.or(invalidates)
}

impl Qp {
    /// Takes out the request of a completion, and those before it, which are done too.
    /// Receives of an SRQ (`has_srq`) are not among those of the queue pair.
    fn retire(&mut self, cq: usize, completion: &Completion, has_srq: bool) -> Done {
        let failed = completion.status != IBV_WC_SUCCESS;
        let id = completion.wr_id;
        // Only an error leaves open whose completion it is.
        let receives = completion.opcode & IBV_WC_RECV != 0;
        let send = (self.send_cq == cq && (failed || !receives)).then(|| {
            let mut sends = self.sends.iter();
            sends.position(|request| request.wr_id == id && (request.signaled || failed))
        });
        let may_receive = self.recv_cq == cq && (failed || receives);
        let receive = may_receive.then(|| self.receives.position(id));
        let (send, receive) = (send.flatten(), receive.flatten());
        let is_receive = if failed {
            match (send, receive) {
                (None, None) if has_srq && self.recv_cq == cq => true,
                (_, None) => send.is_none() && self.send_cq != cq,
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
            return Done::Receive(self.receives.finish(receive));
        }
        match send.and_then(|at| self.sends.finish_to(at)) {
            Some(request) => Done::Send(request),
            None => Done::Unknown,
        }
    }

    /// Takes out the oldest request or receive, if a completion is its, and there is nothing to say of it.
    /// Returns the thread that has posted it.
    #[inline]
    fn finish_first(&mut self, cq: usize, completion: &Completion) -> Option<i32> {
        let id = completion.wr_id;
        let poster = if completion.opcode & IBV_WC_RECV == 0 {
            (self.send_cq == cq).then(|| self.sends.finish_first(id))
        } else {
            let is_plain = self.recv_cq == cq && self.receives.completed() >= FIRST;
            is_plain.then(|| self.receives.finish_first(id))
        };
        let poster = poster.flatten()?;
        self.answered += 1;
        Some(poster)
    }
}

#[cfg(test)]
mod tests;
