//! Short packets by the fast path through a channel, and what makes them take the usual one.

use std::sync::Arc;

use super::paths::{connect_channel, exchange, make_progress, two_devices_with, until};
use super::preemption::{is_acknowledged, pair, send};
use super::*;
use crate::device::queue_pair::{Inner, QueuePair};
use crate::engine::Addresses;
use crate::local::{Channel, Peers};
use crate::wire::Packet;

/// Receives a message through shared memory, and leaves its ACK to the test.
fn receive_only(device: &Device, qp: &QueuePair) {
    let mut inbox = device.inboxes.take();
    let mut receive = || {
        device.receive_locally(&mut inbox, &mut |packet: &Packet<'_>, from: &Addresses| {
            let mut inner = qp.inner.lock();
            let (engine, mut host) = inner.split(qp);
            engine.receive(packet, from, clock::now(), &mut host);
        })
    };
    until(|| receive() > 0);
}

fn channel_of(inner: &mut Inner, qp: &QueuePair) -> Arc<Channel> {
    let (_, _, channel) = inner.split_path(qp);
    channel.expect("the queue pair has a channel").clone()
}

/// Two devices of one process with a channel, and queue pairs that use it.
fn connected() -> ([Device; 2], [Arc<QueuePair>; 2]) {
    let (a, b) = two_devices_with(Some(Peers::SameUser), false);
    let (one, other) = pair(&a, &b);
    exchange(&a, &b, &one);
    connect_channel(&a, &b);
    exchange(&a, &b, &one);
    exchange(&b, &a, &other);
    ([a, b], [one, other])
}

#[test]
fn an_ack_takes_the_fast_path() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let ([a, b], [one, other]) = connected();
    send(&a, &one);
    receive_only(&b, &other);
    let before = b.counters().local_sent_pkts;
    let mut inner = other.inner.lock();
    assert!(inner.engine().may_transmit() && !is_acknowledged(&one));

    // Another thread has the channel.
    let channel = channel_of(&mut inner, &other);
    let sender = channel.sender(Duration::ZERO).unwrap();
    assert!(!b.send_short(&other, &mut inner));
    drop(sender);
    assert!(inner.engine().may_transmit());
    assert!(b.send_short(&other, &mut inner));
    assert!(!inner.engine().may_transmit());
    drop(inner);
    assert_eq!(b.counters().local_sent_pkts, before + 1);
    until(|| {
        make_progress(&a);
        is_acknowledged(&one)
    });
}

/// The peer has hung up.
#[test]
fn an_ack_to_an_ended_peer_takes_the_general_path() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let ([a, b], [one, other]) = connected();
    send(&a, &one);
    receive_only(&b, &other);
    a.paths.as_ref().unwrap().close();
    let paths = b.paths.as_ref().unwrap();
    until(|| {
        paths.serve(&|flow| b.ends(flow));
        paths.has_dead()
    });
    let mut inner = other.inner.lock();
    assert!(inner.engine().may_transmit());
    assert!(!b.send_short(&other, &mut inner));
    assert!(inner.engine().may_transmit());
    drop(inner);
}

/// A queue pair that packets have come for is found without a search, but not when it is destroyed.
#[test]
fn a_destroyed_queue_pair_is_not_kept() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let ([a, b], [one, other]) = connected();
    send(&a, &one);
    until(|| {
        make_progress(&a);
        make_progress(&b);
        is_acknowledged(&one)
    });
    let is_kept = || {
        let mut recent = b.inboxes.take().take_recent();
        recent.take(other.qpn).is_some()
    };
    let mut inbox = b.inboxes.take();
    let mut recent = inbox.take_recent();
    let kept = recent.take(other.qpn).expect("it is kept");
    assert!(Arc::ptr_eq(&kept, &other));
    recent.put(kept);
    inbox.keep_recent(recent);
    drop(inbox);
    let references = Arc::strong_count(&other);
    b.remove_queue_pair(&other);
    assert!(!is_kept());
    // That of the device's table, and the kept one.
    assert_eq!(Arc::strong_count(&other), references - 2);
}
