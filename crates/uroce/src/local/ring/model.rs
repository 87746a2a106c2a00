//! The ring under loom (`crate::model`). `make test-orderings` runs it.

use std::alloc::{Layout, alloc_zeroed};
use std::sync::Arc;

use loom::thread;

use super::*;
use crate::model::Wakeup;

/// An empty ring. It is too large for the stacks of loom's threads.
fn ring() -> Arc<Ring> {
    // SAFETY: the memory is a ring's; zeros are valid bytes of `data`, and every other field is written here.
    let ring: Box<Ring> = unsafe {
        let ring = alloc_zeroed(Layout::new::<Ring>()).cast::<Ring>();
        (&raw mut (*ring).consumed).write(Line(AtomicU64::new(0)));
        (&raw mut (*ring).asleep).write(Line(AtomicU32::new(0)));
        (&raw mut (*ring).starved).write(Line(AtomicU32::new(0)));
        for i in 0..ENTRIES as usize {
            (&raw mut (*ring).entries[i]).write(RingEntry {
                word: AtomicU64::new(0),
                inline: core::array::from_fn(|_| AtomicU64::new(0)),
            });
        }
        Box::from_raw(ring)
    };
    ring.into()
}

fn packet(number: u32) -> [u8; 12] {
    let mut packet = [number as u8 + 1; 12];
    packet[8] = 0xa0 + number as u8;
    packet
}

/// Receives `count` packets, in their order and complete, and wakes up a producer that waits for room.
/// Sleeps between them if `sleep` is given.
fn receive(ring: &Ring, count: u32, room: &Wakeup, sleep: Option<&Wakeup>) {
    let mut consumer = Consumer::try_new().unwrap();
    let mut received = 0;
    while received < count {
        if let Some(popped) = consumer.pop(ring).unwrap() {
            assert_eq!(popped.packet(), packet(received));
            received += 1;
            if ring.take_starved() {
                room.send();
            }
            continue;
        }
        let Some(sleep) = sleep else {
            thread::yield_now();
            continue;
        };
        ring.set_asleep();
        if !ring.has_entry(consumer.next()) {
            sleep.wait();
            sleep.read();
        }
        ring.set_awake();
    }
}

/// Calls [`receive`] in a thread of its own.
fn receive_in_thread(
    ring: &Arc<Ring>,
    count: u32,
    room: &Arc<Wakeup>,
    sleep: Option<&Arc<Wakeup>>,
) -> thread::JoinHandle<()> {
    let (ring, room, sleep) = (ring.clone(), room.clone(), sleep.cloned());
    thread::spawn(move || receive(&ring, count, &room, sleep.as_deref()))
}

/// A published packet is there as a whole, and its entry is not written again before it was taken out.
#[test]
fn packets_are_complete() {
    loom::model(|| {
        let ring = ring();
        let room = Arc::default();
        let receiver = receive_in_thread(&ring, 3, &room, None);
        let mut producer = Producer::default();
        for number in 0..3 {
            while !producer.has_room(&ring) {
                thread::yield_now();
            }
            producer.push(&ring, &packet(number), 0);
        }
        receiver.join().unwrap();
    });
}

/// A consumer that goes to sleep is woken up for a packet that it has not seen. There is one packet, because
/// loom allows what C++11 does not if there are more: that the swap of `take_asleep` is later in the order of
/// modifications than a store of `set_asleep` which came after the value that it has read.
#[test]
fn no_wakeup_is_lost_by_the_consumer() {
    loom::model(|| {
        let ring = ring();
        let (room, sleep) = (Arc::default(), Arc::<Wakeup>::default());
        let receiver = receive_in_thread(&ring, 1, &room, Some(&sleep));
        let mut producer = Producer::default();
        assert!(producer.has_room(&ring));
        producer.push(&ring, &packet(0), 0);
        if ring.take_asleep() {
            sleep.send();
        }
        receiver.join().unwrap();
    });
}

/// A producer that waits for room is woken up when there is some.
#[test]
fn no_wakeup_is_lost_by_the_producer() {
    loom::model(|| {
        let ring = ring();
        let room = Arc::default();
        let receiver = receive_in_thread(&ring, 3, &room, None);
        let mut producer = Producer::default();
        for number in 0..3 {
            while !producer.has_room_or_waits(&ring) {
                room.wait();
                room.read();
            }
            producer.push(&ring, &packet(number), 0);
        }
        receiver.join().unwrap();
    });
}
