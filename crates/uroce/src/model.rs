//! Waiting and waking in models of memory orders (`make test-orderings`).

use loom::sync::{Condvar, Mutex};

/// A descriptor that a thread waits for in poll(2), and that others make readable to wake it up.
#[derive(Default)]
pub struct Wakeup {
    sent: Mutex<bool>,
    arrived: Condvar,
}

impl Wakeup {
    /// Makes the descriptor readable.
    pub fn send(&self) {
        *self.sent.lock().unwrap() = true;
        self.arrived.notify_one();
    }

    /// Blocks until the descriptor is readable. loom reports a deadlock if nobody sends.
    pub fn wait(&self) {
        let mut sent = self.sent.lock().unwrap();
        while !*sent {
            sent = self.arrived.wait(sent).unwrap();
        }
    }

    /// Reads the descriptor, which is not readable then. Does not block.
    pub fn read(&self) {
        *self.sent.lock().unwrap() = false;
    }
}
