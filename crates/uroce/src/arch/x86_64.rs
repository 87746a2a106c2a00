//! x86-64.

pub mod nofault;
pub mod restart;

/// `R_X86_64_JUMP_SLOT`.
pub const JUMP_SLOT: u32 = 7;
/// `R_X86_64_GLOB_DAT`.
pub const GLOB_DAT: u32 = 6;
/// `R_X86_64_64`.
pub const ABSOLUTE: u32 = 1;
/// The order in which other CPUs see copies that follow each other is this order.
pub const COPIES_IN_ORDER: bool = true;

/// `fence(SeqCst)` in half of its time: a locked instruction orders a store before later loads as MFENCE
/// does.
#[cfg(not(loom))]
#[inline(always)]
pub fn full_fence() {
    // SAFETY: it changes nothing: a word of this thread's stack, by 0.
    unsafe { core::arch::asm!("lock or dword ptr [rsp], 0") };
}

/// Moves a cache line to this CPU, for stores. It has no other effect, whatever the address is.
#[cfg(not(loom))]
#[inline(always)]
pub fn prefetch_for_write(line: *const u8) {
    // SAFETY: a prefetch accesses nothing as far as programs can tell, and does not fault.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, readonly, preserves_flags))
    };
}

/// System calls that newer architectures do not have.
pub const SYS_OPEN: i64 = libc::SYS_open;
pub const SYS_STAT: i64 = libc::SYS_stat;
pub const SYS_LSTAT: i64 = libc::SYS_lstat;
pub const SYS_ACCESS: i64 = libc::SYS_access;
pub const SYS_READLINK: i64 = libc::SYS_readlink;
pub const SYS_DUP2: i64 = libc::SYS_dup2;

/// The instructions of dlopen: calls `{may_call}` with the arguments and the return address, then jumps to
/// `{load}` if that returned true, else to where `{real}` points.
macro_rules! dlopen_entry {
    () => {
        concat!(
            "endbr64\n",
            "mov rdx, [rsp]\n",
            "push rdi\n",
            "push rsi\n",
            "sub rsp, 8\n",
            "call {may_call}\n",
            "add rsp, 8\n",
            "pop rsi\n",
            "pop rdi\n",
            "test al, al\n",
            "jne {load}\n",
            "jmp qword ptr [rip + {real}]\n",
        )
    };
}

/// The instructions of dlsym: calls `{look}` with the arguments. Returns its result if that is not NULL, else
/// jumps to where `{real}` points, with the arguments.
macro_rules! dlsym_entry {
    () => {
        concat!(
            "endbr64\n",
            "push rdi\n",
            "push rsi\n",
            "sub rsp, 8\n",
            "call {look}\n",
            "add rsp, 8\n",
            "pop rsi\n",
            "pop rdi\n",
            "test rax, rax\n",
            "je 2f\n",
            "ret\n",
            "2:\n",
            "jmp qword ptr [rip + {real}]\n",
        )
    };
}
