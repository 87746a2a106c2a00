//! dlopen(3) and dlsym(3): what a program loads later is redirected, too.
//!
//! libc finds out which object calls these functions by the return address: its search paths and its place
//! in the search order count. So dlsym is entered by a jump, after new objects have been redirected. dlopen
//! is called, and new objects are redirected when it returns, if the calling object makes no difference: the
//! name is a path without variables such as `$ORIGIN`, and the object has no DT_RPATH. Otherwise dlopen is
//! entered by a jump too, and the next dlsym or ibv_get_device_list redirects what it has loaded.

use core::arch::global_asm;
use core::ffi::{c_char, c_int, c_void};

use ibverbs_abi::Errno;

use crate::view::{real, redirect_new_objects};

#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const Dynamic,
}

/// An entry of the dynamic section.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

unsafe extern "C" {
    // Not in the libc crate.
    fn dladdr1(
        address: *const c_void,
        info: *mut libc::Dl_info,
        extra: *mut *const LinkMap,
        flags: c_int,
    ) -> c_int;
}

const RTLD_DL_LINKMAP: c_int = 2;
const DT_RPATH: i64 = 15;

/// Whether the object that contains this address has a DT_RPATH, which counts for what it loads.
fn has_rpath(address: *const c_void) -> bool {
    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::uninit();
    let mut map = core::ptr::null();
    // SAFETY: both structures are writable.
    let found = unsafe { dladdr1(address, info.as_mut_ptr(), &raw mut map, RTLD_DL_LINKMAP) };
    if found == 0 || map.is_null() {
        return true;
    }
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

extern "C" fn look() {
    let errno = Errno::last();
    redirect_new_objects();
    errno.set();
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
