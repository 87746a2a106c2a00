//! Buffers of the provider's allocator, `struct ibv_buf`.

use libc::{EINVAL, ENODATA, F_DUPFD_CLOEXEC, c_int, c_void};

use super::dispatch::dispatch;
use crate::abi::*;

dispatch! {
    /// Allocates a buffer of `size` bytes for registration in `pd`; `ibv_free_buf` frees it
    /// (ibv_alloc_buf(3)). Returns the buffer's address, and its handle at `*buf`; or NULL with errno set.
    ibv_alloc_buf(pd: *mut ibv_pd, size: usize, buf: *mut *mut ibv_buf) -> *mut c_void
        => [(*pd).context] alloc_buf(pd, size, buf);

    /// Frees a buffer (ibv_alloc_buf(3)).
    ibv_free_buf(buf: *mut ibv_buf) => [(*(*buf).pd).context] free_buf(buf);
}

/// Returns a file descriptor of the dma-buf that contains a buffer; the caller closes it
/// (ibv_alloc_buf(3)). Returns -1 with errno set: ENODATA if the buffer is ordinary memory.
///
/// # Safety
///
/// `buf` is a live buffer.
pub unsafe extern "C" fn ibv_export_buf_dmabuf_fd(buf: *mut ibv_buf) -> c_int {
    // SAFETY: the buffer is alive, as the caller promises.
    let fd = unsafe { (*buf).dmabuf_fd };
    if fd < 0 {
        return Errno(ENODATA).minus_one();
    }
    // SAFETY: fcntl accepts any number as a descriptor.
    unsafe { libc::fcntl(fd, F_DUPFD_CLOEXEC, 0) }
}

/// Rewrites `attr`, which describes a part of `buf`, so that it does not need the buffer: to a range of
/// addresses, or to a range of the buffer's dma-buf with the addresses as IOVA. EINVAL if the part is not
/// inside the buffer, the buffer is of another protection domain, or `attr` also has a file descriptor
/// or, for a dma-buf, an IOVA.
pub(super) fn resolve(
    pd: *mut ibv_pd,
    buf: &ibv_buf,
    attr: &mut ibv_mr_init_attr,
) -> Result<(), Errno> {
    const BUF: u64 = IBV_REG_MR_MASK_BUF as u64;
    const ADDR: u64 = IBV_REG_MR_MASK_ADDR as u64;
    const IOVA: u64 = IBV_REG_MR_MASK_IOVA as u64;
    const FILE: u64 = (IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET) as u64;

    let addr = attr.addr as usize;
    let offset = addr.checked_sub(buf.addr as usize).ok_or(Errno(EINVAL))?;
    let room = buf.size.checked_sub(offset).ok_or(Errno(EINVAL))?;
    if pd != buf.pd
        || attr.length > room
        || attr.comp_mask & ADDR == 0
        || attr.comp_mask & FILE != 0
    {
        return Err(Errno(EINVAL));
    }
    attr.comp_mask &= !BUF;
    if buf.dmabuf_fd == -1 {
        return Ok(());
    }
    if attr.comp_mask & IOVA != 0 {
        return Err(Errno(EINVAL));
    }
    attr.comp_mask = (attr.comp_mask & !ADDR) | FILE | IOVA;
    attr.fd = buf.dmabuf_fd;
    attr.fd_offset = offset as u64;
    attr.iova = addr as u64;
    Ok(())
}

#[cfg(test)]
mod tests {
    use core::ptr::without_provenance_mut as address;

    use super::*;

    const PD: usize = 0x1000;

    fn buf(dmabuf_fd: c_int) -> ibv_buf {
        ibv_buf {
            addr: address(0x10_0000),
            size: 0x1000,
            pd: address(PD),
            dmabuf_fd,
        }
    }

    fn attr(addr: usize, length: usize, mask: ibv_mr_init_attr_mask) -> ibv_mr_init_attr {
        ibv_mr_init_attr {
            length,
            access: 1,
            comp_mask: mask.into(),
            iova: 7,
            addr: address(addr),
            fd: 0,
            fd_offset: 0,
            dmah: address(0),
            buf: address(0x40),
        }
    }

    const PART: ibv_mr_init_attr_mask = IBV_REG_MR_MASK_BUF | IBV_REG_MR_MASK_ADDR;

    #[test]
    fn ordinary_memory_is_registered_by_its_address() {
        let mut a = attr(0x10_0010, 0xff0, PART);
        assert_eq!(resolve(address(PD), &buf(-1), &mut a), Ok(()));
        assert_eq!(a.comp_mask, u64::from(IBV_REG_MR_MASK_ADDR));
        assert_eq!(a.addr as usize, 0x10_0010);
    }

    #[test]
    fn a_dmabuf_is_registered_by_file_and_offset() {
        let mut a = attr(0x10_0010, 0x10, PART);
        assert_eq!(resolve(address(PD), &buf(5), &mut a), Ok(()));
        let mask = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_IOVA;
        assert_eq!(a.comp_mask, u64::from(mask));
        assert_eq!((a.fd, a.fd_offset, a.iova), (5, 0x10, 0x10_0010));
    }

    #[test]
    fn other_ranges_than_parts_of_the_buffer_are_rejected() {
        let all = PART | IBV_REG_MR_MASK_IOVA;
        for (pd, fd, mut a) in [
            (PD + 8, -1, attr(0x10_0000, 1, PART)),
            (PD, -1, attr(0x10_0000, 1, IBV_REG_MR_MASK_BUF)),
            (PD, -1, attr(0x0f_ffff, 1, PART)),
            (PD, -1, attr(0x10_0000, 0x1001, PART)),
            (PD, -1, attr(0x10_0fff, 2, PART)),
            (PD, -1, attr(0x10_1001, 0, PART)),
            (PD, -1, attr(usize::MAX, usize::MAX, PART)),
            (PD, -1, attr(0x10_0000, 1, PART | IBV_REG_MR_MASK_FD)),
            (PD, -1, attr(0x10_0000, 1, PART | IBV_REG_MR_MASK_FD_OFFSET)),
            (PD, 5, attr(0x10_0000, 1, all)),
        ] {
            assert_eq!(resolve(address(pd), &buf(fd), &mut a), Err(Errno(EINVAL)));
        }
        let mut a = attr(0x10_0000, 1, all);
        assert_eq!(resolve(address(PD), &buf(-1), &mut a), Ok(()));
    }
}
