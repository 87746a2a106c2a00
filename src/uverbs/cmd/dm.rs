//! Commands of device memory.

use core::ptr::null_mut;

use ibverbs_abi::*;
use libc::{EINVAL, c_int};

use super::{mr::LINK_ROOM, to_c};
use crate::uverbs::{ioctl::Command, linked};

/// Allocates device memory.
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_alloc_dm(
    context: *mut ibv_context,
    dm_attr: *const ibv_alloc_dm_attr,
    dm: *mut verbs_dm,
    link: *mut ibv_command_buffer,
) -> c_int {
    to_c(|| {
        // SAFETY: `dm_attr` and `dm` are live.
        let (attr, dm) = unsafe { (&*dm_attr, &mut *dm) };
        let mut cmd = Command::<{ 3 + LINK_ROOM }>::new(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC);
        let handle = cmd.new_object(UVERBS_ATTR_ALLOC_DM_HANDLE);
        cmd.u64(UVERBS_ATTR_ALLOC_DM_LENGTH, attr.length as u64);
        cmd.u32(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, attr.log_align_req);
        // SAFETY: `context` is open, `link` is live.
        unsafe { linked::execute(context, &mut cmd, link)? };
        dm.handle = cmd.created(handle);
        dm.dm.handle = dm.handle;
        dm.dm.comp_mask = IBV_DM_MASK_HANDLE;
        dm.dm.context = context;
        Ok(())
    })
}

/// Returns a new file descriptor of a dma-buf for the pages that the device maps at `offset` in its command
/// file, or -1 with errno set.
///
/// # Safety
/// `context` is open.
pub unsafe extern "C" fn ibv_cmd_export_dmabuf_fd(
    context: *mut ibv_context,
    offset: libc::off_t,
) -> c_int {
    let mut cmd = Command::<2>::new(UVERBS_OBJECT_DMABUF, UVERBS_METHOD_DMABUF_ALLOC);
    let fd = cmd.new_object(UVERBS_ATTR_ALLOC_DMABUF_HANDLE);
    cmd.u64(UVERBS_ATTR_ALLOC_DMABUF_PGOFF, offset as u64);
    // SAFETY: `context` is open, and the command has no pointers.
    match unsafe { cmd.execute(context) } {
        Ok(()) => cmd.created(fd) as c_int,
        Err(errno) => errno.minus_one(),
    }
}

/// Registers device memory. It has no address in the program, so EINVAL unless the region is zero-based.
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut verbs_dm,
    offset: u64,
    length: usize,
    access: u32,
    vmr: *mut verbs_mr,
    link: *mut ibv_command_buffer,
) -> c_int {
    to_c(|| {
        if access & IBV_ACCESS_ZERO_BASED == 0 {
            return Errno(EINVAL).fail();
        }
        // SAFETY: `pd`, `dm` and `vmr` are live.
        let (context, pd_handle, dm_handle, vmr) =
            unsafe { ((*pd).context, (*pd).handle, (*dm).handle, &mut *vmr) };
        let (mut lkey, mut rkey) = (0u32, 0u32);
        let mut cmd = Command::<{ 8 + LINK_ROOM }>::new(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG);
        let handle = cmd.new_object(UVERBS_ATTR_REG_DM_MR_HANDLE);
        cmd.output(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, &raw mut lkey);
        cmd.output(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, &raw mut rkey);
        cmd.object(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, pd_handle);
        cmd.object(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, dm_handle);
        cmd.u64(UVERBS_ATTR_REG_DM_MR_OFFSET, offset);
        cmd.u64(UVERBS_ATTR_REG_DM_MR_LENGTH, length as u64);
        cmd.u32(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, access);
        // SAFETY: `context` is open, `link` is live, the keys are locals.
        unsafe { linked::execute(context, &mut cmd, link)? };
        let mr = &mut vmr.ibv_mr;
        mr.handle = cmd.created(handle);
        mr.context = context;
        mr.lkey = lkey;
        mr.rkey = rkey;
        mr.length = length;
        mr.pd = pd;
        mr.addr = null_mut();
        vmr.mr_type = IBV_MR_TYPE_MR;
        Ok(())
    })
}
