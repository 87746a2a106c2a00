//! Fork safety: `ibv_fork_init`, `ibv_dontfork_range` and `ibv_dofork_range`.
//!
//! A device writes to the physical pages of registered memory. After fork(2) parent and child share them
//! copy-on-write. If the parent writes first, it gets the copy, and the device keeps writing to a page
//! that now belongs to the child. So registered pages have MADV_DONTFORK as long as a registration
//! contains them.
//!
//! Man pages: ibv_fork_init(3), ibv_is_fork_initialized(3).

use super::advice::Madvise;
use super::ranges::{Deferred, ForkRanges, MadviseCalls, Pages};
use super::{lock::ForkLock, page_size, shortage};
use crate::abi::{IBV_FORK_DISABLED, IBV_FORK_ENABLED, IBV_FORK_UNNEEDED, ibv_fork_status};
use crate::env;
use ibverbs_abi::{Errno, IntoC};
use ibverbs_netlink::nldev;
use libc::{EAGAIN, EINVAL, ENOMEM, ENOSYS, c_int, c_void};
use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

/// Fork safety was not requested, and nothing is registered yet.
const UNUSED: u8 = 0;
/// Memory was registered without tracking: it is too late for fork safety.
const TOO_LATE: u8 = 1;
/// Registered memory is tracked from the first registration on. Final.
const TRACKING: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNUSED);
/// Registered memory may lie in huge pages (RDMAV_HUGEPAGES_SAFE). Never cleared.
static HUGE_PAGES: AtomicBool = AtomicBool::new(false);
/// The base page size in bytes, written before `STATE` becomes `TRACKING`.
static PAGE_SIZE: AtomicUsize = AtomicUsize::new(4096);
/// How many unreferenced runs of pages may wait for their MADV_DOFORK until the next fork.
static MAX_DEFERRED: AtomicUsize = AtomicUsize::new(0);
/// The value of [`MAX_DEFERRED`] with IBV_FORK_SAFE=lazy. Each run costs up to two of the 65530 mappings
/// that a process may have by default.
const LAZY_MAX_DEFERRED: usize = 1024;
static RANGES: ForkLock<ForkRanges> = ForkLock::new(ForkRanges::new());

/// Makes fork(2) safe for a program with registered memory. Returns 0; EINVAL if memory is registered
/// already; ENOMEM; ENOSYS if the kernel lacks MADV_DONTFORK.
///
/// Any value of RDMAV_HUGEPAGES_SAFE, read on each call, makes later registrations use the page size of
/// their mapping. The value `kernel` of IBV_FORK_SAFE or RDMAV_FORK_SAFE leaves fork safety to a kernel
/// that copies pinned pages for the child: the call returns 0, and nothing is tracked. The value `lazy`
/// defers MADV_DOFORK for deregistered memory until the next fork.
///
/// # Safety
/// No other thread may be in setenv(3).
pub unsafe extern "C" fn ibv_fork_init() -> c_int {
    if env::get(c"RDMAV_HUGEPAGES_SAFE").is_some() {
        HUGE_PAGES.store(true, Ordering::Relaxed);
    }
    if fork_safe_is(c"lazy") {
        MAX_DEFERRED.store(LAZY_MAX_DEFERRED, Ordering::Relaxed);
    }
    match STATE.load(Ordering::Acquire) {
        TRACKING => 0,
        _ if left_to_kernel() => 0,
        UNUSED => start().into_c(),
        _ => {
            if let Some(report) = WHEN_TOO_LATE.get() {
                report();
            }
            EINVAL
        }
    }
}

/// The function to call when ibv_fork_init() comes too late; set by IBV_EXPLAIN.
static WHEN_TOO_LATE: OnceLock<fn()> = OnceLock::new();

/// Has `report` called when ibv_fork_init() comes too late.
pub fn report_too_late(report: fn()) {
    // The same at each call.
    let _ = WHEN_TOO_LATE.set(report);
}

/// Whether IBV_FORK_SAFE=kernel is set, which is what rdma-core 51 and later do, and the kernel supports it.
fn left_to_kernel() -> bool {
    fork_safe_is(c"kernel") && nldev::copy_on_fork()
}

/// Whether IBV_FORK_SAFE or RDMAV_FORK_SAFE has this value.
fn fork_safe_is(wanted: &CStr) -> bool {
    let has = |name| env::get(name).is_some_and(|value| value == wanted);
    has(c"IBV_FORK_SAFE") || has(c"RDMAV_FORK_SAFE")
}

/// madvise(2) with the present settings.
#[inline]
fn kernel() -> Madvise {
    Madvise {
        page: PAGE_SIZE.load(Ordering::Relaxed),
        huge: HUGE_PAGES.load(Ordering::Relaxed),
        max_deferred: MAX_DEFERRED.load(Ordering::Relaxed),
    }
}

/// Tries MADV_DONTFORK and MADV_DOFORK on a page, then starts tracking.
fn start() -> Result<(), Errno> {
    let page = page_size::base().ok_or_else(Errno::last)?;
    let mut probe: *mut c_void = std::ptr::null_mut();
    // SAFETY: `probe` is a local; alignment and size are the page size, a power of two.
    if unsafe { libc::posix_memalign(&mut probe, page, page) } != 0 {
        return Err(Errno(ENOMEM));
    }
    let mut kernel = Madvise { page, ..kernel() };
    let works = Pages::new(probe.addr(), page, kernel.shift()).is_some_and(|run| {
        let works = kernel.dontfork(run).is_ok();
        kernel.dofork(run, &|_| false, &mut Deferred::new());
        works
    });
    // SAFETY: posix_memalign returned it, and nothing else refers to it.
    unsafe { libc::free(probe) };
    if !works {
        return Err(Errno(ENOSYS));
    }

    PAGE_SIZE.store(page, Ordering::Relaxed);
    // Meanwhile another thread may have done the same, or registered memory.
    match STATE.compare_exchange(UNUSED, TRACKING, Ordering::AcqRel, Ordering::Acquire) {
        Err(TOO_LATE) => Err(Errno(EINVAL)),
        _ => Ok(()),
    }
}

/// Registers fork handlers that hold the lock of the ranges during fork, so that the child finds them
/// unlocked and consistent.
///
/// Before a fork, handlers run in reverse order of registration. This lock is innermost: its holder calls
/// only the allocator and the kernel. So its handler must run after the program's, whose handlers may wait
/// for locks of their own: it is registered when the library is loaded, before the program can register
/// any. It must run before the allocator's, if that has any: the allocation here lets the allocator
/// register first.
extern "C" fn register_fork_handlers() {
    extern "C" fn prepare() {
        RANGES.prepare_fork(|ranges| ranges.flush_deferred(&mut kernel()));
    }
    extern "C" fn after() {
        RANGES.after_fork();
    }
    // SAFETY: malloc's result is freed. The handlers have no arguments, use only statics and do not
    // unwind; libc removes them when this library is unloaded. Without memory for them fork works as in
    // rdma-core.
    unsafe {
        libc::free(std::hint::black_box(libc::malloc(1)));
        libc::pthread_atfork(Some(prepare), Some(after), Some(after));
    }
}

#[used]
// SAFETY: the dynamic linker calls the functions in this section, with arguments that this one ignores.
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = register_fork_handlers;

/// Applies the deferred MADV_DOFORK calls when the library is unloaded: its fork handlers are gone then.
extern "C" fn on_unload() {
    RANGES.with(|ranges| ranges.flush_deferred(&mut kernel()));
}

#[used]
// SAFETY: the dynamic linker calls the functions in this section when it unloads the library.
#[unsafe(link_section = ".fini_array")]
static ON_UNLOAD: extern "C" fn() = on_unload;

/// Whether fork is safe: IBV_FORK_UNNEEDED if the kernel copies pinned pages at fork, IBV_FORK_ENABLED after
/// [`ibv_fork_init`], else IBV_FORK_DISABLED.
///
/// # Safety
/// None: it has no arguments, and any thread may call it.
pub unsafe extern "C" fn ibv_is_fork_initialized() -> ibv_fork_status {
    if nldev::copy_on_fork() {
        IBV_FORK_UNNEEDED
    } else if STATE.load(Ordering::Acquire) == TRACKING {
        IBV_FORK_ENABLED
    } else {
        IBV_FORK_DISABLED
    }
}

/// Excludes the pages that contain the `size` bytes at `base` from children of fork(2), until there was an
/// [`ibv_dofork_range`] for each call. Returns 0, or -1 with errno set and nothing changed.
///
/// # Safety
/// Any address is valid; memory is not accessed. The child must not access it.
pub unsafe extern "C" fn ibv_dontfork_range(base: *mut c_void, size: usize) -> c_int {
    match tracking() {
        true => change(base.addr(), size, ForkRanges::dontfork),
        false => 0,
    }
}

/// Undoes one [`ibv_dontfork_range`]. Returns 0.
///
/// # Safety
/// Any address is valid; memory is not accessed.
pub unsafe extern "C" fn ibv_dofork_range(base: *mut c_void, size: usize) -> c_int {
    match tracking() {
        true => change(base.addr(), size, ForkRanges::dofork),
        false => 0,
    }
}

/// Whether registrations are tracked. If not, it is from now on too late to start.
#[inline]
fn tracking() -> bool {
    match STATE.load(Ordering::Acquire) {
        TOO_LATE => false,
        TRACKING => true,
        _ => STATE
            .compare_exchange(UNUSED, TOO_LATE, Ordering::AcqRel, Ordering::Acquire)
            .is_err_and(|state| state == TRACKING),
    }
}

/// Out of line, so that a program without fork safety does not pay for saving its registers.
#[inline(never)]
fn change(
    base: usize,
    size: usize,
    change: impl FnOnce(&mut ForkRanges, Pages, &mut Madvise) -> Result<(), Errno>,
) -> c_int {
    if base == 0 {
        return 0;
    }
    let mut kernel = kernel();
    let Some(pages) = Pages::new(base, size, kernel.shift()) else {
        return 0;
    };
    match RANGES.with(|ranges| change(ranges, pages, &mut kernel)) {
        Some(Ok(())) => 0,
        Some(Err(error)) => {
            if error == Errno(EAGAIN) {
                shortage::too_many_mappings(size);
            }
            error.set();
            -1
        }
        None => {
            Errno(libc::EDEADLK).set();
            -1
        }
    }
}
