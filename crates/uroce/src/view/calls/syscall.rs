//! syscall(2): programs use it for calls that an older libc lacks, or to go around libraries that replace a
//! function of libc. libuv (Node.js) makes all its statx(2) calls in this way.

use core::ffi::{c_char, c_int, c_long};

use ibverbs_abi::Errno;
use libc::AT_FDCWD;

use super::descriptor::{copied, is_character_device, write, writev};
use super::directory::getdents64;
use super::link::readlinkat;
use super::open::{follows, openat};
use super::stat::{faccessat, fstat, fstatat, statx};
use super::statfs::{fstatfs, statfs};
use super::{PathTarget, find};
use crate::arch;
use crate::device::exit;
use crate::view::{real, state};

/// `struct open_how` of openat2(2).
#[repr(C)]
#[derive(Clone, Copy)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// The arguments of a system call.
#[derive(Clone, Copy)]
struct Arguments([usize; 6]);

impl Arguments {
    fn int(self, at: usize) -> c_int {
        self.0[at] as c_int
    }

    fn pointer<T>(self, at: usize) -> *mut T {
        core::ptr::with_exposed_provenance_mut(self.0[at])
    }

    fn path(self, at: usize) -> *const c_char {
        self.pointer(at)
    }

    /// The same behind a directory's descriptor that the call does not have.
    fn at_cwd(self) -> Arguments {
        let [a, b, c, d, e, _] = self.0;
        Arguments([AT_FDCWD as usize, a, b, c, d, e])
    }
}

/// Whether a path, or the descriptor that it is relative to, leads to the tree.
///
/// # Safety
/// As for [`find`].
unsafe fn concerns(arguments: Arguments, follow: bool) -> bool {
    // SAFETY: the program passes a path that the kernel accepts, as the caller promises.
    let found = unsafe { find(arguments.int(0), arguments.path(1), follow) };
    state::is_marked(arguments.int(0)) || !matches!(found, PathTarget::Kernel)
}

/// openat2(2) of a path that leads to the tree. With restrictions that this walk does not know it fails as on
/// a kernel without openat2, and programs then walk by themselves.
///
/// # Safety
/// As for openat2(2).
unsafe fn openat2(arguments: Arguments) -> Option<c_int> {
    let how = arguments.pointer::<OpenHow>(2);
    if !real::is_readable(how.cast()) || arguments.0[3] < size_of::<OpenHow>() {
        return None;
    }
    // SAFETY: the program passes a structure of this length, as the caller promises.
    unsafe {
        let how = how.read_unaligned();
        let flags = how.flags as c_int;
        if !concerns(arguments, follows(flags)) {
            return None;
        }
        if how.resolve != 0 {
            return Some(Errno(libc::ENOSYS).minus_one());
        }
        let (dirfd, path) = (arguments.int(0), arguments.path(1));
        Some(openat(dirfd, path, flags, how.mode as libc::mode_t))
    }
}

/// The result of a call with a path relative to a directory, if it concerns the tree.
///
/// # Safety
/// As for syscall(2).
unsafe fn call_at(number: c_long, arguments: Arguments) -> Option<c_long> {
    let (dirfd, path) = (arguments.int(0), arguments.path(1));
    let flags = match number {
        libc::SYS_newfstatat | libc::SYS_faccessat2 => arguments.int(3),
        libc::SYS_statx => arguments.int(2),
        _ => 0,
    };
    let follow = match number {
        libc::SYS_openat => follows(arguments.int(2)),
        libc::SYS_readlinkat => false,
        _ => flags & libc::AT_SYMLINK_NOFOLLOW == 0,
    };
    // SAFETY: the program passes what the system call accepts, and so do these functions.
    unsafe {
        if !concerns(arguments, follow) {
            return None;
        }
        let mode = arguments.int(2);
        Some(match number {
            libc::SYS_openat => openat(dirfd, path, mode, arguments.0[3] as libc::mode_t).into(),
            libc::SYS_newfstatat => fstatat(dirfd, path, arguments.pointer(2), flags).into(),
            libc::SYS_statx => {
                let mask = arguments.int(3) as u32;
                statx(dirfd, path, flags, mask, arguments.pointer(4)).into()
            }
            libc::SYS_readlinkat => {
                readlinkat(dirfd, path, arguments.pointer(2), arguments.0[3]) as c_long
            }
            _ => faccessat(dirfd, path, mode, flags).into(),
        })
    }
}

/// The result of a call that copies a descriptor, if that one leads to the tree.
///
/// # Safety
/// As for syscall(2).
unsafe fn copying_call(number: c_long, arguments: Arguments) -> Option<c_long> {
    let old = arguments.int(0);
    let copies = match number {
        libc::SYS_fcntl => matches!(arguments.int(1), libc::F_DUPFD | libc::F_DUPFD_CLOEXEC),
        _ => true,
    };
    if !copies || !state::is_marked(old) {
        return None;
    }
    let [a, b, c, d, e, f] = arguments.0;
    // SAFETY: the program passes what the system call accepts.
    let new = unsafe { real::syscall(number, a, b, c, d, e, f) };
    Some(copied(old, new as c_int).into())
}

/// The result of a call with a descriptor, if that one leads to the tree.
///
/// # Safety
/// As for syscall(2).
unsafe fn descriptor_call(number: c_long, arguments: Arguments) -> Option<c_long> {
    let fd = arguments.int(0);
    if !state::is_marked(fd) {
        return None;
    }
    // SAFETY: the program passes what the system call accepts, and so do these functions.
    unsafe {
        Some(match number {
            libc::SYS_getdents64 => getdents64(fd, arguments.pointer(1), arguments.0[2]) as c_long,
            libc::SYS_fstat => fstat(fd, arguments.pointer(1)).into(),
            libc::SYS_fstatfs => fstatfs(fd, arguments.pointer(1)).into(),
            libc::SYS_write => write(fd, arguments.pointer(1), arguments.0[2]) as c_long,
            libc::SYS_writev => writev(fd, arguments.pointer(1), arguments.int(2)) as c_long,
            // The drivers have no read.
            libc::SYS_read | libc::SYS_readv if is_character_device(fd) => {
                Errno(libc::EINVAL).minus_one().into()
            }
            _ => return None,
        })
    }
}

/// The result of a call that concerns the tree.
///
/// # Safety
/// As for syscall(2).
unsafe fn own_call(number: c_long, arguments: Arguments) -> Option<c_long> {
    // SAFETY: the program passes what the system call accepts, and so do these functions.
    unsafe {
        match number {
            libc::SYS_openat
            | libc::SYS_newfstatat
            | libc::SYS_statx
            | libc::SYS_readlinkat
            | libc::SYS_faccessat => call_at(number, arguments),
            libc::SYS_faccessat2 => call_at(number, arguments),
            libc::SYS_openat2 => openat2(arguments).map(c_long::from),
            libc::SYS_getdents64
            | libc::SYS_fstat
            | libc::SYS_fstatfs
            | libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_read
            | libc::SYS_readv => descriptor_call(number, arguments),
            libc::SYS_dup | libc::SYS_dup3 | libc::SYS_fcntl | arch::SYS_DUP2 => {
                copying_call(number, arguments)
            }
            libc::SYS_statfs if concerns(arguments.at_cwd(), true) => {
                Some(statfs(arguments.path(0), arguments.pointer(1)).into())
            }
            libc::SYS_exit_group => {
                exit::before_exit();
                None
            }
            arch::SYS_OPEN => call_at(libc::SYS_openat, arguments.at_cwd()),
            arch::SYS_STAT => call_at(libc::SYS_newfstatat, arguments.at_cwd().with_flags(0)),
            arch::SYS_LSTAT => {
                let flags = libc::AT_SYMLINK_NOFOLLOW as usize;
                call_at(libc::SYS_newfstatat, arguments.at_cwd().with_flags(flags))
            }
            arch::SYS_ACCESS => call_at(libc::SYS_faccessat, arguments.at_cwd()),
            arch::SYS_READLINK => call_at(libc::SYS_readlinkat, arguments.at_cwd()),
            _ => None,
        }
    }
}

impl Arguments {
    /// With a fourth argument that the call does not have.
    fn with_flags(mut self, flags: usize) -> Arguments {
        self.0[3] = flags;
        self
    }
}

/// # Safety
/// As for syscall(2). Integer arguments of a variadic function are passed as those of any other
/// (`crate::arch`), and those that the program does not pass are not used.
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the caller passes what syscall(2) accepts.
    unsafe {
        own_call(number, Arguments([a, b, c, d, e, f]))
            .unwrap_or_else(|| real::syscall(number, a, b, c, d, e, f))
    }
}
