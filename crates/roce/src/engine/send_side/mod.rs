//! [`SendSide`]: the send queue of a queue pair, and what carries its requests: packets, with requester and
//! completer, or fragments in shared memory, with the sender, once it is bound to that.
//!
//! | file | what it does |
//! |---|---|
//! | `post` | posting, and WRs that the HCA executes without the peer's responder |
//! | `complete` | how WQEs leave the queue |
//! | `packets` | packets that are sent, and responses in packets |
//! | `fragments` | the same through shared memory |
//!
//! It completes send WRs. Not here: the state of the queue pair, which moves to ERR or SQE after a
//! [`SendError`].

mod complete;
mod fragments;
mod packets;
mod post;

use ibverbs_abi::*;

use super::attributes::Attributes;
use super::completer::Completer;
use super::counters::Counters;
use super::requester::Requester;
use super::send_queue::{Finished, SendQueue};
use super::shm::Sender;
use super::{Clock, Hca, Overrun, PeerActivity, QpConfig, Service, Time};
use crate::wire::Psn;

/// Why a send queue stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The oldest WQE fails with that status: [`SendSide::fail_oldest`].
    Failed(ibv_wc_status),
    /// A completion was lost.
    Overrun,
}

impl From<ibv_wc_status> for SendError {
    fn from(status: ibv_wc_status) -> SendError {
        SendError::Failed(status)
    }
}

impl From<Overrun> for SendError {
    fn from(_: Overrun) -> SendError {
        SendError::Overrun
    }
}

/// The send side of a queue pair.
pub struct SendSide {
    requester: Requester,
    completer: Completer,
    /// Once the requester is bound to shared memory.
    sender: Option<Sender>,
}

impl SendSide {
    /// An empty send queue without a connection.
    pub fn new(config: &QpConfig) -> SendSide {
        SendSide {
            requester: Requester::new(config),
            completer: Completer::default(),
            sender: None,
        }
    }

    /// Starts a connection: the first request has PSN `psn`.
    pub fn start(&mut self, psn: Psn, attributes: &Attributes) {
        self.requester.start(psn, attributes);
        self.completer.start(attributes);
    }

    /// The requester of packets.
    #[inline]
    pub fn requester(&self) -> &Requester {
        &self.requester
    }

    /// The requester of packets, to send one.
    #[inline]
    pub fn requester_mut(&mut self) -> &mut Requester {
        &mut self.requester
    }

    /// The counts since they were taken last.
    pub fn counters(&self) -> &Counters {
        self.completer.counters()
    }

    /// [`SendSide::counters`], which begin at 0 again.
    pub fn take_counters(&mut self) -> Counters {
        std::mem::take(self.completer.counters_mut())
    }

    /// The send queue.
    #[inline]
    pub fn queue(&self) -> &SendQueue {
        self.requester.window().queue()
    }

    #[inline]
    fn queue_mut(&mut self) -> &mut SendQueue {
        self.requester.window_mut().queue_mut()
    }

    /// Whether the requester is bound to shared memory.
    #[inline]
    pub fn is_bound(&self) -> bool {
        self.sender.is_some()
    }

    /// The sender and the send queue, if the requester is bound to shared memory.
    #[inline]
    fn sender_mut(&mut self) -> Option<(&mut Sender, &mut SendQueue)> {
        let sender = self.sender.as_mut()?;
        Some((sender, self.requester.window_mut().queue_mut()))
    }

    /// The PSN of the next request (`sq_psn` of `ibv_query_qp`).
    pub fn next_psn(&self) -> Psn {
        match &self.sender {
            Some(sender) => sender.next_psn(),
            None => self.requester.window().next_psn(),
        }
    }

    /// Whether there is a WQE that is not sent completely, or a local operation that is not executed.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        match &self.sender {
            Some(sender) => sender.has_unsent(self.queue()),
            None => self.requester.has_unsent(),
        }
    }

    /// Whether it waits after an RNR NAK.
    #[inline]
    pub fn is_rnr_waiting(&self) -> bool {
        match &self.sender {
            Some(sender) => sender.is_rnr_waiting(),
            None => self.requester.is_rnr_waiting(),
        }
    }

    /// Enters SQD.
    pub fn drain(&mut self, attributes: &Attributes, now: Time, hca: &mut impl Hca) {
        match self.sender_mut() {
            Some((sender, queue)) => sender.drain(queue),
            None => {
                let is_reliable = attributes.config.service.is_reliable();
                self.requester.drain(is_reliable, now);
            }
        }
        self.check_drained(attributes, hca);
    }

    /// Leaves SQD for RTS.
    pub fn resume(&mut self) {
        self.queue_mut().drain_mut().resume();
    }

    /// Whether the send queue is draining (`sq_draining`).
    pub fn is_draining(&self) -> bool {
        self.queue().drain().is_draining()
    }

    /// Removes the oldest WQE if it is complete. None: it is neither complete nor failed.
    #[inline]
    fn next_finished(&mut self) -> Option<Finished> {
        match self.sender_mut() {
            Some((sender, queue)) => sender.next_finished(queue),
            None => self.requester.window_mut().next_finished(),
        }
    }

    /// When the first of the timers expires.
    pub fn next_timeout(&self) -> Option<Time> {
        match &self.sender {
            Some(sender) => sender.next_timeout(),
            None => self.requester.timers().next(),
        }
    }

    /// Handles the timers that have expired.
    pub fn on_timeout(
        &mut self,
        attributes: &Attributes,
        peer: PeerActivity,
        now: Time,
        hca: &mut impl Hca,
    ) -> Result<(), SendError> {
        let completer = &mut self.completer;
        match &mut self.sender {
            Some(sender) => {
                let is_lost = sender.on_timeout(attributes, peer, now)?;
                completer.counters_mut().completer_retry_err += u64::from(is_lost);
            }
            None => completer.on_timeout(&mut self.requester, attributes, now, hca)?,
        }
        Ok(())
    }

    /// The sender, for tests to inspect.
    #[cfg(test)]
    pub fn sender(&self) -> Option<&Sender> {
        self.sender.as_ref()
    }

    /// The completer, for tests to inspect.
    #[cfg(test)]
    pub fn completer(&self) -> &Completer {
        &self.completer
    }
}
