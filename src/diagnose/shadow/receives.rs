//! Posted receives, of queue pairs and of shared receive queues. They are recorded before the provider gets
//! them, as requests are; those that it has refused are taken back.

use std::collections::VecDeque;
use std::time::Instant;

use super::request::{MAX_RECORDED, Receive, Receives};

/// The receives that were posted to a queue pair, or to an SRQ.
#[derive(Clone, Debug, Default)]
pub struct ReceiveQueue {
    /// The outstanding ones, unless they are too many to be recorded.
    list: VecDeque<Receive>,
    posted: u64,
    completed: u64,
    last_posted: Option<Instant>,
}

impl ReceiveQueue {
    /// Records receives that are about to be posted.
    pub fn post(&mut self, receives: impl Into<Receives>) {
        let receives = receives.into();
        self.posted += receives.len() as u64;
        self.last_posted = Some(Instant::now());
        self.list.extend(receives);
        if self.list.len() > MAX_RECORDED {
            self.list.clear();
        }
    }

    /// Takes out a receive that has completed; an empty one if it is not known.
    pub fn take(&mut self, wr_id: u64) -> Receive {
        self.finish(self.position(wr_id))
    }

    /// Takes out the receive at this place, which has completed; without a place one that is not known has.
    pub fn finish(&mut self, at: Option<usize>) -> Receive {
        self.completed += 1;
        at.and_then(|at| self.list.remove(at)).unwrap_or_default()
    }

    /// Takes out the oldest receive, if it has this wr_id. Returns the thread that has posted it.
    #[inline]
    pub fn finish_first(&mut self, wr_id: u64) -> Option<i32> {
        let poster = self.list.front().filter(|of| of.wr_id == wr_id)?.poster;
        self.list.pop_front();
        self.completed += 1;
        Some(poster)
    }

    /// Takes back the last `count` receives, which the provider has refused. Returns how many are left.
    pub fn take_back(&mut self, count: usize) -> usize {
        self.posted = self.posted.saturating_sub(count as u64);
        let left = self.list.len().saturating_sub(count);
        self.list.truncate(left);
        left
    }

    /// The queue pair is reset: nothing is outstanding.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// The place of an outstanding receive.
    pub fn position(&self, wr_id: u64) -> Option<usize> {
        self.list.iter().position(|of| of.wr_id == wr_id)
    }

    /// The outstanding receives, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Receive> + Clone {
        self.list.iter()
    }

    pub fn first(&self) -> Option<&Receive> {
        self.list.front()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether no receive is outstanding, as far as is known: too many are not recorded.
    pub fn has_none(&self) -> bool {
        self.list.is_empty() && self.outstanding() <= MAX_RECORDED as u64
    }

    /// How many receives are outstanding, also those that are not recorded.
    pub fn outstanding(&self) -> u64 {
        self.posted.saturating_sub(self.completed)
    }

    /// How many receives were posted, and not refused.
    pub fn posted(&self) -> u64 {
        self.posted
    }

    pub fn completed(&self) -> u64 {
        self.completed
    }

    pub fn last_posted(&self) -> Option<Instant> {
        self.last_posted
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::receive;
    use super::*;

    #[test]
    fn receives_come_and_go() {
        let mut queue = ReceiveQueue::default();
        queue.post(vec![
            receive(1, 7),
            receive(2, 7),
            receive(3, 7),
            receive(4, 7),
        ]);
        assert_eq!(queue.take_back(1), 3);
        assert_eq!(
            (queue.finish_first(2), queue.finish_first(1)),
            (None, Some(0))
        );
        assert_eq!(queue.take(3), receive(3, 7));
        assert_eq!(queue.take(9), Receive::default(), "it is not known");
        assert_eq!(queue.first(), Some(&receive(2, 7)));
        assert_eq!((queue.posted(), queue.completed(), queue.len()), (3, 3, 1));
        queue.clear();
        assert!(queue.is_empty() && queue.has_none() && queue.last_posted().is_some());
        queue.post(vec![receive(1, 7); MAX_RECORDED + 1]);
        assert!(queue.is_empty() && !queue.has_none(), "too many");
    }
}
