//! Work of devices that waits for the thread: MADs that they have received, and changes of their interfaces.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::cm::ucma::epoll::Epoll;
use crate::cm::ucma::names::Incoming;
use crate::sync::Mutex;

/// MADs that may wait. Further ones are lost, as on the network.
const INCOMING_MAX: usize = 4096;

/// Work that the thread has not done.
pub struct Queue {
    pub messages: VecDeque<Incoming>,
    /// An interface of a device has changed since the thread last looked.
    pub interface_changed: bool,
    /// The thread is to be woken up; None if there is no thread.
    pub epoll: Option<Arc<Epoll>>,
}

pub static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    messages: VecDeque::new(),
    interface_changed: false,
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

/// Lets the thread know that an interface of a device has changed.
pub fn interface_changed() {
    let mut queue = QUEUE.lock();
    let Some(epoll) = queue.epoll.clone() else {
        return;
    };
    queue.interface_changed = true;
    drop(queue);
    epoll.wake();
}
