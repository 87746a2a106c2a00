//! Informs valgrind's memcheck that the kernel has filled a buffer.
//!
//! Memcheck does not follow the pointers inside a command, so it would report the kernel's outputs as
//! uninitialised values.

/// Marks `len` bytes at `addr` as initialised. Costs a few register moves outside valgrind.
#[inline(always)]
pub fn make_mem_defined(addr: u64, len: usize) {
    /// VG_USERREQ__MAKE_MEM_DEFINED: the tool base 'M','C', request 2 (valgrind's memcheck.h).
    const MAKE_MEM_DEFINED: u64 = ((b'M' as u64) << 24 | (b'C' as u64) << 16) + 2;
    #[cfg(target_arch = "x86_64")]
    {
        let request: [u64; 6] = [MAKE_MEM_DEFINED, addr, len as u64, 0, 0, 0];
        // SAFETY: the sequence rotates rdi by 128 bits in all and exchanges rbx with itself: it
        // changes nothing on a real CPU, and under valgrind it sets rdx and reads `request`.
        unsafe {
            core::arch::asm!(
                "rol rdi, 3",
                "rol rdi, 13",
                "rol rdi, 61",
                "rol rdi, 51",
                "xchg rbx, rbx",
                in("rax") &request,
                inout("rdx") 0u64 => _,
                options(nostack, readonly),
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (MAKE_MEM_DEFINED, addr, len);
}
