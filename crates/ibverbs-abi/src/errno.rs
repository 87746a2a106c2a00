//! Errors as C sees them: errno values, and the three ways in which verbs report one.
//!
//! Inside the library a failing function returns [`Result`]. The conversion to what C expects
//! (a positive errno, -1, NULL) happens once, in the function that C calls, through the methods here.

use core::{fmt, ptr};

use libc::c_int;

/// A result whose error is an errno value.
pub type Result<T, E = Errno> = core::result::Result<T, E>;

/// A positive errno value, such as `EINVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Errno(pub c_int);

impl Errno {
    /// The calling thread's errno.
    #[inline]
    pub fn last() -> Errno {
        // SAFETY: libc returns the address of this thread's errno, valid as long as the thread runs.
        Errno(unsafe { *libc::__errno_location() })
    }

    /// Makes this the calling thread's errno.
    #[inline]
    pub fn set(self) {
        // SAFETY: libc returns the address of this thread's errno, and only this thread writes to it.
        unsafe { *libc::__errno_location() = self.0 }
    }

    /// Sets errno and returns the error: how a function inside the library refuses a call itself. An error
    /// that a system call returned is in errno already.
    #[inline]
    pub fn fail<T>(self) -> Result<T, Errno> {
        self.set();
        Err(self)
    }

    /// Sets errno and returns the value: how a verb that returns an errno value fails.
    #[inline]
    pub fn returned(self) -> c_int {
        self.set();
        self.0
    }

    /// Sets errno and returns NULL: how a verb that returns a pointer fails.
    #[inline]
    pub fn null<T>(self) -> *mut T {
        self.set();
        ptr::null_mut()
    }

    /// Sets errno and returns -1: how a verb fails that follows the system calls' convention.
    #[inline]
    pub fn minus_one(self) -> c_int {
        self.set();
        -1
    }
}

/// The C convention of a function that returns 0 or an errno value.
pub trait IntoC {
    /// 0, or the error's value. errno stays as the failing call has left it.
    fn into_c(self) -> c_int;
}

impl IntoC for Result<(), Errno> {
    #[inline]
    fn into_c(self) -> c_int {
        self.err().map_or(0, |errno| errno.0)
    }
}

impl From<std::io::Error> for Errno {
    /// The error's errno; EIO for an error that did not come from the system.
    fn from(error: std::io::Error) -> Errno {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> std::io::Error {
        std::io::Error::from_raw_os_error(errno.0)
    }
}

impl fmt::Display for Errno {
    /// Writes the text of `strerror`, with the number.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        std::io::Error::from(*self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_convention_sets_errno() {
        for fail in [
            |errno: Errno| assert_eq!(errno.fail::<()>(), Err(Errno(libc::EMFILE))),
            |errno: Errno| assert_eq!(errno.returned(), libc::EMFILE),
            |errno: Errno| assert!(errno.null::<u8>().is_null()),
            |errno: Errno| assert_eq!(errno.minus_one(), -1),
        ] {
            Errno(0).set();
            fail(Errno(libc::EMFILE));
            assert_eq!(Errno::last(), Errno(libc::EMFILE));
        }
    }

    #[test]
    fn a_result_becomes_a_c_int_and_leaves_errno_alone() {
        Errno(libc::EIO).set();
        assert_eq!(Ok(()).into_c(), 0);
        assert_eq!(Err(Errno(libc::EBUSY)).into_c(), libc::EBUSY);
        assert_eq!(Errno::last(), Errno(libc::EIO));
    }

    #[test]
    fn io_errors_convert_both_ways() {
        let error = std::io::Error::from(Errno(libc::ENODEV));
        assert_eq!(Errno::from(error), Errno(libc::ENODEV));
        let other = std::io::Error::other("no errno");
        assert_eq!(Errno::from(other), Errno(libc::EIO));
    }
}
