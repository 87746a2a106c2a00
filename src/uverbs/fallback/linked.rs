//! Attributes of a provider's own: `struct ibv_command_buffer` (rdma-core's cmd_ioctl.h), a chain of blocks.
//!
//! The kernel takes the attributes of all blocks as one array, so they are copied behind the first block's,
//! and the kernel's results are copied back to the blocks.

use core::{mem::size_of, slice};

use ibverbs_abi::*;
use libc::{EINVAL, c_int, c_uint};

use super::super::ioctl::{Command, inline_data, submit};
use super::Needs;

/// The `uhw_in_idx` and `uhw_out_idx` of a buffer without a UHW attribute.
const NO_INDEX: u8 = 0xff;

/// The blocks from `first` on.
///
/// # Safety
/// `first` is null or a command buffer whose `next` chain ends in null and is live while iterated.
unsafe fn chain(first: *mut ibv_command_buffer) -> impl Iterator<Item = *mut ibv_command_buffer> {
    let some = |block: *mut ibv_command_buffer| (!block.is_null()).then_some(block);
    // SAFETY: the caller keeps each block of the chain live.
    core::iter::successors(some(first), move |block| unsafe { some((**block).next) })
}

/// The first attribute of a block, and their number.
///
/// # Safety
/// `block` is a live command buffer: its attributes lie between its header and `next_attr`.
unsafe fn extent(block: *mut ibv_command_buffer) -> (*mut ib_uverbs_attr, usize) {
    // SAFETY: `block` is live.
    unsafe {
        let first = (&raw mut (*block).hdr.attrs).cast::<ib_uverbs_attr>();
        let bytes = ((*block).next_attr as usize).saturating_sub(first as usize);
        (first, bytes / size_of::<ib_uverbs_attr>())
    }
}

/// The attributes of a block.
///
/// # Safety
/// `block` is a live command buffer, and nobody else uses it as long as the slice.
unsafe fn attributes<'a>(block: *mut ibv_command_buffer) -> &'a mut [ib_uverbs_attr] {
    // SAFETY: the provider has written the attributes up to `next_attr`.
    unsafe {
        let (first, len) = extent(block);
        slice::from_raw_parts_mut(first, len)
    }
}

/// The number of attributes in a block of `num_attrs` and in all blocks of `link`. Providers size their
/// buffers with it (`__ioctl_final_num_attrs`).
///
/// # Safety
/// `link` is null or the provider's live chain of command buffers.
pub unsafe extern "C" fn __ioctl_final_num_attrs(
    num_attrs: c_uint,
    link: *mut ibv_command_buffer,
) -> c_uint {
    // SAFETY: the chain is live.
    unsafe { chain(link).fold(num_attrs, |sum, block| sum + extent(block).1 as c_uint) }
}

/// `needs`, and what the provider's attributes need besides.
///
/// # Safety
/// `driver` is null or the provider's live chain of command buffers.
pub unsafe fn needs(driver: *mut ibv_command_buffer, mut needs: Needs) -> Needs {
    // SAFETY: the chain is live.
    for block in unsafe { chain(driver) } {
        // SAFETY: the block is live, and its provider does not use it during the command.
        let (flags, attrs) = unsafe { ((*block).flags, attributes(block)) };
        needs.ioctl |= attrs.iter().any(|attr| {
            attr.flags & UVERBS_ATTR_F_MANDATORY as u16 != 0
                && u32::from(attr.attr_id) != UVERBS_ATTR_UHW_IN
                && u32::from(attr.attr_id) != UVERBS_ATTR_UHW_OUT
        });
        needs.ex |= flags & CMDB_FALLBACK_REQUIRE_EX != 0;
        needs.ioctl |= flags & CMDB_FALLBACK_IOCTL_ONLY != 0;
    }
    needs
}

/// Sends `command` with the provider's attributes behind its own, and copies the results of those back.
/// EINVAL if there are more than `command` has room for.
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
    // SAFETY: the chain is live.
    for block in unsafe { chain(driver) } {
        // SAFETY: the block is live, and its provider does not use it during the command.
        command.append(unsafe { attributes(block) })?;
    }
    // SAFETY: `context` is open, and the attributes are valid; the results are in the chain's order.
    unsafe {
        command.execute(context)?;
        copy_back(&command.attrs()[own..], driver);
    }
    Ok(())
}

/// Copies the executed attributes back to the blocks that they came from.
///
/// # Safety
/// `results` are the chain's attributes in its order, outside of it; the chain is live.
unsafe fn copy_back(mut results: &[ib_uverbs_attr], driver: *mut ibv_command_buffer) {
    // SAFETY: the chain is live.
    for block in unsafe { chain(driver) } {
        // SAFETY: the block is live, and its provider does not use it during the command.
        let to = unsafe { attributes(block) };
        let Some((executed, rest)) = results.split_at_checked(to.len()) else {
            return;
        };
        to.copy_from_slice(executed);
        results = rest;
    }
}

/// Copies the attributes of all blocks linked behind `cmd` behind its own, and returns the number of all.
/// EINVAL if the provider's buffer is too small for them.
///
/// # Safety
/// `cmd` is a live command buffer with room for attributes up to its `last_attr`; its chain is live.
unsafe fn gather(cmd: *mut ibv_command_buffer) -> Result<usize, Errno> {
    // SAFETY: `cmd` and its chain are live, and no attribute is written behind `last_attr`.
    unsafe {
        let (attrs, mut len) = extent(cmd);
        let room = ((*cmd).last_attr as usize).saturating_sub(attrs as usize)
            / size_of::<ib_uverbs_attr>();
        for block in chain((*cmd).next) {
            let (from, count) = extent(block);
            if count > room.saturating_sub(len) {
                return Errno(EINVAL).fail();
            }
            if (*block).uhw_in_idx != NO_INDEX {
                (*cmd).uhw_in_idx = (*block).uhw_in_idx.saturating_add(len as u8);
            }
            attrs.add(len).copy_from_nonoverlapping(from, count);
            len += count;
        }
        Ok(len)
    }
}

/// Replaces the pointer in a short UHW input by the bytes that it points to, as the ioctl wants them. The
/// legacy path needs the pointer, so providers leave it there.
///
/// # Safety
/// `cmd` is a live command buffer with `len` attributes, whose UHW input, if any, is readable.
unsafe fn inline_uhw(cmd: *mut ibv_command_buffer, len: usize) {
    // SAFETY: `cmd` is live, the index is checked, and the UHW input is readable for its length.
    unsafe {
        let index = (*cmd).uhw_in_idx;
        if index == NO_INDEX || usize::from(index) >= len {
            return;
        }
        let uhw = &mut *extent(cmd).0.add(index.into());
        if usize::from(uhw.len) <= size_of::<u64>() {
            uhw.data = inline_data(uhw.data as *const u8, uhw.len.into());
        }
    }
}

/// Sends a command that a provider has built, with all blocks linked behind it. Returns 0, or a positive
/// errno value that is also in errno.
///
/// # Safety
/// `context` is open; `cmd` is a live command buffer made by the provider's DECLARE_COMMAND_BUFFER
/// family: it has room for the attributes of all linked blocks up to its `last_attr`.
pub unsafe extern "C" fn execute_ioctl(
    context: *mut ibv_context,
    cmd: *mut ibv_command_buffer,
) -> c_int {
    let execute = || {
        // SAFETY: `context` is open, `cmd` and its chain are live, `own` of its `len` attributes are its
        // own.
        unsafe {
            if (*cmd).flags & CMDB_BUFFER_ERROR != 0 {
                return Errno(EINVAL).fail();
            }
            let (attrs, own) = extent(cmd);
            let len = gather(cmd)?;
            inline_uhw(cmd, len);
            submit(context, &raw mut (*cmd).hdr, len)?;
            let results = slice::from_raw_parts(attrs.add(own), len - own);
            copy_back(results, (*cmd).next);
        }
        Ok(())
    };
    execute().into_c()
}
