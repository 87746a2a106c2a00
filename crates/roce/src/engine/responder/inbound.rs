//! Where requests are received: the receive queue, and the message in progress with the receive WR that it
//! has taken.

use ibverbs_abi::*;

use super::nak::{NakCause, failed};
use crate::engine::attributes::Attributes;
use crate::engine::recv_queue::RecvQueue;
use crate::engine::request::Request;
use crate::engine::{Hca, RecvWr, Service, WorkQueue, XrcError};
use crate::wire::Reth;

/// A receive WR that a message has taken.
#[derive(Debug)]
pub(super) struct TakenRecv {
    pub wr: RecvWr,
    /// The work queue that its completion belongs to.
    pub queue: WorkQueue,
}

/// A message of which more packets follow.
#[derive(Debug)]
pub(super) enum InboundMessage {
    Send {
        recv: TakenRecv,
        /// Bytes received.
        len: u32,
    },
    Write {
        reth: Reth,
        /// Bytes received.
        len: u32,
    },
}

/// The receive queue, and the message in progress.
#[derive(Debug)]
pub(super) struct Inbound {
    message: Option<InboundMessage>,
    recv_queue: RecvQueue,
}

impl Inbound {
    /// An empty queue, and no message.
    pub fn new(has_srq: bool) -> Inbound {
        Inbound {
            message: None,
            recv_queue: RecvQueue::new(has_srq),
        }
    }

    /// The receive queue.
    pub fn recv_queue(&self) -> &RecvQueue {
        &self.recv_queue
    }

    /// The receive queue, to post to it or to take from it.
    pub fn recv_queue_mut(&mut self) -> &mut RecvQueue {
        &mut self.recv_queue
    }

    /// The message in progress.
    #[inline]
    pub fn message(&self) -> Option<&InboundMessage> {
        self.message.as_ref()
    }

    /// The bytes of the message in progress.
    #[inline(always)]
    pub fn progress(&self) -> u32 {
        match &self.message {
            None => 0,
            Some(InboundMessage::Send { len, .. } | InboundMessage::Write { len, .. }) => *len,
        }
    }

    /// The SEND in progress: its receive WR, and the bytes that were received.
    #[inline]
    pub fn send_mut(&mut self) -> Option<(&TakenRecv, &mut u32)> {
        match &mut self.message {
            Some(InboundMessage::Send { recv, len }) => Some((recv, len)),
            _ => None,
        }
    }

    /// Takes the receive WR for a packet of a SEND, and the bytes that it has received: a new one if the
    /// packet `starts` a message, else that of the message in progress. Then no message is in progress.
    #[inline(always)]
    pub fn take_send(
        &mut self,
        starts: bool,
        request: &impl Request,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> Result<(TakenRecv, u32), NakCause> {
        match (self.message.take(), starts) {
            (None, true) => Ok((self.take_recv(request, attributes, hca)?, 0)),
            (Some(InboundMessage::Send { recv, len }), false) => Ok((recv, len)),
            (other, _) => {
                self.message = other;
                Err(NakCause::InvalidRequest)
            }
        }
    }

    /// Takes a receive WR for a message.
    #[inline(always)]
    pub fn take_recv(
        &mut self,
        request: &impl Request,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> Result<TakenRecv, NakCause> {
        if attributes.config.service == Service::XrcRecv {
            let srqn = request.xrc_srqn().ok_or(NakCause::InvalidRequest)?;
            let queue = WorkQueue::XrcSrq { srqn };
            return match hca.take_xrc_srq_wr(srqn) {
                Ok(wr) => Ok(TakenRecv { wr, queue }),
                Err(XrcError::Empty) => Err(NakCause::ReceiverNotReady),
                Err(XrcError::NoSuchQueue) => Err(NakCause::InvalidRequest),
            };
        }
        let wr = self.recv_queue.take(hca);
        let wr = wr.ok_or(NakCause::ReceiverNotReady)?;
        let queue = WorkQueue::Recv;
        Ok(TakenRecv { wr, queue })
    }

    /// Goes on with this message: a further packet of it follows, or it fails.
    pub fn keep(&mut self, message: InboundMessage) {
        self.message = Some(message);
    }

    /// The message in progress is complete.
    pub fn end_message(&mut self) {
        self.message = None;
    }

    /// Drops the message in progress. The next message gets its receive WR.
    pub fn drop_message(&mut self) {
        if let Some(recv) = self.take_message_recv() {
            self.recv_queue.put_back(recv.wr);
        }
    }

    /// Ends the message in progress; returns the receive WR that it took.
    pub fn take_message_recv(&mut self) -> Option<TakenRecv> {
        match self.message.take()? {
            InboundMessage::Send { recv, .. } => Some(recv),
            InboundMessage::Write { .. } => None,
        }
    }

    /// Flushes the receive queue: completes the receive WR of the message in progress, then the queue's.
    pub fn flush(&mut self, hca: &mut impl Hca) {
        let mut complete = |queue, completion| {
            let _ = hca.complete(queue, completion);
        };
        if let Some(recv) = self.take_message_recv() {
            complete(recv.queue, failed(&recv.wr, IBV_WC_WR_FLUSH_ERR));
        }
        for wr in self.recv_queue.flush() {
            complete(WorkQueue::Recv, failed(&wr, IBV_WC_WR_FLUSH_ERR));
        }
    }
}
