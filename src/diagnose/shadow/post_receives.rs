//! Checks of receives when they are posted, and when the provider has refused them.

use ibverbs_abi::*;

use super::post::post_state;
use super::{Qp, Receive, Receives, Shadow};
use crate::diagnose::check::list::{self, Before};
use crate::diagnose::finding::{Finding, Outcome};
use crate::diagnose::report;
use crate::diagnose::rules::Rule;

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
        const CALL: &str = "ibv_post_recv";
        let mut receives: Receives = receives.into();
        for receive in &mut receives {
            receive.poster = thread;
        }
        let qp = self.qps.get_mut(&address)?;
        let object = qp.object();
        let sges = receives.iter().flat_map(|receive| &receive.sges);
        let by = (thread, report::stack());
        let mut found = self.mrs.on_dead_stack(&object, qp.context, sges, by, CALL);
        if qp.kind == IBV_QPT_UD && found.is_none() {
            let max = qp.cap.max_recv_sge as usize;
            // The lists of longer ones are not read.
            let is_short =
                |receive: &Receive| receive.sges.len() <= max && receive.room() < GRH_BYTES;
            found = receives.iter().position(is_short).map(|at| {
                let found = Finding::new(Rule::GrhRoom, object, CALL, Outcome::Called);
                let last = at.checked_sub(1).map(|last| receives[last].wr_id);
                let before = Before { count: at, last };
                before.noted(found.with("room", receives[at].room()), false)
            });
        }
        qp.receives.post(receives);
        let recv_cq = qp.recv_cq;
        self.cqs.change(recv_cq, |cq| cq.pollers.posts(thread));
        found
    }
}

impl Qp {
    /// The provider has refused the last `refused` receives, of which the first has `sges` elements.
    pub fn receives_refused(
        &mut self,
        refused: usize,
        sges: i32,
        outcome: Outcome,
    ) -> Vec<Finding> {
        const CALL: &str = "ibv_post_recv";
        let left = self.receives.take_back(refused);
        let finding = |rule| Finding::new(rule, self.object(), CALL, outcome.clone());
        let argument =
            |what: &str, why: &str, todo: &str| finding(Rule::Argument).with_texts(what, why, todo);
        let found = if self.kind == IBV_QPT_XRC_RECV {
            argument(
                "the queue pair is the receiving end of XRC",
                "its messages name the SRQ that they consume a receive of",
                "post receives to the XRC SRQ with ibv_post_srq_recv",
            )
        } else if self.kind == IBV_QPT_XRC_SEND {
            argument(
                "the queue pair is the sending end of XRC",
                "it has no receive queue: messages come to an XRC SRQ, by a queue pair of type XRC_RECV",
                "post receives to the XRC SRQ of this side with ibv_post_srq_recv",
            )
        } else if self.srq != 0 {
            argument(
                "the queue pair was created with an SRQ",
                "it takes its receives from there, and has no receive queue of its own",
                "post receives to the SRQ with ibv_post_srq_recv",
            )
        } else if self.cap.max_recv_wr == 0 || self.cap.max_recv_sge == 0 {
            argument(
                "the queue pair was created with max_recv_wr = 0 or max_recv_sge = 0",
                "its receive queue has no room for a receive",
                "create the queue pair with cap.max_recv_wr and cap.max_recv_sge of 1 at least",
            )
        } else if list::is_over(sges, self.cap.max_recv_sge) {
            let max = self.cap.max_recv_sge;
            list::sge_limit(finding(Rule::SgeLimit), sges, "max_recv_sge", max)
        } else if self.state == IBV_QPS_RESET {
            post_state(finding(Rule::PostState), self.state, (CALL, "INIT"), "")
        } else if outcome.is(libc::ENOMEM) && left > 0 {
            finding(Rule::RecvQueueFull)
                .with("outstanding", left)
                .with("max", self.cap.max_recv_wr)
        } else {
            return Vec::new();
        };
        vec![found]
    }
}
