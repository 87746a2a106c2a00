//! Requests that are built by ibv_wr_* functions: the order of these calls.

use ibverbs_abi::*;

use super::{SendRequest, Shadow};
use crate::diagnose::finding::{Finding, Object, Outcome};
use crate::diagnose::rules::Rule;

const ORDER: &str = "call ibv_wr_start, then for each request set wr_id and wr_flags, call its operation \
                     (ibv_wr_send, ibv_wr_rdma_write, ...) and after it its setters, then ibv_wr_complete";

fn out_of_order(object: Object, call: &'static str, what: String, why: &'static str) -> Finding {
    Finding::new(Rule::Argument, object, call, Outcome::Called)
        .with("what", what)
        .with("why", why)
        .with("todo", ORDER)
}

/// The flags of a queue pair were set after the last operation, which has used the old ones. `now` are wr_id
/// and wr_flags.
fn changed_late(last: &SendRequest, (wr_id, flags): (u64, u32)) -> Option<String> {
    let added = flags & !last.flags;
    (added != 0).then(|| {
        let also = match wr_id == last.wr_id {
            true => String::new(),
            false => format!(", and wr_id from {:#x} to {wr_id:#x}", last.wr_id),
        };
        format!(
            "wr_flags of the queue pair changed from {:#x} to {flags:#x}{also} after the operation of the \
             last request",
            last.flags
        )
    })
}

impl Shadow {
    /// `thread` calls ibv_wr_start. Reports another one that builds requests, if the queue pair is for one
    /// thread, and the same one, which has not completed what it has begun.
    pub fn building(&mut self, address: usize, thread: i32, call: &'static str) -> Vec<Finding> {
        let object = self.qp_object(address);
        let Some(qp) = self.qps.get_mut(&address) else {
            return Vec::new();
        };
        if qp.built_by == thread {
            let what = "this thread has called ibv_wr_start before, and since then neither \
                        ibv_wr_complete nor ibv_wr_abort"
                .into();
            let why = "ibv_wr_start locks the queue pair until one of these two, so the call does not end";
            return vec![out_of_order(object, call, what, why)];
        }
        if !qp.single_threaded {
            return Vec::new();
        }
        let other = core::mem::replace(&mut qp.thread, thread);
        if other == 0 || other == thread {
            return Vec::new();
        }
        let what = "queue pair's domain";
        vec![super::overlap::overlap(
            object, call, other, thread, what, "a TD",
        )]
    }

    /// ibv_wr_start has returned to `thread`.
    pub fn building_begun(&mut self, address: usize, thread: i32) {
        if let Some(qp) = self.qps.get_mut(&address) {
            qp.building.clear();
            qp.built_by = thread;
        }
    }

    /// An operation was called: `request` begins.
    pub fn request_begun(
        &mut self,
        address: usize,
        request: SendRequest,
        call: &'static str,
    ) -> Option<Finding> {
        let object = self.qp_object(address);
        let qp = self.qps.get_mut(&address)?;
        qp.building.push(request);
        (qp.built_by == 0).then(|| {
            let what = "the request is built without ibv_wr_start".into();
            let why =
                "ibv_wr_start locks the send queue, and what is built before it is not posted";
            out_of_order(object, call, what, why)
        })
    }

    /// A setter was called: `change` is applied to the last request.
    pub fn part_set(
        &mut self,
        address: usize,
        change: impl FnOnce(&mut SendRequest),
        call: &'static str,
    ) -> Option<Finding> {
        let object = self.qp_object(address);
        let qp = self.qps.get_mut(&address)?;
        match qp.building.last_mut() {
            Some(last) => {
                change(last);
                None
            }
            None => {
                let what = "there is no request that it can be set in".into();
                let why = "a setter belongs to the request of the operation before it";
                Some(out_of_order(object, call, what, why))
            }
        }
    }

    /// The requests that are built are to be posted: takes them. Reports what is missing. `now` are wr_id
    /// and wr_flags of the queue pair.
    pub fn completing(
        &mut self,
        address: usize,
        now: (u64, u32),
        call: &'static str,
    ) -> (Vec<SendRequest>, Option<Finding>) {
        let object = self.qp_object(address);
        let Some(qp) = self.qps.get_mut(&address) else {
            return (Vec::new(), None);
        };
        let begun = core::mem::take(&mut qp.built_by) != 0;
        let list = core::mem::take(&mut qp.building);
        if !begun && list.is_empty() {
            let what = "ibv_wr_start was not called before".into();
            let why = "it unlocks the send queue, which ibv_wr_start has to lock";
            return (list, Some(out_of_order(object, call, what, why)));
        }
        let changed = list.last().and_then(|last| changed_late(last, now));
        if let Some(what) = changed {
            let why =
                "the operation takes them when it is called, so that it has used the old values";
            return (list, Some(out_of_order(object, call, what, why)));
        }
        let lacks_address = |of: &&SendRequest| of.ah == 0 && qp.kind == IBV_QPT_UD;
        let found = list.iter().find(lacks_address).map(|of| {
            let what = format!(
                "the datagram (wr_id {}) has no destination: ibv_wr_set_ud_addr was not called for it",
                of.wr_id
            );
            let why = "each request of a UD queue pair names its address handle, queue pair and Q_Key";
            out_of_order(object, call, what, why)
        });
        (list, found)
    }

    /// ibv_wr_abort was called.
    pub fn aborted(&mut self, address: usize) {
        self.bindings_end(address, false);
        if let Some(qp) = self.qps.get_mut(&address) {
            qp.building.clear();
            qp.thread = 0;
            qp.built_by = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{request, rules, shadow_with_qp};
    use super::*;

    #[test]
    fn the_order_of_calls() {
        let mut shadow = shadow_with_qp(IBV_QPS_RTS);
        let early = shadow.part_set(30, |_| (), "ibv_wr_set_sge");
        assert_eq!(early.map(|found| found.rule), Some(Rule::Argument));
        let early = shadow.request_begun(30, request(1, 7), "ibv_wr_send");
        assert!(early.is_some());
        assert!(shadow.completing(30, (1, 0), "ibv_wr_complete").1.is_none());
        assert!(shadow.completing(30, (1, 0), "ibv_wr_complete").1.is_some());
        assert_eq!(rules(&shadow.building(30, 5, "ibv_wr_start")), []);
        shadow.building_begun(30, 5);
        assert!(
            shadow
                .request_begun(30, request(1, 7), "ibv_wr_send")
                .is_none()
        );
        assert!(
            shadow
                .part_set(30, |of| of.ah = 1, "ibv_wr_set_sge")
                .is_none()
        );
        let again = shadow.building(30, 5, "ibv_wr_start");
        assert_eq!(rules(&again), [Rule::Argument]);
        assert_eq!(rules(&shadow.building(30, 6, "ibv_wr_start")), []);
        let (list, found) = shadow.completing(30, (1, 0), "ibv_wr_complete");
        assert_eq!((list[0].ah, found.is_none()), (1, true));
        shadow.building_begun(30, 5);
        shadow.aborted(30);
        assert_eq!(rules(&shadow.building(30, 5, "ibv_wr_start")), []);
    }
}
