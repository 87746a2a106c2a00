use std::alloc::{Layout, alloc_zeroed};
use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn ring() -> Box<Ring> {
    let layout = Layout::new::<Ring>();
    // SAFETY: the layout has a size, and zeros are an empty ring.
    unsafe { Box::from_raw(alloc_zeroed(layout).cast()) }
}

fn packet(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + seed) as u8).collect()
}

fn pop(consumer: &mut Consumer, ring: &Ring) -> Option<Vec<u8>> {
    let popped = consumer.pop(ring).unwrap()?;
    assert_eq!(popped.traffic_class, popped.packet().len() as u8);
    Some(popped.packet().to_vec())
}

/// A thread that reads the consumer's position without its lock may know an old one.
#[test]
fn an_entry_of_a_later_lap_is_news() {
    let ring = ring();
    let (mut producer, mut consumer) = (Producer::default(), Consumer::try_new().unwrap());
    for _ in 0..ENTRIES {
        assert!(producer.has_room(&ring));
        producer.push(&ring, b"packet", 6);
        assert!(pop(&mut consumer, &ring).is_some());
    }
    let next = consumer.next();
    assert!(!ring.has_entry(next));
    producer.push(&ring, b"packet", 6);
    assert!(ring.has_entry(next) && ring.has_entry(next - ENTRIES));
    assert!(!ring.has_entry(next + ENTRIES));
}

/// What is prefetched for a packet is all of it, where it is.
#[test]
fn short_packets_of_the_data_area_are_prefetched() {
    let ring = ring();
    let (mut producer, mut consumer) = (Producer::default(), Consumer::try_new().unwrap());
    for (len, place) in [
        (INLINE_MAX, Place::Entry),
        (INLINE_MAX + 1, Place::Prefetched),
        (PREFETCHED, Place::Prefetched),
        (PREFETCHED + 1, Place::Data),
        (PACKET_MAX, Place::Data),
    ] {
        assert!(producer.has_room(&ring));
        let start = consumer.next_data();
        assert_eq!(start, producer.next.data);
        producer.push(&ring, &packet(len, 0), 0);
        assert_eq!(consumer.pop(&ring).unwrap().unwrap().place(), place);
        let used = consumer.next_data() - start;
        assert_eq!(
            used as usize,
            if place == Place::Entry {
                0
            } else {
                len.next_multiple_of(LINE)
            }
        );
    }
    // Also at the end of the area.
    ring.prefetch(u32::MAX - LINE as u32 + 1);
}

#[test]
fn a_reference_is_marked() {
    let ring = ring();
    let (mut producer, mut consumer) = (Producer::default(), Consumer::try_new().unwrap());
    for by_reference in [true, false, true] {
        assert!(producer.has_room(&ring));
        match by_reference {
            true => producer.push_reference(&ring, b"packet", 0xff),
            false => producer.push(&ring, b"packet", 0xff),
        }
        let popped = consumer.pop(&ring).unwrap().unwrap();
        assert_eq!(popped.is_by_reference, by_reference);
        assert_eq!(
            (popped.packet(), popped.traffic_class),
            (&b"packet"[..], 0xff)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Packets come out as they went in, whatever their lengths are and whichever side is ahead.
    #[test]
    fn packets_come_in_order(
        steps in prop::collection::vec((0..=PACKET_MAX, 0..40_usize, 0..40_usize), 1..80),
        start in prop::sample::select(vec![0, u32::MAX - 700, u32::MAX - (64 << 10)]),
    ) {
        let ring = ring();
        let position = Position { entry: start, data: start & !(LINE as u32 - 1) };
        let mut producer = Producer { next: position, consumed: position };
        let mut consumer = Consumer::try_new().unwrap();
        consumer.next = position;
        ring.consumed.0.store(position.pack(), Ordering::Relaxed);
        for before in 1..=ENTRIES {
            let number = start.wrapping_sub(before);
            ring.entry(number).word.store(Word::new(number, 0, 0).0, Ordering::Relaxed);
        }
        let mut expected = VecDeque::new();
        for (seed, (len, pushes, pops)) in steps.into_iter().enumerate() {
            for i in 0..pushes {
                if !producer.has_room(&ring) {
                    break;
                }
                let packet = packet((len + i * 31) % (PACKET_MAX + 1), seed);
                producer.push(&ring, &packet, packet.len() as u8);
                expected.push_back(packet);
            }
            for _ in 0..pops {
                prop_assert_eq!(ring.has_entry(consumer.next()), !expected.is_empty());
                prop_assert_eq!(pop(&mut consumer, &ring), expected.pop_front());
            }
        }
        while let Some(packet) = expected.pop_front() {
            prop_assert_eq!(pop(&mut consumer, &ring), Some(packet));
        }
        prop_assert!(producer.has_room(&ring));
    }

    /// Whatever the other side writes: no panic, no access outside the ring.
    #[test]
    fn garbage_does_no_harm(
        words in prop::collection::vec((0..8_u64, any::<u64>(), any::<u64>()), 1..300),
    ) {
        let ring = ring();
        let mut producer = Producer::default();
        let mut consumer = Consumer::try_new().unwrap();
        for (number, (kind, word, consumed)) in words.into_iter().enumerate() {
            ring.consumed.0.store(consumed, Ordering::Relaxed);
            if producer.has_room(&ring) {
                producer.push(&ring, &packet(word as usize % 5000, 1), 0);
            }
            let next = consumer.next();
            // Mostly the right number, with any length.
            let word = if kind > 0 { word & !0xffff_ffff | u64::from(next.wrapping_add(1)) } else { word };
            ring.entry(next).word.store(word, Ordering::Relaxed);
            if consumer.pop(&ring).is_err() {
                prop_assert!(Word(word).len() > PACKET_MAX);
                break;
            }
            prop_assert!(number < 300);
        }
    }
}

#[test]
fn a_full_ring_has_no_room_until_the_consumer_has_read() {
    for len in [8, INLINE_MAX, INLINE_MAX + 1, PACKET_MAX] {
        let ring = ring();
        let (mut producer, mut consumer) = (Producer::default(), Consumer::try_new().unwrap());
        let packet = packet(len, 3);
        let mut pushed = 0;
        while producer.has_room_or_waits(&ring) {
            producer.push(&ring, &packet, len as u8);
            pushed += 1;
        }
        assert!((30..=ENTRIES).contains(&pushed), "{len}: {pushed}");
        assert!(ring.take_starved() && !ring.take_starved());
        let mut short = 0;
        while producer.has_room_for_short() {
            producer.push(&ring, b"short", 5);
            short += 1;
        }
        assert!(short >= SHORT_ENTRIES && pushed + short == ENTRIES);
        for _ in 0..pushed {
            assert_eq!(pop(&mut consumer, &ring).as_deref(), Some(&packet[..]));
        }
        for _ in 0..short {
            assert_eq!(pop(&mut consumer, &ring).as_deref(), Some(&b"short"[..]));
        }
        assert!(pop(&mut consumer, &ring).is_none());
        assert!(producer.has_room_or_waits(&ring));
        assert!(!ring.take_starved());
    }
}

#[test]
fn a_sleeping_consumer_is_woken_once() {
    let ring = ring();
    assert!(!ring.take_asleep());
    ring.set_asleep();
    assert!(ring.take_asleep() && !ring.take_asleep());
    ring.set_asleep();
    ring.set_awake();
    assert!(!ring.take_asleep());
}

/// Two threads, with all lengths: what is read is what was written, and both threads end.
#[test]
fn two_threads() {
    const PACKETS: usize = 20_000;
    let ring = ring();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut producer = Producer::default();
            for i in 0..PACKETS {
                while !producer.has_room(&ring) {
                    std::thread::yield_now();
                }
                let packet = packet(i * 37 % (PACKET_MAX + 1), i);
                producer.push(&ring, &packet, packet.len() as u8);
            }
        });
        let mut consumer = Consumer::try_new().unwrap();
        for i in 0..PACKETS {
            let expected = packet(i * 37 % (PACKET_MAX + 1), i);
            loop {
                if let Some(got) = pop(&mut consumer, &ring) {
                    assert!(got == expected, "packet {i}");
                    break;
                }
                std::thread::yield_now();
            }
        }
    });
}
