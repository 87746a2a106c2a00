//! Fork handlers of devices: the locks that a fork takes, and what the child gives up. The child
//! has no background thread, and has given up the sockets (`descriptors.rs`). Calls on the objects
//! that it inherited fail with EACCES. It may open the device again.
//!
//! Invariant: nobody is opening or closing a device or a descriptor, adding or removing an object, drawing a
//! random number, or starting a capture, while the process is copied. [`before_fork`] takes these locks, and
//! parent and child release them. A child needs no other lock that it shares with its parent's threads.

use super::handles;
use super::open_devices::OPEN_DEVICES;
use crate::{capture, descriptors, process, random};

/// Takes the locks that a child needs.
pub fn before_fork() {
    core::mem::forget(OPEN_DEVICES.lock());
    handles::before_fork();
    random::before_fork();
    capture::before_fork();
    descriptors::before_fork();
}

/// Releases the locks in the parent and in the child. The child gives up what it has inherited.
///
/// # Safety
/// This thread has called [`before_fork`], and has not called this since.
pub unsafe fn after_fork(is_child: bool) {
    // SAFETY: `before_fork` has locked all five in this thread, as the caller says.
    unsafe {
        descriptors::after_fork(is_child);
        if is_child {
            process::become_child();
        }
        capture::after_fork(is_child);
        random::after_fork(is_child);
        handles::after_fork();
        OPEN_DEVICES.force_unlock();
    }
}
