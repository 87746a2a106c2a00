//! Posted requests and receives: records them, and finds those that the state of the queue pair or
//! its capacity forbids.
//!
//! Not here: what is wrong with a request itself (`requests.rs`).
//!
//! Requests are recorded before the provider gets them, because another thread may poll their completions
//! before the call returns. Those that the provider refused are taken back.

use std::time::Instant;

use ibverbs_abi::*;

use super::overlap::overlap;
use super::{MAX_RECORDED, Receives, Requests, SendRequest, Shadow};
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
}

/// Precedes the data of a datagram in its receive.
const GRH_BYTES: u64 = 40;

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
    let operation = super::completion::operation(request.opcode);
    Some(
        Finding::new(Rule::RdAtomicZero, object.clone(), call, Outcome::Called)
            .with("operation", operation)
            .with("wr_id", request.wr_id),
    )
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
        let stack = report::stack();
        let first = self.serial;
        self.serial += requests.len() as u64;
        let object = self.qp_object(address);
        let Some(qp) = self.qps.get(&address) else {
            return (Posted::default(), Vec::new());
        };
        let mut found = self.check_requests(&object, qp, &requests, call);
        found.extend(without_initiator(&object, qp, &requests, call));
        for request in &mut requests {
            let is_of = |finding: &Finding| {
                let wr_id = request.wr_id.to_string();
                finding
                    .values
                    .iter()
                    .any(|(name, value)| *name == "wr_id" && *value == wr_id)
            };
            request.is_explained = found.iter().any(is_of);
        }
        for request in requests.iter_mut().filter(|request| request.digest != 0) {
            if self.is_written_to(&request.sges) {
                request.digest = 0;
            }
        }
        let mut sges = requests.iter().flat_map(|request| &request.sges);
        found.extend(self.on_dead_stack(&object, qp.context, &mut sges, thread, stack, call));
        let Some(qp) = self.qps.get_mut(&address) else {
            return (Posted::default(), found);
        };
        if qp.single_threaded {
            if qp.thread != 0 && qp.thread != thread {
                found.push(overlap(
                    object,
                    call,
                    qp.thread,
                    thread,
                    "queue pair's domain",
                    "a TD",
                ));
            }
            qp.thread = thread;
        }
        let posted = Posted {
            first,
            count: requests.len(),
        };
        for (serial, request) in (first..).zip(&mut requests) {
            request.serial = serial;
            request.signaled |= qp.sig_all;
        }
        let signals = requests.iter().any(|request| request.signaled);
        let consuming = requests
            .iter()
            .filter(|of| super::waiting::consumes_receive(of));
        qp.sends_consuming += consuming.count() as u64;
        qp.sends_posted += requests.len() as u64;
        qp.ever_signaled |= signals;
        let messages = requests.iter().filter(|of| of.digest != 0);
        for message in messages.filter(|of| super::waiting::consumes_receive(of)) {
            match qp.first_message {
                0 => qp.first_message = message.digest,
                first => qp.messages_vary |= first != message.digest,
            }
        }
        if let Some(last) = requests.last() {
            qp.last_remote_qpn = last.remote_qpn;
            qp.last_ah = last.ah;
        }
        qp.sends.extend(requests);
        if qp.sends.len() > MAX_RECORDED {
            qp.sends.clear();
        }
        let cq = qp.send_cq;
        if signals {
            self.posted_to(cq);
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
    ) -> Vec<Finding> {
        let object = self.qp_object(address);
        let refused = posted.first + accepted as u64..posted.first + posted.count as u64;
        let Some(qp) = self.qps.get_mut(&address) else {
            return Vec::new();
        };
        qp.thread = 0;
        let first_refused = qp
            .sends
            .iter()
            .find(|request| request.serial == refused.start && !refused.is_empty())
            .cloned();
        if !refused.is_empty() {
            qp.sends
                .retain(|request| !refused.contains(&request.serial));
        }
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
        if !outcome.is(libc::ENOMEM) {
            return Vec::new();
        }
        if qp.cap.max_send_wr == 0 {
            let found = finding(Rule::Argument)
                .with("what", "the queue pair was created with max_send_wr = 0");
            let found = found.with("why", "its send queue has no room for a request");
            return vec![found.with(
                "todo",
                "create the queue pair with cap.max_send_wr of 1 at least",
            )];
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
            return Vec::new();
        }
        if signaled == 0 {
            return vec![full(Rule::NeverSignaled)];
        }
        let polled = match self.cqs.get(&qp.send_cq).map_or(0, |cq| cq.polls) {
            0 => "never polled".into(),
            n => format!("polled {n} times, without their completions"),
        };
        vec![
            full(Rule::SendQueueFull)
                .with("signaled", signaled)
                .with("polled", polled),
        ]
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
            return vec![
                Finding::new(Rule::PostInError, object.clone(), call, outcome)
                    .with("wr_id", error.wr_id)
                    .with("operation", error.operation)
                    .with("status", error.status)
                    .with("text", super::completion::status_text(error.status)),
            ];
        }
        if qp.is_disconnected && qp.state == IBV_QPS_ERR {
            // One without data shows that all before it are done.
            let sends_data = qp.sends.back().filter(|last| last.length() > 0);
            return sends_data
                .map(|last| after_disconnect(object, last.wr_id, call))
                .into_iter()
                .collect();
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

    /// Receives were posted to a queue pair; the provider has accepted the first `accepted`. They are
    /// recorded before, as requests are: then `outcome` is [`Outcome::Called`].
    /// Reports a receive of a UD queue pair that has no room for the GRH.
    pub fn posting_receives(
        &mut self,
        address: usize,
        receives: impl Into<Receives>,
        thread: i32,
    ) -> Option<Finding> {
        let receives: Receives = receives.into();
        const CALL: &str = "ibv_post_recv";
        let object = self.qp_object(address);
        let context = self.qps.get(&address).map_or(0, |qp| qp.context);
        let mut sges = receives.iter().flat_map(|receive| &receive.sges);
        let mut found =
            self.on_dead_stack(&object, context, &mut sges, thread, report::stack(), CALL);
        if let Some(qp) = self.qps.get_mut(&address) {
            if qp.kind == IBV_QPT_UD && found.is_none() {
                let max = qp.cap.max_recv_sge as usize;
                found = receives
                    .iter()
                    // The lists of longer ones are not read.
                    .filter(|receive| receive.sges.len() <= max)
                    .map(super::failure::room)
                    .find(|room| *room < GRH_BYTES)
                    .map(|room| {
                        let outcome = Outcome::Called;
                        Finding::new(Rule::GrhRoom, object, "ibv_post_recv", outcome)
                            .with("room", room)
                    });
            }
            qp.receives_posted += receives.len() as u64;
            qp.last_receive_posted = Some(Instant::now());
            qp.receives.extend(receives);
            if qp.receives.len() > MAX_RECORDED {
                qp.receives.clear();
            }
        }
        found
    }

    /// The provider has refused the last `refused` of them, of which the first has `sges` elements.
    pub fn receives_refused(
        &mut self,
        address: usize,
        refused: usize,
        sges: usize,
        outcome: Outcome,
    ) -> Vec<Finding> {
        const CALL: &str = "ibv_post_recv";
        let object = self.qp_object(address);
        let Some(qp) = self.qps.get_mut(&address) else {
            return Vec::new();
        };
        qp.receives_posted = qp.receives_posted.saturating_sub(refused as u64);
        let left = qp.receives.len().saturating_sub(refused);
        qp.receives.truncate(left);
        let finding = |rule| Finding::new(rule, object.clone(), CALL, outcome.clone());
        let argument = |what: &str, why: &str, todo: &str| {
            let found = finding(Rule::Argument).with("what", what);
            found.with("why", why).with("todo", todo)
        };
        let found = if qp.kind == IBV_QPT_XRC_RECV {
            argument(
                "the queue pair is the receiving end of XRC",
                "its messages name the SRQ that they consume a receive of",
                "post receives to the XRC SRQ with ibv_post_srq_recv",
            )
        } else if qp.srq != 0 {
            argument(
                "the queue pair was created with an SRQ",
                "it takes its receives from there, and has no receive queue of its own",
                "post receives to the SRQ with ibv_post_srq_recv",
            )
        } else if qp.cap.max_recv_wr == 0 || qp.cap.max_recv_sge == 0 {
            argument(
                "the queue pair was created with max_recv_wr = 0 or max_recv_sge = 0",
                "its receive queue has no room for a receive",
                "create the queue pair with cap.max_recv_wr and cap.max_recv_sge of 1 at least",
            )
        } else if sges > qp.cap.max_recv_sge as usize {
            finding(Rule::SgeLimit)
                .with("count", sges)
                .with("member", "max_recv_sge")
                .with("max", qp.cap.max_recv_sge)
        } else if qp.state == IBV_QPS_RESET {
            post_state(finding(Rule::PostState), qp.state, CALL, "INIT")
        } else if outcome.is(libc::ENOMEM) && left > 0 {
            finding(Rule::RecvQueueFull)
                .with("outstanding", left)
                .with("max", qp.cap.max_recv_wr)
        } else {
            return Vec::new();
        };
        vec![found]
    }

    /// Receives were posted to a shared receive queue.
    pub fn srq_posted(
        &mut self,
        address: usize,
        accepted: usize,
        refused_sges: Option<usize>,
        outcome: Outcome,
    ) -> Vec<Finding> {
        let Some(srq) = self.srqs.get_mut(&address) else {
            return Vec::new();
        };
        srq.posted += accepted as u64;
        if accepted > 0 {
            srq.last_posted = Some(Instant::now());
        }
        let Some(sges) = refused_sges.filter(|_| outcome.failed()) else {
            return Vec::new();
        };
        let object = Object::at(Kind::Srq, address);
        let finding = |rule| Finding::new(rule, object, "ibv_post_srq_recv", outcome.clone());
        if sges > srq.max_sge as usize {
            return vec![
                finding(Rule::SgeLimit)
                    .with("count", sges)
                    .with("member", "max_sge")
                    .with("max", srq.max_sge),
            ];
        }
        if outcome.is(libc::ENOMEM) {
            return vec![
                finding(Rule::RecvQueueFull)
                    .with("outstanding", srq.posted.saturating_sub(srq.completed))
                    .with("max", srq.max),
            ];
        }
        Vec::new()
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

fn post_state(finding: Finding, state: u32, verb: &str, needed: &str) -> Finding {
    finding
        .with("state", state_name(state))
        .with("verb", verb)
        .with("needed", needed)
}

#[cfg(test)]
mod tests;
