//! The shorter way of an ACK, and what makes it take the usual one.

use std::sync::Arc;

use super::paths::{connect_channel, exchange, make_progress, two_devices_with, until};
use super::preemption::{is_acknowledged, pair, send};
use super::*;
use crate::device::queue_pair::{Inner, QueuePair};
use crate::local::{Channel, Peers};

/// Receives a message through shared memory, and leaves its ACK to the test.
fn receive_only(device: &Device, qp: &QueuePair) {
    let mut inbox = device.inboxes.take();
    let mut receive = || {
        device.receive_locally(&mut inbox, &(), &mut |packet, from| {
            let mut inner = qp.inner.lock();
            let (engine, mut host) = inner.split(qp);
            engine.receive(packet, from, clock::now(), &mut host);
        })
    };
    until(|| receive() > 0);
}

fn channel_of(inner: &mut Inner) -> Arc<Channel> {
    let (_, channel) = inner.engine_and_channel();
    channel.expect("the queue pair has a channel").clone()
}

#[test]
fn an_ack_alone_takes_the_shorter_way() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let (a, b) = two_devices_with(Some(Peers::SameUser), false);
    let (one, other) = pair(&a, &b);
    exchange(&a, &b, &one);
    connect_channel(&a, &b);
    exchange(&a, &b, &one);
    exchange(&b, &a, &other);
    send(&a, &one);
    receive_only(&b, &other);
    let before = b.counters().local_sent_pkts;
    let mut inner = other.inner.lock();
    assert!(inner.engine().has_lone_ack() && !is_acknowledged(&one));

    // Another thread has the channel.
    let channel = channel_of(&mut inner);
    let sender = channel.sender(None).unwrap();
    assert!(!b.send_lone_ack(&other, &mut inner));
    drop(sender);
    assert!(inner.engine().has_lone_ack());
    assert!(b.send_lone_ack(&other, &mut inner));
    assert!(!inner.engine().has_lone_ack());
    assert!(!b.send_lone_ack(&other, &mut inner), "it was sent");
    drop(inner);
    assert_eq!(b.counters().local_sent_pkts, before + 1);
    until(|| {
        make_progress(&a);
        is_acknowledged(&one)
    });
}

/// The peer has hung up.
#[test]
fn an_ack_to_an_ended_peer_takes_the_usual_way() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let (a, b) = two_devices_with(Some(Peers::SameUser), false);
    let (one, other) = pair(&a, &b);
    exchange(&a, &b, &one);
    connect_channel(&a, &b);
    exchange(&a, &b, &one);
    exchange(&b, &a, &other);
    send(&a, &one);
    receive_only(&b, &other);
    a.paths.as_ref().unwrap().close();
    let paths = b.paths.as_ref().unwrap();
    until(|| {
        paths.serve(&|flow| b.ends(flow));
        paths.has_dead()
    });
    let mut inner = other.inner.lock();
    assert!(inner.engine().has_lone_ack());
    assert!(!b.send_lone_ack(&other, &mut inner));
    drop(inner);
}
