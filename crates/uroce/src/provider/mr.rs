//! Memory regions as verbs: registering, importing, changing, advising, deregistering.
//!
//! Not here: access checks and copies (`memory`).

use core::ffi::{c_uint, c_void};

use ibverbs_abi::*;
use libc::{EBUSY, EFAULT, EINVAL, EOPNOTSUPP, c_int};

use super::context::private;
use super::dm::Dm;
use super::ffi::Result;
use super::handle;
use super::object::{Object, Room, Zeroable};
use super::pd::Pd;
use crate::device::handles::{self, ObjectKind, ReservedHandle};
use crate::memory::{Busy, DmaBufMapping, MemoryRegion, MrRange, Reregistration, prefault};
use crate::profile::Profile;
use roce::engine::Sge;

/// The private part of a memory region.
pub struct MrPrivate {
    /// The region's L_Key and R_Key: the program may change those of the public structure.
    pub key: u32,
    memory: MrMemory,
}

/// The memory that a region is in.
enum MrMemory {
    /// The program's.
    Program,
    /// Device memory, which the region has a reference to.
    Device(*mut ibv_dm),
    /// The region is that of another context, by which it was imported.
    Imported,
    /// A dma-buf, which is mapped as long as the region exists.
    DmaBuf { _mapping: DmaBufMapping },
}

/// A memory region. Its range and rights are in the device's memory table, under its L_Key.
pub type Mr = Object<verbs_mr, MrPrivate>;

/// The access flags of regions that are not rejected as unknown.
const KNOWN_ACCESS: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_MW_BIND
    | IBV_ACCESS_ZERO_BASED
    | IBV_ACCESS_ON_DEMAND
    | IBV_ACCESS_HUGETLB
    | IBV_ACCESS_FLUSH_GLOBAL
    | IBV_ACCESS_FLUSH_PERSISTENT
    | IBV_ACCESS_OPTIONAL_RANGE;

/// An I/O virtual address has the offset of its memory within a page of that size.
const PAGE: u64 = 4096;

/// EINVAL for unknown flags and for remote rights that need IBV_ACCESS_LOCAL_WRITE; EOPNOTSUPP for those of a
/// capability that the device does not have.
fn check_access(access: u32, profile: &Profile) -> Result<()> {
    const NEED_LOCAL_WRITE: u32 = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if access & !KNOWN_ACCESS != 0
        || access & NEED_LOCAL_WRITE != 0 && access & IBV_ACCESS_LOCAL_WRITE == 0
    {
        return Err(Errno(EINVAL));
    }
    if access & IBV_ACCESS_ON_DEMAND != 0 && profile.odp.general & IBV_ODP_SUPPORT == 0 {
        return Err(Errno(EOPNOTSUPP));
    }
    Ok(())
}

/// Makes the pages of a region present, but for on-demand paging. EFAULT where nothing is mapped or the
/// mapping does not allow the access.
fn populate(start: usize, len: usize, access: u32) -> Result<()> {
    let is_present = access & IBV_ACCESS_ON_DEMAND != 0
        || prefault(start, len, access & IBV_ACCESS_LOCAL_WRITE != 0);
    is_present.then_some(()).ok_or(Errno(EFAULT))
}

/// The range of a region. Makes its pages present. EINVAL for a range that wraps around or has no page, and
/// for an IOVA with another offset in the page; EFAULT where nothing is mapped or the mapping does not allow
/// the access.
fn check_range(start: usize, len: usize, iova: u64, access: u32) -> Result<MrRange> {
    let iova = if access & IBV_ACCESS_ZERO_BASED != 0 {
        0
    } else if (start as u64 ^ iova) % PAGE != 0 {
        return Err(Errno(EINVAL));
    } else {
        iova
    };
    let no_page = len == 0 && start as u64 % PAGE == 0;
    let fits = start.checked_add(len).is_some() && iova.checked_add(len as u64).is_some();
    if no_page || !fits {
        return Err(Errno(EINVAL));
    }
    populate(start, len, access)?;
    Ok(MrRange {
        start,
        len: len as u64,
        iova,
    })
}

/// Registers memory. Its pages are made present, but not pinned: if the program unmaps them before it
/// deregisters the region, an access by the device is an error of the request (`crate::nofault`). With
/// on-demand paging, the region may be the whole address space (implicit ODP): address 0, length SIZE_MAX.
///
/// # Safety
/// `pd` is live.
pub unsafe fn reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> Result<*mut ibv_mr> {
    // SAFETY: the caller passes a readable domain, which is used further if it is live; its context is open.
    let profile = unsafe {
        handle::check(pd)?;
        &private((*pd).context).check()?.profile
    };
    let access = access as u32;
    check_access(access, profile)?;
    if length as u64 > profile.max_mr_size {
        return Err(Errno(EINVAL));
    }
    // The copies make pointers from this integer again.
    let start = addr.expose_provenance();
    let range = check_range(start, length, iova, access)?;
    // SAFETY: `pd` is live.
    unsafe { register(pd, range, access, MrMemory::Program) }
}

/// Registers a part of a dma-buf. It is mapped, so EOPNOTSUPP for a dma-buf that the CPU cannot access.
/// EINVAL as for [`reg_mr`], and for on-demand paging. What other devices write to the memory must be
/// coherent with the CPU's caches: accesses are not announced to the exporter.
///
/// # Safety
/// `pd` is live.
pub unsafe fn reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> Result<*mut ibv_mr> {
    // SAFETY: the caller passes a readable domain, which is used further if it is live; its context is open.
    let profile = unsafe {
        handle::check(pd)?;
        &private((*pd).context).check()?.profile
    };
    let access = access as u32;
    check_access(access, profile)?;
    if access & IBV_ACCESS_ON_DEMAND != 0 || (offset ^ iova) % PAGE != 0 {
        return Err(Errno(EINVAL));
    }
    let iova = match access & IBV_ACCESS_ZERO_BASED {
        0 => iova,
        _ => 0,
    };
    let len = length as u64;
    if len > profile.max_mr_size || iova.checked_add(len).is_none() {
        return Err(Errno(EINVAL));
    }
    let writable = access & IBV_ACCESS_LOCAL_WRITE != 0;
    let mapping = DmaBufMapping::map(fd, offset, length, writable)?;
    let start = mapping.start();
    let range = MrRange { start, len, iova };
    let memory = MrMemory::DmaBuf { _mapping: mapping };
    // SAFETY: `pd` is live.
    unsafe { register(pd, range, access, memory) }
}

/// Registers device memory. EINVAL for a range outside of it, for on-demand paging, and without
/// IBV_ACCESS_ZERO_BASED: the memory has no other addresses.
///
/// # Safety
/// `pd` and `dm` are live.
pub unsafe fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    dm_offset: u64,
    length: usize,
    access: c_uint,
) -> Result<*mut ibv_mr> {
    // SAFETY: the caller passes a readable domain and memory, which are used further if they are live, and
    // their context is open.
    let (memory, profile) = unsafe {
        handle::check(pd)?;
        handle::check_in(dm, (*pd).context)?;
        let device = private((*pd).context).check()?;
        (&Dm::of(dm).memory, &device.profile)
    };
    check_access(access, profile)?;
    const PAGED: u32 = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_ZERO_BASED;
    let start = memory.address_of(dm_offset, length);
    match start.filter(|_| access & PAGED == IBV_ACCESS_ZERO_BASED) {
        Some(start) => {
            let len = length as u64;
            let range = MrRange {
                start,
                len,
                iova: 0,
            };
            // SAFETY: as checked above.
            unsafe { register(pd, range, access, MrMemory::Device(dm)) }
        }
        None => Err(Errno(EINVAL)),
    }
}

/// A new region.
///
/// # Safety
/// `pd` is live, and so is device memory.
unsafe fn register(
    pd: *mut ibv_pd,
    range: MrRange,
    access: u32,
    memory: MrMemory,
) -> Result<*mut ibv_mr> {
    // SAFETY: the caller passes a live domain, whose context is open.
    let (domain, device) = unsafe { (Pd::of(pd), private((*pd).context).check()?) };
    let reserved = handle::reserve(device, ObjectKind::Mr)?;
    let room = Mr::room()?;
    let key = device.memory.register(MemoryRegion {
        pd: domain.handle,
        range,
        access,
    });
    // SAFETY: `pd` is live, and so is device memory.
    Ok(unsafe { publish((reserved, room), pd, (key, range.len), access, memory) })
}

/// The structure of a region with this key and length.
///
/// # Safety
/// `pd` is live, and so is device memory.
unsafe fn publish(
    (reserved, room): (ReservedHandle, Room<verbs_mr, MrPrivate>),
    pd: *mut ibv_pd,
    (key, len): (u32, u64),
    access: u32,
    memory: MrMemory,
) -> *mut ibv_mr {
    // SAFETY: the caller passes a live domain.
    let context = unsafe {
        Pd::of(pd).refs.acquire();
        (*pd).context
    };
    let mut mr = verbs_mr::zeroed();
    mr.ibv_mr.context = context;
    mr.ibv_mr.pd = pd;
    mr.ibv_mr.handle = reserved.handle();
    mr.ibv_mr.length = len as usize;
    (mr.ibv_mr.lkey, mr.ibv_mr.rkey) = (key, key);
    mr.access = access as c_int;
    // The type DMABUF is the one that has no pages of the program, for the library.
    mr.mr_type = match memory {
        MrMemory::Program => IBV_MR_TYPE_MR,
        MrMemory::Imported => IBV_MR_TYPE_IMPORTED_MR,
        MrMemory::Device(_) | MrMemory::DmaBuf { .. } => IBV_MR_TYPE_DMABUF_MR,
    };
    if let MrMemory::Device(dm) = memory {
        // SAFETY: the caller passes live memory.
        unsafe { Dm::of(dm) }.refs.acquire();
    }
    let mr = room.fill(mr, MrPrivate { key, memory }).cast::<ibv_mr>();
    handle::publish(reserved, ObjectKind::Mr, mr, context);
    mr
}

/// The values that the structure of an imported region has from the original.
pub struct OriginalMr {
    key: u32,
    len: u64,
    access: u32,
}

impl OriginalMr {
    /// Reads them from a region.
    ///
    /// # Safety
    /// `mr` is live.
    pub unsafe fn of(mr: *mut ibv_mr) -> OriginalMr {
        // SAFETY: the caller passes a live region, whose structure is a verbs_mr.
        let (private, original) = unsafe { (Mr::of(mr.cast()), &*mr.cast::<verbs_mr>()) };
        OriginalMr {
            key: private.key,
            len: original.ibv_mr.length as u64,
            access: original.access as u32,
        }
    }
}

/// A structure for a region of another context, with the same keys. The region may be deregistered before.
///
/// # Safety
/// `pd` is live.
pub unsafe fn imported_mr(pd: *mut ibv_pd, original: &OriginalMr) -> Result<*mut ibv_mr> {
    // SAFETY: the caller passes a live domain, whose context is open.
    let device = unsafe { private((*pd).context) }.check()?;
    let reserved = handle::reserve(device, ObjectKind::Mr)?;
    let room = Mr::room()?;
    let OriginalMr { key, len, access } = *original;
    // SAFETY: `pd` is live.
    Ok(unsafe { publish((reserved, room), pd, (key, len), access, MrMemory::Imported) })
}

impl MrPrivate {
    /// Whether it is that of another context, which deregisters it.
    pub fn is_imported(&self) -> bool {
        matches!(self.memory, MrMemory::Imported)
    }
}

/// Changes a region; its keys stay. EBUSY while a window is bound to it, EINVAL without a flag. The library
/// converts the errno value to the return values of ibv_rereg_mr(3).
///
/// # Safety
/// `vmr` is live; so is `pd`, or it is NULL, if `flags` has IBV_REREG_MR_CHANGE_PD.
pub unsafe fn rereg_mr(
    vmr: *mut verbs_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> Result<()> {
    // SAFETY: the caller passes a readable region, which is used further if it is live, and no other
    // thread changes it meanwhile.
    let mr = unsafe {
        handle::check(&raw mut (*vmr).ibv_mr)?;
        &mut *vmr
    };
    // SAFETY: the context of a live region is open.
    let device = unsafe { private(mr.ibv_mr.context) }.check()?;
    // SAFETY: the region is live.
    let private_part = unsafe { Mr::of(vmr) };
    if flags == 0 || private_part.is_imported() {
        return Err(Errno(EINVAL));
    }
    let has = |flag| flags as u32 & flag != 0;
    if has(IBV_REREG_MR_CHANGE_PD) {
        if pd.is_null() {
            return Err(Errno(EINVAL));
        }
        // SAFETY: the caller passes a readable domain with the flag.
        unsafe { handle::check_in(pd, mr.ibv_mr.context) }?;
    }
    let new_access = has(IBV_REREG_MR_CHANGE_ACCESS).then_some(access as u32);
    let access = new_access.unwrap_or(mr.access as u32);
    check_access(access, &device.profile)?;
    if (access ^ mr.access as u32) & IBV_ACCESS_ON_DEMAND != 0 {
        // The library decides by the flag whether a child of fork gets the pages.
        return Err(Errno(EINVAL));
    }
    let range = if has(IBV_REREG_MR_CHANGE_TRANSLATION) {
        let start = addr.expose_provenance();
        Some(check_range(start, length, start as u64, access)?)
    } else {
        let becomes_writable = access & !(mr.access as u32) & IBV_ACCESS_LOCAL_WRITE != 0;
        let (start, length) = (mr.ibv_mr.addr as usize, mr.ibv_mr.length);
        if becomes_writable {
            populate(start, length, access)?;
        }
        None
    };
    // SAFETY: with the flag, `pd` is live, as it is not NULL.
    let domain = has(IBV_REREG_MR_CHANGE_PD).then(|| unsafe { Pd::of(pd) });
    let change = Reregistration {
        pd: domain.map(|domain| domain.handle),
        range,
        access: new_access,
    };
    let changed = device.reregister(private_part.key, &change);
    changed.map_err(|Busy| Errno(EBUSY))?;
    if let Some(domain) = domain {
        domain.refs.acquire();
        // SAFETY: the region's reference has kept its previous domain live.
        unsafe { Pd::of(mr.ibv_mr.pd) }.refs.release();
    }
    mr.access = access as c_int;
    Ok(())
}

/// Makes pages of regions with on-demand paging present, or for IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT only
/// checks the arguments: a page that is present can be accessed already. Always before it returns. With
/// IBV_ADVISE_MR_FLAG_FLUSH, EFAULT where that is not possible; without, that is no error. EOPNOTSUPP for
/// unknown advice; the other errors are those of `Memory::on_demand`.
///
/// # Safety
/// `pd` is live, and `num_sges` entries are readable at `sg_list`.
pub unsafe fn advise_mr(
    pd: *mut ibv_pd,
    advice: ib_uverbs_advise_mr_advice,
    flags: u32,
    sg_list: *mut ibv_sge,
    num_sges: u32,
) -> Result<()> {
    // SAFETY: the caller passes a readable domain, which is used further if it is live; its context is open.
    let (device, pd) = unsafe {
        handle::check(pd)?;
        (private((*pd).context).check()?, Pd::of(pd).handle)
    };
    if flags & !IBV_ADVISE_MR_FLAG_FLUSH != 0 || num_sges == 0 || sg_list.is_null() {
        return Err(Errno(EINVAL));
    }
    let (writable, fetch) = match advice {
        IBV_ADVISE_MR_ADVICE_PREFETCH => (false, true),
        IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE => (true, true),
        IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT => (false, false),
        _ => return Err(Errno(EOPNOTSUPP)),
    };
    // SAFETY: not NULL, so the caller passes that many entries.
    let sges = unsafe { core::slice::from_raw_parts(sg_list, num_sges as usize) };
    let ranges = || {
        sges.iter().map(|sge| {
            let sge = Sge {
                addr: sge.addr,
                len: sge.length,
                lkey: sge.lkey,
            };
            device.memory.on_demand(&sge, writable, pd)
        })
    };
    ranges().try_for_each(|range| range.map(drop))?;
    let mut result = Ok(());
    for range in ranges().filter(|_| fetch) {
        let (start, len) = range?;
        if len > 0 && !prefault(start, len, writable) && flags & IBV_ADVISE_MR_FLAG_FLUSH != 0 {
            result = Err(Errno(EFAULT));
        }
    }
    result
}

/// Fails with EBUSY while a window is bound to the region. Of an imported region only the structure is freed.
/// Once it has succeeded, no access of a peer
/// reaches the memory.
///
/// # Safety
/// `vmr` is live; after success it is freed.
pub unsafe fn dereg_mr(vmr: *mut verbs_mr) -> Result<()> {
    // SAFETY: the caller passes a live region and does not use it again. Its context is open, and its
    // reference keeps its domain live.
    unsafe {
        handle::check(&raw mut (*vmr).ibv_mr)?;
        let mr = &(*vmr).ibv_mr;
        let device = &private(mr.context).device;
        if device.owned_by_this_process() && !Mr::of(vmr).is_imported() {
            let removed = device.deregister(Mr::of(vmr).key);
            removed.map_err(|Busy| Errno(EBUSY))?;
        }
        handles::remove(handle::claim(&raw mut (*vmr).ibv_mr)?);
        Pd::of(mr.pd).refs.release();
        if let MrMemory::Device(dm) = &Mr::of(vmr).memory {
            Dm::of(*dm).refs.release();
        }
        Mr::free(vmr);
    }
    Ok(())
}
