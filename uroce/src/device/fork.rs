//! What a fork does to devices. The child has neither the thread nor, by agreement, the sockets: each
//! object it inherits answers with an error, and it may open the device anew.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use super::OPEN;

/// How often this process has come out of a fork as the child.
static GENERATION: AtomicU32 = AtomicU32::new(0);

pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Must have been called before a device is opened.
pub fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: the handlers touch statics only, and do not unwind.
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    });
}

/// Nobody is in the middle of opening or closing a device when the process is copied.
extern "C" fn prepare() {
    core::mem::forget(OPEN.lock());
}

extern "C" fn parent() {
    // SAFETY: `prepare` has locked it, in this thread.
    unsafe { OPEN.force_unlock() };
}

extern "C" fn child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    crate::memory::forget();
    parent();
}
