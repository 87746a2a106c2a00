//! What C sees of libibverbs: `#[repr(C)]` types and constants. No behaviour.
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

mod kernel;
mod layouts;
mod ops;
mod provider;
mod public;

pub use kernel::*;
pub use layouts::*;
pub use ops::*;
pub use provider::*;
pub use public::*;

use core::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use libc::{dev_t, pthread_cond_t, pthread_mutex_t, timespec};
