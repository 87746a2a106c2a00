//! The C interface of libibverbs: `#[repr(C)]` types and constants, under their C names, all in one
//! flat namespace. No behaviour, except for what the library and uroce share: [`Errno`] and its
//! conversions to C, disabling thread cancellation, and the IP addresses of GIDs.
//!
//! A C enum is an alias of an integer type with constants, because programs and providers pass values that
//! this library does not know. An anonymous union or struct of C is named `u` here, or `imm` and `op` in
//! work requests and completions. A field whose name is a Rust keyword has a `_` appended. `tests/layout`
//! compares every type and constant with the C headers of the distribution. Of the kernel's constants, those
//! that nothing uses are left out.
//!
//! The man pages of the verbs say what fields and constants mean; a comment here says what they do not.
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    target_endian = "little"
)))]
compile_error!(
    "libibverbs-rs supports 64-bit little-endian Linux only: its layouts are those of LP64, and it reads \
     ELF files and kernel structures in little-endian byte order"
);

mod address;
mod cancellation;
mod errno;
mod kernel;
mod layouts;
mod provider;
mod public;

pub use address::ip_of_gid;
pub use cancellation::{
    CancellationDisabled, disable_cancel_state, disable_cancellation, restore_cancel_state,
};
pub use errno::{Errno, IntoC, Result};
pub use kernel::*;
pub use layouts::*;
pub use provider::*;
pub use public::*;

use core::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use libc::{dev_t, pthread_cond_t, pthread_mutex_t, timespec};
