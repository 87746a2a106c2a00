//! Memory regions.

use ibverbs_abi::*;
use libc::{EINVAL, c_int, c_void};

use super::destroy::Destroy;
use crate::uverbs::{
    ioctl::Command,
    linked,
    state::Op,
    write::{self, Placed},
};

/// How many attributes a provider may add to one command.
pub(super) const LINK_ROOM: usize = 24;

/// Registers memory. An on-demand region of SIZE_MAX bytes from address 0 is the whole address space.
///
/// # Safety
/// All pointers but `addr` are the provider's own live structures, of the given sizes.
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn ibv_cmd_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    hca_va: u64,
    access: c_int,
    vmr: *mut verbs_mr,
    cmd: *mut ibv_reg_mr,
    cmd_size: usize,
    resp: *mut ib_uverbs_reg_mr_resp,
    resp_size: usize,
) -> c_int {
    if access as u32 & IBV_ACCESS_ON_DEMAND != 0 && length == usize::MAX && !addr.is_null() {
        Errno(EINVAL).set();
        return EINVAL;
    }
    // SAFETY: by the contract.
    unsafe {
        let request = &mut (*cmd).core_payload;
        request.start = addr as u64;
        request.length = length as u64;
        request.hca_va = hca_va;
        request.pd_handle = (*pd).handle;
        request.access_flags = access as u32;
        let ret = write::execute(
            (*pd).context,
            IB_USER_VERBS_CMD_REG_MR,
            Placed::whole(cmd, cmd_size),
            Placed::whole(resp, resp_size),
        );
        if ret != 0 {
            return ret;
        }
        let mr = &mut (*vmr).ibv_mr;
        mr.handle = (*resp).mr_handle;
        mr.lkey = (*resp).lkey;
        mr.rkey = (*resp).rkey;
        mr.context = (*pd).context;
        (*vmr).mr_type = IBV_MR_TYPE_MR;
        (*vmr).access = access;
    }
    0
}

/// Changes what `flags` (IBV_REREG_MR_CHANGE_*) names of a memory region.
///
/// # Safety
/// All pointers but `addr` are the provider's own live structures, of the given sizes; `pd` may be
/// null unless IBV_REREG_MR_CHANGE_PD is given.
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn ibv_cmd_rereg_mr(
    vmr: *mut verbs_mr,
    flags: u32,
    addr: *mut c_void,
    length: usize,
    hca_va: u64,
    access: c_int,
    pd: *mut ibv_pd,
    cmd: *mut ibv_rereg_mr,
    cmd_size: usize,
    resp: *mut ib_uverbs_rereg_mr_resp,
    resp_size: usize,
) -> c_int {
    let change_pd = flags & IBV_REREG_MR_CHANGE_PD != 0;
    // SAFETY: by the contract.
    unsafe {
        let mr = &mut (*vmr).ibv_mr;
        let request = &mut (*cmd).core_payload;
        request.mr_handle = mr.handle;
        request.flags = flags;
        request.start = addr as u64;
        request.length = length as u64;
        request.hca_va = hca_va;
        request.pd_handle = if change_pd { (*pd).handle } else { 0 };
        request.access_flags = access as u32;
        let ret = write::execute(
            mr.context,
            IB_USER_VERBS_CMD_REREG_MR,
            Placed::whole(cmd, cmd_size),
            Placed::whole(resp, resp_size),
        );
        if ret != 0 {
            return ret;
        }
        mr.lkey = (*resp).lkey;
        mr.rkey = (*resp).rkey;
        if change_pd {
            mr.context = (*pd).context;
        }
    }
    0
}

/// Deregisters a memory region.
///
/// # Safety
/// `vmr` is live.
pub unsafe extern "C" fn ibv_cmd_dereg_mr(vmr: *mut verbs_mr) -> c_int {
    const DESTROY: Destroy = Destroy {
        op: Op::DeregMr,
        object: UVERBS_OBJECT_MR,
        method: UVERBS_METHOD_MR_DESTROY,
        handle: UVERBS_ATTR_DESTROY_MR_HANDLE,
        write: IB_USER_VERBS_CMD_DEREG_MR,
    };
    // SAFETY: by the contract.
    unsafe { DESTROY.handle_only((*vmr).ibv_mr.context, (*vmr).ibv_mr.handle) }
}

/// Fills in a memory region that another process has registered.
///
/// # Safety
/// `pd` and `vmr` are live.
pub unsafe extern "C" fn ibv_cmd_query_mr(
    pd: *mut ibv_pd,
    vmr: *mut verbs_mr,
    mr_handle: u32,
) -> c_int {
    let mut cmd = Command::<4>::new(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR);
    // SAFETY: by the contract.
    unsafe {
        let mr = &raw mut (*vmr).ibv_mr;
        cmd.object(UVERBS_ATTR_QUERY_MR_HANDLE, mr_handle);
        cmd.output(UVERBS_ATTR_QUERY_MR_RESP_LKEY, &raw mut (*mr).lkey);
        cmd.output(UVERBS_ATTR_QUERY_MR_RESP_RKEY, &raw mut (*mr).rkey);
        cmd.output(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &raw mut (*mr).length);
        if let Err(error) = cmd.execute((*pd).context) {
            return error.0;
        }
        (*mr).handle = mr_handle;
        (*mr).context = (*pd).context;
        (*mr).pd = pd;
        (*mr).addr = core::ptr::null_mut();
        (*vmr).mr_type = IBV_MR_TYPE_IMPORTED_MR;
    }
    0
}

/// Advises the kernel about memory that will be used.
///
/// # Safety
/// `pd` is live, `sg_list` has `num_sge` members.
pub unsafe extern "C" fn ibv_cmd_advise_mr(
    pd: *mut ibv_pd,
    advice: ib_uverbs_advise_mr_advice,
    flags: u32,
    sg_list: *mut ibv_sge,
    num_sge: u32,
) -> c_int {
    let mut cmd = Command::<4>::new(UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR);
    // SAFETY: by the contract.
    unsafe {
        cmd.object(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, (*pd).handle);
        cmd.u64(UVERBS_ATTR_ADVISE_MR_ADVICE, advice.into());
        cmd.u32(UVERBS_ATTR_ADVISE_MR_FLAGS, flags);
        let len = size_of::<ibv_sge>() * num_sge as usize;
        cmd.input(UVERBS_ATTR_ADVISE_MR_SGE_LIST, sg_list.cast(), len);
        cmd.execute((*pd).context).into_c()
    }
}

/// Registers a part of a dma-buf.
///
/// `driver` (attributes of the provider's own) is an argument of the exported function since rdma-core
/// v54; `provider::dmabuf` knows who passes it.
///
/// # Safety
/// `pd` and `vmr` are live; `driver` is null or the provider's live chain of command buffers.
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
    vmr: *mut verbs_mr,
    driver: *mut ibv_command_buffer,
) -> c_int {
    let mut cmd = Command::<{ 9 + LINK_ROOM }>::new(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR);
    let (mut lkey, mut rkey) = (0u32, 0u32);
    let handle = cmd.new_object(UVERBS_ATTR_REG_DMABUF_MR_HANDLE);
    cmd.output(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &raw mut lkey);
    cmd.output(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &raw mut rkey);
    // SAFETY: by the contract; the outputs are on this stack.
    unsafe {
        cmd.object(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, (*pd).handle);
        cmd.u64(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, offset);
        cmd.u64(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, length as u64);
        cmd.u64(UVERBS_ATTR_REG_DMABUF_MR_IOVA, iova);
        cmd.u32(UVERBS_ATTR_REG_DMABUF_MR_FD, fd as u32);
        cmd.u32(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, access as u32);
        if let Err(error) = linked::execute((*pd).context, &mut cmd, driver) {
            return error.0;
        }
        let mr = &mut (*vmr).ibv_mr;
        mr.handle = cmd.made(handle);
        mr.context = (*pd).context;
        mr.lkey = lkey;
        mr.rkey = rkey;
        mr.pd = pd;
        mr.addr = offset as *mut c_void;
        mr.length = length;
        (*vmr).mr_type = IBV_MR_TYPE_DMABUF_MR;
    }
    0
}
