//! How WQEs leave the queues: completed in order, failed, or flushed (10.3.1, 10.7.3).

use ibverbs_abi::*;

use super::{Hca, Qp, QpEvent, QpState, Service, WorkQueue};
use crate::engine::requester::Finished;
use crate::engine::responder::{ErrorReport, ResponderAction};
use crate::engine::{Completion, Overrun};

impl Qp {
    /// Completes the finished WQEs at the head of the send queue.
    pub(super) fn complete_sends(&mut self, hca: &mut impl Hca) {
        while let Some(finished) = self.sends.next_finished() {
            match finished {
                Finished::Success {
                    completion,
                    signaled,
                } => {
                    self.counters.rdma_sends += u64::from(completion.opcode == IBV_WC_SEND);
                    if self.report_send(signaled, completion, hca).is_err() {
                        return self.enter_fatal_error(hca);
                    }
                }
                Finished::Failed(status) => return self.fail_oldest_send(status, hca),
            }
        }
        self.check_drained(hca);
    }

    /// Reports the completion of the WR that has succeeded last, if the program wants one.
    #[inline]
    pub(super) fn report_send(
        &mut self,
        signaled: bool,
        mut completion: Completion,
        hca: &mut impl Hca,
    ) -> Result<(), Overrun> {
        if !signaled && !self.attributes.config.sq_sig_all {
            hca.on_unsignaled(&completion);
            return Ok(());
        }
        self.sends.queue_mut().report(&mut completion);
        hca.complete(WorkQueue::Send, completion)
    }

    /// The oldest send WQE fails, and with it the send queue (10.3.1: to SQE for unreliable services).
    pub(super) fn fail_oldest_send(&mut self, status: ibv_wc_status, hca: &mut impl Hca) {
        let completion = self.sends.queue_mut().pop_front(status);
        let overrun =
            completion.is_some_and(|completion| hca.complete(WorkQueue::Send, completion).is_err());
        if overrun {
            self.enter_fatal_error(hca);
        } else if self.attributes.config.service.is_reliable() {
            self.enter_error(hca);
        } else {
            self.state = QpState::Sqe;
            self.flush_sends(hca);
        }
    }

    /// Does what the responder requires after a request.
    #[inline(always)]
    pub(super) fn on_responder_action(&mut self, action: ResponderAction, hca: &mut impl Hca) {
        if !matches!(action, ResponderAction::None) {
            self.on_request_error(action, hca);
        }
    }

    #[cold]
    fn on_request_error(&mut self, action: ResponderAction, hca: &mut impl Hca) {
        match action {
            ResponderAction::None => {}
            ResponderAction::Fatal => self.enter_fatal_error(hca),
            ResponderAction::Fail(report) => {
                match report {
                    // The completion queue may be full; the queue pair moves to ERR in any case.
                    ErrorReport::Completion { queue, completion } => {
                        let _ = hca.complete(queue, completion);
                    }
                    ErrorReport::Event(event) => hca.event(event),
                }
                self.enter_error(hca);
            }
        }
    }

    /// A completion was lost (11.6.3.2): raises the fatal event and moves to ERR.
    pub(super) fn enter_fatal_error(&mut self, hca: &mut impl Hca) {
        if self.state != QpState::Err {
            hca.event(QpEvent::Fatal);
            self.enter_error(hca);
        }
    }

    /// Moves to ERR and flushes both queues (10.3.1.7). Responses that are due are still sent.
    pub(super) fn enter_error(&mut self, hca: &mut impl Hca) {
        if self.state == QpState::Err {
            return;
        }
        self.state = QpState::Err;
        self.flush_sends(hca);
        self.flush_receives(hca);
        let config = &self.attributes.config;
        if config.has_srq || config.service == Service::XrcRecv {
            hca.event(QpEvent::LastWqeReached);
        }
    }

    /// Flushes the receive queue.
    pub(super) fn flush_receives(&mut self, hca: &mut impl Hca) {
        self.responder.flush(|queue, completion| {
            let _ = hca.complete(queue, completion);
        });
    }

    /// Flushes the send queue.
    pub(super) fn flush_sends(&mut self, hca: &mut impl Hca) {
        for completion in self.sends.flush() {
            let _ = hca.complete(WorkQueue::Send, completion);
        }
    }

    /// In SQD: raises the event when the WQEs that were started have completed (10.3.1.5).
    pub(super) fn check_drained(&mut self, hca: &mut impl Hca) {
        if self.sends.take_drained() && self.attributes.sqd_async_notify {
            hca.event(QpEvent::SendQueueDrained);
        }
    }
}
