//! The CPU architecture: the only module of the library with a `cfg` for it. uroce has another
//! (`crates/uroce/src/arch`), because it does not depend on the library.
//!
//! An architecture is a file here that defines:
//!
//! | name | what it is |
//! |---|---|
//! | `jump!()` | the instruction that jumps to `{imp}` anywhere in the library, as text |
//! | `variadic!` | a C function with `...`: passes the address of a `va_list` |
//! | `ELF_MACHINE` | `e_machine` in the header of its ELF files |
//! | `multiarch!()` | Debian's directory of its libraries below /usr/lib, as a literal |
//! | `DEVICE_WRITES_ARE_ORDERED` | whether the CPU sees what a device writes in the order of the writes |
//! | `program_counter` | where a signal has interrupted the program |
//! | `SYS_POLL` | the number of poll(2), if there is one |
//! | `valgrind_request` | a client request, the sequence of instructions that valgrind recognises |
//!
//! Nothing else of the library depends on it. Offsets follow from the types, whose sizes differ between
//! architectures only by libc's `pthread_mutex_t` (x86-64: 40 bytes, arm64: 48). Page sizes are read from the
//! kernel. The order of memory accesses is stated by atomic operations. `ibverbs-abi` refuses big-endian
//! and 32-bit targets.

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
    "libibverbs-rs supports x86-64, arm64 and riscv64. Another architecture needs a file in src/arch and in \
     crates/uroce/src/arch: the mod.rs of each says what it defines"
);
