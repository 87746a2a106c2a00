//! Importing: a second context for the command descriptor of another one, and what lets it use the other's
//! objects (ibv_import_device(3), ibv_import_pd(3)). Within one process only: see docs/uroce/operation.md.
//!
//! An imported object is a structure of its own, with a handle of its own, and holds a reference to the
//! original. `ibv_unimport_pd` and its kin cannot fail: what is still in use then goes with its context.

use core::ffi::c_int;
use core::ptr::with_exposed_provenance_mut;
use std::sync::Arc;

use ibverbs_abi::*;
use libc::{EBADF, EINVAL, ENOENT, EOPNOTSUPP};

use super::context::private;
use super::dm::{Dm, free_dm, new_dm};
use super::ffi::Result;
use super::handle;
use super::mr::{OriginalMr, dereg_mr, imported_mr};
use super::pd::{Pd, dealloc_pd, imported_pd};
use crate::cancellation;
use crate::device::Device;
use crate::device::command_file::CommandFile;
use crate::device::handles::{self, ObjectKind};

/// The file that a descriptor refers to, if it is of a context that this process has open on the device.
/// Otherwise EBADF for a descriptor that is not open, EOPNOTSUPP for that of another process or of a device
/// that is closed, EINVAL for any other file.
pub fn find(device: &Device, fd: c_int) -> Result<CommandFile> {
    if fd < 0 {
        return Err(Errno(EBADF));
    }
    let file = CommandFile::of(fd).map_err(|_| Errno(EBADF))?;
    match device.owned_by_this_process() && device.command_files.contains(file) {
        true => Ok(file),
        false => Err(Errno(of_no_context(fd))),
    }
}

/// Why a descriptor that is of no context of this process cannot be imported: EOPNOTSUPP or EINVAL, as for
/// [`find`].
pub fn of_no_context(fd: c_int) -> c_int {
    match CommandFile::is_of_any_context(fd) {
        true => EOPNOTSUPP,
        false => EINVAL,
    }
}

/// Passes the object of this kind and handle to `take`, and returns what that returns. The object is of the
/// context, or of one with the same command file; otherwise ENOENT. It is live until `take` returns, which
/// must not use the table of handles.
///
/// # Safety
/// `context` is open.
unsafe fn original<B: handle::HasHandle, T>(
    context: *mut ibv_context,
    kind: ObjectKind,
    number: u32,
    take: impl FnOnce(*mut B) -> T,
) -> Result<T> {
    let taken = handles::with_object(kind, number, |object| {
        let object = with_exposed_provenance_mut::<B>(object);
        // SAFETY: the object's destruction has not begun, so it is live, and its context open.
        let is_shared = unsafe {
            let of = (*object).context();
            private(of).command_file == private(context).command_file
        };
        is_shared.then(|| take(object))
    });
    taken.flatten().ok_or(Errno(ENOENT))
}

/// ENOENT if no context with the same command file has a protection domain of that handle.
///
/// # Safety
/// `context` is open.
pub unsafe fn import_pd(context: *mut ibv_context, pd_handle: u32) -> Result<*mut ibv_pd> {
    // SAFETY: the caller passes an open context. What is found is live, and the reference keeps it so.
    unsafe {
        let device = private(context).check()?;
        let pd = original(context, ObjectKind::Pd, pd_handle, |pd| {
            Pd::of(pd).refs.acquire();
            pd
        })?;
        imported_pd(context, device, pd).inspect_err(|_| Pd::of(pd).refs.release())
    }
}

/// [`import_pd`] for a memory region. It has no address, as with devices of the kernel.
///
/// # Safety
/// `pd` is readable.
pub unsafe fn import_mr(pd: *mut ibv_pd, mr_handle: u32) -> Result<*mut ibv_mr> {
    // SAFETY: the caller passes a readable domain, which is used further if it is live; its context is open,
    // and what is found is live.
    unsafe {
        handle::check(pd)?;
        private((*pd).context).check()?;
        let mr = original((*pd).context, ObjectKind::Mr, mr_handle, |mr| {
            OriginalMr::of(mr)
        })?;
        imported_mr(pd, &mr)
    }
}

/// [`import_pd`] for device memory.
///
/// # Safety
/// `context` is open.
pub unsafe fn import_dm(context: *mut ibv_context, dm_handle: u32) -> Result<*mut ibv_dm> {
    // SAFETY: the caller passes an open context; what is found is live.
    unsafe {
        let device = private(context).check()?;
        let memory = original(context, ObjectKind::Dm, dm_handle, |dm| {
            Arc::clone(&Dm::of(dm).memory)
        })?;
        new_dm(context, device, || Ok(memory))
    }
}

/// Frees the structure of an imported domain. If objects of it exist, it goes with its context.
///
/// # Safety
/// `pd` is readable, and is not used again.
pub unsafe extern "C" fn unimport_pd(pd: *mut ibv_pd) {
    let _no_cancellation = cancellation::disable();
    // SAFETY: as the caller says. It is freed or nothing is changed.
    let _ = unsafe { dealloc_pd(pd) };
}

/// Frees the structure of an imported region.
///
/// # Safety
/// `mr` is readable, and is not used again.
pub unsafe extern "C" fn unimport_mr(mr: *mut ibv_mr) {
    let _no_cancellation = cancellation::disable();
    // SAFETY: as the caller says; the structure of a region begins with the ibv_mr.
    let _ = unsafe { dereg_mr(mr.cast()) };
}

/// [`unimport_pd`] for device memory.
///
/// # Safety
/// `dm` is readable, and is not used again.
pub unsafe extern "C" fn unimport_dm(dm: *mut ibv_dm) {
    let _no_cancellation = cancellation::disable();
    // SAFETY: as the caller says. It is freed or nothing is changed.
    let _ = unsafe { free_dm(dm) };
}
