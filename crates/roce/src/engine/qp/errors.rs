//! Errors: those of the send queue and of requests, and the moves to SQE and ERR (10.3.1).

use super::{Hca, Qp, QpEvent, QpState, SendError, Service};
use crate::engine::responder::{ErrorReport, ResponderAction};

impl Qp {
    /// The value that a call of the send side returned. An error moves the queue pair to ERR or SQE, and
    /// gives the default value.
    #[inline(always)]
    pub(super) fn unwrap_or_fail<T: Default>(
        &mut self,
        result: Result<T, SendError>,
        hca: &mut impl Hca,
    ) -> T {
        result.unwrap_or_else(|error| {
            self.on_send_error(error, hca);
            T::default()
        })
    }

    /// Completes the finished WQEs at the head of the send queue.
    #[inline]
    pub(super) fn complete_sends(&mut self, hca: &mut impl Hca) {
        let result = self.sends.complete(&self.attributes, hca);
        self.unwrap_or_fail(result, hca);
    }

    /// The oldest send WQE fails, and with it the send queue (10.3.1: to SQE for unreliable services).
    #[cold]
    pub(super) fn on_send_error(&mut self, error: SendError, hca: &mut impl Hca) {
        let reported = match error {
            SendError::Failed(status) => self.sends.fail_oldest(status, hca).is_ok(),
            SendError::Overrun => false,
        };
        if !reported {
            self.enter_fatal_error(hca);
        } else if self.attributes.config.service.is_reliable() {
            self.enter_error(hca);
        } else {
            self.state = QpState::Sqe;
            self.sends.flush(hca);
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

    /// The memory of a READ in progress is not accessible any more.
    #[cold]
    pub(super) fn on_read_refused(&mut self, hca: &mut impl Hca) {
        if self.state != QpState::Err {
            hca.event(QpEvent::AccessError);
            self.enter_error(hca);
        }
    }

    /// A completion was lost (11.6.3.2): raises the fatal event and moves to ERR.
    fn enter_fatal_error(&mut self, hca: &mut impl Hca) {
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
        self.sends.flush(hca);
        self.responder.flush(hca);
        let config = &self.attributes.config;
        if config.has_srq || config.service == Service::XrcRecv {
            hca.event(QpEvent::LastWqeReached);
        }
    }
}
