//! Closing a context: its objects that the program has not destroyed are destroyed, as the kernel
//! does. Their memory is not freed, as rdma-core does not free it either, but peers no longer reach
//! them, and they hold no references to the device.

use core::ffi::c_void;

use ibverbs_abi::*;

use super::ah::Ah;
use super::channel::CompChannel;
use super::comp_cntr::CompCntr;
use super::cq::Cq;
use super::dm::Dm;
use super::mr::Mr;
use super::mw::Mw;
use super::pd::{Pd, Td};
use super::qp::Qp;
use super::srq::{Srq, Xrcd};
use crate::device::Device;
use crate::device::handles::{self, ObjectKind, Registered};

/// Ends all objects of a context; in a child of the process that opened it, forgets them.
///
/// # Safety
/// `context` is open, and no other thread uses it or its objects, nor does any later.
pub unsafe fn close_objects(context: *mut ibv_context, device: &Device) {
    let owned = device.owned_by_this_process();
    for object in handles::claim_all_of(context.addr()) {
        if owned {
            // SAFETY: the handle is in the table, so the object is live; the caller says that nobody
            // uses it, and a context that imports does not find it any more.
            unsafe { close(&object, device) };
        }
        handles::remove(object.handle);
    }
}

/// Ends an object: makes the device forget it, and drops its private part.
///
/// # Safety
/// `object` is live, of this device, and not used by another thread, nor used later.
unsafe fn close(object: &Registered, device: &Device) {
    let public = core::ptr::with_exposed_provenance_mut::<c_void>(object.object);
    // SAFETY: the caller passes a live object of its kind, which nobody uses.
    unsafe {
        leave_device(object.kind, public, device);
        abandon(object.kind, public);
    }
}

/// Makes the device forget an object, as far as it knows objects of this kind.
///
/// # Safety
/// `public` is a live object of this kind and device.
unsafe fn leave_device(kind: ObjectKind, public: *mut c_void, device: &Device) {
    // SAFETY: the caller passes a live object, whose kind says of which type it is.
    unsafe {
        match kind {
            ObjectKind::Qp => drop(Qp::of(public.cast()).leave_device()),
            ObjectKind::Mw => device.memory.dealloc_mw(Mw::of(public.cast()).key),
            ObjectKind::Mr if Mr::of(public.cast()).is_imported() => {}
            // Windows of this context are gone; those of a context that has imported the region's domain
            // may be bound to it.
            ObjectKind::Mr => device.unbind_and_deregister(Mr::of(public.cast()).key),
            ObjectKind::Srq => drop(Srq::of(public.cast()).leave_device()),
            ObjectKind::Cq => drop(Cq::of(public.cast()).queue.close_events()),
            ObjectKind::Channel => device
                .events
                .remove_channel(&CompChannel::of(public.cast()).events),
            // An imported one: its original may stay.
            ObjectKind::Pd => Pd::of(public.cast()).release_parents(),
            ObjectKind::Ah
            | ObjectKind::Dm
            | ObjectKind::Xrcd
            | ObjectKind::ParentDomain
            | ObjectKind::Td
            | ObjectKind::CompCntr => {}
        }
    }
}

/// Drops the private part of an object.
///
/// # Safety
/// `public` is an object of this kind, and no verb is called with it from now on.
unsafe fn abandon(kind: ObjectKind, public: *mut c_void) {
    // SAFETY: the caller gives up the object, whose kind says of which type it is.
    unsafe {
        match kind {
            ObjectKind::Qp => Qp::abandon(public.cast()),
            ObjectKind::Ah => Ah::abandon(public.cast()),
            ObjectKind::Mw => Mw::abandon(public.cast()),
            ObjectKind::Mr => Mr::abandon(public.cast()),
            ObjectKind::Dm => Dm::abandon(public.cast()),
            ObjectKind::Srq => Srq::abandon(public.cast()),
            ObjectKind::Cq => Cq::abandon(public.cast()),
            ObjectKind::Channel => CompChannel::abandon(public.cast()),
            ObjectKind::Xrcd => Xrcd::abandon(public.cast()),
            ObjectKind::Pd | ObjectKind::ParentDomain => Pd::abandon(public.cast()),
            ObjectKind::Td => Td::abandon(public.cast()),
            ObjectKind::CompCntr => CompCntr::abandon(public.cast()),
        }
    }
}
