//! Copies between the program's memory and ours. The program may use its memory at the same time, as
//! with any RDMA device: no reference to it is ever made, and what races sees is its own business.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use super::table::Piece;

/// How many of the last bytes are written after all others: programs poll the last byte of a message.
const LAST: usize = 8;

/// Copies out of the program's memory. `into` is as long as the piece.
pub fn read(piece: &Piece, into: &mut [u8]) {
    debug_assert_eq!(piece.len, into.len());
    // SAFETY: the piece lies in a region that the program has registered, was there then, and that the
    // table's lock, which the piece borrows, keeps registered; `into` is ours and not in it.
    unsafe { core::ptr::copy(piece.at, into.as_mut_ptr(), piece.len.min(into.len())) }
}

/// Copies into the program's memory. `from` is as long as the piece.
pub fn write(piece: &Piece, from: &[u8]) {
    debug_assert_eq!(piece.len, from.len());
    let len = piece.len.min(from.len());
    let first = len.saturating_sub(LAST);
    // SAFETY: as in `read`; the region may be written to, which the table has checked.
    unsafe {
        core::ptr::copy(from.as_ptr(), piece.at, first);
        fence(Ordering::Release);
        let last = piece.at.add(first);
        if len - first == LAST && last.cast::<u64>().is_aligned() {
            let bytes = from.as_ptr().add(first).cast::<u64>().read_unaligned();
            AtomicU64::from_ptr(last.cast()).store(bytes, Ordering::Release);
        } else {
            core::ptr::copy(from.as_ptr().add(first), last, len - first);
        }
    }
    // A completion that tells of the message comes after it.
    fence(Ordering::Release);
}

/// The eight bytes as an atomic number; None if they are not aligned in the program's memory.
fn number<'a>(piece: &'a Piece) -> Option<&'a AtomicU64> {
    let at = piece.at.cast::<u64>();
    // SAFETY: as in `write`, aligned, and eight bytes long. That the program itself only uses it
    // atomically is its business.
    (piece.len == 8 && at.is_aligned()).then(|| unsafe { AtomicU64::from_ptr(at) })
}

/// Replaces the number by `change` of it; returns what was there.
pub fn fetch_update(piece: &Piece, change: &mut dyn FnMut(u64) -> u64) -> Option<u64> {
    let number = number(piece)?;
    let mut old = number.load(Ordering::Relaxed);
    loop {
        let new = change(old);
        match number.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => return Some(old),
            Err(now) => old = now,
        }
    }
}

/// Writes the eight bytes at once.
pub fn store(piece: &Piece, data: [u8; 8]) -> Option<()> {
    number(piece)?.store(u64::from_ne_bytes(data), Ordering::SeqCst);
    Some(())
}

/// Makes the piece visible to all, or persistent: then its pages are written to their file, if they
/// have one. False if that fails.
pub fn flush(piece: &Piece, persistent: bool) -> bool {
    fence(Ordering::SeqCst);
    if !persistent {
        return true;
    }
    let page = super::prefault::page_size();
    let start = piece.at as usize & !(page - 1);
    let len = piece.at as usize + piece.len - start;
    // SAFETY: writing pages to their file changes nothing in memory, whatever the range is.
    unsafe { libc::msync(start as *mut _, len, libc::MS_SYNC) == 0 }
}
