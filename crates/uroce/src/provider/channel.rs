//! Completion channels.

use std::sync::Arc;

use ibverbs_abi::*;
use libc::EMFILE;

use super::context::part;
use super::object::{Object, null};
use crate::device::events::CompletionEvents;

/// A completion channel.
pub type Channel = Object<ibv_comp_channel, Arc<CompletionEvents>>;

pub unsafe extern "C" fn create(context: *mut ibv_context) -> *mut ibv_comp_channel {
    // SAFETY: by the op's contract the context is open.
    let device = match unsafe { part(context) }.check() {
        Ok(device) => device,
        Err(errno) => return null(errno),
    };
    match CompletionEvents::new() {
        Ok((events, fd)) => {
            let events = Arc::new(events);
            device.add_channel(&events);
            Channel::make(
                ibv_comp_channel {
                    context,
                    fd,
                    refcnt: 0,
                },
                events,
            )
        }
        Err(error) => null(error.raw_os_error().unwrap_or(EMFILE)),
    }
}

pub unsafe extern "C" fn destroy(channel: *mut ibv_comp_channel) {
    // SAFETY: by the op's contract the channel is one of `create`'s, and nobody uses it any more.
    unsafe {
        let device = &part((*channel).context).device;
        if device.is_ours() {
            device.remove_channel(&Channel::of(channel).events());
        }
        libc::close((*channel).fd);
        Channel::free(channel);
    }
}

impl Channel {
    pub fn events(&self) -> Arc<CompletionEvents> {
        Arc::clone(self)
    }
}
