//! Memory regions and memory windows.

use core::ffi::{c_uint, c_void};

use ibverbs_abi::*;
use libc::{EBUSY, EFAULT, EINVAL, EOPNOTSUPP, c_int};

use super::context::private;
use super::dm::Dm;
use super::ffi::Result;
use super::handle;
use super::object::{Object, Zeroable};
use super::pd::Pd;
use super::{post, qp};
use crate::device::handles::{self, ObjectKind};
use crate::engine::{Bind, SendFlags, SendOp, SendWr, Sge};
use crate::memory::{Busy, MemoryRegion, MrRange, MwType, Reregistration, prefault};
use crate::profile::Profile;

/// The private part of a memory region.
pub struct MrPrivate {
    /// The device memory that it is in; NULL if it is in the program's.
    dm: *mut ibv_dm,
}

/// A memory region. Its range and rights are in the device's memory table, under its L_Key.
pub type Mr = Object<verbs_mr, MrPrivate>;
/// A memory window. Its binding is in the device's memory table, under its R_Key.
pub type Mw = Object<ibv_mw, ()>;

/// The access flags of regions that are not rejected as unknown.
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

/// EINVAL for unknown flags and for remote rights that need IBV_ACCESS_LOCAL_WRITE; EOPNOTSUPP for those of a
/// capability that the device does not have.
fn check_access(access: u32, profile: &Profile) -> Result<()> {
    const NEED_LOCAL_WRITE: u32 = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if access & !KNOWN_ACCESS != 0
        || access & NEED_LOCAL_WRITE != 0 && access & IBV_ACCESS_LOCAL_WRITE == 0
    {
        return Err(Errno(EINVAL));
    }
    if access & IBV_ACCESS_ON_DEMAND != 0 && profile.odp.general & IBV_ODP_SUPPORT == 0 {
        return Err(Errno(EOPNOTSUPP));
    }
    Ok(())
}

/// Makes the pages of a region present, but for on-demand paging. EFAULT where nothing is mapped or the
/// mapping does not allow the access.
fn populate(start: usize, len: usize, access: u32) -> Result<()> {
    let is_present = access & IBV_ACCESS_ON_DEMAND != 0
        || prefault(start, len, access & IBV_ACCESS_LOCAL_WRITE != 0);
    is_present.then_some(()).ok_or(Errno(EFAULT))
}

/// The range of a region. Makes its pages present. EINVAL for a range that wraps around or has no page, and
/// for an IOVA with another offset in the page; EFAULT where nothing is mapped or the mapping does not allow
/// the access.
fn check_range(start: usize, len: usize, iova: u64, access: u32) -> Result<MrRange> {
    const PAGE: u64 = 4096;
    let iova = if access & IBV_ACCESS_ZERO_BASED != 0 {
        0
    } else if (start as u64 ^ iova) % PAGE != 0 {
        return Err(Errno(EINVAL));
    } else {
        iova
    };
    let no_page = len == 0 && start as u64 % PAGE == 0;
    let fits = start.checked_add(len).is_some() && iova.checked_add(len as u64).is_some();
    if no_page || !fits {
        return Err(Errno(EINVAL));
    }
    populate(start, len, access)?;
    Ok(MrRange {
        start,
        len: len as u64,
        iova,
    })
}

/// Registers memory. Its pages are made present, but not pinned: if the program unmaps them before it
/// deregisters the region, an access by the device is an error of the request (`crate::nofault`). With
/// on-demand paging, the region may be the whole address space (implicit ODP): address 0, length SIZE_MAX.
///
/// # Safety
/// `pd` is live.
pub unsafe fn reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> Result<*mut ibv_mr> {
    // SAFETY: the caller passes a readable domain, which is used further if it is live; its context is open.
    let profile = unsafe {
        handle::check(pd)?;
        &private((*pd).context).check()?.profile
    };
    let access = access as u32;
    check_access(access, profile)?;
    if length as u64 > profile.max_mr_size {
        return Err(Errno(EINVAL));
    }
    // The copies make pointers from this integer again.
    let start = addr.expose_provenance();
    let range = check_range(start, length, iova, access)?;
    // SAFETY: `pd` is live.
    unsafe { register(pd, range, access, core::ptr::null_mut()) }
}

/// Registers device memory. EINVAL for a range outside of it, for on-demand paging, and without
/// IBV_ACCESS_ZERO_BASED: the memory has no other addresses.
///
/// # Safety
/// `pd` and `dm` are live.
pub unsafe fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    dm_offset: u64,
    length: usize,
    access: c_uint,
) -> Result<*mut ibv_mr> {
    // SAFETY: the caller passes a readable domain and memory, which are used further if they are live, and
    // their context is open.
    let (memory, profile) = unsafe {
        handle::check(pd)?;
        handle::check_in(dm, (*pd).context)?;
        let device = private((*pd).context).check()?;
        (&Dm::of(dm).memory, &device.profile)
    };
    check_access(access, profile)?;
    const PAGED: u32 = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_ZERO_BASED;
    let start = memory.address_of(dm_offset, length);
    match start.filter(|_| access & PAGED == IBV_ACCESS_ZERO_BASED) {
        Some(start) => {
            let len = length as u64;
            let range = MrRange {
                start,
                len,
                iova: 0,
            };
            // SAFETY: as checked above.
            unsafe { register(pd, range, access, dm) }
        }
        None => Err(Errno(EINVAL)),
    }
}

/// A new region in the program's memory, or in device memory.
///
/// # Safety
/// `pd` is live, and `dm` NULL or live.
unsafe fn register(
    pd: *mut ibv_pd,
    range: MrRange,
    access: u32,
    dm: *mut ibv_dm,
) -> Result<*mut ibv_mr> {
    // SAFETY: the caller passes a live domain, whose context is open.
    let (context, domain, device) = unsafe {
        let context = (*pd).context;
        (context, Pd::of(pd), private(context).check()?)
    };
    let reserved = handle::reserve(device, ObjectKind::Mr)?;
    let room = Mr::room()?;
    let key = device.memory.register(MemoryRegion {
        pd: domain.handle,
        range,
        access,
    });
    domain.refs.acquire();
    let mut mr = verbs_mr::zeroed();
    mr.ibv_mr.context = context;
    mr.ibv_mr.pd = pd;
    mr.ibv_mr.handle = reserved.handle();
    mr.ibv_mr.length = range.len as usize;
    (mr.ibv_mr.lkey, mr.ibv_mr.rkey) = (key, key);
    mr.mr_type = IBV_MR_TYPE_MR;
    if !dm.is_null() {
        // Of the types of regions, this is the one that has no pages of the program, for the library.
        mr.mr_type = IBV_MR_TYPE_DMABUF_MR;
        // SAFETY: not NULL, so live.
        unsafe { Dm::of(dm) }.refs.acquire();
    }
    mr.access = access as c_int;
    let mr = room.fill(mr, MrPrivate { dm }).cast::<ibv_mr>();
    handle::publish(reserved, ObjectKind::Mr, mr, context);
    Ok(mr)
}

/// Changes a region; its keys stay. EBUSY while a window is bound to it. The library converts the errno
/// value to the return values of ibv_rereg_mr(3).
///
/// # Safety
/// `vmr` is live; so is `pd`, or it is NULL, if `flags` has IBV_REREG_MR_CHANGE_PD.
pub unsafe fn rereg_mr(
    vmr: *mut verbs_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> Result<()> {
    // SAFETY: the caller passes a readable region, which is used further if it is live, and no other
    // thread changes it meanwhile.
    let mr = unsafe {
        handle::check(&raw mut (*vmr).ibv_mr)?;
        &mut *vmr
    };
    // SAFETY: the context of a live region is open.
    let device = unsafe { private(mr.ibv_mr.context) }.check()?;
    let has = |flag| flags as u32 & flag != 0;
    if has(IBV_REREG_MR_CHANGE_PD) {
        if pd.is_null() {
            return Err(Errno(EINVAL));
        }
        // SAFETY: the caller passes a readable domain with the flag.
        unsafe { handle::check_in(pd, mr.ibv_mr.context) }?;
    }
    let new_access = has(IBV_REREG_MR_CHANGE_ACCESS).then_some(access as u32);
    let access = new_access.unwrap_or(mr.access as u32);
    check_access(access, &device.profile)?;
    if (access ^ mr.access as u32) & IBV_ACCESS_ON_DEMAND != 0 {
        // The library decides by the flag whether a child of fork gets the pages.
        return Err(Errno(EINVAL));
    }
    let range = if has(IBV_REREG_MR_CHANGE_TRANSLATION) {
        let start = addr.expose_provenance();
        Some(check_range(start, length, start as u64, access)?)
    } else {
        let becomes_writable = access & !(mr.access as u32) & IBV_ACCESS_LOCAL_WRITE != 0;
        let (start, length) = (mr.ibv_mr.addr as usize, mr.ibv_mr.length);
        if becomes_writable {
            populate(start, length, access)?;
        }
        None
    };
    // SAFETY: with the flag, `pd` is live, as it is not NULL.
    let domain = has(IBV_REREG_MR_CHANGE_PD).then(|| unsafe { Pd::of(pd) });
    let change = Reregistration {
        pd: domain.map(|domain| domain.handle),
        range,
        access: new_access,
    };
    let changed = device.reregister(mr.ibv_mr.lkey, &change);
    changed.map_err(|Busy| Errno(EBUSY))?;
    if let Some(domain) = domain {
        domain.refs.acquire();
        // SAFETY: the region's reference has kept its previous domain live.
        unsafe { Pd::of(mr.ibv_mr.pd) }.refs.release();
    }
    mr.access = access as c_int;
    Ok(())
}

/// Makes pages of regions with on-demand paging present, or for IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT only
/// checks the arguments: a page that is present can be accessed already. Always before it returns. With
/// IBV_ADVISE_MR_FLAG_FLUSH, EFAULT where that is not possible; without, that is no error. EOPNOTSUPP for
/// unknown advice; the other errors are those of `Memory::on_demand`.
///
/// # Safety
/// `pd` is live, and `num_sges` entries are readable at `sg_list`.
pub unsafe fn advise_mr(
    pd: *mut ibv_pd,
    advice: ib_uverbs_advise_mr_advice,
    flags: u32,
    sg_list: *mut ibv_sge,
    num_sges: u32,
) -> Result<()> {
    // SAFETY: the caller passes a readable domain, which is used further if it is live; its context is open.
    let (device, pd) = unsafe {
        handle::check(pd)?;
        (private((*pd).context).check()?, Pd::of(pd).handle)
    };
    if flags & !IBV_ADVISE_MR_FLAG_FLUSH != 0 || num_sges == 0 || sg_list.is_null() {
        return Err(Errno(EINVAL));
    }
    let (writable, fetch) = match advice {
        IBV_ADVISE_MR_ADVICE_PREFETCH => (false, true),
        IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE => (true, true),
        IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT => (false, false),
        _ => return Err(Errno(EOPNOTSUPP)),
    };
    // SAFETY: not NULL, so the caller passes that many entries.
    let sges = unsafe { core::slice::from_raw_parts(sg_list, num_sges as usize) };
    let ranges = || {
        sges.iter().map(|sge| {
            let sge = Sge {
                addr: sge.addr,
                len: sge.length,
                lkey: sge.lkey,
            };
            device.memory.on_demand(&sge, writable, pd)
        })
    };
    ranges().try_for_each(|range| range.map(drop))?;
    let mut result = Ok(());
    for range in ranges().filter(|_| fetch) {
        let (start, len) = range?;
        if len > 0 && !prefault(start, len, writable) && flags & IBV_ADVISE_MR_FLAG_FLUSH != 0 {
            result = Err(Errno(EFAULT));
        }
    }
    result
}

/// Fails with EBUSY while a window is bound to the region. Once it has succeeded, no access of a peer
/// reaches the memory.
///
/// # Safety
/// `vmr` is live; after success it is freed.
pub unsafe fn dereg_mr(vmr: *mut verbs_mr) -> Result<()> {
    // SAFETY: the caller passes a live region and does not use it again. Its context is open, and its
    // reference keeps its domain live.
    unsafe {
        handle::check(&raw mut (*vmr).ibv_mr)?;
        let mr = &(*vmr).ibv_mr;
        let device = &private(mr.context).device;
        if device.owned_by_this_process() {
            let removed = device.deregister(mr.lkey);
            removed.map_err(|Busy| Errno(EBUSY))?;
        }
        handles::remove(handle::claim(&raw mut (*vmr).ibv_mr)?);
        Pd::of(mr.pd).refs.release();
        let dm = Mr::of(vmr).dm;
        if !dm.is_null() {
            Dm::of(dm).refs.release();
        }
        Mr::free(vmr);
    }
    Ok(())
}

/// Allocates a window, not bound yet. EINVAL for a type that does not exist; EOPNOTSUPP if the device has no
/// windows.
///
/// # Safety
/// `pd` is live.
pub unsafe fn alloc_mw(pd: *mut ibv_pd, type_: ibv_mw_type) -> Result<*mut ibv_mw> {
    let mw_type = match type_ {
        IBV_MW_TYPE_1 => MwType::Type1,
        IBV_MW_TYPE_2 => MwType::Type2,
        _ => return Err(Errno(EINVAL)),
    };
    // SAFETY: the caller passes a readable domain, which is used further if it is live.
    let (context, domain) = unsafe {
        handle::check(pd)?;
        ((*pd).context, Pd::of(pd))
    };
    // SAFETY: the context of a live domain is open.
    let device = unsafe { private(context) }.check()?;
    if device.profile.limits.max_mw == 0 {
        return Err(Errno(EOPNOTSUPP));
    }
    let reserved = handle::reserve(device, ObjectKind::Mw)?;
    let room = Mw::room()?;
    let rkey = device.memory.alloc_mw(mw_type, domain.handle);
    domain.refs.acquire();
    let mut mw = ibv_mw::zeroed();
    (mw.context, mw.pd, mw.type_) = (context, pd, type_);
    (mw.rkey, mw.handle) = (rkey, reserved.handle());
    let mw = room.fill(mw, ());
    handle::publish(reserved, ObjectKind::Mw, mw, context);
    Ok(mw)
}

/// Frees a window, whether bound or not.
///
/// # Safety
/// `mw` is live; after success it is freed.
pub unsafe fn dealloc_mw(mw: *mut ibv_mw) -> Result<()> {
    // SAFETY: the caller passes a live window and does not use it again. Its context is open, and its
    // reference keeps its domain live.
    unsafe {
        let handle = handle::claim(mw)?;
        let device = &private((*mw).context).device;
        if device.owned_by_this_process() {
            device.memory.dealloc_mw((*mw).rkey);
        }
        handles::remove(handle);
        Pd::of((*mw).pd).refs.release();
        Mw::free(mw);
    }
    Ok(())
}

/// The engine's bind operation for a window. Its new key has the upper 24 bits of the window's and the
/// low 8 bits of `rkey`, as with the kernel's rxe. EINVAL for unknown access flags, and for a length
/// without a region. Whether window, region and queue pair are of one protection domain is seen when
/// the bind is executed: if not, it completes with IBV_WC_MW_BIND_ERR.
///
/// # Safety
/// `mw` and the region that `info` names are live or NULL.
pub unsafe fn bind_op(mw: *mut ibv_mw, rkey: u32, info: &ibv_mw_bind_info) -> Result<Bind> {
    // Rights for local access do not apply to windows; they are accepted, and have no effect.
    const KNOWN: u32 = IBV_ACCESS_LOCAL_WRITE
        | IBV_ACCESS_REMOTE_WRITE
        | IBV_ACCESS_REMOTE_READ
        | IBV_ACCESS_REMOTE_ATOMIC
        | IBV_ACCESS_ZERO_BASED
        | IBV_ACCESS_FLUSH_GLOBAL
        | IBV_ACCESS_FLUSH_PERSISTENT
        | IBV_ACCESS_OPTIONAL_RANGE;
    // SAFETY: the caller passes a window and a region that are live or NULL.
    let (mw, mr) = unsafe { (mw.as_ref().ok_or(Errno(EINVAL))?, info.mr.as_ref()) };
    if info.mw_access_flags & !KNOWN != 0 {
        return Err(Errno(EINVAL));
    }
    let mr_lkey = match mr {
        Some(mr) => mr.lkey,
        None if info.length != 0 => return Err(Errno(EINVAL)),
        None => 0,
    };
    Ok(Bind {
        mw: u64::from(mw.handle),
        rkey: mw.rkey & !0xff | rkey & 0xff,
        mr_lkey,
        addr: info.addr,
        len: info.length,
        access: info.mw_access_flags,
    })
}

/// A window whose bind is posted has the new key in `mw->rkey`, so that a program that chose only the low
/// 8 bits can read it there. So does rdma-core's irdma for type 2 windows; with its mlx5 the program
/// computes the same key.
///
/// # Safety
/// `mw` is live, and no other thread binds it meanwhile.
pub unsafe fn set_rkey(mw: *mut ibv_mw, rkey: u32) {
    // SAFETY: the caller passes a live window that it alone changes.
    unsafe { (*mw).rkey = rkey };
}

/// Binds a type 1 window, by a work request. The window's key changes at once to one with the next key
/// byte.
///
/// # Safety
/// `qp`, `mw` and the region that `mw_bind` names are live; the region may be NULL. `mw_bind` is
/// readable.
pub unsafe fn bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, mw_bind: *mut ibv_mw_bind) -> Result<()> {
    // SAFETY: the caller passes a live queue pair and a readable structure.
    let (object, mw_bind) = unsafe { (qp::object(qp), &*mw_bind) };
    let info = &mw_bind.bind_info;
    // SAFETY: the caller passes a live window.
    let (type_, rkey) = unsafe { ((*mw).type_, (*mw).rkey) };
    if type_ != IBV_MW_TYPE_1 || info.mw_access_flags & IBV_ACCESS_ZERO_BASED != 0 {
        return Err(Errno(EINVAL));
    }
    // SAFETY: the window is live, the region live or NULL.
    let bind = unsafe { bind_op(mw, rkey.wrapping_add(1), info) }?;
    let flags = send_flags(mw_bind.send_flags);
    let wr = SendWr::new(mw_bind.wr_id, SendOp::BindMw(bind), flags);
    post::post_one(object, wr)?;
    // SAFETY: the window is live, and no other thread binds it meanwhile.
    unsafe { set_rkey(mw, bind.rkey) };
    Ok(())
}

/// The engine's flags for `IBV_SEND_*`.
pub fn send_flags(send_flags: u32) -> SendFlags {
    SendFlags {
        signaled: send_flags & IBV_SEND_SIGNALED != 0,
        solicited: send_flags & IBV_SEND_SOLICITED != 0,
        fence: send_flags & IBV_SEND_FENCE != 0,
    }
}
