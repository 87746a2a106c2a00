//! Contexts: their private part, and their async events.
//!
//! Not here: opening and closing (`listed`), attributes (`attributes`), the objects of a context, which have
//! a file each, and what the contexts of a device share (`device`).

use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr::null_mut;
use std::sync::Arc;

use ibverbs_abi::*;
use libc::EACCES;

use super::ffi::Result;
use crate::device::Device;
use crate::device::command_file::CommandFile;
use crate::device::events::{AsyncEvents, Record as _};
use crate::device::handles::{self, ObjectKind};

/// A context. The library allocates it, with room in front of its own part.
#[repr(C)]
pub struct Context {
    /// The pointer of `Box::into_raw`.
    pub private: *mut ContextPrivate,
    pub verbs: verbs_context,
}

/// The private part of a context.
pub struct ContextPrivate {
    /// The device, which the context keeps open.
    pub device: Arc<Device>,
    /// The context's queue of async events.
    pub events: Arc<AsyncEvents>,
    /// The functions of the library that the context needs.
    pub core: &'static verbs_software_core,
    /// In network byte order.
    pub node_guid: u64,
    /// The file that the command descriptor refers to. Contexts that are imported share it.
    pub command_file: CommandFile,
}

/// The structure around a context.
pub fn container_of(context: *mut ibv_context) -> *mut Context {
    const BEFORE: usize = offset_of!(Context, verbs) + offset_of!(verbs_context, context);
    context.wrapping_byte_sub(BEFORE).cast()
}

/// The private part of a context.
///
/// # Safety
/// `context` is an open context of a uroce device, and stays open while the reference is used.
pub unsafe fn private<'a>(context: *mut ibv_context) -> &'a ContextPrivate {
    // SAFETY: the caller passes an open context, for which `open` has set the pointer.
    unsafe { &*(*container_of(context)).private }
}

impl ContextPrivate {
    /// The device; EACCES in a child of the process that opened the context, as with a kernel device.
    pub fn check(&self) -> Result<&Arc<Device>> {
        if self.device.owned_by_this_process() {
            Ok(&self.device)
        } else {
            Err(Errno(EACCES))
        }
    }
}

/// The object that an async event names by its handle; NULL if there is none, or the events of its type are
/// not about an object. Also counts the event, and sends those that did not fit the context's socket: the
/// program has just read one.
pub unsafe extern "C" fn object_of_event(
    context: *mut ibv_context,
    event: *const ib_uverbs_async_event_desc,
) -> *mut c_void {
    // SAFETY: the library passes an open context and a readable event.
    let (context, event) = unsafe { (private(context), &*event) };
    if context.device.owned_by_this_process() {
        context.events.take(event.source());
    }
    let kind = match event.event_type {
        IBV_EVENT_CQ_ERR => ObjectKind::Cq,
        IBV_EVENT_QP_FATAL
        | IBV_EVENT_QP_REQ_ERR
        | IBV_EVENT_QP_ACCESS_ERR
        | IBV_EVENT_COMM_EST
        | IBV_EVENT_SQ_DRAINED
        | IBV_EVENT_PATH_MIG
        | IBV_EVENT_PATH_MIG_ERR
        | IBV_EVENT_QP_LAST_WQE_REACHED => ObjectKind::Qp,
        IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => ObjectKind::Srq,
        _ => return null_mut(),
    };
    let found = handles::object_of_event(kind, event.element);
    found.map_or(null_mut(), core::ptr::with_exposed_provenance_mut)
}

/// Raises an event that the library injects.
pub unsafe extern "C" fn raise_event(
    context: *mut ibv_context,
    event: *const ib_uverbs_async_event_desc,
) {
    // SAFETY: the library passes an open context and a readable event.
    let (context, event) = unsafe { (private(context), *event) };
    if context.device.owned_by_this_process() {
        context.events.push(event);
    }
}
