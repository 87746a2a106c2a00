//! Packets are served or dropped, and requests fail, while there is no memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

use super::super::*;
use super::channels::{connect_channel, exchange, make_progress, two_devices_with, until};
use super::preemption::{is_acknowledged, pair, send, send_wr, two_devices};
use super::{BACKGROUND_THREADS, QpState};
use crate::device::handles::ObjectKind;
use crate::device::polled::PolledCompletions;
use crate::shm::Peers;
use crate::transport::Inbox;
use roce::engine::{Limits, Qp, QpChange, QpConfig, RecvWr};

/// The system's allocator. Fails in a thread that runs [`without_memory`].
struct FailingAllocator;

thread_local! {
    static FAILS: Cell<bool> = const { Cell::new(false) };
    /// Allocations that have failed.
    static FAILED: Cell<u32> = const { Cell::new(0) };
}

fn fails() -> bool {
    let fails = FAILS.get();
    FAILED.set(FAILED.get() + u32::from(fails));
    fails
}

// SAFETY: passes everything on to the system's allocator, or returns NULL.
unsafe impl GlobalAlloc for FailingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails() {
            return core::ptr::null_mut();
        }
        // SAFETY: the caller passes a layout whose size is not zero.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if fails() {
            return core::ptr::null_mut();
        }
        // SAFETY: `ptr` is of the system's allocator, with this layout; the caller passes a valid size.
        unsafe { System.realloc(ptr, layout, size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `ptr` is of the system's allocator, with this layout, and the caller gives it up.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: FailingAllocator = FailingAllocator;

/// Calls `call` while every allocation of this thread fails. One that cannot fail aborts the process.
pub fn without_memory<T>(call: impl FnOnce() -> T) -> T {
    FAILS.set(true);
    let result = call();
    FAILS.set(false);
    result
}

#[test]
fn packets_without_memory_do_not_abort() {
    let (a, b) = two_devices();
    let pairs: Vec<_> = (0..8).map(|_| pair(&a, &b)).collect();
    // A thread of its own has no outbox yet.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (one, _) in &pairs {
                send(&a, one);
            }
        });
    });
    let before = FAILED.get();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            without_memory(|| {
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(100) {
                    b.poll(&mut PolledCompletions::default());
                    a.poll(&mut PolledCompletions::default());
                }
            });
            assert!(FAILED.get() > before, "nothing was allocated");
        });
    });
    // With memory again, everything arrives.
    let start = Instant::now();
    while !pairs.iter().all(|(one, _)| is_acknowledged(one)) {
        assert!(start.elapsed() < Duration::from_secs(20), "no ACK");
        a.poll(&mut PolledCompletions::default());
        b.poll(&mut PolledCompletions::default());
    }
}

/// More queue pairs than one batch has fail, and nothing is left that would keep a thread from sleeping. The
/// channel leaves the list later.
#[test]
fn the_end_of_a_peer_needs_no_memory() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let (a, b) = two_devices_with(Some(Peers::SameUser), true);
    let pairs: Vec<_> = (0..70).map(|_| pair(&a, &b)).collect();
    // The outstanding request fails once the program has read its completions: one of another queue pair.
    exchange(&a, &b, &pair(&a, &b).0);
    connect_channel(&a, &b);
    pairs.iter().for_each(|(one, _)| send(&a, one));
    b.channels.as_ref().unwrap().close();
    let states = || {
        pairs
            .iter()
            .map(|(one, _)| one.inner.lock().engine().state())
    };
    let before = FAILED.get();
    without_memory(|| {
        until(|| {
            make_progress(&a);
            states().all(|state| state == QpState::Err) && !a.channels.as_ref().unwrap().has_dead()
        });
        assert!(!a.channels.as_ref().unwrap().prepare_sleep());
    });
    assert!(FAILED.get() > before, "nothing was allocated");
}

#[test]
fn a_timer_takes_the_place_of_one_that_does_not_count() {
    let (a, b) = two_devices();
    let (one, _) = pair(&a, &b);
    let at = clock::now();
    // Entries that have been replaced by earlier ones, until there is no space.
    while without_memory(|| a.timers.add(at, one.qpn, |_| true)) {}
    let later = at.after(Duration::from_secs(1));
    one.timer_at.store(later);
    without_memory(|| a.add_timer(later, one.qpn));
    assert_eq!(a.timers.next(), later);
}

/// Posting fails, and changes nothing; later it succeeds.
#[test]
fn requests_without_memory_are_refused() {
    let (a, b) = two_devices();
    let (one, _) = pair(&a, &b);
    let mut inner = one.inner.lock();
    let (connected, mut hca) = inner.split(&one);
    let limits = Limits {
        max_send_wr: 1000,
        max_recv_wr: 1000,
    };
    let mut engine = Qp::new(QpConfig {
        limits,
        ..*connected.config()
    });
    let sizes = QpChange {
        path_mtu: Some(1024),
        active_mtu: Some(1024),
        ..QpChange::default()
    };
    engine.modify(&sizes, clock::now(), &mut hca);
    let posted = without_memory(|| {
        (0..1000)
            .take_while(|_| engine.post_send(send_wr(), &mut hca))
            .count()
    });
    assert!(posted < 1000, "nothing was allocated");
    assert_eq!(engine.send_depth() as usize, posted);
    assert!(engine.post_send(send_wr(), &mut hca));
    let receive = || RecvWr {
        wr_id: 1,
        sges: Default::default(),
    };
    let posted = without_memory(|| {
        (0..1000)
            .take_while(|_| engine.post_recv(receive(), &mut hca))
            .count()
    });
    assert!(posted < 1000, "nothing was allocated");
    assert_eq!(engine.recv_depth() as usize, posted);
    assert!(engine.post_recv(receive(), &mut hca));
}

/// Opening and creating fail where they need much memory, or a table of the process grows.
#[test]
fn objects_without_memory_are_refused() {
    assert!(without_memory(Inbox::try_new).is_none());
    let counts = Arc::default();
    let mut handles = Vec::with_capacity(1 << 16);
    without_memory(|| {
        while let Ok(reserved) = handles::reserve(ObjectKind::Ah, &counts, u32::MAX) {
            handles.push(reserved);
        }
    });
    assert!(
        handles.len() < handles.capacity(),
        "the table does not grow"
    );
    // Freeing a handle needs no memory, and the handle no longer counts.
    without_memory(|| handles.clear());
    assert!(handles::reserve(ObjectKind::Ah, &counts, 1).is_ok());
}
