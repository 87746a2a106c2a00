//! Posted requests and receives: records them, and finds those that the state of the queue pair or
//! its capacity forbids.
//!
//! Not here: what is wrong with a request itself (`requests.rs`).
//!
//! Requests are recorded before the provider gets them, because another thread may poll their completions
//! before the call returns. Those that the provider refused are taken back.

use ibverbs_abi::*;

use super::overlap::overlap;
use super::{MAX_RECORDED, Qp, Requests, SendRequest, Shadow};
use crate::diagnose::check::reasons::operation;
use crate::diagnose::check::state::state_name;
use crate::diagnose::finding::{Finding, Kind, Object, Outcome};
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

/// Reports a READ or an atomic operation of a queue pair that may have none outstanding.
fn without_initiator(
    object: &Object,
    qp: &super::Qp,
    requests: &[SendRequest],
    call: &'static str,
) -> Option<Finding> {
    let needs = |request: &&SendRequest| {
        matches!(
            request.opcode,
            IBV_WR_RDMA_READ | IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD
        )
    };
    let applies = qp.kind == IBV_QPT_RC
        && qp.state == IBV_QPS_RTS
        && qp.connection.sends
        && qp.connection.max_rd_atomic == 0;
    let request = requests.iter().find(needs).filter(|_| applies)?;
    let operation = operation(request.opcode);
    Some(
        Finding::new(Rule::RdAtomicZero, object.clone(), call, Outcome::Called)
            .with("operation", operation)
            .with("wr_id", request.wr_id),
    )
}

impl Qp {
    /// Records requests before the provider gets them; the first has the serial number `first`. Returns
    /// whether one is signaled.
    fn record(&mut self, mut requests: Requests, first: u64) -> bool {
        let mut signals = false;
        for (serial, request) in (first..).zip(&mut requests) {
            request.serial = serial;
            request.received = self.receives.completed;
            request.signaled |= self.created.sig_all;
            signals |= request.signaled;
            if super::waiting::consumes_receive(request) {
                self.sends_consuming += 1;
                match (request.digest, self.first_message) {
                    (0, _) => {}
                    (digest, 0) => self.first_message = digest,
                    (digest, first) => self.messages_vary |= first != digest,
                }
            }
        }
        self.sends_posted += requests.len() as u64;
        self.last_posted = first + requests.len() as u64;
        self.reconnects = false;
        self.ever_signaled |= signals;
        if let Some(last) = requests.last() {
            self.last_remote_qpn = last.remote_qpn;
            self.last_ah = last.ah;
        }
        self.sends.extend(requests);
        if self.sends.len() > MAX_RECORDED {
            self.sends.clear();
        }
        signals
    }
}

/// More elements than this no device has.
const SGES_ODD: i32 = 256;
const NOT_SET: &str =
    "num_sge looks like memory that was never set: set the whole request to zero at first";

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
        let mut posted = Posted {
            first: self.serial,
            count: requests.len(),
            is_plain: false,
        };
        self.serial += requests.len() as u64;
        let mut found = self.check_posting(address, &mut requests, thread, call);
        let Some(qp) = self.qps.get_mut(&address) else {
            return (Posted::default(), found);
        };
        if qp.single_threaded {
            let other = core::mem::replace(&mut qp.thread, thread);
            if other != 0 && other != thread {
                let object = Object::qp(address, qp.number);
                let (what, flag) = ("queue pair's domain", "a TD");
                found.push(overlap(object, call, other, thread, what, flag));
            }
        }
        let signals = qp.record(requests, posted.first);
        let max = qp.cap.max_send_wr;
        let is_plain = !qp.single_threaded
            && qp.state == IBV_QPS_RTS
            && !qp.is_disconnected
            && (max == 0 || qp.sends.len() <= max as usize);
        if let Some(cq) = self.cqs.get_mut(&qp.created.send_cq) {
            cq.notify.posted_since |= signals;
            posted.is_plain = is_plain && cq.sends_at_most <= cq.entries.into();
        }
        (posted, found)
    }

    /// A queue pair posts for the first time since it was reset and connected again: so must its peer be.
    #[cold]
    fn peer_not_reset(&self, address: usize, call: &'static str) -> Option<Finding> {
        let (_, peer) = self.peer(address).filter(|(_, peer)| peer.peer_was_reset)?;
        let qp = self.qps.get(&address)?;
        let what = format!(
            "this queue pair was reset and connected again since it has sent, and the peer's queue pair \
             {:#x}, in this process, was not",
            peer.number
        );
        let why = format!(
            "this one sends from PSN {} again, and the peer expects the one behind the last of the old \
             connection: it takes requests with PSNs before that for duplicates, which it acknowledges and \
             does not execute",
            qp.connection.sq_psn
        );
        let object = Object::qp(address, qp.number);
        let found = Finding::new(Rule::Argument, object, call, Outcome::Called);
        let todo = "modify both queue pairs to RESET, and connect both again";
        Some(found.with("what", what).with("why", why).with("todo", todo))
    }

    /// Finds what is wrong with requests that are about to be posted. Requests that a finding names are
    /// marked.
    fn check_posting(
        &self,
        address: usize,
        requests: &mut Requests,
        thread: i32,
        call: &'static str,
    ) -> Vec<Finding> {
        let Some(qp) = self.qps.get(&address) else {
            return Vec::new();
        };
        let object = Object::qp(address, qp.number);
        let mut found = self.check_requests(&object, qp, requests, call);
        if qp.reconnects {
            found.extend(self.peer_not_reset(address, call));
        }
        if let Some(without) = without_initiator(&object, qp, requests, call) {
            found.push(without);
        }
        if !found.is_empty() {
            for request in requests.iter_mut() {
                let wr_id = request.wr_id.to_string();
                let is_its = |(name, value): &(&str, String)| *name == "wr_id" && *value == wr_id;
                request.is_explained = found
                    .iter()
                    .any(|of| of.rule != Rule::NoData && of.values.iter().any(is_its));
            }
        }
        for request in requests.iter_mut().filter(|request| request.digest != 0) {
            if self.is_written_to(&request.sges) {
                request.digest = 0;
            }
        }
        let mut sges = requests.iter().flat_map(|request| &request.sges);
        let stack = report::stack();
        let dead = self.on_dead_stack(&object, qp.context, &mut sges, thread, stack, call);
        found.extend(dead.or_else(|| self.receives_on_dead_stack(thread, call)));
        found
    }

    /// The provider has accepted the first `accepted` of the requests.
    pub fn posted(
        &mut self,
        address: usize,
        posted: Posted,
        accepted: usize,
        call: &'static str,
        outcome: Outcome,
    ) -> Vec<Finding> {
        let refused = posted.first + accepted as u64..posted.first + posted.count as u64;
        let Some(qp) = self.qps.get_mut(&address) else {
            return Vec::new();
        };
        qp.thread = 0;
        let object = Object::qp(address, qp.number);
        if !outcome.failed() && refused.is_empty() {
            return self.send_accepted(address, &object, call, outcome);
        }
        let mut sends = qp.sends.iter();
        let first_refused = sends
            .find(|request| request.serial == refused.start && !refused.is_empty())
            .cloned();
        qp.sends
            .retain(|request| !refused.contains(&request.serial));
        if !outcome.failed() {
            return self.send_accepted(address, &object, call, outcome);
        }
        match first_refused {
            Some(request) => self.send_refused(address, &object, &request, call, outcome),
            None => self.send_accepted(address, &object, call, outcome),
        }
    }

    fn send_refused(
        &self,
        address: usize,
        object: &Object,
        request: &SendRequest,
        call: &'static str,
        outcome: Outcome,
    ) -> Vec<Finding> {
        let Some(qp) = self.qps.get(&address) else {
            return Vec::new();
        };
        let finding = |rule| Finding::new(rule, object.clone(), call, outcome.clone());
        if request.inline && request.length() > u64::from(qp.cap.max_inline_data) {
            return vec![
                finding(Rule::InlineLimit)
                    .with("length", request.length())
                    .with("max", qp.cap.max_inline_data),
            ];
        }
        let listed = i32::try_from(request.sges.len()).unwrap_or(i32::MAX);
        let count = match request.num_sge {
            negative @ ..0 => negative,
            asked => asked.max(listed),
        };
        if u32::try_from(count).is_err() || count as u32 > qp.cap.max_send_sge {
            let mut found = finding(Rule::SgeLimit)
                .with("count", count)
                .with("member", "max_send_sge")
                .with("max", qp.cap.max_send_sge);
            let is_odd = !(0..=SGES_ODD).contains(&count);
            found.notes.extend(is_odd.then(|| NOT_SET.into()));
            return vec![found];
        }
        if matches!(qp.state, IBV_QPS_RESET | IBV_QPS_INIT | IBV_QPS_RTR) {
            return vec![post_state(finding(Rule::PostState), qp.state, call, "RTS")];
        }
        match outcome.is(libc::ENOMEM) {
            true => self.no_room(qp, finding).into_iter().collect(),
            false => Vec::new(),
        }
    }

    /// The send queue has no room for a request.
    fn no_room(&self, qp: &Qp, finding: impl Fn(Rule) -> Finding) -> Option<Finding> {
        if qp.cap.max_send_wr == 0 {
            let found = finding(Rule::Argument)
                .with("what", "the queue pair was created with max_send_wr = 0");
            let found = found.with("why", "its send queue has no room for a request");
            return Some(found.with(
                "todo",
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
        let polled = match self.cqs.get(&qp.send_cq).map_or(0, |cq| cq.polls) {
            0 => "never polled".into(),
            n => format!("polled {n} times, without their completions"),
        };
        let full = full(Rule::SendQueueFull).with("signaled", signaled);
        Some(full.with("polled", polled))
    }

    fn send_accepted(
        &self,
        address: usize,
        object: &Object,
        call: &'static str,
        outcome: Outcome,
    ) -> Vec<Finding> {
        let Some(qp) = self.qps.get(&address) else {
            return Vec::new();
        };
        if let (IBV_QPS_ERR, Some(error)) = (qp.state, &qp.first_error) {
            let found = Finding::new(Rule::PostInError, object.clone(), call, outcome);
            return vec![super::failure::in_error(found, qp.kind, error)];
        }
        if qp.is_disconnected && qp.state == IBV_QPS_ERR {
            // One without data shows that all before it are done.
            let sends_data = qp.sends.back().filter(|last| last.length() > 0);
            return sends_data
                .map(|last| after_disconnect(object, last.wr_id, call))
                .into_iter()
                .collect();
        }
        if let (IBV_QPS_ERR, Some(_), false) = (qp.state, qp.ended, qp.is_of_cm) {
            // One without data is a drain.
            let sends_data = qp.sends.back().filter(|last| last.length() > 0);
            let after = |last| after_err(object, last, call, outcome);
            return sends_data.map(after).into_iter().collect();
        }
        let max = qp.cap.max_send_wr;
        if max != 0 && qp.sends.len() > max as usize {
            return vec![
                Finding::new(Rule::SendQueueRnic, object.clone(), call, outcome)
                    .with("outstanding", qp.sends.len())
                    .with("max", max),
            ];
        }
        let Some(cq) = self.cqs.get(&qp.send_cq) else {
            return Vec::new();
        };
        // Most have room for all requests, signaled or not.
        if cq.sends_at_most <= cq.entries.into() {
            return Vec::new();
        }
        let on_cq = self.qps.values().filter(|of| of.send_cq == qp.send_cq);
        let at_most: usize = on_cq.map(|of| of.sends.len()).sum();
        if at_most <= cq.entries as usize {
            return Vec::new();
        }
        let (outstanding, _) = self.outstanding_on(qp.send_cq);
        if cq.entries == 0 || outstanding <= cq.entries as usize {
            return Vec::new();
        }
        let object = Object::at(Kind::Cq, qp.send_cq);
        vec![
            Finding::new(Rule::CqOverrunForeseen, object, call, outcome)
                .with("outstanding", outstanding)
                .with("cqe", cq.entries),
        ]
    }
}

/// A request is posted when the connection has been ended.
fn after_disconnect(object: &Object, wr_id: u64, call: &'static str) -> Finding {
    Finding::new(Rule::Argument, object.clone(), call, Outcome::Called)
        .with(
            "what",
            format!("the request (wr_id {wr_id}) is posted after rdma_disconnect"),
        )
        .with(
            "why",
            "rdma_disconnect moves the queue pair to ERR, where requests complete with WR_FLUSH_ERR at once",
        )
        .with(
            "todo",
            "post and complete all requests before rdma_disconnect",
        )
}

/// A request is posted when the program has ended the queue pair itself.
fn after_err(object: &Object, last: &SendRequest, call: &'static str, outcome: Outcome) -> Finding {
    Finding::new(Rule::PostAfterErr, object.clone(), call, outcome)
        .with("operation", operation(last.opcode))
        .with("wr_id", last.wr_id)
        .with("length", last.length())
}

pub(super) fn post_state(finding: Finding, state: u32, verb: &str, needed: &str) -> Finding {
    finding
        .with("state", state_name(state))
        .with("verb", verb)
        .with("needed", needed)
}

#[cfg(test)]
mod tests;
