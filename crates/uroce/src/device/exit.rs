//! The end of the process: before it, packets are sent that its peers wait for. A program may end as soon as
//! it has its last message, without destroying anything; with a kernel device, the ACK of that message is
//! sent nevertheless.
//!
//! At exit(3), the calling thread does this. `_exit(2)` may be called in a signal handler, so its caller only
//! asks a background thread, and waits for it for a limited time. A process that is killed sends nothing.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::open_devices::OPEN_DEVICES;
use crate::capture;
use crate::sync::Mutex;

/// How long exit(3) waits for threads that receive, and `_exit(2)` for the background thread. On a busy host
/// these may not run for some time. The whole time passes only if the exit interrupts a thread that holds a
/// lock which they need.
const EXIT_WAIT: Duration = Duration::from_secs(1);
/// How often the caller of `_exit(2)` checks that the background thread is done.
const CHECK_INTERVAL: Duration = Duration::from_micros(100);

/// The process that has registered the handler last. A child of vfork(2) has this variable, too, but another
/// process ID.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// The progress of an `_exit(2)`: one of the following values.
static STAGE: AtomicU32 = AtomicU32::new(NOT_CALLED);
const NOT_CALLED: u32 = 0;
const CALLED: u32 = 1;
const DONE: u32 = 2;
/// The handler of rdma_cm, which is called at the end, too.
static OTHER_HANDLER: Mutex<Option<fn()>> = Mutex::new(None);

/// Lets this process end as the head of the module says. Called with [`OPEN_DEVICES`] locked, so that a fork
/// never finds the handler half registered.
pub(super) fn register() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    // SAFETY: getpid takes no arguments.
    PROCESS.store(unsafe { libc::getpid() }, Ordering::Relaxed);
    if !REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: `at_exit` uses statics only, blocks on no lock for long and does not unwind, so it may
        // run at exit.
        unsafe { libc::atexit(at_exit) };
    }
}

/// Adds what is to be done at `_exit(2)` besides sending packets. It blocks on no lock for long. All calls
/// pass the same function.
pub fn set_other_handler(handler: fn()) {
    // A lock that cannot be taken is held by a thread that sets the handler, or was when the process was
    // forked.
    if let Some(mut other) = OTHER_HANDLER.try_lock() {
        *other = Some(handler);
    }
}

extern "C" fn at_exit() {
    if let Some(open_devices) = OPEN_DEVICES.try_lock() {
        for open in open_devices.iter() {
            if open.device.owned_by_this_process() {
                open.device.inboxes.await_batches(EXIT_WAIT);
                open.device.send_deferred_at_exit();
            }
        }
    }
    capture::flush_at_exit();
}

/// The program is about to call `_exit(2)`. Safe in signal handlers and in children of fork(2) and vfork(2),
/// where it does nothing.
pub fn before_exit() {
    // SAFETY: getpid takes no arguments.
    if PROCESS.load(Ordering::Relaxed) != unsafe { libc::getpid() } || !ask_background_thread() {
        return;
    }
    let end = Instant::now() + EXIT_WAIT;
    while STAGE.load(Ordering::Acquire) != DONE && Instant::now() < end {
        // Not std's function, which is not meant for signal handlers.
        let interval = libc::timespec {
            tv_sec: 0,
            tv_nsec: CHECK_INTERVAL.subsec_nanos().into(),
        };
        // SAFETY: the interval is readable; NULL: the rest of it is not asked for.
        unsafe { libc::nanosleep(&raw const interval, core::ptr::null_mut()) };
    }
}

/// False if no device is open, another thread is opening or closing one, or all is done.
fn ask_background_thread() -> bool {
    let Some(open_devices) = OPEN_DEVICES.try_lock() else {
        return false;
    };
    let mut devices = open_devices.iter().map(|open| &open.device);
    let Some(device) = devices.find(|device| device.owned_by_this_process()) else {
        return false;
    };
    // The process ends: the waker is not freed, which a signal handler must not do.
    let waker = ManuallyDrop::new(device.waker.clone());
    // The background thread needs it.
    drop(open_devices);
    let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
    match STAGE.compare_exchange(NOT_CALLED, CALLED, set, fetch) {
        Ok(_) => waker.wake(),
        // Another thread exits, too: it must not end the process before the background thread is done.
        Err(stage) => return stage == CALLED,
    }
    true
}

/// Does what [`before_exit`] asks for. For background threads.
#[inline]
pub(super) fn serve() {
    if STAGE.load(Ordering::Acquire) == CALLED {
        at_exit();
        let handler = OTHER_HANDLER.try_lock().and_then(|handler| *handler);
        if let Some(handler) = handler {
            handler();
        }
        STAGE.store(DONE, Ordering::Release);
    }
}
