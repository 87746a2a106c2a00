//! The table that a process exports: its layout, and mappings of it.

use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::grant::WORDS;
use super::liveness::Liveness;
use crate::restart::Expected;

/// Entries for regions, and for queue pairs, that are used first.
const FIRST: usize = if cfg!(loom) { 1 } else { 4096 };
/// Entries that are used when the first ones are not enough. The memory of what is not used is not
/// allocated.
pub const FURTHER: usize = FIRST * 16;
/// An object is in one of this number of entries, or of as many further ones.
pub const PLACES: usize = if cfg!(loom) { 1 } else { 8 };

/// An entry. Its version is odd while the owner writes it.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Entry {
    version: AtomicU32,
    words: [AtomicU64; WORDS],
}

impl Entry {
    /// The owner writes. Only one thread does at a time.
    pub fn write(&self, words: [u64; WORDS]) {
        let version = self.version.load(Ordering::Relaxed);
        self.version
            .store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        for (to, from) in self.words.iter().zip(words) {
            to.store(from, Ordering::Relaxed);
        }
        self.version
            .store(version.wrapping_add(2), Ordering::Release);
    }

    /// Reads the words that the owner has written. None while it writes.
    pub fn read(&self) -> Option<[u64; WORDS]> {
        self.read_version().map(|(words, _)| words)
    }

    /// [`Entry::read`], and a word that keeps its value until the owner writes again.
    pub fn read_version(&self) -> Option<([u64; WORDS], Expected)> {
        let before = self.version.load(Ordering::Acquire);
        let mut words = [0; WORDS];
        for (to, from) in words.iter_mut().zip(&self.words) {
            *to = from.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        let after = self.version.load(Ordering::Relaxed);
        let version = (&raw const self.version).cast();
        (before == after && before & 1 == 0).then_some((words, (version, before)))
    }
}

/// The contents of the memfd. Zeros: nothing is exported.
#[repr(C)]
pub struct Table {
    /// Whether the owner exists.
    pub liveness: Liveness,
    /// Random; by it peers recognise the table.
    pub secret: AtomicU64,
    regions: Entries,
    queue_pairs: Entries,
}

#[repr(C)]
struct Entries {
    first: [Entry; FIRST],
    further: [Entry; FURTHER],
}

impl Entries {
    /// Iterates over the entries that may be those of an object with this number.
    fn places(&self, number: usize) -> impl Iterator<Item = &Entry> {
        let nth = move |i: usize| number.wrapping_add(i);
        let first = (0..PLACES).map(move |i| &self.first[nth(i) % FIRST]);
        first.chain((0..PLACES).map(move |i| &self.further[nth(i) % FURTHER]))
    }
}

impl Table {
    /// Iterates over the entries that may be those of a region with this key.
    pub fn region(&self, rkey: u32) -> impl Iterator<Item = &Entry> {
        self.regions.places((rkey >> 8) as usize)
    }

    /// Iterates over the entries that may be those of a queue pair with this number.
    pub fn queue_pair(&self, qpn: u32) -> impl Iterator<Item = &Entry> {
        self.queue_pairs.places(qpn as usize)
    }
}

/// A mapping of a table.
pub struct Mapping(NonNull<Table>);

// SAFETY: all of a table is `Sync`, and the mapping belongs to its owner until that is dropped.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a table that is as long as its descriptor's seals keep it. Fails as mmap(2).
    pub fn new(fd: RawFd, prot: i32) -> io::Result<Mapping> {
        let none = core::ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses.
        let at = unsafe { libc::mmap(none, size_of::<Table>(), prot, libc::MAP_SHARED, fd, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let table = NonNull::new(at.cast()).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Mapping(table))
    }

    /// The table.
    pub fn table(&self) -> &Table {
        // SAFETY: mapped until `self` is dropped, as long as a `Table`, and cannot be cut short: its length
        // is sealed. All of it is atomic, so that its owner may change it.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and no reference to it is left.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Table>()) };
    }
}
