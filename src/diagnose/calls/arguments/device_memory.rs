//! The arguments of calls about device memory that have failed.

use core::ffi::c_uint;

use ibverbs_abi::*;

use super::{Argument, Kind, bits, facts, number, object, reason, with};

/// The arguments of an ibv_alloc_dm that has failed. None on a device that has no such memory: programs ask
/// for it to find that out.
///
/// # Safety
/// See the module above.
pub unsafe fn alloc_dm(context: *mut ibv_context, attr: *const ibv_alloc_dm_attr) -> Vec<Argument> {
    let no_memory = Errno::last().0 == libc::ENOMEM;
    // SAFETY: see the module above.
    let (device, attr) = unsafe { (facts::device_ex(context), *attr) };
    let max = device.map_or(0, |device| device.max_dm_size);
    if max == 0 {
        return Vec::new();
    }
    let allocated = with(|shadow| shadow.device_memories.allocated(context as usize));
    let allocated = allocated.unwrap_or_default();
    let (length, log) = (attr.length, attr.log_align_req);
    vec![
        bits("attr.comp_mask", attr.comp_mask.into(), 0),
        number(
            "attr.length",
            length,
            1,
            max,
            "the device has max_dm_size bytes of such memory (ibv_query_device_ex)",
        ),
        reason(
            no_memory,
            format!(
                "{length} bytes are asked for; this context has allocated {allocated} of the \
                 device's {max} bytes before"
            ),
            "device memory is small, each allocation takes whole pages, and all programs share it",
            "free device memory with ibv_free_dm, or allocate less",
        ),
        reason(
            log > 6,
            format!(
                "attr.log_align_req is {log}, which asks for an alignment of 2^{log} bytes, and no other \
                 argument is wrong that is known here"
            ),
            "it is the logarithm of the alignment, not a number of bytes, and devices have a limit for it, \
             a page as a rule",
            "set it to 6 for an alignment of 64 bytes, or to 0",
        ),
    ]
}

/// The arguments of an ibv_reg_dm_mr that has failed, but its range.
pub fn reg_dm_mr(pd: *mut ibv_pd, dm: *mut ibv_dm, access: c_uint) -> Vec<Argument> {
    vec![
        object("pd", Kind::Pd, pd as usize),
        object("dm", Kind::Dm, dm as usize),
        reason(
            access & IBV_ACCESS_ZERO_BASED == 0,
            "access lacks IBV_ACCESS_ZERO_BASED",
            "device memory has no address in the program: requests name offsets in the region instead",
            "add IBV_ACCESS_ZERO_BASED, and use offsets from 0 as addresses in requests",
        ),
    ]
}
