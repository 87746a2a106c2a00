//! Memory regions.
//!
//! A region that the device reaches by DMA is kept from being copied on fork for as long as it
//! lives; one that is paged on demand, imported, or of a dma-buf needs no such care.

use core::ptr;
use core::sync::atomic::Ordering;

use libc::{EINVAL, c_int, c_uint, c_void};

use super::buf;
use super::dispatch::dispatch;
use crate::abi::*;
use crate::memory::{ibv_dofork_range, ibv_dontfork_range, shortage};
use crate::provider::ops::ops;
use crate::uverbs::cmd::device::core_support;

const ON_DEMAND: c_uint = IBV_ACCESS_ON_DEMAND;

/// Leaves out the access flags that a kernel may not know, if this one does not: they are hints.
///
/// # Safety
///
/// `context` is an open context.
#[inline]
unsafe fn known_access(context: *mut ibv_context, access: c_uint) -> c_uint {
    // SAFETY: an open context.
    let support = unsafe { core_support(context) }.load(Ordering::Relaxed);
    if support & u64::from(IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS) != 0 {
        access
    } else {
        access & !IBV_ACCESS_OPTIONAL_RANGE
    }
}

/// A region as its provider returned it, with what the library fills in. Or NULL: then the memory that
/// was `pinned` for the verb is given back to children, and the log says why. errno stays as it is.
///
/// # Safety
///
/// `mr` is NULL or a region of a provider of `pd`'s, which lives, that nobody else knows yet; the pinned
/// memory had its `ibv_dontfork_range`.
#[inline]
unsafe fn registered(
    pd: *mut ibv_pd,
    mr: *mut ibv_mr,
    addr: *mut c_void,
    length: usize,
    pinned: Option<(&str, *mut c_void)>,
) -> *mut ibv_mr {
    // SAFETY: as this function's own promise.
    unsafe {
        if !mr.is_null() {
            (*mr).context = (*pd).context;
            (*mr).pd = pd;
            (*mr).addr = addr;
            (*mr).length = length;
        } else if let Some((verb, addr)) = pinned {
            shortage::registration_failed(verb, length);
            ibv_dofork_range(addr, length);
        }
    }
    mr
}

/// Registers memory at an address the program chooses for the device to see, with flags that the
/// kernel may ignore; verbs.h turns `ibv_reg_mr` and `ibv_reg_mr_iova` into this one when it cannot
/// tell the flags at compile time (ibv_reg_mr(3)). Returns NULL with errno set if it fails.
///
/// # Safety
///
/// `pd` is a live protection domain. The memory is the program's business.
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    // SAFETY: the domain lives, so its context does, with its device and its table; the fork range
    // is the region's; the provider returns NULL or a region that nobody else knows yet.
    unsafe {
        let context = (*pd).context;
        let access = known_access(context, access);
        let pinned = access & ON_DEMAND == 0;
        if pinned && ibv_dontfork_range(addr, length) != 0 {
            return ptr::null_mut();
        }
        let mr = (ops(context).reg_mr)(pd, addr, length, iova, access as c_int);
        let pinned = pinned.then_some(("ibv_reg_mr", addr));
        registered(pd, mr, addr, length, pinned)
    }
}

/// Registers memory (ibv_reg_mr(3)). Returns NULL with errno set if it fails.
///
/// # Safety
///
/// As [`ibv_reg_mr_iova2`].
pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the caller's promise is the same.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, addr as u64, access as c_uint) }
}

/// Registers memory at an address the program chooses for the device to see (ibv_reg_mr(3)). Returns
/// NULL with errno set if it fails.
///
/// # Safety
///
/// As [`ibv_reg_mr_iova2`].
pub unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the caller's promise is the same.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, iova, access as c_uint) }
}

/// Registers a part of a dma-buf (ibv_reg_mr(3)); the region's address is the offset in it. Returns
/// NULL with errno set if it fails.
///
/// # Safety
///
/// `pd` is a live protection domain.
pub unsafe extern "C" fn ibv_reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the domain lives, so its context does; the provider returns NULL or a region that
    // nobody else knows yet.
    unsafe {
        let context = (*pd).context;
        let mr = (ops(context).reg_dmabuf_mr)(pd, offset, length, iova, fd, access);
        let shown = ptr::without_provenance_mut(offset as usize);
        registered(pd, mr, shown, length, None)
    }
}

/// What a program asks for: the attributes that its mask names, and zeros, for a program built
/// against older headers has a shorter struct.
///
/// # Safety
///
/// `asked` has the members that its mask names.
unsafe fn asked_for(asked: *const ibv_mr_init_attr) -> ibv_mr_init_attr {
    // SAFETY: three members that every struct has.
    let mut attr = unsafe {
        ibv_mr_init_attr {
            length: (*asked).length,
            access: (*asked).access,
            comp_mask: (*asked).comp_mask,
            iova: 0,
            addr: ptr::null_mut(),
            fd: 0,
            fd_offset: 0,
            dmah: ptr::null_mut(),
            buf: ptr::null_mut(),
        }
    };
    macro_rules! take {
        ($($bit:ident $member:ident)*) => {$(
            if attr.comp_mask & u64::from($bit) != 0 {
                // SAFETY: the mask says that the member is there.
                attr.$member = unsafe { (*asked).$member };
            }
        )*};
    }
    take! {
        IBV_REG_MR_MASK_IOVA iova
        IBV_REG_MR_MASK_ADDR addr
        IBV_REG_MR_MASK_FD fd
        IBV_REG_MR_MASK_FD_OFFSET fd_offset
        IBV_REG_MR_MASK_DMAH dmah
        IBV_REG_MR_MASK_BUF buf
    }
    attr
}

/// Registers memory, a part of a dma-buf or of an `ibv_buf`, as the attributes say (ibv_reg_mr(3)).
/// Returns NULL with errno set if it fails.
///
/// # Safety
///
/// `pd` is a live protection domain; the attributes are readable and their objects live.
pub unsafe extern "C" fn ibv_reg_mr_ex(
    pd: *mut ibv_pd,
    mr_init_attr: *mut ibv_mr_init_attr,
) -> *mut ibv_mr {
    // SAFETY: the attributes are readable as far as their mask says.
    let mut attr = unsafe { asked_for(mr_init_attr) };
    if attr.comp_mask & u64::from(IBV_REG_MR_MASK_BUF) != 0 {
        // SAFETY: the mask says that this is a buffer, by the caller's promise a live one.
        let resolved = match unsafe { attr.buf.as_ref() } {
            Some(of) => buf::resolve(pd, of, &mut attr),
            None => Err(Errno(EINVAL)),
        };
        if let Err(errno) = resolved {
            return errno.null();
        }
    }
    let by_address = attr.comp_mask & u64::from(IBV_REG_MR_MASK_FD) == 0;
    let pinned = by_address && attr.access as c_uint & ON_DEMAND == 0;
    let (addr, length) = (attr.addr, attr.length);
    // The region's address of a dma-buf is the offset in it, as ibv_reg_dmabuf_mr has it.
    let shown = if attr.comp_mask & u64::from(IBV_REG_MR_MASK_ADDR) != 0 {
        addr
    } else {
        ptr::without_provenance_mut(attr.fd_offset as usize)
    };
    // SAFETY: as in `ibv_reg_mr_iova2`; the provider may change this function's own attributes.
    unsafe {
        let context = (*pd).context;
        if pinned && ibv_dontfork_range(addr, length) != 0 {
            return ptr::null_mut();
        }
        attr.access = known_access(context, attr.access as c_uint) as c_int;
        let mr = (ops(context).reg_mr_ex)(pd, &mut attr);
        let pinned = pinned.then_some(("ibv_reg_mr_ex", addr));
        registered(pd, mr, shown, length, pinned)
    }
}

/// Says why a program's call cannot be right, before anything is done.
fn rereg_is_sound(
    mr_type: ibv_mr_type,
    flags: c_int,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> bool {
    let asks = |flag: ibv_rereg_mr_flags| flags & flag as c_int != 0;
    mr_type == IBV_MR_TYPE_MR
        && flags & !(IBV_REREG_MR_FLAGS_SUPPORTED as c_int) == 0
        && (!asks(IBV_REREG_MR_CHANGE_TRANSLATION) || length != 0 && !addr.is_null())
        && (access == 0 || asks(IBV_REREG_MR_CHANGE_ACCESS))
}

/// Changes a region's memory, domain or access (ibv_rereg_mr(3)). Returns 0 or an
/// `IBV_REREG_MR_ERR_*` value, which says whether the region is still good, with errno set.
///
/// # Safety
///
/// `mr` is a live region; `pd` is a live domain of its context if the flags ask for it.
pub unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let vmr = mr.cast::<verbs_mr>();
    // SAFETY: every region of this library begins a `verbs_mr`.
    if !rereg_is_sound(unsafe { (*vmr).mr_type }, flags, addr, length, access) {
        Errno(EINVAL).set();
        return IBV_REREG_MR_ERR_INPUT;
    }
    let moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION as c_int != 0;
    // SAFETY: the region lives, so its context does; both fork ranges are what was or is to be
    // registered.
    unsafe {
        if moves && ibv_dontfork_range(addr, length) != 0 {
            return IBV_REREG_MR_ERR_DONT_FORK_NEW;
        }
        let old = ((*mr).addr, (*mr).length);
        if (ops((*mr).context).rereg_mr)(vmr, flags, pd, addr, length, access) != 0 {
            if moves {
                shortage::registration_failed("ibv_rereg_mr", length);
            }
            return if moves && ibv_dofork_range(addr, length) != 0 {
                IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW
            } else {
                IBV_REREG_MR_ERR_CMD
            };
        }
        if flags & IBV_REREG_MR_CHANGE_PD as c_int != 0 {
            (*mr).pd = pd;
        }
        if moves {
            (*mr).addr = addr;
            (*mr).length = length;
            if ibv_dofork_range(old.0, old.1) != 0 {
                return IBV_REREG_MR_ERR_DO_FORK_OLD;
            }
        }
    }
    0
}

/// Frees a region (ibv_reg_mr(3)). Returns 0 or an errno value; EBUSY while a window is bound to it.
///
/// # Safety
///
/// `mr` is a live region, dead after success.
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    let vmr = mr.cast::<verbs_mr>();
    // SAFETY: the region lives until its provider frees it, begins a `verbs_mr`, and is read before;
    // the fork range is the one of its registration.
    unsafe {
        let (addr, length) = ((*mr).addr, (*mr).length);
        let pinned = (*vmr).mr_type == IBV_MR_TYPE_MR && (*vmr).access as c_uint & ON_DEMAND == 0;
        let err = (ops((*mr).context).dereg_mr)(vmr);
        if err == 0 && pinned {
            ibv_dofork_range(addr, length);
        }
        err
    }
}

dispatch! {
    /// Makes a region of another process's usable here (ibv_import_mr(3)). Returns NULL with errno
    /// set if it fails.
    ibv_import_mr(pd: *mut ibv_pd, mr_handle: u32) -> *mut ibv_mr
        => [(*pd).context] import_mr(pd, mr_handle);

    /// Undoes `ibv_import_mr`; the region itself stays (ibv_import_mr(3)).
    ibv_unimport_mr(mr: *mut ibv_mr) => [(*mr).context] unimport_mr(mr);
}

#[cfg(test)]
mod tests {
    use core::ptr::without_provenance_mut as address;

    use super::*;

    #[test]
    fn rereg_refuses_what_cannot_be() {
        const MOVE: c_int = IBV_REREG_MR_CHANGE_TRANSLATION as c_int;
        const PD: c_int = IBV_REREG_MR_CHANGE_PD as c_int;
        const ACCESS: c_int = IBV_REREG_MR_CHANGE_ACCESS as c_int;
        let sound = |mr_type, flags, addr: usize, length, access| {
            rereg_is_sound(mr_type, flags, address(addr), length, access)
        };
        assert!(sound(IBV_MR_TYPE_MR, MOVE | PD | ACCESS, 4096, 1, 1));
        assert!(sound(IBV_MR_TYPE_MR, 0, 0, 0, 0));
        assert!(sound(IBV_MR_TYPE_MR, ACCESS, 0, 0, 0));
        assert!(!sound(IBV_MR_TYPE_DMABUF_MR, MOVE, 4096, 1, 0));
        assert!(!sound(IBV_MR_TYPE_MR, 8, 4096, 1, 0));
        assert!(!sound(IBV_MR_TYPE_MR, c_int::MIN, 4096, 1, 0));
        assert!(!sound(IBV_MR_TYPE_MR, MOVE, 0, 1, 0));
        assert!(!sound(IBV_MR_TYPE_MR, MOVE, 4096, 0, 0));
        assert!(!sound(IBV_MR_TYPE_MR, MOVE, 4096, 1, 1));
    }

    #[test]
    fn only_named_attributes_are_read() {
        let full = ibv_mr_init_attr {
            length: 1,
            access: 2,
            comp_mask: 0,
            iova: 3,
            addr: address(4),
            fd: 5,
            fd_offset: 6,
            dmah: address(7),
            buf: address(8),
        };
        for bit in 0..6 {
            let asked = ibv_mr_init_attr {
                comp_mask: 1 << bit,
                ..full
            };
            // SAFETY: a whole struct.
            let got = unsafe { asked_for(&asked) };
            let values = [
                got.iova,
                got.addr as u64,
                got.fd as u64,
                got.fd_offset,
                got.dmah as u64,
                got.buf as u64,
            ];
            for (i, value) in values.into_iter().enumerate() {
                assert_eq!(value, if i == bit { i as u64 + 3 } else { 0 });
            }
            assert_eq!((got.length, got.access), (1, 2));
        }
    }
}
