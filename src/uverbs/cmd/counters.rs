//! Commands of counters that flows report to.

use ibverbs_abi::*;
use libc::{EOPNOTSUPP, c_int};

use super::{mr::LINK_ROOM, only, to_c};
use crate::uverbs::{ioctl::Command, linked};

/// Creates a set of counters.
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_create_counters(
    context: *mut ibv_context,
    init_attr: *mut ibv_counters_init_attr,
    vcounters: *mut verbs_counters,
    link: *mut ibv_command_buffer,
) -> c_int {
    to_c(|| {
        let mut cmd = Command::<{ 1 + LINK_ROOM }>::new(
            UVERBS_OBJECT_COUNTERS,
            UVERBS_METHOD_COUNTERS_CREATE,
        );
        let handle = cmd.new_object(UVERBS_ATTR_CREATE_COUNTERS_HANDLE);
        // SAFETY: `context` is open; `init_attr`, `vcounters` and `link` are live.
        unsafe {
            if !only((*init_attr).comp_mask.into(), 0) {
                return Err(Errno(EOPNOTSUPP));
            }
            linked::execute(context, &mut cmd, link)?;
            (*vcounters).counters.context = context;
            (*vcounters).handle = cmd.created(handle);
        }
        Ok(())
    })
}

/// Reads `ncounters` counters.
///
/// # Safety
/// As the module [`cmd`](super) says; `counters_value` has `ncounters` members.
pub unsafe extern "C" fn ibv_cmd_read_counters(
    vcounters: *mut verbs_counters,
    counters_value: *mut u64,
    ncounters: u32,
    flags: u32,
    link: *mut ibv_command_buffer,
) -> c_int {
    let mut cmd =
        Command::<{ 3 + LINK_ROOM }>::new(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ);
    let len = size_of::<u64>() * ncounters as usize;
    // SAFETY: `vcounters` is live, its context open; `counters_value` has that length; `link` is live.
    to_c(|| unsafe {
        cmd.object(UVERBS_ATTR_READ_COUNTERS_HANDLE, (*vcounters).handle);
        cmd.output_bytes(UVERBS_ATTR_READ_COUNTERS_BUFF, counters_value.cast(), len);
        cmd.u32(UVERBS_ATTR_READ_COUNTERS_FLAGS, flags);
        linked::execute((*vcounters).counters.context, &mut cmd, link)
    })
}
