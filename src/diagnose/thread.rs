//! Threads of this module in the program's process.

use core::mem::MaybeUninit;
use std::io;
use std::thread::Builder;

/// Bytes of a thread's stack.
const STACK: usize = 256 << 10;
/// Signals that an instruction of the thread causes.
const SYNCHRONOUS: [i32; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// Starts a thread with all signals blocked but the synchronous ones: the program's threads handle the
/// others. From then on dlclose(3) does not unload this library, whose code the thread runs.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    stay_loaded();
    let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are writable; each call initialises the set that the next one reads.
    unsafe {
        libc::sigfillset(blocked.as_mut_ptr());
        for signal in SYNCHRONOUS {
            libc::sigdelset(blocked.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), before.as_mut_ptr());
    }
    let thread = Builder::new()
        .name(name.into())
        .stack_size(STACK)
        .spawn(work);
    // SAFETY: the first pthread_sigmask has initialised `before`.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut());
    }
    thread.map(drop)
}

/// Keeps dlclose(3) from unloading the object that this function is in.
fn stay_loaded() {
    const FLAGS: i32 = libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: dladdr fills the structure if it succeeds, and then the name is a C string. With RTLD_NOLOAD
    // nothing is loaded and no constructor runs.
    unsafe {
        if libc::dladdr(stay_loaded as *const _, info.as_mut_ptr()) != 0 {
            libc::dlopen(info.assume_init().dli_fname, FLAGS);
        }
    }
}
