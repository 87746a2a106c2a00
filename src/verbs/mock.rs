//! A context for tests, which act as its provider.

use core::mem::MaybeUninit;

use crate::abi::*;
use crate::provider::ops::set_defaults;
use crate::provider::private::Private;
use crate::uverbs::state::State;

/// A context without a kernel device. All ops are unsupported until the test sets them.
pub(crate) struct Mock {
    device: *mut verbs_device,
    private: *mut Private,
    context: *mut verbs_context,
}

/// A struct of zeros on the heap.
///
/// # Safety
///
/// Zeros are a valid value of the type.
unsafe fn zeroed<T>() -> *mut T {
    // SAFETY: zeros are a valid value, as the caller promises.
    Box::into_raw(Box::new(unsafe {
        MaybeUninit::<T>::zeroed().assume_init()
    }))
}

impl Mock {
    pub fn new() -> Self {
        // SAFETY: zeros are a valid device and context; the private part is written before it is read.
        unsafe {
            let device = zeroed::<verbs_device>();
            let context = zeroed::<verbs_context>();
            let private = Box::into_raw(Box::<Private>::new_uninit()).cast::<Private>();
            (&raw mut (*private).state).write(State::new(0));
            (*context).priv_ = private.cast();
            let ctx = &raw mut (*context).context;
            (*ctx).device = device.cast();
            (*ctx).cmd_fd = -1;
            (*ctx).async_fd = -1;
            libc::pthread_mutex_init(&raw mut (*ctx).mutex, core::ptr::null());
            set_defaults(ctx);
            Self {
                device,
                private,
                context,
            }
        }
    }

    /// The public context.
    pub fn context(&self) -> *mut ibv_context {
        // SAFETY: the context lives as long as `self`.
        unsafe { &raw mut (*self.context).context }
    }

    /// The device, for the test to fill in.
    pub fn device(&mut self) -> &mut verbs_device {
        // SAFETY: the device lives as long as `self`, and only this test uses it.
        unsafe { &mut *self.device }
    }

    /// The ops, for the test to set.
    pub fn ops(&mut self) -> &mut verbs_context_ops {
        // SAFETY: the private part lives as long as `self`, and only this test uses it.
        unsafe { &mut (*self.private).ops }
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        // SAFETY: all three came from boxes of these types, and are freed only here.
        unsafe {
            drop(Box::from_raw(self.context));
            drop(Box::from_raw(self.private));
            drop(Box::from_raw(self.device));
        }
    }
}
