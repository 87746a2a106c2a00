//! syscall(2): programs use it for calls that an older libc lacks, or to go around libraries that replace a
//! function of libc. libuv (Node.js) makes all its statx(2) calls in this way.

use core::ffi::{c_char, c_int, c_long, c_ulong};

use ibverbs_abi::Errno;
use libc::AT_FDCWD;

use super::answer::{Order, close, is_mapped};
use super::descriptor::{copied, ioctl, is_character_device, is_umad, write, writev};
use super::directory::getdents64;
use super::link::readlinkat;
use super::open::{follows, openat};
use super::stat::{faccessat, fstat, fstatat, statx};
use super::statfs::{fstatfs, statfs};
use super::{PathTarget, find};
use crate::arch;
use crate::cm::ucma::user_memory;
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

/// The system call as the program makes it.
#[derive(Clone, Copy)]
struct Original(c_long, Arguments);

impl Original {
    /// # Safety
    /// As for syscall(2).
    unsafe fn make(self) -> c_long {
        let [a, b, c, d, e, f] = self.1.0;
        // SAFETY: the program passes what the system call accepts, as the caller promises.
        unsafe { real::syscall(self.0, a, b, c, d, e, f) }
    }
}

/// The result of a call with a path, in the order that [`answer`](super::answer) describes. `ours` answers
/// one that leads to the tree; `opens`: a success is a descriptor.
///
/// # Safety
/// As for syscall(2); `at` has the directory's descriptor and the path.
unsafe fn answer_call(
    original: Original,
    at: Arguments,
    (order, follow, opens): (Order, bool, bool),
    ours: impl FnOnce() -> c_long,
) -> c_long {
    let errno = Errno::last();
    // SAFETY: the program passes what the system call accepts; the path is read only if the kernel can.
    unsafe {
        if order == Order::PathFirst {
            let is_ours = is_mapped(at.path(1)) && concerns(at, follow);
            return if is_ours { ours() } else { original.make() };
        }
        let early = original.make();
        if early < 0 && Errno::last() == Errno(libc::EFAULT) || !concerns(at, follow) {
            return early;
        }
        if opens && early >= 0 {
            close(early as c_int);
        }
    }
    errno.set();
    ours()
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

/// openat2(2). With restrictions that this walk does not know it fails as on a kernel without openat2, and
/// programs then walk by themselves.
///
/// # Safety
/// As for openat2(2).
unsafe fn openat2(original: Original) -> c_long {
    let arguments = original.1;
    let mut how = [0; size_of::<OpenHow>()];
    let readable = user_memory::read_into(arguments.0[2], &mut how);
    if readable.is_err() || arguments.0[3] < how.len() {
        // SAFETY: the program passes what openat2(2) accepts.
        return unsafe { original.make() };
    }
    // SAFETY: the bytes are as many as the structure has, which consists of integers.
    let how: OpenHow = unsafe { how.as_ptr().cast::<OpenHow>().read_unaligned() };
    let flags = how.flags as c_int;
    let ours = || {
        if how.resolve != 0 {
            return Errno(libc::ENOSYS).minus_one().into();
        }
        let (dirfd, path) = (arguments.int(0), arguments.path(1));
        // SAFETY: the program passes what openat2(2) accepts.
        unsafe { openat(dirfd, path, flags, how.mode as libc::mode_t).into() }
    };
    let about = (Order::of_open(flags), follows(flags), true);
    // SAFETY: the program passes what openat2(2) accepts.
    unsafe { answer_call(original, arguments, about, ours) }
}

/// The result of a call with a path. `number` and `at` are those of its variant with a path relative to a
/// directory.
///
/// # Safety
/// As for syscall(2).
unsafe fn call_at(original: Original, number: c_long, at: Arguments) -> c_long {
    let (dirfd, path) = (at.int(0), at.path(1));
    let flags = match number {
        libc::SYS_newfstatat | libc::SYS_faccessat2 => at.int(3),
        libc::SYS_statx => at.int(2),
        _ => 0,
    };
    let about = match number {
        libc::SYS_openat => (Order::of_open(at.int(2)), follows(at.int(2)), true),
        libc::SYS_readlinkat => (Order::KernelFirst, false, false),
        _ => {
            let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
            (Order::KernelFirst, follow, false)
        }
    };
    // SAFETY: the program passes what the system call accepts, and so do these functions.
    let ours = || unsafe {
        let mode = at.int(2);
        match number {
            libc::SYS_openat => openat(dirfd, path, mode, at.0[3] as libc::mode_t).into(),
            libc::SYS_newfstatat => fstatat(dirfd, path, at.pointer(2), flags).into(),
            libc::SYS_statx => {
                let mask = at.int(3) as u32;
                statx(dirfd, path, flags, mask, at.pointer(4)).into()
            }
            libc::SYS_readlinkat => readlinkat(dirfd, path, at.pointer(2), at.0[3]) as c_long,
            libc::SYS_statfs => statfs(path, at.pointer(2)).into(),
            _ => faccessat(dirfd, path, mode, flags).into(),
        }
    };
    // SAFETY: the program passes what the system call accepts.
    unsafe { answer_call(original, at, about, ours) }
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
    // SAFETY: the program passes what the system call accepts.
    let new = unsafe { Original(number, arguments).make() };
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
            libc::SYS_ioctl if is_umad(fd) => {
                ioctl(fd, arguments.0[1] as c_ulong, arguments.0[2]).into()
            }
            // The drivers have no read, but for umad's.
            libc::SYS_read | libc::SYS_readv if is_umad(fd) => return None,
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
    let original = Original(number, arguments);
    let at_cwd = arguments.at_cwd();
    // SAFETY: the program passes what the system call accepts, and so do these functions.
    unsafe {
        match number {
            libc::SYS_openat
            | libc::SYS_newfstatat
            | libc::SYS_statx
            | libc::SYS_readlinkat
            | libc::SYS_faccessat
            | libc::SYS_faccessat2 => Some(call_at(original, number, arguments)),
            libc::SYS_openat2 => Some(openat2(original)),
            libc::SYS_getdents64
            | libc::SYS_fstat
            | libc::SYS_fstatfs
            | libc::SYS_ioctl
            | libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_read
            | libc::SYS_readv => descriptor_call(number, arguments),
            libc::SYS_dup | libc::SYS_dup3 | libc::SYS_fcntl | arch::SYS_DUP2 => {
                copying_call(number, arguments)
            }
            libc::SYS_statfs => Some(call_at(original, number, at_cwd)),
            libc::SYS_exit_group => {
                exit::before_exit();
                None
            }
            arch::SYS_OPEN => Some(call_at(original, libc::SYS_openat, at_cwd)),
            arch::SYS_STAT => {
                let at = at_cwd.with_flags(0);
                Some(call_at(original, libc::SYS_newfstatat, at))
            }
            arch::SYS_LSTAT => {
                let at = at_cwd.with_flags(libc::AT_SYMLINK_NOFOLLOW as usize);
                Some(call_at(original, libc::SYS_newfstatat, at))
            }
            arch::SYS_ACCESS => Some(call_at(original, libc::SYS_faccessat, at_cwd)),
            arch::SYS_READLINK => Some(call_at(original, libc::SYS_readlinkat, at_cwd)),
            _ => None,
        }
    }
}

impl Arguments {
    /// Adds a fourth argument that the call does not have.
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
