//! Conversions of work requests that several verbs share: scatter/gather lists, inline data, flags, lists of
//! receives.

use ibverbs_abi::*;
use libc::{EINVAL, ENOMEM};

use super::ffi::Result;
use roce::engine::{Inline, RecvWr, SendFlags, Sge, Sges};

/// Converts a scatter/gather list. ENOMEM if there is no memory.
///
/// # Safety
/// `list` has `count` readable elements.
pub unsafe fn sges(list: *const ibv_sge, count: usize) -> Result<Sges> {
    // SAFETY: the caller's list has `count` elements, and `i` is less than that.
    let sge = |i| unsafe { sge(list.add(i)) };
    if count == 1 {
        return Ok(Sges::from_slice(&[sge(0)]));
    }
    let mut sges = Sges::new();
    if count > sges.inline_size() {
        sges.try_reserve_exact(count).map_err(|_| Errno(ENOMEM))?;
    }
    sges.extend((0..count).map(sge));
    Ok(sges)
}

/// Converts an element of a scatter/gather list.
///
/// # Safety
/// `from` is readable.
pub unsafe fn sge(from: *const ibv_sge) -> Sge {
    // SAFETY: the caller says that it is readable.
    let from = unsafe { &*from };
    Sge {
        addr: from.addr,
        len: from.length,
        lkey: from.lkey,
    }
}

/// Appends memory of the program to inline data. ENOMEM if there is no memory.
///
/// # Safety
/// `len` bytes at `addr` are readable.
pub unsafe fn append_inline(inline: &mut Inline, addr: *const u8, len: usize) -> Result<()> {
    if len > 0 {
        inline.try_reserve(len).map_err(|_| Errno(ENOMEM))?;
        // SAFETY: the caller passes `len` readable bytes; they are the program's and so not in `inline`.
        inline.extend_from_slice(unsafe { core::slice::from_raw_parts(addr, len) });
    }
    Ok(())
}

/// The engine's flags for `IBV_SEND_*`.
pub fn send_flags(send_flags: u32) -> SendFlags {
    SendFlags {
        signaled: send_flags & IBV_SEND_SIGNALED != 0,
        solicited: send_flags & IBV_SEND_SOLICITED != 0,
        fence: send_flags & IBV_SEND_FENCE != 0,
    }
}

/// Calls `call` with each receive of a list until one fails, and sets `bad_wr` to that one.
///
/// # Safety
/// `wr` is a list of readable elements that ends with NULL, and `bad_wr` is writable.
pub unsafe fn for_each_recv(
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
    max_sge: usize,
    mut post: impl FnMut(RecvWr) -> Result<()>,
) -> Result<()> {
    let mut next = wr;
    // SAFETY: the caller's list has readable elements and ends with NULL.
    while let Some(wr) = unsafe { next.as_ref() } {
        let posted = match usize::try_from(wr.num_sge) {
            // SAFETY: the element's list has `num_sge` elements.
            Ok(count) if count <= max_sge => unsafe { sges(wr.sg_list, count) }.and_then(|sges| {
                let wr_id = wr.wr_id;
                post(RecvWr { wr_id, sges })
            }),
            _ => Err(Errno(EINVAL)),
        };
        if posted.is_err() {
            // SAFETY: the caller passes a writable `bad_wr`.
            unsafe { *bad_wr = next };
            return posted;
        }
        next = wr.next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tests::out_of_memory::without_memory;

    /// Short lists need no memory; long ones are refused without.
    #[test]
    fn lists_without_memory_are_refused() {
        let list = [ibv_sge {
            addr: 0,
            length: 1,
            lkey: 0,
        }; 32];
        let bytes = [7; 200];
        for (count, len, refused) in [(4, 64, false), (5, 65, true), (32, 200, true)] {
            // SAFETY: the list has at least `count` elements, and `bytes` at least `len`.
            without_memory(|| unsafe {
                assert_eq!(sges(list.as_ptr(), count).is_err(), refused);
                let mut inline = Inline::default();
                assert_eq!(
                    append_inline(&mut inline, bytes.as_ptr(), len).is_err(),
                    refused
                );
            });
        }
    }
}
