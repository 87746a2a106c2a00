//! Protection domains, thread domains, and domains upon both.

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP};

use super::context::part;
use super::object::{Answer, Object, Plain, Users};
use crate::memory::PdHandle;

/// Behind a protection domain.
pub struct PdPart {
    pub domain: PdHandle,
    pub users: Users,
    /// Of a parent domain: what it stands upon.
    upon: Option<(*mut ibv_pd, *mut ibv_td)>,
}

/// A protection domain, or a parent domain.
pub type Pd = Object<ibv_pd, PdPart>;
/// A thread domain. Nothing is gained from its promise: locks that nobody else takes are cheap.
pub type Td = Object<ibv_td, Users>;

/// # Safety
/// The op's contract: the context is open.
pub unsafe fn alloc_pd(context: *mut ibv_context) -> Answer<*mut ibv_pd> {
    // SAFETY: by the contract.
    let device = unsafe { part(context) }.check()?;
    let number = device.next_number();
    let mut base = ibv_pd::zeroed();
    (base.context, base.handle) = (context, number);
    Ok(Pd::make(
        base,
        PdPart {
            domain: PdHandle(number),
            users: Users::default(),
            upon: None,
        },
    ))
}

/// # Safety
/// The op's contract: the domain is live, dead after success.
pub unsafe fn dealloc_pd(pd: *mut ibv_pd) -> Answer<()> {
    // SAFETY: by the contract; a parent domain keeps what it stands upon alive by its use.
    unsafe {
        let part = Pd::of(pd);
        part.users.check_none()?;
        if let Some((upon, td)) = part.upon {
            Pd::of(upon).users.remove();
            if !td.is_null() {
                Td::of(td).remove();
            }
        }
        Pd::free(pd);
    }
    Ok(())
}

/// # Safety
/// The op's contract: the context is open, the attributes are readable.
pub unsafe fn alloc_td(
    context: *mut ibv_context,
    attr: *mut ibv_td_init_attr,
) -> Answer<*mut ibv_td> {
    // SAFETY: by the contract.
    unsafe {
        part(context).check()?;
        if (*attr).comp_mask != 0 {
            return Err(EOPNOTSUPP);
        }
    }
    Ok(Td::make(ibv_td { context }, Users::default()))
}

/// # Safety
/// The op's contract: the domain is live, dead after success.
pub unsafe fn dealloc_td(td: *mut ibv_td) -> Answer<()> {
    // SAFETY: by the contract.
    unsafe {
        Td::of(td).check_none()?;
        Td::free(td);
    }
    Ok(())
}

/// Upon `attr.pd`; its allocators are never called, for all memory is the library's own.
///
/// # Safety
/// The op's contract: the context is open, the attributes are readable and their objects live.
pub unsafe fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> Answer<*mut ibv_pd> {
    const KNOWN: u32 =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    // SAFETY: by the contract.
    unsafe {
        let device = part(context).check()?;
        let attr = &*attr;
        if attr.comp_mask & !KNOWN != 0 {
            return Err(EOPNOTSUPP);
        }
        if attr.pd.is_null() {
            return Err(EINVAL);
        }
        let upon = Pd::of(attr.pd);
        upon.users.add();
        if !attr.td.is_null() {
            Td::of(attr.td).add();
        }
        let mut base = ibv_pd::zeroed();
        (base.context, base.handle) = (context, device.next_number());
        Ok(Pd::make(
            base,
            PdPart {
                domain: upon.domain,
                users: Users::default(),
                upon: Some((attr.pd, attr.td)),
            },
        ))
    }
}
