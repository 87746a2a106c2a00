//! Copies between the program's memory and uroce's buffers.
//!
//! The program may read and write its memory at the same time, as with any RDMA device. So no reference to
//! that memory is ever made, and the content that a racing access sees is not defined.
//!
//! The program may also have unmapped the memory, or taken rights to it away. Then a copy returns [`Fault`],
//! and may have copied some of the bytes.

use core::sync::atomic::{Ordering, fence};

use super::mr_table::MrSlice;
use crate::cancellation;
use crate::nofault::{self, Fault};

/// The last bytes of a write, which become visible after all others: programs poll the last byte of a
/// message.
const TAIL_LEN: usize = 8;

/// Copies out of the program's memory. `into` is as long as the slice.
#[inline]
pub fn read(from: &MrSlice, into: &mut [u8]) -> Result<(), Fault> {
    debug_assert_eq!(from.len, into.len());
    // SAFETY: `from` lies in a memory region, and borrows the table's lock or the queue pair's, which keeps
    // the region registered; `into` is uroce's own and does not overlap it.
    unsafe { nofault::copy_to_other_cpu(from.ptr, into.as_mut_ptr(), from.len.min(into.len())) }
}

/// Copies into the program's memory. `from` is as long as the slice.
#[inline]
pub fn write(to: &MrSlice, from: &[u8]) -> Result<(), Fault> {
    debug_assert_eq!(to.len, from.len());
    let len = to.len.min(from.len());
    let head_len = len.saturating_sub(TAIL_LEN);
    // SAFETY: `to` lies in a region whose access flags allow writing; it borrows the table's lock or the
    // queue pair's, which keeps the region registered. `from` is uroce's own. The atomic store's address was
    // checked for alignment.
    unsafe {
        if head_len > 0 {
            nofault::copy(from.as_ptr(), to.ptr, head_len)?;
        }
        fence(Ordering::Release);
        let (tail, last) = (to.ptr.add(head_len), from.as_ptr().add(head_len));
        if len - head_len == TAIL_LEN && tail.cast::<u64>().is_aligned() {
            nofault::store(tail.cast(), last.cast::<u64>().read_unaligned())?;
        } else {
            nofault::copy(last, tail, len - head_len)?;
        }
    }
    // The completion of this message must not become visible before its data.
    fence(Ordering::Release);
    Ok(())
}

/// The slice as an atomic integer. Fails if it is not eight aligned bytes.
fn atomic_u64(slice: &MrSlice) -> Result<*mut u64, Fault> {
    let ptr = slice.ptr.cast::<u64>();
    (slice.len == 8 && ptr.is_aligned())
        .then_some(ptr)
        .ok_or(Fault)
}

/// Atomically replaces the value `old` at the slice by `change(old)`; returns `old`. Fails if the slice is
/// not eight aligned bytes.
pub fn fetch_update(slice: &MrSlice, change: &mut dyn FnMut(u64) -> u64) -> Result<u64, Fault> {
    let at = atomic_u64(slice)?;
    // SAFETY: eight aligned bytes in a writable region. The slice borrows the table's lock, which keeps the
    // region registered. A program that accesses them without atomics at the same time races with the device.
    let mut old = unsafe { nofault::load(at) }?;
    loop {
        // SAFETY: as for the load.
        match unsafe { nofault::compare_exchange(at, old, change(old)) }? {
            current if current == old => return Ok(old),
            current => old = current,
        }
    }
}

/// Writes the eight bytes atomically. Fails if the slice is not eight aligned bytes.
pub fn store(slice: &MrSlice, data: [u8; 8]) -> Result<(), Fault> {
    let at = atomic_u64(slice)?;
    // SAFETY: as in `fetch_update`.
    unsafe { nofault::store(at, u64::from_ne_bytes(data)) }?;
    fence(Ordering::SeqCst);
    Ok(())
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
