//! Messages between queue pairs of one host take shared memory, and what happens when the peer ends.

use std::time::Instant;

use super::preemption::{is_acknowledged, pair, send};
use super::*;
use crate::device::paths;
use crate::device::queue_pair::QueuePair;
use crate::engine::QpState;

/// Two devices without background threads that use shared memory, or not.
fn two_devices(local: bool) -> (Device, Device) {
    paths::enable(local);
    let new = |name| Device::new(&loopback(name), process::generation()).unwrap();
    let devices = (new("a"), new("b"));
    paths::enable(false);
    devices
}

fn make_progress(device: &Device) {
    let mut inbox = device.inboxes.take();
    inbox.poll_all_sockets();
    device.make_progress(&mut inbox);
}

fn until(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "nothing happens");
    }
}

/// Sends a message; makes progress until it is acknowledged.
fn exchange(a: &Device, b: &Device, qp: &Arc<QueuePair>) {
    send(a, qp);
    until(|| {
        make_progress(b);
        make_progress(a);
        is_acknowledged(qp)
    });
}

fn connect_channel(a: &Device, b: &Device) {
    let paths = |device: &Device| device.paths.as_ref().unwrap().is_used();
    until(|| {
        make_progress(a);
        make_progress(b);
        paths(a) && paths(b)
    });
}

#[test]
fn messages_take_shared_memory_if_it_is_switched_on() {
    let _background_threads = BACKGROUND_THREADS.lock();
    for local in [true, false] {
        let (a, b) = two_devices(local);
        let (one, other) = pair(&a, &b);
        // By UDP, until both have agreed.
        exchange(&a, &b, &one);
        if local {
            connect_channel(&a, &b);
        }
        let before = [a.counters(), b.counters()];
        for _ in 0..10 {
            exchange(&a, &b, &one);
        }
        exchange(&b, &a, &other);
        for (device, before) in [&a, &b].into_iter().zip(before) {
            let counters = device.counters();
            let sent = counters.local_sent_pkts - before.local_sent_pkts;
            let received = counters.local_rcvd_pkts - before.local_rcvd_pkts;
            let count = if local { 11 } else { 0 };
            assert!(sent >= count && received >= count && (local || sent + received == 0));
            let qps = counters.queue_pairs;
            assert_eq!((qps.out_of_seq_request, qps.rcvd_seq_err), (0, 0));
        }
    }
}

/// A peer that ends is noticed at once: what is outstanding fails as if all retries had been used.
#[test]
fn the_end_of_the_peer_fails_what_is_outstanding() {
    let _background_threads = BACKGROUND_THREADS.lock();
    for sends_before in [true, false] {
        let (a, b) = two_devices(true);
        let (one, _other) = pair(&a, &b);
        exchange(&a, &b, &one);
        connect_channel(&a, &b);
        exchange(&a, &b, &one);
        if sends_before {
            send(&a, &one);
        }
        let start = Instant::now();
        b.paths.as_ref().unwrap().close();
        until(|| {
            make_progress(&a);
            !a.paths.as_ref().unwrap().is_used()
        });
        if !sends_before {
            assert_eq!(one.inner.lock().engine().state(), QpState::Rts);
            send(&a, &one);
        }
        assert_eq!(one.inner.lock().engine().state(), QpState::Err);
        assert_eq!(a.counters().queue_pairs.retry_exceeded_err, 1);
        // The ack timeout is 537 ms, and there are 7 retries.
        assert!(start.elapsed() < Duration::from_millis(3700));
    }
}
