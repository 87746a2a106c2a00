//! statfs(2) and statvfs(3): the file system of a node of the tree is that of `/sys` or `/dev`. libudev
//! uses no device whose descriptor is not on sysfs.

use core::ffi::{CStr, c_char, c_int};

use libc::{statfs as Statfs, statvfs as Statvfs};

use super::answer::{Path, answer_query};
use crate::view::{real, state};

/// The directory whose file system a node at `path` is in.
fn top(path: &str) -> &'static CStr {
    if path.starts_with("/dev") {
        c"/dev"
    } else {
        c"/sys"
    }
}

macro_rules! file_system_functions {
    ($($by_path:ident, $by_descriptor:ident: $ty:ty;)*) => {
        $(
            /// # Safety
            /// As for the function of libc.
            pub unsafe extern "C" fn $by_path(path: *const c_char, buf: *mut $ty) -> c_int {
                // SAFETY: the caller passes what the function of libc accepts.
                unsafe {
                    answer_query(
                        Path::new(path, true),
                        |_, path| real::$by_path(path, buf),
                        |path, _| real::$by_path(top(path).as_ptr(), buf),
                    )
                }
            }

            /// # Safety
            /// As for the function of libc.
            pub unsafe extern "C" fn $by_descriptor(fd: c_int, buf: *mut $ty) -> c_int {
                // SAFETY: the caller passes what the function of libc accepts.
                unsafe {
                    match state::opened(fd) {
                        None => real::$by_descriptor(fd, buf),
                        Some(opened) => real::$by_path(top(&opened.path).as_ptr(), buf),
                    }
                }
            }
        )*
    };
}

file_system_functions! {
    statfs, fstatfs: Statfs;
    statvfs, fstatvfs: Statvfs;
}
