//! Completion channels: file descriptors that tell of completion events.

use libc::{EBUSY, ENOMEM, c_int, pthread_mutex_t};

use crate::abi::*;
use crate::{provider::software, uverbs};

/// Creates a completion channel, to be destroyed by `ibv_destroy_comp_channel`
/// (ibv_create_comp_channel(3)). Returns NULL with errno set if it fails.
///
/// # Safety
///
/// `context` is an open context.
pub unsafe extern "C" fn ibv_create_comp_channel(
    context: *mut ibv_context,
) -> *mut ibv_comp_channel {
    // SAFETY: an open context, whose device's function this is.
    if let Some(software) = unsafe { software::of_context(context) } {
        // SAFETY: as above.
        return unsafe { (software.create_comp_channel)(context) };
    }
    // SAFETY: malloc takes any size.
    let channel = unsafe { libc::malloc(size_of::<ibv_comp_channel>()) }.cast::<ibv_comp_channel>();
    if channel.is_null() {
        return Errno(ENOMEM).null();
    }
    // SAFETY: an open context.
    match unsafe { uverbs::cmd::comp_channel::create(context) } {
        Ok(fd) => {
            // SAFETY: just allocated, of this size and aligned for any type.
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
            // SAFETY: allocated by malloc just now and known to nobody.
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
/// `channel` is a live channel, dead after success.
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: the channel lives and its context too, whose mutex guards the count of users and is
    // unlocked again on both ways; with no user left the channel is this function's to free.
    unsafe {
        let mutex = &raw mut (*(*channel).context).mutex;
        libc::pthread_mutex_lock(mutex);
        // Apart, as it costs the usual way a few instructions less.
        if (*channel).refcnt != 0 {
            return busy(mutex);
        }
        // A software device has no command descriptor, and that is the cheapest way to see one.
        if (*(*channel).context).cmd_fd == -1 {
            destroy(channel);
        } else {
            libc::close((*channel).fd);
            libc::free(channel.cast());
        }
        libc::pthread_mutex_unlock(mutex);
    }
    0
}

/// # Safety
///
/// This thread holds the mutex.
#[cold]
#[inline(never)]
unsafe fn busy(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: by the contract.
    unsafe { libc::pthread_mutex_unlock(mutex) };
    EBUSY
}

/// The same for a context without a command descriptor: a software device's channel is its own to close
/// and free.
///
/// # Safety
///
/// `channel` is a live channel that nobody uses any more.
#[cold]
#[inline(never)]
unsafe fn destroy(channel: *mut ibv_comp_channel) {
    // SAFETY: the channel lives, and is this function's alone.
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
