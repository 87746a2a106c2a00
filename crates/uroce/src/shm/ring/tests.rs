use std::alloc::{Layout, alloc_zeroed};
use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const KEY: Key = Key(0x1234_5678_9abc_def0);

/// An empty ring. It is too large for a stack.
fn ring() -> Box<Ring> {
    // SAFETY: zeros are an empty ring, and the memory has its layout.
    unsafe { Box::from_raw(alloc_zeroed(Layout::new::<Ring>()).cast()) }
}

fn body(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| seed.wrapping_add(i as u8) ^ 0x80)
        .collect()
}

fn push(producer: &mut Producer, ring: &Ring, bytes: &[u8]) -> bool {
    let Some(room) = producer.reserve(ring).unwrap() else {
        return false;
    };
    let tag = tag_of(bytes);
    producer.push(ring, room, |to| {
        to.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let len = bytes.len();
        Some(Filled { len, tag })
    })
}

fn tag_of(bytes: &[u8]) -> u16 {
    bytes
        .iter()
        .fold(7, |sum, byte| sum ^ u16::from(*byte) << 3)
}

fn pop(consumer: &mut Consumer, ring: &Ring) -> Option<Vec<u8>> {
    let popped = consumer.pop(ring, |record| {
        assert_eq!(record.tag, tag_of(record.body));
        assert_eq!(
            record.head(),
            &record.body[..record.body.len().min(HEAD_LEN)]
        );
        record.body.to_vec()
    });
    popped.unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Pop(usize),
    Publish,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..200_usize).prop_map(Step::Push),
        2 => (0..=MAX_PACKET).prop_map(Step::Push),
        1 => (0..=BODY_MAX).prop_map(Step::Push),
        4 => (0..20_usize).prop_map(Step::Pop),
        1 => Just(Step::Publish),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The ring does what a queue does, whatever the lengths. It is full only if much of it is
    /// used.
    #[test]
    fn records_keep_their_order(steps in proptest::collection::vec(step(), 0..300)) {
        let ring = ring();
        let (mut producer, mut consumer) = (Producer::new(KEY), Consumer::new(KEY));
        let mut expected = VecDeque::new();
        for (i, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push(len) => {
                    let bytes = body(len, i as u8);
                    if push(&mut producer, &ring, &bytes) {
                        expected.push_back(bytes);
                    } else if len <= MAX_PACKET {
                        let used = producer.written - consumer.published;
                        prop_assert!(used > LINES - 2 * PACKET_LINES - RESPONSE_LINES);
                    }
                }
                Step::Pop(count) => for _ in 0..count {
                    prop_assert_eq!(pop(&mut consumer, &ring), expected.pop_front());
                },
                Step::Publish => { consumer.publish(&ring); }
            }
            prop_assert_eq!(ring.has_record(KEY, consumer.position()), !expected.is_empty());
        }
    }

    /// A hostile peer may write anything anywhere in the ring, at any time: the other side ends
    /// each call, and reads within the ring.
    #[test]
    fn a_hostile_peer_does_no_harm(
        steps in proptest::collection::vec(step(), 0..100),
        words in proptest::collection::vec((0..LINES, hostile_word()), 0..100),
        consumed in proptest::collection::vec(any::<u64>(), 0..3),
    ) {
        let ring = ring();
        let (mut producer, mut consumer) = (Producer::new(KEY), Consumer::new(KEY));
        let (mut words, mut consumed) = (words.into_iter(), consumed.into_iter());
        for step in steps {
            if let Some((line, word)) = words.next() {
                ring.lines.word(line).store(word.into(), Ordering::Relaxed);
                ring.forge(KEY, consumer.position(), word, b"forged");
            }
            match step {
                Step::Push(len) => {
                    let Ok(Some(room)) = producer.reserve(&ring) else { continue };
                    producer.push(&ring, room, |_| Some(Filled { len, tag: 1 }));
                }
                Step::Pop(_) => {
                    let _ = consumer.pop(&ring, |record| record.body.len());
                }
                Step::Publish => {
                    consumer.publish(&ring);
                    if let Some(consumed) = consumed.next() {
                        ring.consumed.0.store(consumed, Ordering::Relaxed);
                    }
                }
            }
        }
    }
}

fn hostile_word() -> impl Strategy<Value = u32> {
    let flags = prop_oneof![2 => Just(0), 1 => Just(Word::SKIP as u32), 1 => any::<u32>()];
    let lens = prop_oneof![0..300_u32, Just(BODY_MAX as u32), any::<u32>()];
    (flags, lens).prop_map(|(flags, len)| flags | len)
}

/// A body with the words of another ring, or of earlier laps, where the next lap has a word, is not taken for
/// a record.
#[test]
fn bodies_are_not_taken_for_words() {
    let ring = ring();
    let (mut producer, mut consumer) = (Producer::new(KEY), Consumer::new(KEY));
    for round in 0..500_u64 {
        let number = |key| Word::new(key, round * 66, 8, 0).0.to_ne_bytes();
        let forged = [number(Key(KEY.0 + (1 << 31))), [0; 8], [0xff; 8]].concat();
        let forged = forged.repeat(MAX_PACKET / 24);
        assert!(push(&mut producer, &ring, &forged));
        assert_eq!(pop(&mut consumer, &ring).as_ref(), Some(&forged));
        for i in 0..round as usize % 7 {
            let short = body(i * 40, i as u8);
            assert_eq!(pop(&mut consumer, &ring), None);
            assert!(push(&mut producer, &ring, &short));
            assert_eq!(pop(&mut consumer, &ring), Some(short));
        }
        assert_eq!(pop(&mut consumer, &ring), None);
        consumer.publish(&ring);
    }
}

/// Numbers of different positions differ, and those of memory that was never written do not occur.
#[test]
fn words_have_the_number_of_their_position() {
    for key in [0, 1, KEY.0, u64::MAX] {
        let key = Key(key);
        for position in [0, 1, LINES, 1 << 30, (1 << 35) - 1] {
            let word = Word::new(key, position, 4000, 0x7ff);
            assert!(word.is_of(key, position) && !Word(0).is_of(key, position));
            assert!(!word.is_of(key, position + LINES) && !word.is_of(key, position + 1));
            assert_eq!((word.len(), word.tag(), word.skips()), (4000, 0x7ff, false));
        }
    }
}

/// A ring that is empty again and again uses its first pages only.
#[test]
fn light_traffic_stays_at_the_start() {
    let ring = ring();
    let (mut producer, mut consumer) = (Producer::new(KEY), Consumer::new(KEY));
    for i in 0..10_000 {
        let bytes = body(i % 500, i as u8);
        assert!(push(&mut producer, &ring, &bytes));
        assert!(producer.written % LINES <= 2 * LOCAL_LINES + lines_of(500));
        assert_eq!(pop(&mut consumer, &ring), Some(bytes));
        consumer.publish(&ring);
    }
}

/// Responses have room when nothing else has, but not without end.
#[test]
fn a_full_ring_takes_responses() {
    let ring = ring();
    let (mut producer, mut consumer) = (Producer::new(KEY), Consumer::new(KEY));
    let mut expected = 0;
    while push(&mut producer, &ring, &body(900, 1)) {
        expected += 1;
    }
    while let Some(room) = producer.reserve_for_response() {
        let len = HEAD_LEN;
        assert!(producer.push(&ring, room, |_| Some(Filled { len, tag: 0 })));
        expected += 1;
    }
    let mut received = 0;
    while consumer.pop(&ring, |_| ()).unwrap().is_some() {
        received += 1;
    }
    assert_eq!(received, expected);
    assert!(producer.written > LINES - 2);
}

/// A response in the last line of the ring has the bytes of that line, whatever its sender asks for.
#[test]
fn a_response_ends_with_its_line() {
    let ring = ring();
    let mut producer = Producer {
        written: LINES - 1,
        consumed: LINES - 1,
        ..Producer::new(KEY)
    };
    let room = producer.reserve_for_response().unwrap();
    let mut room_len = 0;
    let is_pushed = producer.push(&ring, room, |body| {
        room_len = body.len();
        let len = MAX_PACKET;
        Some(Filled { len, tag: 0 })
    });
    assert!(is_pushed);
    assert_eq!((room_len, producer.written), (HEAD_LEN, LINES));
}

/// A record that could not be filled was never there.
#[test]
fn a_record_that_fails_is_not_published() {
    let ring = ring();
    let (mut producer, mut consumer) = (Producer::new(KEY), Consumer::new(KEY));
    let room = producer.reserve(&ring).unwrap().unwrap();
    assert!(!producer.push(&ring, room, |_| None));
    assert_eq!(pop(&mut consumer, &ring), None);
    assert!(push(&mut producer, &ring, b"next"));
    assert_eq!(pop(&mut consumer, &ring).unwrap(), b"next");
}

/// A producer that waits is found before the ring is empty.
#[test]
fn a_full_ring_wakes_its_producer_up() {
    let ring = ring();
    let (mut producer, mut consumer) = (Producer::new(KEY), Consumer::new(KEY));
    let bytes = body(1000, 3);
    while push(&mut producer, &ring, &bytes) {}
    assert!(!ring.take_starved());
    assert_eq!(producer.reserve_or_wait(&ring), Ok(None));
    let mut left = 0;
    loop {
        assert_eq!(pop(&mut consumer, &ring).as_ref(), Some(&bytes));
        if consumer.publish(&ring) == Released::Much && ring.take_starved() {
            break;
        }
    }
    assert!(!ring.take_starved());
    while pop(&mut consumer, &ring).is_some() {
        left += 1;
    }
    assert!(left > 0);
    consumer.publish(&ring);
    assert!(producer.reserve(&ring).unwrap().is_some());
}

#[test]
fn what_no_producer_writes_is_broken() {
    let skip = Word::SKIP as u32;
    // Too long, or nothing behind what is skipped, or again a word that skips.
    for low in [BODY_MAX as u32 + 1, 0xffff, skip] {
        let ring = ring();
        ring.forge(KEY, 0, low, b"");
        assert_eq!(
            Consumer::new(KEY).pop(&ring, |_| ()),
            Err(Broken),
            "{low:x}"
        );
    }
    let ring = ring();
    let mut consumer = Consumer {
        position: 1,
        ..Consumer::new(KEY)
    };
    ring.forge(KEY, 1, skip, b"");
    ring.forge(KEY, LINES, skip, b"");
    assert_eq!(consumer.pop(&ring, |_| ()), Err(Broken));
    // A record beyond the end of the ring.
    let mut consumer = Consumer {
        position: LINES - 1,
        ..Consumer::new(KEY)
    };
    ring.forge(KEY, LINES - 1, 57, b"");
    assert_eq!(consumer.pop(&ring, |_| ()), Err(Broken));
    // A consumer ahead of the producer, and one that goes back.
    let mut producer = Producer::new(KEY);
    ring.consumed.0.store(1, Ordering::Relaxed);
    producer.written = LINES;
    assert!(producer.read_consumed(&ring).is_ok());
    ring.consumed.0.store(0, Ordering::Relaxed);
    assert_eq!(producer.read_consumed(&ring), Err(Broken));
    ring.consumed.0.store(LINES + 1, Ordering::Relaxed);
    assert_eq!(producer.reserve(&ring), Err(Broken));
}

/// The producer learns once that the consumer sleeps.
#[test]
fn a_sleeper_is_woken_up_once() {
    let ring = ring();
    assert!(!ring.take_asleep());
    ring.set_asleep();
    assert!(ring.take_asleep() && !ring.take_asleep());
    ring.set_asleep();
    ring.set_awake();
    assert!(!ring.take_asleep());
}

/// The time that a ring is full begins again with each record that the consumer releases.
#[test]
fn a_full_ring_knows_since_when() {
    let ring = ring();
    let (mut producer, mut consumer) = (Producer::new(KEY), Consumer::new(KEY));
    while push(&mut producer, &ring, &body(MAX_PACKET, 1)) {}
    let at = |ms: u64| Time(1_000_000 * ms);
    assert_eq!(producer.full_for(at(10)), Duration::ZERO);
    assert_eq!(producer.full_for(at(30)), Duration::from_millis(20));
    assert!(!ring.has_released(producer.position()));
    assert!(pop(&mut consumer, &ring).is_some());
    consumer.publish(&ring);
    while push(&mut producer, &ring, &body(MAX_PACKET, 1)) {}
    assert_eq!(producer.full_for(at(50)), Duration::ZERO);
    assert_eq!(producer.full_for(at(51)), Duration::from_millis(1));
    while pop(&mut consumer, &ring).is_some() {}
    consumer.publish(&ring);
    assert!(ring.has_released(producer.position()));
}
