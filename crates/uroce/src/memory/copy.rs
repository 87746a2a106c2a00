//! Copies between the program's memory and uroce's buffers.
//!
//! The program may read and write its memory at the same time, as with any RDMA device. So no reference to
//! that memory is ever made, and the content that a racing access sees is not defined.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use super::mr_table::MrSlice;
use crate::cancellation;

/// The last bytes of a write, which become visible after all others: programs poll the last byte of a
/// message.
const TAIL_LEN: usize = 8;

/// Copies out of the program's memory. `into` is as long as the slice.
pub fn read(from: &MrSlice, into: &mut [u8]) {
    debug_assert_eq!(from.len, into.len());
    // SAFETY: `from` lies in a memory region whose pages were present at registration, and borrows the
    // table's lock or the queue pair's, which keeps the region registered; `into` is uroce's own and does not
    // overlap it.
    unsafe { core::ptr::copy(from.ptr, into.as_mut_ptr(), from.len.min(into.len())) }
}

/// Copies into the program's memory. `from` is as long as the slice.
pub fn write(to: &MrSlice, from: &[u8]) {
    debug_assert_eq!(to.len, from.len());
    let len = to.len.min(from.len());
    let head_len = len.saturating_sub(TAIL_LEN);
    // SAFETY: `to` lies in a region whose pages were present at registration and whose access flags allow
    // writing; it borrows the table's lock or the queue pair's, which keeps the region registered. `from` is
    // uroce's own. The atomic store's address was checked for alignment.
    unsafe {
        core::ptr::copy(from.as_ptr(), to.ptr, head_len);
        fence(Ordering::Release);
        let tail = to.ptr.add(head_len);
        if len - head_len == TAIL_LEN && tail.cast::<u64>().is_aligned() {
            let bytes = from.as_ptr().add(head_len).cast::<u64>().read_unaligned();
            AtomicU64::from_ptr(tail.cast()).store(bytes, Ordering::Release);
        } else {
            core::ptr::copy(from.as_ptr().add(head_len), tail, len - head_len);
        }
    }
    // The completion of this message must not become visible before its data.
    fence(Ordering::Release);
}

/// The eight bytes as an atomic integer; None if they are not aligned in the program's memory.
fn atomic_u64<'a>(slice: &'a MrSlice) -> Option<&'a AtomicU64> {
    let ptr = slice.ptr.cast::<u64>();
    // SAFETY: eight aligned bytes, as checked here, in a writable region, whose pages were present at
    // registration. The slice borrows the table's lock, which keeps the region registered. A program that
    // accesses them without atomics at the same time races with the device.
    (slice.len == 8 && ptr.is_aligned()).then(|| unsafe { AtomicU64::from_ptr(ptr) })
}

/// Atomically replaces the value `old` at the slice by `change(old)`; returns `old`. None if the slice is
/// not eight aligned bytes.
pub fn fetch_update(slice: &MrSlice, change: &mut dyn FnMut(u64) -> u64) -> Option<u64> {
    let value = atomic_u64(slice)?;
    let mut old = value.load(Ordering::Relaxed);
    loop {
        let new = change(old);
        match value.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => return Some(old),
            Err(current) => old = current,
        }
    }
}

/// Writes the eight bytes atomically. None if the slice is not eight aligned bytes.
pub fn store(slice: &MrSlice, data: [u8; 8]) -> Option<()> {
    atomic_u64(slice)?.store(u64::from_ne_bytes(data), Ordering::SeqCst);
    Some(())
}

/// Makes earlier writes visible to all CPUs.
pub fn flush_to_cpus() {
    fence(Ordering::SeqCst);
}

/// Makes earlier writes visible to all CPUs, and writes the pages of `address .. address + len` to the file
/// that they are mapped from, if there is one. False if that fails. Blocks as long as the file's device
/// takes.
pub fn flush_to_file(address: usize, len: usize) -> bool {
    flush_to_cpus();
    let page = super::prefault::page_size();
    let start = address & !(page - 1);
    let len = address + len - start;
    cancellation::msync(start, len) == 0
}
