//! Types of fts.h and ftw.h, which the functions of libc ([`super::real`]) and those in their place
//! ([`super::calls`]) share.

use core::ffi::{c_char, c_int, c_long, c_void};

/// `struct FTW` of ftw.h.
#[repr(C)]
pub struct Ftw {
    /// The offset of the name in the path.
    pub base: c_int,
    /// The depth below the start.
    pub level: c_int,
}

/// `FTS`: a walk of libc, whose contents only libc knows.
pub enum Fts {}

/// `FTSENT`.
#[repr(C)]
pub struct FtsEntry {
    pub cycle: *mut FtsEntry,
    pub parent: *mut FtsEntry,
    pub link: *mut FtsEntry,
    pub number: c_long,
    pub pointer: *mut c_void,
    pub access_path: *mut c_char,
    pub path: *mut c_char,
    pub errno: c_int,
    pub link_descriptor: c_int,
    pub path_len: u16,
    pub name_len: u16,
    pub inode: libc::ino_t,
    pub device: libc::dev_t,
    pub links: libc::nlink_t,
    pub level: i16,
    pub info: u16,
    pub flags: u16,
    pub instruction: u16,
    pub status: *mut libc::stat,
    /// The first byte of the name.
    pub name: [c_char; 1],
}

/// A comparison of entries of a walk (fts(3)).
pub type FtsCompare = unsafe extern "C" fn(*const *const FtsEntry, *const *const FtsEntry) -> c_int;
