//! Device memory.

use ibverbs_abi::*;
use libc::{EINVAL, c_int};

use super::mr::LINK_ROOM;
use crate::uverbs::{Destroyed, destroyed, ioctl::Command, linked};

/// Allocates device memory.
///
/// # Safety
/// All pointers are live; `link` is null or the provider's live chain of command buffers.
pub unsafe extern "C" fn ibv_cmd_alloc_dm(
    context: *mut ibv_context,
    dm_attr: *const ibv_alloc_dm_attr,
    dm: *mut verbs_dm,
    link: *mut ibv_command_buffer,
) -> c_int {
    let mut cmd = Command::<{ 3 + LINK_ROOM }>::new(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC);
    let handle = cmd.new_object(UVERBS_ATTR_ALLOC_DM_HANDLE);
    // SAFETY: by the contract.
    unsafe {
        cmd.u64(UVERBS_ATTR_ALLOC_DM_LENGTH, (*dm_attr).length as u64);
        cmd.u32(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, (*dm_attr).log_align_req);
        if let Err(error) = linked::execute(context, &mut cmd, link) {
            return error.0;
        }
        (*dm).handle = cmd.made(handle);
        (*dm).dm.handle = (*dm).handle;
        (*dm).dm.comp_mask = IBV_DM_MASK_HANDLE;
        (*dm).dm.context = context;
    }
    0
}

/// Frees device memory.
///
/// # Safety
/// `dm` is live.
pub unsafe extern "C" fn ibv_cmd_free_dm(dm: *mut verbs_dm) -> c_int {
    let mut cmd = Command::<1>::new(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE);
    // SAFETY: by the contract.
    let ret = unsafe {
        cmd.object(UVERBS_ATTR_FREE_DM_HANDLE, (*dm).handle);
        cmd.execute((*dm).dm.context)
    };
    match destroyed(ret.into_c()) {
        Destroyed::Yes => 0,
        Destroyed::Return(ret) => ret,
    }
}

/// Registers device memory, which has no address in the program: the region must be zero-based.
///
/// # Safety
/// All pointers are live; `link` is null or the provider's live chain of command buffers.
pub unsafe extern "C" fn ibv_cmd_reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut verbs_dm,
    offset: u64,
    length: usize,
    access: u32,
    vmr: *mut verbs_mr,
    link: *mut ibv_command_buffer,
) -> c_int {
    if access & IBV_ACCESS_ZERO_BASED == 0 {
        Errno(EINVAL).set();
        return EINVAL;
    }
    let mut cmd = Command::<{ 8 + LINK_ROOM }>::new(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG);
    let (mut lkey, mut rkey) = (0u32, 0u32);
    let handle = cmd.new_object(UVERBS_ATTR_REG_DM_MR_HANDLE);
    cmd.output(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, &raw mut lkey);
    cmd.output(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, &raw mut rkey);
    // SAFETY: by the contract; the keys are on this stack.
    unsafe {
        cmd.object(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, (*pd).handle);
        cmd.object(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, (*dm).handle);
        cmd.u64(UVERBS_ATTR_REG_DM_MR_OFFSET, offset);
        cmd.u64(UVERBS_ATTR_REG_DM_MR_LENGTH, length as u64);
        cmd.u32(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, access);
        if let Err(error) = linked::execute((*pd).context, &mut cmd, link) {
            return error.0;
        }
        let mr = &mut (*vmr).ibv_mr;
        mr.handle = cmd.made(handle);
        mr.context = (*pd).context;
        mr.lkey = lkey;
        mr.rkey = rkey;
        mr.length = length;
        mr.pd = pd;
        mr.addr = core::ptr::null_mut();
        (*vmr).mr_type = IBV_MR_TYPE_MR;
    }
    0
}
