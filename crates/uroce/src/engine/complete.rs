//! How requests leave the queues: completed in order, failed, or flushed (10.3.1, 10.7.3).

use ibverbs_abi::*;

use super::responder::Message;
use super::send_queue::Progress;
use super::{Completion, Host, Qp, QpEvent, QpState, RecvWr, Service, WorkQueue};

impl Qp {
    /// Completes what is done at the front of the send queue.
    pub(super) fn settle(&mut self, host: &mut impl Host) {
        while let Some(front) = self.send_queue.wqes.front() {
            let requester = &mut self.requester;
            let done = match front.progress {
                Progress::Executed => true,
                Progress::Waiting => front.end > front.first && front.end <= requester.oldest,
                Progress::Failed(status) => {
                    if requester.drain_end.is_none_or(|end| front.first < end) {
                        self.fail_oldest(status, host);
                        return;
                    }
                    false
                }
            };
            if !done {
                break;
            }
            let signaled = self.config.sq_sig_all || front.wr.flags.signaled;
            let completion = front.completion(IBV_WC_SUCCESS);
            self.send_queue.wqes.pop_front();
            requester.current = requester.current.saturating_sub(1);
            if signaled && host.complete(WorkQueue::Send, completion).is_err() {
                self.fatal(host);
                return;
            }
        }
        self.check_drained(host);
    }

    /// The oldest request fails, and with it the send queue (10.3.1: unreliable services go to SQE).
    pub(super) fn fail_oldest(&mut self, status: ibv_wc_status, host: &mut impl Host) {
        let overrun = match self.send_queue.wqes.pop_front() {
            Some(wqe) => host
                .complete(WorkQueue::Send, wqe.completion(status))
                .is_err(),
            None => false,
        };
        if overrun {
            self.fatal(host);
        } else if matches!(self.config.service, Service::Uc | Service::Ud) {
            self.state = QpState::Sqe;
            self.flush_sends(host);
        } else {
            self.enter_error(host);
        }
    }

    /// The queue pair cannot tell its program any more what it does (11.6.3.2).
    pub(super) fn fatal(&mut self, host: &mut impl Host) {
        if self.state != QpState::Err {
            host.event(QpEvent::Fatal);
            self.enter_error(host);
        }
    }

    /// To ERR: flushes all requests (10.3.1.7). Answers that are due already are still sent.
    pub(super) fn enter_error(&mut self, host: &mut impl Host) {
        if self.state == QpState::Err {
            return;
        }
        self.state = QpState::Err;
        self.flush_sends(host);
        let begun = match self.responder.message.take() {
            Some(Message::Send { receive, xrc, .. }) => Some((receive, queue_of(xrc))),
            _ => None,
        };
        let held = self.responder.held.take();
        let held = held.map(|receive| (receive, WorkQueue::Recv));
        for (receive, queue) in begun.into_iter().chain(held) {
            let _ = host.complete(queue, flushed(&receive));
        }
        for receive in self.receives.drain(..) {
            let _ = host.complete(WorkQueue::Recv, flushed(&receive));
        }
        if self.config.has_srq || self.config.service == Service::XrcRecv {
            host.event(QpEvent::LastWqeReached);
        }
    }

    pub(super) fn flush_sends(&mut self, host: &mut impl Host) {
        self.requester.stop_timers();
        self.requester.not_before = None;
        self.requester.drain_end = None;
        // What comes after SQE goes on with the next packet number.
        self.requester.oldest = self.requester.sent;
        self.requester.next = self.requester.sent;
        self.requester.current = 0;
        self.send_queue.resume(self.requester.sent);
        for wqe in self.send_queue.wqes.drain(..) {
            let _ = host.complete(WorkQueue::Send, wqe.completion(IBV_WC_WR_FLUSH_ERR));
        }
    }

    /// In SQD: tells when the requests that were begun before have completed (10.3.1.5).
    pub(super) fn check_drained(&mut self, host: &mut impl Host) {
        if !self.draining {
            return;
        }
        let front = self.send_queue.wqes.front();
        let end = self.requester.drain_end.unwrap_or(0);
        if front.is_none_or(|wqe| wqe.first >= end) {
            self.draining = false;
            if self.attributes.sqd_async_notify {
                host.event(QpEvent::SendQueueDrained);
            }
        }
    }
}

/// Where the completion of a receive goes.
pub fn queue_of(xrc: Option<u32>) -> WorkQueue {
    match xrc {
        Some(srqn) => WorkQueue::XrcSrq { srqn },
        None => WorkQueue::Recv,
    }
}

/// A receive that did not end well.
pub fn failed(receive: &RecvWr, status: ibv_wc_status) -> Completion {
    Completion::new(receive.wr_id, status, IBV_WC_RECV)
}

fn flushed(receive: &RecvWr) -> Completion {
    failed(receive, IBV_WC_WR_FLUSH_ERR)
}
