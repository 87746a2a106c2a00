//! Hazards of memory that no error shows: buffers that change, overlap, or are of a dead stack frame.

use ibverbs_abi::IBV_QPT_UD;

use super::qps::Qps;
use super::{Receive, SendRequest, Sge, Shadow};
use crate::diagnose::facts;
use crate::diagnose::finding::{Finding, Outcome};
use crate::diagnose::report;
use crate::diagnose::rules::Rule;

/// A program that posts more receives of one buffer means it: it does not look at the data.
const MAX_SAME: usize = 16;

impl Qps {
    /// The data of a request that has completed is not what was posted. Receives and READs into the same
    /// memory may have changed it: then nothing is said. Nor is it of a datagram if one has come since: that
    /// may be the peer's answer, after which UCX and others use the buffer again.
    pub(super) fn changed(
        &self,
        address: usize,
        request: &SendRequest,
        call: &'static str,
    ) -> Option<Finding> {
        if request.digest == 0 || self.are_written_to(&request.sges) {
            return None;
        }
        let qp = self.get(&address)?;
        if qp.kind == IBV_QPT_UD && qp.receives.completed() != request.received {
            return None;
        }
        let now = facts::digest(&request.sges).ok()?;
        let sge = request.sges.iter().find(|sge| sge.length > 0)?;
        (now != request.digest).then(|| {
            Finding::new(
                Rule::BufferChanged,
                self.object(address),
                call,
                Outcome::Succeeded,
            )
            .with("operation", request.operation())
            .with("wr_id", request.wr_id)
            .with("length", request.length())
            .with("addr", format!("{:#x}", sge.addr))
        })
    }

    /// Whether a device may be writing to a part of these buffers.
    pub(super) fn are_written_to(&self, sges: &[Sge]) -> bool {
        let overlaps = |other: &Sge| {
            sges.iter()
                .any(|sge| u128::from(sge.addr) < other.end() && u128::from(other.addr) < sge.end())
        };
        self.values().any(|qp| {
            let receives = qp.receives.iter().flat_map(|receive| &receive.sges);
            let reads = qp.sends.iter().filter(|of| of.returns_data());
            qp.srq != 0 || receives.chain(reads.flat_map(|of| &of.sges)).any(overlaps)
        })
    }

    /// Receives into the same memory, and whether that is the same buffer. None of a program that has posted
    /// many: it does not look at their data.
    fn overlapping(&self, address: usize, receive: &Receive) -> Option<(Finding, bool)> {
        let qp = self.get(&address)?;
        if qp.receives.len() > MAX_SAME {
            return None;
        }
        let posted = qp.receives.iter().chain([receive]);
        let ranges =
            posted.flat_map(|receive| receive.sges.iter().map(move |sge| (sge, receive.wr_id)));
        let mut ranges: Vec<(&Sge, u64)> = ranges.filter(|(sge, _)| sge.length > 0).collect();
        ranges.sort_by_key(|(sge, _)| (sge.addr, sge.length));
        let overlap = |pair: &&[(&Sge, u64)]| {
            let [(a, _), (b, _)] = pair else { return false };
            u128::from(b.addr) < a.end()
        };
        let pair = ranges.windows(2).find(overlap)?;
        let [(a, first), (b, second)] = pair else {
            return None;
        };
        let object = self.object(address);
        let common = a.end().min(b.end()) - u128::from(b.addr);
        let is_same = (a.addr, a.length) == (b.addr, b.length);
        let (call, outcome) = ("ibv_post_recv", Outcome::Called);
        let finding = Finding::new(Rule::ReceivesOverlap, object, call, outcome)
            .with("first", first)
            .with("second", second)
            .with("common", common)
            .with("addr", format!("{:#x}", b.addr));
        Some((finding, is_same))
    }
}

impl Shadow {
    /// A receive of a queue pair has completed: reports the first that were posted with the same memory. A
    /// program that posts the same buffer twice may not look at the data: it is reported when the peer sends
    /// different data.
    pub(super) fn received(&mut self, address: usize, receive: &Receive) -> Option<Finding> {
        let found = match self.qps.get(&address)?.receives.completed() {
            1 => self.qps.overlapping(address, receive),
            _ => None,
        };
        if let Some((finding, is_same)) = found {
            if !is_same {
                return Some(finding);
            }
            self.qps.get_mut(&address)?.same_buffer = Some(finding);
        }
        let qp = self.qps.get(&address)?;
        qp.same_buffer.as_ref()?;
        let peer = self.peer(qp)?;
        match peer.sends.messages_vary() {
            true => self.qps.get_mut(&address)?.same_buffer.take(),
            false => None,
        }
    }

    /// A receive of a queue pair that waits with memory of the stack, of a function of `thread` that has
    /// returned.
    pub fn receives_on_dead_stack(&self, thread: i32, call: &'static str) -> Option<Finding> {
        if !self.mrs.had_some_on_stack() {
            return None;
        }
        let by = (thread, report::stack());
        self.qps.values().find_map(|qp| {
            let sges = qp.receives.iter().flat_map(|receive| &receive.sges);
            self.mrs
                .on_dead_stack(&qp.object(), qp.context, sges, by, call)
        })
    }
}
