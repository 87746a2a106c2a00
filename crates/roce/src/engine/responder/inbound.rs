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
    /// The receive WR of an XRC SRQ whose message was dropped before its end; the next message takes it.
    returned_xrc: Option<TakenRecv>,
}

impl Inbound {
    /// An empty queue, and no message.
    pub fn new(has_srq: bool) -> Inbound {
        Inbound {
            message: None,
            recv_queue: RecvQueue::new(has_srq),
            returned_xrc: None,
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
            if let Some(recv) = self.returned_xrc.take_if(|recv| recv.queue == queue) {
                return Ok(recv);
            }
            if self.returned_xrc.is_some() {
                // The peer has ended a message in the middle, and begins one to another SRQ.
                return Err(NakCause::InvalidRequest);
            }
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
        match self.take_message_recv() {
            Some(recv) if recv.queue == WorkQueue::Recv => self.recv_queue.put_back(recv.wr),
            Some(recv) => self.returned_xrc = Some(recv),
            None => {}
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
        for recv in [self.take_message_recv(), self.returned_xrc.take()]
            .into_iter()
            .flatten()
        {
            complete(recv.queue, failed(&recv.wr, IBV_WC_WR_FLUSH_ERR));
        }
        for wr in self.recv_queue.flush() {
            complete(WorkQueue::Recv, failed(&wr, IBV_WC_WR_FLUSH_ERR));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::hca::TestHca;
    use crate::engine::tests::network::{config, recv_wr};
    use crate::engine::tests::peer::Peer;
    use crate::wire::{Opcode, Operation, Packet, Part, Transport};

    /// The first packet of a message to an XRC SRQ, as it is sent again.
    #[test]
    fn a_dropped_message_of_an_xrc_srq_leaves_its_receive_to_the_next_one() {
        let mut hca = TestHca::default();
        for srqn in [8, 9] {
            let wrs = [1, 2].map(|id| recv_wr(u64::from(srqn) * 10 + id, &[]));
            hca.xrc.push((srqn, wrs.into()));
        }
        let attributes = Attributes::new(config(Service::XrcRecv, 0));
        let mut inbound = Inbound::new(false);
        let begin = |inbound: &mut Inbound, hca: &mut TestHca, srqn| {
            let mut headers = Peer::headers(Operation::Send, Part::First, 0);
            headers.bth.opcode = Opcode::new(Transport::Xrc, Operation::Send, Part::First);
            headers.xrc_srqn = Some(srqn);
            let mut bytes = vec![0; headers.encoded_len()];
            headers.write(&mut bytes);
            let packet = Packet::parse_without_icrc(&bytes).unwrap();
            let recv = inbound.take_recv(&packet, &attributes, hca)?;
            let id = recv.wr.wr_id;
            inbound.keep(InboundMessage::Send { recv, len: 0 });
            Ok(id)
        };
        for _ in 0..3 {
            assert_eq!(begin(&mut inbound, &mut hca, 9), Ok::<_, NakCause>(91));
            inbound.drop_message();
        }
        // A message to another SRQ is not in its turn.
        let refused = Err(NakCause::InvalidRequest);
        assert_eq!(begin(&mut inbound, &mut hca, 8), refused);
        inbound.flush(&mut hca);
        let flushed = [(91, IBV_WC_WR_FLUSH_ERR)];
        assert_eq!(hca.statuses(WorkQueue::XrcSrq { srqn: 9 }), flushed);
        assert!(hca.statuses(WorkQueue::Recv).is_empty());
        assert_eq!(begin(&mut inbound, &mut hca, 9), Ok(92));
    }
}
