//! Fork safety: `ibv_fork_init` and what it makes of registered memory.
//!
//! A device writes to the physical pages of registered memory. After fork(2) parent and child share
//! them until one writes, and the writer gets a copy: if that is the parent, the device goes on
//! writing to a page that is the child's now. So registered pages are kept out of children with
//! madvise(2), as long as one registration holds them.
//!
//! Man pages: ibv_fork_init(3), ibv_is_fork_initialized(3).

use super::advice::Madvise;
use super::ranges::{Kernel, Owed, Pages, Ranges};
use super::{lock::ForkLock, page_size, shortage};
use crate::abi::{IBV_FORK_DISABLED, IBV_FORK_ENABLED, IBV_FORK_UNNEEDED, ibv_fork_status};
use crate::env;
use ibverbs_abi::{Errno, IntoC};
use ibverbs_netlink::nldev;
use libc::{EAGAIN, EINVAL, ENOMEM, ENOSYS, c_int, c_void};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

/// Nobody asked for fork safety and nothing was registered yet.
const UNUSED: u8 = 0;
/// Something was registered without being tracked: it is too late for fork safety.
const TOO_LATE: u8 = 1;
/// Registered memory is tracked, from the first registration on and for good.
const TRACKING: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNUSED);
/// Registered memory may lie in huge pages. Never unset.
static HUGE_PAGES: AtomicBool = AtomicBool::new(false);
/// The base page size in bytes, written before `STATE` becomes `TRACKING`.
static PAGE_SIZE: AtomicUsize = AtomicUsize::new(4096);
/// How many runs of pages may wait for the next fork before they are given back.
static PUT_OFF: AtomicUsize = AtomicUsize::new(0);
/// What [`PUT_OFF`] is when the user asks for it. Each run costs up to two mappings of the 65530 that a
/// process may have.
const LAZY: usize = 1024;
static RANGES: ForkLock<Ranges> = ForkLock::new(Ranges::new());

/// Makes fork(2) safe for a program with registered memory. Returns 0; EINVAL when memory was
/// registered already; ENOMEM; ENOSYS when the kernel cannot keep pages out of a child.
///
/// Any value of RDMAV_HUGEPAGES_SAFE, looked up on each call, makes later registrations heed the
/// page size of the mapping they lie in. The value `kernel` of IBV_FORK_SAFE or RDMAV_FORK_SAFE leaves
/// fork safety to a kernel that copies pinned pages for the child: 0, and nothing is tracked. The value
/// `lazy` puts it off until the next fork to give deregistered memory back to children.
///
/// # Safety
/// A C entry point without arguments. No other thread may be in setenv(3).
pub unsafe extern "C" fn ibv_fork_init() -> c_int {
    if env::get(c"RDMAV_HUGEPAGES_SAFE").is_some() {
        HUGE_PAGES.store(true, Ordering::Relaxed);
    }
    if asked(c"lazy") {
        PUT_OFF.store(LAZY, Ordering::Relaxed);
    }
    match STATE.load(Ordering::Acquire) {
        TRACKING => 0,
        _ if leave_it_to_the_kernel() => 0,
        UNUSED => start().into_c(),
        _ => EINVAL,
    }
}

/// Whether the user asked for what rdma-core 51 and later do, and the kernel can.
fn leave_it_to_the_kernel() -> bool {
    asked(c"kernel") && nldev::copy_on_fork()
}

/// Whether one of the two variables has this value.
fn asked(wanted: &CStr) -> bool {
    let has = |name| env::get(name).is_some_and(|value| value == wanted);
    has(c"IBV_FORK_SAFE") || has(c"RDMAV_FORK_SAFE")
}

/// How pages are advised from now on.
#[inline]
fn kernel() -> Madvise {
    Madvise {
        page: PAGE_SIZE.load(Ordering::Relaxed),
        huge: HUGE_PAGES.load(Ordering::Relaxed),
        put_off: PUT_OFF.load(Ordering::Relaxed),
    }
}

/// Tries madvise on a page and begins to track. The error is an errno value.
fn start() -> Result<(), Errno> {
    let page = page_size::base().ok_or_else(Errno::last)?;
    let mut probe: *mut c_void = std::ptr::null_mut();
    // SAFETY: `probe` is ours to write to; alignment and size are a power of two, a page.
    if unsafe { libc::posix_memalign(&mut probe, page, page) } != 0 {
        return Err(Errno(ENOMEM));
    }
    let mut kernel = Madvise { page, ..kernel() };
    let works = Pages::new(probe.addr(), page, kernel.shift()).is_some_and(|run| {
        let excluded = kernel.exclude(run).is_ok();
        kernel.give_back(run, &|_| false, &mut Owed::new());
        excluded
    });
    // SAFETY: posix_memalign returned it and nothing refers to it any more.
    unsafe { libc::free(probe) };
    if !works {
        return Err(Errno(ENOSYS));
    }

    PAGE_SIZE.store(page, Ordering::Relaxed);
    // A second thread may have come here at the same time, or have registered memory meanwhile.
    match STATE.compare_exchange(UNUSED, TRACKING, Ordering::AcqRel, Ordering::Acquire) {
        Err(TOO_LATE) => Err(Errno(EINVAL)),
        _ => Ok(()),
    }
}

/// Has fork wait for the ranges, so that a child never finds them half-changed and locked.
///
/// Handlers that are registered first go last before a fork. The lock is innermost: who has it calls
/// no one but the allocator and the kernel. So this comes when the library is loaded, before those
/// who use it can register theirs: a handler that waited for a lock of the program's with this one
/// held could wait for a thread that waits for this one. And it comes after the allocator's, if that
/// has any; the first allocation sees to that.
extern "C" fn watch_forks() {
    extern "C" fn prepare() {
        RANGES.prepare_fork(|ranges| ranges.settle(&mut kernel()));
    }
    extern "C" fn after() {
        RANGES.after_fork();
    }
    // SAFETY: what is allocated is freed. The handlers take nothing, touch only statics and do not
    // unwind; libc forgets them when this library is unloaded. Without memory for them a fork is
    // as safe as with the C library, which has no handlers.
    unsafe {
        libc::free(std::hint::black_box(libc::malloc(1)));
        libc::pthread_atfork(Some(prepare), Some(after), Some(after));
    }
}

#[used]
// SAFETY: the section holds functions that the dynamic linker calls with arguments that this one does
// not take.
#[unsafe(link_section = ".init_array")]
static WHEN_LOADED: extern "C" fn() = watch_forks;

/// A program that unloads this library has no handlers of it any more when it forks.
extern "C" fn leave() {
    RANGES.with(|ranges| ranges.settle(&mut kernel()));
}

#[used]
// SAFETY: as above, when the library is unloaded.
#[unsafe(link_section = ".fini_array")]
static WHEN_UNLOADED: extern "C" fn() = leave;

/// Whether fork is safe: on this kernel anyway (it copies the pages at fork), by our doing, or not.
///
/// # Safety
/// A C entry point without arguments.
pub unsafe extern "C" fn ibv_is_fork_initialized() -> ibv_fork_status {
    if nldev::copy_on_fork() {
        IBV_FORK_UNNEEDED
    } else if STATE.load(Ordering::Acquire) == TRACKING {
        IBV_FORK_ENABLED
    } else {
        IBV_FORK_DISABLED
    }
}

/// Keeps `size` bytes at `base`, in whole pages, out of children of fork(2) until each call has had
/// its [`ibv_dofork_range`]. Returns 0, or -1 with errno set and nothing changed.
///
/// # Safety
/// Any address will do; memory is not accessed. The caller knows that a child will not have it.
pub unsafe extern "C" fn ibv_dontfork_range(base: *mut c_void, size: usize) -> c_int {
    match tracking() {
        true => change(base.addr(), size, Ranges::hold),
        false => 0,
    }
}

/// Takes one [`ibv_dontfork_range`] back. Returns 0.
///
/// # Safety
/// Any address will do; memory is not accessed.
pub unsafe extern "C" fn ibv_dofork_range(base: *mut c_void, size: usize) -> c_int {
    match tracking() {
        true => change(base.addr(), size, Ranges::release),
        false => 0,
    }
}

/// Whether registrations are tracked; if not, from now on they cannot be.
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

/// Apart, so that a program without fork safety does not pay for its registers.
#[inline(never)]
fn change(
    base: usize,
    size: usize,
    change: impl FnOnce(&mut Ranges, Pages, &mut Madvise) -> Result<(), Errno>,
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
