//! Commands that providers build themselves: `struct ibv_command_buffer`, a list of attribute blocks
//! that the kernel must get as one array, and whose results must come back to where they stand.

use core::{mem::size_of, slice};

use ibverbs_abi::*;
use libc::{EINVAL, c_int, c_uint};

use super::{
    fallback::Needs,
    ioctl::{Command, inline_data, submit},
};

/// The `uhw_in_idx` and `uhw_out_idx` of a buffer without a UHW attribute.
const NO_INDEX: u8 = 0xff;

/// The blocks from `first` on.
///
/// # Safety
/// `first` is null or a command buffer whose `next` chain ends in null and is live while iterated.
unsafe fn chain(first: *mut ibv_command_buffer) -> impl Iterator<Item = *mut ibv_command_buffer> {
    let some = |block: *mut ibv_command_buffer| (!block.is_null()).then_some(block);
    // SAFETY: each block of the chain is live by the contract.
    core::iter::successors(some(first), move |block| unsafe { some((**block).next) })
}

/// The first attribute of a block, and their number.
///
/// # Safety
/// `block` is a live command buffer: its attributes lie between its header and `next_attr`.
unsafe fn extent(block: *mut ibv_command_buffer) -> (*mut ib_uverbs_attr, usize) {
    // SAFETY: by the contract.
    unsafe {
        let first = (&raw mut (*block).hdr.attrs).cast::<ib_uverbs_attr>();
        let bytes = ((*block).next_attr as usize).saturating_sub(first as usize);
        (first, bytes / size_of::<ib_uverbs_attr>())
    }
}

/// The number of attributes in a block of `num_attrs` and in all blocks linked behind it: what a
/// provider asks before it makes room for them (`__ioctl_final_num_attrs`).
///
/// # Safety
/// `link` is null or the provider's live chain of command buffers.
pub unsafe extern "C" fn __ioctl_final_num_attrs(
    num_attrs: c_uint,
    link: *mut ibv_command_buffer,
) -> c_uint {
    // SAFETY: by the contract.
    unsafe { chain(link).fold(num_attrs, |sum, block| sum + extent(block).1 as c_uint) }
}

/// What the provider's attributes need beyond `needs` if the ioctl is not known to the kernel.
///
/// # Safety
/// `driver` is null or the provider's live chain of command buffers.
pub unsafe fn needs(driver: *mut ibv_command_buffer, mut needs: Needs) -> Needs {
    // SAFETY: by the contract.
    unsafe {
        for block in chain(driver) {
            let (attrs, len) = extent(block);
            needs.ioctl |= slice::from_raw_parts(attrs, len).iter().any(|attr| {
                attr.flags & UVERBS_ATTR_F_MANDATORY as u16 != 0
                    && u32::from(attr.attr_id) != UVERBS_ATTR_UHW_IN
                    && u32::from(attr.attr_id) != UVERBS_ATTR_UHW_OUT
            });
            needs.ex |= (*block).flags & CMDB_FALLBACK_REQUIRE_EX != 0;
            needs.ioctl |= (*block).flags & CMDB_FALLBACK_IOCTL_ONLY != 0;
        }
    }
    needs
}

/// Sends `command` with the provider's attributes behind its own, and copies theirs back.
///
/// # Safety
/// `context` is open; `driver` is null or the provider's live chain of command buffers; what the
/// attributes point to is live and writable as they say.
pub unsafe fn execute<const N: usize>(
    context: *mut ibv_context,
    command: &mut Command<N>,
    driver: *mut ibv_command_buffer,
) -> Result<(), Errno> {
    let own = command.attrs().len();
    // SAFETY: by the contract each block's attributes are live, and nobody else uses them meanwhile.
    unsafe {
        for block in chain(driver) {
            let (attrs, len) = extent(block);
            if !command.append(slice::from_raw_parts(attrs, len)) {
                Errno(EINVAL).set();
                return Err(Errno(EINVAL));
            }
        }
        command.execute(context)?;
        copy_back(&command.attrs()[own..], driver);
    }
    Ok(())
}

/// Puts the attributes that stood in the chain back where they were, with what the kernel made of
/// them.
///
/// # Safety
/// `results` are at least as many as the chain's attributes, in its order; the chain is live.
unsafe fn copy_back(mut results: &[ib_uverbs_attr], driver: *mut ibv_command_buffer) {
    // SAFETY: by the contract.
    for block in unsafe { chain(driver) } {
        // SAFETY: likewise; the provider does not touch its buffers while its command is executed.
        let to = unsafe {
            let (attrs, len) = extent(block);
            slice::from_raw_parts_mut(attrs, len)
        };
        let Some((mine, rest)) = results.split_at_checked(to.len()) else {
            return;
        };
        to.copy_from_slice(mine);
        results = rest;
    }
}

/// Sends a command that a provider has built, with all blocks linked behind it. Returns 0, or errno,
/// which is also set.
///
/// # Safety
/// `context` is open; `cmd` is a live command buffer made by the provider's DECLARE_COMMAND_BUFFER
/// family: it has room for the attributes of all linked blocks up to its `last_attr`.
pub unsafe extern "C" fn execute_ioctl(
    context: *mut ibv_context,
    cmd: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: by the contract; what does not fit into the provider's room is refused.
    unsafe {
        if (*cmd).flags & CMDB_BUFFER_ERROR != 0 {
            Errno(EINVAL).set();
            return EINVAL;
        }
        let (attrs, own) = extent(cmd);
        let room = ((*cmd).last_attr as usize).saturating_sub(attrs as usize)
            / size_of::<ib_uverbs_attr>();
        let mut len = own;
        for block in chain((*cmd).next) {
            let (from, count) = extent(block);
            if count > room.saturating_sub(len) {
                Errno(EINVAL).set();
                return EINVAL;
            }
            if (*block).uhw_in_idx != NO_INDEX {
                (*cmd).uhw_in_idx = (*block).uhw_in_idx.saturating_add(len as u8);
            }
            attrs.add(len).copy_from_nonoverlapping(from, count);
            len += count;
        }
        // A UHW input is kept as a pointer until now, for the legacy path's sake.
        let uhw = usize::from((*cmd).uhw_in_idx);
        if (*cmd).uhw_in_idx != NO_INDEX && uhw < len {
            let uhw = &mut *attrs.add(uhw);
            if usize::from(uhw.len) <= size_of::<u64>() {
                uhw.data = inline_data(uhw.data as *const u8, uhw.len.into());
            }
        }
        if let Err(error) = submit(context, &raw mut (*cmd).hdr, len) {
            return error.0;
        }
        copy_back(
            slice::from_raw_parts(attrs.add(own), len - own),
            (*cmd).next,
        );
    }
    0
}
