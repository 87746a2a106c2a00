//! Shared receive queues.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ibverbs_abi::*;
use parking_lot::Mutex;

use super::completion::CompletionQueue;
use super::events::AsyncEvents;
use crate::engine::RecvWr;
use crate::memory::PdHandle;

struct State {
    receives: VecDeque<RecvWr>,
    max_wr: usize,
    limit: usize,
}

/// A shared receive queue.
pub struct SharedQueue {
    state: Mutex<State>,
    pub domain: PdHandle,
    pub max_sge: usize,
    /// For XRC: its number, and where its receives complete.
    pub number: u32,
    pub cq: Option<Arc<CompletionQueue>>,
    /// The address of the program's `ibv_srq`.
    pub handle: AtomicU64,
    events: Arc<AsyncEvents>,
    reported: AtomicU32,
}

/// How to make a queue.
pub struct SharedQueueConfig {
    pub max_wr: usize,
    pub max_sge: usize,
    pub limit: usize,
    pub domain: PdHandle,
    pub number: u32,
    pub cq: Option<Arc<CompletionQueue>>,
    pub events: Arc<AsyncEvents>,
}

impl SharedQueue {
    pub fn new(config: SharedQueueConfig) -> SharedQueue {
        SharedQueue {
            state: Mutex::new(State {
                receives: VecDeque::new(),
                max_wr: config.max_wr,
                limit: config.limit,
            }),
            domain: config.domain,
            max_sge: config.max_sge,
            number: config.number,
            cq: config.cq,
            handle: AtomicU64::new(0),
            events: config.events,
            reported: AtomicU32::new(0),
        }
    }

    /// False if it is full.
    pub fn post(&self, receive: RecvWr) -> bool {
        let mut state = self.state.lock();
        let room = state.receives.len() < state.max_wr;
        if room {
            state.receives.push_back(receive);
        }
        room
    }

    /// The next receive; tells the program when few are left.
    pub fn take(&self) -> Option<RecvWr> {
        let mut state = self.state.lock();
        let receive = state.receives.pop_front();
        if receive.is_some() && state.receives.len() < state.limit {
            state.limit = 0;
            drop(state);
            self.reported.fetch_add(1, Ordering::Relaxed);
            self.events.push(ib_uverbs_async_event_desc {
                element: self.handle.load(Ordering::Relaxed),
                event_type: IBV_EVENT_SRQ_LIMIT_REACHED,
                reserved: 0,
            });
        }
        receive
    }

    /// False if the sizes do not fit each other, or what is queued.
    pub fn modify(&self, max_wr: Option<usize>, limit: Option<usize>) -> bool {
        let mut state = self.state.lock();
        let (new_max, new_limit) = (max_wr.unwrap_or(state.max_wr), limit.unwrap_or(state.limit));
        let good = new_limit <= new_max && state.receives.len() <= new_max;
        if good {
            (state.max_wr, state.limit) = (new_max, new_limit);
        }
        good
    }

    /// Size and limit.
    pub fn sizes(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.max_wr, state.limit)
    }

    /// Takes back unread events. What the program has read, and must acknowledge.
    pub fn withdraw_events(&self) -> u32 {
        let unread = self.events.remove(self.handle.load(Ordering::Relaxed));
        self.reported.load(Ordering::Relaxed).wrapping_sub(unread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Sges;

    fn queue(max_wr: usize, limit: usize) -> SharedQueue {
        let (events, _file) = AsyncEvents::new().unwrap();
        SharedQueue::new(SharedQueueConfig {
            max_wr,
            max_sge: 1,
            limit,
            domain: PdHandle(1),
            number: 1,
            cq: None,
            events: Arc::new(events),
        })
    }

    fn post(queue: &SharedQueue, wr_id: u64) -> bool {
        queue.post(RecvWr {
            wr_id,
            sges: Sges::default(),
        })
    }

    #[test]
    fn the_limit_is_told_once() {
        let queue = queue(4, 2);
        for id in 0..4 {
            assert!(post(&queue, id));
        }
        assert!(!post(&queue, 4));
        let mut events = Vec::new();
        for id in 0..4 {
            assert_eq!(queue.take().map(|receive| receive.wr_id), Some(id));
            events.push(queue.reported.load(Ordering::Relaxed));
        }
        assert!(queue.take().is_none());
        // Told when one is left, fewer than two.
        assert_eq!(events, [0, 0, 1, 1]);
        assert_eq!(queue.sizes(), (4, 0));
    }

    #[test]
    fn sizes_must_fit() {
        let queue = queue(4, 0);
        for id in 0..3 {
            post(&queue, id);
        }
        assert!(!queue.modify(Some(2), None));
        assert!(!queue.modify(None, Some(5)));
        assert!(!queue.modify(Some(3), Some(4)));
        assert!(queue.modify(Some(8), Some(8)));
        assert_eq!(queue.sizes(), (8, 8));
    }
}
