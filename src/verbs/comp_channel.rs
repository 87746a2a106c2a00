//! Completion channels: file descriptors from which completion events are read.

use libc::{EBUSY, ENOMEM, c_int};

use crate::abi::*;
use crate::{diagnose, provider::software, uverbs};

/// Creates a completion channel; `ibv_destroy_comp_channel` destroys it (ibv_create_comp_channel(3)).
/// Returns NULL with errno set if it fails.
///
/// # Safety
///
/// `context` is an open context.
pub unsafe extern "C" fn ibv_create_comp_channel(
    context: *mut ibv_context,
) -> *mut ibv_comp_channel {
    // SAFETY: the context is open, as the caller promises.
    if let Some(software) = unsafe { software::of_context(context) } {
        // SAFETY: the function is this device's, and the context is open.
        return unsafe { (software.create_comp_channel)(context) };
    }
    // SAFETY: malloc accepts any size.
    let channel = unsafe { libc::malloc(size_of::<ibv_comp_channel>()) }.cast::<ibv_comp_channel>();
    if channel.is_null() {
        return Errno(ENOMEM).null();
    }
    // SAFETY: the context is open, as the caller promises.
    match unsafe { uverbs::cmd::comp_channel::create(context) } {
        Ok(fd) => {
            // SAFETY: malloc returned memory of this size, aligned for any type.
            unsafe {
                channel.write(ibv_comp_channel {
                    context,
                    fd,
                    refcnt: 0,
                })
            };
            channel
        }
        Err(errno) => {
            // SAFETY: malloc allocated it above, and nobody else has its address.
            unsafe { libc::free(channel.cast()) };
            errno.null()
        }
    }
}

/// Destroys a completion channel (ibv_create_comp_channel(3)). Returns 0, or EBUSY while a
/// completion queue uses it.
///
/// # Safety
///
/// `channel` is a live channel, and is not used again after success.
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: the channel is alive, so its context is open; the context's mutex protects the channel's
    // reference count and is unlocked on both paths. Without references nobody else uses the channel.
    unsafe {
        let mutex = &raw mut (*(*channel).context).mutex;
        libc::pthread_mutex_lock(mutex);
        // Out of line: this saves the normal path a few instructions.
        if (*channel).refcnt != 0 {
            return busy(channel);
        }
        if software::exist() {
            destroy(channel);
        } else {
            libc::close((*channel).fd);
            libc::free(channel.cast());
        }
        libc::pthread_mutex_unlock(mutex);
    }
    0
}

/// Unlocks the mutex of the context and returns EBUSY. Sets errno for a software device only: with kernel
/// devices the C library leaves it as it was.
///
/// # Safety
///
/// `channel` is alive, and this thread holds the mutex of its open context.
#[cold]
#[inline(never)]
unsafe fn busy(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: the channel is alive and this thread holds the mutex of its open context, as the caller
    // promises.
    let is_software = unsafe {
        let context = (*channel).context;
        libc::pthread_mutex_unlock(&raw mut (*context).mutex);
        software::of_context(context).is_some()
    };
    diagnose::channel_busy(channel as usize);
    if is_software {
        Errno(EBUSY).set();
    }
    EBUSY
}

/// Closes and frees a channel. A software device does that itself.
///
/// # Safety
///
/// `channel` is a live channel without references, and is not used again.
#[cold]
#[inline(never)]
unsafe fn destroy(channel: *mut ibv_comp_channel) {
    // SAFETY: the channel is alive and nobody else uses it, as the caller promises; the library allocated
    // it with malloc unless its device is a software device.
    unsafe {
        match software::of_context((*channel).context) {
            Some(software) => (software.destroy_comp_channel)(channel),
            None => {
                libc::close((*channel).fd);
                libc::free(channel.cast());
            }
        }
    }
}
