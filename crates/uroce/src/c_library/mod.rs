//! Differences between C libraries, glibc and musl: what the dynamic linker reports of loaded objects, and
//! where libc's own functions are. The only module of this crate with a `cfg` for it.

use core::ffi::{c_char, c_int, c_void};

#[cfg(not(target_env = "musl"))]
mod glibc;
#[cfg(not(target_env = "musl"))]
pub use glibc::{address, end_overflow, is_plt_entry, object_of, own_sigaction};

#[cfg(target_env = "musl")]
mod musl;
#[cfg(target_env = "musl")]
pub use musl::{address, end_overflow, is_plt_entry, object_of, own_sigaction};

/// The dynamic linker's record of a loaded object (link.h).
#[repr(C)]
pub struct LinkMap {
    pub base: usize,
    pub name: *const c_char,
    pub dynamic: *const Dynamic,
    pub next: *const LinkMap,
}

/// An entry of the dynamic section.
#[repr(C)]
pub struct Dynamic {
    pub tag: i64,
    pub value: u64,
}

unsafe extern "C" {
    // Not in the libc crate.
    fn dlinfo(handle: *mut c_void, request: c_int, result: *mut c_void) -> c_int;
}

const RTLD_DI_LINKMAP: c_int = 2;

/// The object of a handle; NULL if there is none.
///
/// # Safety
/// The handle is one of dlopen(3) that is not closed.
pub unsafe fn object_of_handle(handle: *mut c_void) -> *const LinkMap {
    let mut map: *const LinkMap = core::ptr::null();
    // SAFETY: the handle is open, as the caller says, and `map` is writable for a pointer.
    unsafe { dlinfo(handle, RTLD_DI_LINKMAP, (&raw mut map).cast()) };
    map
}
