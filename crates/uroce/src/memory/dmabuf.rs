//! dma-bufs: memory of other devices, which a program has a descriptor of. uroce maps it.

use core::mem::MaybeUninit;
use core::ptr;

use ibverbs_abi::Errno;
use libc::{EBADF, EINVAL, EOPNOTSUPP, c_int};

use super::prefault::page_size;
use crate::nofault;

/// `statfs.f_type` of a dma-buf (linux/magic.h).
const DMA_BUF_MAGIC: i64 = 0x444d_4142;

/// A part of a dma-buf that is mapped. It is unmapped when this is dropped.
pub struct DmaBufMapping {
    /// The address of the first page.
    at: usize,
    /// The address of the bytes that were asked for.
    start: usize,
    /// Whole pages.
    len: usize,
}

/// The pages that contain `len` bytes at `offset` of a file: where they begin and how long they are. None if
/// there is no byte, or the end is beyond what an offset can say.
fn pages(offset: u64, len: usize, page: usize) -> Option<(libc::off_t, usize)> {
    let within = (offset % page as u64) as usize;
    let whole = within.checked_add(len)?.checked_next_multiple_of(page)?;
    let first = libc::off_t::try_from(offset - within as u64).ok()?;
    first.checked_add(libc::off_t::try_from(whole).ok()?)?;
    (len > 0).then_some((first, whole))
}

/// EBADF if the descriptor is not open, EINVAL if it is not that of a dma-buf, as from the kernel.
fn check_is_dma_buf(fd: c_int) -> Result<(), Errno> {
    let mut file_system = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: `file_system` has room for the structure; any descriptor is allowed.
    if unsafe { libc::fstatfs(fd, file_system.as_mut_ptr()) } != 0 {
        return Err(match Errno::last() {
            Errno(EBADF) => Errno(EBADF),
            _ => Errno(EINVAL),
        });
    }
    // SAFETY: fstatfs has filled it.
    let kind = unsafe { file_system.assume_init() }.f_type;
    let is_dma_buf = i128::from(kind) == i128::from(DMA_BUF_MAGIC);
    is_dma_buf.then_some(()).ok_or(Errno(EINVAL))
}

impl DmaBufMapping {
    /// Maps `len` bytes at `offset` of a dma-buf. EBADF or EINVAL for another descriptor, EINVAL for a range
    /// that is not within the buffer. EOPNOTSUPP if the buffer cannot be mapped: its exporter does not allow
    /// it, or not for writing.
    pub fn map(fd: c_int, offset: u64, len: usize, writable: bool) -> Result<DmaBufMapping, Errno> {
        check_is_dma_buf(fd)?;
        Self::map_file(fd, offset, len, writable)
    }

    fn map_file(fd: c_int, offset: u64, len: usize, writable: bool) -> Result<Self, Errno> {
        let (first, whole) = pages(offset, len, page_size()).ok_or(Errno(EINVAL))?;
        // SAFETY: any descriptor is allowed. A dma-buf has no position that this could change: both ends are
        // all that it can be asked for.
        let size = unsafe { libc::lseek(fd, 0, libc::SEEK_END) };
        if i128::from(size) < i128::from(offset) + len as i128 {
            return Err(Errno(EINVAL));
        }
        nofault::handler::install();
        let protection = match writable {
            true => libc::PROT_READ | libc::PROT_WRITE,
            false => libc::PROT_READ,
        };
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                whole,
                protection,
                libc::MAP_SHARED,
                fd,
                first,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(Errno(EOPNOTSUPP));
        }
        let at = at.expose_provenance();
        Ok(DmaBufMapping {
            at,
            start: at + (offset - first as u64) as usize,
            len: whole,
        })
    }

    /// The address of the bytes that were asked for.
    pub fn start(&self) -> usize {
        self.start
    }
}

impl Drop for DmaBufMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`. The region in it has been deregistered.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(self.at), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn whole_pages_are_mapped() {
        assert_eq!(pages(0, 1, 4096), Some((0, 4096)));
        assert_eq!(pages(4095, 2, 4096), Some((0, 8192)));
        assert_eq!(pages(8192, 4096, 4096), Some((8192, 4096)));
        assert_eq!(pages(0, 0, 4096), None);
        assert_eq!(pages(u64::MAX, 1, 4096), None);
        assert_eq!(pages(i64::MAX as u64 - 4096, 8192, 4096), None);
        assert_eq!(pages(1, usize::MAX, 4096), None);
    }

    #[test]
    fn other_files_are_refused() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let map = |fd| DmaBufMapping::map(fd, 0, 4096, false).err();
        assert_eq!(map(file.as_raw_fd()), Some(Errno(EINVAL)));
        assert_eq!(map(-1), Some(Errno(EBADF)));
    }

    /// A file in place of a dma-buf, which needs a device, is mapped in part.
    #[test]
    fn a_part_of_a_file_is_mapped() {
        let mut file = tempfile();
        file.write_all(&[0; 3 * 4096]).unwrap();
        let map = |offset, len, writable| {
            DmaBufMapping::map_file(file.as_raw_fd(), offset, len, writable)
        };
        let part = map(4096 + 100, 5000, true).unwrap();
        // SAFETY: `part` maps 5000 bytes from there on.
        unsafe { ptr::with_exposed_provenance_mut::<u8>(part.start() + 4999).write(7) };
        drop(part);
        assert_eq!(map(4096, 2 * 4096 + 1, false).err(), Some(Errno(EINVAL)));
        assert_eq!(map(0, 0, false).err(), Some(Errno(EINVAL)));
        let mut bytes = [0; 1];
        file.seek(std::io::SeekFrom::Start(4096 + 100 + 4999))
            .unwrap();
        file.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [7]);
        let read_only = std::fs::File::open("/proc/self/exe").unwrap();
        let writable = DmaBufMapping::map_file(read_only.as_raw_fd(), 0, 4096, true);
        assert_eq!(writable.err(), Some(Errno(EOPNOTSUPP)));
    }

    fn tempfile() -> std::fs::File {
        use std::os::fd::FromRawFd;
        // SAFETY: the name ends with NUL.
        let fd = unsafe { libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: a new descriptor, which nothing else owns.
        unsafe { std::fs::File::from_raw_fd(fd) }
    }
}
