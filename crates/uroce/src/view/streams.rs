//! Directory streams over the tree (opendir(3)): a list of entries, taken when the stream is opened.
//!
//! A stream is an element of one array, so that one comparison distinguishes these streams from libc's. An
//! unused element is all zeros, so that the array takes no space in the library's file.
//! The program uses a stream from one thread at a time, as readdir(3) demands.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicBool, Ordering};
use std::ffi::CString;

use ibverbs_abi::Errno;
use libc::{DIR, EMFILE, dirent};

use super::tree::{Directory, Node};
use super::{files, kernel, paths, state};

/// The most streams that are open at a time.
const STREAMS: usize = 256;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    pub name: CString,
    pub inode: u64,
    /// `DT_*`.
    pub kind: u8,
}

/// An open stream.
struct Stream {
    fd: c_int,
    entries: Vec<DirectoryEntry>,
    position: usize,
    /// The entry that readdir has returned last.
    current: dirent,
}

/// An element of the array of streams.
struct StreamSlot {
    used: AtomicBool,
    stream: UnsafeCell<Option<Box<Stream>>>,
}

// SAFETY: the content of a used slot is accessed only through the DIR pointer that one `open` has returned,
// by one thread at a time, as readdir(3) demands of the program.
unsafe impl Sync for StreamSlot {}

static SLOTS: [StreamSlot; STREAMS] = [const {
    StreamSlot {
        used: AtomicBool::new(false),
        stream: UnsafeCell::new(None),
    }
}; STREAMS];

/// The entries of the directory at `path`: those of the tree, and those of the kernel's directory if it has
/// one there. Fails as opendir(3) and readdir(3) of that one.
pub fn entries(path: &str, directory: Directory) -> Result<Vec<DirectoryEntry>, Errno> {
    let join = |name: &str| format!("{}/{name}", path.trim_end_matches('/'));
    let above = path.rsplit_once('/').map_or("/", |(above, _)| above);
    let mut found = vec![
        DirectoryEntry::new(".", files::inode(path), libc::DT_DIR),
        DirectoryEntry::new("..", files::inode(above), libc::DT_DIR),
    ];
    let own = state::devices().tree.entries(path, directory);
    found.extend(own.iter().map(|(name, node)| {
        DirectoryEntry::new(name, files::inode(&join(name)), files::entry_type(node))
    }));
    if paths::is_shared(&Node::Directory(directory)) {
        for (name, inode, kind) in kernel::entries(path)? {
            if !found.iter().any(|entry| entry.name == name) {
                found.push(DirectoryEntry { name, inode, kind });
            }
        }
    }
    Ok(found)
}

impl DirectoryEntry {
    fn new(name: &str, inode: u64, kind: u8) -> DirectoryEntry {
        DirectoryEntry {
            // Names of the tree have no NUL.
            name: CString::new(name).unwrap_or_default(),
            inode,
            kind,
        }
    }

    /// The structure that readdir(3) returns, as entry number `position`.
    pub fn to_dirent(&self, position: usize) -> dirent {
        // SAFETY: the structure consists of integers.
        let mut entry: dirent = unsafe { core::mem::zeroed() };
        entry.d_ino = self.inode;
        entry.d_off = position as i64 + 1;
        entry.d_type = self.kind;
        let name = self.name.as_bytes_with_nul();
        for (to, from) in entry.d_name.iter_mut().zip(name) {
            *to = *from as c_char;
        }
        entry.d_reclen = record_len(name.len()) as u16;
        entry
    }
}

/// The length of a record whose name has `name_len` bytes, the NUL included (getdents64(2)).
pub fn record_len(name_len: usize) -> usize {
    (core::mem::offset_of!(dirent, d_name) + name_len).next_multiple_of(8)
}

/// Makes a stream of a descriptor, which it then owns.
pub fn open(fd: c_int, path: &str, directory: Directory) -> Result<*mut DIR, Errno> {
    let entries = entries(path, directory)?;
    let free = |slot: &&StreamSlot| !slot.used.swap(true, Ordering::Acquire);
    let slot = SLOTS.iter().find(free).ok_or(Errno(EMFILE))?;
    let stream = Stream {
        fd,
        entries,
        position: 0,
        current: DirectoryEntry::new("", 0, 0).to_dirent(0),
    };
    // SAFETY: the slot was free, and `used` keeps other threads from it now.
    unsafe { *slot.stream.get() = Some(Box::new(stream)) };
    Ok(core::ptr::from_ref(slot).cast_mut().cast())
}

fn slot(dir: *mut DIR) -> Option<&'static StreamSlot> {
    let offset = dir.addr().wrapping_sub((&raw const SLOTS).addr());
    SLOTS.get(offset / size_of::<StreamSlot>())
}

/// Whether `dir` is a stream of [`open`].
#[inline]
pub fn is_ours(dir: *mut DIR) -> bool {
    dir.addr().wrapping_sub((&raw const SLOTS).addr()) < size_of_val(&SLOTS)
}

/// Calls `action` with an open stream.
///
/// # Safety
/// `dir` is from [`open`], not closed, and used by no other thread.
unsafe fn with<T>(dir: *mut DIR, action: impl FnOnce(&mut Stream) -> T) -> Option<T> {
    // SAFETY: the stream is used by this thread only, as the caller promises.
    slot(dir)
        .and_then(|slot| unsafe { (*slot.stream.get()).as_deref_mut() })
        .map(action)
}

/// The next entry, valid until the next call; None at the end.
///
/// # Safety
/// As for [`with`].
pub unsafe fn next(dir: *mut DIR) -> Option<*mut dirent> {
    let next = |stream: &mut Stream| {
        let entry = stream.entries.get(stream.position)?;
        stream.current = entry.to_dirent(stream.position);
        stream.position += 1;
        Some(&raw mut stream.current)
    };
    // SAFETY: the caller passes an open stream of `open` that no other thread uses.
    unsafe { with(dir, next) }.flatten()
}

/// The position, which [`seek`] takes.
///
/// # Safety
/// As for [`with`].
pub unsafe fn tell(dir: *mut DIR) -> usize {
    // SAFETY: the caller passes an open stream of `open` that no other thread uses.
    unsafe { with(dir, |stream| stream.position) }.unwrap_or(0)
}

/// Sets the position. At the beginning the entries are read again.
///
/// # Safety
/// As for [`with`].
pub unsafe fn seek(dir: *mut DIR, position: usize) {
    let seek = |stream: &mut Stream| {
        stream.position = position;
        if position != 0 {
            return;
        }
        if let Some(opened) = state::opened(stream.fd) {
            if let Node::Directory(directory) = opened.node {
                // rewinddir cannot fail: the entries stay what they were.
                if let Ok(entries) = entries(&opened.path, directory) {
                    stream.entries = entries;
                }
            }
        }
    };
    // SAFETY: the caller passes an open stream of `open` that no other thread uses.
    unsafe { with(dir, seek) };
}

/// The descriptor.
///
/// # Safety
/// As for [`with`].
pub unsafe fn descriptor(dir: *mut DIR) -> c_int {
    // SAFETY: the caller passes an open stream of `open` that no other thread uses.
    unsafe { with(dir, |stream| stream.fd) }.unwrap_or(-1)
}

/// Closes the stream and returns its descriptor, which the caller closes.
///
/// # Safety
/// As for [`with`], and `dir` is not used again.
pub unsafe fn close(dir: *mut DIR) -> Option<c_int> {
    let slot = slot(dir)?;
    // SAFETY: the stream is used by this thread only, as the caller promises.
    let stream = unsafe { (*slot.stream.get()).take() }?;
    slot.used.store(false, Ordering::Release);
    Some(stream.fd)
}
