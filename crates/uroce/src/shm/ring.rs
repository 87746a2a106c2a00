//! A ring of records in memory that two processes share: one produces, the other consumes.
//!
//! A record is contiguous: a word, which says that the record is there and how long it is, and its body
//! behind the word. It begins at a cache line, so a short one costs the transfer of one line. The producer
//! writes a body where the consumer reads it: neither copies it in between.
//!
//! A line may begin with a word in one lap, and have a part of a body there in another. Therefore a word has
//! a number that follows from its position and from a random key of the channel: what a body has left there
//! is not taken for a word, even if who has made the body wants that, but with a chance of 2^-36. Zeroing
//! what comes next would exclude it, but costs the transfer of a second line for each record.
//!
//! Memory: an empty ring that carries no long records continues at its start ([`LOCAL_LINES`]), so it uses
//! few of its pages.
//!
//! Not here: what a body means, and who wakes whom up (`channel.rs`).
//!
//! Invariant: both sides keep their positions in memory of their own. What they read from the shared memory
//! (a word, the other side's position) may be anything: it is checked before it is used, and what no correct
//! peer writes is [`Broken`]. A body may change while it is read.

mod lines;

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use std::time::Duration;

#[cfg(not(loom))]
use crate::arch;
use lines::{LINE, LINES, Lines, WORD_LEN};
use roce::engine::{self, Time};
use roce::wire::MAX_PACKET;

/// The bytes of a body that are in the line of its word.
pub const HEAD_LEN: usize = LINE - WORD_LEN;
/// The longest body in bytes: a fragment. A model has a ring of few lines, which is soon full.
pub const BODY_MAX: usize = if cfg!(loom) {
    HEAD_LEN
} else {
    HEAD_LEN + (32 << 10)
};
/// Lines that only responses of one line use, which are not to wait behind requests.
const RESPONSE_LINES: u64 = if cfg!(loom) { 0 } else { 64 };
/// The longest record in lines.
const RECORD_LINES_MAX: u64 = lines_of(BODY_MAX);
/// The lines that there are for any record: one packet.
const PACKET_LINES: u64 = lines_of(if cfg!(loom) { HEAD_LEN } else { MAX_PACKET });
/// Each time this number of lines was written, the ring continues at its start if it is empty.
const LOCAL_LINES: u64 = if cfg!(loom) { 2 } else { 128 };
/// The consumer publishes its position, and looks for a producer that waits for room, each time it has
/// released this number of lines.
const RELEASE_LINES: u64 = if cfg!(loom) { 1 } else { LINES / 8 };

/// The first word of a record: bits 0 to 15 the length of the body, bits 16 to 26 the tag, bit 27
/// [`Word::SKIP`], the bits above the number of this position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word(u64);

impl Word {
    /// No record follows up to the end of the ring. The next one is at its start.
    const SKIP: u64 = 1 << 27;
    const NUMBER_SHIFT: u32 = 28;

    fn new(key: Key, position: u64, len: usize, tag: u16) -> Word {
        let number = key.number(position) << Word::NUMBER_SHIFT;
        Word(number | u64::from(tag & TAG_MASK) << 16 | len as u64 & 0xffff)
    }

    /// Whether it was written for this position.
    fn is_of(self, key: Key, position: u64) -> bool {
        self.0 >> Word::NUMBER_SHIFT == key.number(position)
    }

    fn skips(self) -> bool {
        self.0 & Word::SKIP != 0
    }

    fn len(self) -> usize {
        usize::from(self.0 as u16)
    }

    fn tag(self) -> u16 {
        (self.0 >> 16) as u16 & TAG_MASK
    }
}

/// The bits that a tag may have.
const TAG_MASK: u16 = 0x7ff;

/// A random number that both sides of a channel know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key(pub u64);

impl Key {
    /// The number of words at this position: 36 bits. Never 0 in the first 2^35 lines: memory is zero
    /// before.
    #[inline(always)]
    fn number(self, position: u64) -> u64 {
        let first = self.0 >> 30 | 1 << 35;
        first.wrapping_add(position) & ((1 << 36) - 1)
    }
}

// A producer that waits finds room for any record before the ring is empty, and the consumer looks for it
// before that: the lines in use are more than twice what it releases between two looks.
const _: () = assert!(cfg!(loom) || LINES - 2 * PACKET_LINES - RESPONSE_LINES > 2 * RELEASE_LINES);
const _: () = assert!(LINES.is_power_of_two() && BODY_MAX <= u16::MAX as usize);
const _: () = assert!(HEAD_LEN == engine::HEAD_LEN);

/// The other side has written what no correct one does: it is damaged or hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// Alone in its cache line.
#[repr(C, align(64))]
struct Line<T>(T);

/// One direction of a channel, as it lies in shared memory. Zeros are an empty ring.
#[repr(C)]
pub struct Ring {
    /// The lines that the consumer has released since the ring was created. Written by the consumer.
    consumed: Line<AtomicU64>,
    /// Set by the consumer before it sleeps; taken by the producer, which then wakes it up.
    asleep: Line<AtomicU32>,
    /// Set by the producer that waits for room; taken by the consumer, which then wakes it up.
    starved: Line<AtomicU32>,
    lines: Lines,
}

/// The lines that a record with a body of `len` bytes occupies.
const fn lines_of(len: usize) -> u64 {
    (WORD_LEN + len).div_ceil(LINE) as u64
}

/// The lines from `position` to the end of the ring.
fn lines_to_end(position: u64) -> u64 {
    LINES - position % LINES
}

impl Ring {
    /// Whether a record is at this position of the consumer ([`Consumer::position`]). A thread that has an
    /// older position may get either answer.
    #[inline]
    pub fn has_record(&self, key: Key, position: u64) -> bool {
        let word = self.lines.word(position).load(Ordering::Acquire);
        Word(word).is_of(key, position)
    }

    /// Writes the word of a record, and bytes behind it. The lower bits of the word may be any.
    #[cfg(any(test, feature = "internals"))]
    pub fn forge(&self, key: Key, position: u64, low: u32, body: &[u8]) {
        let len = body.len().min(HEAD_LEN);
        self.lines
            .fill(position, len, |to| to.copy_from_slice(&body[..len]));
        let low = u64::from(low) & ((1 << Word::NUMBER_SHIFT) - 1);
        let word = Word::new(key, position, 0, 0).0 | low;
        self.lines.word(position).store(word, Ordering::Release);
    }

    /// The consumer is about to sleep. It must look for records afterwards.
    pub fn set_asleep(&self) {
        self.asleep.0.store(1, Ordering::Relaxed);
        // The producer publishes, fences, then reads `asleep`: one of the two sees the other's store.
        fence(Ordering::SeqCst);
    }

    /// The consumer does not sleep any more.
    pub fn set_awake(&self) {
        self.asleep.0.store(0, Ordering::Relaxed);
    }

    /// Whether the producer has to wake the consumer up after what it has published. True once per sleep.
    #[inline]
    pub fn take_asleep(&self) -> bool {
        take(&self.asleep)
    }

    /// Whether the consumer has released all lines before this position, by what it says.
    pub fn has_released(&self, position: u64) -> bool {
        self.consumed.0.load(Ordering::Acquire) >= position
    }

    /// Whether the producer waits for the room that the consumer has made. True once per wait.
    pub fn take_starved(&self) -> bool {
        take(&self.starved)
    }
}

/// Whether the other side has set a flag, which is then clear. What this side has stored before is visible to
/// it, or the flag is visible here.
#[inline]
fn take(flag: &Line<AtomicU32>) -> bool {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
    #[cfg(not(loom))]
    arch::full_fence();
    flag.0.load(Ordering::Relaxed) != 0 && flag.0.swap(0, Ordering::Relaxed) != 0
}

/// The producer's own state.
#[derive(Debug)]
pub struct Producer {
    key: Key,
    /// The lines that were written since the ring was created: where the next record begins.
    written: u64,
    /// The consumer's position when it was last read.
    consumed: u64,
    /// [`Producer::written`] when it was last tried to go back to the start of the ring.
    tried: u64,
    /// The lines of the longest record since then.
    longest: u64,
    /// The time at which the ring was first found full since the consumer has released anything,
    /// and its position then.
    full_since: Option<(Time, u64)>,
}

/// Room for a record: see [`Producer::reserve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The position where the record begins: [`Producer::written`], or the start of the ring behind
    /// that.
    at: u64,
    /// The lines that there are for it, contiguous.
    count: u64,
}

impl Room {
    /// The longest body that it is for, in bytes.
    fn body_len(self) -> usize {
        BODY_MAX.min(self.count as usize * LINE - WORD_LEN)
    }
}

/// How many lines behind the end of a record a line is moved to the producer's CPU for a later record. A
/// stream of small records is a tenth faster then. It is not the line that the consumer polls.
const PREFETCH_LINES: u64 = 8;

impl Producer {
    /// The producer of an empty ring.
    pub fn new(key: Key) -> Producer {
        Producer {
            key,
            written: 0,
            consumed: 0,
            tried: 0,
            longest: 0,
            full_since: None,
        }
    }

    /// Room for a packet, and for more of a message if there is more. None if there is none now.
    #[inline]
    pub fn reserve(&mut self, ring: &Ring) -> Result<Option<Room>, Broken> {
        if self.written % LINES >= LOCAL_LINES && self.written - self.tried >= LOCAL_LINES {
            self.tried = self.written;
            self.read_consumed(ring)?;
            let skipped = lines_to_end(self.written);
            let is_light = core::mem::take(&mut self.longest) <= PACKET_LINES;
            if is_light && self.consumed == self.written && skipped + PACKET_LINES < LINES {
                let at = self.written + skipped;
                let count = (LINES - 1 - skipped).min(RECORD_LINES_MAX);
                return Ok(Some(Room { at, count }));
            }
        }
        if let Some(room) = self.find(PACKET_LINES, RESPONSE_LINES) {
            return Ok(Some(room));
        }
        self.read_consumed(ring)?;
        Ok(self.find(PACKET_LINES, RESPONSE_LINES))
    }

    /// [`Producer::reserve`]; if there is no room, the consumer wakes this side up when it has made some.
    #[inline]
    pub fn reserve_or_wait(&mut self, ring: &Ring) -> Result<Option<Room>, Broken> {
        let room = self.reserve(ring)?;
        if room.is_some() {
            return Ok(room);
        }
        ring.starved.0.store(1, Ordering::Relaxed);
        // The consumer stores its position, fences, then reads `starved`.
        fence(Ordering::SeqCst);
        self.reserve(ring)
    }

    /// Room for a response of at most [`HEAD_LEN`] bytes. The caller has just seen that there is
    /// none for other records.
    pub fn reserve_for_response(&self) -> Option<Room> {
        self.find(1, 0)
    }

    /// Room for `least` lines or more that leaves `left` lines to others.
    #[inline]
    fn find(&self, least: u64, left: u64) -> Option<Room> {
        let to_end = lines_to_end(self.written);
        let skipped = if least > to_end { to_end } else { 0 };
        let used = self.written - self.consumed;
        let at = self.written + skipped;
        let free = LINES.checked_sub(used + skipped + left)?;
        let count = free.min(lines_to_end(at)).min(RECORD_LINES_MAX);
        (count >= least).then_some(Room { at, count })
    }

    /// The position where the next record begins.
    pub fn position(&self) -> u64 {
        self.written
    }

    /// How long the consumer has released nothing, as seen by the calls of this function. To be called when
    /// there is no room.
    pub fn full_for(&mut self, now: Time) -> Duration {
        match self.full_since {
            Some((since, consumed)) if consumed == self.consumed => now.since(since),
            _ => {
                self.full_since = Some((now, self.consumed));
                Duration::ZERO
            }
        }
    }

    fn read_consumed(&mut self, ring: &Ring) -> Result<(), Broken> {
        let consumed = ring.consumed.0.load(Ordering::Acquire);
        if consumed < self.consumed || consumed > self.written {
            return Err(Broken);
        }
        self.consumed = consumed;
        Ok(())
    }

    /// Lets `fill` write a body to the room, whose bytes have any values before, and publishes the record. If
    /// it returns None, nothing is published, the room may be used for another record, and this returns
    /// false. `room` is what a call of this type has just returned.
    #[inline]
    pub fn push(
        &mut self,
        ring: &Ring,
        room: Room,
        fill: impl FnOnce(&mut [u8]) -> Option<Filled>,
    ) -> bool {
        let lines = &ring.lines;
        let Some(filled) = lines.fill(room.at, room.body_len(), fill) else {
            return false;
        };
        let len = filled.len.min(room.body_len());
        let word = Word::new(self.key, room.at, len, filled.tag);
        lines.word(room.at).store(word.0, Ordering::Release);
        if room.at != self.written {
            // The consumer finds the record above when it follows this word.
            let skip = Word::new(self.key, self.written, 0, 0).0 | Word::SKIP;
            lines.word(self.written).store(skip, Ordering::Release);
        }
        self.longest = self.longest.max(lines_of(len));
        self.written = room.at + lines_of(len);
        lines.prefetch(self.written + PREFETCH_LINES);
        true
    }
}

/// A body that was written, by its length and tag.
#[derive(Clone, Copy, Debug)]
pub struct Filled {
    /// The length of the body in bytes.
    pub len: usize,
    /// The tag: a number that the consumer gets with the body.
    pub tag: u16,
}

/// The consumer's own state.
#[derive(Debug)]
pub struct Consumer {
    key: Key,
    /// The lines that were read since the ring was created: where the next record begins.
    position: u64,
    /// The position that the producer knows.
    published: u64,
    /// The position at the last look for a producer that waits.
    looked: u64,
}

/// A record, in its place.
pub struct Record<'a> {
    /// A copy of the body's first bytes, and any bytes behind them if it is shorter.
    pub line: [u8; HEAD_LEN],
    /// The body. The producer, if it is not a correct one, may change it at any time.
    pub body: &'a [u8],
    /// The tag that the producer has set.
    pub tag: u16,
}

impl Record<'_> {
    /// The first bytes of the body, which do not change.
    #[inline]
    pub fn head(&self) -> &[u8] {
        &self.line[..self.body.len().min(HEAD_LEN)]
    }
}

/// The duty of a caller of [`Consumer::publish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The caller has nothing to do.
    Little,
    /// The caller must call [`Ring::take_starved`].
    Much,
}

impl Consumer {
    /// The consumer of an empty ring.
    pub fn new(key: Key) -> Consumer {
        Consumer {
            key,
            position: 0,
            published: 0,
            looked: 0,
        }
    }

    /// The position where the next record begins.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Passes the next record to `read`, and releases it. None if there is none.
    #[inline]
    pub fn pop<T>(
        &mut self,
        ring: &Ring,
        read: impl FnOnce(&Record<'_>) -> T,
    ) -> Result<Option<T>, Broken> {
        let Some((len, tag)) = self.next_record(ring)? else {
            return Ok(None);
        };
        let line = ring.lines.head(self.position);
        let result = ring
            .lines
            .view(self.position, len, |body| read(&Record { line, body, tag }));
        self.position += lines_of(len);
        if self.position - self.published >= RELEASE_LINES {
            self.store(ring);
        }
        Ok(Some(result))
    }

    /// The length of the next record's body, and its tag.
    #[inline]
    fn next_record(&mut self, ring: &Ring) -> Result<Option<(usize, u16)>, Broken> {
        let load = |position| Word(ring.lines.word(position).load(Ordering::Acquire));
        let mut word = load(self.position);
        if !word.is_of(self.key, self.position) {
            return Ok(None);
        }
        if word.skips() {
            self.position += lines_to_end(self.position);
            word = load(self.position);
            // A correct producer publishes what follows first, and that is a record.
            if !word.is_of(self.key, self.position) || word.skips() {
                return Err(Broken);
            }
        }
        let (len, tag) = (word.len(), word.tag());
        let is_valid = len <= BODY_MAX && lines_of(len) <= lines_to_end(self.position);
        is_valid.then_some(Some((len, tag))).ok_or(Broken)
    }

    /// Lets the producer use what was released. To be called at the end of a batch.
    #[inline]
    pub fn publish(&mut self, ring: &Ring) -> Released {
        if self.position != self.published {
            self.store(ring);
        }
        if self.position - self.looked < RELEASE_LINES {
            return Released::Little;
        }
        self.looked = self.position;
        Released::Much
    }

    fn store(&mut self, ring: &Ring) {
        ring.consumed.0.store(self.position, Ordering::Release);
        self.published = self.position;
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
