//! System calls that begin only while some words have the values that they had: rseq(2).
//!
//! A thread that has compared a word may be stopped before its next instruction, for any time. A restartable
//! sequence is a range of instructions that the kernel does not let a thread continue in: one that was
//! preempted, stopped or interrupted there runs on in a handler. Here the range ends with the instruction
//! that enters the kernel. So a thread that does not run for a moment either has not begun the call, and
//! compares again, or is in the kernel.
//!
//! libc (glibc 2.35 and later) registers each thread for rseq(2). Where it does not, a thread registers
//! itself here. Where the kernel refuses that (before Linux 4.18, gVisor, valgrind, a filter of seccomp), or
//! something else has registered the thread, there are no such calls.

use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicIsize, Ordering};

use crate::arch::restart::{SIGNATURE, thread_pointer};
pub use crate::arch::restart::{ticks, ticks_of_some_ms};
use crate::arch::rseq::{Area, CHANGED, CHECKS, Call, Check, RESTARTED, STALE};
use crate::process;

/// `RSEQ_FLAG_UNREGISTER`.
const UNREGISTER: libc::c_int = 1;

/// A word, and the value that it must have.
pub type Expected = (*const u32, u32);

/// The condition under which a call may begin.
#[derive(Clone, Copy)]
pub struct Condition<'a> {
    checks: [Check; CHECKS],
    verified_at: *const u64,
    words: PhantomData<&'a u32>,
}

impl Condition<'_> {
    /// Each word must have its value, and `verified_at` be no older than [`ticks_of_some_ms`].
    ///
    /// # Safety
    /// The words may be read, and belong to atomics, as long as the condition exists.
    pub unsafe fn new(checks: [Expected; CHECKS], verified_at: *const u64) -> Self {
        Condition {
            checks: checks.map(|(word, value)| Check { word, value }),
            verified_at,
            words: PhantomData,
        }
    }
}

/// The outcome of a call: made, or not made because a check failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call was made; its result, or the negative number of its error.
    Called(i64),
    /// A word differs: nothing was called.
    Changed,
    /// `verified_at` is too old: nothing was called.
    Stale,
    /// The thread did not run for a moment, or got a signal: nothing was called.
    Restarted,
    /// This thread cannot make such calls.
    Unavailable,
}

unsafe extern "C" {
    fn uroce_restartable_call(area: *mut Area, call: *const Call) -> i64;
}

/// Makes a system call if the condition holds in the moment in which the thread enters the kernel.
///
/// # Safety
/// The arguments are valid for the system call.
#[inline]
pub unsafe fn call(number: libc::c_long, arguments: [usize; 6], when: &Condition) -> Outcome {
    let Some(area) = area() else {
        return Outcome::Unavailable;
    };
    let call = Call {
        number,
        arguments,
        checks: when.checks,
        verified_at: when.verified_at,
        fresh_ticks: ticks_of_some_ms(),
    };
    // SAFETY: the area is the one with which this thread is registered; `Condition::new` has valid words; the
    // arguments are, as the caller says.
    match unsafe { uroce_restartable_call(area.as_ptr(), &raw const call) } {
        CHANGED => Outcome::Changed,
        STALE => Outcome::Stale,
        RESTARTED => Outcome::Restarted,
        result => Outcome::Called(result),
    }
}

/// Whether this thread can make such calls.
#[inline]
pub fn is_available() -> bool {
    area().is_some()
}

/// The area with which this thread is registered, if it is.
#[inline]
fn area() -> Option<NonNull<Area>> {
    if let Some(offset) = libc_offset() {
        let at = thread_pointer().wrapping_add_signed(offset);
        let area = NonNull::new(std::ptr::with_exposed_provenance_mut::<Area>(at))?;
        // SAFETY: libc has an area there for each thread. The kernel writes to it, in this thread only.
        if unsafe { (&raw const (*area.as_ptr()).cpu_id).read_volatile() } >= 0 {
            return Some(area);
        }
    }
    own_area()
}

/// The offset of libc's areas, relative to the thread pointer. Two threads may look it up at once. A lock
/// would block a child of fork(2) for good if another thread held it.
#[inline]
fn libc_offset() -> Option<isize> {
    const UNKNOWN: isize = isize::MIN;
    const NONE: isize = isize::MAX;
    static OFFSET: AtomicIsize = AtomicIsize::new(UNKNOWN);
    let mut offset = OFFSET.load(Ordering::Relaxed);
    if offset == UNKNOWN {
        offset = look_up_libc_offset().unwrap_or(NONE);
        OFFSET.store(offset, Ordering::Relaxed);
    }
    (offset != NONE).then_some(offset)
}

#[cold]
fn look_up_libc_offset() -> Option<isize> {
    let [offset, size] = libc_symbols().map(NonNull::new);
    // SAFETY: libc documents the types of both, which are constant.
    let (offset, size) = unsafe {
        (
            *offset?.as_ptr().cast::<isize>(),
            *size?.as_ptr().cast::<u32>(),
        )
    };
    (size > 0).then_some(offset)
}

/// `__rseq_offset` and `__rseq_size`.
#[cfg(not(feature = "archive"))]
fn libc_symbols() -> [*mut libc::c_void; 2] {
    let find = |name: &std::ffi::CStr| {
        // SAFETY: the name is a C string.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
    };
    [c"__rseq_offset", c"__rseq_size"].map(find)
}

/// `__rseq_offset` and `__rseq_size`. A program without a dynamic linker cannot look for them, and one that
/// has the library as an archive is linked with its libc.
#[cfg(feature = "archive")]
fn libc_symbols() -> [*mut libc::c_void; 2] {
    crate::arch::restart::libc_symbols().map(std::ptr::with_exposed_provenance_mut)
}

/// The registration of a thread that libc has not registered.
struct OwnArea {
    area: UnsafeCell<Area>,
    state: Cell<Registration>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Registration {
    Untried,
    Refused,
    Done,
}

thread_local! {
    static OWN: OwnArea = const {
        OwnArea {
            area: UnsafeCell::new(Area::UNREGISTERED),
            state: Cell::new(Registration::Untried),
        }
    };
}

#[cold]
fn own_area() -> Option<NonNull<Area>> {
    thread_local! {
        static IS_IN_USE: Cell<bool> = const { Cell::new(false) };
    }
    if !IS_IN_USE.get() && !process::can_register_destructor() {
        return None;
    }
    IS_IN_USE.set(true);
    let own = |own: &OwnArea| {
        if own.state.get() == Registration::Untried {
            let is_done = own.register(0);
            own.state.set(match is_done {
                true => Registration::Done,
                false => Registration::Refused,
            });
        }
        NonNull::new(own.area.get()).filter(|_| own.state.get() == Registration::Done)
    };
    // A thread that ends has none any more.
    OWN.try_with(own).ok()?
}

impl OwnArea {
    fn register(&self, flags: libc::c_int) -> bool {
        // SAFETY: the area stays where it is until the thread has ended, and is deregistered before.
        let result = unsafe {
            libc::syscall(
                libc::SYS_rseq,
                self.area.get(),
                size_of::<Area>(),
                flags,
                SIGNATURE,
            )
        };
        result == 0
    }
}

impl Drop for OwnArea {
    fn drop(&mut self) {
        if self.state.get() == Registration::Done {
            self.register(UNREGISTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

    use super::*;

    struct Words {
        words: [AtomicU32; CHECKS],
        verified_at: AtomicU64,
    }

    impl Words {
        fn new() -> Words {
            Words {
                words: [5, 6, 7, 8].map(AtomicU32::new),
                verified_at: AtomicU64::new(ticks()),
            }
        }

        fn getppid_if(&self, values: [u32; CHECKS]) -> Outcome {
            getppid(&self.words, values, self.verified_at.as_ptr())
        }
    }

    fn getppid(words: &[AtomicU32], values: [u32; CHECKS], verified_at: *const u64) -> Outcome {
        let checks = std::array::from_fn(|i| (words[i].as_ptr().cast_const(), values[i]));
        // SAFETY: the words are atomics, which outlive the condition; getppid has no arguments.
        unsafe {
            call(
                libc::SYS_getppid,
                [0; 6],
                &Condition::new(checks, verified_at),
            )
        }
    }

    fn parent() -> i64 {
        std::os::unix::process::parent_id().into()
    }

    /// The outcome, without what depends on other threads.
    fn eventually(call: impl Fn() -> Outcome) -> Outcome {
        let mut outcomes = std::iter::repeat_with(call);
        let is_settled = |outcome: &Outcome| *outcome != Outcome::Restarted;
        outcomes.find(is_settled).unwrap()
    }

    #[test]
    fn a_call_needs_all_words_and_a_fresh_time() {
        let words = Words::new();
        let call = |values| {
            eventually(|| {
                words.verified_at.store(ticks(), Ordering::Relaxed);
                words.getppid_if(values)
            })
        };
        assert_eq!(call([5, 6, 7, 8]), Outcome::Called(parent()));
        for i in 0..CHECKS {
            let mut values = [5, 6, 7, 8];
            values[i] ^= 1 << 31;
            assert_eq!(call(values), Outcome::Changed, "{i}");
        }
        for age in [ticks_of_some_ms() + 1, 1 << 62, u64::MAX / 2] {
            words
                .verified_at
                .store(ticks().wrapping_sub(age), Ordering::Relaxed);
            let outcome = eventually(|| words.getppid_if([5, 6, 7, 8]));
            assert_eq!(outcome, Outcome::Stale, "{age}");
        }
    }

    #[test]
    fn arguments_and_errors_are_passed() {
        let words = Words::new();
        let checks = std::array::from_fn(|i| (words.words[i].as_ptr().cast_const(), 5 + i as u32));
        let (mut fds, bytes) = ([0; 2], *b"abc");
        // SAFETY: `fds` has room for two; `bytes` are readable.
        unsafe {
            assert_eq!(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC), 0);
            let write = |fd: i32| {
                let arguments = [fd as usize, bytes.as_ptr().addr(), 3, 0, 0, 0];
                words.verified_at.store(ticks(), Ordering::Relaxed);
                let when = Condition::new(checks, words.verified_at.as_ptr());
                call(libc::SYS_write, arguments, &when)
            };
            assert_eq!(eventually(|| write(fds[1])), Outcome::Called(3));
            let error = Outcome::Called(-i64::from(libc::EBADF));
            assert_eq!(eventually(|| write(-1)), error);
            let mut got = [0_u8; 4];
            assert_eq!(libc::read(fds[0], got.as_mut_ptr().cast(), 4), 3);
            assert_eq!(got, *b"abc\0");
            fds.into_iter()
                .for_each(|fd| assert_eq!(libc::close(fd), 0));
        }
    }

    static PAGE: AtomicPtr<u64> = AtomicPtr::new(std::ptr::null_mut());

    /// The handler of the fault: makes the page writable, so that the code that runs again finds a
    /// time.
    extern "C" fn interrupted(_signal: libc::c_int) {
        let page = PAGE.load(Ordering::Relaxed);
        // SAFETY: the page is the test's.
        unsafe {
            libc::mprotect(page.cast(), 4096, libc::PROT_READ | libc::PROT_WRITE);
            page.write(ticks());
        }
    }

    /// A thread that was interrupted between the comparison of the words and the call does not make it. The
    /// interruption is a fault when the instructions read the time.
    #[test]
    fn a_thread_that_was_interrupted_compares_again() {
        let words = Words::new();
        // SAFETY: new memory; the child makes system calls only, and ends.
        let status = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0);
            PAGE.store(page.cast(), Ordering::Relaxed);
            let child = libc::fork();
            if child == 0 {
                libc::signal(libc::SIGSEGV, interrupted as extern "C" fn(_) as usize);
                let call = || getppid(&words.words, [5, 6, 7, 8], page.cast());
                let first = call();
                let second = eventually(call);
                let is_right = first == Outcome::Restarted && matches!(second, Outcome::Called(_));
                libc::_exit(i32::from(!is_right));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            status
        };
        assert_eq!(status, 0);
    }

    /// Ends libc's registration of this thread.
    fn deregister() {
        let area = area().unwrap().as_ptr();
        // SAFETY: the area is registered; libc does not use it.
        let deregister = |len: usize| unsafe {
            libc::syscall(libc::SYS_rseq, area, len, UNREGISTER, SIGNATURE) == 0
        };
        assert!((32..=256).step_by(4).any(deregister));
    }

    #[test]
    fn a_thread_without_libcs_registration_makes_one() {
        let thread = std::thread::spawn(|| {
            deregister();
            let words = Words::new();
            let outcome = eventually(|| words.getppid_if([5, 6, 7, 8]));
            assert_eq!(outcome, Outcome::Called(parent()));
            assert!(own_area().is_some());
        });
        thread.join().unwrap();
    }

    #[test]
    fn a_thread_that_something_else_has_registered_makes_no_calls() {
        let thread = std::thread::spawn(|| {
            deregister();
            // Not libc's, and not this module's.
            let other: &OwnArea = Box::leak(Box::new(OwnArea {
                area: UnsafeCell::new(Area::UNREGISTERED),
                state: Cell::new(Registration::Done),
            }));
            assert!(other.register(0) && !is_available());
            let words = Words::new();
            assert_eq!(words.getppid_if([5, 6, 7, 8]), Outcome::Unavailable);
            other.register(UNREGISTER);
        });
        thread.join().unwrap();
    }
}
