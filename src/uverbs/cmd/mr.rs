//! Commands of memory regions: registering, re-registering, querying, advising; dma-bufs.

use core::{mem::MaybeUninit, ptr::null_mut};

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP, c_int, c_void};

use super::to_c;
use crate::uverbs::{
    fallback::{self, Fallback, Needs},
    ioctl::Command,
    linked,
    state::Op,
    uhw::Buffer,
    write,
};

/// How many attributes a provider may add to one command.
pub(super) const LINK_ROOM: usize = 24;

/// Registers memory. An on-demand region of SIZE_MAX bytes is the whole address space and must begin at
/// address 0, else EINVAL.
///
/// # Safety
/// As the module [`cmd`](super) says; `addr` may be any address.
#[allow(clippy::too_many_arguments)] // as in rdma-core's driver.h
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
    to_c(|| {
        if access as u32 & IBV_ACCESS_ON_DEMAND != 0 && length == usize::MAX && !addr.is_null() {
            return Errno(EINVAL).fail();
        }
        // SAFETY: `pd` is live, `cmd` begins with the request.
        let (pd, request) = unsafe { (&*pd, &mut (*cmd).core_payload) };
        request.start = addr as u64;
        request.length = length as u64;
        request.hca_va = hca_va;
        request.pd_handle = pd.handle;
        request.access_flags = access as u32;
        // SAFETY: the PD's context is open; `cmd` and `resp` have these sizes; `vmr` is live.
        let (vmr, response) = unsafe {
            write::execute(
                pd.context,
                IB_USER_VERBS_CMD_REG_MR,
                Buffer::of_provider(cmd, cmd_size),
                Buffer::of_provider(resp, resp_size),
            )?;
            (&mut *vmr, &*resp)
        };
        vmr.ibv_mr.handle = response.mr_handle;
        vmr.ibv_mr.lkey = response.lkey;
        vmr.ibv_mr.rkey = response.rkey;
        vmr.ibv_mr.context = pd.context;
        vmr.mr_type = IBV_MR_TYPE_MR;
        vmr.access = access;
        Ok(())
    })
}

/// The memory that `ibv_mr_init_attr` asks to register.
enum MrSource {
    Address(*mut c_void),
    DmaBuf { fd: c_int, offset: u64 },
}

impl MrSource {
    /// The source and the I/O virtual address. EINVAL for a combination of attributes that is not allowed.
    fn of(attr: &ibv_mr_init_attr) -> Result<(Self, u64), Errno> {
        let has = |bit: u32| attr.comp_mask & u64::from(bit) != 0;
        let iova = has(IBV_REG_MR_MASK_IOVA).then_some(attr.iova);
        let (addr, offset) = (has(IBV_REG_MR_MASK_ADDR), has(IBV_REG_MR_MASK_FD_OFFSET));
        if has(IBV_REG_MR_MASK_FD) {
            let iova = iova.filter(|_| offset && !addr).ok_or(Errno(EINVAL))?;
            let (fd, offset) = (attr.fd, attr.fd_offset);
            return Ok((MrSource::DmaBuf { fd, offset }, iova));
        }
        let whole_space =
            attr.access as u32 & IBV_ACCESS_ON_DEMAND != 0 && attr.length == usize::MAX;
        if offset || !addr || whole_space && !attr.addr.is_null() {
            return Err(Errno(EINVAL));
        }
        Ok((
            MrSource::Address(attr.addr),
            iova.unwrap_or(attr.addr as u64),
        ))
    }
}

/// Registers memory or a part of a dma-buf, as `attr` says. A kernel without the ioctl registers memory
/// by the legacy command; there, EOPNOTSUPP for a dma-buf or a DMA handle.
///
/// # Safety
/// `pd`, `vmr` and `attr` are live, and so is the DMA handle that `attr` names.
pub unsafe extern "C" fn ibv_cmd_reg_mr_ex(
    pd: *mut ibv_pd,
    vmr: *mut verbs_mr,
    attr: *mut ibv_mr_init_attr,
) -> c_int {
    to_c(|| {
        // SAFETY: `pd`, `vmr` and `attr` are live.
        let (pd, vmr, attr) = unsafe { (&mut *pd, &mut *vmr, &*attr) };
        let (source, iova) = MrSource::of(attr).or_else(Errno::fail)?;
        let dmah = (attr.comp_mask & u64::from(IBV_REG_MR_MASK_DMAH) != 0).then_some(attr.dmah);
        let (mut lkey, mut rkey) = (0u32, 0u32);
        let mut cmd = Command::<11>::new(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_MR);
        match source {
            MrSource::DmaBuf { fd, offset } => {
                cmd.u64(UVERBS_ATTR_REG_MR_FD_OFFSET, offset);
                cmd.fd(UVERBS_ATTR_REG_MR_FD, fd);
            }
            MrSource::Address(addr) => cmd.u64(UVERBS_ATTR_REG_MR_ADDR, addr as u64),
        }
        cmd.u64(UVERBS_ATTR_REG_MR_IOVA, iova);
        let handle = cmd.new_object(UVERBS_ATTR_REG_MR_HANDLE);
        cmd.output(UVERBS_ATTR_REG_MR_RESP_LKEY, &raw mut lkey);
        cmd.output(UVERBS_ATTR_REG_MR_RESP_RKEY, &raw mut rkey);
        cmd.object(UVERBS_ATTR_REG_MR_PD_HANDLE, pd.handle);
        cmd.u64(UVERBS_ATTR_REG_MR_LENGTH, attr.length as u64);
        cmd.u32(UVERBS_ATTR_REG_MR_ACCESS_FLAGS, attr.access as u32);
        if let Some(dmah) = dmah {
            // SAFETY: the mask names the handle, which is live and the start of a verbs_dmah.
            let handle = unsafe { (*dmah.cast::<verbs_dmah>()).handle };
            cmd.object(UVERBS_ATTR_REG_MR_DMA_HANDLE, handle);
        }
        // SAFETY: the PD's context is open, and the keys are locals.
        let route =
            unsafe { fallback::execute(pd.context, Op::RegMrEx, Needs::default(), &mut cmd)? };
        vmr.mr_type = match (route, source) {
            (Fallback::Done, MrSource::DmaBuf { .. }) => IBV_MR_TYPE_DMABUF_MR,
            (Fallback::Done, MrSource::Address(_)) => IBV_MR_TYPE_MR,
            // SAFETY: the PD and the region are live.
            (_, MrSource::Address(addr)) if dmah.is_none() => unsafe {
                return reg_mr_by_write(pd, addr, attr.length, iova, attr.access, vmr);
            },
            _ => return Errno(EOPNOTSUPP).fail(),
        };
        vmr.ibv_mr.handle = cmd.created(handle);
        vmr.ibv_mr.context = pd.context;
        vmr.ibv_mr.lkey = lkey;
        vmr.ibv_mr.rkey = rkey;
        vmr.access = attr.access;
        Ok(())
    })
}

/// Registers memory by the legacy command, without data of the provider's.
///
/// # Safety
/// `pd` is live, its context open.
unsafe fn reg_mr_by_write(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
    vmr: *mut verbs_mr,
) -> Result<(), Errno> {
    let mut request = MaybeUninit::<ibv_reg_mr>::uninit();
    let mut response = MaybeUninit::<ib_uverbs_reg_mr_resp>::uninit();
    let (cmd, cmd_size) = (request.as_mut_ptr(), size_of::<ibv_reg_mr>());
    let (resp, resp_size) = (response.as_mut_ptr(), size_of::<ib_uverbs_reg_mr_resp>());
    // SAFETY: the PD is live, and both buffers are locals of the sizes given.
    let error = unsafe {
        ibv_cmd_reg_mr(
            pd, addr, length, iova, access, vmr, cmd, cmd_size, resp, resp_size,
        )
    };
    if error != 0 {
        Err(Errno(error))
    } else {
        Ok(())
    }
}

/// Changes what `flags` (IBV_REREG_MR_CHANGE_*) name of a memory region.
///
/// # Safety
/// As the module [`cmd`](super) says; `addr` may be any address, and `pd` may be null without
/// IBV_REREG_MR_CHANGE_PD.
#[allow(clippy::too_many_arguments)] // as in rdma-core's driver.h
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
    to_c(|| {
        let change_pd = flags & IBV_REREG_MR_CHANGE_PD != 0;
        // SAFETY: `vmr` is live, `cmd` begins with the request, `pd` is live if it is to be changed to.
        let (mr, request, pd) = unsafe {
            let pd = change_pd.then(|| &*pd);
            (&mut (*vmr).ibv_mr, &mut (*cmd).core_payload, pd)
        };
        request.mr_handle = mr.handle;
        request.flags = flags;
        request.start = addr as u64;
        request.length = length as u64;
        request.hca_va = hca_va;
        request.pd_handle = pd.map_or(0, |pd| pd.handle);
        request.access_flags = access as u32;
        // SAFETY: the region's context is open; `cmd` and `resp` have these sizes.
        let response = unsafe {
            write::execute(
                mr.context,
                IB_USER_VERBS_CMD_REREG_MR,
                Buffer::of_provider(cmd, cmd_size),
                Buffer::of_provider(resp, resp_size),
            )?;
            &*resp
        };
        mr.lkey = response.lkey;
        mr.rkey = response.rkey;
        if let Some(pd) = pd {
            mr.context = pd.context;
        }
        Ok(())
    })
}

/// Imports a memory region that another process has registered: queries what `vmr` needs to know of it.
///
/// # Safety
/// `pd` and `vmr` are live.
pub unsafe extern "C" fn ibv_cmd_query_mr(
    pd: *mut ibv_pd,
    vmr: *mut verbs_mr,
    mr_handle: u32,
) -> c_int {
    to_c(|| {
        // SAFETY: `pd` and `vmr` are live.
        let (context, vmr) = unsafe { ((*pd).context, &mut *vmr) };
        let mr = &mut vmr.ibv_mr;
        let mut cmd = Command::<4>::new(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR);
        cmd.object(UVERBS_ATTR_QUERY_MR_HANDLE, mr_handle);
        cmd.output(UVERBS_ATTR_QUERY_MR_RESP_LKEY, &raw mut mr.lkey);
        cmd.output(UVERBS_ATTR_QUERY_MR_RESP_RKEY, &raw mut mr.rkey);
        cmd.output(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &raw mut mr.length);
        // SAFETY: `context` is open, and the outputs are members of `vmr`.
        unsafe { cmd.execute(context)? };
        mr.handle = mr_handle;
        mr.context = context;
        mr.pd = pd;
        mr.addr = null_mut();
        vmr.mr_type = IBV_MR_TYPE_IMPORTED_MR;
        Ok(())
    })
}

/// Advises the kernel about memory that the program will use (`advice` is IBV_ADVISE_MR_ADVICE_*).
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
    let len = size_of::<ibv_sge>() * num_sge as usize;
    // SAFETY: `pd` is live, its context open, `sg_list` is readable for `len` bytes.
    to_c(|| unsafe {
        cmd.object(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, (*pd).handle);
        cmd.u64(UVERBS_ATTR_ADVISE_MR_ADVICE, advice.into());
        cmd.u32(UVERBS_ATTR_ADVISE_MR_FLAGS, flags);
        cmd.input(UVERBS_ATTR_ADVISE_MR_SGE_LIST, sg_list.cast(), len);
        cmd.execute((*pd).context)
    })
}

/// Registers a part of a dma-buf.
///
/// `driver` is an argument of the exported function since rdma-core v54; `provider::dmabuf` knows which
/// callers pass it.
///
/// # Safety
/// As the module [`cmd`](super) says.
#[allow(clippy::too_many_arguments)] // as in rdma-core's driver.h
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
    to_c(|| {
        // SAFETY: `pd` and `vmr` are live.
        let (context, pd_handle, vmr) = unsafe { ((*pd).context, (*pd).handle, &mut *vmr) };
        let (mut lkey, mut rkey) = (0u32, 0u32);
        let mut cmd =
            Command::<{ 9 + LINK_ROOM }>::new(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR);
        let handle = cmd.new_object(UVERBS_ATTR_REG_DMABUF_MR_HANDLE);
        cmd.output(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &raw mut lkey);
        cmd.output(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &raw mut rkey);
        cmd.object(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, pd_handle);
        cmd.u64(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, offset);
        cmd.u64(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, length as u64);
        cmd.u64(UVERBS_ATTR_REG_DMABUF_MR_IOVA, iova);
        cmd.u32(UVERBS_ATTR_REG_DMABUF_MR_FD, fd as u32);
        cmd.u32(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, access as u32);
        // SAFETY: `context` is open, `driver` is live, the keys are locals.
        unsafe { linked::execute(context, &mut cmd, driver)? };
        let mr = &mut vmr.ibv_mr;
        mr.handle = cmd.created(handle);
        mr.context = context;
        mr.lkey = lkey;
        mr.rkey = rkey;
        mr.pd = pd;
        mr.addr = offset as *mut c_void;
        mr.length = length;
        vmr.mr_type = IBV_MR_TYPE_DMABUF_MR;
        Ok(())
    })
}
