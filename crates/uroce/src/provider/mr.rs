//! Memory regions and windows.

use core::ffi::c_void;

use ibverbs_abi::*;
use libc::{EBUSY, EFAULT, EINVAL, EOPNOTSUPP, EPERM, c_int};

use super::context::part;
use super::object::{Answer, Object, Plain, ToC};
use super::pd::Pd;
use super::{post, qp};
use crate::engine::{Bind, SendFlags, SendOp, SendWr, Sges};
use crate::memory::{MemoryRegion, MrRange, MwType, Reregistration, prefault};

/// A region.
pub type Mr = Object<verbs_mr, ()>;
/// A window.
pub type Mw = Object<ibv_mw, ()>;

/// What a region may be registered with.
const KNOWN_ACCESS: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_MW_BIND
    | IBV_ACCESS_ZERO_BASED
    | IBV_ACCESS_ON_DEMAND
    | IBV_ACCESS_HUGETLB
    | IBV_ACCESS_FLUSH_GLOBAL
    | IBV_ACCESS_FLUSH_PERSISTENT
    | IBV_ACCESS_OPTIONAL_RANGE;

fn check_access(access: u32) -> Answer<()> {
    const NEED_LOCAL: u32 = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if access & !KNOWN_ACCESS != 0
        || access & NEED_LOCAL != 0 && access & IBV_ACCESS_LOCAL_WRITE == 0
    {
        return Err(EINVAL);
    }
    if access & IBV_ACCESS_ON_DEMAND != 0 {
        return Err(EOPNOTSUPP);
    }
    Ok(())
}

/// The range of a region, whose pages are made present. EINVAL for an impossible one, EFAULT where nothing is
/// mapped.
fn check_range(start: usize, len: usize, iova: u64, access: u32) -> Answer<MrRange> {
    const PAGE: u64 = 4096;
    let iova = if access & IBV_ACCESS_ZERO_BASED != 0 {
        0
    } else if !(start as u64 ^ iova).is_multiple_of(PAGE) {
        return Err(EINVAL);
    } else {
        iova
    };
    let no_page = len == 0 && (start as u64).is_multiple_of(PAGE);
    let fits = start.checked_add(len).is_some() && iova.checked_add(len as u64).is_some();
    if no_page || !fits {
        return Err(EINVAL);
    }
    if !prefault(start, len, access & IBV_ACCESS_LOCAL_WRITE != 0) {
        return Err(EFAULT);
    }
    Ok(MrRange {
        start,
        len: len as u64,
        iova,
    })
}

/// # Safety
/// The op's contract: the domain is live. The memory is the program's business.
pub unsafe fn reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> Answer<*mut ibv_mr> {
    // SAFETY: by the contract.
    let (context, domain) = unsafe { ((*pd).context, Pd::of(pd)) };
    // SAFETY: a live domain's context is open.
    let device = unsafe { part(context) }.check()?;
    let access = access as u32;
    check_access(access)?;
    // Copies find their way back to the memory from this number.
    let start = addr.expose_provenance();
    let range = check_range(start, length, iova, access)?;
    let key = device.memory.register(MemoryRegion {
        pd: domain.domain,
        range,
        access,
    });
    domain.users.add();
    let mut mr = verbs_mr::zeroed();
    mr.ibv_mr.context = context;
    mr.ibv_mr.pd = pd;
    mr.ibv_mr.handle = key >> 8;
    (mr.ibv_mr.lkey, mr.ibv_mr.rkey) = (key, key);
    mr.mr_type = IBV_MR_TYPE_MR;
    mr.access = access as c_int;
    Ok(Mr::make(mr, ()).cast())
}

/// Changes a region. This op has error values of its own, of which the library makes its answer.
pub unsafe extern "C" fn rereg_mr(
    vmr: *mut verbs_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    // SAFETY: by the op's contract.
    let answer = unsafe { change(vmr, flags as u32, pd, addr, length, access as u32) };
    if let Err(errno) = answer {
        super::object::null::<()>(errno);
    }
    answer.to_c()
}

/// # Safety
/// The op's contract: the region is live, and so is the domain if the flags ask for it.
unsafe fn change(
    vmr: *mut verbs_mr,
    flags: u32,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: u32,
) -> Answer<()> {
    // SAFETY: by the contract.
    let mr = unsafe { &mut *vmr };
    // SAFETY: a live region's context is open.
    let device = unsafe { part(mr.ibv_mr.context) }.check()?;
    let has = |flag| flags & flag != 0;
    if has(IBV_REREG_MR_CHANGE_PD) && pd.is_null() {
        return Err(EINVAL);
    }
    if has(IBV_REREG_MR_CHANGE_ACCESS) {
        check_access(access)?;
    }
    let rights = if has(IBV_REREG_MR_CHANGE_ACCESS) {
        access
    } else {
        mr.access as u32
    };
    let range = if has(IBV_REREG_MR_CHANGE_TRANSLATION) {
        let start = addr.expose_provenance();
        Some(check_range(start, length, start as u64, rights)?)
    } else {
        let writes = rights & !(mr.access as u32) & IBV_ACCESS_LOCAL_WRITE != 0;
        let (start, length) = (mr.ibv_mr.addr as usize, mr.ibv_mr.length);
        if writes && !prefault(start, length, true) {
            return Err(EFAULT);
        }
        None
    };
    // SAFETY: by the contract.
    let domain = has(IBV_REREG_MR_CHANGE_PD).then(|| unsafe { Pd::of(pd) });
    let change = Reregistration {
        pd: domain.map(|domain| domain.domain),
        range,
        access: has(IBV_REREG_MR_CHANGE_ACCESS).then_some(access),
    };
    device
        .memory
        .reregister(mr.ibv_mr.lkey, &change)
        .map_err(|_| EBUSY)?;
    if let Some(domain) = domain {
        domain.users.add();
        // SAFETY: the domain that the region was in lives as long as it is used.
        unsafe { Pd::of(mr.ibv_mr.pd) }.users.remove();
    }
    mr.access = rights as c_int;
    Ok(())
}

/// # Safety
/// The op's contract: the region is live, dead after success.
pub unsafe fn dereg_mr(vmr: *mut verbs_mr) -> Answer<()> {
    // SAFETY: by the contract; the region's domain and context live as long as it does.
    unsafe {
        let mr = &(*vmr).ibv_mr;
        let context = part(mr.context);
        if context.device.is_ours() {
            context
                .device
                .memory
                .deregister(mr.lkey)
                .map_err(|_| EBUSY)?;
        }
        Pd::of(mr.pd).users.remove();
        Mr::free(vmr);
    }
    Ok(())
}

/// # Safety
/// The op's contract: the domain is live.
pub unsafe fn alloc_mw(pd: *mut ibv_pd, kind: ibv_mw_type) -> Answer<*mut ibv_mw> {
    let window = match kind {
        IBV_MW_TYPE_1 => MwType::Type1,
        IBV_MW_TYPE_2 => MwType::Type2,
        _ => return Err(EINVAL),
    };
    // SAFETY: by the contract.
    let (context, domain) = unsafe { ((*pd).context, Pd::of(pd)) };
    // SAFETY: a live domain's context is open.
    let device = unsafe { part(context) }.check()?;
    let rkey = device.memory.alloc_mw(window, domain.domain);
    domain.users.add();
    let mut mw = ibv_mw::zeroed();
    (mw.context, mw.pd, mw.type_) = (context, pd, kind);
    (mw.rkey, mw.handle) = (rkey, rkey >> 8);
    Ok(Mw::make(mw, ()))
}

/// # Safety
/// The op's contract: the window is live, dead after success.
pub unsafe fn dealloc_mw(mw: *mut ibv_mw) -> Answer<()> {
    // SAFETY: by the contract; the window's domain and context live as long as it does.
    unsafe {
        let context = part((*mw).context);
        if context.device.is_ours() {
            context.device.memory.dealloc_mw((*mw).rkey);
        }
        Pd::of((*mw).pd).users.remove();
        Mw::free(mw);
    }
    Ok(())
}

/// What a request binds; EINVAL for what cannot be a window's.
///
/// # Safety
/// Window and region are live; the region may be NULL.
pub unsafe fn bind(mw: *mut ibv_mw, rkey: u32, info: &ibv_mw_bind_info) -> Answer<Bind> {
    // Local access is the region's business.
    const KNOWN: u32 = IBV_ACCESS_LOCAL_WRITE
        | IBV_ACCESS_REMOTE_WRITE
        | IBV_ACCESS_REMOTE_READ
        | IBV_ACCESS_REMOTE_ATOMIC
        | IBV_ACCESS_ZERO_BASED
        | IBV_ACCESS_FLUSH_GLOBAL
        | IBV_ACCESS_FLUSH_PERSISTENT
        | IBV_ACCESS_OPTIONAL_RANGE;
    // SAFETY: by the contract.
    let (mw, mr) = unsafe { (mw.as_ref().ok_or(EINVAL)?, info.mr.as_ref()) };
    if info.mw_access_flags & !KNOWN != 0 || rkey >> 8 != mw.rkey >> 8 {
        return Err(EINVAL);
    }
    let mr_lkey = match mr {
        Some(mr) => mr.lkey,
        None if info.length != 0 => return Err(EINVAL),
        None => 0,
    };
    Ok(Bind {
        mw: u64::from(mw.handle),
        rkey,
        mr_lkey,
        addr: info.addr,
        len: info.length,
        access: info.mw_access_flags,
    })
}

/// Binds a window of type 1, by a request with the next key.
///
/// # Safety
/// The op's contract: all objects are live, `mw_bind` is readable.
pub unsafe fn bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, mw_bind: *mut ibv_mw_bind) -> Answer<()> {
    // SAFETY: by the contract.
    unsafe {
        let (wanted, info) = (&*mw_bind, &(*mw_bind).bind_info);
        if (*mw).type_ != IBV_MW_TYPE_1 || info.mw_access_flags & IBV_ACCESS_ZERO_BASED != 0 {
            return Err(EINVAL);
        }
        let outside = |pd: *mut ibv_pd| Pd::of(pd).domain != Pd::of((*mw).pd).domain;
        if !info.mr.is_null() && outside((*info.mr).pd) || outside((*qp).pd) {
            return Err(EPERM);
        }
        let rkey = (*mw).rkey & !0xff | (*mw).rkey.wrapping_add(1) & 0xff;
        let kind = SendOp::BindMw(bind(mw, rkey, info)?);
        let object = qp::object(qp);
        post::post_one(
            object,
            SendWr {
                wr_id: wanted.wr_id,
                op: kind,
                flags: flags(wanted.send_flags),
                sges: Sges::default(),
                inline: None,
                ud: None,
                xrc_srqn: 0,
            },
        )?;
        (*mw).rkey = rkey;
    }
    Ok(())
}

/// Of a request, from `IBV_SEND_*`.
pub fn flags(send_flags: u32) -> SendFlags {
    SendFlags {
        signaled: send_flags & IBV_SEND_SIGNALED != 0,
        solicited: send_flags & IBV_SEND_SOLICITED != 0,
        fence: send_flags & IBV_SEND_FENCE != 0,
    }
}
