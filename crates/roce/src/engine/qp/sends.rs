//! [`SendSide`]: the send queue of a queue pair, and what carries its requests: packets, with requester and
//! completer, or fragments in shared memory, with the sender, once it is bound to that.
//!
//! Not here: completions, events and the state of the queue pair. An error is the status that the oldest WQE
//! fails with.

use ibverbs_abi::*;

use crate::engine::attributes::Attributes;
use crate::engine::completer::{Completer, CompleterAction};
use crate::engine::counters::Counters;
use crate::engine::requester::{Finished, Requester};
use crate::engine::send_queue::SendQueue;
use crate::engine::shm::{Fragment, Sender};
use crate::engine::{Clock, Completion, Hca, PeerActivity, QpConfig, Service, Time};
use crate::wire::{AethKind, NakCode, Operation, Packet, Psn};

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

    /// The send queue, to append a WQE, or to remove the oldest one.
    #[inline]
    pub fn queue_mut(&mut self) -> &mut SendQueue {
        self.requester.window_mut().queue_mut()
    }

    /// Whether the requester is bound to shared memory.
    #[inline]
    pub fn is_bound(&self) -> bool {
        self.sender.is_some()
    }

    /// The sender, if the requester is bound to shared memory.
    #[inline]
    pub fn sender(&self) -> Option<&Sender> {
        self.sender.as_ref()
    }

    /// The sender and the send queue, if the requester is bound to shared memory.
    #[inline]
    pub fn sender_mut(&mut self) -> Option<(&mut Sender, &mut SendQueue)> {
        let sender = self.sender.as_mut()?;
        Some((sender, self.requester.window_mut().queue_mut()))
    }

    /// Binds the requester to shared memory, if nothing of it is in flight; else no further request begins.
    #[cold]
    pub fn bind(&mut self, attributes: &Attributes, now: impl Clock) -> bool {
        if !self.requester.window().is_idle() {
            let is_reliable = attributes.config.service.is_reliable();
            self.requester.hold(is_reliable, now.time());
            return false;
        }
        self.requester.release();
        let next = self.requester.window().next_psn();
        self.sender = Some(Sender::new(next, attributes));
        true
    }

    /// The shared memory does not exist any more. An unreliable connection goes on with packets, from the
    /// start of the message that it has written in part; a reliable one that is bound fails with its timers.
    pub fn unbind(&mut self, service: Service) {
        self.requester.release();
        if self.is_bound() && !service.is_reliable() {
            self.sender = None;
            self.requester.window_mut().restart();
        }
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
    pub fn drain(&mut self, attributes: &Attributes, now: Time) {
        match &mut self.sender {
            Some(sender) => sender.drain(),
            None => {
                let is_reliable = attributes.config.service.is_reliable();
                self.requester.drain(is_reliable, now);
            }
        }
    }

    /// Leaves SQD for RTS.
    pub fn resume(&mut self) {
        match &mut self.sender {
            Some(sender) => sender.resume(),
            None => self.requester.resume(),
        }
    }

    /// Whether the send queue is draining (`sq_draining`).
    pub fn is_draining(&self) -> bool {
        match &self.sender {
            Some(sender) => sender.is_draining(),
            None => self.requester.is_draining(),
        }
    }

    /// Whether draining has ended. Returns true once.
    pub fn take_drained(&mut self) -> bool {
        match &mut self.sender {
            Some(sender) => sender.take_drained(),
            None => self.requester.take_drained(),
        }
    }

    /// Removes the oldest WQE if it is complete. None: it is neither complete nor failed.
    #[inline]
    pub fn next_finished(&mut self) -> Option<Finished> {
        match self.sender_mut() {
            Some((sender, queue)) => sender.next_finished(queue),
            None => self.requester.next_finished(),
        }
    }

    /// Removes all WQEs and returns their completions, oldest first.
    pub fn flush(&mut self) -> impl Iterator<Item = Completion> {
        if let Some(sender) = &mut self.sender {
            sender.flush();
        }
        self.requester.flush()
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
    ) -> Result<(), ibv_wc_status> {
        let completer = &mut self.completer;
        match &mut self.sender {
            Some(sender) => sender.on_timeout(attributes, peer, now, completer.counters_mut()),
            None => completer.on_timeout(&mut self.requester, attributes, now),
        }
    }

    /// [`Completer::on_packet`].
    #[inline(always)]
    pub fn on_packet(
        &mut self,
        operation: Operation,
        packet: &Packet,
        attributes: &Attributes,
        now: Time,
    ) -> Option<CompleterAction> {
        self.completer
            .on_packet(&mut self.requester, operation, packet, attributes, now)
    }

    /// Does what a packet requires after the WQEs that it acknowledges have completed.
    #[inline(always)]
    pub fn react(
        &mut self,
        action: CompleterAction,
        (operation, packet): (Operation, &Packet),
        attributes: &Attributes,
        now: Time,
        hca: &mut impl Hca,
    ) -> Result<(), ibv_wc_status> {
        let (completer, requester) = (&mut self.completer, &mut self.requester);
        match action {
            CompleterAction::None => {}
            CompleterAction::Retransmit => completer.retransmit(requester, now),
            CompleterAction::RnrWait { timer } => {
                completer.on_rnr_nak(requester, timer, attributes, now)?;
            }
            CompleterAction::TakeResponse => {
                completer.on_response(requester, operation, packet, attributes, now, hca)?;
            }
            CompleterAction::Fail(status) => return Err(status),
        }
        Ok(())
    }

    /// Does what a response in shared memory requires after the WQEs that it acknowledges have completed.
    pub fn react_to_fragment(
        &mut self,
        action: CompleterAction,
        fragment: &Fragment<'_>,
        attributes: &Attributes,
        now: Time,
        hca: &mut impl Hca,
    ) -> Result<(), ibv_wc_status> {
        let Some(sender) = &mut self.sender else {
            return Ok(());
        };
        let counters = self.completer.counters_mut();
        match action {
            CompleterAction::None => {}
            CompleterAction::Retransmit => {
                let is_nak = Some(AethKind::Nak(NakCode::PsnSequence)) == fragment.acknowledgment();
                counters.rcvd_seq_err += u64::from(is_nak);
                counters.completer_retry_err += 1;
                sender.send_again();
            }
            CompleterAction::RnrWait { timer } => {
                sender.on_rnr_nak(timer, attributes, now, counters)?
            }
            CompleterAction::TakeResponse => {
                let queue = self.requester.window().queue();
                sender.on_data(queue, fragment, attributes, hca)?;
            }
            CompleterAction::Fail(status) => return Err(status),
        }
        Ok(())
    }

    /// The completer, for tests to inspect.
    #[cfg(test)]
    pub fn completer(&self) -> &Completer {
        &self.completer
    }
}
