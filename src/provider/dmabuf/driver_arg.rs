//! Recognises the providers that pass the argument `driver`.

use core::{
    ffi::{CStr, c_void},
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering},
};

use ibverbs_abi::verbs_device_ops;

/// The last provider found to pass `driver`, and the last found not to. One entry each is enough: a
/// process rarely has two libmlx5, and is only slower with more.
static WITH_DRIVER_ARG: AtomicPtr<verbs_device_ops> = AtomicPtr::new(null_mut());
static WITHOUT_DRIVER_ARG: AtomicPtr<verbs_device_ops> = AtomicPtr::new(null_mut());

/// Whether the provider that `ops` belongs to passes the argument `driver`.
///
/// # Safety
/// `ops` are a registered provider's.
pub unsafe fn passes_driver_arg(ops: *const verbs_device_ops) -> bool {
    let ops = ops.cast_mut();
    if WITHOUT_DRIVER_ARG.load(Ordering::Relaxed) == ops {
        return false;
    }
    if WITH_DRIVER_ARG.load(Ordering::Relaxed) == ops {
        return true;
    }
    // SAFETY: `ops` are registered, so they lie in a loaded provider, and the name is a C string.
    let passes = unsafe {
        let name = (*ops).name;
        !name.is_null()
            && CStr::from_ptr(name) == c"mlx5"
            && defines(ops.cast(), c"mlx5dv_reg_dmabuf_mr", c"MLX5_1.25")
    };
    let cache = if passes {
        &WITH_DRIVER_ARG
    } else {
        &WITHOUT_DRIVER_ARG
    };
    cache.store(ops, Ordering::Relaxed);
    passes
}

/// Whether the loaded file that contains `address` defines `symbol` with the version `version`.
///
/// # Safety
/// `address` lies in a loaded file.
unsafe fn defines(address: *const c_void, symbol: &CStr, version: &CStr) -> bool {
    // SAFETY: dladdr fills the structure if it succeeds; RTLD_NOLOAD returns a handle of a file that is
    // already loaded, which is closed once.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(address, &mut info) == 0 {
            return false;
        }
        let file = libc::dlopen(info.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if file.is_null() {
            return false;
        }
        let found = !find(file, symbol, version).is_null();
        libc::dlclose(file);
        found
    }
}

/// dlvsym(3).
///
/// # Safety
/// The handle is open.
#[cfg(not(target_env = "musl"))]
unsafe fn find(file: *mut c_void, symbol: &CStr, version: &CStr) -> *mut c_void {
    // SAFETY: the names are C strings; the handle is open, as the caller says.
    unsafe { libc::dlvsym(file, symbol.as_ptr(), version.as_ptr()) }
}

/// dlsym(3): musl has no symbol versions.
///
/// # Safety
/// The handle is open.
#[cfg(target_env = "musl")]
unsafe fn find(file: *mut c_void, symbol: &CStr, _version: &CStr) -> *mut c_void {
    // SAFETY: the name is a C string; the handle is open, as the caller says.
    unsafe { libc::dlsym(file, symbol.as_ptr()) }
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
