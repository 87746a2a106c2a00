//! Whether a process exists, in memory that its peers can read.
//!
//! A process ID may belong to another process as soon as its owner has ended, and a peer that has not run
//! meanwhile has not seen the hang-up of the socket. So the kernel marks a word when the process ends or
//! calls exec(2), before the number is free: that of a robust futex (get_robust_list(2)), which a thread of
//! the process owns. The list, with this one element, lies beside the word: the kernel may have freed private
//! memory by then if it has run out of memory.

use std::io;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicIsize, AtomicU32, AtomicUsize, Ordering};

use ibverbs_os::unix;

use crate::restart::Expected;

/// The bits of the word that have the owner's thread ID. The kernel clears them.
const TID_MASK: u32 = 0x3fff_ffff;

/// `struct robust_list_head`, its element, and the element's futex. Zeros: no process.
#[repr(C)]
pub struct Liveness {
    first: AtomicUsize,
    futex_offset: AtomicIsize,
    pending: AtomicUsize,
    element: AtomicUsize,
    owner: AtomicU32,
}

/// Bytes of a `struct robust_list_head`.
const HEAD_LEN: usize = 3 * size_of::<usize>();

impl Liveness {
    /// Whether the process exists, as far as this thread can see.
    pub fn is_alive(&self) -> bool {
        self.owner().is_some()
    }

    /// A word that keeps its value while the process exists; None if that has ended.
    pub fn owner(&self) -> Option<Expected> {
        let value = self.owner.load(Ordering::Acquire);
        (value & TID_MASK != 0).then_some((self.owner.as_ptr().cast_const(), value))
    }

    /// Marks the process as alive, until the guard is dropped or the calling thread ends. The
    /// thread must not use robust mutexes of its own meanwhile. Fails as get_robust_list(2).
    pub fn begin(&self) -> io::Result<LivenessGuard<'_>> {
        let (mut before, mut before_len) = (ptr::null_mut::<libc::c_void>(), 0_usize);
        // SAFETY: the kernel writes both values. The calling thread is 0.
        unix::check(unsafe {
            libc::syscall(
                libc::SYS_get_robust_list,
                0,
                &raw mut before,
                &raw mut before_len,
            )
        })?;
        let address = |word: *const AtomicUsize| word.expose_provenance();
        self.first.store(address(&self.element), Ordering::Relaxed);
        self.element.store(address(&self.first), Ordering::Relaxed);
        let offset =
            std::mem::offset_of!(Liveness, owner) - std::mem::offset_of!(Liveness, element);
        self.futex_offset.store(offset as isize, Ordering::Relaxed);
        // SAFETY: the list is valid as long as `self` is borrowed, and the guard ends that use.
        unix::check(unsafe {
            libc::syscall(libc::SYS_set_robust_list, &raw const *self, HEAD_LEN)
        })?;
        self.owner.store(own_tid() & TID_MASK, Ordering::Release);
        Ok(LivenessGuard {
            liveness: self,
            before,
            before_len,
            thread: PhantomData,
        })
    }
}

#[cfg(test)]
impl Liveness {
    /// [`Liveness::begin`] without a thread.
    pub fn begin_for_good(&self) {
        self.owner.store(TID_MASK, Ordering::Release);
    }
}

/// Ends what [`Liveness::begin`] began, in the same thread.
pub struct LivenessGuard<'a> {
    liveness: &'a Liveness,
    /// The thread's list before.
    before: *mut libc::c_void,
    before_len: usize,
    thread: PhantomData<*const ()>,
}

impl Drop for LivenessGuard<'_> {
    fn drop(&mut self) {
        self.liveness.owner.store(0, Ordering::Release);
        // SAFETY: the list that libc has set for this thread, which cannot have ended.
        unsafe { libc::syscall(libc::SYS_set_robust_list, self.before, self.before_len) };
    }
}

/// The kernel's number of the calling thread. glibc has gettid since 2.30, and Rust refers to it weakly, so
/// statically linked programs may lack it.
pub fn own_tid() -> u32 {
    // SAFETY: gettid has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn shared() -> &'static Liveness {
        let (prot, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        // SAFETY: new memory, of zeros, which are a `Liveness`, and which is never unmapped.
        unsafe {
            let at = libc::mmap(ptr::null_mut(), 4096, prot, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            &*at.cast::<Liveness>()
        }
    }

    #[test]
    fn the_word_changes_when_the_thread_ends() {
        let liveness = shared();
        assert!(!liveness.is_alive());
        std::thread::spawn(|| {
            std::mem::forget(liveness.begin().unwrap());
            assert!(liveness.is_alive());
        })
        .join()
        .unwrap();
        // pthread_join(3) returns when the kernel has run the thread's list.
        assert!(!liveness.is_alive());
    }

    #[test]
    fn the_guard_ends_it_and_the_list_is_used_no_more() {
        let liveness = shared();
        std::thread::spawn(|| {
            drop(liveness.begin().unwrap());
            assert!(!liveness.is_alive());
            liveness.owner.store(own_tid(), Ordering::Relaxed);
        })
        .join()
        .unwrap();
        assert!(liveness.is_alive());
    }

    /// A child of fork(2) that is alive until it gets a byte, and then does `work`.
    fn child(liveness: &Liveness, work: impl FnOnce()) -> (libc::pid_t, UnixStream) {
        let (go, wait) = UnixStream::pair().unwrap();
        // SAFETY: the child makes system calls only.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            std::mem::forget(liveness.begin());
            let mut byte = 0_u8;
            // SAFETY: the byte is writable.
            unsafe {
                libc::close(go.as_raw_fd());
                libc::read(wait.as_raw_fd(), (&raw mut byte).cast(), 1);
            }
            work();
            // SAFETY: it does not return.
            unsafe { libc::_exit(0) };
        }
        while !liveness.is_alive() {
            std::thread::yield_now();
        }
        (pid, go)
    }

    #[test]
    fn a_process_that_is_killed_or_calls_exec_is_dead() {
        let liveness = shared();
        let (pid, _go) = child(liveness, || ());
        // SAFETY: the child's number is not free before it is waited for.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        while liveness.is_alive() {
            std::thread::yield_now();
        }
        let liveness = shared();
        let (pid, go) = child(liveness, || {
            let argv = [c"sleep".as_ptr(), c"1000".as_ptr(), ptr::null()];
            // SAFETY: the list of C strings ends with NULL.
            unsafe { libc::execvp(argv[0], argv.as_ptr()) };
        });
        drop(go);
        while liveness.is_alive() {
            std::thread::yield_now();
        }
        // SAFETY: as for the first child. This one runs another program.
        unsafe { assert_eq!(libc::kill(pid, libc::SIGKILL), 0) };
    }
}
