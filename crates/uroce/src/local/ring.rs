//! A ring of packets in memory that two processes share: one produces, the other consumes.
//!
//! An entry is one cache line: a word that says whether a packet is there and how long it is, and the packet
//! itself if it fits. A longer packet is in the ring's data area, and its place follows from the lengths
//! before it. The consumer spins on the word of the next entry, so a small message costs the transfer of one
//! cache line.
//!
//! Invariant: producer and consumer keep their positions in memory of their own. What they read from the
//! shared memory (the word, and the other side's position) may be anything: a length is checked before it is
//! used, positions are only used modulo the ring's size, and payload is copied before it is read.

use core::cell::UnsafeCell;
#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::arch;
use crate::wire::{MAX_HEADERS, MAX_SHORT_RESPONSE, SHORT_MAX, Short, ShortBytes};

/// Entries of a ring; a power of two. The model has few, so that it is soon full.
const ENTRIES: u32 = if cfg!(loom) { 2 } else { 512 };
/// Entries that only short packets use: responses are not to wait behind requests.
const SHORT_ENTRIES: u32 = if cfg!(loom) { 0 } else { 64 };
/// Bytes of the data area; a power of two.
const DATA_LEN: u32 = 256 << 10;
/// The longest packet: headers, the largest path MTU, padding. There is no ICRC.
pub const PACKET_MAX: usize = MAX_HEADERS + 4096 + 3;
/// The longest packet that an entry has room for.
const INLINE_MAX: usize = SHORT_MAX;
const INLINE_WORDS: usize = 7;
/// After this number of entries, or bytes of the data area, the consumer checks whether the producer waits
/// for room. A producer that waits has several times as much before the consumer.
const CHECK_ENTRIES: u32 = 64;
const CHECK_DATA: u32 = 64 << 10;
/// Packets in the data area begin at multiples of this.
const LINE: usize = 64;
/// What [`Ring::prefetch`] prefetches, in bytes.
const PREFETCHED: usize = 2 * LINE;
/// The data area that a packet occupies at most, rounded up.
const PLACE_MAX: u32 = PACKET_MAX.next_multiple_of(LINE) as u32;

const _: () = assert!(ENTRIES.is_power_of_two() && DATA_LEN.is_power_of_two());
const _: () = assert!(MAX_SHORT_RESPONSE <= INLINE_MAX && INLINE_MAX == 8 * INLINE_WORDS);
const _: () = assert!(PACKET_MAX <= u16::MAX as usize && DATA_LEN > 4 * PLACE_MAX);
const _: () = assert!(cfg!(loom) || 2 * CHECK_ENTRIES < ENTRIES - SHORT_ENTRIES);
const _: () = assert!(2 * CHECK_DATA < DATA_LEN - 2 * PLACE_MAX);

/// Alone in its cache line.
#[repr(C, align(64))]
struct Line<T>(T);

#[repr(C, align(64))]
struct RingEntry {
    /// See [`Word`].
    word: AtomicU64,
    /// The packet, if it has at most [`INLINE_MAX`] bytes.
    inline: [AtomicU64; INLINE_WORDS],
}

impl RingEntry {
    /// Writes a packet of at most [`INLINE_MAX`] bytes; of a longer one what fits.
    #[inline]
    fn write(&self, packet: &[u8]) {
        let mut bytes = [0; INLINE_MAX];
        let len = packet.len().min(INLINE_MAX);
        bytes[..len].copy_from_slice(&packet[..len]);
        self.write_short(&bytes);
    }

    /// Writes all words: a loop of a fixed length costs less than one of the packet's.
    #[inline(always)]
    fn write_short(&self, bytes: &ShortBytes) {
        for (to, from) in self.inline.iter().zip(bytes.chunks_exact(8)) {
            if let Ok(word) = from.try_into() {
                to.store(u64::from_ne_bytes(word), Ordering::Relaxed);
            }
        }
    }

    #[inline(always)]
    fn read_short(&self, bytes: &mut ShortBytes) {
        for (to, from) in bytes.chunks_exact_mut(8).zip(&self.inline) {
            to.copy_from_slice(&from.load(Ordering::Relaxed).to_ne_bytes());
        }
    }
}

/// One direction of a channel, as it lies in shared memory. Zeros are an empty ring.
#[repr(C)]
pub struct Ring {
    /// The consumer's [`Position`]. Written by the consumer.
    consumed: Line<AtomicU64>,
    /// Set by the consumer before it sleeps; taken by the producer, which then wakes it up.
    asleep: Line<AtomicU32>,
    /// Set by the producer that waits for room; taken by the consumer, which then wakes it up.
    starved: Line<AtomicU32>,
    entries: [RingEntry; ENTRIES as usize],
    data: UnsafeCell<[u8; DATA_LEN as usize]>,
}

// SAFETY: everything but `data` is atomic. Bytes of `data` are accessed through raw pointers only: the
// producer writes those that the consumer has released, the consumer reads those that were published.
unsafe impl Sync for Ring {}

/// A place in the ring. Both parts count up and wrap around at 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    entry: u32,
    /// In bytes.
    data: u32,
}

impl Position {
    fn pack(self) -> u64 {
        u64::from(self.data) << 32 | u64::from(self.entry)
    }

    fn unpack(packed: u64) -> Position {
        Position {
            entry: packed as u32,
            data: (packed >> 32) as u32,
        }
    }

    /// Moves behind a packet of `len` bytes. Returns the offset of its place in the data area, if it is
    /// not in its entry.
    fn advance(&mut self, len: usize) -> Option<usize> {
        self.entry = self.entry.wrapping_add(1);
        if len <= INLINE_MAX {
            return None;
        }
        let place = len.next_multiple_of(LINE) as u32;
        let before_end = DATA_LEN - self.data % DATA_LEN;
        // A packet is contiguous: the rest of the area stays unused if it is too short.
        if place > before_end {
            self.data = self.data.wrapping_add(before_end);
        }
        let start = self.data % DATA_LEN;
        self.data = self.data.wrapping_add(place);
        Some(start as usize)
    }
}

/// What an entry says of its packet: bits 0 to 31 the entry's number plus 1, which only this lap has, bits
/// 32 to 47 the length, bits 48 to 55 the traffic class, bit 56 whether there is a reference in place of the
/// payload.
struct Word(u64);

const BY_REFERENCE: u64 = 1 << 56;

impl Word {
    fn new(entry: u32, len: usize, traffic_class: u8) -> Word {
        let number = u64::from(entry.wrapping_add(1));
        Word(u64::from(traffic_class) << 48 | (len as u64 & 0xffff) << 32 | number)
    }

    fn is_of(&self, entry: u32) -> bool {
        self.0 as u32 == entry.wrapping_add(1)
    }

    /// Whether the word is of this entry, or of one in a later lap.
    fn is_of_or_after(&self, entry: u32) -> bool {
        (self.0 as u32).wrapping_sub(entry.wrapping_add(1)) < 1 << 31
    }

    fn len(&self) -> usize {
        usize::from((self.0 >> 32) as u16)
    }

    fn traffic_class(&self) -> u8 {
        (self.0 >> 48) as u8
    }

    fn is_by_reference(&self) -> bool {
        self.0 & BY_REFERENCE != 0
    }
}

impl Ring {
    fn entry(&self, number: u32) -> &RingEntry {
        &self.entries[(number % ENTRIES) as usize]
    }

    /// The data area from `offset` on. `len` bytes must lie in it.
    fn data(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset + len <= DATA_LEN as usize);
        // SAFETY: within the area, as just checked.
        unsafe { self.data.get().cast::<u8>().add(offset) }
    }

    /// Whether entry `number` is there, or has been. The consumer's [`Consumer::next`] is the one to ask for.
    /// A thread that has an older number learns at least that packets have arrived since.
    #[inline]
    pub fn has_entry(&self, number: u32) -> bool {
        Word(self.entry(number).word.load(Ordering::Acquire)).is_of_or_after(number)
    }

    /// Prefetches [`PREFETCHED`] bytes at this position of the data area ([`Consumer::next_data`]), so
    /// that a packet arrives together with its entry, and not after that. A poller that takes the first lines
    /// of a longer one from its producer, which writes the rest, delays both.
    #[inline]
    pub fn prefetch(&self, data: u32) {
        let offset = (data % DATA_LEN) as usize;
        let start = self.data.get().cast::<u8>().wrapping_add(offset);
        arch::prefetch(start);
        arch::prefetch(start.wrapping_add(LINE));
    }

    /// Writes entry `number` as no producer would: with any length, and as many bytes of `packet` as fit.
    #[cfg(any(test, feature = "internals"))]
    pub fn forge_entry(&self, number: u32, len: u16, packet: &[u8], by_reference: bool) {
        let entry = self.entry(number);
        entry.write(packet);
        let word = Word::new(number, len.into(), 0);
        let flags = if by_reference { BY_REFERENCE } else { 0 };
        entry.word.store(word.0 | flags, Ordering::Release);
    }

    /// The consumer is about to sleep. It must check for entries afterwards.
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
        fence(Ordering::SeqCst);
        self.asleep.0.load(Ordering::Relaxed) != 0 && self.asleep.0.swap(0, Ordering::Relaxed) != 0
    }

    /// Whether the producer waits for the room that the consumer has made. True once per wait.
    pub fn take_starved(&self) -> bool {
        fence(Ordering::SeqCst);
        self.starved.0.load(Ordering::Relaxed) != 0
            && self.starved.0.swap(0, Ordering::Relaxed) != 0
    }
}

/// The producer's own state.
#[derive(Debug, Default)]
pub struct Producer {
    next: Position,
    /// The consumer's position when it was last read.
    consumed: Position,
}

impl Producer {
    /// Whether there is room for a packet of any length.
    #[inline]
    pub fn has_room(&mut self, ring: &Ring) -> bool {
        self.fits() || {
            self.consumed = Position::unpack(ring.consumed.0.load(Ordering::Acquire));
            self.fits()
        }
    }

    /// [`Producer::has_room`]; if there is none, the consumer wakes this side up when it has made some.
    pub fn has_room_or_waits(&mut self, ring: &Ring) -> bool {
        if self.has_room(ring) {
            return true;
        }
        ring.starved.0.store(1, Ordering::Relaxed);
        // The consumer stores its position, fences, then reads `starved`.
        fence(Ordering::SeqCst);
        self.has_room(ring)
    }

    /// Whether there is room for a packet of at most [`INLINE_MAX`] bytes. The caller has just seen that
    /// there is none for a packet of any length.
    pub fn has_room_for_short(&self) -> bool {
        self.used_entries() < ENTRIES
    }

    fn fits(&self) -> bool {
        let bytes = self.next.data.wrapping_sub(self.consumed.data);
        // The second place is for the end of the area, if the packet does not fit there.
        self.used_entries() < ENTRIES - SHORT_ENTRIES && bytes <= DATA_LEN - 2 * PLACE_MAX
    }

    fn used_entries(&self) -> u32 {
        self.next.entry.wrapping_sub(self.consumed.entry)
    }

    /// Adds a packet of at most [`PACKET_MAX`] bytes; a longer one is dropped. The caller has seen that
    /// there is room.
    #[inline]
    pub fn push(&mut self, ring: &Ring, packet: &[u8], traffic_class: u8) {
        self.publish(ring, packet, traffic_class, 0);
    }

    /// [`Producer::push`] for a packet that has a reference in place of its payload.
    pub fn push_reference(&mut self, ring: &Ring, packet: &[u8], traffic_class: u8) {
        self.publish(ring, packet, traffic_class, BY_REFERENCE);
    }

    /// [`Producer::push`] for a short packet of `len` bytes.
    #[inline]
    pub fn push_short(&mut self, ring: &Ring, packet: &ShortBytes, len: usize, traffic_class: u8) {
        let number = self.next.entry;
        let entry = ring.entry(number);
        let len = len.min(INLINE_MAX);
        self.next.entry = number.wrapping_add(1);
        entry.write_short(packet);
        let word = Word::new(number, len, traffic_class);
        entry.word.store(word.0, Ordering::Release);
    }

    #[inline(always)]
    fn publish(&mut self, ring: &Ring, packet: &[u8], traffic_class: u8, flags: u64) {
        let len = packet.len();
        if len > PACKET_MAX {
            return;
        }
        let number = self.next.entry;
        let entry = ring.entry(number);
        match self.next.advance(len) {
            None => entry.write(packet),
            Some(offset) => {
                let to = ring.data(offset, len);
                // SAFETY: `to` has room for `len` bytes, which the consumer has released. A peer that breaks
                // that rule makes the bytes undefined, not their place.
                unsafe { core::ptr::copy_nonoverlapping(packet.as_ptr(), to, len) };
            }
        }
        let word = Word::new(number, len, traffic_class);
        entry.word.store(word.0 | flags, Ordering::Release);
    }
}

/// The consumer's own state.
pub struct Consumer {
    next: Position,
    /// [`Consumer::next`] at the last check of [`Consumer::may_starve`].
    checked: Position,
    buffer: Box<[u8; PACKET_MAX]>,
}

/// An entry has a value that no producer writes: the other side is damaged or hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// Where a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In its entry.
    Entry,
    /// In the data area, and no longer than what [`Ring::prefetch`] prefetches.
    Prefetched,
    /// In the data area.
    Data,
}

/// A packet, copied out of the ring.
pub struct Popped<'a> {
    /// It, and behind it any bytes.
    buffer: &'a [u8; PACKET_MAX],
    len: usize,
    pub traffic_class: u8,
    /// There is a reference in place of the payload.
    pub is_by_reference: bool,
}

impl Popped<'_> {
    /// Its bytes.
    pub fn packet(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// Where it was.
    #[inline]
    pub fn place(&self) -> Place {
        if self.len <= INLINE_MAX {
            Place::Entry
        } else if self.len <= PREFETCHED {
            Place::Prefetched
        } else {
            Place::Data
        }
    }

    /// What it is, if it is a short packet.
    #[inline(always)]
    pub fn short(&self) -> Option<Short<'_>> {
        if self.is_by_reference {
            return None;
        }
        Short::parse(self.buffer, self.len)
    }
}

impl Consumer {
    /// A consumer at the start of a ring. None if there is no memory.
    pub fn try_new() -> Option<Consumer> {
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(PACKET_MAX).ok()?;
        buffer.resize(PACKET_MAX, 0);
        Some(Consumer {
            next: Position::default(),
            checked: Position::default(),
            buffer: buffer.into_boxed_slice().try_into().ok()?,
        })
    }

    /// The number of the next entry.
    pub fn next(&self) -> u32 {
        self.next.entry
    }

    /// Where the next packet is in the data area, if it is there and the area does not end before.
    pub fn next_data(&self) -> u32 {
        self.next.data
    }

    /// Whether it is time for [`Ring::take_starved`], which takes a fence. A producer that begins to wait
    /// after the last check waits for more packets than may be taken until the next one.
    #[inline]
    pub fn may_starve(&mut self) -> bool {
        let entries = self.next.entry.wrapping_sub(self.checked.entry);
        let data = self.next.data.wrapping_sub(self.checked.data);
        let is_due = entries >= CHECK_ENTRIES || data >= CHECK_DATA;
        if is_due {
            self.checked = self.next;
        }
        is_due
    }

    /// Takes the next packet; None if there is none.
    #[inline]
    pub fn pop(&mut self, ring: &Ring) -> Result<Option<Popped<'_>>, Broken> {
        let number = self.next.entry;
        let entry = ring.entry(number);
        let word = Word(entry.word.load(Ordering::Acquire));
        if !word.is_of(number) {
            return Ok(None);
        }
        let len = word.len();
        if len > PACKET_MAX {
            return Err(Broken);
        }
        match self.next.advance(len) {
            // All words: what lies behind the packet is never read.
            None => {
                if let Some(bytes) = self.buffer.first_chunk_mut() {
                    entry.read_short(bytes);
                }
            }
            Some(offset) => {
                let from = ring.data(offset, len);
                let into = &mut self.buffer[..len];
                // SAFETY: `len` bytes of the data area, which the producer has published; `into` is this
                // process's own. A peer that still writes makes the copy's content undefined, no more.
                unsafe { core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), len) };
            }
        }
        ring.consumed.0.store(self.next.pack(), Ordering::Release);
        Ok(Some(Popped {
            buffer: &self.buffer,
            len,
            traffic_class: word.traffic_class(),
            is_by_reference: word.is_by_reference(),
        }))
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
