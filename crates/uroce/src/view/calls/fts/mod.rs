//! fts(3): walks over several paths of which one may lead to the tree. libc's own calls are not redirected,
//! so such a walk is made here. Unlike libc's, it never changes the working directory, which is optional.

mod entry;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;
use std::ffi::CString;

use ibverbs_abi::Errno;

use entry::{FTS_NOINSTR, free_list, name_of, new_entry, shorten_name};

use super::stat::{lstat, stat};
use super::walk::{join, names_in};
use super::{PathTarget, find};
use crate::view::libc_types::{FtsCompare as Compare, FtsEntry as Entry};
use crate::view::real;

const FTS_COMFOLLOW: c_int = 0x01;
const FTS_LOGICAL: c_int = 0x02;
const FTS_SEEDOT: c_int = 0x20;
const FTS_XDEV: c_int = 0x40;
const FTS_OPTIONMASK: c_int = 0xff;
/// An argument of fts_children.
const FTS_NAMEONLY: c_int = 0x100;

const FTS_D: u16 = 1;
const FTS_DC: u16 = 2;
const FTS_DEFAULT: u16 = 3;
const FTS_DNR: u16 = 4;
const FTS_DOT: u16 = 5;
const FTS_DP: u16 = 6;
const FTS_ERR: u16 = 7;
const FTS_F: u16 = 8;
const FTS_NS: u16 = 10;
const FTS_SL: u16 = 12;
const FTS_SLNONE: u16 = 13;

const FTS_AGAIN: u16 = 1;
const FTS_FOLLOW: u16 = 2;
const FTS_SKIP: u16 = 4;

/// The position of a walk.
enum At {
    /// The walk is at the start: the list of the paths to walk over.
    Start(*mut Entry),
    /// The walk is at the entry that was returned last.
    Entry(*mut Entry),
    End,
}

/// A walk; the program's `FTS`.
pub struct Walk {
    at: At,
    /// The entries of the current directory that fts_children has read.
    children: *mut Entry,
    /// The parent of the paths, at level -1.
    root: *mut Entry,
    options: c_int,
    compare: Option<Compare>,
    /// The file system of the current path.
    device: libc::dev_t,
}

/// The most walks of this module at a time.
const WALKS_MAX: usize = 64;
/// The walks that this module has begun: no lock, because a child of fork may end them.
static WALKS: [AtomicPtr<Walk>; WALKS_MAX] = [const { AtomicPtr::new(null_mut()) }; WALKS_MAX];

fn slot_of(walk: *mut Walk) -> Option<&'static AtomicPtr<Walk>> {
    let is_it = |slot: &&AtomicPtr<Walk>| slot.load(Relaxed) == walk;
    WALKS.iter().find(is_it)
}

fn is_ours(walk: *mut Walk) -> bool {
    !walk.is_null() && slot_of(walk).is_some()
}

impl Walk {
    /// Makes a list of entries, in the program's order.
    ///
    /// # Safety
    /// The entries exist and are in no list.
    unsafe fn list(&self, mut entries: Vec<*mut Entry>) -> *mut Entry {
        if let Some(compare) = self.compare {
            // A program's function may be no order at all (`return a > b`), at which slice::sort_by panics.
            // SAFETY: qsort gets as many elements as there are, and the program's function accepts pointers
            // to two entries.
            unsafe {
                let compare: unsafe extern "C" fn(*const c_void, *const c_void) -> c_int =
                    core::mem::transmute(compare);
                let size = size_of::<*mut Entry>();
                libc::qsort(
                    entries.as_mut_ptr().cast(),
                    entries.len(),
                    size,
                    Some(compare),
                );
            }
        }
        let mut next = null_mut();
        for entry in entries.into_iter().rev() {
            // SAFETY: the entry exists, as the caller promises.
            unsafe { (*entry).link = next };
            next = entry;
        }
        next
    }

    /// Reads the status of an entry: what it is (`fts_info`).
    ///
    /// # Safety
    /// The entry and its parents exist.
    unsafe fn classify(&self, entry: *mut Entry, follow: bool) -> u16 {
        // SAFETY: the entry exists, as the caller promises; its path is a C string, its status writable.
        unsafe {
            let found = (*entry).status;
            let path = (*entry).path;
            if self.options & FTS_LOGICAL != 0 || follow {
                if stat(path, found) != 0 {
                    let error = Errno::last();
                    if lstat(path, found) == 0 {
                        return FTS_SLNONE;
                    }
                    (*entry).errno = error.0;
                    return FTS_NS;
                }
            } else if lstat(path, found) != 0 {
                (*entry).errno = Errno::last().0;
                return FTS_NS;
            }
            (*entry).device = (*found).st_dev;
            (*entry).inode = (*found).st_ino;
            (*entry).links = (*found).st_nlink;
            match (*found).st_mode & libc::S_IFMT {
                libc::S_IFDIR => Walk::classify_directory(entry),
                libc::S_IFLNK => FTS_SL,
                libc::S_IFREG => FTS_F,
                _ => FTS_DEFAULT,
            }
        }
    }

    /// # Safety
    /// The entry and its parents exist.
    unsafe fn classify_directory(entry: *mut Entry) -> u16 {
        // SAFETY: as the caller promises.
        unsafe {
            let name = name_of(entry);
            if name == c"." || name == c".." {
                return FTS_DOT;
            }
            let mut above = (*entry).parent;
            while (*above).level >= 0 {
                if ((*above).inode, (*above).device) == ((*entry).inode, (*entry).device) {
                    (*entry).cycle = above;
                    return FTS_DC;
                }
                above = (*above).parent;
            }
        }
        FTS_D
    }

    /// Reads a directory: its entries, or NULL if it has none or cannot be read.
    ///
    /// # Safety
    /// The entry and its parents exist.
    unsafe fn read_directory(&self, directory: *mut Entry) -> *mut Entry {
        // SAFETY: the entry exists, as the caller promises, and its path is a C string.
        let (path, level) = unsafe { (CStr::from_ptr((*directory).path), (*directory).level) };
        let Some(names) = names_in(path) else {
            // SAFETY: the entry exists, as the caller promises.
            unsafe {
                (*directory).errno = Errno::last().0;
                (*directory).info = FTS_DNR;
            }
            return null_mut();
        };
        let dots = self.options & FTS_SEEDOT != 0;
        let dots = [c".", c".."].into_iter().filter(|_| dots);
        let all = dots.chain(names.iter().map(CString::as_c_str));
        let mut entries = Vec::new();
        for name in all {
            let path = join(path, name);
            let entry = match new_entry(&path, name, directory, level.saturating_add(1)) {
                Ok(entry) => entry,
                Err(errno) => {
                    // SAFETY: the entry exists, as the caller promises. The walk reports it at the end of
                    // the directory (FTS_ERR).
                    unsafe { (*directory).errno = errno.0 };
                    continue;
                }
            };
            // SAFETY: the entry has just been made, and its parents exist.
            unsafe { (*entry).info = self.classify(entry, false) };
            entries.push(entry);
        }
        // SAFETY: they have just been made.
        unsafe { self.list(entries) }
    }

    /// Goes to the next entry. NULL at the end, with errno 0.
    ///
    /// # Safety
    /// The program uses the walk in one thread, and has not freed entries.
    unsafe fn next(&mut self) -> *mut Entry {
        // SAFETY: the entries that `at` refers to, and all above and behind them, exist until the walk has
        // gone past them.
        unsafe {
            let current = match self.at {
                At::End => return null_mut(),
                At::Start(first) => return self.enter(first, self.root),
                At::Entry(current) => current,
            };
            let instruction = core::mem::replace(&mut (*current).instruction, FTS_NOINSTR);
            let is_link = matches!((*current).info, FTS_SL | FTS_SLNONE);
            if instruction == FTS_AGAIN || instruction == FTS_FOLLOW && is_link {
                (*current).info = self.classify(current, instruction == FTS_FOLLOW);
                return current;
            }
            if (*current).info != FTS_D {
                return self.leave(current);
            }
            let children = core::mem::replace(&mut self.children, null_mut());
            let elsewhere = self.options & FTS_XDEV != 0 && (*current).device != self.device;
            if instruction == FTS_SKIP || elsewhere {
                free_list(children);
                (*current).info = FTS_DP;
                return current;
            }
            let children = if children.is_null() {
                self.read_directory(current)
            } else {
                children
            };
            if children.is_null() && (*current).info == FTS_DNR {
                return current;
            }
            self.enter(children, current)
        }
    }

    /// Goes to the first entry of a list that is not to be skipped, or, behind the list, to its directory.
    ///
    /// # Safety
    /// The entries exist, and nobody uses those that are skipped.
    unsafe fn enter(&mut self, mut entry: *mut Entry, directory: *mut Entry) -> *mut Entry {
        // SAFETY: as the caller promises.
        unsafe {
            while !entry.is_null() && (*entry).instruction == FTS_SKIP {
                let next = (*entry).link;
                libc::free(entry.cast());
                entry = next;
            }
            if entry.is_null() {
                return self.end_directory(directory);
            }
            if (*entry).level == 0 {
                self.device = (*entry).device;
                shorten_name(entry);
            }
            if (*entry).instruction == FTS_FOLLOW {
                (*entry).info = self.classify(entry, true);
                (*entry).instruction = FTS_NOINSTR;
            }
            self.at = At::Entry(entry);
            entry
        }
    }

    /// Goes to the entry behind this one.
    ///
    /// # Safety
    /// The entry exists, and the program does not use it any more.
    unsafe fn leave(&mut self, entry: *mut Entry) -> *mut Entry {
        // SAFETY: as the caller promises.
        unsafe {
            let (next, parent) = ((*entry).link, (*entry).parent);
            libc::free(entry.cast());
            self.enter(next, parent)
        }
    }

    /// # Safety
    /// The entry exists.
    unsafe fn end_directory(&mut self, directory: *mut Entry) -> *mut Entry {
        if directory == self.root {
            self.at = At::End;
            Errno(0).set();
            return null_mut();
        }
        self.at = At::Entry(directory);
        // SAFETY: as the caller promises.
        unsafe {
            (*directory).info = if (*directory).errno == 0 {
                FTS_DP
            } else {
                FTS_ERR
            }
        };
        directory
    }
}

/// The paths of the start, if one of them leads to the tree.
///
/// # Safety
/// As for fts_open(3).
unsafe fn own_paths(paths: *const *const c_char) -> Option<Vec<CString>> {
    let mut all = Vec::new();
    let mut concerns = false;
    // SAFETY: the caller passes C strings behind which there is NULL.
    unsafe {
        let mut at = paths;
        while !(*at).is_null() {
            concerns |= matches!(find(libc::AT_FDCWD, *at, true), PathTarget::Ours(..));
            concerns |= matches!(find(libc::AT_FDCWD, *at, false), PathTarget::Ours(..));
            all.push(CStr::from_ptr(*at).to_owned());
            at = at.add(1);
        }
    }
    concerns.then_some(all)
}

/// # Safety
/// As for fts_open(3).
pub unsafe extern "C" fn fts_open(
    paths: *const *const c_char,
    options: c_int,
    compare: Option<Compare>,
) -> *mut Walk {
    // SAFETY: the caller passes what fts_open(3) accepts.
    let Some(paths) = (unsafe { own_paths(paths) }) else {
        // SAFETY: the caller passes what fts_open(3) accepts.
        return unsafe { real::fts_open(paths, options, compare) }.cast();
    };
    if options & !FTS_OPTIONMASK != 0 {
        return Errno(libc::EINVAL).null();
    }
    if paths.iter().any(|path| path.is_empty()) {
        return Errno(libc::ENOENT).null();
    }
    let root = match new_entry(c"", c"", null_mut(), -1) {
        Ok(root) => root,
        Err(errno) => return errno.null(),
    };
    let mut walk = Box::new(Walk {
        at: At::End,
        children: null_mut(),
        root,
        options,
        compare,
        device: 0,
    });
    let mut entries = Vec::new();
    for path in &paths {
        let entry = match new_entry(path, path, root, 0) {
            Ok(entry) => entry,
            Err(errno) => {
                // SAFETY: nobody else knows the entries and the walk.
                unsafe {
                    walk.at = At::Start(walk.list(entries));
                    end(Box::into_raw(walk));
                }
                return errno.null();
            }
        };
        // SAFETY: the entry has just been made; a `.` that the program names is a directory.
        unsafe {
            let info = walk.classify(entry, options & FTS_COMFOLLOW != 0);
            (*entry).info = if info == FTS_DOT { FTS_D } else { info };
        }
        entries.push(entry);
    }
    // SAFETY: they have just been made.
    walk.at = At::Start(unsafe { walk.list(entries) });
    let walk = Box::into_raw(walk);
    let free = |slot: &&AtomicPtr<Walk>| {
        let taken = slot.compare_exchange(null_mut(), walk, Relaxed, Relaxed);
        taken.is_ok()
    };
    if WALKS.iter().find(free).is_none() {
        // SAFETY: nobody else knows the walk.
        unsafe { end(walk) };
        return Errno(libc::EMFILE).null();
    }
    walk
}

/// # Safety
/// As for fts_read(3).
pub unsafe extern "C" fn fts_read(walk: *mut Walk) -> *mut Entry {
    // SAFETY: the caller passes a walk of fts_open, ours or libc's.
    unsafe {
        if is_ours(walk) {
            (*walk).next()
        } else {
            real::fts_read(walk.cast())
        }
    }
}

/// # Safety
/// As for fts_children(3).
pub unsafe extern "C" fn fts_children(walk: *mut Walk, option: c_int) -> *mut Entry {
    // SAFETY: the caller passes a walk of fts_open, ours or libc's; the current entry exists.
    unsafe {
        if !is_ours(walk) {
            return real::fts_children(walk.cast(), option);
        }
        if option & !FTS_NAMEONLY != 0 {
            return Errno(libc::EINVAL).null();
        }
        Errno(0).set();
        let walk = &mut *walk;
        match walk.at {
            At::Start(first) => first,
            At::Entry(current) if (*current).info == FTS_D => {
                free_list(core::mem::replace(&mut walk.children, null_mut()));
                walk.children = walk.read_directory(current);
                walk.children
            }
            _ => null_mut(),
        }
    }
}

/// # Safety
/// As for fts_close(3).
pub unsafe extern "C" fn fts_close(walk: *mut Walk) -> c_int {
    // SAFETY: the caller passes a walk of fts_open, ours or libc's, and does not use it again.
    unsafe {
        if !is_ours(walk) {
            return real::fts_close(walk.cast());
        }
        if let Some(slot) = slot_of(walk) {
            slot.store(null_mut(), Relaxed);
        }
        end(walk);
    }
    0
}

/// Frees a walk and its entries.
///
/// # Safety
/// Nobody uses the walk or its entries any more.
unsafe fn end(walk: *mut Walk) {
    // SAFETY: `walk` is from Box::into_raw; what is left of the current list and of those above it exists.
    unsafe {
        let walk = Box::from_raw(walk);
        free_list(walk.children);
        let mut list = match walk.at {
            At::Start(first) => first,
            At::Entry(current) => current,
            At::End => null_mut(),
        };
        while !list.is_null() {
            let parent = (*list).parent;
            free_list(list);
            list = if parent == walk.root {
                null_mut()
            } else {
                parent
            };
        }
        libc::free(walk.root.cast());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A comparison by which each of the levels 0 to 2 is above another one.
    unsafe extern "C" fn in_a_circle(a: *const *const Entry, b: *const *const Entry) -> c_int {
        // SAFETY: the pointers are to two entries.
        let difference = unsafe { (**a).level - (**b).level };
        (difference + 4) as c_int % 3 - 1
    }

    /// The entries that a list has.
    fn count(list: *mut Entry) -> usize {
        let next = |entry: &*mut Entry| {
            // SAFETY: the list's entries exist.
            Some(unsafe { (**entry).link }).filter(|next| !next.is_null())
        };
        std::iter::successors(Some(list), next).count()
    }

    #[test]
    fn a_comparison_may_be_no_order() {
        let entries: Vec<_> = (0..50)
            .map(|i: i16| new_entry(c"name", c"name", null_mut(), i * 5 % 7 % 3).unwrap())
            .collect();
        let walk = Walk {
            at: At::End,
            children: null_mut(),
            root: null_mut(),
            options: 0,
            compare: Some(in_a_circle),
            device: 0,
        };
        // SAFETY: the entries have just been made, and nobody uses them after free_list.
        unsafe {
            let list = walk.list(entries);
            assert_eq!(count(list), 50);
            free_list(list);
        }
    }
}
