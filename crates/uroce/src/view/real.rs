//! The functions of libc behind the redirected ones. They are looked up once, when the view is installed
//! (`definition.rs`), because a program that contains this library as an archive has its own calls
//! redirected, which include those that this library makes by name. A preloaded library that defines such a
//! function comes first, as it does for the program.

use core::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering, fence};

use ibverbs_abi::Errno;
use libc::{DIR, FILE, mode_t, size_t, ssize_t};

use super::definition::Definitions;
use super::libc_types::{Fts, FtsCompare, FtsEntry, Ftw};

type Dirent = libc::dirent;
type DirentList = *mut *mut *mut Dirent;
type CStrPtr = *const c_char;
type Stat = libc::stat;
type Statx = libc::statx;
type Action = libc::sigaction;

/// A comparison of directory entries (scandir(3)).
pub type Compare =
    unsafe extern "C" fn(*mut *const libc::dirent, *mut *const libc::dirent) -> c_int;
/// The function that decides which directory entries scandir(3) keeps.
pub type Filter = unsafe extern "C" fn(*const libc::dirent) -> c_int;
/// The function that nftw(3) calls for each entry.
pub type NftwVisitor = unsafe extern "C" fn(*const c_char, *const Stat, c_int, *mut Ftw) -> c_int;
/// The function that ftw(3) calls for each entry.
pub type FtwVisitor = unsafe extern "C" fn(*const c_char, *const Stat, c_int) -> c_int;

macro_rules! originals {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty, $missing:expr;)*) => {
        /// The functions of libc; NULL where it does not have one.
        pub mod slots {
            use super::*;
            $(
                #[allow(non_upper_case_globals, reason = "named as the function")]
                pub static $name: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
            )*
        }

        /// Looks all of them up.
        pub fn resolve(definitions: &mut Definitions) {
            $(
                let name = CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes());
                let found = name.map_or(null_mut(), |name| definitions.find(name));
                slots::$name.store(found, Ordering::Relaxed);
            )*
        }

        $(
            /// As in libc; errno is ENOSYS if libc does not have it.
            ///
            /// # Safety
            /// What the function of libc requires.
            #[inline]
            pub unsafe fn $name($($arg: $ty),*) -> $ret {
                let mut found = slots::$name.load(Ordering::Relaxed);
                if found.is_null() {
                    found = load_again(&slots::$name);
                }
                if found.is_null() {
                    Errno(libc::ENOSYS).set();
                    return $missing;
                }
                // SAFETY: the function was found by its name, and C declares it with this type.
                // The caller passes arguments that the function accepts.
                unsafe {
                    let function: unsafe extern "C" fn($($ty),*) -> $ret =
                        core::mem::transmute(found);
                    function($($arg),*)
                }
            }
        )*
    };
}

/// Loads a slot that seems to be NULL. A GOT entry is written after all slots, but the program's load of the
/// entry does not order this library's load of the slot.
#[cold]
fn load_again(slot: &AtomicPtr<c_void>) -> *mut c_void {
    fence(Ordering::Acquire);
    slot.load(Ordering::Relaxed)
}

// Variadic functions take their third argument in the same register as others do (`crate::arch`).
originals! {
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, -1;
    fn openat(dirfd: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, -1;
    fn __open_2(path: *const c_char, flags: c_int) -> c_int, -1;
    fn __openat_2(dirfd: c_int, path: *const c_char, flags: c_int) -> c_int, -1;
    fn creat(path: *const c_char, mode: mode_t) -> c_int, -1;
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE, null_mut();
    fn freopen(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE, null_mut();
    fn stat(path: *const c_char, buf: *mut Stat) -> c_int, -1;
    fn lstat(path: *const c_char, buf: *mut Stat) -> c_int, -1;
    fn fstat(fd: c_int, buf: *mut Stat) -> c_int, -1;
    fn fstatat(dirfd: c_int, path: *const c_char, buf: *mut Stat, flags: c_int) -> c_int, -1;
    fn statx(dirfd: c_int, path: *const c_char, flags: c_int, mask: u32, buf: *mut Statx) -> c_int, -1;
    fn statfs(path: *const c_char, buf: *mut libc::statfs) -> c_int, -1;
    fn fstatfs(fd: c_int, buf: *mut libc::statfs) -> c_int, -1;
    fn statvfs(path: *const c_char, buf: *mut libc::statvfs) -> c_int, -1;
    fn fstatvfs(fd: c_int, buf: *mut libc::statvfs) -> c_int, -1;
    fn access(path: *const c_char, mode: c_int) -> c_int, -1;
    fn euidaccess(path: *const c_char, mode: c_int) -> c_int, -1;
    fn faccessat(dirfd: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int, -1;
    fn readlink(path: *const c_char, buf: *mut c_char, len: size_t) -> ssize_t, -1;
    fn readlinkat(dirfd: c_int, path: *const c_char, buf: *mut c_char, len: size_t) -> ssize_t, -1;
    fn realpath(path: *const c_char, resolved: *mut c_char) -> *mut c_char, null_mut();
    fn getxattr(path: *const c_char, name: *const c_char, value: *mut c_void, len: size_t) -> ssize_t, -1;
    fn lgetxattr(path: *const c_char, name: *const c_char, value: *mut c_void, len: size_t) -> ssize_t, -1;
    fn listxattr(path: *const c_char, list: *mut c_char, len: size_t) -> ssize_t, -1;
    fn llistxattr(path: *const c_char, list: *mut c_char, len: size_t) -> ssize_t, -1;
    fn opendir(path: *const c_char) -> *mut DIR, null_mut();
    fn fdopendir(fd: c_int) -> *mut DIR, null_mut();
    fn closedir(dir: *mut DIR) -> c_int, -1;
    fn readdir(dir: *mut DIR) -> *mut libc::dirent, null_mut();
    fn readdir_r(dir: *mut DIR, entry: *mut Dirent, result: *mut *mut Dirent) -> c_int, libc::ENOSYS;
    fn rewinddir(dir: *mut DIR) -> (), Default::default();
    fn seekdir(dir: *mut DIR, position: libc::c_long) -> (), Default::default();
    fn telldir(dir: *mut DIR) -> libc::c_long, -1;
    fn dirfd(dir: *mut DIR) -> c_int, -1;
    fn getdents64(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t, -1;
    fn scandir(
        path: CStrPtr,
        list: DirentList,
        filter: Option<Filter>,
        compare: Option<Compare>,
    ) -> c_int, -1;
    fn scandirat(
        dirfd: c_int,
        path: CStrPtr,
        list: DirentList,
        filter: Option<Filter>,
        compare: Option<Compare>,
    ) -> c_int, -1;
    fn glob(pattern: CStrPtr, flags: c_int, on_error: *const c_void, found: *mut libc::glob_t) -> c_int, -1;
    fn nftw(path: *const c_char, visitor: NftwVisitor, descriptors: c_int, flags: c_int) -> c_int, -1;
    fn ftw(path: *const c_char, visitor: FtwVisitor, descriptors: c_int) -> c_int, -1;
    fn fts_open(
        paths: *const CStrPtr,
        options: c_int,
        compare: Option<FtsCompare>,
    ) -> *mut Fts, null_mut();
    fn fts_read(walk: *mut Fts) -> *mut FtsEntry, null_mut();
    fn fts_children(walk: *mut Fts, option: c_int) -> *mut FtsEntry, null_mut();
    fn fts_close(walk: *mut Fts) -> c_int, -1;
    fn syscall(
        number: c_long,
        a: usize,
        b: usize,
        c: usize,
        d: usize,
        e: usize,
        f: usize,
    ) -> c_long, -1;
    fn chdir(path: *const c_char) -> c_int, -1;
    fn fchdir(fd: c_int) -> c_int, -1;
    fn chroot(path: *const c_char) -> c_int, -1;
    fn getcwd(buf: *mut c_char, len: size_t) -> *mut c_char, null_mut();
    fn dup(fd: c_int) -> c_int, -1;
    fn dup2(old: c_int, new: c_int) -> c_int, -1;
    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int, -1;
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int, -1;
    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int, -1;
    fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t, -1;
    fn writev(fd: c_int, parts: *const libc::iovec, count: c_int) -> ssize_t, -1;
    fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int, -1;
    fn signal(signal: c_int, new: libc::sighandler_t) -> libc::sighandler_t, libc::SIG_ERR;
    fn sysv_signal(signal: c_int, new: libc::sighandler_t) -> libc::sighandler_t, libc::SIG_ERR;
    fn _exit(status: c_int) -> (), Default::default();
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void, null_mut();
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void, null_mut();
}

/// Whether a path is one that these functions can read: neither NULL nor in the first page, which the kernel
/// answers with EFAULT.
pub fn is_readable(path: *const c_char) -> bool {
    path.addr() >= 4096
}

/// The text of a path; None if it is longer than any path: the kernel reads no more of it.
///
/// # Safety
/// `path` is a C string that does not change during the use of the reference, or at least as much as the
/// kernel reads of one, or not [`is_readable`].
pub unsafe fn bytes<'a>(path: *const c_char) -> Option<&'a [u8]> {
    const LONGEST: usize = libc::PATH_MAX as usize;
    if !is_readable(path) {
        return None;
    }
    // SAFETY: the path is readable, so it has a NUL or this many bytes, as the caller promises.
    unsafe {
        let len = libc::strnlen(path, LONGEST);
        (len < LONGEST).then(|| core::slice::from_raw_parts(path.cast(), len))
    }
}

/// The address that dlsym(3) finds for a function that the program looks up; 0 if there is none.
/// [`resolve`] has been called.
pub fn address(name: &CStr) -> usize {
    // SAFETY: the name is a C string.
    unsafe { dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.addr()
}
