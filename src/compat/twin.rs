//! Creation, use and destruction of the pairs of a twin and its real object.

use core::ptr;

/// Creates a real object with `real`, and its twin. `twin` gets the real object and the twin's address, and
/// returns the twin's value. Returns NULL, with the errno of malloc or of `real`, if one of them fails.
///
/// # Safety
///
/// `real` returns NULL or a new object that no other thread knows yet.
pub(super) unsafe fn pair<Twin, Real>(
    real: impl FnOnce() -> *mut Real,
    twin: impl FnOnce(&mut Real, *mut Twin) -> Twin,
) -> *mut Twin {
    const { assert!(align_of::<Twin>() <= align_of::<libc::max_align_t>()) };
    // SAFETY: malloc accepts any size.
    let memory = unsafe { libc::malloc(size_of::<Twin>()) }.cast::<Twin>();
    if memory.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: `real` returns NULL or an object that no other thread knows yet, as the caller promises.
    match unsafe { real().as_mut() } {
        Some(real) => {
            // SAFETY: malloc returned memory of the twin's size, aligned for any type.
            unsafe { memory.write(twin(real, memory)) };
            memory
        }
        None => {
            // SAFETY: malloc allocated it above, and nobody else has its address.
            unsafe { libc::free(memory.cast()) };
            ptr::null_mut()
        }
    }
}

/// Defines verbs that call the real verb with the twin's real object:
/// `name(twin: Twin => real, arguments) -> type = verb`.
macro_rules! forward {
    ($($(#[$doc:meta])*
       $name:ident($twin:ident: $ty:ty => $real:ident $(, $arg:ident: $arg_ty:ty)* $(,)?)
       $(-> $ret:ty)? = $verb:path;)+) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// The object was created by this layer and is alive; other arguments are as the verb requires.
        pub unsafe extern "C" fn $name($twin: *mut $ty $(, $arg: $arg_ty)*) $(-> $ret)? {
            // SAFETY: the twin is alive, so its real object is; the other arguments are as the verb
            // requires, as the caller promises.
            unsafe { $verb((*$twin).$real $(, $arg)*) }
        }
    )+};
}

/// Defines verbs that destroy the real object and, if that succeeds, its twin.
macro_rules! destroy {
    ($($(#[$doc:meta])* $name:ident($twin:ident: $ty:ty => $real:ident) = $verb:path;)+) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// The object was created by this layer and is alive, and is not used again after success.
        pub unsafe extern "C" fn $name($twin: *mut $ty) -> ::libc::c_int {
            // SAFETY: the twin is alive, so its real object is. `pair` allocated the twin with malloc, and
            // it is not used again after success.
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
    fn a_pair_points_to_each_other() {
        let mut real = 0_u32;
        // SAFETY: the closure returns an object that no other thread knows.
        let twin = unsafe {
            pair(
                || &raw mut real,
                |real, itself: *mut Twin| {
                    *real = 7;
                    Twin { itself, real }
                },
            )
        };
        // SAFETY: `pair` allocated the twin, and nothing has freed it.
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

    fn busy_once(real: *mut c_void) -> c_int {
        // SAFETY: the test's own counter.
        let calls = unsafe { &mut *real.cast::<c_int>() };
        *calls += 1;
        if *calls == 1 { libc::EBUSY } else { 0 }
    }

    destroy! {
        /// Fails the first time.
        destroy_old(old: Old => real) = busy_once;
    }

    #[test]
    fn a_twin_outlives_a_failed_destroy() {
        let mut calls: c_int = 0;
        // SAFETY: the closure returns an object that no other thread knows.
        let old = unsafe {
            pair(
                || &raw mut calls,
                |real, _| Old {
                    real: ptr::from_mut(real).cast(),
                },
            )
        };
        // SAFETY: the twin is alive until the second call, which frees it.
        unsafe {
            assert_eq!(destroy_old(old), libc::EBUSY);
            assert_eq!((*old).real, (&raw mut calls).cast());
            assert_eq!(destroy_old(old), 0);
        }
        assert_eq!(calls, 2);
    }
}
