//! Device memory as verbs. Its regions are those of `mr.rs`.

use core::ffi::c_void;
use std::sync::Arc;

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP};

use super::context::private;
use super::ffi::Result;
use super::handle;
use super::object::{Object, RefCount};
use crate::device::Device;
use crate::device::handles::{self, ObjectKind};
use crate::memory::DeviceMemory;

/// The private part of device memory.
pub struct DmPrivate {
    /// The memory.
    pub memory: Arc<DeviceMemory>,
    /// Regions in it.
    pub refs: RefCount,
}

/// Device memory.
pub type Dm = Object<ibv_dm, DmPrivate>;

/// EINVAL for a length or alignment that the device does not have, and for unknown attributes; ENOMEM if
/// not as much memory is left; EOPNOTSUPP if the device has none.
///
/// # Safety
/// `context` is open, `attr` readable.
pub unsafe fn alloc_dm(
    context: *mut ibv_context,
    attr: *mut ibv_alloc_dm_attr,
) -> Result<*mut ibv_dm> {
    // SAFETY: the caller passes an open context and readable attributes.
    let (device, attr) = unsafe { (private(context).check()?, &*attr) };
    let max_dm_size = device.profile.limits.max_dm_size as usize;
    if max_dm_size == 0 {
        return Err(Errno(EOPNOTSUPP));
    }
    if attr.comp_mask != 0 {
        return Err(Errno(EINVAL));
    }
    let allocated = &device.memory.allocated_device_memory;
    let (len, log_alignment) = (attr.length, attr.log_align_req);
    new_dm(context, device, || {
        let memory = DeviceMemory::allocate(allocated, len, log_alignment, max_dm_size)?;
        Ok(Arc::new(memory))
    })
}

/// A structure for device memory, which `memory` returns.
pub fn new_dm(
    context: *mut ibv_context,
    device: &Arc<Device>,
    memory: impl FnOnce() -> Result<Arc<DeviceMemory>>,
) -> Result<*mut ibv_dm> {
    let reserved = handle::reserve(device, ObjectKind::Dm)?;
    let room = Dm::room()?;
    let memory = memory()?;
    let public = ibv_dm {
        context,
        memcpy_to_dm: Some(super::memcpy_to_dm),
        memcpy_from_dm: Some(super::memcpy_from_dm),
        comp_mask: IBV_DM_MASK_HANDLE,
        handle: reserved.handle(),
    };
    let refs = RefCount::default();
    let dm = room.fill(public, DmPrivate { memory, refs });
    handle::publish(reserved, ObjectKind::Dm, dm, context);
    Ok(dm)
}

/// Fails with EBUSY while a region is registered in it.
///
/// # Safety
/// `dm` is live; after success it is freed.
pub unsafe fn free_dm(dm: *mut ibv_dm) -> Result<()> {
    // SAFETY: the caller passes live memory; without references nothing else uses it.
    unsafe {
        handle::check(dm)?;
        Dm::of(dm).refs.ensure_unused()?;
        handles::remove(handle::claim(dm)?);
        Dm::free(dm);
    }
    Ok(())
}

/// EACCES in a child of the process that allocated the memory: it has a copy, not the device's.
///
/// # Safety
/// `dm` is live.
unsafe fn memory<'a>(dm: *mut ibv_dm) -> Result<&'a DeviceMemory> {
    // SAFETY: the caller passes live memory, whose context is open.
    unsafe {
        private((*dm).context).check()?;
        Ok(&Dm::of(dm).memory)
    }
}

/// Copies to the device's memory. EINVAL for an offset or length that is no multiple of four, EFAULT for a
/// range outside of it or of the program's memory.
///
/// # Safety
/// `dm` is live, and the program owns what is mapped at `host_addr`.
pub unsafe fn memcpy_to_dm(
    dm: *mut ibv_dm,
    dm_offset: u64,
    host_addr: *const c_void,
    length: usize,
) -> Result<()> {
    // SAFETY: as the caller says.
    unsafe { memory(dm)?.write(dm_offset, host_addr.cast(), length) }
}

/// Copies from the device's memory, as [`memcpy_to_dm`].
///
/// # Safety
/// As for [`memcpy_to_dm`].
pub unsafe fn memcpy_from_dm(
    host_addr: *mut c_void,
    dm: *mut ibv_dm,
    dm_offset: u64,
    length: usize,
) -> Result<()> {
    // SAFETY: as the caller says.
    unsafe { memory(dm)?.read(dm_offset, host_addr.cast(), length) }
}
