//! What closing a context does to the objects that the program has not destroyed: the kernel destroys
//! them. Their memory is not freed, as rdma-core does not free it either, but nothing that a peer sends
//! reaches them any more, and they hold nothing of the device.

use ibverbs_abi::*;

use super::ah::Ah;
use super::channel::Channel;
use super::cq::Cq;
use super::mr::{Mr, Mw};
use super::pd::{Pd, Td};
use super::qp::Qp;
use super::srq::{Srq, Xrcd};
use crate::device::Device;
use crate::device::handles::{self, Kind, Registered};

/// Ends all objects of a context; in a child of the process that opened it, forgets them.
///
/// # Safety
/// `context` is open, and no other thread uses it or its objects, nor does any later.
pub unsafe fn close_objects(context: *mut ibv_context, device: &Device) {
    let owned = device.owned_by_this_process();
    for object in handles::of_context(context.addr()) {
        if owned {
            // SAFETY: the handle is in the table, so the object is live; the caller says that nobody
            // uses it.
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
    let public = core::ptr::with_exposed_provenance_mut::<core::ffi::c_void>(object.object);
    // SAFETY: the caller passes a live object, whose kind says of which type it is.
    unsafe {
        match object.kind {
            Kind::Qp => {
                Qp::of(public.cast()).leave_device();
                Qp::abandon(public.cast());
            }
            Kind::Ah => Ah::abandon(public.cast()),
            Kind::Mw => {
                device.memory.dealloc_mw((*public.cast::<ibv_mw>()).rkey);
                Mw::abandon(public.cast());
            }
            Kind::Mr => {
                // Its windows were of this context, and are gone.
                let _ = device.memory.deregister((*public.cast::<ibv_mr>()).lkey);
                Mr::abandon(public.cast());
            }
            Kind::Srq => {
                Srq::of(public.cast()).leave_device();
                Srq::abandon(public.cast());
            }
            Kind::Cq => {
                Cq::of(public.cast()).queue.close_events();
                Cq::abandon(public.cast());
            }
            Kind::Channel => {
                device.remove_channel(&Channel::of(public.cast()).events);
                Channel::abandon(public.cast());
            }
            Kind::Xrcd => Xrcd::abandon(public.cast()),
            Kind::Pd | Kind::ParentDomain => Pd::abandon(public.cast()),
            Kind::Td => Td::abandon(public.cast()),
        }
    }
}
