//! How WQEs leave the send queue: completed in order, failed, or flushed (10.3.1, 10.7.3).

use ibverbs_abi::*;

use super::{Attributes, Finished, Hca, Overrun, SendError, SendSide};
use crate::engine::{Completion, QpEvent, WorkQueue};

impl SendSide {
    /// Completes the finished WQEs at the head of the queue.
    pub fn complete(
        &mut self,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> Result<(), SendError> {
        while let Some(finished) = self.next_finished() {
            match finished {
                Finished::Success {
                    completion,
                    signaled,
                } => {
                    let is_send = completion.opcode == IBV_WC_SEND;
                    self.completer.counters_mut().rdma_sends += u64::from(is_send);
                    self.report(signaled, completion, attributes, hca)?;
                }
                Finished::Failed(status) => return Err(status.into()),
            }
        }
        self.check_drained(attributes, hca);
        Ok(())
    }

    /// Reports the completion of the WR that has succeeded last, if the program wants one.
    #[inline]
    pub(super) fn report(
        &mut self,
        signaled: bool,
        mut completion: Completion,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> Result<(), Overrun> {
        if !signaled && !attributes.config.sq_sig_all {
            hca.on_unsignaled(&completion);
            return Ok(());
        }
        self.queue_mut().report(&mut completion);
        hca.complete(WorkQueue::Send, completion)
    }

    /// The oldest WQE fails.
    pub fn fail_oldest(
        &mut self,
        status: ibv_wc_status,
        hca: &mut impl Hca,
    ) -> Result<(), Overrun> {
        let counters = self.completer.counters_mut();
        match status {
            IBV_WC_RETRY_EXC_ERR => counters.retry_exceeded_err += 1,
            IBV_WC_RNR_RETRY_EXC_ERR => counters.retry_rnr_exceeded_err += 1,
            _ => {}
        }
        match self.queue_mut().pop_front(status) {
            Some(completion) => hca.complete(WorkQueue::Send, completion),
            None => Ok(()),
        }
    }

    /// Flushes the queue.
    pub fn flush(&mut self, hca: &mut impl Hca) {
        if let Some(sender) = &mut self.sender {
            sender.flush();
        }
        self.completer.flush(hca);
        for completion in self.requester.flush() {
            let _ = hca.complete(WorkQueue::Send, completion);
        }
    }

    /// In SQD: raises the event when the WQEs that were started have completed (10.3.1.5).
    pub(super) fn check_drained(&mut self, attributes: &Attributes, hca: &mut impl Hca) {
        if self.queue_mut().take_drained() && attributes.sqd_async_notify {
            hca.event(QpEvent::SendQueueDrained);
        }
    }
}
