//! Completion channels.

use std::sync::Arc;

use ibverbs_abi::*;

use super::context::private;
use super::ffi::Result;
use super::object::Object;
use crate::cancellation;
use crate::device::events::CompletionEvents;

/// A completion channel; its private part is the queue of its events.
pub type Channel = Object<ibv_comp_channel, Arc<CompletionEvents>>;

/// Creates a channel. Its `fd` is the program's to read from and is closed by [`destroy_comp_channel`].
///
/// # Safety
/// `context` is open.
pub unsafe fn create_comp_channel(context: *mut ibv_context) -> Result<*mut ibv_comp_channel> {
    // SAFETY: the caller passes an open context.
    let device = unsafe { private(context) }.check()?;
    let (events, fd) = CompletionEvents::new()?;
    let events = Arc::new(events);
    device.add_channel(&events);
    let public = ibv_comp_channel {
        context,
        fd,
        refcnt: 0,
    };
    Ok(Channel::alloc(public, events))
}

/// Destroys a channel.
///
/// # Safety
/// `channel` is from [`create_comp_channel`], its context is open, and no completion queue uses it.
pub unsafe extern "C" fn destroy_comp_channel(channel: *mut ibv_comp_channel) {
    let _no_cancellation = cancellation::disable();
    // SAFETY: the caller passes a live channel of an open context.
    let (device, events, fd) = unsafe {
        let device = &private((*channel).context).device;
        (device, Channel::of(channel).events(), (*channel).fd)
    };
    if device.owned_by_this_process() {
        device.remove_channel(&events);
    }
    // SAFETY: `create_comp_channel` opened the descriptor and allocated the channel; the caller says that
    // nobody uses either any more.
    unsafe {
        libc::close(fd);
        Channel::free(channel);
    }
}

impl Channel {
    /// The queue of its events.
    pub fn events(&self) -> Arc<CompletionEvents> {
        Arc::clone(self)
    }
}
