//! GID table entries with all their fields: read by ioctl, or from sysfs if the kernel lacks that ioctl.
//! Software devices fill in entries themselves.

pub mod sysfs;

use core::ptr;

use libc::{EINVAL, ENODATA, EOPNOTSUPP, c_int};

use crate::abi::*;
use crate::provider::software;
use crate::uverbs::cmd::gid as kernel;
use crate::uverbs::fallback::Fallback;

pub(super) const ALL_FIELDS: u32 =
    VERBS_QUERY_GID_ATTR_GID | VERBS_QUERY_GID_ATTR_TYPE | VERBS_QUERY_GID_ATTR_NDEV_IFINDEX;

/// More entries than the table of any software device has.
const MAX_SOFTWARE_GIDS: usize = 1025;

pub(super) const EMPTY: ibv_gid_entry = ibv_gid_entry {
    gid: ibv_gid { raw: [0; 16] },
    gid_index: 0,
    port_num: 0,
    gid_type: IBV_GID_TYPE_IB,
    ndev_ifindex: 0,
};

/// Reads an entry of the table into `entry_size` bytes. `fields` (`VERBS_QUERY_GID_ATTR_*`) selects what
/// must be read, which saves reading files if sysfs is used. Returns 0 or an errno value: ENODATA for an
/// empty entry.
///
/// # Safety
///
/// `context` is an open context; `entry_size` bytes at `entry` are writable.
pub unsafe fn query_gid_ex(
    context: *mut ibv_context,
    port_num: u32,
    gid_index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
    entry_size: usize,
    fields: u32,
) -> c_int {
    // SAFETY: the context is open, as the caller promises.
    if let Some(software) = unsafe { software::of_context(context) } {
        // SAFETY: the context is open and `entry_size` bytes are writable, as the caller promises.
        return unsafe {
            from_software(
                software, context, port_num, gid_index, entry, flags, entry_size,
            )
        };
    }
    // SAFETY: the context is open and `entry_size` bytes are writable, as the caller promises.
    match unsafe { kernel::entry(context, port_num, gid_index, entry, flags, entry_size) } {
        Ok(Fallback::Done) => return 0,
        Ok(_) => {}
        Err(errno) => return errno.0,
    }
    if flags != 0 {
        return EOPNOTSUPP;
    }
    if entry_size < size_of::<ibv_gid_entry>() {
        return EINVAL;
    }
    let mut found = EMPTY;
    // SAFETY: the context is open, as the caller promises.
    let read = unsafe { sysfs::read_entry(context, port_num, gid_index, fields, None, &mut found) };
    if let Err(errno) = read {
        return errno.0;
    }
    // SAFETY: `entry_size` bytes are writable, and they are no fewer than `found` has.
    unsafe { *entry = found };
    if fields & VERBS_QUERY_GID_ATTR_GID != 0 && is_empty(&found) {
        return ENODATA;
    }
    0
}

/// Reads an entry from a software device. Returns 0 or an errno value, which is in errno too, as the
/// kernel's ioctl leaves it.
///
/// # Safety
///
/// `context` is an open context, whose device's functions `software` are; `entry_size` bytes at `entry` are
/// writable.
unsafe fn from_software(
    software: &verbs_software_ops,
    context: *mut ibv_context,
    port_num: u32,
    gid_index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
    entry_size: usize,
) -> c_int {
    if let Err(errno) = check_form(flags, entry_size) {
        return errno.returned();
    }
    let mut found = EMPTY;
    // SAFETY: the context is open, and `found` is writable.
    match unsafe { (software.query_gid)(context, port_num, gid_index, &mut found) } {
        0 => {
            // SAFETY: `entry_size` bytes are writable, and `check_form` has made sure that they are enough.
            unsafe { put_entry(entry, 0, entry_size, &found) };
            0
        }
        errno => Errno(errno).returned(),
    }
}

/// The kernel's checks: EOPNOTSUPP for flags, EINVAL for an entry size that is too small.
fn check_form(flags: u32, entry_size: usize) -> Result<(), Errno> {
    if flags != 0 {
        return Err(Errno(EOPNOTSUPP));
    }
    if entry_size < size_of::<ibv_gid_entry>() {
        return Err(Errno(EINVAL));
    }
    Ok(())
}

/// Writes an entry to place `at` of an array whose entries have `entry_size` bytes. Bytes beyond the
/// library's entry are zeroed.
///
/// # Safety
///
/// The place is writable; `entry_size` is at least the size of `ibv_gid_entry`.
unsafe fn put_entry(
    entries: *mut ibv_gid_entry,
    at: usize,
    entry_size: usize,
    entry: &ibv_gid_entry,
) {
    // SAFETY: the place is writable and large enough, as the caller promises. It may be unaligned, since
    // `entry_size` is arbitrary.
    unsafe {
        let place = entries.byte_add(at * entry_size);
        ptr::write_bytes(place.cast::<u8>(), 0, entry_size);
        ptr::write_unaligned(place, *entry);
    }
}

/// Whether the entry has no GID.
pub(super) fn is_empty(entry: &ibv_gid_entry) -> bool {
    // SAFETY: all members of the union have the same 16 bytes, of any value.
    unsafe { entry.gid.raw == [0; 16] }
}

/// Reads an entry of the GID table. The inline `ibv_query_gid_ex` calls it (ibv_query_gid_ex(3)). Returns 0
/// or an errno value: ENODATA for an empty entry.
///
/// # Safety
///
/// `context` is an open context; `entry_size` bytes at `entry` are writable.
pub unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port_num: u32,
    gid_index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
    entry_size: usize,
) -> c_int {
    // SAFETY: the context is open and `entry_size` bytes are writable, as the caller promises.
    unsafe {
        query_gid_ex(
            context, port_num, gid_index, entry, flags, entry_size, ALL_FIELDS,
        )
    }
}

/// Reads all entries of all ports that are not empty. The inline `ibv_query_gid_table` calls it
/// (ibv_query_gid_table(3)). Returns their number, or a negative errno value: -EINVAL if there are more than
/// `max_entries`.
///
/// # Safety
///
/// `context` is an open context; `max_entries` times `entry_size` bytes at `entries` are writable.
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    flags: u32,
    entry_size: usize,
) -> isize {
    // SAFETY: the context is open and the entries are writable, as the caller promises.
    let count = unsafe {
        if let Some(software) = software::of_context(context) {
            return table_from_software(software, context, entries, max_entries, flags, entry_size);
        }
        match kernel::table(context, entries, max_entries, flags, entry_size) {
            Ok(Some(count)) => Ok(count as usize),
            Ok(None) if flags != 0 => Err(Errno(EOPNOTSUPP)),
            Ok(None) => sysfs::read_table(context, entries, max_entries, entry_size),
            Err(errno) => Err(errno),
        }
    };
    match count {
        Ok(count) => count as isize,
        Err(errno) => -(errno.0 as isize),
    }
}

/// Reads the whole table from a software device, for [`_ibv_query_gid_table`]. Returns the number of
/// entries or a negative errno value, which is in errno too.
///
/// # Safety
///
/// `context` is an open context, whose device's functions `software` are; `max_entries` times `entry_size`
/// bytes at `entries` are writable.
unsafe fn table_from_software(
    software: &verbs_software_ops,
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    flags: u32,
    entry_size: usize,
) -> isize {
    let fail = |errno: Errno| -(errno.returned() as isize);
    if let Err(errno) = check_form(flags, entry_size) {
        return fail(errno);
    }
    // One more than `max_entries`, to detect that there are more.
    let room = max_entries.saturating_add(1).min(MAX_SOFTWARE_GIDS);
    let mut found = vec![EMPTY; room];
    // SAFETY: the context is open, and `found` has `room` entries.
    let count = unsafe { (software.query_gid_table)(context, found.as_mut_ptr(), room) };
    let Ok(len) = usize::try_from(count) else {
        Errno(count.unsigned_abs() as c_int).set();
        return count;
    };
    if len > max_entries {
        return fail(Errno(EINVAL));
    }
    for (at, entry) in found.iter().take(len).enumerate() {
        // SAFETY: `at` is below `max_entries`, so the place is writable; `check_form` checked the size.
        unsafe { put_entry(entries, at, entry_size, entry) };
    }
    count
}
