//! Protection domains, thread domains and parent domains as verbs.

use std::sync::Arc;

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP};

use super::context::private;
use super::ffi::Result;
use super::handle::{self, HasHandle};
use super::object::{Object, RefCount, Room, Zeroable};
use crate::device::Device;
use crate::device::handles::{self, ObjectKind};
use crate::memory::PdHandle;

/// The private part of a protection domain.
pub struct PdPrivate {
    /// The domain that keys are checked against. A parent domain has that of its protection domain.
    pub handle: PdHandle,
    /// Objects that were created in the domain.
    pub refs: RefCount,
    /// The domains that a parent domain was created from; for an imported domain, the domain.
    parents: Option<Parents>,
}

struct Parents {
    pd: *mut ibv_pd,
    /// May be NULL.
    td: *mut ibv_td,
}

impl PdPrivate {
    /// The domain ends, which has kept its parents live.
    ///
    /// # Safety
    /// They are live.
    pub unsafe fn release_parents(&self) {
        let Some(parents) = &self.parents else {
            return;
        };
        // SAFETY: the parents are live, as the caller says; the thread domain may be NULL.
        unsafe {
            Pd::of(parents.pd).refs.release();
            if !parents.td.is_null() {
                Td::of(parents.td).refs.release();
            }
        }
    }
}

/// A protection domain or parent domain.
pub type Pd = Object<ibv_pd, PdPrivate>;
/// The private part of a thread domain.
pub struct TdPrivate {
    /// Parent domains that were created from it.
    refs: RefCount,
    /// The domain's number in the table of objects; the public structure has no room for it.
    handle: u32,
}

/// A thread domain, whose objects one thread at a time uses. uroce locks them nevertheless: locks without
/// contention are cheap.
pub type Td = Object<ibv_td, TdPrivate>;

impl HasHandle for Td {
    const KINDS: &'static [ObjectKind] = &[ObjectKind::Td];

    fn handle(&self) -> u32 {
        self.handle
    }

    fn context(&self) -> *mut ibv_context {
        // SAFETY: a reference to the object exists, so its public structure is readable.
        unsafe { (*self.public()).context }
    }
}

/// # Safety
/// `context` is open.
pub unsafe fn alloc_pd(context: *mut ibv_context) -> Result<*mut ibv_pd> {
    // SAFETY: the caller passes an open context.
    let device = unsafe { private(context) }.check()?;
    let reserved = handle::reserve(device, ObjectKind::Pd)?;
    let number = PdHandle(device.alloc_handle());
    let pd = new_pd(Pd::room()?, context, reserved.handle(), number, None);
    handle::publish(reserved, ObjectKind::Pd, pd, context);
    Ok(pd)
}

fn new_pd(
    room: Room<ibv_pd, PdPrivate>,
    context: *mut ibv_context,
    public_handle: u32,
    handle: PdHandle,
    parents: Option<Parents>,
) -> *mut ibv_pd {
    let mut public = ibv_pd::zeroed();
    (public.context, public.handle) = (context, public_handle);
    let refs = RefCount::default();
    room.fill(
        public,
        PdPrivate {
            handle,
            refs,
            parents,
        },
    )
}

/// A structure for a domain of another context. It holds a reference to the domain, which the caller has
/// taken, and keeps if this fails.
///
/// # Safety
/// `context` is open, `pd` live.
pub unsafe fn imported_pd(
    context: *mut ibv_context,
    device: &Arc<Device>,
    pd: *mut ibv_pd,
) -> Result<*mut ibv_pd> {
    let reserved = handle::reserve(device, ObjectKind::Pd)?;
    let room = Pd::room()?;
    // SAFETY: the caller passes a live domain.
    let original = unsafe { Pd::of(pd) };
    let td = core::ptr::null_mut();
    let number = reserved.handle();
    let imported = new_pd(
        room,
        context,
        number,
        original.handle,
        Some(Parents { pd, td }),
    );
    handle::publish(reserved, ObjectKind::Pd, imported, context);
    Ok(imported)
}

/// Fails with EBUSY while an object uses the domain, or a structure by which it was imported exists.
///
/// # Safety
/// `pd` is live; after success it is freed.
pub unsafe fn dealloc_pd(pd: *mut ibv_pd) -> Result<()> {
    // SAFETY: the caller passes a live domain. A parent domain holds references to its parents, so they
    // are live. Without references nothing else uses the domain.
    unsafe {
        handle::check(pd)?;
        let private = Pd::of(pd);
        let handle = handle::claim_unused(pd, &private.refs)?;
        private.release_parents();
        handles::remove(handle);
        Pd::free(pd);
    }
    Ok(())
}

/// EINVAL for attributes that do not exist.
///
/// # Safety
/// `context` is open, `attr` readable.
pub unsafe fn alloc_td(
    context: *mut ibv_context,
    attr: *mut ibv_td_init_attr,
) -> Result<*mut ibv_td> {
    // SAFETY: the caller passes an open context and readable attributes.
    let (device, comp_mask) = unsafe { (private(context).check()?, (*attr).comp_mask) };
    if comp_mask != 0 {
        return Err(Errno(EINVAL));
    }
    let reserved = handle::reserve(device, ObjectKind::Td)?;
    let private = TdPrivate {
        refs: RefCount::default(),
        handle: reserved.handle(),
    };
    let td = Td::room()?.fill(ibv_td { context }, private);
    handle::publish(reserved, ObjectKind::Td, td, context);
    Ok(td)
}

/// Fails with EBUSY while a parent domain uses it.
///
/// # Safety
/// `td` is live; after success it is freed.
pub unsafe fn dealloc_td(td: *mut ibv_td) -> Result<()> {
    // SAFETY: the caller passes a live domain; without references nothing else uses it.
    unsafe {
        handle::check(td.cast::<Td>())?;
        Td::of(td).refs.ensure_unused()?;
        handles::remove(handle::claim(td.cast::<Td>())?);
        Td::free(td);
    }
    Ok(())
}

/// Creates a parent domain, which shares the keys of `attr.pd`. Its allocators are never called: uroce
/// allocates nothing that a program could want to place.
///
/// # Safety
/// `context` is open, `attr` readable, and the domains that it names are live; `td` may be NULL.
pub unsafe fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> Result<*mut ibv_pd> {
    const KNOWN: u32 =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    // SAFETY: the caller passes an open context and readable attributes.
    let (device, attr) = unsafe { (private(context).check()?, &*attr) };
    if attr.comp_mask & !KNOWN != 0 {
        return Err(Errno(EOPNOTSUPP));
    }
    if attr.pd.is_null() {
        return Err(Errno(EINVAL));
    }
    // SAFETY: the attributes name a readable protection domain, which is used further if it is live, and
    // a thread domain that is NULL or live.
    let (parent, td) = unsafe {
        handle::check_in(attr.pd, context)?;
        handle::check_optional(attr.td.cast::<Td>(), context)?;
        let td = (!attr.td.is_null()).then(|| Td::of(attr.td));
        (Pd::of(attr.pd), td)
    };
    let reserved = handle::reserve(device, ObjectKind::ParentDomain)?;
    let room = Pd::room()?;
    parent.refs.acquire();
    if let Some(td) = td {
        td.refs.acquire();
    }
    let parents = Parents {
        pd: attr.pd,
        td: attr.td,
    };
    let pd = new_pd(
        room,
        context,
        reserved.handle(),
        parent.handle,
        Some(parents),
    );
    handle::publish(reserved, ObjectKind::ParentDomain, pd, context);
    Ok(pd)
}
