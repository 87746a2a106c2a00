//! The border to C: the one place where results take the form that verbs.h has for them.
//!
//! Inside, a verb returns [`Result`]. A function that C calls returns what [`ReturnToC`] makes of it.

use core::ffi::c_int;

use ibverbs_abi::Errno;
pub use ibverbs_abi::Result;

/// Converts a [`Result`] to what C expects. Unlike [`ibverbs_abi::IntoC`], a failure sets errno.
pub trait ReturnToC {
    /// The return type of the C function.
    type C;

    /// Converts the result to the one of the C function. A failure sets the calling thread's errno.
    fn return_to_c(self) -> Self::C;
}

impl ReturnToC for Result<()> {
    type C = c_int;

    /// 0 or the errno value.
    fn return_to_c(self) -> c_int {
        self.err().map_or(0, Errno::returned)
    }
}

impl<T> ReturnToC for Result<*mut T> {
    type C = *mut T;

    /// The pointer, or NULL.
    fn return_to_c(self) -> *mut T {
        self.unwrap_or_else(Errno::null)
    }
}

/// Defines C functions that call the function of the same name in a module and convert its result. They
/// are not cancellation points.
macro_rules! c_functions {
    ($($module:ident { $($name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;)* })*) => { $($(
        unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            let _no_cancellation = crate::cancellation::disable();
            // SAFETY: the arguments are passed on; what the verb requires of them, its manual page
            // requires of the caller.
            unsafe { $module::$name($($arg),*) }.return_to_c()
        }
    )*)* };
}
pub(crate) use c_functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_set_errno() {
        Errno(0).set();
        assert_eq!(Result::Ok(()).return_to_c(), 0);
        assert_eq!(Errno::last(), Errno(0));
        assert_eq!(
            Result::<()>::Err(Errno(libc::EBUSY)).return_to_c(),
            libc::EBUSY
        );
        assert_eq!(Errno::last(), Errno(libc::EBUSY));
        let mut object = 1;
        assert_eq!(Result::Ok(&raw mut object).return_to_c(), &raw mut object);
        assert!(
            Result::<*mut u8>::Err(Errno(libc::EPERM))
                .return_to_c()
                .is_null()
        );
        assert_eq!(Errno::last(), Errno(libc::EPERM));
    }
}
