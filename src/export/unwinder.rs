//! The unwinder's functions that the standard library and the crate backtrace refer to. They are called while
//! a panic or IBV_EXPLAIN prints a backtrace, and while glibc unwinds the stack of a cancelled thread.
//!
//! Each looks for the function in libgcc_s when it is called first, as glibc does for a cancellation. So the
//! library does not depend on libgcc_s, and the processes that never need it, nearly all, do not load it.
//! A copy of our own would not do: glibc's unwinder passes objects of libgcc_s to these functions.
//!
//! Interface: Itanium C++ ABI, "Exception Handling", section 1.

use core::{
    ffi::{CStr, c_int, c_void},
    mem::transmute,
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

/// `_URC_END_OF_STACK`.
const END_OF_STACK: c_int = 5;

/// The function of this name in libgcc_s, or null. `found` keeps it. The library stays loaded.
fn find(found: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = found.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: both names are C strings; loading libgcc_s runs no code of the program.
    let function = unsafe {
        let library = libc::dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_LAZY);
        if library.is_null() {
            return ptr::null_mut();
        }
        libc::dlsym(library, name.as_ptr())
    };
    found.store(function, Ordering::Relaxed);
    function
}

/// Ends the process: only a stack that libgcc_s unwinds needs the function.
fn missing() -> ! {
    // SAFETY: abort(3) has no conditions.
    unsafe { libc::abort() }
}

/// Defines symbols that forward to libgcc_s. Each ends in what it does without libgcc_s.
macro_rules! forward {
    ($( $name:ident = $symbol:literal($($arg:ident: $type:ty),*) $(-> $result:ty)? = $absent:expr; )+) => { $(
        /// # Safety
        /// The caller keeps the conditions of the function of libgcc_s.
        unsafe extern "C-unwind" fn $name($($arg: $type),*) $(-> $result)? {
            static FOUND: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!(),
            };
            let function = find(&FOUND, NAME);
            if function.is_null() {
                $absent
            } else {
                // SAFETY: the function has this type in all versions of libgcc_s, and the caller keeps its
                // conditions.
                unsafe {
                    type Function = unsafe extern "C-unwind" fn($($type),*) $(-> $result)?;
                    let function = transmute::<*mut c_void, Function>(function);
                    function($($arg),*)
                }
            }
        }
        entry!($symbol, concat!(".hidden ", $symbol), crate::export::unwinder::$name);
    )+ };
}

forward! {
    backtrace = "_Unwind_Backtrace"(visit: *mut c_void, argument: *mut c_void) -> c_int = END_OF_STACK;
    data_base = "_Unwind_GetDataRelBase"(context: *mut c_void) -> usize = missing();
    text_base = "_Unwind_GetTextRelBase"(context: *mut c_void) -> usize = missing();
    ip = "_Unwind_GetIP"(context: *mut c_void) -> usize = missing();
    ip_info = "_Unwind_GetIPInfo"(context: *mut c_void, before: *mut c_int) -> usize = missing();
    set_ip = "_Unwind_SetIP"(context: *mut c_void, value: usize) = missing();
    set_register = "_Unwind_SetGR"(context: *mut c_void, index: c_int, value: usize) = missing();
    language_data = "_Unwind_GetLanguageSpecificData"(context: *mut c_void) -> *mut c_void = missing();
    region_start = "_Unwind_GetRegionStart"(context: *mut c_void) -> usize = missing();
    resume = "_Unwind_Resume"(exception: *mut c_void) = missing();
    cfa = "_Unwind_GetCFA"(context: *mut c_void) -> usize = missing();
    enclosing = "_Unwind_FindEnclosingFunction"(address: *mut c_void) -> *mut c_void = ptr::null_mut();
}
