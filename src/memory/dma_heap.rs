//! Buffers of a DMA heap, shared with devices as dma-bufs (kernel: `linux/dma-heap.h`). Providers of ABI 64
//! and later allocate queues from it in confidential virtual machines, whose other memory is encrypted.

use core::{
    ffi::{CStr, c_int, c_void},
    ptr::null_mut,
};
use std::os::fd::{AsRawFd, OwnedFd};

use ibverbs_abi::Errno;
use libc::{O_CLOEXEC, O_RDWR};

use crate::sys;

/// The heap of memory that devices can access although the virtual machine's memory is encrypted.
const CC_SHARED: &CStr = c"/dev/dma_heap/system_cc_shared";

/// An open heap.
pub struct Heap(OwnedFd);

/// `struct dma_heap_allocation_data` of the kernel.
#[repr(C)]
struct Allocation {
    len: u64,
    fd: u32,
    fd_flags: u32,
    heap_flags: u64,
}

/// `DMA_HEAP_IOCTL_ALLOC`: `_IOWR('H', 0, struct dma_heap_allocation_data)`.
const ALLOC: libc::c_ulong =
    3 << 30 | (size_of::<Allocation>() as libc::c_ulong) << 16 | (b'H' as libc::c_ulong) << 8;

/// Opens the heap of shared memory. Returns NULL with errno set: ENOENT if the kernel has none.
///
/// # Safety
/// None: the function is `unsafe` as all exported functions are.
pub unsafe extern "C" fn ibv_dmabuf_heap_cc_shared_init() -> *mut Heap {
    match sys::open(CC_SHARED, O_RDWR | O_CLOEXEC) {
        Ok(fd) => Box::into_raw(Box::new(Heap(fd))),
        Err(errno) => errno.null(),
    }
}

/// Closes a heap. Its buffers stay.
///
/// # Safety
/// `heap` is of [`ibv_dmabuf_heap_cc_shared_init`] and is not used again.
pub unsafe extern "C" fn ibv_dmabuf_heap_destroy(heap: *mut Heap) {
    // SAFETY: the heap was boxed when it was opened, and is not used again.
    drop(unsafe { Box::from_raw(heap) });
}

/// Allocates and maps a buffer of `size` bytes. Returns its address, and the descriptor of its dma-buf at
/// `*dmabuf_fd`; or NULL with errno set.
///
/// # Safety
/// `heap` is open, `dmabuf_fd` writable.
pub unsafe extern "C" fn ibv_dmabuf_heap_alloc(
    heap: *mut Heap,
    size: usize,
    dmabuf_fd: *mut c_int,
) -> *mut c_void {
    let mut request = Allocation {
        len: size as u64,
        fd: 0,
        fd_flags: (O_RDWR | O_CLOEXEC) as u32,
        heap_flags: 0,
    };
    // SAFETY: the heap is open, the request is a local, and the kernel places the mapping.
    unsafe {
        if libc::ioctl((*heap).0.as_raw_fd(), ALLOC as _, &raw mut request) < 0 {
            return null_mut();
        }
        let fd = request.fd as c_int;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let at = libc::mmap(null_mut(), size, access, libc::MAP_SHARED, fd, 0);
        if at == libc::MAP_FAILED {
            let errno = Errno::last();
            libc::close(fd);
            return errno.null();
        }
        *dmabuf_fd = fd;
        at
    }
}

/// Unmaps a buffer of [`ibv_dmabuf_heap_alloc`] and closes its dma-buf.
///
/// # Safety
/// The buffer, its size and its descriptor are those of one allocation, and are not used again.
pub unsafe extern "C" fn ibv_dmabuf_heap_free(buf: *mut c_void, size: usize, dmabuf_fd: c_int) {
    // SAFETY: the mapping and the descriptor are released once, as the caller promises.
    unsafe {
        libc::munmap(buf, size);
        libc::close(dmabuf_fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_the_kernels() {
        assert_eq!(ALLOC, 0xc018_4800);
    }

    #[test]
    fn a_kernel_without_the_heap_is_an_error() {
        if std::path::Path::new("/dev/dma_heap").exists() {
            return;
        }
        // SAFETY: it has no preconditions.
        assert!(unsafe { ibv_dmabuf_heap_cc_shared_init() }.is_null());
        assert_eq!(Errno::last(), Errno(libc::ENOENT));
    }
}
