//! Shared receive queues (SRQs): receives that several queue pairs take from, and their limit event.
//!
//! As on an RNIC, a slot is free again when the program has polled the completion of its receive. Polling
//! does nothing for that: when the queue seems to be full, its completions that are not polled are counted in
//! the completion queues. A receive that a message is being written to is in neither, and counts as free.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use ibverbs_abi::*;
use rustc_hash::FxHashSet;

use super::completion::CompletionQueue;
use super::events::AsyncEvents;
use crate::memory::PdHandle;
use crate::sync::{Mutex, RwLock};
use roce::engine::RecvWr;

/// SRQ numbers have 24 bits (XRCETH, specification 9.3.5).
const MAX_SRQN: u32 = 0xff_ffff;

struct SrqState {
    receives: VecDeque<RecvWr>,
    sizes: SrqSizes,
    /// Receives that may be posted before the free slots are counted again.
    free: usize,
    /// The queues that receives complete in.
    completes_in: Vec<Weak<CompletionQueue>>,
}

impl SrqState {
    /// Whether there is a free slot in the queue with this number.
    fn has_slot(&mut self, number: u32, slots_by_completion: bool) -> bool {
        if slots_by_completion {
            return self.receives.len() < self.sizes.max_wr;
        }
        if self.free == 0 {
            let queues = self.completes_in.iter().filter_map(Weak::upgrade);
            let unpolled: usize = queues.map(|cq| cq.unpolled_of_srq(number)).sum();
            let occupied = self.receives.len() + unpolled;
            self.free = self.sizes.max_wr.saturating_sub(occupied);
        }
        self.free > 0
    }
}

/// The sizes that `ibv_query_srq` reports besides `max_sge`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqSizes {
    /// How many receives the queue holds at most.
    pub max_wr: usize,
    /// SRQ_LIMIT_REACHED is raised once when fewer than this many receives are left; 0: never.
    pub limit: usize,
}

/// The numbers of a device's SRQs. Thread-safe.
#[derive(Default)]
pub struct SrqNumbers(Mutex<NumbersInUse>);

#[derive(Default)]
struct NumbersInUse {
    last: u32,
    all: FxHashSet<u32>,
}

impl SrqNumbers {
    /// A number that no SRQ has, and that has been none's for as long as possible. It is not 0, which is no
    /// SRQ's in a completion. None without memory.
    pub fn alloc(&self) -> Option<u32> {
        let mut numbers = self.0.lock();
        numbers.all.try_reserve(1).ok()?;
        let later = numbers.last + 1..=MAX_SRQN;
        let mut candidates = later.chain(1..=numbers.last);
        let number = candidates.find(|number| !numbers.all.contains(number))?;
        numbers.last = number;
        numbers.all.insert(number);
        Some(number)
    }

    /// Frees the number of an SRQ that is destroyed.
    pub fn free(&self, number: u32) {
        self.0.lock().all.remove(&number);
    }
}

/// A shared receive queue. Thread-safe.
pub struct SharedReceiveQueue {
    state: Mutex<SrqState>,
    /// The protection domain that its receives' L_Keys belong to.
    pub pd: PdHandle,
    /// SGEs of a receive at most.
    pub max_sge: usize,
    /// The SRQ number (24 bits), which XRC requests carry: see [`SrqNumbers`].
    pub number: u32,
    /// The queue that receives complete in; only for XRC.
    pub cq: Option<Arc<CompletionQueue>>,
    /// See [`SrqConfig::slots_by_completion`].
    slots_by_completion: bool,
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
    /// A slot is free when its receive was taken, as with Soft-RoCE. Else it is when the program has polled
    /// the completion, as with an RNIC.
    pub slots_by_completion: bool,
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
                free: 0,
                completes_in: config.cq.iter().map(Arc::downgrade).collect(),
            }),
            slots_by_completion: config.slots_by_completion,
            pd: config.pd,
            max_sge: config.max_sge,
            number: config.number,
            cq: config.cq,
            handle: config.handle,
            events: config.events,
            closed: RwLock::default(),
        }
    }

    /// A queue pair takes its receives from here from now on, and they complete in `cq`.
    pub fn completes_in(&self, cq: &Arc<CompletionQueue>) {
        let queues = &mut self.state.lock().completes_in;
        queues.retain(|of| of.strong_count() > 0);
        let is_new = !queues
            .iter()
            .any(|of| core::ptr::eq(of.as_ptr(), Arc::as_ptr(cq)));
        if is_new {
            queues.push(Arc::downgrade(cq));
        }
    }

    /// Adds a receive. Returns false if the queue is full, or there is no memory.
    pub fn post(&self, receive: RecvWr) -> bool {
        let mut state = self.state.lock();
        let room = state.has_slot(self.number, self.slots_by_completion)
            && state.receives.try_reserve(1).is_ok();
        if room {
            state.free = state.free.saturating_sub(1);
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
            // The slots of another size are counted anew.
            (state.sizes, state.free) = (new, 0);
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
    use super::super::tests::completion_queue;
    use super::super::tests::out_of_memory::without_memory;
    use super::super::wait::Waker;
    use super::*;
    use roce::engine::{Completion, Sges};

    fn queue(max_wr: usize, limit: usize) -> SharedReceiveQueue {
        let (events, _file) = AsyncEvents::new(Arc::new(Waker::new().unwrap())).unwrap();
        SharedReceiveQueue::new(SrqConfig {
            sizes: SrqSizes { max_wr, limit },
            max_sge: 1,
            pd: PdHandle(1),
            number: 1,
            cq: None,
            slots_by_completion: false,
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
    fn a_number_in_use_is_not_given_away() {
        let numbers = SrqNumbers::default();
        assert_eq!([(); 3].map(|()| numbers.alloc()), [1, 2, 3].map(Some));
        numbers.free(2);
        assert_eq!(numbers.alloc(), Some(4), "2 is used as late as possible");
        // As if 2^24 queues had been created.
        numbers.0.lock().last = MAX_SRQN - 1;
        assert_eq!(
            [(); 3].map(|()| numbers.alloc()),
            [MAX_SRQN, 2, 5].map(Some)
        );
        assert_eq!(without_memory(|| SrqNumbers::default().alloc()), None);
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
    fn a_slot_is_free_when_the_completion_was_polled() {
        for slots_by_completion in [false, true] {
            let queue = SharedReceiveQueue {
                slots_by_completion,
                ..queue(2, 0)
            };
            let cqs = [(); 2].map(|()| completion_queue(Arc::new(Waker::new().unwrap()), 8));
            cqs.iter().for_each(|cq| queue.completes_in(cq));
            let complete = |cq: &CompletionQueue, srq| {
                let opcode = IBV_WC_RECV;
                let completion = Completion::new(1, IBV_WC_SUCCESS, opcode);
                cq.push(completion, 9, srq).unwrap();
            };
            assert!(post(&queue, 1) && post(&queue, 2) && !post(&queue, 3));
            // One completes on each queue; the first has one of another SRQ, and of none, too.
            for cq in &cqs {
                queue.take().unwrap();
                complete(cq, queue.number);
            }
            complete(&cqs[0], queue.number + 1);
            complete(&cqs[0], 0);
            assert_eq!(post(&queue, 3), slots_by_completion);
            cqs[1].poll(1, |_, _| ());
            assert!(post(&queue, 4));
            assert!(!post(&queue, 5));
            // A queue that was destroyed has no completions.
            drop(cqs);
            assert_eq!(post(&queue, 5), !slots_by_completion);
        }
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
