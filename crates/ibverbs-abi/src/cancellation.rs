//! Disabling thread cancellation (pthread_cancel(3)), for which the libc crate has no functions.

use core::ffi::c_int;
use core::marker::PhantomData;

/// A request to cancel the thread stays pending.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old_state: *mut c_int) -> c_int;
}

/// Disables cancellation of the calling thread. Returns the state before, for [`restore_cancel_state`].
pub fn disable_cancel_state() -> c_int {
    set_cancel_state(PTHREAD_CANCEL_DISABLE)
}

/// Sets the calling thread's cancellation state to one that [`disable_cancel_state`] has returned.
pub fn restore_cancel_state(state: c_int) {
    set_cancel_state(state);
}

fn set_cancel_state(state: c_int) -> c_int {
    let mut before = 0;
    // SAFETY: `before` is writable. An invalid state is refused.
    unsafe { pthread_setcancelstate(state, &mut before) };
    before
}

/// While it lives, the thread that made it is not cancelled.
pub struct CancellationDisabled {
    before: c_int,
    /// The state is the thread's own.
    not_send: PhantomData<*const ()>,
}

/// Disables cancellation of the calling thread until the guard is dropped. A request to cancel the thread
/// stays pending meanwhile. Guards nest.
pub fn disable_cancellation() -> CancellationDisabled {
    CancellationDisabled {
        before: disable_cancel_state(),
        not_send: PhantomData,
    }
}

impl Drop for CancellationDisabled {
    fn drop(&mut self) {
        restore_cancel_state(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_nest() {
        let state = || disable_cancellation().before;
        let outer = disable_cancellation();
        assert_ne!(outer.before, PTHREAD_CANCEL_DISABLE);
        drop(disable_cancellation());
        assert_eq!(state(), PTHREAD_CANCEL_DISABLE);
        drop(outer);
        assert_ne!(state(), PTHREAD_CANCEL_DISABLE);
    }
}
