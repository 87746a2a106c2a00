//! Posted receives, of queue pairs and of shared receive queues. They are recorded before the provider gets
//! them, as requests are; those that it has refused are taken back.

use std::collections::VecDeque;
use std::time::Instant;

use ibverbs_abi::*;

use super::post::post_state;
use super::{MAX_RECORDED, Receive, Receives, Shadow};
use crate::diagnose::finding::{Finding, Kind, Object, Outcome};
use crate::diagnose::report;
use crate::diagnose::rules::Rule;

/// The receives that were posted to a queue pair, or to an SRQ.
#[derive(Clone, Debug, Default)]
pub struct ReceiveQueue {
    /// The outstanding ones, unless they are too many to be recorded.
    pub list: VecDeque<Receive>,
    pub posted: u64,
    pub completed: u64,
    pub last_posted: Option<Instant>,
}

impl ReceiveQueue {
    /// Records receives that are about to be posted.
    fn post(&mut self, receives: Receives) {
        self.posted += receives.len() as u64;
        self.last_posted = Some(Instant::now());
        self.list.extend(receives);
        if self.list.len() > MAX_RECORDED {
            self.list.clear();
        }
    }

    /// Takes out a receive that has completed.
    pub fn take(&mut self, wr_id: u64) -> Receive {
        self.completed += 1;
        let at = self.list.iter().position(|of| of.wr_id == wr_id);
        at.and_then(|at| self.list.remove(at)).unwrap_or_default()
    }

    /// Takes back the last `count` receives, which the provider has refused. Returns how many are left.
    fn take_back(&mut self, count: usize) -> usize {
        self.posted = self.posted.saturating_sub(count as u64);
        let left = self.list.len().saturating_sub(count);
        self.list.truncate(left);
        left
    }
}

/// Precedes the data of a datagram in its receive.
const GRH_BYTES: u64 = 40;

impl Shadow {
    /// Receives are about to be posted to a queue pair. Reports one of a UD queue pair that has no room for
    /// the GRH.
    pub fn posting_receives(
        &mut self,
        address: usize,
        receives: impl Into<Receives>,
        thread: i32,
    ) -> Option<Finding> {
        let receives: Receives = receives.into();
        const CALL: &str = "ibv_post_recv";
        let qp = self.qps.get(&address);
        let (number, context) = qp.map_or((0, 0), |qp| (qp.number, qp.context));
        let object = Object::qp(address, number);
        let mut sges = receives.iter().flat_map(|receive| &receive.sges);
        let stack = report::stack();
        let mut found = self.on_dead_stack(&object, context, &mut sges, thread, stack, CALL);
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
            qp.receives.post(receives);
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
        let left = qp.receives.take_back(refused);
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
        } else if qp.kind == IBV_QPT_XRC_SEND {
            argument(
                "the queue pair is the sending end of XRC",
                "it has no receive queue: messages come to an XRC SRQ, by a queue pair of type XRC_RECV",
                "post receives to the XRC SRQ of this side with ibv_post_srq_recv",
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

    /// Receives are about to be posted to a shared receive queue: they are recorded before.
    pub fn srq_posting(&mut self, address: usize, receives: Receives) {
        if let Some(srq) = self.srqs.get_mut(&address) {
            srq.receives.post(receives);
        }
    }

    /// The provider has refused the last `refused` receives, of which the first has `sges` elements.
    pub fn srq_refused(
        &mut self,
        address: usize,
        refused: usize,
        sges: usize,
        outcome: Outcome,
    ) -> Vec<Finding> {
        let Some(srq) = self.srqs.get_mut(&address) else {
            return Vec::new();
        };
        srq.receives.take_back(refused);
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
                    .with(
                        "outstanding",
                        srq.receives.posted.saturating_sub(srq.receives.completed),
                    )
                    .with("max", srq.max),
            ];
        }
        Vec::new()
    }
}
