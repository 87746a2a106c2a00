//! The GID table through ioctl. `verbs::gid_table` reads sysfs on kernels that lack it.

use ibverbs_abi::*;

use crate::uverbs::{
    fallback::{self, Fallback, Needs},
    ioctl::Command,
    state::Op,
};

/// Queries one entry of a port's GID table. [`Fallback::Write`] if the kernel lacks the command.
///
/// # Safety
/// `context` is open, `entry` is writable for `entry_size` bytes.
pub unsafe fn entry(
    context: *mut ibv_context,
    port_num: u32,
    gid_index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
    entry_size: usize,
) -> Result<Fallback, Errno> {
    let mut cmd = Command::<4>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY);
    cmd.u64(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, port_num.into());
    cmd.u64(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, gid_index.into());
    cmd.u32(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, flags);
    cmd.output_bytes(
        UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY,
        entry.cast(),
        entry_size,
    );
    // SAFETY: `context` is open, `entry` is writable for its length.
    unsafe { fallback::execute(context, Op::QueryGid, Needs::default(), &mut cmd) }
}

/// Queries up to `max_entries` valid GIDs of all ports. Returns their number; `None` if the kernel lacks the
/// command.
///
/// # Safety
/// `context` is open, `entries` is writable for `max_entries` times `entry_size` bytes.
pub unsafe fn table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    flags: u32,
    entry_size: usize,
) -> Result<Option<u64>, Errno> {
    let mut num_entries = 0u64;
    let mut cmd = Command::<4>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE);
    cmd.u64(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, entry_size as u64);
    cmd.u32(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, flags);
    // A table that is too long for an attribute makes the command fail with EINVAL.
    let len = entry_size.saturating_mul(max_entries);
    cmd.output_bytes(
        UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES,
        entries.cast(),
        len,
    );
    cmd.output(
        UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES,
        &raw mut num_entries,
    );
    // SAFETY: `context` is open, `entries` is writable for `len` bytes, `num_entries` is a local.
    let route = unsafe { fallback::execute(context, Op::QueryGid, Needs::default(), &mut cmd)? };
    Ok((route == Fallback::Done).then_some(num_entries))
}
