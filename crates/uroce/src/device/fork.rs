//! What a fork does to devices. The child has neither the thread nor, by agreement, the sockets: each
//! object it inherits answers with an error, and it may open the device anew.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use super::OPEN;
use crate::random;

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

/// Nobody is in the middle of opening or closing a device, or of drawing a key, when the process is
/// copied.
extern "C" fn prepare() {
    core::mem::forget(OPEN.lock());
    random::before_fork();
}

extern "C" fn parent() {
    release(false);
}

extern "C" fn child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    release(true);
}

fn release(is_child: bool) {
    // SAFETY: `prepare` has locked both, in this thread.
    unsafe {
        random::after_fork(is_child);
        OPEN.force_unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child must not draw the keys that its parent draws.
    #[test]
    fn a_child_draws_keys_of_its_own() {
        watch();
        let (mut ours, mut ends) = ([0; 32], [0; 2]);
        random::random();
        // SAFETY: there is room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: the child does nothing but draw, whose lock the handlers look after, write and end.
        let pid = unsafe { libc::fork() };
        ours.fill_with(random::random);
        let len = size_of_val(&ours);
        if pid == 0 {
            // SAFETY: the numbers live during the call; nothing is left to clean up.
            unsafe {
                libc::write(ends[1], ours.as_ptr().cast(), len);
                libc::_exit(0);
            }
        }
        let mut theirs = [0_u32; 32];
        // SAFETY: there is room for as many bytes; the pipe and the child are ours.
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
