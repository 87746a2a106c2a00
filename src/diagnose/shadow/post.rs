//! Posted requests and receives: records them, and finds those that the state of the queue pair or
//! its capacity forbids.
//!
//! Not here: what is wrong with a request itself (`requests.rs`).
//!
//! Requests are recorded before the provider gets them, because another thread may poll their completions
//! before the call returns. Those that the provider refused are taken back.

use ibverbs_abi::*;

use super::windows::Binding;
use super::{Qp, Requests, SendRequest, Shadow};
use crate::diagnose::check::list;
use crate::diagnose::check::state::state_name;
use crate::diagnose::finding::{Finding, Kind, Object, Outcome, add};
use crate::diagnose::report;
use crate::diagnose::rules::Rule;

/// The requests of one call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Posted {
    /// Serial number of the first.
    first: u64,
    pub count: usize,
    /// Nothing is to be said, or recorded, once the provider has accepted all.
    pub is_plain: bool,
}

impl Shadow {
    /// `thread` begins to post `requests`.
    pub fn posting(
        &mut self,
        address: usize,
        requests: impl Into<Requests>,
        thread: i32,
        call: &'static str,
    ) -> (Posted, Vec<Finding>) {
        let mut requests: Requests = requests.into();
        for request in &mut requests {
            request.poster = thread;
        }
        let mut posted = Posted {
            first: self.qps.take_serials(requests.len()),
            count: requests.len(),
            is_plain: false,
        };
        let Some(post) = Post::of(self, address, call) else {
            return (Posted::default(), Vec::new());
        };
        let mut found = post.check(&mut requests, thread);
        let Some(qp) = self.qps.get_mut(&address) else {
            return (Posted::default(), found);
        };
        add(&mut found, qp.building.interrupted(thread, call));
        add(&mut found, qp.enter(thread, call));
        let signals = qp.record(requests, posted.first);
        add(&mut found, qp.exceeds_reads(call));
        let max = qp.cap.max_send_wr;
        let is_plain = !qp.one_thread.is_required()
            && qp.state == IBV_QPS_RTS
            && !qp.is_disconnected
            && (max == 0 || qp.sends.len() <= max as usize);
        if let Some(cq) = self.cqs.get_mut(&qp.send_cq) {
            cq.notify.posted_since |= signals;
            cq.pollers.posts(thread);
            posted.is_plain = is_plain && cq.has_room_for_sends();
        }
        (posted, found)
    }

    /// The provider has accepted the first `accepted` of the requests.
    pub fn posted(
        &mut self,
        address: usize,
        posted: Posted,
        accepted: usize,
        call: &'static str,
        outcome: Outcome,
    ) -> Option<Finding> {
        let refused = posted.first + accepted as u64..posted.first + posted.count as u64;
        let first_refused = self.qps.change(address, |qp| {
            qp.one_thread.end();
            qp.sends.take_back(refused)
        });
        let post = Post::of(self, address, call)?;
        match first_refused.filter(|_| outcome.failed()) {
            Some(request) => post.refused(&request, outcome),
            None => post.accepted(outcome),
        }
    }
}

impl Shadow {
    /// A bind of a window has been posted. It has the key `rkey` from then on. `qp`: the queue pair to which
    /// a window of type 2 is bound, or 0.
    pub fn bound(&mut self, mw: usize, rkey: u32, to: Binding, qp: usize) {
        let by = self.qps.get(&qp).map_or(0, |qp| qp.number);
        let region = self.mrs.get(to.region);
        let is_memory = region.is_some_and(|region| region.is_memory);
        if let Some(context) = self.context_of(Kind::Mw, mw) {
            self.mws.bind(mw, (context, rkey), to, by, is_memory);
        }
    }

    /// Ends the binds that were built in a queue pair: they are posted, or dropped, as `posted`
    /// says.
    pub fn bindings_end(&mut self, qp: usize, posted: bool) {
        let taken = self.qps.change(qp, |qp| qp.building.take_binds());
        for (mw, rkey, to) in taken.into_iter().filter(|_| posted) {
            self.bound(mw, rkey, to, qp);
        }
    }
}

/// A call that posts requests to a queue pair.
pub(super) struct Post<'a> {
    pub(super) all: &'a Shadow,
    pub(super) qp: &'a Qp,
    pub(super) call: &'static str,
}

impl Post<'_> {
    pub(super) fn of<'a>(all: &'a Shadow, address: usize, call: &'static str) -> Option<Post<'a>> {
        let qp = all.qps.get(&address)?;
        Some(Post { all, qp, call })
    }

    /// Finds what is wrong with requests that are about to be posted. Requests that a finding names are
    /// marked.
    fn check(&self, requests: &mut Requests, thread: i32) -> Vec<Finding> {
        let mut found = self.check_requests(requests);
        if self.qp.resets.reconnects {
            add(&mut found, self.peer_not_reset());
        }
        add(&mut found, self.without_initiator(requests));
        add(&mut found, self.onto_itself(requests));
        if !found.is_empty() {
            for request in requests.iter_mut() {
                let wr_id = request.wr_id.to_string();
                let is_its = |(name, value): &(&str, String)| *name == "wr_id" && *value == wr_id;
                request.is_explained = found
                    .iter()
                    .any(|of| of.rule != Rule::NoData && of.values.iter().any(is_its));
            }
        }
        add(&mut found, self.unfenced(requests));
        for request in requests.iter_mut().filter(|request| request.digest != 0) {
            if self.all.qps.are_written_to(&request.sges) {
                request.digest = 0;
            }
        }
        let sges = requests.iter().flat_map(|request| &request.sges);
        let (by, context) = ((thread, report::stack()), self.qp.context);
        let regions = &self.all.mrs;
        let dead = regions.on_dead_stack(&self.qp.object(), context, sges, by, self.call);
        match dead {
            Some(dead) => found.push(dead),
            None => add(
                &mut found,
                self.all.receives_on_dead_stack(thread, self.call),
            ),
        }
        found
    }

    /// A queue pair posts for the first time since it was reset and connected again: so must its peer be.
    #[cold]
    fn peer_not_reset(&self) -> Option<Finding> {
        let peer = self.all.peer(self.qp)?;
        if !peer.resets.peer_was_reset {
            return None;
        }
        let what = format!(
            "this queue pair was reset and connected again since it has sent, and the peer's queue pair \
             {:#x}, in this process, was not",
            peer.number
        );
        let why = format!(
            "this one sends from PSN {} again, and the peer expects the one behind the last of the old \
             connection: it takes requests with PSNs before that for duplicates, which it acknowledges and \
             does not execute",
            self.qp.connection.sq_psn
        );
        let found = self.finding(Rule::Argument, Outcome::Called);
        let todo = "modify both queue pairs to RESET, and connect both again";
        Some(found.with_texts(what, why, todo))
    }

    /// Reports a READ or an atomic operation of a queue pair that may have none outstanding.
    fn without_initiator(&self, requests: &[SendRequest]) -> Option<Finding> {
        let applies = self.qp.kind == IBV_QPT_RC
            && self.qp.state == IBV_QPS_RTS
            && self.qp.connection.sends
            && self.qp.connection.max_rd_atomic == 0;
        let at = requests.iter().position(SendRequest::returns_data);
        let at = at.filter(|_| applies)?;
        let found = self
            .finding(Rule::RdAtomicZero, Outcome::Called)
            .with("operation", requests[at].operation())
            .with("wr_id", requests[at].wr_id);
        Some(SendRequest::before(requests, at).noted(found, false))
    }

    /// The provider has refused a request.
    fn refused(&self, request: &SendRequest, outcome: Outcome) -> Option<Finding> {
        let qp = self.qp;
        let finding = |rule| self.finding(rule, outcome.clone());
        if request.inline && request.length() > u64::from(qp.cap.max_inline_data) {
            let found = finding(Rule::InlineLimit).with("length", request.length());
            return Some(found.with("max", qp.cap.max_inline_data));
        }
        let listed = i32::try_from(request.sges.len()).unwrap_or(i32::MAX);
        let count = match request.num_sge {
            negative @ ..0 => negative,
            asked => asked.max(listed),
        };
        let max = qp.cap.max_send_sge;
        if list::is_over(count, max) {
            let finding = finding(Rule::SgeLimit);
            return Some(list::sge_limit(finding, count, "max_send_sge", max));
        }
        if matches!(qp.state, IBV_QPS_RESET | IBV_QPS_INIT | IBV_QPS_RTR) {
            let found = finding(Rule::PostState);
            let of_cm = if qp.is_of_cm { BY_CM } else { "" };
            return Some(post_state(found, qp.state, (self.call, "RTS"), of_cm));
        }
        match outcome.is(libc::ENOMEM) {
            true => self.no_room(finding),
            false => None,
        }
    }

    /// The send queue has no room for a request.
    fn no_room(&self, finding: impl Fn(Rule) -> Finding) -> Option<Finding> {
        let qp = self.qp;
        if qp.cap.max_send_wr == 0 {
            return Some(finding(Rule::Argument).with_texts(
                "the queue pair was created with max_send_wr = 0",
                "its send queue has no room for a request",
                "create the queue pair with cap.max_send_wr of 1 at least",
            ));
        }
        // Earlier ones have completed: a software device frees the slot of an unsignaled request then.
        let capacity = qp.cap.max_send_wr as usize;
        let outstanding = qp.sends.iter().rev().take(capacity);
        let count = outstanding.len();
        let signaled = outstanding.filter(|request| request.signaled).count();
        let full = |rule| {
            finding(rule)
                .with("outstanding", count)
                .with("max", qp.cap.max_send_wr)
        };
        if qp.sends.is_empty() {
            return None;
        }
        if signaled == 0 {
            return Some(full(Rule::NeverSignaled));
        }
        let polled = match self.all.cqs.get(&qp.send_cq).map_or(0, |cq| cq.polls) {
            0 => "never polled".into(),
            n => format!("polled {n} times, without their completions"),
        };
        let full = full(Rule::SendQueueFull).with("signaled", signaled);
        Some(full.with("polled", polled))
    }

    /// The provider has accepted the requests.
    fn accepted(&self, outcome: Outcome) -> Option<Finding> {
        let (qp, all) = (self.qp, self.all);
        if let (IBV_QPS_ERR, Some(error)) = (qp.state, &qp.first_error) {
            let found = self.finding(Rule::PostInError, outcome);
            return Some(super::failure::in_error(found, qp.kind, error));
        }
        if qp.is_disconnected && qp.state == IBV_QPS_ERR {
            // One without data shows that all before it are done.
            let sends_data = qp.sends.last().filter(|last| last.length() > 0);
            return sends_data.map(|last| after_disconnect(qp.object(), last.wr_id, self.call));
        }
        if let (IBV_QPS_ERR, Some(_), false) = (qp.state, qp.ended(), qp.is_of_cm) {
            // One without data is a drain.
            let last = qp.sends.last().filter(|last| last.length() > 0)?;
            let found = self.finding(Rule::PostAfterErr, outcome);
            let found = found.with("operation", last.operation());
            let found = found.with("wr_id", last.wr_id);
            return Some(found.with("length", last.length()));
        }
        let max = qp.cap.max_send_wr;
        if max != 0 && qp.sends.len() > max as usize {
            let found = self.finding(Rule::SendQueueRnic, outcome);
            let found = found.with("outstanding", qp.sends.len());
            return Some(found.with("max", max));
        }
        // Most have room for all requests, signaled or not.
        let cq = all.cqs.get(&qp.send_cq);
        let cq = cq.filter(|cq| !cq.has_room_for_sends())?;
        let on_cq = all.qps.values().filter(|of| of.send_cq == qp.send_cq);
        let at_most: usize = on_cq.map(|of| of.sends.len()).sum();
        if at_most <= cq.entries as usize {
            return None;
        }
        let (outstanding, _) = all.qps.outstanding_on(qp.send_cq);
        if cq.entries == 0 || outstanding <= cq.entries as usize {
            return None;
        }
        let object = Object::at(Kind::Cq, qp.send_cq);
        let found = Finding::new(Rule::CqOverrunForeseen, object, self.call, outcome);
        let found = found.with("outstanding", outstanding);
        Some(found.with("cqe", cq.entries))
    }

    pub(super) fn finding(&self, rule: Rule, outcome: Outcome) -> Finding {
        Finding::new(rule, self.qp.object(), self.call, outcome)
    }
}

/// A request is posted when the connection has been ended.
fn after_disconnect(object: Object, wr_id: u64, call: &'static str) -> Finding {
    Finding::new(Rule::Argument, object, call, Outcome::Called)
        .with_texts(
            format!("the request (wr_id {wr_id}) is posted after rdma_disconnect"),
            "rdma_disconnect moves the queue pair to ERR, where requests complete with WR_FLUSH_ERR at once",
            "post and complete all requests before rdma_disconnect",
        )
}

const BY_CM: &str = "; here librdmacm does it: wait for the event RDMA_CM_EVENT_ESTABLISHED before the first \
                     request";

pub(super) fn post_state(
    finding: Finding,
    state: u32,
    (verb, needed): (&str, &str),
    hint: &str,
) -> Finding {
    finding
        .with("hint", hint)
        .with("state", state_name(state))
        .with("verb", verb)
        .with("needed", needed)
}

#[cfg(test)]
mod tests;
