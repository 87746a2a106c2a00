//! Requests that are built by ibv_wr_* functions: the order of these calls.

use ibverbs_abi::*;

use super::request::SendRequest;
use super::windows::Binding;
use crate::diagnose::finding::{Finding, Object, Outcome};
use crate::diagnose::rules::Rule;

const ORDER: &str = "call ibv_wr_start, then for each request set wr_id and wr_flags, call its operation \
                     (ibv_wr_send, ibv_wr_rdma_write, ...) and after it its setters, then ibv_wr_complete";

fn out_of_order(object: Object, call: &'static str, what: String, why: &'static str) -> Finding {
    Finding::new(Rule::Argument, object, call, Outcome::Called).with_texts(what, why, ORDER)
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

/// The requests of a queue pair between ibv_wr_start and ibv_wr_complete.
#[derive(Clone)]
pub struct Building {
    /// The queue pair.
    of: Object,
    requests: Vec<SendRequest>,
    /// The thread that is between these two calls, or 0.
    by: i32,
    /// Binds among the requests: the window, its key when they are posted, what it is bound to.
    binds: Vec<(usize, u32, Binding)>,
    /// A call came too early since ibv_wr_start: that is why ibv_wr_complete fails.
    is_misplaced: bool,
}

impl Building {
    pub fn new(of: Object) -> Building {
        Building {
            of,
            requests: Vec::new(),
            by: 0,
            binds: Vec::new(),
            is_misplaced: false,
        }
    }

    /// `thread` calls ibv_wr_start. Reports the same one, if it has not completed what it has begun.
    pub fn begins(&mut self, thread: i32, call: &'static str) -> Option<Finding> {
        self.is_misplaced = false;
        (self.by == thread).then(|| {
            let what = "this thread has called ibv_wr_start before, and since then neither \
                        ibv_wr_complete nor ibv_wr_abort"
                .into();
            let why = "ibv_wr_start locks the queue pair until one of these two, so the call does not end";
            out_of_order(self.of.clone(), call, what, why)
        })
    }

    /// `thread` calls ibv_post_send. Reports it, if it has not completed what it has begun.
    pub fn interrupted(&self, thread: i32, call: &'static str) -> Option<Finding> {
        (self.by == thread && call == "ibv_post_send").then(|| {
            let what = "this thread has called ibv_wr_start, and since then neither ibv_wr_complete nor \
                        ibv_wr_abort"
                .into();
            let why = "ibv_wr_start locks the send queue until one of these two: on many devices the call \
                       waits without end";
            out_of_order(self.of.clone(), call, what, why)
        })
    }

    /// ibv_wr_start has returned to `thread`.
    pub fn begun(&mut self, thread: i32) {
        self.requests.clear();
        self.by = thread;
    }

    /// An operation was called: `request` begins.
    pub fn push(&mut self, request: SendRequest, call: &'static str) -> Option<Finding> {
        self.requests.push(request);
        self.is_misplaced |= self.by == 0;
        (self.by == 0).then(|| {
            let what = "the request is built without ibv_wr_start".into();
            let why =
                "ibv_wr_start locks the send queue, and what is built before it is not posted";
            out_of_order(self.of.clone(), call, what, why)
        })
    }

    /// A bind of a window begins.
    pub fn bind(&mut self, mw: usize, rkey: u32, to: Binding) {
        self.binds.push((mw, rkey, to));
    }

    /// A setter was called: `change` is applied to the last request.
    pub fn set(
        &mut self,
        change: impl FnOnce(&mut SendRequest),
        call: &'static str,
    ) -> Option<Finding> {
        match self.requests.last_mut() {
            Some(last) => {
                change(last);
                None
            }
            None => {
                self.is_misplaced = true;
                let what = "there is no request that it can be set in".into();
                let why = "a setter belongs to the request of the operation before it";
                Some(out_of_order(self.of.clone(), call, what, why))
            }
        }
    }

    /// The requests that are built are to be posted: takes them. Reports what is missing. `now` are wr_id
    /// and wr_flags of the queue pair, `kind` is its type.
    pub fn complete(
        &mut self,
        now: (u64, u32),
        kind: ibv_qp_type,
        call: &'static str,
    ) -> (Vec<SendRequest>, Option<Finding>) {
        let begun = core::mem::take(&mut self.by) != 0;
        let list = core::mem::take(&mut self.requests);
        let wrong = |what, why| Some(out_of_order(self.of.clone(), call, what, why));
        if !begun && list.is_empty() {
            let what = "ibv_wr_start was not called before".into();
            let why = "it unlocks the send queue, which ibv_wr_start has to lock";
            return (list, wrong(what, why));
        }
        let changed = list.last().and_then(|last| changed_late(last, now));
        if let Some(what) = changed {
            let why =
                "the operation takes them when it is called, so that it has used the old values";
            return (list, wrong(what, why));
        }
        let lacks_address = |of: &&SendRequest| of.ah == 0 && kind == IBV_QPT_UD;
        let found = list.iter().find(lacks_address).and_then(|of| {
            let what = format!(
                "the datagram (wr_id {}) has no destination: ibv_wr_set_ud_addr was not called for it",
                of.wr_id
            );
            let why = "each request of a UD queue pair names its address handle, queue pair and Q_Key";
            wrong(what, why)
        });
        (list, found)
    }

    /// Whether a call came too early since ibv_wr_start; once.
    pub fn take_misplaced(&mut self) -> bool {
        core::mem::take(&mut self.is_misplaced)
    }

    /// Takes the binds: they are posted, or dropped.
    pub fn take_binds(&mut self) -> Vec<(usize, u32, Binding)> {
        core::mem::take(&mut self.binds)
    }

    /// ibv_wr_abort was called.
    pub fn abort(&mut self) {
        self.binds.clear();
        self.requests.clear();
        self.by = 0;
    }

    /// How many requests are built.
    pub fn len(&self) -> usize {
        self.requests.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{request, rules};
    use super::*;

    const COMPLETE: &str = "ibv_wr_complete";

    #[test]
    fn the_order_of_calls() {
        let mut building = Building::new(Object::qp(30, 17));
        let early = building.set(|_| (), "ibv_wr_set_sge");
        assert_eq!(rules(&early), [Rule::Argument]);
        let early = building.push(request(1, 7), "ibv_wr_send");
        assert_eq!(rules(&early), [Rule::Argument]);
        let complete = |building: &mut Building| building.complete((1, 0), IBV_QPT_RC, COMPLETE);
        assert!(complete(&mut building).1.is_none());
        assert!(building.take_misplaced() && !building.take_misplaced());
        assert!(complete(&mut building).1.is_some());
        assert!(building.begins(5, "ibv_wr_start").is_none());
        building.begun(5);
        assert!(building.push(request(1, 7), "ibv_wr_send").is_none());
        assert!(building.set(|of| of.ah = 1, "ibv_wr_set_sge").is_none());
        let again = building.begins(5, "ibv_wr_start");
        assert_eq!(rules(&again), [Rule::Argument]);
        assert!(building.begins(6, "ibv_wr_start").is_none());
        let (list, found) = complete(&mut building);
        assert_eq!((list[0].ah, found), (1, None));
        building.begun(5);
        building.abort();
        assert!(building.begins(5, "ibv_wr_start").is_none());
    }

    #[test]
    fn flags_and_destinations() {
        let mut building = Building::new(Object::qp(30, 17));
        let mut complete = |flags, kind| {
            building.begun(5);
            building.push(request(1, 7), "ibv_wr_send");
            let found = building.complete((1, flags), kind, COMPLETE).1;
            found.map_or_else(String::new, |found| found.line())
        };
        assert_eq!(complete(0, IBV_QPT_RC), "");
        assert!(complete(0, IBV_QPT_UD).contains("has no destination"));
        assert!(complete(IBV_SEND_SIGNALED, IBV_QPT_RC).contains("changed from 0x0 to 0x2"));
    }
}
