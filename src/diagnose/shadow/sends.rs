//! Posted requests of a queue pair: those that are outstanding, and what all of them had in common.

use core::ops::Range;
use std::collections::VecDeque;

use ibverbs_abi::*;

use super::request::{MAX_RECORDED, Requests, SendRequest};

/// The requests that were posted to a queue pair.
#[derive(Clone, Debug, Default)]
pub struct SendQueue {
    /// The outstanding ones, unless they are too many to be recorded.
    list: VecDeque<SendRequest>,
    posted: u64,
    posted_signaled: u64,
    consuming: u64,
    last_poster: i32,
    ever_reads: bool,
    last_datagram: (u32, usize),
    /// The digest of the first message that consumes a receive, and whether a later one differs.
    first_message: u64,
    messages_vary: bool,
}

impl SendQueue {
    /// Records requests before the provider gets them. Returns whether one is signaled.
    pub fn record(&mut self, requests: impl Into<Requests>) -> bool {
        let requests = requests.into();
        let before = self.posted_signaled;
        for request in &requests {
            self.posted_signaled += u64::from(request.signaled);
            self.ever_reads |= request.returns_data();
            if consumes_receive(request) {
                self.consuming += 1;
                match (request.digest, self.first_message) {
                    (0, _) => {}
                    (digest, 0) => self.first_message = digest,
                    (digest, first) => self.messages_vary |= first != digest,
                }
            }
        }
        self.posted += requests.len() as u64;
        if let Some(last) = requests.last() {
            self.last_datagram = (last.remote_qpn, last.ah);
            self.last_poster = last.poster;
        }
        self.list.extend(requests);
        if self.list.len() > MAX_RECORDED {
            self.list.clear();
        }
        self.posted_signaled > before
    }

    /// Takes back the requests with these serial numbers, which the provider has refused. Returns the first.
    pub fn take_back(&mut self, refused: Range<u64>) -> Option<SendRequest> {
        if refused.is_empty() {
            return None;
        }
        let mut sends = self.list.iter();
        let first = sends.find(|of| of.serial == refused.start).cloned();
        for taken in self.list.iter().filter(|of| refused.contains(&of.serial)) {
            self.posted -= 1;
            self.posted_signaled -= u64::from(taken.signaled);
            self.consuming -= u64::from(consumes_receive(taken));
        }
        self.list.retain(|of| !refused.contains(&of.serial));
        first
    }

    /// Takes out the oldest request, if it has this wr_id and its completion needs no examination. Returns
    /// the thread that has posted it.
    #[inline]
    pub fn finish_first(&mut self, wr_id: u64) -> Option<i32> {
        let is_its = |of: &&SendRequest| of.wr_id == wr_id && of.signaled && of.digest == 0;
        let poster = self.list.front().filter(is_its)?.poster;
        self.list.pop_front();
        Some(poster)
    }

    /// Takes out the request at this place, and those before it, which are done too.
    pub fn finish_to(&mut self, at: usize) -> Option<SendRequest> {
        self.list.drain(..=at).next_back()
    }

    /// The queue pair is reset: nothing is outstanding.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// The outstanding requests, the oldest first.
    pub fn iter(
        &self,
    ) -> impl DoubleEndedIterator<Item = &SendRequest> + ExactSizeIterator + Clone {
        self.list.iter()
    }

    pub fn first(&self) -> Option<&SendRequest> {
        self.list.front()
    }

    pub fn last(&self) -> Option<&SendRequest> {
        self.list.back()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many of the outstanding requests are signaled.
    pub fn signaled(&self) -> usize {
        self.list.iter().filter(|request| request.signaled).count()
    }

    /// How many requests were posted.
    pub fn posted(&self) -> u64 {
        self.posted
    }

    /// How many of the posted requests consume a receive of the peer.
    pub fn consuming(&self) -> u64 {
        self.consuming
    }

    /// How many of the posted requests were signaled.
    pub fn posted_signaled(&self) -> u64 {
        self.posted_signaled
    }

    /// The thread that has posted the last request, or 0.
    pub fn last_poster(&self) -> i32 {
        self.last_poster
    }

    /// Whether a READ or an atomic operation was posted.
    pub fn ever_reads(&self) -> bool {
        self.ever_reads
    }

    /// The destination of the last request, if it is a datagram: the queue pair, and the address handle.
    pub fn last_datagram(&self) -> (u32, usize) {
        self.last_datagram
    }

    /// Whether messages that consume a receive had different data.
    pub fn messages_vary(&self) -> bool {
        self.messages_vary
    }
}

/// Whether a request consumes a receive of the peer.
pub(super) fn consumes_receive(request: &SendRequest) -> bool {
    matches!(
        request.opcode,
        IBV_WR_SEND | IBV_WR_SEND_WITH_IMM | IBV_WR_SEND_WITH_INV | IBV_WR_RDMA_WRITE_WITH_IMM
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(wr_id: u64, digest: u64) -> SendRequest {
        SendRequest {
            wr_id,
            opcode: IBV_WR_SEND,
            signaled: wr_id % 2 == 0,
            serial: wr_id,
            digest,
            ..SendRequest::default()
        }
    }

    fn ids(queue: &SendQueue) -> Vec<u64> {
        queue.iter().map(|of| of.wr_id).collect()
    }

    #[test]
    fn what_is_refused_was_not_posted() {
        let mut queue = SendQueue::default();
        assert!(!queue.record([send(1, 0)]) && queue.posted_signaled() == 0);
        assert!(queue.record(vec![send(2, 0), send(3, 0), send(4, 0)]));
        assert_eq!((queue.len(), queue.signaled()), (4, 2));
        assert_eq!(queue.take_back(3..5).unwrap().wr_id, 3);
        assert_eq!(ids(&queue), [1, 2]);
        assert_eq!(queue.take_back(2..2), None);
        assert_eq!(queue.len(), 2, "nothing was refused");
        let counts = (queue.posted(), queue.posted_signaled(), queue.consuming());
        assert_eq!(counts, (2, 1, 2));
    }

    #[test]
    fn a_completion_finishes_what_is_before_it() {
        let mut queue = SendQueue::default();
        queue.record(vec![send(2, 0), send(3, 0), send(4, 7), send(5, 0)]);
        assert_eq!(queue.finish_first(3), None, "the oldest is another one");
        assert_eq!(queue.finish_first(2), Some(0));
        assert_eq!(queue.finish_first(3), None, "it is not signaled");
        assert_eq!(queue.finish_to(1).unwrap().wr_id, 4);
        assert_eq!(ids(&queue), [5]);
        queue.record([send(6, 7)]);
        assert_eq!(queue.finish_to(0).unwrap().wr_id, 5);
        assert_eq!(queue.finish_first(6), None, "its data is to be compared");
    }

    #[test]
    fn messages_with_different_data() {
        let mut queue = SendQueue::default();
        queue.record(vec![send(1, 0), send(2, 7), send(3, 7)]);
        assert!(!queue.messages_vary());
        let write = SendRequest {
            opcode: IBV_WR_RDMA_WRITE,
            ..send(4, 8)
        };
        queue.record([write]);
        assert!(!queue.messages_vary(), "it consumes no receive");
        queue.record([send(5, 8)]);
        assert!(queue.messages_vary());
        assert_eq!((queue.posted(), queue.consuming()), (5, 4));
    }

    #[test]
    fn too_many_are_not_recorded() {
        let mut queue = SendQueue::default();
        queue.record(vec![send(1, 0); MAX_RECORDED]);
        assert_eq!(queue.len(), MAX_RECORDED);
        queue.record([send(1, 0)]);
        assert!(queue.is_empty() && queue.posted() > MAX_RECORDED as u64);
    }
}
