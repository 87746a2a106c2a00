//! Memory windows as verbs. Not here: binding them by a work request (`post.rs`).

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP};

use super::context::private;
use super::ffi::Result;
use super::handle;
use super::object::{Object, Zeroable};
use super::pd::Pd;
use crate::device::handles::{self, ObjectKind};
use crate::memory::MwType;
use roce::engine::Bind;

/// The private part of a memory window.
pub struct MwPrivate {
    /// The R_Key that it was allocated with: binds change the low 8 bits, and the program may change
    /// `mw->rkey`.
    pub key: u32,
}

/// A memory window. Its binding is in the device's memory table, under its R_Key.
pub type Mw = Object<ibv_mw, MwPrivate>;

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
    let mw = room.fill(mw, MwPrivate { key: rkey });
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
            device.memory.dealloc_mw(Mw::of(mw).key);
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
