//! Threads of the library in the program's process.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Signals that an instruction of a thread causes: only that thread can handle them, and the kernel ends the
/// process if they are blocked. The program may have a handler, for example to make a page accessible.
pub const SYNCHRONOUS_SIGNALS: [i32; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Bytes of a thread's stack.
const STACK: usize = 256 * 1024;

/// Starts a thread, with all signals blocked but [`SYNCHRONOUS_SIGNALS`]: the program's threads handle the
/// others.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let mut blocked = core::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut previous = core::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are writable; each call initialises the set that the next one reads.
    unsafe {
        libc::sigfillset(blocked.as_mut_ptr());
        for signal in SYNCHRONOUS_SIGNALS {
            libc::sigdelset(blocked.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), previous.as_mut_ptr());
    }
    let thread = Builder::new()
        .name(name.into())
        .stack_size(STACK)
        .spawn(work);
    // SAFETY: the first pthread_sigmask has initialised `previous`.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, previous.as_ptr(), core::ptr::null_mut());
    }
    thread
}
