//! The CPU architecture: the only module of this crate with a `cfg` for it.
//!
//! An architecture is a file here that defines:
//!
//! | name | what it is |
//! |---|---|
//! | `JUMP_SLOT`, `GLOB_DAT`, `ABSOLUTE` | types of the relocations whose entry is a function's address |
//! | `COPIES_IN_ORDER` | whether other CPUs see copies by the kernel in their order, without fences |
//! | `prefetch_for_write` | the instruction that moves a cache line here for later stores |
//! | `SYS_OPEN` and others | system calls that not all architectures have |
//! | `restart` | the instructions behind `crate::restart`, and a clock |
//! | `nofault` | the functions behind `crate::nofault`; the program counter in a signal's context |
//! | `dlopen_entry!()`, `dlsym_entry!()` | the instructions of two functions that `view` puts in the GOT |
//!
//! Its ABI of procedure calls must pass the integer arguments of a variadic function as those of any other
//! function, because `view` calls open(2) as a function of three arguments, and syscall(2) as one of seven.
//!
//! The layouts in shared memory and in packets have explicit byte orders and sizes. The order of accesses to
//! shared memory is stated by atomic operations (`shm::ring`), and not left to the architecture.

pub mod rseq;

#[cfg(target_arch = "aarch64")]
#[macro_use]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub use aarch64::*;

#[cfg(target_arch = "riscv64")]
#[macro_use]
mod riscv64;
#[cfg(target_arch = "riscv64")]
pub use riscv64::*;

#[cfg(target_arch = "x86_64")]
#[macro_use]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
compile_error!(
    "uroce supports x86-64, arm64 and riscv64: src/arch/mod.rs says what another architecture defines"
);
