//! Environment variables. As in the C library, each is read with `getenv` at the moment it is needed.

use core::ffi::CStr;

/// The value of the variable `name`, or `None` if it is not set.
///
/// The string belongs to the environment. Like every user of `getenv`, the library relies on the
/// program not to change the environment during a call.
pub fn get(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: `name` is NUL-terminated.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv returned a NUL-terminated string of the environment, which lives as long as the
    // program does not overwrite the variable.
    Some(unsafe { CStr::from_ptr(value) })
}

/// Whether the variable `name` is set to anything but `0`. An empty value counts as set.
pub fn flag(name: &CStr) -> bool {
    get(name).is_some_and(|value| value != c"0")
}

/// Whether variables that name files or devices may be obeyed. They are ignored in a program with more
/// privileges than its caller.
///
/// The kernel reports such a program at exec by AT_SECURE (set-user-ID, set-group-ID, file capabilities).
/// As in the C library, the variables are also ignored if the effective user ID has changed since then.
pub fn trusted() -> bool {
    // SAFETY: the calls take no pointers and cannot fail.
    unsafe { libc::getauxval(libc::AT_SECURE) == 0 && libc::getuid() == libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unset_empty_zero_and_other_values() {
        // SAFETY: the names are this test's own; nothing else in the test program reads them.
        unsafe {
            libc::setenv(c"IBV_TEST_EMPTY".as_ptr(), c"".as_ptr(), 1);
            libc::setenv(c"IBV_TEST_ZERO".as_ptr(), c"0".as_ptr(), 1);
            libc::setenv(c"IBV_TEST_ZEROS".as_ptr(), c"00".as_ptr(), 1);
        }
        assert_eq!(get(c"IBV_TEST_UNSET"), None);
        assert!(!flag(c"IBV_TEST_UNSET"));
        assert_eq!(get(c"IBV_TEST_EMPTY"), Some(c""));
        assert!(flag(c"IBV_TEST_EMPTY"));
        assert!(!flag(c"IBV_TEST_ZERO"));
        assert!(flag(c"IBV_TEST_ZEROS"));
    }
}
