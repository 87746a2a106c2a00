//! `ibv_cmd_reg_dmabuf_mr` of provider ABI 34, which has two signatures under one name and version. Providers
//! of newer ABIs all pass eight arguments, and call `uverbs::cmd::mr` directly.
//!
//! rdma-core v54 appended an eighth argument, `driver` (attributes of the provider's own), without a
//! new symbol version. Providers of v34 to v53 pass seven arguments, so the eighth is an undefined word
//! of their stack. Only libmlx5 passes a value other than NULL, and only since the release that first
//! defined `mlx5dv_reg_dmabuf_mr@MLX5_1.25`. So the argument is used for devices of such a libmlx5 only.

#[cfg(not(feature = "static"))]
mod driver_arg;

use core::ptr::null_mut;

use ibverbs_abi::*;
use libc::c_int;

#[cfg(not(feature = "static"))]
use self::driver_arg::passes_driver_arg;
use crate::uverbs::cmd::mr::reg_dmabuf_mr;

/// Never in a static library: `scripts/build-static` links archives of v54 and later, which pass
/// `driver`, to the command that has eight arguments.
#[cfg(feature = "static")]
unsafe fn passes_driver_arg(_ops: *const verbs_device_ops) -> bool {
    false
}

/// Registers a part of a dma-buf for a provider of ABI 34. `driver` is ignored unless the provider is
/// known to pass it. Returns 0 or an errno value.
///
/// # Safety
/// `pd` is a live protection domain and `vmr` is writable. `driver` is NULL or a live command buffer if
/// the provider passes it, else any value.
#[allow(clippy::too_many_arguments)] // the C signature
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
    // SAFETY: the domain is alive, so its context and device are, and a device is the start of a
    // verbs_device. An argument that was not passed reads the caller's stack, and is not used.
    unsafe {
        let device = (*(*pd).context).device.cast::<verbs_device>();
        let driver = if !driver.is_null() && passes_driver_arg((*device).ops) {
            driver
        } else {
            null_mut()
        };
        reg_dmabuf_mr(pd, offset, length, iova, fd, access, vmr, driver)
    }
}
