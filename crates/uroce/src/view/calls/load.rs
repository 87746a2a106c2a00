//! dlopen(3) and dlsym(3): what a program loads later is redirected, too.
//!
//! libc finds out which object calls these functions by the return address: its search paths and its place
//! in the search order count. So dlsym is entered by a jump, after new objects have been redirected, unless
//! it is to find a function of libc that is redirected (Java and Python's ctypes find theirs in this way).
//! dlopen is called, and new objects are redirected when it returns, if the calling object makes no
//! difference: the name is a path without variables such as `$ORIGIN`, and the object has no DT_RPATH.
//! Otherwise dlopen is entered by a jump too, and the next dlsym or ibv_get_device_list redirects what it has
//! loaded.

use core::arch::global_asm;
use core::ffi::{c_char, c_int, c_void};

use ibverbs_abi::Errno;

use super::REDIRECTIONS;
use crate::c_library::object_of;
use crate::view::{real, redirect_new_objects};

const DT_RPATH: i64 = 15;

/// Whether the object that contains this address has a DT_RPATH, which counts for what it loads.
fn has_rpath(address: *const c_void) -> bool {
    let Some(map) = object_of(address) else {
        return true;
    };
    // SAFETY: the object stays loaded while its code calls this; its dynamic section ends with DT_NULL.
    unsafe {
        let mut entry = (*map).dynamic;
        while (*entry).tag != 0 {
            if (*entry).tag == DT_RPATH {
                return true;
            }
            entry = entry.add(1);
        }
    }
    false
}

/// Whether dlopen may be called in place of the object at `caller`.
unsafe extern "C" fn may_call(path: *const c_char, _flags: c_int, caller: *const c_void) -> bool {
    // SAFETY: the program passes NULL or a C string to dlopen.
    let path = unsafe { real::bytes(path) }.unwrap_or_default();
    path.contains(&b'/') && !path.contains(&b'$') && !has_rpath(caller)
}

/// Loads an object and redirects its calls.
unsafe extern "C" fn load(path: *const c_char, flags: c_int) -> *mut c_void {
    // SAFETY: the program passes what dlopen(3) accepts.
    let handle = unsafe { real::dlopen(path, flags) };
    let errno = Errno::last();
    redirect_new_objects();
    errno.set();
    handle
}

/// Redirects what was loaded, and answers dlsym if it finds a function of libc that is redirected: the
/// function here. Else NULL.
unsafe extern "C" fn look(handle: *mut c_void, name: *const c_char) -> *const c_void {
    let errno = Errno::last();
    redirect_new_objects();
    // SAFETY: the program passes what dlsym(3) accepts.
    let found = unsafe { redirected(handle, name) };
    errno.set();
    found.unwrap_or(core::ptr::null())
}

/// The function here for the one that dlsym finds, if that is the program's first definition: where another
/// library replaces a function of libc, the one behind it is looked up by that library.
///
/// # Safety
/// As for dlsym(3).
unsafe fn redirected(handle: *mut c_void, name: *const c_char) -> Option<*const c_void> {
    if handle == libc::RTLD_NEXT {
        return None;
    }
    // SAFETY: the program passes a C string.
    let text = unsafe { real::bytes(name) }?;
    let found = REDIRECTIONS.binary_search_by(|redirection| redirection.name.to_bytes().cmp(text));
    let redirection = &REDIRECTIONS[found.ok()?];
    // SAFETY: the handle and the name are the program's.
    let found = unsafe { real::dlsym(handle, name) }.addr();
    redirection.is_first(found).then_some(redirection.to)
}

unsafe extern "C" {
    /// dlopen(3), as the module's head says.
    ///
    /// # Safety
    /// As for dlopen(3).
    #[link_name = "uroce_view_dlopen"]
    pub fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    /// dlsym(3), as the module's head says.
    ///
    /// # Safety
    /// As for dlsym(3).
    #[link_name = "uroce_view_dlsym"]
    pub fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Defines a function of assembly that no other object sees. `#[unsafe(naked)]` needs Rust 1.88.
macro_rules! assembly {
    ($name:literal, $lines:expr, $($operand:ident = sym $path:path,)+) => {
        global_asm!(
            concat!(".pushsection .text.", $name, ",\"ax\",@progbits\n.p2align 4\n"),
            concat!(".globl ", $name, "\n.hidden ", $name, "\n.type ", $name, ",@function\n"),
            concat!($name, ":"),
            $lines,
            concat!(".size ", $name, ",.-", $name, "\n.popsection"),
            $($operand = sym $path,)+
        );
    };
}

assembly! {
    "uroce_view_dlopen", dlopen_entry!(),
    may_call = sym may_call,
    load = sym load,
    real = sym real::slots::dlopen,
}

assembly! {
    "uroce_view_dlsym", dlsym_entry!(),
    look = sym look,
    real = sym real::slots::dlsym,
}
