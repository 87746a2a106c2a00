//! Which references of a sender are valid, in memory of both sides of a channel.
//!
//! A sender gives a reference the epoch of its queue pair's slot. Before it lets the program have the memory
//! back without the peer's acknowledgment, it counts the epoch up. A receiver compares the epoch after it has
//! copied: if it is the reference's still, the bytes are those that the program sent.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};

/// Queue pairs that share a slot lose their references together, and send bytes then.
const SLOTS: usize = if cfg!(loom) { 1 } else { 64 };

/// Of one side of a channel. Zeros: it does not copy, and has withdrawn nothing.
#[repr(C, align(64))]
pub struct Loans {
    /// This side copies what the peer lends.
    copies: AtomicU32,
    /// Of what this side lends.
    epochs: [AtomicU32; SLOTS],
}

impl Loans {
    /// See [`Loans`].
    #[cfg(test)]
    fn new() -> Loans {
        Loans {
            copies: AtomicU32::new(0),
            epochs: core::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Whether the peer may send references to this side.
    #[inline]
    pub fn are_copied(&self) -> bool {
        self.copies.load(Ordering::Relaxed) != 0
    }

    /// From now on the peer may send references, or no longer.
    pub fn set_copied(&self, copied: bool) {
        self.copies.store(copied.into(), Ordering::Relaxed);
    }

    /// The sender: the epoch of a queue pair's references. The receiver: whether a reference is valid, with
    /// the epoch that it has; to be called after the copy.
    #[inline]
    pub fn epoch(&self, qpn: u32) -> u32 {
        // The copy comes first.
        fence(Ordering::SeqCst);
        self.epochs[qpn as usize % SLOTS].load(Ordering::Relaxed)
    }

    /// The sender: references that the queue pair has sent are not valid any more.
    pub fn withdraw(&self, qpn: u32) {
        self.epochs[qpn as usize % SLOTS].fetch_add(1, Ordering::Relaxed);
        // What the program writes to its memory comes later.
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn withdrawing_ends_the_epoch_of_one_slot() {
        let loans = Loans::new();
        let before = [5, 6].map(|qpn| loans.epoch(qpn));
        loans.withdraw(5 + SLOTS as u32);
        assert_ne!(loans.epoch(5), before[0]);
        assert_eq!(loans.epoch(6), before[1]);
    }

    #[test]
    fn nothing_is_copied_before_the_receiver_says_so() {
        let loans = Loans::new();
        assert!(!loans.are_copied());
        for copied in [true, false] {
            loans.set_copied(copied);
            assert_eq!(loans.are_copied(), copied);
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;

    use super::*;

    /// A copy that the receiver takes for valid has none of what the sender wrote after withdrawing.
    #[test]
    fn a_valid_copy_is_what_was_sent() {
        loom::model(|| {
            let shared = Arc::new((Loans::new(), AtomicU32::new(1)));
            let epoch = shared.0.epoch(0);
            let sender = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || {
                    shared.0.withdraw(0);
                    shared.1.store(2, Ordering::Relaxed);
                })
            };
            let copy = shared.1.load(Ordering::Relaxed);
            assert!(copy == 1 || shared.0.epoch(0) != epoch);
            sender.join().unwrap();
        });
    }
}
