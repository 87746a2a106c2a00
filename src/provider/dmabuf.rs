//! `ibv_cmd_reg_dmabuf_mr` of provider ABI 34, which has two signatures under one name and version.
//!
//! rdma-core v54 appended an eighth argument, attributes of the provider's own, without a new version.
//! Providers of v34 to v53 push seven arguments, so the eighth is whatever lies on their stack. Only
//! libmlx5 has ever passed anything but NULL, and it has done so since it defines
//! `mlx5dv_reg_dmabuf_mr@MLX5_1.25`: for a device of such a library the argument is real.

use core::{
    ffi::{CStr, c_void},
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering},
};

use ibverbs_abi::*;
use libc::c_int;

use crate::uverbs::cmd::mr::reg_dmabuf_mr;

/// The ops of the providers that were asked last, by the answer: a process has one libmlx5 (one
/// SONAME), so this is as good as a table.
static PASSES_EIGHT: AtomicPtr<verbs_device_ops> = AtomicPtr::new(null_mut());
static PASSES_SEVEN: AtomicPtr<verbs_device_ops> = AtomicPtr::new(null_mut());

/// Whether the provider that `ops` belongs to passes the eighth argument.
///
/// # Safety
/// `ops` is a registered provider's.
unsafe fn passes_eight(ops: *const verbs_device_ops) -> bool {
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

/// Registers a part of a dma-buf for a provider of ABI 34; `driver` counts only if the provider is of
/// those that pass it.
///
/// # Safety
/// `pd` and `vmr` are the provider's live structures.
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn ibv_cmd_reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
    vmr: *mut verbs_mr,
    driver: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: by the contract; every device of this library begins a verbs_device. Reading an argument
    // that was not pushed reads the caller's stack frame, and what is read there is not used.
    unsafe {
        let device = (*(*pd).context).device.cast::<verbs_device>();
        let driver = if !driver.is_null() && passes_eight((*device).ops) {
            driver
        } else {
            null_mut()
        };
        reg_dmabuf_mr(pd, offset, length, iova, fd, access, vmr, driver)
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
