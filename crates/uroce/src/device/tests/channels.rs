//! Messages between queue pairs of one host take shared memory, and what happens when the peer ends.

use std::time::Instant;

use super::preemption::{connect, is_acknowledged, pair, pair_of, queue_pair_with, send};
use super::*;
use crate::device::queue_pair::QueuePair;
use crate::device::{direct, peer_channels};
use crate::shm::Peers;
use roce::engine::{QpState, Service};

/// Two devices without background threads that use shared memory, or not.
fn two_devices(local: bool) -> (Device, Device) {
    two_devices_with(local.then_some(Peers::SameUser), false)
}

/// Two devices without background threads that use shared memory with these, and direct access, or not.
pub fn two_devices_with(peers: Option<Peers>, direct: bool) -> (Device, Device) {
    peer_channels::enable(peers);
    direct::enable(direct);
    let new = |name| Device::new(&loopback(name)).unwrap();
    let devices = (new("a"), new("b"));
    peer_channels::enable(None);
    direct::enable(false);
    devices
}

pub fn make_progress(device: &Device) {
    let mut inbox = device.inboxes.take();
    inbox.poll_all_sockets();
    device.make_progress(&mut inbox);
    drop(inbox);
    device.send_deferred();
}

fn has_local_packets(device: &Device) -> bool {
    device.has_local_packets(&mut device.inboxes.take())
}

pub fn until(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "nothing happens");
    }
}

/// Sends a message; makes progress until it is acknowledged.
pub fn exchange(a: &Device, b: &Device, qp: &Arc<QueuePair>) {
    send(a, qp);
    until(|| {
        make_progress(b);
        make_progress(a);
        is_acknowledged(qp)
    });
}

pub fn connect_channel(a: &Device, b: &Device) {
    let channels = |device: &Device| device.channels.as_ref().unwrap().is_used();
    until(|| {
        make_progress(a);
        make_progress(b);
        channels(a) && channels(b)
    });
}

/// Waits until a device has noticed that its peer has closed the channel.
fn end_channel(device: &Device) {
    until(|| {
        make_progress(device);
        !device.channels.as_ref().unwrap().is_used()
    });
}

/// Lets a queue pair of `a` take a channel to `b`.
pub fn take_channel(a: &Device, b: &Device, qp: &Arc<QueuePair>) {
    exchange(a, b, qp);
    connect_channel(a, b);
    exchange(a, b, qp);
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
        take_channel(&a, &b, &one);
        if sends_before {
            send(&a, &one);
        }
        b.channels.as_ref().unwrap().close();
        end_channel(&a);
        if !sends_before {
            assert_eq!(one.inner.lock().engine().state(), QpState::Rts);
            send(&a, &one);
        }
        assert_eq!(one.inner.lock().engine().state(), QpState::Err);
        assert_eq!(a.counters().queue_pairs.retry_exceeded_err, 1);
        // No ack timeout expired before.
        assert_eq!(a.counters().queue_pairs.completer_retry_err, 0);
        assert!(one.inner.lock().channel.get().is_none());
    }
}

/// A channel whose peer has ended is given back, with its memory and descriptors, although queue pairs that
/// have used it are not destroyed.
#[test]
fn a_channel_does_not_outlive_its_peer() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let (a, b) = two_devices(true);
    let (one, _other) = pair(&a, &b);
    take_channel(&a, &b, &one);
    let channel = Arc::downgrade(one.inner.lock().channel.get().unwrap());
    b.channels.as_ref().unwrap().close();
    until(|| {
        make_progress(&a);
        channel.strong_count() == 0
    });
    let channels = a.channels.as_ref().unwrap();
    assert!(!channels.find(&a.net, &one, &mut one.inner.lock()));
    send(&a, &one);
    assert_eq!(one.inner.lock().engine().state(), QpState::Err);
}

/// The peer acknowledges and ends before this process looks. A timer that runs between, as every other use
/// of the queue pair, must not fail it: the ACK is in shared memory.
#[test]
fn an_ack_that_came_before_the_end_of_the_peer_counts() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let (a, b) = two_devices(true);
    let (one, _other) = pair(&a, &b);
    take_channel(&a, &b, &one);
    send(&a, &one);
    until(|| {
        make_progress(&b);
        has_local_packets(&a)
    });
    b.channels.as_ref().unwrap().close();
    assert!(a.channels.as_ref().unwrap().serve(&a.net));
    assert!(a.channels.as_ref().unwrap().has_dead());
    a.send(&one, one.inner.lock());
    end_channel(&a);
    assert!(is_acknowledged(&one));
    assert_eq!(one.inner.lock().engine().state(), QpState::Rts);
    assert_eq!(a.counters().queue_pairs.retry_exceeded_err, 0);
}

/// Programs end when they have the completions that they count, with other requests outstanding, as
/// ibv_srq_pingpong. A peer that has ended before must not make one of those fail before the program has
/// read the others.
#[test]
fn a_request_fails_after_the_program_has_read_its_completions() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let (a, b) = two_devices(true);
    let cq = completion_queue(a.waker.clone(), 16);
    let (one, other) = (
        queue_pair_with(&a, Service::Rc, Some(cq.clone())),
        queue_pair_with(&b, Service::Rc, None),
    );
    connect(&a, &one, &other);
    connect(&b, &other, &one);
    let read = || {
        let mut statuses = Vec::new();
        cq.poll(1, |_, entry| statuses.push(entry.completion.status));
        statuses
    };
    take_channel(&a, &b, &one);
    send(&a, &one);
    b.channels.as_ref().unwrap().close();
    end_channel(&a);
    for _ in 0..2 {
        a.retry_unreachable();
        assert_eq!(one.inner.lock().engine().state(), QpState::Rts);
        assert_eq!(read(), [IBV_WC_SUCCESS]);
    }
    assert_eq!(read(), [0; 0]);
    // Nothing wakes the background thread up until the program polls.
    assert!(!a.deferred_sends.any());
    a.poll(&mut PolledCompletions::default());
    assert_eq!(read(), [IBV_WC_RETRY_EXC_ERR]);
    assert_eq!(one.inner.lock().engine().state(), QpState::Err);
}

/// A thread is about to send packets of an unreliable queue pair by UDP when a channel appears: the next
/// packets, which take the channel, wait for them.
#[test]
fn the_first_packet_of_a_channel_waits_for_those_sent_by_udp() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let (a, b) = two_devices(true);
    let (one, _other) = pair_of(Service::Uc, &a, &b);
    let turn = one.send_turn().unwrap();
    connect_channel(&a, &b);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send(&a, &one));
        until(|| one.is_sender_awaited() || sending.is_finished());
        assert!(!sending.is_finished() && !has_local_packets(&b));
        drop(turn);
    });
    assert!(has_local_packets(&b));
}

/// The background thread sleeps when a poller accepts a channel: it is woken up, so that it prepares the
/// channel for its sleep.
#[test]
fn a_new_channel_wakes_the_background_thread_up() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let (a, b) = two_devices(true);
    let (_one, _other) = pair(&a, &b);
    for device in [&a, &b] {
        device.waker.clear(true);
    }
    connect_channel(&a, &b);
    assert!(a.waker.is_readable() && b.waker.is_readable());
}

/// Fills the channel that a queue pair sends through; `with_responses`: also the entries that are left to
/// responses.
fn fill_channel(device: &Device, qp: &QueuePair, with_responses: bool) {
    let mut inner = qp.inner.lock();
    let channels = device.channels.as_ref().unwrap();
    assert!(channels.find(&device.net, qp, &mut inner));
    let channel = Arc::clone(inner.channel.get().unwrap());
    let mut sender = channel.sender(Duration::ZERO).unwrap();
    // No queue pair has this number.
    let packet = [17, 0, 0xff, 0xff, 0, 0, 0, 5, 0, 0, 0, 0, 31, 0, 0, 0];
    while let Some(room) = sender.room() {
        sender.push(room, &packet, 0);
    }
    while let Some(room) = sender.room_for_response().filter(|_| with_responses) {
        sender.push(room, &packet, 0);
    }
    let _ = sender.finish();
}

/// The channel to the peer is full. The ACK of a message has room there; if it has none and the queue pair is
/// destroyed, the ACK takes UDP.
#[test]
fn an_ack_is_sent_although_the_channel_is_full() {
    let _background_threads = BACKGROUND_THREADS.lock();
    for without_room in [false, true] {
        let (a, b) = two_devices(true);
        let (one, other) = pair(&a, &b);
        take_channel(&a, &b, &one);
        exchange(&b, &a, &other);
        fill_channel(&b, &other, without_room);
        send(&a, &one);
        until(|| {
            make_progress(&b);
            !has_local_packets(&b)
        });
        b.remove_queue_pair(&other);
        until(|| {
            make_progress(&a);
            is_acknowledged(&one)
        });
        assert_eq!(a.counters().queue_pairs.completer_retry_err, 0);
    }
}

/// A queue pair that has nothing to send is not tried again at each poll because its channel is full.
#[test]
fn a_full_channel_concerns_only_those_that_send() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let (a, b) = two_devices(true);
    let (one, other) = pair(&a, &b);
    take_channel(&a, &b, &one);
    until(|| !one.inner.lock().engine().may_transmit());
    fill_channel(&a, &one, true);
    a.send(&one, one.inner.lock());
    assert!(!one.inner.lock().send_deferred);
    send(&a, &one);
    assert!(one.inner.lock().send_deferred);
    until(|| {
        make_progress(&b);
        // As pollers and the background thread do.
        a.send_deferred();
        make_progress(&a);
        is_acknowledged(&one)
    });
    drop(other);
}
