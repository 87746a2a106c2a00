//! Contexts: what the library puts around a provider's own structure.

use core::{
    ffi::c_void,
    mem::offset_of,
    ptr::{null, null_mut},
    sync::atomic::Ordering,
};

use ibverbs_abi::*;
use libc::{ENOMEM, c_int};

use super::{
    abi::{ProviderAbi, V34},
    device,
    ops::set_defaults,
};
use crate::uverbs::{
    cmd::device::{get_context, has_ioctl_write},
    state::{State, extended},
};

/// What `verbs_context.priv` points to.
#[repr(C)]
pub struct Private {
    /// The kernel side; first, for `uverbs` finds it there.
    pub state: State,
    /// The context's ops, all of them set.
    pub ops: verbs_context_ops,
}

const _: () = assert!(offset_of!(Private, state) == 0);

/// The library's part of a context.
///
/// # Safety
/// `context` is open, and is not closed while the reference is used.
#[inline]
pub(super) unsafe fn private<'a>(context: *mut ibv_context) -> &'a Private {
    // SAFETY: by the contract the library has initialised the context, priv_ included.
    unsafe { &*(*extended(context)).priv_.cast::<Private>() }
}

/// Marks a context that has a `verbs_context` in front (`__VERBS_ABI_IS_EXTENDED`).
const EXTENDED: *mut c_void = usize::MAX as *mut c_void;

/// Allocates a provider's context of `alloc_size` bytes, zeroed, with a `verbs_context` of `abi` at
/// `offset`, and initialises that. Takes `cmd_fd`: it is closed here on failure (NULL with errno), or
/// by [`uninit`]. The memory is the provider's to `free()`.
///
/// # Safety
/// `device` is live; `offset` and the size of the `verbs_context` lie within `alloc_size`.
unsafe fn init_and_alloc(
    abi: &ProviderAbi,
    device: *mut ibv_device,
    cmd_fd: c_int,
    alloc_size: usize,
    offset: usize,
    driver_id: u32,
) -> *mut c_void {
    // SAFETY: both blocks are our own and zeroed, which is valid for what is not written here; the
    // mutex is initialised where it stays.
    unsafe {
        let provider = libc::calloc(1, alloc_size);
        let private = libc::malloc(size_of::<Private>()).cast::<Private>();
        if provider.is_null() || private.is_null() {
            libc::free(provider);
            libc::free(private.cast());
            if cmd_fd != -1 {
                libc::close(cmd_fd);
            }
            Errno(ENOMEM).set();
            return null_mut();
        }
        device::hold(device);
        let context = abi.context(provider.byte_add(offset).cast());
        (*context).device = device;
        (*context).cmd_fd = cmd_fd;
        (*context).async_fd = -1;
        libc::pthread_mutex_init(&raw mut (*context).mutex, null());
        (*context).abi_compat = EXTENDED;
        let ext = extended(context);
        (*ext).sz = abi.context_size();
        (&raw mut (*private).state).write(State::new(driver_id));
        (*ext).priv_ = private.cast();
        set_defaults(context);
        let by_ioctl = has_ioctl_write(context);
        (*private)
            .state
            .write_by_ioctl
            .store(by_ioctl, Ordering::Relaxed);
        provider
    }
}

/// Ends a context: closes its files, gives the device back. The memory stays the provider's.
///
/// # Safety
/// `context` was initialised by the library and is not used again.
unsafe fn uninit(context: *mut ibv_context) {
    // SAFETY: by the contract.
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

/// Allocates and initialises the context of a provider of ABI 34. `context_offset` is the offset of
/// the `verbs_context` in the provider's structure, as a pointer.
///
/// # Safety
/// As for [`init_and_alloc`].
pub unsafe extern "C" fn _verbs_init_and_alloc_context(
    device: *mut ibv_device,
    cmd_fd: c_int,
    alloc_size: usize,
    context_offset: *mut verbs_context,
    driver_id: u32,
) -> *mut c_void {
    // SAFETY: by the contract.
    unsafe {
        init_and_alloc(
            &V34,
            device,
            cmd_fd,
            alloc_size,
            context_offset as usize,
            driver_id,
        )
    }
}

/// Ends a context of a provider of ABI 34.
///
/// # Safety
/// As for [`uninit`].
pub unsafe extern "C" fn verbs_uninit_context(context: *mut verbs_context) {
    // SAFETY: by the contract.
    unsafe { uninit(V34.context(context)) }
}

/// Tells the kernel about a new context of a provider of ABI 34.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes; `context` is initialised.
pub unsafe extern "C" fn ibv_cmd_get_context(
    context: *mut verbs_context,
    cmd: *mut ibv_get_context,
    cmd_size: usize,
    resp: *mut ib_uverbs_get_context_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: by the contract.
    unsafe { get_context(V34.context(context), cmd, cmd_size, resp, resp_size) }.into_c()
}

/// The library's own ops of a context, which no provider implements.
pub struct LibraryOps {
    pub create_cq_ex:
        unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex,
    pub query_port: unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, usize) -> c_int,
    pub compat_query_port:
        unsafe extern "C" fn(*mut ibv_context, u8, *mut _compat_ibv_port_attr) -> c_int,
    pub compat_query_device: unsafe extern "C" fn(*mut ibv_context, *mut ibv_device_attr) -> c_int,
}

/// Makes a provider's context the program's: the library's own ops go into its public slots.
///
/// The flow verbs also stand in two more slots, where programs built with libibverbs 1.1.8 look for
/// them.
///
/// # Safety
/// `provider` is what a provider's `alloc_context` or `import_context` has returned.
pub unsafe fn adopt(provider: *mut verbs_context, library: &LibraryOps) -> *mut ibv_context {
    let context = V34.context(provider);
    // SAFETY: by the contract the library has initialised the context.
    unsafe {
        let ext = extended(context);
        (*ext).create_cq_ex = Some(library.create_cq_ex);
        (*ext).query_port = Some(library.query_port);
        (*context).ops._compat_query_port = Some(library.compat_query_port);
        (*context).ops._compat_query_device = Some(library.compat_query_device);
        // Slots of one size, whose types only say that there is a function.
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
/// Both are function pointers, `to` is writable, and callers of `to` know the function's real type.
unsafe fn copy_slot<F, T>(from: *const F, to: *mut T) {
    const { assert!(size_of::<F>() == size_of::<T>() && size_of::<T>() == size_of::<usize>()) }
    // SAFETY: by the contract, and both have a pointer's size.
    unsafe { to.cast::<F>().write(from.read()) }
}
