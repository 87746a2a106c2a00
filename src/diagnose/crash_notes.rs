//! Calls that a program is in, and ids that it has, for the message about a crash in them.
//!
//! Not here: the handler, which reads this (`crash.rs`).

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// This thread is in a post that has no place for the request that is refused.
    static NO_BAD_WR: Cell<bool> = const { Cell::new(false) };
}

/// An id of librdmacm was created, and is bound to no device yet: its member `verbs` is NULL.
static ID_IS_UNBOUND: AtomicBool = AtomicBool::new(false);

/// The id of librdmacm that was created last is bound to a device, or is not.
pub fn last_id(is_unbound: bool) {
    ID_IS_UNBOUND.store(is_unbound, Ordering::Relaxed);
}

/// A post begins, without a place for the request that is refused (bad_wr is NULL), or with one; or it ends.
pub fn posting(no_bad_wr: bool) {
    NO_BAD_WR.set(no_bad_wr);
}

/// Whether the id of librdmacm that was created last is bound to no device.
pub fn is_id_unbound() -> bool {
    ID_IS_UNBOUND.load(Ordering::Relaxed)
}

/// Whether this thread is in a post without a place for the request that is refused.
pub fn has_no_bad_wr() -> bool {
    NO_BAD_WR.get()
}
