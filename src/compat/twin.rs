//! Twins: how the pairs of an old and a real object are made, used and destroyed.

use core::ptr;

/// Makes a real object and its twin. `twin` gets the real object and the twin's address, and returns
/// what to store there. NULL, with errno as malloc or `real` set it, if either cannot be had.
///
/// # Safety
///
/// `real` returns NULL or a live object.
pub(super) unsafe fn pair<Twin, Real>(
    real: impl FnOnce() -> *mut Real,
    twin: impl FnOnce(&mut Real, *mut Twin) -> Twin,
) -> *mut Twin {
    const { assert!(align_of::<Twin>() <= align_of::<libc::max_align_t>()) };
    // SAFETY: malloc takes any size.
    let memory = unsafe { libc::malloc(size_of::<Twin>()) }.cast::<Twin>();
    if memory.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: NULL or a live object that nobody else knows yet, as this function's caller promises.
    match unsafe { real().as_mut() } {
        Some(real) => {
            // SAFETY: malloc'ed above with the twin's size and any type's alignment.
            unsafe { memory.write(twin(real, memory)) };
            memory
        }
        None => {
            // SAFETY: malloc'ed above and known to nobody.
            unsafe { libc::free(memory.cast()) };
            ptr::null_mut()
        }
    }
}

/// Verbs that do to the real object what is asked of its twin:
/// `name(twin: Twin => real, arguments) -> answer = verb`.
macro_rules! forward {
    ($($(#[$doc:meta])*
       $name:ident($twin:ident: $ty:ty => $real:ident $(, $arg:ident: $arg_ty:ty)* $(,)?)
       $(-> $answer:ty)? = $verb:path;)+) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// The object is one that this layer made and that lives; the rest as the verb has it.
        pub unsafe extern "C" fn $name($twin: *mut $ty $(, $arg: $arg_ty)*) $(-> $answer)? {
            // SAFETY: the twin lives, so its real object does; the caller promises the rest.
            unsafe { $verb((*$twin).$real $(, $arg)*) }
        }
    )+};
}

/// Verbs that destroy the real object and, once that is done, its twin.
macro_rules! destroy {
    ($($(#[$doc:meta])* $name:ident($twin:ident: $ty:ty => $real:ident) = $verb:path;)+) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// The object is one that this layer made and that lives. After success it is gone.
        pub unsafe extern "C" fn $name($twin: *mut $ty) -> ::libc::c_int {
            // SAFETY: the twin lives, so its real object does; without it the twin is of no use to
            // anybody and goes back to where `pair` had it from.
            unsafe {
                let err = $verb((*$twin).$real);
                if err == 0 {
                    ::libc::free($twin.cast());
                }
                err
            }
        }
    )+};
}

pub(super) use {destroy, forward};

#[cfg(test)]
mod tests {
    use super::*;
    use ibverbs_abi::Errno;
    use libc::{c_int, c_void};

    struct Twin {
        itself: *mut Twin,
        real: *mut u32,
    }

    #[test]
    fn a_pair_knows_each_other() {
        let mut real = 0_u32;
        // SAFETY: the closure returns a live object.
        let twin = unsafe {
            pair(
                || &raw mut real,
                |real, itself: *mut Twin| {
                    *real = 7;
                    Twin { itself, real }
                },
            )
        };
        // SAFETY: `pair` made it, and nobody freed it.
        unsafe {
            assert_eq!((*twin).itself, twin);
            assert_eq!(*(*twin).real, 7);
            libc::free(twin.cast());
        }
    }

    #[test]
    fn no_twin_without_its_real_object() {
        // SAFETY: the closure returns NULL.
        let twin = unsafe {
            pair(
                || Errno(libc::EBUSY).null::<u32>(),
                |real, itself: *mut Twin| Twin { itself, real },
            )
        };
        assert!(twin.is_null());
        assert_eq!(Errno::last(), Errno(libc::EBUSY));
    }

    #[repr(C)]
    pub(super) struct Old {
        real: *mut c_void,
    }

    fn refuse_once(real: *mut c_void) -> c_int {
        // SAFETY: the test's own counter.
        let calls = unsafe { &mut *real.cast::<c_int>() };
        *calls += 1;
        if *calls == 1 { libc::EBUSY } else { 0 }
    }

    destroy! {
        /// What refuses the first time.
        destroy_old(old: Old => real) = refuse_once;
    }

    #[test]
    fn a_twin_outlives_a_refused_destroy() {
        let mut calls: c_int = 0;
        // SAFETY: the closure returns a live object.
        let old = unsafe {
            pair(
                || &raw mut calls,
                |real, _| Old {
                    real: ptr::from_mut(real).cast(),
                },
            )
        };
        // SAFETY: a live twin until the second call, which frees it.
        unsafe {
            assert_eq!(destroy_old(old), libc::EBUSY);
            assert_eq!((*old).real, (&raw mut calls).cast());
            assert_eq!(destroy_old(old), 0);
        }
        assert_eq!(calls, 2);
    }
}
