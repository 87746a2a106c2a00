//! The ring under loom (`crate::model`). `make test-orderings` runs it.

use std::sync::Arc;

use loom::thread;

use super::*;
use crate::model::Wakeup;

const KEY: Key = Key(5);

fn ring() -> Arc<Ring> {
    Arc::new(Ring {
        consumed: Line(AtomicU64::new(0)),
        asleep: Line(AtomicU32::new(0)),
        starved: Line(AtomicU32::new(0)),
        lines: Lines::new(),
    })
}

/// Publishes record `number` in the room.
fn push(producer: &mut Producer, ring: &Ring, room: Room, number: u8) {
    let is_pushed = producer.push(ring, room, |body| {
        let len = 9;
        body[..len].fill(number);
        Some(Filled { len, tag: 0 })
    });
    assert!(is_pushed);
}

/// Receives `count` records, in their order and complete, and wakes up a producer that waits for room. Sleeps
/// between them if `sleep` is given.
fn receive(ring: &Ring, count: u8, room: &Wakeup, sleep: Option<&Wakeup>) {
    let mut consumer = Consumer::new(KEY);
    let mut received = 0;
    while received < count {
        let popped = consumer.pop(ring, |record| {
            assert_eq!(
                (record.body, record.head()),
                (&[received; 9][..], &[received; 9][..])
            );
        });
        if popped.unwrap().is_some() {
            received += 1;
            if consumer.publish(ring) == Released::Much && ring.take_starved() {
                room.send();
            }
            continue;
        }
        let Some(sleep) = sleep else {
            thread::yield_now();
            continue;
        };
        ring.set_asleep();
        if !ring.has_record(KEY, consumer.position()) {
            sleep.wait();
            sleep.read();
        }
        ring.set_awake();
    }
}

/// Calls [`receive`] in a thread of its own.
fn receive_in_thread(
    ring: &Arc<Ring>,
    count: u8,
    room: &Arc<Wakeup>,
    sleep: Option<&Arc<Wakeup>>,
) -> thread::JoinHandle<()> {
    let (ring, room, sleep) = (ring.clone(), room.clone(), sleep.cloned());
    thread::spawn(move || receive(&ring, count, &room, sleep.as_deref()))
}

/// A published record is there as a whole, and its line is not written again before it was released. There
/// are more records than lines, and the ring continues at its start when it is empty.
#[test]
fn records_are_complete() {
    loom::model(|| {
        let ring = ring();
        let receiver = receive_in_thread(&ring, 5, &Arc::default(), None);
        let mut producer = Producer::new(KEY);
        for number in 0..5 {
            let room = loop {
                match producer.reserve(&ring).unwrap() {
                    Some(room) => break room,
                    None => thread::yield_now(),
                }
            };
            push(&mut producer, &ring, room, number);
        }
        receiver.join().unwrap();
    });
}

/// A consumer that goes to sleep is woken up for a record that it has not seen. There is one record, because
/// loom allows what C++11 does not if there are more: that the swap of `take_asleep` is later in the order of
/// modifications than a store of `set_asleep` which came after the value that it has read.
#[test]
fn no_wakeup_is_lost_by_the_consumer() {
    loom::model(|| {
        let ring = ring();
        let sleep = Arc::<Wakeup>::default();
        let receiver = receive_in_thread(&ring, 1, &Arc::default(), Some(&sleep));
        let mut producer = Producer::new(KEY);
        let room = producer.reserve(&ring).unwrap().unwrap();
        push(&mut producer, &ring, room, 0);
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
        let wakeup = Arc::default();
        let receiver = receive_in_thread(&ring, 4, &wakeup, None);
        let mut producer = Producer::new(KEY);
        for number in 0..4 {
            let room = loop {
                match producer.reserve_or_wait(&ring).unwrap() {
                    Some(room) => break room,
                    None => {
                        wakeup.wait();
                        wakeup.read();
                    }
                }
            };
            push(&mut producer, &ring, room, number);
        }
        receiver.join().unwrap();
    });
}
