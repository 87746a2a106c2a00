//! Closing, fork(2), exit(3) and _exit(2): how rdma_cm ends its connections and its thread.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::forward;
use super::names::Blocking;
use super::send::send_all;
use super::state::{CONFIGS, ENDED, QUEUE, SENDING, STARTED, STATE, known_files};
use crate::device::{clock, exit};

/// How long exit(3) waits for a thread that is executing a command.
const EXIT_WAIT: Duration = Duration::from_millis(100);

/// How long closing a device waits for the thread: peers usually confirm within a millisecond that
/// connections are over, and requests that nobody wants are rejected after 50 ms. The thread ends later by
/// itself.
const CLOSE_WAIT: Duration = Duration::from_millis(100);
/// How often it checks that the thread has ended.
const CHECK_INTERVAL: Duration = Duration::from_micros(100);

/// The thread that did not end while closing a device waited, if no descriptor was opened since. A program
/// that closes several devices waits once.
pub(super) static GIVEN_UP: AtomicU32 = AtomicU32::new(0);

/// Called when the program has closed a device: nothing stays open of rdma_cm if the program has closed its
/// descriptors, as in the kernel. The thread would notice later that they are closed.
pub fn after_close() {
    wait_for_thread();
}

/// [`after_close`]. Returns whether the thread did not end within the time.
pub(super) fn wait_for_thread() -> bool {
    let has_ended = || ENDED.load(Ordering::Acquire) >= STARTED.load(Ordering::Relaxed);
    if has_ended() {
        forward::close_connections();
        return false;
    }
    close_hung_up();
    let started = STARTED.load(Ordering::Relaxed);
    if GIVEN_UP.load(Ordering::Relaxed) == started {
        return false;
    }
    let until = clock::now().after(CLOSE_WAIT);
    let is_open = || {
        STATE
            .lock()
            .as_ref()
            .is_some_and(|state| !state.files.is_empty())
    };
    while !has_ended() && !is_open() {
        if clock::now() >= until {
            GIVEN_UP.store(started, Ordering::Relaxed);
            return true;
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    false
}

/// Ends what belongs to descriptors that the program has closed.
fn close_hung_up() {
    let mut locked = STATE.lock();
    let Some(state) = locked.as_mut() else {
        return;
    };
    let files = state.files.clone();
    for (number, file) in files {
        if state.manager.os().is_hung_up(file) {
            state.close_file(number);
        }
    }
    let sends = state.take_sends();
    state.epoll.wake();
    drop(locked);
    send_all(&sends, Blocking::Briefly);
}

/// Registers what is done at exit(3) and _exit(2), once per process. Not by std's Once: a child of fork would
/// wait for a thread of its parent that was in it.
pub fn register_exit_handler() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: `at_exit` uses statics only, blocks on no lock for long and does not unwind.
    unsafe { libc::atexit(at_exit) };
    exit::set_other_handler(end_connections);
}

extern "C" fn at_exit() {
    end_connections();
}

/// Notifies the peers of all connections that these end: a program may exit without destroying its ids, which
/// the kernel would do for it.
pub(super) fn end_connections() {
    let Some(mut locked) = STATE.try_lock_for(EXIT_WAIT) else {
        return;
    };
    if let Some(state) = locked.as_mut() {
        // The other ends of the descriptors stay open: threads that wait for events go on waiting.
        for file in state.files.values() {
            state.manager.close(*file, clock::now());
        }
        // A peer that does not get the DREQ waits for good.
        state.manager.repeat_first_messages(clock::now());
        let sends = state.take_sends();
        drop(locked);
        send_all(&sends, Blocking::No);
    } else {
        drop(locked);
    }
    // Waits until the thread has sent its messages.
    drop(SENDING.try_lock_for(EXIT_WAIT));
}

/// Takes the locks that a child of fork needs. Those of devices are taken after them.
pub fn before_fork() {
    core::mem::forget(STATE.lock());
    core::mem::forget(SENDING.lock());
    core::mem::forget(CONFIGS.lock());
    core::mem::forget(known_files().lock());
    core::mem::forget(QUEUE.lock());
    forward::before_fork();
}

/// Releases the locks in the parent and in the child. The child has no thread, and must not use the
/// sockets of its parent: it closes its copies, so that names and connections end with the parent, and
/// starts with none.
///
/// # Safety
/// This thread has called [`before_fork`], and has not called this since.
pub unsafe fn after_fork(is_child: bool) {
    // SAFETY: `before_fork` has locked all of them in this thread, as the caller says, so nothing else has a
    // reference to their values.
    unsafe {
        if is_child {
            let queue = &mut *QUEUE.data_ptr();
            queue.messages.clear();
            queue.lost.clear();
            queue.epoll.take();
            if let Some(mut state) = (*STATE.data_ptr()).take() {
                // `device/fork.rs` takes care of these.
                core::mem::forget(state.manager.os().take_devices());
            }
            ENDED.store(STARTED.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        forward::after_fork(is_child);
        QUEUE.force_unlock();
        known_files().force_unlock();
        CONFIGS.force_unlock();
        SENDING.force_unlock();
        STATE.force_unlock();
    }
}
