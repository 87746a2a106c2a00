//! `ibv_cmd_reg_dmabuf_mr` of provider ABI 34, which has two signatures under one name and version.
//!
//! rdma-core v54 appended an eighth argument, attributes of the provider's own, without a new version.
//! Providers of v34 to v53 push seven arguments, so the eighth is whatever lies on their stack. Only
//! libmlx5 has ever passed anything but NULL, and it has done so since it defines
//! `mlx5dv_reg_dmabuf_mr@MLX5_1.25`: for a device of such a library the argument is real.

#[cfg(not(feature = "static"))]
mod driver_arg;

use core::ptr::null_mut;

use ibverbs_abi::*;
use libc::c_int;

#[cfg(not(feature = "static"))]
use self::driver_arg::passes_eight;
use crate::uverbs::cmd::mr::reg_dmabuf_mr;

/// In a static library the name tells: archives of v54 and later call the command that has eight.
#[cfg(feature = "static")]
unsafe fn passes_eight(_ops: *const verbs_device_ops) -> bool {
    false
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
