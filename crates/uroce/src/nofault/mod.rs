//! Accesses to the program's memory that return [`Fault`] where any other access would raise SIGSEGV or
//! SIGBUS: the memory is not mapped any more, does not allow the access, or lies behind the end of a file
//! that was cut short.
//!
//! The accesses are functions of assembly (`arch/*/nofault.rs`) without a stack frame, next to each other.
//! [`handler`] is a handler of the two signals. If the faulting instruction is one of theirs, the function
//! returns at once. All other signals go to the handler that was installed before. So an access that succeeds
//! costs nothing more than without.
//!
//! A thread that blocks the signal is killed by the kernel, as without the handler.

pub mod handler;

use crate::arch;

/// Memory that could not be accessed. A part of it may have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// The result of a function of assembly, in two registers.
#[repr(C)]
struct Outcome {
    /// 0 or 1.
    faulted: usize,
    /// The value that was there, of a load, or compare and exchange that has not faulted.
    value: u64,
}

impl Outcome {
    #[inline(always)]
    fn into_result(self) -> Result<u64, Fault> {
        if self.faulted == 0 {
            Ok(self.value)
        } else {
            Err(Fault)
        }
    }
}

unsafe extern "C" {
    static uroce_nofault_start: u8;
    static uroce_nofault_end: u8;
    static uroce_nofault_fixup: u8;
    fn uroce_nofault_copy(to: *mut u8, from: *const u8, len: usize) -> usize;
    fn uroce_nofault_load(at: *const u64) -> Outcome;
    fn uroce_nofault_store(at: *mut u64, value: u64) -> usize;
    fn uroce_nofault_compare_exchange(at: *mut u64, old: u64, new: u64) -> Outcome;
}

#[inline(always)]
fn result(faulted: usize) -> Result<(), Fault> {
    if faulted == 0 { Ok(()) } else { Err(Fault) }
}

/// Copies `len` bytes, which do not overlap, in any order.
///
/// # Safety
/// What is mapped at these addresses may be read and written, respectively, by the device: it is registered
/// memory of the program, or uroce's own.
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> Result<(), Fault> {
    // SAFETY: as the caller says; where nothing is mapped, the function returns 1.
    result(unsafe { uroce_nofault_copy(to, from, len) })
}

/// [`copy`] of many bytes to memory that another CPU reads next, and had read before. On x86-64 the stores
/// bypass the caches: that saves the transfer of each line from the other CPU's cache (benches/uroce).
///
/// # Safety
/// As for [`copy`].
#[inline]
pub unsafe fn copy_to_other_cpu(from: *const u8, to: *mut u8, len: usize) -> Result<(), Fault> {
    let streamed = arch::nofault::streamed_len(to, len);
    if streamed == 0 {
        // SAFETY: as the caller says.
        return unsafe { copy(from, to, len) };
    }
    // SAFETY: as the caller says; the parts lie within what it has passed.
    unsafe {
        result(arch::nofault::stream(to, from, streamed))?;
        copy(from.add(streamed), to.add(streamed), len - streamed)
    }
}

/// Loads eight aligned bytes, as one.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
pub unsafe fn load(at: *const u64) -> Result<u64, Fault> {
    // SAFETY: as for `copy`.
    unsafe { uroce_nofault_load(at) }.into_result()
}

/// Stores eight aligned bytes, as one, after all earlier accesses (`Release`).
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
pub unsafe fn store(at: *mut u64, value: u64) -> Result<(), Fault> {
    // SAFETY: as for `copy`.
    result(unsafe { uroce_nofault_store(at, value) })
}

/// Replaces eight aligned bytes by `new`, atomically (`SeqCst`), if they are `old`. Returns what they were.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
pub unsafe fn compare_exchange(at: *mut u64, old: u64, new: u64) -> Result<u64, Fault> {
    // SAFETY: as for `copy`.
    unsafe { uroce_nofault_compare_exchange(at, old, new) }.into_result()
}

/// Ends an access: if the signal's context is within one of the functions above, makes the function
/// return a fault when the handler returns. False if it is not.
///
/// # Safety
/// `context` is what the kernel has passed to a signal handler, which runs.
unsafe fn end_access(context: *mut core::ffi::c_void) -> bool {
    let start = &raw const uroce_nofault_start as usize;
    let end = &raw const uroce_nofault_end as usize;
    // SAFETY: as the caller says. The fix-up is entered with the stack and the return address of the function
    // that it ends, which has changed neither.
    unsafe {
        let at = arch::nofault::instruction_pointer(context);
        let is_ours = (start..end).contains(&*at);
        if is_ours {
            *at = &raw const uroce_nofault_fixup as usize;
        }
        is_ours
    }
}

#[cfg(test)]
pub(crate) mod tests;
