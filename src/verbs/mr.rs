//! Memory regions (MR).
//!
//! The pages of a region are pinned while it is registered, and fork() must not replace them by copies
//! (ibv_fork_init(3)): registration marks them with `ibv_dontfork_range`, deregistration ends that. On-demand
//! paging regions, imported ones and those of a dma-buf have no pinned pages of the process.

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

/// Removes the optional access flags from `access` if the kernel does not support them. They are hints, so
/// registration succeeds without them.
///
/// # Safety
///
/// `context` is an open context.
#[inline]
unsafe fn supported_access(context: *mut ibv_context, access: c_uint) -> c_uint {
    // SAFETY: the context is open, as the caller promises.
    let support = unsafe { core_support(context) }.load(Ordering::Relaxed);
    if support & u64::from(IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS) != 0 {
        access
    } else {
        access & !IBV_ACCESS_OPTIONAL_RANGE
    }
}

/// Completes a registration and returns `mr`. Fills in the library's members of a new region. If `mr` is
/// NULL, ends the `ibv_dontfork_range` of the memory and writes the reason to the log; errno is preserved.
/// `pinned` has the verb's name and the memory's address, or is `None` if no pages are pinned.
///
/// # Safety
///
/// `pd` is a live protection domain; `mr` is NULL or a new region in it that no other thread knows yet.
/// `ibv_dontfork_range` succeeded for pinned memory.
#[inline]
unsafe fn registered(
    pd: *mut ibv_pd,
    mr: *mut ibv_mr,
    addr: *mut c_void,
    length: usize,
    pinned: Option<(&str, *mut c_void)>,
) -> *mut ibv_mr {
    // SAFETY: `pd` is alive and `mr` is NULL or this thread's alone, as the caller promises; the range is
    // the one of `ibv_dontfork_range`.
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

/// Registers memory at the I/O virtual address `iova`, with access flags that the kernel may ignore
/// (ibv_reg_mr(3)). verbs.h turns `ibv_reg_mr` and `ibv_reg_mr_iova` into this if the flags are not a
/// compile-time constant. `ibv_dereg_mr` frees the region. Returns NULL with errno set if it fails.
///
/// # Safety
///
/// `pd` is a live protection domain. The memory is not accessed here.
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    // SAFETY: the domain is alive, so its context is open; the provider returns NULL or a region that no
    // other thread knows yet.
    unsafe {
        let context = (*pd).context;
        let access = supported_access(context, access);
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
/// `pd` is a live protection domain.
pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the domain is alive, as the caller promises.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, addr as u64, access as c_uint) }
}

/// Registers memory at the I/O virtual address `iova` (ibv_reg_mr(3)). Returns NULL with errno set if it
/// fails.
///
/// # Safety
///
/// `pd` is a live protection domain.
pub unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the domain is alive, as the caller promises.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, iova, access as c_uint) }
}

/// Registers a part of a dma-buf (ibv_reg_mr(3)). The `addr` member of the region is the offset in the
/// dma-buf. Returns NULL with errno set if it fails.
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
    // SAFETY: the domain is alive, so its context is open; the provider returns NULL or a region that no
    // other thread knows yet.
    unsafe {
        let context = (*pd).context;
        let mr = (ops(context).reg_dmabuf_mr)(pd, offset, length, iova, fd, access);
        let addr = ptr::without_provenance_mut(offset as usize);
        registered(pd, mr, addr, length, None)
    }
}

/// A copy of the program's attributes, with zeros for the members that its mask does not name. Those are
/// not read, because programs built with older headers have a shorter struct.
///
/// # Safety
///
/// `requested` is readable up to and including the last member that its mask names.
unsafe fn named_attr(requested: *const ibv_mr_init_attr) -> ibv_mr_init_attr {
    // SAFETY: the struct of every release has these three members.
    let mut attr = unsafe {
        ibv_mr_init_attr {
            length: (*requested).length,
            access: (*requested).access,
            comp_mask: (*requested).comp_mask,
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
                // SAFETY: the mask names the member, so it is readable, as the caller promises.
                attr.$member = unsafe { (*requested).$member };
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

/// Registers memory, a part of a dma-buf, or a part of an `ibv_buf`, as the attributes say
/// (ibv_reg_mr_ex(3)). Returns NULL with errno set if it fails.
///
/// # Safety
///
/// `pd` is a live protection domain; the attributes that the mask names are readable, and their objects are
/// alive.
pub unsafe extern "C" fn ibv_reg_mr_ex(
    pd: *mut ibv_pd,
    mr_init_attr: *mut ibv_mr_init_attr,
) -> *mut ibv_mr {
    // SAFETY: the attributes that the mask names are readable, as the caller promises.
    let mut attr = unsafe { named_attr(mr_init_attr) };
    if attr.comp_mask & u64::from(IBV_REG_MR_MASK_BUF) != 0 {
        // SAFETY: the mask names the buffer, which is NULL or alive, as the caller promises.
        let resolved = match unsafe { attr.buf.as_ref() } {
            Some(buf) => buf::resolve(pd, buf, &mut attr),
            None => Err(Errno(EINVAL)),
        };
        if let Err(errno) = resolved {
            return errno.null();
        }
    }
    let by_address = attr.comp_mask & u64::from(IBV_REG_MR_MASK_FD) == 0;
    let pinned = by_address && attr.access as c_uint & ON_DEMAND == 0;
    let (addr, length) = (attr.addr, attr.length);
    // For a dma-buf, `addr` of the region is the offset, as with ibv_reg_dmabuf_mr.
    let mr_addr = if attr.comp_mask & u64::from(IBV_REG_MR_MASK_ADDR) != 0 {
        addr
    } else {
        ptr::without_provenance_mut(attr.fd_offset as usize)
    };
    // SAFETY: the domain is alive, so its context is open; the provider returns NULL or a region that no
    // other thread knows yet, and may change `attr`, which is a copy.
    unsafe {
        let context = (*pd).context;
        if pinned && ibv_dontfork_range(addr, length) != 0 {
            return ptr::null_mut();
        }
        attr.access = supported_access(context, attr.access as c_uint) as c_int;
        let mr = (ops(context).reg_mr_ex)(pd, &mut attr);
        let pinned = pinned.then_some(("ibv_reg_mr_ex", addr));
        registered(pd, mr, mr_addr, length, pinned)
    }
}

/// Whether the arguments of ibv_rereg_mr() are valid.
fn rereg_args_valid(
    mr_type: ibv_mr_type,
    flags: c_int,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> bool {
    let has = |flag: ibv_rereg_mr_flags| flags & flag as c_int != 0;
    mr_type == IBV_MR_TYPE_MR
        && flags & !(IBV_REREG_MR_FLAGS_SUPPORTED as c_int) == 0
        && (!has(IBV_REREG_MR_CHANGE_TRANSLATION) || length != 0 && !addr.is_null())
        && (access == 0 || has(IBV_REREG_MR_CHANGE_ACCESS))
}

/// Changes a region's memory, protection domain or access (ibv_rereg_mr(3)). Returns 0, or an
/// `IBV_REREG_MR_ERR_*` value with errno set; the value says whether the region is still valid.
///
/// # Safety
///
/// `mr` is a live region; with IBV_REREG_MR_CHANGE_PD, `pd` is a live protection domain of its context.
pub unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let vmr = mr.cast::<verbs_mr>();
    // SAFETY: the region is alive, and every region is the start of a `verbs_mr`.
    if !rereg_args_valid(unsafe { (*vmr).mr_type }, flags, addr, length, access) {
        Errno(EINVAL).set();
        return IBV_REREG_MR_ERR_INPUT;
    }
    let moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION as c_int != 0;
    // SAFETY: ibv_dontfork_range() accepts any range.
    if moves && unsafe { ibv_dontfork_range(addr, length) } != 0 {
        return IBV_REREG_MR_ERR_DONT_FORK_NEW;
    }
    // SAFETY: the region is alive, so its context is open; the provider requires no more.
    let (old, err) = unsafe {
        let old = ((*mr).addr, (*mr).length);
        let rereg_mr = ops((*mr).context).rereg_mr;
        (old, rereg_mr(vmr, flags, pd, addr, length, access))
    };
    if err != 0 {
        if moves {
            shortage::registration_failed("ibv_rereg_mr", length);
        }
        // SAFETY: this ends the ibv_dontfork_range() of the new memory above.
        return if moves && unsafe { ibv_dofork_range(addr, length) } != 0 {
            IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW
        } else {
            IBV_REREG_MR_ERR_CMD
        };
    }
    // SAFETY: the region is alive, and the program uses it in no other thread while it changes it; the
    // old memory had its ibv_dontfork_range() at registration.
    unsafe {
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

/// Deregisters a region (ibv_reg_mr(3)). Returns 0 or an errno value; EBUSY while a memory window is bound
/// to it.
///
/// # Safety
///
/// `mr` is a live region, and is not used again after success.
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    let vmr = mr.cast::<verbs_mr>();
    // SAFETY: the region is alive, is the start of a `verbs_mr`, and is read before its provider frees
    // it; the fork range is the one of its registration.
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
    /// Imports a region that another process registered; `ibv_unimport_mr` ends that (ibv_import_mr(3)).
    /// Returns NULL with errno set if it fails.
    ibv_import_mr(pd: *mut ibv_pd, mr_handle: u32) -> *mut ibv_mr
        => [(*pd).context] import_mr(pd, mr_handle);

    /// Frees an imported handle, but not the region itself (ibv_import_mr(3)).
    ibv_unimport_mr(mr: *mut ibv_mr) => [(*mr).context] unimport_mr(mr);
}

/// Registers a part of a buffer (ibv_alloc_buf(3)). Returns NULL with errno set if it fails.
///
/// # Safety
///
/// `pd` is a live protection domain, `buf` a live buffer of it.
pub unsafe extern "C" fn ibv_reg_buf_mr(
    pd: *mut ibv_pd,
    buf: *mut ibv_buf,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    let mut attr = ibv_mr_init_attr {
        length,
        access,
        comp_mask: (IBV_REG_MR_MASK_BUF | IBV_REG_MR_MASK_ADDR).into(),
        iova: 0,
        addr,
        fd: 0,
        fd_offset: 0,
        dmah: core::ptr::null_mut(),
        buf,
    };
    // SAFETY: the domain and the buffer are alive, as the caller promises.
    unsafe { ibv_reg_mr_ex(pd, &mut attr) }
}

#[cfg(test)]
mod tests {
    use core::ptr::without_provenance_mut as address;

    use super::*;

    #[test]
    fn rereg_rejects_invalid_arguments() {
        const MOVE: c_int = IBV_REREG_MR_CHANGE_TRANSLATION as c_int;
        const PD: c_int = IBV_REREG_MR_CHANGE_PD as c_int;
        const ACCESS: c_int = IBV_REREG_MR_CHANGE_ACCESS as c_int;
        let valid = |mr_type, flags, addr: usize, length, access| {
            rereg_args_valid(mr_type, flags, address(addr), length, access)
        };
        assert!(valid(IBV_MR_TYPE_MR, MOVE | PD | ACCESS, 4096, 1, 1));
        assert!(valid(IBV_MR_TYPE_MR, 0, 0, 0, 0));
        assert!(valid(IBV_MR_TYPE_MR, ACCESS, 0, 0, 0));
        assert!(!valid(IBV_MR_TYPE_DMABUF_MR, MOVE, 4096, 1, 0));
        assert!(!valid(IBV_MR_TYPE_MR, 8, 4096, 1, 0));
        assert!(!valid(IBV_MR_TYPE_MR, c_int::MIN, 4096, 1, 0));
        assert!(!valid(IBV_MR_TYPE_MR, MOVE, 0, 1, 0));
        assert!(!valid(IBV_MR_TYPE_MR, MOVE, 4096, 0, 0));
        assert!(!valid(IBV_MR_TYPE_MR, MOVE, 4096, 1, 1));
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
            let requested = ibv_mr_init_attr {
                comp_mask: 1 << bit,
                ..full
            };
            // SAFETY: a complete struct.
            let got = unsafe { named_attr(&requested) };
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
