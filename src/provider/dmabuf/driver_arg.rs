//! Who passes the eighth argument.

use core::{
    ffi::{CStr, c_void},
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering},
};

use ibverbs_abi::verbs_device_ops;

/// The ops of the providers that were asked last, by the answer: a process has one libmlx5 (one
/// SONAME), so this is as good as a table.
static PASSES_EIGHT: AtomicPtr<verbs_device_ops> = AtomicPtr::new(null_mut());
static PASSES_SEVEN: AtomicPtr<verbs_device_ops> = AtomicPtr::new(null_mut());

/// Whether the provider that `ops` belongs to passes the eighth argument.
///
/// # Safety
/// `ops` is a registered provider's.
pub unsafe fn passes_eight(ops: *const verbs_device_ops) -> bool {
    let ops = ops.cast_mut();
    if PASSES_SEVEN.load(Ordering::Relaxed) == ops {
        return false;
    }
    if PASSES_EIGHT.load(Ordering::Relaxed) == ops {
        return true;
    }
    // SAFETY: by the contract `ops` lies in the provider's file, and its name is a C string.
    let passes = unsafe {
        let name = (*ops).name;
        !name.is_null()
            && CStr::from_ptr(name) == c"mlx5"
            && defines(ops.cast(), c"mlx5dv_reg_dmabuf_mr", c"MLX5_1.25")
    };
    let known = if passes { &PASSES_EIGHT } else { &PASSES_SEVEN };
    known.store(ops, Ordering::Relaxed);
    passes
}

/// Whether the loaded file that `address` lies in defines a symbol in a version.
///
/// # Safety
/// `address` lies in a loaded file.
unsafe fn defines(address: *const c_void, symbol: &CStr, version: &CStr) -> bool {
    // SAFETY: dladdr fills the structure if it succeeds; the handle is of a file that is loaded
    // anyway, and is closed once.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(address, &mut info) == 0 {
            return false;
        }
        let file = libc::dlopen(info.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if file.is_null() {
            return false;
        }
        let found = !libc::dlvsym(file, symbol.as_ptr(), version.as_ptr()).is_null();
        libc::dlclose(file);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_is_looked_up_in_the_file_of_an_address() {
        // SAFETY: the address is a function's of libc, which defines malloc and no verbs.
        unsafe {
            let libc = libc::malloc as *const c_void;
            assert!(defines(libc, c"malloc", c"GLIBC_2.2.5"));
            assert!(!defines(libc, c"malloc", c"MLX5_1.25"));
            assert!(!defines(libc, c"mlx5dv_reg_dmabuf_mr", c"MLX5_1.25"));
        }
    }
}
