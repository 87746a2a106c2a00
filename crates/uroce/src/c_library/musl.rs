//! musl. It unloads nothing, and has no symbol versions.

use core::ffi::{CStr, c_void};
use core::mem::MaybeUninit;
use core::ptr::{null, null_mut};

use libc::Dl_info;

use super::LinkMap;

/// The object that contains an address.
pub fn object_of(address: *const c_void) -> Option<*const LinkMap> {
    let mut info = MaybeUninit::<Dl_info>::uninit();
    // SAFETY: `info` is writable, and initialised if dladdr returns true. The list of objects begins with the
    // program, only grows, and its elements stay.
    unsafe {
        if libc::dladdr(address, info.as_mut_ptr()) == 0 {
            return None;
        }
        let name = info.assume_init().dli_fname;
        let program = libc::dlopen(null(), libc::RTLD_LAZY);
        let mut object = super::object_of_handle(program);
        // An object has one name, in one place.
        while !object.is_null() && (*object).name != name {
            object = (*object).next;
        }
        (!object.is_null()).then_some(object)
    }
}

/// Whether a function that dlsym(3) has found in the program is its PLT entry. Only programs that are not
/// position-independent have such entries; one that also defines the function itself is taken
/// for one of these.
pub fn is_plt_entry(function: *const c_void) -> bool {
    // SAFETY: the object stays loaded.
    object_of(function).is_some_and(|object| unsafe { (*object).base } == 0)
}

/// A function of libc itself; NULL in a static program.
fn own(name: &CStr) -> *mut c_void {
    // SAFETY: the names are C strings. musl takes all names that begin like this one for itself.
    unsafe {
        let libc = libc::dlopen(c"libc.so".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        match libc.is_null() {
            true => null_mut(),
            false => libc::dlsym(libc, name.as_ptr()),
        }
    }
}

/// An address in libc.
pub fn address() -> usize {
    own(c"getpid").addr()
}

/// libc's sigaction, not that of a library which defines its own.
pub fn own_sigaction() -> *mut c_void {
    own(c"sigaction")
}

/// Ends the program, which would write behind its buffer.
pub fn end_overflow() -> ! {
    // SAFETY: the call has no preconditions.
    unsafe { libc::abort() }
}
