//! The checks that the kernel makes of an object which a verb names: that it exists, and belongs to the
//! context.
//!
//! Every verb but those of the data path makes them before it uses the private part of an object. So an
//! object that the program has freed already, or whose handle it has changed, is refused. (The memory of a
//! freed object must not have been used again: see [`super::object::Object::room`].)

use std::sync::Arc;

use ibverbs_abi::*;
use libc::{EBUSY, EINVAL, ENOENT, ENOMEM};

use super::ffi::Result;
use super::object::RefCount;
use crate::device::Device;
use crate::device::handles::{self, Named, ObjectKind, ReservedHandle};

/// A public structure with a handle.
pub trait HasHandle {
    /// The kinds that the object can have.
    const KINDS: &'static [ObjectKind];

    /// The object's handle.
    fn handle(&self) -> u32;

    /// The context that it was created in.
    fn context(&self) -> *mut ibv_context;
}

macro_rules! handled {
    ($($of:ident $(. $inner:ident)?: $($kind:ident)|*;)*) => { $(
        impl HasHandle for $of {
            const KINDS: &'static [ObjectKind] = &[$(ObjectKind::$kind),*];

            fn handle(&self) -> u32 {
                self.handle
            }

            fn context(&self) -> *mut ibv_context {
                self$(.$inner)?.context
            }
        }
    )* };
}
handled! {
    ibv_ah: Ah;
    ibv_comp_cntr: CompCntr;
    ibv_cq: Cq;
    ibv_dm: Dm;
    ibv_mr: Mr;
    ibv_mw: Mw;
    ibv_pd: Pd | ParentDomain;
    ibv_qp: Qp;
    ibv_srq: Srq;
    verbs_xrcd.xrcd: Xrcd;
}

/// The identity of an object that a program names by a public structure.
fn named<B: HasHandle>(object: &B) -> Named {
    Named {
        handle: object.handle(),
        object: core::ptr::from_ref(object).addr(),
        context: object.context().addr(),
    }
}

/// The handle of an object that exists. ENOENT if it does not, or its handle or context was changed: like the
/// kernel's, a handle is valid in the object's own context only. EINVAL for NULL.
///
/// # Safety
/// `object` is NULL or readable.
pub unsafe fn check<B: HasHandle>(object: *mut B) -> Result<u32> {
    // librdmacm passes NULL for the protection domain of an id with an XRC target.
    if object.is_null() {
        return Err(Errno(EINVAL));
    }
    // SAFETY: not NULL, so the caller says that it is readable.
    let named = named(unsafe { &*object });
    if B::KINDS.iter().any(|kind| handles::is_live(*kind, named)) {
        Ok(named.handle)
    } else {
        Err(Errno(ENOENT))
    }
}

/// [`check`] for an object that another one is created with. EINVAL if it is of another context: its
/// handle says nothing there.
///
/// # Safety
/// `object` is NULL or readable.
pub unsafe fn check_in<B: HasHandle>(object: *mut B, context: *mut ibv_context) -> Result<()> {
    // SAFETY: the caller passes NULL, which `check` refuses, or a readable object.
    unsafe {
        check(object)?;
        if (*object).context() != context {
            return Err(Errno(EINVAL));
        }
    }
    Ok(())
}

/// [`check_in`] for an object that may be NULL.
///
/// # Safety
/// `object` is NULL or readable.
pub unsafe fn check_optional<B: HasHandle>(
    object: *mut B,
    context: *mut ibv_context,
) -> Result<()> {
    if object.is_null() {
        return Ok(());
    }
    // SAFETY: not NULL, so the caller says that it is readable.
    unsafe { check_in(object, context) }
}

/// Begins the destruction of an object; the caller removes its handle. ENOENT as in [`check`], and if
/// another thread destroys it.
///
/// # Safety
/// `object` is readable.
pub unsafe fn claim<B: HasHandle>(object: *mut B) -> Result<u32> {
    // SAFETY: the caller passes a readable object.
    let named = named(unsafe { &*object });
    if B::KINDS.iter().any(|kind| handles::claim(*kind, named)) {
        Ok(named.handle)
    } else {
        Err(Errno(ENOENT))
    }
}

/// [`claim`] for an object that may be imported: EBUSY while it is used. An import that finds it takes its
/// reference before, or does not find it.
///
/// # Safety
/// `object` is readable.
pub unsafe fn claim_unused<B: HasHandle>(object: *mut B, refs: &RefCount) -> Result<u32> {
    // SAFETY: the caller passes a readable object.
    let named = named(unsafe { &*object });
    let unused = || refs.ensure_unused().is_ok();
    let mut kinds = B::KINDS.iter();
    match kinds.find_map(|kind| handles::claim_if(*kind, named, unused)) {
        Some(true) => Ok(named.handle),
        Some(false) => Err(Errno(EBUSY)),
        None => Err(Errno(ENOENT)),
    }
}

/// A handle for a new object. ENOMEM if the device has as many of its kind as it reports to allow.
pub fn reserve(device: &Arc<Device>, kind: ObjectKind) -> Result<ReservedHandle> {
    let limits = &device.profile.limits;
    let limit = match kind {
        ObjectKind::Qp => limits.max_qp,
        ObjectKind::Ah => limits.max_ah,
        ObjectKind::Mw => limits.max_mw,
        ObjectKind::Mr => limits.max_mr,
        ObjectKind::Srq => limits.max_srq,
        ObjectKind::Cq => limits.max_cq,
        ObjectKind::Pd => limits.max_pd,
        ObjectKind::CompCntr => limits.max_comp_cntr,
        ObjectKind::Channel
        | ObjectKind::Dm
        | ObjectKind::Xrcd
        | ObjectKind::ParentDomain
        | ObjectKind::Td => u32::MAX,
    };
    handles::reserve(kind, &device.objects, limit).map_err(|handles::Full| Errno(ENOMEM))
}

/// Makes the handle known as that of `object`, which is initialised and has it.
pub fn publish<B>(
    reserved: ReservedHandle,
    kind: ObjectKind,
    object: *mut B,
    context: *mut ibv_context,
) {
    // Events and closing contexts make a pointer from the address again.
    reserved.publish(kind, object.expose_provenance(), context.addr());
}
