//! The entries of a walk. An entry is one block of memory: the structure of fts.h with its name, the status,
//! the path. It lives until the walk has gone past it, a directory until the walk has left it.

use core::ffi::CStr;

use ibverbs_abi::Errno;

use crate::view::libc_types::FtsEntry as Entry;

/// The `fts_instr` of an entry without an instruction.
pub const FTS_NOINSTR: u16 = 3;

const NAME_AT: usize = core::mem::offset_of!(Entry, name);

/// Makes an entry. Fails with ENOMEM, or with ENAMETOOLONG if the path is too long for the entry.
pub fn new_entry(
    path: &CStr,
    name: &CStr,
    parent: *mut Entry,
    level: i16,
) -> Result<*mut Entry, Errno> {
    let (path, name) = (path.to_bytes_with_nul(), name.to_bytes_with_nul());
    let path_len = u16::try_from(path.len() - 1).map_err(|_| Errno(libc::ENAMETOOLONG))?;
    // A path of the start is its own name at first.
    let room = name.len().max(path.len());
    let status_at = (NAME_AT + room).next_multiple_of(align_of::<libc::stat>());
    let path_at = status_at + size_of::<libc::stat>();
    // SAFETY: calloc's block has room for the structure with its name, the status and the path, at these
    // offsets, and zeros are valid values of them.
    unsafe {
        let block = libc::calloc(1, path_at + path.len()).cast::<u8>();
        if block.is_null() {
            return Err(Errno(libc::ENOMEM));
        }
        let entry = block.cast::<Entry>();
        (*entry).parent = parent;
        (*entry).level = level;
        (*entry).instruction = FTS_NOINSTR;
        (*entry).path_len = path_len;
        (*entry).name_len = (name.len() - 1) as u16;
        (*entry).status = block.add(status_at).cast();
        (*entry).path = block.add(path_at).cast();
        (*entry).access_path = (*entry).path;
        block.add(NAME_AT).copy_from(name.as_ptr(), name.len());
        block.add(path_at).copy_from(path.as_ptr(), path.len());
        Ok(entry)
    }
}

/// Frees a list of entries.
///
/// # Safety
/// `entry` is NULL or the first of a list of entries that nobody uses any more.
pub unsafe fn free_list(mut entry: *mut Entry) {
    while !entry.is_null() {
        // SAFETY: the caller passes entries that exist.
        unsafe {
            let next = (*entry).link;
            libc::free(entry.cast());
            entry = next;
        }
    }
}

/// The name of an entry.
///
/// # Safety
/// The entry exists.
pub unsafe fn name_of<'a>(entry: *mut Entry) -> &'a CStr {
    // SAFETY: the name is in the entry's block, as a C string.
    unsafe { CStr::from_ptr(entry.cast::<u8>().add(NAME_AT).cast()) }
}

/// Leaves of the name of a path of the start what is behind its last slash.
///
/// # Safety
/// The entry exists.
pub unsafe fn shorten_name(entry: *mut Entry) {
    // SAFETY: the name is in the entry's block, as a C string; it gets shorter.
    unsafe {
        let name = name_of(entry).to_bytes_with_nul();
        let slash = name.iter().rposition(|byte| *byte == b'/');
        let Some(slash) = slash.filter(|slash| name.len() > 2 || *slash > 0) else {
            return;
        };
        let rest = name.len() - slash - 1;
        let start = entry.cast::<u8>().add(NAME_AT);
        core::ptr::copy(start.add(slash + 1), start, rest);
        (*entry).name_len = (rest - 1) as u16;
    }
}
