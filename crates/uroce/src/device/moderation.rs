//! The completion queues of a device whose events may wait for more completions.

use std::sync::{Arc, Weak};

use super::completion::CompletionQueue;
use crate::sync::Mutex;
use roce::engine::Time;

/// Completion queues whose events may wait. It does not keep them alive.
#[derive(Default)]
pub(super) struct ModeratedQueues(Mutex<Vec<Weak<CompletionQueue>>>);

impl ModeratedQueues {
    /// Adds a queue; does nothing if it is there already. Forgets those that are destroyed.
    pub fn add(&self, queue: &Arc<CompletionQueue>) {
        let mut queues = self.0.lock();
        let is_other = |other: &Weak<CompletionQueue>| {
            other.strong_count() > 0 && !core::ptr::eq(other.as_ptr(), Arc::as_ptr(queue))
        };
        queues.retain(is_other);
        queues.push(Arc::downgrade(queue));
    }

    /// Raises the events whose wait has ended.
    #[cold]
    pub fn end_waits(&self, now: Time) {
        let queues: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        queues.iter().for_each(|queue| queue.end_wait(now));
    }
}
