//! MADs that devices have received, and that wait for the thread.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::cm::ucma::epoll::Epoll;
use crate::cm::ucma::names::Incoming;
use crate::sync::Mutex;

/// MADs that may wait. Further ones are lost, as on the network.
const INCOMING_MAX: usize = 4096;

/// MADs that the thread has not handled.
pub struct Queue {
    pub messages: VecDeque<Incoming>,
    /// The thread is to be woken up; None if there is no thread.
    pub epoll: Option<Arc<Epoll>>,
}

pub static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    messages: VecDeque::new(),
    epoll: None,
});

/// Leaves a MAD to the thread. Returns false if there is none.
pub fn enqueue(incoming: &Incoming) -> bool {
    let mut queue = QUEUE.lock();
    let Some(epoll) = queue.epoll.clone() else {
        return false;
    };
    if queue.messages.len() < INCOMING_MAX {
        queue.messages.push_back(incoming.clone());
    }
    drop(queue);
    epoll.wake();
    true
}
