//! Descriptors for files of the tree, and what stat(2) reports about them.
//!
//! A descriptor is a real one, so that poll(2), dup(2), fork(2) and read(2) work on it: behind it is an
//! anonymous file (memfd_create(2)) with the text that the file had when it was opened. Nothing can be
//! written to it. Where RLIMIT_FSIZE lets no file have that size, or memfd_create(2) is refused, it is a
//! pipe.

use core::ffi::{CStr, c_int, c_void};
use std::ffi::CString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use ibverbs_abi::Errno;
use ibverbs_os::file_size;
use libc::{
    EACCES, EEXIST, EFBIG, EINVAL, EISDIR, ELOOP, EMFILE, ENOENT, ENOSYS, ENOTDIR, EPERM,
    O_ACCMODE, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_PATH, O_RDONLY, O_TRUNC,
};

use super::tree::{Character, Directory, File, Node};
use super::{content, kernel, real, state};
use crate::cm::ucma;
use crate::umad;

/// The size that stat(2) gives for a file of sysfs.
const SYSFS_FILE_SIZE: i64 = 4096;

fn owned(fd: c_int) -> Result<OwnedFd, Errno> {
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: all callers pass what a system call has just returned: a descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens a node of the tree as open(2) with these flags does.
pub fn open(path: &str, node: &Node, flags: c_int) -> Result<c_int, Errno> {
    check(node, flags)?;
    let fd = match node {
        Node::Directory(Directory::Above) => open_shared(path, flags)?,
        _ if flags & O_PATH != 0 => placeholder(path, b"", flags)?,
        Node::File(file) => open_file(path, *file, flags)?,
        Node::Directory(_) | Node::Link(_) => placeholder(path, b"", flags)?,
        Node::Character(Character::RdmaCm(..)) => ucma::open(flags)?,
        Node::Character(Character::Umad(number)) => open_umad(*number, flags)?,
        Node::Character(_) => anonymous(path, b"", flags)?,
    };
    if !state::add(fd.as_raw_fd(), path, node.clone()) {
        return Err(Errno(EMFILE));
    }
    Ok(fd.into_raw_fd())
}

/// Opens the device file for management datagrams of a port.
fn open_umad(number: u32, flags: c_int) -> Result<OwnedFd, Errno> {
    let devices = state::devices();
    let found = devices.tree.port_of_umad(number);
    let (device, port) = found.ok_or(Errno(libc::ENXIO))?;
    let config = devices.configs.get(device).ok_or(Errno(libc::ENXIO))?;
    umad::open(config, port, flags)
}

/// Checks what open(2) checks before it opens.
fn check(node: &Node, flags: c_int) -> Result<(), Errno> {
    let writes = flags & O_ACCMODE != O_RDONLY || flags & O_TRUNC != 0;
    let is_path = flags & O_PATH != 0;
    let is_directory = matches!(node, Node::Directory(_));
    if flags & O_DIRECTORY != 0 && !is_directory {
        return Err(Errno(ENOTDIR));
    }
    if is_path {
        return Ok(());
    }
    if flags & O_CREAT != 0 && flags & O_EXCL != 0 {
        return Err(Errno(EEXIST));
    }
    match node {
        Node::Link(_) => Err(Errno(ELOOP)),
        Node::Directory(_) if writes || flags & O_CREAT != 0 => Err(Errno(EISDIR)),
        Node::File(_) if writes => Err(Errno(EACCES)),
        _ => Ok(()),
    }
}

fn open_file(path: &str, file: File, flags: c_int) -> Result<OwnedFd, Errno> {
    match content::read(file, &state::devices().configs) {
        Ok(text) => placeholder(path, &text, flags),
        // read(2) of an epoll descriptor fails with EINVAL, as that of such a file in sysfs.
        // SAFETY: the call takes no pointers; O_CLOEXEC is its only flag.
        Err(Errno(EINVAL)) => owned(unsafe { libc::epoll_create1(flags & O_CLOEXEC) }),
        Err(errno) => Err(errno),
    }
}

/// Opens a directory that the kernel may have, too: then the kernel's.
fn open_shared(path: &str, flags: c_int) -> Result<OwnedFd, Errno> {
    let name = CString::new(path).map_err(|_| Errno(EINVAL))?;
    // SAFETY: the path is a C string.
    match owned(unsafe { real::open(name.as_ptr(), flags, 0) }) {
        Err(Errno(ENOENT)) => placeholder(path, b"", flags),
        result => result,
    }
}

/// A descriptor of an anonymous file with this content that nobody can change, open for reading and writing.
fn anonymous(path: &str, content: &[u8], flags: c_int) -> Result<OwnedFd, Errno> {
    const SEALS: c_int =
        libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    const NAME_MAX: usize = 200;
    let name = format!("uroce:{path}");
    let name = CString::new(&name[..name.len().min(NAME_MAX)]).map_err(|_| Errno(EINVAL))?;
    let mut memfd_flags = libc::MFD_ALLOW_SEALING;
    if flags & O_CLOEXEC != 0 {
        memfd_flags |= libc::MFD_CLOEXEC;
    }
    // SAFETY: the name is a C string.
    let fd = owned(unsafe { libc::memfd_create(name.as_ptr(), memfd_flags) })?;
    let (from, len) = (content.as_ptr().cast::<c_void>(), content.len());
    // SAFETY: the content is readable for its length.
    let written =
        file_size::without_signal(|| unsafe { libc::pwrite(fd.as_raw_fd(), from, len, 0) });
    match usize::try_from(written) {
        Ok(written) if written == len => {}
        // As far as RLIMIT_FSIZE lets it.
        Ok(_) => return Err(Errno(EFBIG)),
        Err(_) => return Err(Errno::last()),
    }
    // SAFETY: the command takes an integer.
    unsafe { real::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, SEALS as usize) };
    Ok(fd)
}

/// A pipe with this content, and end-of-file behind it: where RLIMIT_FSIZE lets no file grow, or a filter of
/// system calls refuses memfd_create(2) (seccomp(2)). It can be read once only, from its beginning.
fn pipe(content: &[u8], flags: c_int) -> Result<OwnedFd, Errno> {
    // The least capacity of a pipe. A write of more might block.
    const ROOM: usize = 4096;
    if content.len() > ROOM {
        return Err(Errno(EFBIG));
    }
    let mut ends = [-1; 2];
    // SAFETY: the array has room for both ends.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), flags & (O_CLOEXEC | libc::O_NONBLOCK)) } != 0 {
        return Err(Errno::last());
    }
    let (reader, writer) = (owned(ends[0])?, owned(ends[1])?);
    let (from, len) = (content.as_ptr().cast::<c_void>(), content.len());
    // SAFETY: the content is readable for its length.
    let written = unsafe { real::write(writer.as_raw_fd(), from, len) };
    if usize::try_from(written) != Ok(len) {
        return Err(Errno(libc::EIO));
    }
    Ok(reader)
}

/// As [`anonymous`], open for reading only where `/proc` allows that. It has the number that open(2) would
/// return, the lowest free one.
fn placeholder(path: &str, content: &[u8], flags: c_int) -> Result<OwnedFd, Errno> {
    let file = match anonymous(path, content, flags) {
        Err(Errno(EFBIG | EPERM | EACCES | ENOSYS)) => return pipe(content, flags),
        result => result?,
    };
    let Ok(name) = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())) else {
        return Ok(file);
    };
    let flags = flags & (O_CLOEXEC | O_PATH | libc::O_NONBLOCK);
    // SAFETY: the path is a C string.
    if let Ok(reader) = owned(unsafe { real::open(name.as_ptr(), flags | O_RDONLY, 0) }) {
        // SAFETY: both descriptors are this function's own.
        unsafe { real::dup3(reader.as_raw_fd(), file.as_raw_fd(), flags & O_CLOEXEC) };
    }
    Ok(file)
}

/// A number for a path: the same in every process, and never 0.
pub fn inode(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish() >> 1 | 1
}

/// The type in a directory entry.
pub fn entry_type(node: &Node) -> u8 {
    match node {
        Node::Directory(_) => libc::DT_DIR,
        Node::Link(_) => libc::DT_LNK,
        Node::File(_) => libc::DT_REG,
        Node::Character(_) => libc::DT_CHR,
    }
}

/// The result of stat(2) for a node of the tree. A directory that the kernel has, too, is the
/// kernel's.
pub fn stat(path: &str, node: &Node) -> libc::stat {
    if matches!(node, Node::Directory(Directory::Above)) {
        if let Some(found) = kernel::stat(path, true) {
            return found;
        }
    }
    // SAFETY: the structure consists of integers.
    let mut found: libc::stat = unsafe { core::mem::zeroed() };
    let top = if path.starts_with("/dev") {
        "/dev"
    } else {
        "/sys"
    };
    if let Some(top) = kernel::stat(top, true) {
        found.st_dev = top.st_dev;
        (found.st_mtime, found.st_mtime_nsec) = (top.st_mtime, top.st_mtime_nsec);
        (found.st_atime, found.st_atime_nsec) = (top.st_mtime, top.st_mtime_nsec);
        (found.st_ctime, found.st_ctime_nsec) = (top.st_ctime, top.st_ctime_nsec);
    }
    found.st_ino = inode(path);
    found.st_nlink = 1;
    found.st_blksize = 4096;
    found.st_mode = match node {
        Node::Directory(_) => libc::S_IFDIR | 0o755,
        Node::Link(_) => libc::S_IFLNK | 0o777,
        Node::File(_) => libc::S_IFREG | 0o444,
        Node::Character(_) => libc::S_IFCHR | 0o666,
    };
    match node {
        Node::Directory(_) => found.st_nlink = 2,
        Node::File(_) => found.st_size = SYSFS_FILE_SIZE,
        Node::Character(character) => {
            let (major, minor) = character.number();
            found.st_rdev = libc::makedev(major, minor);
        }
        Node::Link(_) => {}
    }
    found
}

/// The same for statx(2).
pub fn statx(path: &str, node: &Node) -> libc::statx {
    let found = stat(path, node);
    // SAFETY: the structure consists of integers.
    let mut extended: libc::statx = unsafe { core::mem::zeroed() };
    let set = |time: &mut libc::statx_timestamp, seconds, nanoseconds: i64| {
        (time.tv_sec, time.tv_nsec) = (seconds, nanoseconds as u32);
    };
    extended.stx_mask = libc::STATX_BASIC_STATS;
    extended.stx_blksize = found.st_blksize as u32;
    extended.stx_nlink = found.st_nlink as u32;
    (extended.stx_uid, extended.stx_gid) = (found.st_uid, found.st_gid);
    extended.stx_mode = found.st_mode as u16;
    extended.stx_ino = found.st_ino;
    extended.stx_size = found.st_size as u64;
    extended.stx_blocks = found.st_blocks as u64;
    set(&mut extended.stx_atime, found.st_atime, found.st_atime_nsec);
    set(&mut extended.stx_mtime, found.st_mtime, found.st_mtime_nsec);
    set(&mut extended.stx_ctime, found.st_ctime, found.st_ctime_nsec);
    extended.stx_rdev_major = libc::major(found.st_rdev);
    extended.stx_rdev_minor = libc::minor(found.st_rdev);
    extended.stx_dev_major = libc::major(found.st_dev);
    extended.stx_dev_minor = libc::minor(found.st_dev);
    extended
}

/// access(2) of a node: nobody may write to sysfs, and all may use a device.
pub fn access(path: &str, node: &Node, mode: c_int) -> Result<(), Errno> {
    if mode & !(libc::R_OK | libc::W_OK | libc::X_OK) != 0 {
        return Err(Errno(EINVAL));
    }
    if matches!(node, Node::Directory(Directory::Above)) && kernel::stat(path, true).is_some() {
        let path = CString::new(path).map_err(|_| Errno(EINVAL))?;
        // SAFETY: the path is a C string.
        let result = unsafe { real::access(path.as_ptr(), mode) };
        return if result == 0 {
            Ok(())
        } else {
            Err(Errno::last())
        };
    }
    let denied = match node {
        Node::Directory(_) => libc::W_OK,
        Node::File(_) => libc::W_OK | libc::X_OK,
        Node::Character(_) => libc::X_OK,
        Node::Link(_) => 0,
    };
    if mode & denied == 0 {
        Ok(())
    } else {
        Err(Errno(EACCES))
    }
}

/// The flags of open(2) for a mode of fopen(3); None for a mode that begins with none of `r`, `w` and `a`.
pub fn flags_of_mode(mode: &CStr) -> Option<c_int> {
    let mode = mode.to_bytes();
    let mut flags = match mode.first()? {
        b'r' => O_RDONLY,
        b'w' => libc::O_WRONLY | O_CREAT | O_TRUNC,
        b'a' => libc::O_WRONLY | O_CREAT | libc::O_APPEND,
        _ => return None,
    };
    for letter in mode.iter().take_while(|letter| **letter != b',') {
        match letter {
            b'+' => flags = flags & !O_ACCMODE | libc::O_RDWR,
            b'e' => flags |= O_CLOEXEC,
            b'x' => flags |= O_EXCL,
            _ => {}
        }
    }
    Some(flags)
}
