//! Shared receive queues (SRQs): receives that several queue pairs take from, and their limit event.

use std::collections::VecDeque;
use std::sync::Arc;

use ibverbs_abi::*;

use super::completion::CompletionQueue;
use super::events::AsyncEvents;
use crate::memory::PdHandle;
use crate::sync::{Mutex, RwLock};
use roce::engine::RecvWr;

struct SrqState {
    receives: VecDeque<RecvWr>,
    sizes: SrqSizes,
}

/// The sizes that `ibv_query_srq` reports besides `max_sge`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqSizes {
    /// How many receives the queue holds at most.
    pub max_wr: usize,
    /// SRQ_LIMIT_REACHED is raised once when fewer than this many receives are left; 0: never.
    pub limit: usize,
}

/// A shared receive queue. Thread-safe.
pub struct SharedReceiveQueue {
    state: Mutex<SrqState>,
    /// The protection domain that its receives' L_Keys belong to.
    pub pd: PdHandle,
    /// SGEs of a receive at most.
    pub max_sge: usize,
    /// The SRQ number (24 bits), which XRC requests carry.
    pub number: u32,
    /// The queue that receives complete in; only for XRC.
    pub cq: Option<Arc<CompletionQueue>>,
    /// See [`SrqConfig::handle`].
    handle: u64,
    events: Arc<AsyncEvents>,
    /// Destroyed. Locked for reading while an XRC target uses the queue or one of its receives.
    closed: RwLock<bool>,
}

/// The attributes that a shared receive queue is created with; see [`SharedReceiveQueue`].
pub struct SrqConfig {
    /// The size and limit of the queue.
    pub sizes: SrqSizes,
    /// See [`SharedReceiveQueue::max_sge`].
    pub max_sge: usize,
    /// See [`SharedReceiveQueue::pd`].
    pub pd: PdHandle,
    /// See [`SharedReceiveQueue::number`].
    pub number: u32,
    /// See [`SharedReceiveQueue::cq`].
    pub cq: Option<Arc<CompletionQueue>>,
    /// The handle of the program's `ibv_srq`, which its events carry.
    pub handle: u64,
    /// The context's queue of async events.
    pub events: Arc<AsyncEvents>,
}

impl SharedReceiveQueue {
    /// An empty queue.
    pub fn new(config: SrqConfig) -> SharedReceiveQueue {
        config.events.add_source(config.handle, 1);
        SharedReceiveQueue {
            state: Mutex::new(SrqState {
                receives: VecDeque::new(),
                sizes: config.sizes,
            }),
            pd: config.pd,
            max_sge: config.max_sge,
            number: config.number,
            cq: config.cq,
            handle: config.handle,
            events: config.events,
            closed: RwLock::default(),
        }
    }

    /// Adds a receive. Returns false if the queue is full, or there is no memory.
    pub fn post(&self, receive: RecvWr) -> bool {
        let mut state = self.state.lock();
        let room =
            state.receives.len() < state.sizes.max_wr && state.receives.try_reserve(1).is_ok();
        if room {
            state.receives.push_back(receive);
        }
        room
    }

    /// Takes the next receive. Raises SRQ_LIMIT_REACHED, and disarms the limit, if fewer are left than
    /// it says.
    pub fn take(&self) -> Option<RecvWr> {
        let mut state = self.state.lock();
        let receive = state.receives.pop_front();
        if receive.is_some() && state.receives.len() < state.sizes.limit {
            state.sizes.limit = 0;
            drop(state);
            self.events.push(ib_uverbs_async_event_desc {
                element: self.handle,
                event_type: IBV_EVENT_SRQ_LIMIT_REACHED,
                reserved: 0,
            });
        }
        receive
    }

    /// Changes what is Some. Returns false, and changes nothing, if the limit would exceed `max_wr`, or
    /// the queue holds more receives than the new `max_wr`.
    pub fn modify(&self, max_wr: Option<usize>, limit: Option<usize>) -> bool {
        let mut state = self.state.lock();
        let new = SrqSizes {
            max_wr: max_wr.unwrap_or(state.sizes.max_wr),
            limit: limit.unwrap_or(state.sizes.limit),
        };
        let valid = new.limit <= new.max_wr && state.receives.len() <= new.max_wr;
        if valid {
            state.sizes = new;
        }
        valid
    }

    /// The size and limit of the queue now.
    pub fn sizes(&self) -> SrqSizes {
        self.state.lock().sizes
    }

    /// Calls with the queue, which is not destroyed meanwhile. None if it is destroyed already. For XRC
    /// targets: other queue pairs have a reference that keeps the program from destroying the queue.
    pub fn while_open<T>(&self, call: impl FnOnce(&SharedReceiveQueue) -> T) -> Option<T> {
        let closed = self.closed.read();
        (!*closed).then(|| call(self))
    }

    /// Ends the queue: once this returns, no receive of it is taken or filled, and it raises no event.
    /// Removes the events that the program has not read. Returns how many it has read in all, modulo
    /// 2^32: these it has to acknowledge.
    pub fn close(&self) -> u32 {
        *self.closed.write() = true;
        self.events.close_source(self.handle)
    }
}

#[cfg(test)]
mod tests {
    use super::super::wait::Waker;
    use super::*;
    use roce::engine::Sges;

    fn queue(max_wr: usize, limit: usize) -> SharedReceiveQueue {
        let (events, _file) = AsyncEvents::new(Arc::new(Waker::new().unwrap())).unwrap();
        SharedReceiveQueue::new(SrqConfig {
            sizes: SrqSizes { max_wr, limit },
            max_sge: 1,
            pd: PdHandle(1),
            number: 1,
            cq: None,
            handle: 5,
            events: Arc::new(events),
        })
    }

    fn post(queue: &SharedReceiveQueue, wr_id: u64) -> bool {
        queue.post(RecvWr {
            wr_id,
            sges: Sges::default(),
        })
    }

    #[test]
    fn the_limit_event_is_raised_once() {
        let queue = queue(4, 2);
        for id in 0..4 {
            assert!(post(&queue, id));
        }
        assert!(!post(&queue, 4));
        let mut events = Vec::new();
        for id in 0..4 {
            assert_eq!(queue.take().map(|receive| receive.wr_id), Some(id));
            events.push(queue.events.raised(5));
        }
        assert!(queue.take().is_none());
        // Raised when one is left, which is fewer than two.
        assert_eq!(events, [0, 0, 1, 1]);
        let sizes = SrqSizes {
            max_wr: 4,
            limit: 0,
        };
        assert_eq!(queue.sizes(), sizes);
    }

    #[test]
    fn sizes_that_do_not_fit_are_rejected() {
        let queue = queue(4, 0);
        for id in 0..3 {
            post(&queue, id);
        }
        assert!(!queue.modify(Some(2), None));
        assert!(!queue.modify(None, Some(5)));
        assert!(!queue.modify(Some(3), Some(4)));
        assert!(queue.modify(Some(8), Some(8)));
        let sizes = SrqSizes {
            max_wr: 8,
            limit: 8,
        };
        assert_eq!(queue.sizes(), sizes);
    }

    #[test]
    fn a_closed_queue_is_not_used() {
        let queue = queue(4, 2);
        assert!(post(&queue, 1) && post(&queue, 2));
        let taken = queue.while_open(SharedReceiveQueue::take).flatten();
        assert_eq!(taken.map(|receive| receive.wr_id), Some(1));
        assert_eq!(queue.events.raised(5), 1);
        assert_eq!(queue.close(), 0);
        assert!(queue.while_open(SharedReceiveQueue::take).is_none());
    }

    /// `close` waits for a thread that is filling a receive.
    #[test]
    fn closing_waits_for_its_users() {
        let queue = queue(1, 0);
        let closed = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            queue.while_open(|_| {
                scope.spawn(|| {
                    queue.close();
                    closed.store(true, std::sync::atomic::Ordering::SeqCst);
                });
                std::thread::sleep(std::time::Duration::from_millis(20));
                assert!(!closed.load(std::sync::atomic::Ordering::SeqCst));
            });
        });
        assert!(closed.into_inner());
    }
}
