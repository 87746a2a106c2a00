//! glibc.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;

use libc::{Dl_info, Elf64_Sym};

use super::LinkMap;
use crate::arch;

unsafe extern "C" {
    // Neither is in the libc crate.
    fn dladdr1(
        address: *const c_void,
        info: *mut Dl_info,
        extra: *mut *const c_void,
        flags: c_int,
    ) -> c_int;
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

const RTLD_DL_SYMENT: c_int = 1;
const RTLD_DL_LINKMAP: c_int = 2;

/// Asks dladdr1(3) about an address; None if no loaded object contains it.
fn extra(address: *const c_void, kind: c_int) -> Option<*const c_void> {
    let mut info = core::mem::MaybeUninit::<Dl_info>::uninit();
    let mut extra = core::ptr::null();
    // SAFETY: both are writable.
    let found = unsafe { dladdr1(address, info.as_mut_ptr(), &raw mut extra, kind) };
    (found != 0 && !extra.is_null()).then_some(extra)
}

/// The object that contains an address.
pub fn object_of(address: *const c_void) -> Option<*const LinkMap> {
    extra(address, RTLD_DL_LINKMAP).map(<*const c_void>::cast)
}

/// Whether a function that dlsym(3) has found is the program's PLT entry: then the object's symbol there is
/// undefined.
pub fn is_plt_entry(function: *const c_void) -> bool {
    let symbol = extra(function, RTLD_DL_SYMENT).map(<*const c_void>::cast::<Elf64_Sym>);
    // SAFETY: the symbol belongs to the program, which stays loaded.
    symbol.is_some_and(|symbol| unsafe { (*symbol).st_shndx } == 0)
}

/// An address in libc.
pub fn address() -> usize {
    libc::gnu_get_libc_version as *const () as usize
}

/// libc's sigaction, not that of a library which defines its own; NULL in a static program. By dlvsym(3),
/// because dlsym(3) finds the view's where this library is part of the program.
pub fn own_sigaction() -> *mut c_void {
    let version = arch::nofault::LIBC_VERSION.as_ptr();
    // SAFETY: the names are C strings. libc stays loaded.
    unsafe {
        let libc = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        match libc.is_null() {
            true => null_mut(),
            false => dlvsym(libc, c"sigaction".as_ptr(), version),
        }
    }
}

/// Ends the program, which would write behind its buffer, with libc's message.
pub fn end_overflow() -> ! {
    unsafe extern "C" {
        fn __chk_fail() -> !;
    }
    // SAFETY: the call has no preconditions.
    unsafe { __chk_fail() }
}
