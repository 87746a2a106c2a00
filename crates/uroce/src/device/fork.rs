//! What a fork does to devices. The child has no background thread, and must not use the sockets, which
//! it shares with its parent: each object it inherits answers with an error. It may open the device anew.
//!
//! Invariant: nobody is opening or closing a device, adding or removing an object, drawing a random
//! number, or starting a capture, while the process is copied: [`prepare`] takes these locks, and parent and child release them.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{OPEN_DEVICES, handles};
use crate::{capture, random};

/// How many forks, each as the child, lie between this process and the one that loaded the library.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A number that parent and child do not share. An object of another generation was inherited.
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Registers the fork handlers, once per process. Must be called before a device is opened.
pub fn register_handlers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers use statics only and do not unwind.
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    });
}

extern "C" fn prepare() {
    core::mem::forget(OPEN_DEVICES.lock());
    handles::before_fork();
    random::before_fork();
    capture::before_fork();
}

extern "C" fn parent() {
    release_locks(false);
}

extern "C" fn child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    release_locks(true);
}

fn release_locks(is_child: bool) {
    // SAFETY: `prepare` has locked all four in this thread, which is the one that forks.
    unsafe {
        capture::after_fork(is_child);
        random::after_fork(is_child);
        handles::after_fork();
        OPEN_DEVICES.force_unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child must not draw the random numbers that its parent draws.
    #[test]
    fn a_child_draws_numbers_of_its_own() {
        register_handlers();
        let (mut ours, mut ends) = ([0; 32], [0; 2]);
        random::random();
        // SAFETY: `ends` has room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: the child only draws numbers, whose lock the fork handlers release, writes and exits.
        let pid = unsafe { libc::fork() };
        ours.fill_with(random::random);
        let len = size_of_val(&ours);
        if pid == 0 {
            // SAFETY: `ours` is readable for `len` bytes; _exit runs no handlers.
            unsafe {
                libc::write(ends[1], ours.as_ptr().cast(), len);
                libc::_exit(0);
            }
        }
        let mut theirs = [0_u32; 32];
        // SAFETY: `theirs` has room for `len` bytes; this test opened the pipe and forked the child.
        unsafe {
            libc::close(ends[1]);
            let got = libc::read(ends[0], theirs.as_mut_ptr().cast(), len);
            assert_eq!(got, len as isize);
            assert_eq!(libc::waitpid(pid, core::ptr::null_mut(), 0), pid);
            libc::close(ends[0]);
        }
        assert!(ours.iter().all(|key| !theirs.contains(key)));
    }
}
