//! Removing WQEs from the send queue: completed, failed, flushed.

use ibverbs_abi::*;

use super::Requester;
use crate::engine::Completion;
use crate::engine::send_queue::WqeState;
use crate::engine::timer::TimerTable;

/// The finding of [`Requester::next_finished`] at the head of the send queue.
pub enum Finished {
    /// A WQE completed successfully and was removed.
    Success {
        completion: Completion,
        signaled: bool,
    },
    /// The oldest WQE is still there and has to fail with that status.
    Failed(ibv_wc_status),
}

impl Requester {
    /// Removes the oldest WQE if it is complete. None: the oldest WQE is neither complete nor failed.
    pub fn next_finished(&mut self) -> Option<Finished> {
        let wqe = self.queue.front()?;
        let complete = match wqe.state {
            WqeState::Executed => true,
            WqeState::Pending => wqe.end > wqe.first && wqe.end <= self.oldest_unacked,
            WqeState::Failed(status) => {
                let starts = self.drain_end.is_none_or(|end| wqe.first < end);
                return starts.then_some(Finished::Failed(status));
            }
        };
        let signaled = wqe.wr.flags.signaled;
        let completion = complete.then(|| self.queue.pop_front(IBV_WC_SUCCESS))??;
        self.current = self.current.saturating_sub(1);
        Some(Finished::Success {
            completion,
            signaled,
        })
    }

    /// Removes the oldest WQE, which fails with `status`. The caller flushes the others.
    pub fn fail_oldest(&mut self, status: ibv_wc_status) -> Option<Completion> {
        self.queue.pop_front(status)
    }

    /// Stops sending and draining, and removes all WQEs; returns their completions, oldest first. WQEs
    /// posted after a move from SQE to RTS go on with the next PSN.
    pub fn flush(&mut self) -> impl Iterator<Item = Completion> {
        self.timers = TimerTable::new();
        self.selective.stop();
        self.drain_end = None;
        self.draining = false;
        self.oldest_unacked = self.highest_sent;
        self.next = self.highest_sent;
        self.current = 0;
        self.queue.flush(self.highest_sent)
    }
}
