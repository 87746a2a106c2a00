//! Contexts: the library's part of the structure that a provider allocates when a device is opened.
//!
//! A provider's structure contains a `verbs_context`, which ends with the public `ibv_context`. Its
//! member `priv` points to the library's [`Private`].

use core::{
    ffi::c_void,
    ptr::{self, null},
    sync::atomic::Ordering,
};

use ibverbs_abi::*;
use libc::{EINVAL, ENOMEM, EOPNOTSUPP, c_int};

use super::{
    abi::{ProviderAbi, V34},
    device,
    ops::{set_defaults, set_front_slots},
    private::Private,
    registry,
};
use crate::uverbs::{
    cmd::device::{get_context, has_ioctl_write},
    state::{State, extended},
};

/// Marks a context that has a `verbs_context` in front (`__VERBS_ABI_IS_EXTENDED`).
const EXTENDED: *mut c_void = usize::MAX as *mut c_void;

/// Allocates a provider's structure of `alloc_size` bytes, zeroed, and initialises the `verbs_context`
/// of `abi` at `offset` in it. The context owns `cmd_fd`: [`uninit`] closes it, or this function if it
/// fails. Returns the structure, which the provider releases with `free()`, or NULL with errno ENOMEM.
///
/// # Safety
/// `device` is alive; the `verbs_context` at `offset` lies within `alloc_size` bytes.
unsafe fn init_and_alloc(
    abi: &ProviderAbi,
    device: *mut ibv_device,
    cmd_fd: c_int,
    alloc_size: usize,
    offset: usize,
    driver_id: u32,
) -> *mut c_void {
    // SAFETY: calloc and malloc accept any size.
    let (provider, private) = unsafe {
        let provider = libc::calloc(1, alloc_size);
        (
            provider,
            libc::malloc(size_of::<Private>()).cast::<Private>(),
        )
    };
    if provider.is_null() || private.is_null() {
        // SAFETY: both are NULL or were allocated above; the descriptor is this function's to close.
        unsafe {
            libc::free(provider);
            libc::free(private.cast());
            if cmd_fd != -1 {
                libc::close(cmd_fd);
            }
        }
        return Errno(ENOMEM).null();
    }
    // SAFETY: the caller promises that the `verbs_context` lies within the allocation; both
    // allocations are new, so nobody else uses them.
    unsafe {
        let context = abi.context(provider.byte_add(offset).cast());
        (*context).device = device;
        (*context).cmd_fd = cmd_fd;
        init(abi, context, private, driver_id);
    }
    provider
}

/// Initialises a zeroed context, all but its device and its command descriptor. Takes a reference to
/// the device.
///
/// # Safety
/// `context` is the one at the end of a zeroed `verbs_context` of `abi`, with a live device. `private`
/// has room for a `Private`. No other thread knows them yet.
unsafe fn init(
    abi: &ProviderAbi,
    context: *mut ibv_context,
    private: *mut Private,
    driver_id: u32,
) {
    // SAFETY: as the caller promises, both are writable and this thread's alone, and the device is
    // alive; the mutex is initialised at its final address.
    unsafe {
        device::hold((*context).device);
        (*context).async_fd = -1;
        libc::pthread_mutex_init(&raw mut (*context).mutex, null());
        (*context).abi_compat = EXTENDED;
        let ext = extended(context);
        (*ext).sz = abi.context_size();
        (&raw mut (*private).state).write(State::new(driver_id));
        (*ext).priv_ = private.cast();
        set_defaults(context);
        if !ptr::eq(abi, &V34) {
            set_front_slots(context, abi);
        }
        let by_ioctl = has_ioctl_write(context);
        let state = &(*private).state;
        state.write_by_ioctl.store(by_ioctl, Ordering::Relaxed);
    }
}

/// Ends a context: closes its descriptors and releases its reference to the device. The provider still
/// owns the memory and frees it.
///
/// # Safety
/// `context` was initialised by [`init_and_alloc`] and is not used again.
unsafe fn uninit(context: *mut ibv_context) {
    // SAFETY: `init_and_alloc` set `priv_` to memory from malloc and took the device reference; both
    // are released once, because the context is not used again.
    unsafe {
        libc::free((*extended(context)).priv_.cast());
        for fd in [(*context).cmd_fd, (*context).async_fd] {
            if fd != -1 {
                libc::close(fd);
            }
        }
        device::put((*context).device);
    }
}

/// Allocates and initialises the context of a provider of ABI `PABI`; see [`init_and_alloc`].
/// `context_offset` is no address but the offset of the `verbs_context` in the provider's structure. Also
/// returns NULL with errno set: EOPNOTSUPP if the ABI has several layouts and the provider's is not known,
/// EINVAL if the layout does not fit into `alloc_size` bytes.
///
/// # Safety
/// `device` is alive, and its driver's `verbs_device_ops` are of the calling provider; the
/// `verbs_context` at that offset lies within `alloc_size` bytes.
pub unsafe extern "C" fn _verbs_init_and_alloc_context<const PABI: u32>(
    device: *mut ibv_device,
    cmd_fd: c_int,
    alloc_size: usize,
    context_offset: *mut verbs_context,
    driver_id: u32,
) -> *mut c_void {
    let offset = context_offset as usize;
    // SAFETY: the device is alive, as the caller promises.
    let layout = match unsafe { registry::abi_of_device::<PABI>(device) } {
        Some(abi) if alloc_size.saturating_sub(offset) >= abi.context_size() => Ok(abi),
        Some(_) => Err(Errno(EINVAL)),
        None => Err(Errno(EOPNOTSUPP)),
    };
    let abi = match layout {
        Ok(abi) => abi,
        Err(errno) => {
            if cmd_fd != -1 {
                // SAFETY: the descriptor is this function's to close if it fails.
                unsafe { libc::close(cmd_fd) };
            }
            return errno.null();
        }
    };
    // SAFETY: the device is alive, and the `verbs_context` lies within the allocation, as checked above.
    unsafe { init_and_alloc(abi, device, cmd_fd, alloc_size, offset, driver_id) }
}

/// Ends a context of a provider of ABI `PABI`: closes its descriptors and releases its device. The
/// provider frees the memory.
///
/// # Safety
/// `context` is of [`_verbs_init_and_alloc_context`] and is not used again.
pub unsafe extern "C" fn verbs_uninit_context<const PABI: u32>(context: *mut verbs_context) {
    // SAFETY: `_verbs_init_and_alloc_context` initialised it, and it is not used again.
    unsafe {
        if let Some(abi) = ProviderAbi::of_caller::<PABI>(context) {
            uninit(abi.context(context));
        }
    }
}

/// Has the kernel create its side of a new context of a provider of ABI 34. Returns 0 or an errno value.
///
/// # Safety
/// `context` is initialised. `cmd` and `resp` are writable for `cmd_size` and `resp_size` bytes.
pub unsafe extern "C" fn ibv_cmd_get_context(
    context: *mut verbs_context,
    cmd: *mut ibv_get_context,
    cmd_size: usize,
    resp: *mut ib_uverbs_get_context_resp,
    resp_size: usize,
) -> c_int {
    let context = V34.context(context);
    // SAFETY: the context is initialised, and `cmd` and `resp` are writable for their sizes, as the
    // caller says.
    unsafe { get_context(context, cmd, cmd_size, null(), resp, resp_size) }.into_c()
}

/// The same for providers of ABI 57 and later, which pass file descriptors of the program's, or NULL.
///
/// # Safety
/// As for [`ibv_cmd_get_context`]; `fd_arr` is NULL or readable, with its array.
pub unsafe extern "C" fn ibv_cmd_get_context_fds<const PABI: u32>(
    context: *mut verbs_context,
    cmd: *mut ibv_get_context,
    cmd_size: usize,
    fd_arr: *const ibv_fd_arr,
    resp: *mut ib_uverbs_get_context_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: the context is initialised, `cmd` and `resp` are writable for their sizes, and `fd_arr` is NULL
    // or readable, as the caller says.
    unsafe {
        let Some(abi) = ProviderAbi::of_caller::<PABI>(context) else {
            return Errno(EINVAL).returned();
        };
        let context = abi.context(context);
        get_context(context, cmd, cmd_size, fd_arr, resp, resp_size).into_c()
    }
}

/// The ops of a context that the library implements itself, for every provider.
pub struct LibraryOps {
    pub create_cq_ex:
        unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex,
    pub create_srq_ex:
        unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq,
    pub query_port: unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, usize) -> c_int,
    pub compat_query_port:
        unsafe extern "C" fn(*mut ibv_context, u8, *mut _compat_ibv_port_attr) -> c_int,
    pub compat_query_device: unsafe extern "C" fn(*mut ibv_context, *mut ibv_device_attr) -> c_int,
}

/// Completes a provider's new context: puts the library's own ops into its public slots, and returns
/// the public context; NULL with errno EINVAL if the library did not initialise it.
///
/// The flow verbs are copied to two more slots, because programs built with libibverbs 1.1.8 call them
/// there.
///
/// # Safety
/// `provider` was just returned by a provider's `alloc_context` or `import_context`.
pub unsafe fn adopt(provider: *mut verbs_context, library: &LibraryOps) -> *mut ibv_context {
    // SAFETY: a provider's context is one that `_verbs_init_and_alloc_context` initialised.
    let Some(abi) = (unsafe { ProviderAbi::of(provider) }) else {
        return Errno(EINVAL).null();
    };
    let context = abi.context(provider);
    // SAFETY: a provider gets its context from `_verbs_init_and_alloc_context`, which initialised it;
    // no other thread knows it yet.
    unsafe {
        let ext = extended(context);
        (*ext).create_cq_ex = Some(library.create_cq_ex);
        (*ext).create_srq_ex = Some(library.create_srq_ex);
        (*ext).query_port = Some(library.query_port);
        (*context).ops._compat_query_port = Some(library.compat_query_port);
        (*context).ops._compat_query_device = Some(library.compat_query_device);
        // The placeholder slots are declared as functions of another type.
        copy_slot(
            &raw const (*ext).ibv_create_flow,
            &raw mut (*ext).ABI_placeholder1,
        );
        copy_slot(
            &raw const (*ext).ibv_destroy_flow,
            &raw mut (*ext).ABI_placeholder2,
        );
    }
    context
}

/// Copies a function pointer to a slot of another function type.
///
/// # Safety
/// `from` is readable and `to` writable; both are function pointers. Who calls through `to` uses the
/// function's real type.
unsafe fn copy_slot<F, T>(from: *const F, to: *mut T) {
    const { assert!(size_of::<F>() == size_of::<T>() && size_of::<T>() == size_of::<usize>()) }
    // SAFETY: `from` is readable and `to` writable, as the caller promises, and both have a pointer's
    // size, as asserted above.
    unsafe { to.cast::<F>().write(from.read()) }
}
