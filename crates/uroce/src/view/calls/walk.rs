//! Functions of libc that walk directories by themselves: nftw(3), ftw(3), glob(3); fts(3) is in `fts`.
//! libc's own calls are not redirected, so a walk that may meet the tree is made here (nftw), or with this
//! module's functions (glob).
//!
//! nftw is not made of the walk of `fts`: it opens a directory before it reports it, enters each directory
//! once even if no link leads back, makes it the working directory, and its visitor may skip the siblings.
//! What both have in common is a readdir(3), and a stat(2) for each name.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::CString;

use ibverbs_abi::Errno;
use libc::{AT_FDCWD, DIR, dirent};

use super::descriptor::{chdir, getcwd};
use super::directory::{closedir, name, opendir, readdir};
use super::stat::{lstat, stat};
use super::{PathTarget, find};
use crate::view::libc_types::Ftw;
use crate::view::real::{self, FtwVisitor, NftwVisitor};
use crate::view::{paths, state};

/// The kinds of entries (ftw.h).
const FTW_F: c_int = 0;
const FTW_D: c_int = 1;
const FTW_DNR: c_int = 2;
const FTW_NS: c_int = 3;
const FTW_SL: c_int = 4;
const FTW_DP: c_int = 5;
const FTW_SLN: c_int = 6;

/// Flags of nftw(3).
const FTW_PHYS: c_int = 1;
const FTW_MOUNT: c_int = 2;
const FTW_CHDIR: c_int = 4;
const FTW_DEPTH: c_int = 8;
const FTW_ACTIONRETVAL: c_int = 16;

/// The values that a visitor may return with FTW_ACTIONRETVAL.
const FTW_SKIP_SUBTREE: c_int = 2;
const FTW_SKIP_SIBLINGS: c_int = 3;

enum Visitor {
    Nftw(NftwVisitor),
    Ftw(FtwVisitor),
}

struct TreeWalk {
    visitor: Visitor,
    flags: c_int,
    /// The working directory at the start, if visitors are called in the directory of each entry: then the
    /// walk's own calls cannot use relative paths.
    cwd: Option<CString>,
    /// The file system of the start.
    device: u64,
    /// Directories that were visited, because links may lead back to them.
    visited: HashSet<(u64, u64)>,
}

impl TreeWalk {
    fn visit(&self, path: &CStr, found: &libc::stat, kind: c_int, level: c_int) -> c_int {
        let slash = path.to_bytes().iter().rposition(|byte| *byte == b'/');
        let mut ftw = Ftw {
            base: slash.map_or(0, |at| at as c_int + 1),
            level,
        };
        // SAFETY: the program passed a function that accepts a path, its status, its kind and its place.
        unsafe {
            match self.visitor {
                Visitor::Nftw(visit) => visit(path.as_ptr(), found, kind, &raw mut ftw),
                Visitor::Ftw(visit) => visit(path.as_ptr(), found, kind),
            }
        }
    }

    /// The kind and status of an entry. Fails as stat(2).
    fn classify(&self, path: &CStr) -> Result<(c_int, libc::stat), Errno> {
        // SAFETY: the structure consists of integers.
        let mut found: libc::stat = unsafe { core::mem::zeroed() };
        let path = self.absolute(path);
        // SAFETY: the path is a C string, and the structure writable.
        unsafe {
            if self.flags & FTW_PHYS == 0 {
                if stat(path.as_ptr(), &mut found) == 0 {
                    return Ok((TreeWalk::kind_of(&found), found));
                }
                let errno = Errno::last();
                let is_link = lstat(path.as_ptr(), &mut found) == 0
                    && found.st_mode & libc::S_IFMT == libc::S_IFLNK;
                // A link that leads nowhere.
                return if errno == Errno(libc::ENOENT) && is_link {
                    Ok((FTW_SLN, found))
                } else {
                    Err(errno)
                };
            }
            if lstat(path.as_ptr(), &mut found) != 0 {
                return Err(Errno::last());
            }
        }
        if found.st_mode & libc::S_IFMT == libc::S_IFLNK {
            return Ok((FTW_SL, found));
        }
        Ok((TreeWalk::kind_of(&found), found))
    }

    fn kind_of(found: &libc::stat) -> c_int {
        if found.st_mode & libc::S_IFMT == libc::S_IFDIR {
            FTW_D
        } else {
            FTW_F
        }
    }

    /// Visits an entry below the start and what is below it. Returns what a visitor has returned to end the
    /// walk or to skip the entry's siblings, or 0.
    fn entry(&mut self, path: &CStr, level: c_int) -> c_int {
        let (kind, found) = match self.classify(path) {
            Ok(classified) => classified,
            // SAFETY: the structure consists of integers.
            Err(Errno(libc::EACCES | libc::ENOENT)) => (FTW_NS, unsafe { core::mem::zeroed() }),
            Err(errno) => return errno.minus_one(),
        };
        let elsewhere = self.flags & FTW_MOUNT != 0 && found.st_dev != self.device;
        if kind != FTW_NS && elsewhere {
            return 0;
        }
        match self.tree(path, kind, &found, level) {
            FTW_SKIP_SUBTREE if self.acts() => 0,
            result => result,
        }
    }

    /// Whether what a visitor returns says how the walk goes on.
    fn acts(&self) -> bool {
        self.flags & FTW_ACTIONRETVAL != 0
    }

    /// Visits an entry that has been classified, and what is below it.
    fn tree(&mut self, path: &CStr, kind: c_int, found: &libc::stat, level: c_int) -> c_int {
        if kind != FTW_D {
            return self.visit(path, found, kind, level);
        }
        let is_new = self.visited.insert((found.st_dev, found.st_ino));
        if !is_new && self.flags & FTW_PHYS == 0 {
            return 0;
        }
        self.directory(path, found, level)
    }

    /// Walks over everything. Returns what nftw(3) returns.
    fn start(&mut self, path: &CStr) -> c_int {
        let (kind, found) = match self.classify(path) {
            Ok(classified) => classified,
            Err(errno) => return errno.minus_one(),
        };
        self.device = found.st_dev;
        match self.tree(path, kind, &found, 0) {
            FTW_SKIP_SUBTREE | FTW_SKIP_SIBLINGS if self.acts() => 0,
            result => result,
        }
    }

    fn directory(&mut self, path: &CStr, found: &libc::stat, level: c_int) -> c_int {
        // SAFETY: the path is a C string.
        let dir = unsafe { opendir(self.absolute(path).as_ptr()) };
        if dir.is_null() {
            return match Errno::last() {
                Errno(libc::EACCES) => self.visit(path, found, FTW_DNR, level),
                errno => errno.minus_one(),
            };
        }
        let names = read_names(dir);
        let before = if self.flags & FTW_DEPTH == 0 {
            self.visit(path, found, FTW_D, level)
        } else {
            0
        };
        if before != 0 {
            return before;
        }
        if !self.change_directory(path) {
            return -1;
        }
        for name in names {
            let result = self.entry(&join(path, &name), level + 1);
            match result {
                0 => {}
                FTW_SKIP_SIBLINGS if self.acts() => break,
                result => return result,
            }
        }
        // As in glibc, the directory itself is still the working directory.
        let after = if self.flags & FTW_DEPTH != 0 {
            self.visit(path, found, FTW_DP, level)
        } else {
            0
        };
        if self.change_directory(parent(path)) {
            after
        } else {
            -1
        }
    }

    /// A path for calls of the walk.
    fn absolute<'a>(&self, path: &'a CStr) -> Cow<'a, CStr> {
        match &self.cwd {
            Some(cwd) if path.to_bytes().first() != Some(&b'/') => join(cwd, path).into(),
            _ => path.into(),
        }
    }

    /// Makes a directory of the walk the working directory, with FTW_CHDIR. False if that fails.
    fn change_directory(&self, path: impl AsRef<CStr>) -> bool {
        let Some(cwd) = &self.cwd else {
            return true;
        };
        let path = path.as_ref();
        let path = if path.is_empty() {
            cwd.into()
        } else {
            self.absolute(path)
        };
        // SAFETY: the path is a C string.
        unsafe { chdir(path.as_ptr()) == 0 }
    }
}

/// The directory that contains an entry; empty for a name without a directory.
fn parent(path: &CStr) -> CString {
    let bytes = path.to_bytes();
    let end = match bytes.iter().rposition(|byte| *byte == b'/') {
        Some(0) => 1,
        Some(slash) => slash,
        None => 0,
    };
    // A part of a C string has no NUL.
    CString::new(&bytes[..end]).unwrap_or_default()
}

/// The path of an entry of a directory.
pub fn join(directory: &CStr, name: &CStr) -> CString {
    let mut path = directory.to_bytes().to_vec();
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name.to_bytes());
    // Both parts come from C strings and have no NUL.
    CString::new(path).unwrap_or_default()
}

/// The names in a directory, without `.` and `..`; None with errno set if it cannot be read.
pub fn names_in(path: &CStr) -> Option<Vec<CString>> {
    // SAFETY: the path is a C string.
    let dir = unsafe { opendir(path.as_ptr()) };
    (!dir.is_null()).then(|| read_names(dir))
}

/// Reads the names in an open directory, without `.` and `..`, and closes it.
fn read_names(dir: *mut DIR) -> Vec<CString> {
    let mut names = Vec::new();
    // SAFETY: the caller passes an open stream that it does not use again; a name is valid until the next
    // call.
    unsafe {
        loop {
            let entry = readdir(dir);
            if entry.is_null() {
                break;
            }
            let name = name(entry);
            if name != c"." && name != c".." {
                names.push(name.to_owned());
            }
        }
        closedir(dir);
    }
    names
}

/// Walks over a path that leads to the tree.
///
/// # Safety
/// `path` is a C string.
unsafe fn walk(path: *const c_char, visitor: Visitor, flags: c_int) -> c_int {
    // SAFETY: the path is a C string, as the caller promises.
    let start = without_slashes(unsafe { CStr::from_ptr(path) });
    let mut walk = TreeWalk {
        visitor,
        flags,
        cwd: None,
        device: 0,
        visited: HashSet::new(),
    };
    if flags & FTW_CHDIR == 0 {
        return walk.start(&start);
    }
    let Some(cwd) = working_directory() else {
        return -1;
    };
    walk.cwd = Some(cwd);
    let result = if walk.change_directory(parent(&start)) {
        walk.start(&start)
    } else {
        -1
    };
    let errno = Errno::last();
    let is_back = walk.change_directory(c"");
    if result == 0 && !is_back {
        return -1;
    }
    errno.set();
    result
}

/// A path without the slashes at its end, as visitors get it.
fn without_slashes(path: &CStr) -> CString {
    let bytes = path.to_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/');
    let end = end.map_or(1, |last| last + 1).min(bytes.len());
    // A part of a C string has no NUL.
    CString::new(&bytes[..end]).unwrap_or_default()
}

/// The working directory; None with errno set if it has no path.
fn working_directory() -> Option<CString> {
    let mut path = [0; libc::PATH_MAX as usize];
    // SAFETY: the buffer is writable for its length; getcwd has written a C string if it succeeds.
    unsafe {
        let found = getcwd(path.as_mut_ptr(), path.len());
        (!found.is_null()).then(|| CStr::from_ptr(found).to_owned())
    }
}

/// # Safety
/// As for nftw(3).
pub unsafe extern "C" fn nftw(
    path: *const c_char,
    visitor: NftwVisitor,
    descriptors: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller passes what nftw(3) accepts.
    unsafe {
        match find(AT_FDCWD, path, flags & FTW_PHYS == 0) {
            PathTarget::Ours(..) => walk(path, Visitor::Nftw(visitor), flags),
            PathTarget::KernelAt(path) => real::nftw(path.as_ptr(), visitor, descriptors, flags),
            PathTarget::Error(errno) => errno.minus_one(),
            _ => real::nftw(path, visitor, descriptors, flags),
        }
    }
}

/// # Safety
/// As for ftw(3).
pub unsafe extern "C" fn ftw(
    path: *const c_char,
    visitor: FtwVisitor,
    descriptors: c_int,
) -> c_int {
    // SAFETY: the caller passes what ftw(3) accepts.
    unsafe {
        match find(AT_FDCWD, path, true) {
            PathTarget::Ours(..) => walk(path, Visitor::Ftw(visitor), 0),
            PathTarget::KernelAt(path) => real::ftw(path.as_ptr(), visitor, descriptors),
            PathTarget::Error(errno) => errno.minus_one(),
            PathTarget::Kernel => real::ftw(path, visitor, descriptors),
        }
    }
}

/// `glob_t` of glob.h, with the functions that GLOB_ALTDIRFUNC makes glob use.
#[repr(C)]
struct Glob {
    count: usize,
    paths: *mut *mut c_char,
    reserved: usize,
    flags: c_int,
    closedir: unsafe extern "C" fn(*mut c_void),
    readdir: unsafe extern "C" fn(*mut c_void) -> *mut dirent,
    opendir: unsafe extern "C" fn(*const c_char) -> *mut DIR,
    lstat: unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int,
    stat: unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int,
}

const _: () = assert!(size_of::<Glob>() == size_of::<libc::glob_t>());

const GLOB_ALTDIRFUNC: c_int = 1 << 9;

unsafe extern "C" fn glob_closedir(dir: *mut c_void) {
    // SAFETY: glob passes a stream of `opendir`, once.
    unsafe { closedir(dir.cast()) };
}

unsafe extern "C" fn glob_readdir(dir: *mut c_void) -> *mut dirent {
    // SAFETY: glob passes an open stream of `opendir`.
    unsafe { readdir(dir.cast()) }
}

/// # Safety
/// As for glob(3).
pub unsafe extern "C" fn glob(
    pattern: *const c_char,
    flags: c_int,
    on_error: *const c_void,
    found: *mut libc::glob_t,
) -> c_int {
    // SAFETY: the caller passes a C string.
    let text = unsafe { real::bytes(pattern) }.unwrap_or_default();
    let may_concern = match text.first() {
        Some(b'/') => {
            paths::may_concern(text) || text.starts_with(b"/*") || text.starts_with(b"/?")
        }
        _ => state::tracks_cwd(),
    };
    if !may_concern || flags & GLOB_ALTDIRFUNC != 0 || crate::bypass::is_active() {
        // SAFETY: the caller passes what glob(3) accepts.
        return unsafe { real::glob(pattern, flags, on_error, found) };
    }
    let extended = found.cast::<Glob>();
    // SAFETY: the caller passes what glob(3) accepts; the functions are of the types that GLOB_ALTDIRFUNC
    // needs.
    unsafe {
        (*extended).closedir = glob_closedir;
        (*extended).readdir = glob_readdir;
        (*extended).opendir = opendir;
        (*extended).lstat = lstat;
        (*extended).stat = stat;
        let result = real::glob(pattern, flags | GLOB_ALTDIRFUNC, on_error, found);
        (*extended).flags &= !GLOB_ALTDIRFUNC;
        result
    }
}
