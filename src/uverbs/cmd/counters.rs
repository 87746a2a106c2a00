//! Counters that flows report to.

use ibverbs_abi::*;
use libc::{EOPNOTSUPP, c_int};

use super::{mr::LINK_ROOM, only};
use crate::uverbs::{Destroyed, destroyed, ioctl::Command, linked};

/// Creates a set of counters.
///
/// # Safety
/// All pointers are live; `link` is null or the provider's live chain of command buffers.
pub unsafe extern "C" fn ibv_cmd_create_counters(
    context: *mut ibv_context,
    init_attr: *mut ibv_counters_init_attr,
    vcounters: *mut verbs_counters,
    link: *mut ibv_command_buffer,
) -> c_int {
    let mut cmd =
        Command::<{ 1 + LINK_ROOM }>::new(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE);
    let handle = cmd.new_object(UVERBS_ATTR_CREATE_COUNTERS_HANDLE);
    // SAFETY: by the contract.
    unsafe {
        if !only((*init_attr).comp_mask.into(), 0) {
            return EOPNOTSUPP;
        }
        if let Err(error) = linked::execute(context, &mut cmd, link) {
            return error.0;
        }
        (*vcounters).counters.context = context;
        (*vcounters).handle = cmd.made(handle);
    }
    0
}

/// Destroys a set of counters.
///
/// # Safety
/// `vcounters` is live.
pub unsafe extern "C" fn ibv_cmd_destroy_counters(vcounters: *mut verbs_counters) -> c_int {
    let mut cmd = Command::<1>::new(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY);
    // SAFETY: by the contract.
    let ret = unsafe {
        cmd.object(UVERBS_ATTR_DESTROY_COUNTERS_HANDLE, (*vcounters).handle);
        cmd.execute((*vcounters).counters.context)
    };
    match destroyed(ret.into_c()) {
        Destroyed::Yes => 0,
        Destroyed::Return(ret) => ret,
    }
}

/// Reads `ncounters` counters.
///
/// # Safety
/// All pointers are live, `counters_value` has `ncounters` members; `link` is null or the provider's
/// live chain of command buffers.
pub unsafe extern "C" fn ibv_cmd_read_counters(
    vcounters: *mut verbs_counters,
    counters_value: *mut u64,
    ncounters: u32,
    flags: u32,
    link: *mut ibv_command_buffer,
) -> c_int {
    let mut cmd =
        Command::<{ 3 + LINK_ROOM }>::new(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ);
    // SAFETY: by the contract.
    unsafe {
        cmd.object(UVERBS_ATTR_READ_COUNTERS_HANDLE, (*vcounters).handle);
        let len = size_of::<u64>() * ncounters as usize;
        cmd.output_bytes(UVERBS_ATTR_READ_COUNTERS_BUFF, counters_value.cast(), len);
        cmd.u32(UVERBS_ATTR_READ_COUNTERS_FLAGS, flags);
        linked::execute((*vcounters).counters.context, &mut cmd, link).into_c()
    }
}
