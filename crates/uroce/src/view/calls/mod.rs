//! The functions that redirected calls reach, one for each function of libc that takes a path, or a
//! descriptor that may lead to the tree. Each of them decides whether the call concerns the tree
//! ([`find`]), and else passes it on with its arguments and errno unchanged. And `_exit`, before which
//! devices send what their peers wait for, and the functions that install signal handlers.
//!
//! They are called by any thread of the program, and from signal handlers and children of vfork(2); a call
//! that does not concern the tree takes no lock and allocates nothing.

mod answer;
mod descriptor;
mod directory;
mod exit;
pub mod fts;
mod link;
mod load;
mod open;
mod signal;
mod stat;
mod statfs;
mod syscall;
pub mod walk;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::ffi::CString;

use ibverbs_abi::Errno;
use libc::AT_FDCWD;

use super::got::{Redirection, Redirections};
use super::kernel::KernelLinks;
use super::paths::{self, Found};
use super::tree::Node;
use super::{kernel, real, state};
use crate::cancellation;

macro_rules! redirections {
    ($($name:literal => $function:path;)*) => {
        /// All redirected functions, sorted by name.
        pub static REDIRECTIONS: [Redirection; [$($name),*].len()] = [
            $(Redirection {
                name: match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name with a NUL"),
                },
                to: $function as *const c_void,
                address: AtomicUsize::new(0),
                definition: AtomicUsize::new(0),
            },)*
        ];
    };
}

redirections! {
    "_Exit" => exit::_exit;
    "__dup2" => descriptor::dup2;
    "__fcntl" => descriptor::fcntl;
    "__fxstat" => stat::__fxstat;
    "__fxstat64" => stat::__fxstat;
    "__fxstatat" => stat::__fxstatat;
    "__fxstatat64" => stat::__fxstatat;
    "__getcwd_chk" => descriptor::__getcwd_chk;
    "__lxstat" => stat::__lxstat;
    "__lxstat64" => stat::__lxstat;
    "__open" => open::open;
    "__open64" => open::open;
    "__open64_2" => open::__open_2;
    "__open_2" => open::__open_2;
    "__openat64_2" => open::__openat_2;
    "__openat_2" => open::__openat_2;
    "__readlink_chk" => link::__readlink_chk;
    "__readlinkat_chk" => link::__readlinkat_chk;
    "__realpath_chk" => link::__realpath_chk;
    "__sigaction" => signal::sigaction;
    "__statfs" => statfs::statfs;
    "__sysv_signal" => signal::sysv_signal;
    "__write" => descriptor::write;
    "__xstat" => stat::__xstat;
    "__xstat64" => stat::__xstat;
    "_exit" => exit::_exit;
    "access" => stat::access;
    "bsd_signal" => signal::signal;
    "canonicalize_file_name" => link::canonicalize_file_name;
    "chdir" => descriptor::chdir;
    "chroot" => descriptor::chroot;
    "closedir" => directory::closedir;
    "creat" => open::creat;
    "creat64" => open::creat;
    "dirfd" => directory::dirfd;
    "dlopen" => load::dlopen;
    "dlsym" => load::dlsym;
    "dup" => descriptor::dup;
    "dup2" => descriptor::dup2;
    "dup3" => descriptor::dup3;
    "eaccess" => stat::euidaccess;
    "euidaccess" => stat::euidaccess;
    "faccessat" => stat::faccessat;
    "fchdir" => descriptor::fchdir;
    "fcntl" => descriptor::fcntl;
    "fcntl64" => descriptor::fcntl;
    "fdopendir" => directory::fdopendir;
    "fopen" => open::fopen;
    "fopen64" => open::fopen;
    "freopen" => open::freopen;
    "freopen64" => open::freopen;
    "fstat" => stat::fstat;
    "fstat64" => stat::fstat;
    "fstatat" => stat::fstatat;
    "fstatat64" => stat::fstatat;
    "fstatfs" => statfs::fstatfs;
    "fstatfs64" => statfs::fstatfs;
    "fstatvfs" => statfs::fstatvfs;
    "fstatvfs64" => statfs::fstatvfs;
    "fts64_children" => fts::fts_children;
    "fts64_close" => fts::fts_close;
    "fts64_open" => fts::fts_open;
    "fts64_read" => fts::fts_read;
    "fts_children" => fts::fts_children;
    "fts_close" => fts::fts_close;
    "fts_open" => fts::fts_open;
    "fts_read" => fts::fts_read;
    "ftw" => walk::ftw;
    "ftw64" => walk::ftw;
    "get_current_dir_name" => descriptor::get_current_dir_name;
    "getcwd" => descriptor::getcwd;
    "getdents64" => directory::getdents64;
    "getxattr" => stat::getxattr;
    "glob" => walk::glob;
    "glob64" => walk::glob;
    "ioctl" => descriptor::ioctl;
    "lgetxattr" => stat::lgetxattr;
    "listxattr" => stat::listxattr;
    "llistxattr" => stat::llistxattr;
    "lstat" => stat::lstat;
    "lstat64" => stat::lstat;
    "nftw" => walk::nftw;
    "nftw64" => walk::nftw;
    "open" => open::open;
    "open64" => open::open;
    "openat" => open::openat;
    "openat64" => open::openat;
    "opendir" => directory::opendir;
    "readdir" => directory::readdir;
    "readdir64" => directory::readdir;
    "readdir64_r" => directory::readdir_r;
    "readdir_r" => directory::readdir_r;
    "readlink" => link::readlink;
    "readlinkat" => link::readlinkat;
    "realpath" => link::realpath;
    "rewinddir" => directory::rewinddir;
    "scandir" => directory::scandir;
    "scandir64" => directory::scandir;
    "scandirat" => directory::scandirat;
    "scandirat64" => directory::scandirat;
    "seekdir" => directory::seekdir;
    "sigaction" => signal::sigaction;
    "signal" => signal::signal;
    "ssignal" => signal::signal;
    "stat" => stat::stat;
    "stat64" => stat::stat;
    "statfs" => statfs::statfs;
    "statfs64" => statfs::statfs;
    "statvfs" => statfs::statvfs;
    "statvfs64" => statfs::statvfs;
    "statx" => stat::statx;
    "syscall" => syscall::syscall;
    "sysv_signal" => signal::sysv_signal;
    "telldir" => directory::telldir;
    "write" => descriptor::write;
    "writev" => descriptor::writev;
}

/// The objects whose calls are redirected.
pub static OBJECTS: Redirections = Redirections::new(&REDIRECTIONS);

/// The target of a path in a call.
enum PathTarget {
    /// The path does not lead to the tree: the call goes to libc as it is.
    Kernel,
    /// The path does not lead to the tree: the call goes to libc with this path.
    KernelAt(CString),
    /// The path leads to a node of the tree, at this path.
    Ours(String, Node),
    /// The path leads to nothing: the call fails with this errno value.
    Error(Errno),
}

/// After chroot(2): which of the two directories the new root has.
static ROOTS: AtomicU8 = AtomicU8::new(HAS_SYS | HAS_DEV);
const HAS_SYS: u8 = 1;
const HAS_DEV: u8 = 2;

/// Finds what `path`, relative to `dirfd`, leads to. errno stays as it is.
///
/// # Safety
/// `path` is NULL, another address that the kernel answers with EFAULT, or a C string.
#[inline]
unsafe fn find(dirfd: c_int, path: *const c_char, follow: bool) -> PathTarget {
    // SAFETY: a readable path is a C string, as the caller promises.
    let Some(bytes) = (unsafe { real::bytes(path) }) else {
        return PathTarget::Kernel;
    };
    let may_concern = match bytes.first() {
        Some(b'/') => paths::may_concern(bytes),
        Some(_) if dirfd == AT_FDCWD => state::tracks_cwd(),
        Some(_) => state::is_marked(dirfd),
        None => false,
    };
    if !may_concern {
        return PathTarget::Kernel;
    }
    find_slowly(dirfd, bytes, follow)
}

/// The rest of [`find`].
#[cold]
#[inline(never)]
fn find_slowly(dirfd: c_int, path: &[u8], follow: bool) -> PathTarget {
    let errno = Errno::last();
    let _no_cancellation = cancellation::disable();
    let target = walk(dirfd, path, follow);
    errno.set();
    target
}

fn walk(dirfd: c_int, path: &[u8], follow: bool) -> PathTarget {
    if crate::bypass::is_active() {
        return PathTarget::Kernel;
    }
    let Ok(path) = core::str::from_utf8(path) else {
        return PathTarget::Kernel;
    };
    let is_relative = !path.starts_with('/');
    let from = if !is_relative {
        Some("/".to_owned())
    } else if dirfd == AT_FDCWD {
        state::cwd()
    } else {
        state::opened(dirfd).map(|opened| opened.path)
    };
    let Some(from) = from else {
        return PathTarget::Kernel;
    };
    let tree = state::devices().tree;
    match paths::walk(&tree, &KernelLinks, &from, path, follow) {
        Found::Ours(path, _) if !is_in_root(&path) => PathTarget::Kernel,
        Found::Ours(path, node) => PathTarget::Ours(path, node),
        Found::Kernel if state::virtual_cwd().is_some() && dirfd == AT_FDCWD => {
            kernel_at(path, &from)
        }
        // The descriptor is a placeholder's, so the kernel cannot start from it.
        Found::Kernel if is_relative && dirfd != AT_FDCWD && !kernel::is_directory(dirfd) => {
            kernel_at(path, &from)
        }
        Found::Kernel => PathTarget::Kernel,
        Found::KernelAt(path) => kernel_at(&path, "/"),
        Found::Error(errno) => PathTarget::Error(Errno(errno)),
    }
}

fn kernel_at(path: &str, from: &str) -> PathTarget {
    let whole = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{from}/{path}")
    };
    CString::new(whole).map_or(PathTarget::Kernel, PathTarget::KernelAt)
}

/// Whether the root directory has the directory that a path of the tree is in.
fn is_in_root(path: &str) -> bool {
    let bit = if path.starts_with("/dev") {
        HAS_DEV
    } else {
        HAS_SYS
    };
    path == "/" || ROOTS.load(Ordering::Relaxed) & bit != 0
}

/// Takes note of a chroot(2).
fn root_changed() {
    let has = |path, bit| {
        if kernel::stat(path, true).is_some() {
            bit
        } else {
            0
        }
    };
    ROOTS.store(
        has("/sys", HAS_SYS) | has("/dev", HAS_DEV),
        Ordering::Relaxed,
    );
    state::set_cwd(None);
}

/// -1 with errno set, or the value.
fn or_minus_one<T: From<i8>>(result: Result<T, Errno>) -> T {
    result.unwrap_or_else(|errno| {
        errno.set();
        T::from(-1)
    })
}
