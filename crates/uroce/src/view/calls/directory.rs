//! opendir(3), readdir(3), scandir(3), getdents64(2).

use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::ptr::null_mut;

use ibverbs_abi::Errno;
use libc::{AT_FDCWD, DIR, O_CLOEXEC, O_DIRECTORY, O_RDONLY, dirent, size_t, ssize_t};

use super::{PathTarget, find};
use crate::cancellation;
use crate::view::real::{Compare, Filter};
use crate::view::streams::{self, DirectoryEntry};
use crate::view::tree::{Directory, Node};
use crate::view::{files, real, state};

/// Opens a stream over a directory of the tree; NULL with errno on failure.
fn open_stream(path: &str, node: &Node) -> *mut DIR {
    let _no_cancellation = cancellation::disable();
    let Node::Directory(directory) = node else {
        return Errno(libc::ENOTDIR).null();
    };
    let fd = match files::open(path, node, O_RDONLY | O_DIRECTORY | O_CLOEXEC) {
        Ok(fd) => fd,
        Err(errno) => return errno.null(),
    };
    streams::open(fd, path, *directory).unwrap_or_else(|errno| {
        // SAFETY: the descriptor was opened above.
        unsafe { libc::close(fd) };
        errno.null()
    })
}

/// # Safety
/// As for opendir(3).
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    // SAFETY: the caller passes what opendir(3) accepts.
    unsafe {
        match find(AT_FDCWD, path, true) {
            PathTarget::Kernel => real::opendir(path),
            PathTarget::KernelAt(path) => real::opendir(path.as_ptr()),
            PathTarget::Ours(path, node) => open_stream(&path, &node),
            PathTarget::Error(errno) => errno.null(),
        }
    }
}

/// # Safety
/// As for fdopendir(3).
pub unsafe extern "C" fn fdopendir(fd: c_int) -> *mut DIR {
    match state::opened(fd) {
        // SAFETY: the caller passes what fdopendir(3) accepts.
        None => unsafe { real::fdopendir(fd) },
        Some(opened) => match opened.node {
            Node::Directory(directory) => {
                let _no_cancellation = cancellation::disable();
                streams::open(fd, &opened.path, directory).unwrap_or_else(Errno::null)
            }
            _ => Errno(libc::ENOTDIR).null(),
        },
    }
}

/// # Safety
/// As for closedir(3).
pub unsafe extern "C" fn closedir(dir: *mut DIR) -> c_int {
    // SAFETY: the caller passes an open stream, which it does not use again.
    unsafe {
        if !streams::is_ours(dir) {
            return real::closedir(dir);
        }
        match streams::close(dir) {
            Some(fd) => libc::close(fd),
            None => Errno(libc::EBADF).minus_one(),
        }
    }
}

/// # Safety
/// As for readdir(3).
pub unsafe extern "C" fn readdir(dir: *mut DIR) -> *mut dirent {
    // SAFETY: the caller passes an open stream that no other thread uses.
    unsafe {
        if !streams::is_ours(dir) {
            return real::readdir(dir);
        }
        streams::next(dir).unwrap_or(null_mut())
    }
}

/// # Safety
/// As for readdir_r(3).
pub unsafe extern "C" fn readdir_r(
    dir: *mut DIR,
    entry: *mut dirent,
    result: *mut *mut dirent,
) -> c_int {
    // SAFETY: the caller passes an open stream that no other thread uses, and writable memory.
    unsafe {
        if !streams::is_ours(dir) {
            return real::readdir_r(dir, entry, result);
        }
        let next = streams::next(dir);
        if let Some(next) = next {
            entry
                .cast::<u8>()
                .copy_from(next.cast(), (*next).d_reclen.into());
        }
        result.write(next.map_or(null_mut(), |_| entry));
    }
    0
}

/// # Safety
/// As for rewinddir(3).
pub unsafe extern "C" fn rewinddir(dir: *mut DIR) {
    // SAFETY: the caller passes an open stream that no other thread uses.
    unsafe {
        if !streams::is_ours(dir) {
            return real::rewinddir(dir);
        }
        streams::seek(dir, 0);
    }
}

/// # Safety
/// As for seekdir(3).
pub unsafe extern "C" fn seekdir(dir: *mut DIR, position: c_long) {
    // SAFETY: the caller passes an open stream that no other thread uses.
    unsafe {
        if !streams::is_ours(dir) {
            return real::seekdir(dir, position);
        }
        streams::seek(dir, usize::try_from(position).unwrap_or(0));
    }
}

/// # Safety
/// As for telldir(3).
pub unsafe extern "C" fn telldir(dir: *mut DIR) -> c_long {
    // SAFETY: the caller passes an open stream that no other thread uses.
    unsafe {
        if !streams::is_ours(dir) {
            return real::telldir(dir);
        }
        streams::tell(dir) as c_long
    }
}

/// # Safety
/// As for dirfd(3).
pub unsafe extern "C" fn dirfd(dir: *mut DIR) -> c_int {
    // SAFETY: the caller passes an open stream that no other thread uses.
    unsafe {
        if !streams::is_ours(dir) {
            return real::dirfd(dir);
        }
        streams::descriptor(dir)
    }
}

/// # Safety
/// As for getdents64(2).
pub unsafe extern "C" fn getdents64(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t {
    let Some(opened) = state::opened(fd) else {
        // SAFETY: the caller passes what getdents64(2) accepts.
        return unsafe { real::getdents64(fd, buf, len) };
    };
    let Node::Directory(directory) = opened.node else {
        return Errno(libc::ENOTDIR).minus_one() as ssize_t;
    };
    let _no_cancellation = cancellation::disable();
    let entries = streams::entries(&opened.path, directory);
    let (mut position, mut written) = (opened.position, 0);
    while let Some(entry) = entries.get(position) {
        let record = entry.to_dirent(position);
        let record_len = usize::from(record.d_reclen);
        if written + record_len > len {
            break;
        }
        // SAFETY: the caller passes `len` writable bytes, of which this record's are left.
        unsafe {
            let to = buf.cast::<u8>().add(written);
            to.copy_from((&raw const record).cast(), record_len);
        }
        written += record_len;
        position += 1;
    }
    if written == 0 && position < entries.len() {
        return Errno(libc::EINVAL).minus_one() as ssize_t;
    }
    state::set_position(fd, position);
    written as ssize_t
}

/// Makes the list of scandir(3) from entries.
///
/// # Safety
/// As for scandir(3).
unsafe fn scan(
    entries: &[DirectoryEntry],
    list: *mut *mut *mut dirent,
    filter: Option<Filter>,
    compare: Option<Compare>,
) -> c_int {
    let mut kept = Vec::new();
    for (position, entry) in entries.iter().enumerate() {
        let record = entry.to_dirent(position);
        // SAFETY: the caller passes a filter that accepts any entry; malloc's memory has room for the
        // record, which the caller frees.
        unsafe {
            if filter.is_some_and(|filter| filter(&record) == 0) {
                continue;
            }
            let copy = libc::malloc(record.d_reclen.into()).cast::<u8>();
            if copy.is_null() {
                break;
            }
            copy.copy_from((&raw const record).cast(), record.d_reclen.into());
            kept.push(copy.cast::<dirent>());
        }
    }
    // SAFETY: malloc's memory has room for the pointers, and `list` is writable; qsort gets as many
    // elements as there are, and the caller's function for elements of this type.
    unsafe {
        let array = libc::malloc((kept.len().max(1)) * size_of::<*mut dirent>());
        let array = array.cast::<*mut dirent>();
        if array.is_null() {
            kept.iter().for_each(|entry| libc::free(entry.cast()));
            return Errno(libc::ENOMEM).minus_one();
        }
        array.copy_from(kept.as_ptr(), kept.len());
        if let Some(compare) = compare {
            let compare: unsafe extern "C" fn(*const c_void, *const c_void) -> c_int =
                core::mem::transmute(compare);
            libc::qsort(
                array.cast(),
                kept.len(),
                size_of::<*mut dirent>(),
                Some(compare),
            );
        }
        list.write(array);
    }
    kept.len() as c_int
}

fn directory_of(node: &Node) -> Result<Directory, Errno> {
    match node {
        Node::Directory(directory) => Ok(*directory),
        _ => Err(Errno(libc::ENOTDIR)),
    }
}

/// # Safety
/// As for scandir(3).
pub unsafe extern "C" fn scandir(
    path: *const c_char,
    list: *mut *mut *mut dirent,
    filter: Option<Filter>,
    compare: Option<Compare>,
) -> c_int {
    // SAFETY: the caller passes what scandir(3) accepts.
    unsafe {
        match find(AT_FDCWD, path, true) {
            PathTarget::Kernel => real::scandir(path, list, filter, compare),
            PathTarget::KernelAt(path) => real::scandir(path.as_ptr(), list, filter, compare),
            PathTarget::Ours(path, node) => match directory_of(&node) {
                Ok(directory) => scan(&streams::entries(&path, directory), list, filter, compare),
                Err(errno) => errno.minus_one(),
            },
            PathTarget::Error(errno) => errno.minus_one(),
        }
    }
}

/// # Safety
/// As for scandirat(3).
pub unsafe extern "C" fn scandirat(
    dirfd: c_int,
    path: *const c_char,
    list: *mut *mut *mut dirent,
    filter: Option<Filter>,
    compare: Option<Compare>,
) -> c_int {
    // SAFETY: the caller passes what scandirat(3) accepts.
    unsafe {
        match find(dirfd, path, true) {
            PathTarget::Kernel => real::scandirat(dirfd, path, list, filter, compare),
            PathTarget::KernelAt(path) => real::scandir(path.as_ptr(), list, filter, compare),
            PathTarget::Ours(path, node) => match directory_of(&node) {
                Ok(directory) => scan(&streams::entries(&path, directory), list, filter, compare),
                Err(errno) => errno.minus_one(),
            },
            PathTarget::Error(errno) => errno.minus_one(),
        }
    }
}

/// The name of a directory entry.
///
/// # Safety
/// `entry` is from readdir.
pub unsafe fn name<'a>(entry: *const dirent) -> &'a CStr {
    // SAFETY: an entry's name is a C string, valid as long as the entry.
    unsafe { CStr::from_ptr((*entry).d_name.as_ptr()) }
}
