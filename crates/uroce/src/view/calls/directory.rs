//! Functions of libc that read a directory, for directories of the tree: opendir(3) and readdir(3)
//! with their kin, scandir(3), getdents64(2).
//!
//! Not here: walks over several directories (`walk.rs`, `fts`), the entries (`tree.rs`).

use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::ptr::null_mut;

use ibverbs_abi::Errno;
use libc::{DIR, O_CLOEXEC, O_DIRECTORY, O_RDONLY, dirent, size_t, ssize_t};

use super::answer::{Order, Path, answer};
use crate::cancellation;
use crate::cm::ucma::user_memory;
use crate::view::real::{Compare, Filter};
use crate::view::streams::{self, DirectoryEntry};
use crate::view::tree::Node;
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
    let undo = |dir| {
        let _no_cancellation = cancellation::disable();
        // SAFETY: the stream has just been opened, and nothing else knows it.
        unsafe { real::closedir(dir) };
    };
    let ours = |found: Result<(String, Node), Errno>| match found {
        Ok((path, node)) => open_stream(&path, &node),
        Err(errno) => errno.null(),
    };
    // SAFETY: the caller passes what opendir(3) accepts.
    unsafe {
        let libcs = |_, path| real::opendir(path);
        answer(Path::new(path, true), Order::KernelFirst, libcs, undo, ours)
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
    let entries = match streams::entries(&opened.path, directory) {
        Ok(entries) => entries,
        Err(errno) => return errno.minus_one() as ssize_t,
    };
    let mut position = opened.position;
    let mut records: Vec<u8> = Vec::new();
    while let Some(entry) = entries.get(position) {
        let record = entry.to_dirent(position);
        let record_len = usize::from(record.d_reclen);
        if records.len() + record_len > len {
            break;
        }
        // SAFETY: the record has this many bytes.
        let bytes = unsafe { core::slice::from_raw_parts((&raw const record).cast(), record_len) };
        records.extend_from_slice(bytes);
        position += 1;
    }
    if records.is_empty() && position < entries.len() {
        return Errno(libc::EINVAL).minus_one() as ssize_t;
    }
    if let Err(errno) = user_memory::write_user(buf.addr(), &records) {
        return errno.minus_one() as ssize_t;
    }
    state::set_position(fd, position);
    records.len() as ssize_t
}

/// Entries that malloc(3) has room for. They are given back unless [`Copies::into_list`] succeeds.
struct Copies {
    entries: Vec<*mut dirent>,
    allocate: unsafe extern "C" fn(size_t) -> *mut c_void,
}

impl Drop for Copies {
    fn drop(&mut self) {
        for entry in &self.entries {
            // SAFETY: the entry is malloc's, and nobody else has it.
            unsafe { libc::free(entry.cast()) };
        }
    }
}

impl Copies {
    fn room(&self, len: usize) -> Result<*mut c_void, Errno> {
        // SAFETY: the function is malloc.
        let found = unsafe { (self.allocate)(len) };
        if found.is_null() {
            return Err(Errno(libc::ENOMEM));
        }
        Ok(found)
    }

    fn add(&mut self, record: &dirent) -> Result<(), Errno> {
        let len = record.d_reclen.into();
        let copy = self.room(len)?.cast::<u8>();
        // SAFETY: there is room for the record, which has this many bytes.
        unsafe { copy.copy_from(core::ptr::from_ref(record).cast(), len) };
        self.entries.push(copy.cast());
        Ok(())
    }

    /// The array of scandir(3), in the program's order, and how many entries it has. The caller frees it.
    ///
    /// # Safety
    /// `compare` accepts any entry.
    unsafe fn into_list(
        mut self,
        compare: Option<Compare>,
    ) -> Result<(*mut *mut dirent, c_int), Errno> {
        let count = self.entries.len();
        let size = size_of::<*mut dirent>();
        let array = self.room(count.max(1) * size)?.cast::<*mut dirent>();
        // SAFETY: there is room for the pointers; qsort gets as many as there are, and the caller's function
        // for elements of this type.
        unsafe {
            array.copy_from(self.entries.as_ptr(), count);
            if let Some(compare) = compare {
                let compare: unsafe extern "C" fn(*const c_void, *const c_void) -> c_int =
                    core::mem::transmute(compare);
                libc::qsort(array.cast(), count, size, Some(compare));
            }
        }
        self.entries.clear();
        Ok((array, count as c_int))
    }
}

/// Makes the list of scandir(3) from entries: all that the filter keeps, or ENOMEM.
///
/// # Safety
/// As for scandir(3).
unsafe fn scan(
    entries: &[DirectoryEntry],
    list: *mut *mut *mut dirent,
    filter: Option<Filter>,
    compare: Option<Compare>,
) -> Result<c_int, Errno> {
    let mut kept = Copies {
        entries: Vec::new(),
        allocate: libc::malloc,
    };
    for (position, entry) in entries.iter().enumerate() {
        let record = entry.to_dirent(position);
        // SAFETY: the caller passes a filter that accepts any entry.
        if filter.is_none_or(|filter| unsafe { filter(&record) } != 0) {
            kept.add(&record)?;
        }
    }
    // SAFETY: the caller passes a comparison that accepts any entry.
    let (array, count) = unsafe { kept.into_list(compare) }?;
    // SAFETY: the caller passes a writable pointer.
    unsafe { list.write(array) };
    Ok(count)
}

/// Answers scandir(3) or scandirat(3). The path is first, because the program's filter is called once for an
/// entry.
///
/// # Safety
/// As for scandirat(3).
unsafe fn answer_scan(
    path: Path,
    libcs: impl Fn(c_int, *const c_char) -> c_int,
    list: *mut *mut *mut dirent,
    filter: Option<Filter>,
    compare: Option<Compare>,
) -> c_int {
    let ours = |found: Result<(String, Node), Errno>| {
        let entries = found.and_then(|(path, node)| match node {
            Node::Directory(directory) => streams::entries(&path, directory),
            _ => Err(Errno(libc::ENOTDIR)),
        });
        // SAFETY: as for this function.
        let scanned = entries.and_then(|entries| unsafe { scan(&entries, list, filter, compare) });
        scanned.unwrap_or_else(Errno::minus_one)
    };
    // SAFETY: as for this function.
    unsafe { answer(path, Order::PathFirst, libcs, |_| (), ours) }
}

/// # Safety
/// As for scandir(3).
pub unsafe extern "C" fn scandir(
    path: *const c_char,
    list: *mut *mut *mut dirent,
    filter: Option<Filter>,
    compare: Option<Compare>,
) -> c_int {
    let path = Path::new(path, true);
    let libcs = |_, path| {
        // SAFETY: the caller passes what scandir(3) accepts.
        unsafe { real::scandir(path, list, filter, compare) }
    };
    // SAFETY: the caller passes what scandir(3) accepts.
    unsafe { answer_scan(path, libcs, list, filter, compare) }
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
    let path = Path::at(dirfd, path, true);
    let libcs = |dirfd, path| {
        // SAFETY: the caller passes what scandirat(3) accepts.
        unsafe { real::scandirat(dirfd, path, list, filter, compare) }
    };
    // SAFETY: the caller passes what scandirat(3) accepts.
    unsafe { answer_scan(path, libcs, list, filter, compare) }
}

/// The name of a directory entry.
///
/// # Safety
/// `entry` is from readdir.
pub unsafe fn name<'a>(entry: *const dirent) -> &'a CStr {
    // SAFETY: an entry's name is a C string, valid as long as the entry.
    unsafe { CStr::from_ptr((*entry).d_name.as_ptr()) }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    thread_local! {
        /// Calls of malloc until one fails.
        static LEFT: Cell<usize> = const { Cell::new(0) };
    }

    unsafe extern "C" fn failing_malloc(len: size_t) -> *mut c_void {
        if LEFT.replace(LEFT.get().wrapping_sub(1)) == 0 {
            return null_mut();
        }
        // SAFETY: malloc has no preconditions.
        unsafe { libc::malloc(len) }
    }

    /// Builds a list of three entries while the call of malloc behind `calls` others fails.
    fn list_of_three(calls: usize) -> Result<(*mut *mut dirent, c_int), Errno> {
        LEFT.set(calls);
        let mut copies = Copies {
            entries: Vec::new(),
            allocate: failing_malloc,
        };
        // SAFETY: the structure consists of integers.
        let mut record: dirent = unsafe { core::mem::zeroed() };
        record.d_reclen = 24;
        for inode in 1..=3 {
            record.d_ino = inode;
            copies.add(&record)?;
        }
        // SAFETY: there is no comparison.
        unsafe { copies.into_list(None) }
    }

    #[test]
    fn a_list_is_whole_or_fails() {
        for calls in 0..4 {
            assert_eq!(list_of_three(calls), Err(Errno(libc::ENOMEM)), "{calls}");
        }
        let (list, count) = list_of_three(4).unwrap();
        // SAFETY: the list has as many entries as `count` says, and nobody else has it.
        unsafe {
            let entries = core::slice::from_raw_parts(list, count as usize);
            let inodes: Vec<_> = entries.iter().map(|entry| (**entry).d_ino).collect();
            assert_eq!(inodes, [1, 2, 3]);
            entries.iter().for_each(|entry| libc::free(entry.cast()));
            libc::free(list.cast());
        }
    }
}
