//! Completion channels as verbs.

use core::ptr::null_mut;
use std::sync::Arc;

use ibverbs_abi::*;

use super::context::private;
use super::ffi::Result;
use super::handle;
use super::object::Object;
use crate::cancellation;
use crate::device::events::CompletionEvents;
use crate::device::handles::{self, ObjectKind};

/// The private part of a completion channel.
pub struct ChannelPrivate {
    /// The queue of its events.
    pub events: Arc<CompletionEvents>,
    /// The channel's number in the table of objects; the public structure has no room for it.
    handle: u32,
}

/// A completion channel.
pub type CompChannel = Object<ibv_comp_channel, ChannelPrivate>;

/// Creates a channel. Its `fd` is the program's to read from and is closed by [`destroy_comp_channel`].
///
/// # Safety
/// `context` is open.
pub unsafe fn create_comp_channel(context: *mut ibv_context) -> Result<*mut ibv_comp_channel> {
    // SAFETY: the caller passes an open context.
    let device = unsafe { private(context) }.check()?;
    let reserved = handle::reserve(device, ObjectKind::Channel)?;
    let room = CompChannel::room()?;
    let (events, fd) = device.events.add_channel()?;
    let public = ibv_comp_channel {
        context,
        fd,
        refcnt: 0,
    };
    let private = ChannelPrivate {
        events,
        handle: reserved.handle(),
    };
    let channel = room.fill(public, private);
    handle::publish(reserved, ObjectKind::Channel, channel, context);
    Ok(channel)
}

/// Destroys a channel.
///
/// # Safety
/// `channel` is from [`create_comp_channel`], its context is open, and no completion queue uses it.
pub unsafe extern "C" fn destroy_comp_channel(channel: *mut ibv_comp_channel) {
    let _no_cancellation = cancellation::disable();
    // SAFETY: the caller passes a live channel of an open context.
    let (device, object, fd) = unsafe {
        let device = &private((*channel).context).device;
        (device, CompChannel::of(channel), (*channel).fd)
    };
    if device.owned_by_this_process() {
        device.events.remove_channel(&object.events);
    }
    handles::remove(object.handle);
    // SAFETY: `create_comp_channel` opened the descriptor and allocated the channel; the caller says that
    // nobody uses either any more.
    unsafe {
        libc::close(fd);
        CompChannel::free(channel);
    }
}

/// The completion queue that an event of the channel names by its handle; NULL if there is none. Also counts
/// the event, and sends those that did not fit the channel's socket: the program has just read one.
///
/// # Safety
/// `channel` is live.
pub unsafe extern "C" fn cq_of_event(channel: *mut ibv_comp_channel, handle: u64) -> *mut ibv_cq {
    // SAFETY: the caller passes a live channel.
    let (object, context) = unsafe { (CompChannel::of(channel), (*channel).context) };
    // SAFETY: the context of a live channel is open.
    if unsafe { private(context) }.device.owned_by_this_process() {
        object.events.take(handle);
    }
    let found = handles::object_of_event(ObjectKind::Cq, handle);
    let cq: *mut ibv_cq = found.map_or(null_mut(), core::ptr::with_exposed_provenance_mut);
    // SAFETY: destroying a queue blocks until the events that were read are acknowledged, so one that is
    // found by its handle exists.
    if !cq.is_null() && unsafe { (*cq).channel } != channel {
        return null_mut();
    }
    cq
}
