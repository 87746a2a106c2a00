//! Threads of the library in the program's process.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use std::io;
use std::thread::{Builder, JoinHandle};

/// Signals that an instruction of a thread causes: only that thread can handle them, and the kernel ends the
/// process if they are blocked. uroce has a handler for memory that the program has unmapped, and the program
/// may have one, for example for SIGSYS of a seccomp filter.
pub const SYNCHRONOUS_SIGNALS: [c_int; 6] = [
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
/// others. Fails as pthread_create(3) does.
///
/// The caller joins it before dlclose(3) may unload the library. For other threads: [`spawn_detached`].
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
    let mut previous = MaybeUninit::<libc::sigset_t>::uninit();
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

/// [`spawn`] for a thread that nobody joins. From then on dlclose(3) does not unload the library, whose code
/// the thread runs.
pub fn spawn_detached(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    stay_loaded();
    spawn(name, work).map(drop)
}

/// Keeps dlclose(3) from unloading the shared object that contains this function, whose code a thread runs
/// or other objects call. Does nothing in a program that contains it itself.
pub fn stay_loaded() {
    const FLAGS: c_int = libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    let own = stay_loaded as *const c_void;
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: dladdr fills the structure if it succeeds, and then the name is a C string. With RTLD_NOLOAD
    // nothing is loaded and no constructor runs.
    unsafe {
        if libc::dladdr(own, info.as_mut_ptr()) != 0 {
            libc::dlopen(info.assume_init().dli_fname, FLAGS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signals that the calling thread blocks, as a bit mask.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = status
            .lines()
            .find_map(|line| line.strip_prefix("SigBlk:"))
            .unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap()
    }

    #[test]
    fn a_thread_blocks_all_signals_but_synchronous_ones() {
        let before = blocked();
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = spawn("host-test", move || sender.send(blocked()).unwrap()).unwrap();
        let mask = receiver.recv().unwrap();
        thread.join().unwrap();
        for signal in 1..=31 {
            let never_blocked = [libc::SIGKILL, libc::SIGSTOP].contains(&signal);
            let expected = !never_blocked && !SYNCHRONOUS_SIGNALS.contains(&signal);
            assert_eq!(mask >> (signal - 1) & 1 == 1, expected, "signal {signal}");
        }
        assert_eq!(blocked(), before, "the mask of the starting thread");
    }
}
