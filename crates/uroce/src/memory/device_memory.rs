//! Device memory: what a NIC has on its chip. Here it is memory of the process that the program gets no
//! address of.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ibverbs_abi::Errno;
use libc::{EFAULT, EINVAL, ENOMEM};

use super::prefault::page_size;
use crate::nofault::{self, Fault};

/// How many bytes of a device are allocated.
#[derive(Default)]
pub struct Allocated(AtomicUsize);

/// An allocation. Its memory is freed when it is dropped.
pub struct DeviceMemory {
    start: usize,
    len: usize,
    allocated: Arc<Allocated>,
}

/// The whole pages for `len` bytes. EINVAL if that is none, or more than the device has.
fn pages(len: usize, device_has: usize) -> Result<usize, Errno> {
    match (1..=device_has).contains(&len) {
        true => Ok(len.next_multiple_of(page_size())),
        false => Err(Errno(EINVAL)),
    }
}

impl DeviceMemory {
    /// Allocates `len` bytes, all zero, of those that the device has; each allocation takes whole pages.
    /// Their alignment is that of a page: EINVAL for a larger one. ENOMEM if the device has not as many
    /// left.
    pub fn allocate(
        allocated: &Arc<Allocated>,
        len: usize,
        log_alignment: u32,
        device_has: usize,
    ) -> Result<DeviceMemory, Errno> {
        if log_alignment > page_size().ilog2() {
            return Err(Errno(EINVAL));
        }
        let whole = pages(len, device_has)?;
        let most = device_has.next_multiple_of(page_size());
        let take = |sum: usize| Some(sum + whole).filter(|sum| *sum <= most);
        let taken = allocated
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map_err(|_| Errno(ENOMEM))?;
        nofault::handler::install();
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let at = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(core::ptr::null_mut(), whole, protection, flags, -1, 0)
        };
        let is_mapped = at != libc::MAP_FAILED;
        let memory = DeviceMemory {
            start: if is_mapped { at.expose_provenance() } else { 0 },
            len,
            allocated: allocated.clone(),
        };
        is_mapped.then_some(memory).ok_or(Errno(ENOMEM))
    }

    /// The address of `len` bytes at `offset`. None if the memory does not contain them.
    pub fn address_of(&self, offset: u64, len: usize) -> Option<usize> {
        let offset = usize::try_from(offset).ok()?;
        let is_within = len <= self.len && offset <= self.len - len;
        is_within.then(|| self.start + offset)
    }

    /// The address of bytes that the CPU copies: like a NIC's, they begin and end at multiples of four, else
    /// EINVAL. EFAULT for a range that is not within this memory.
    fn copied(&self, offset: u64, len: usize) -> Result<usize, Errno> {
        let at = self.address_of(offset, len).ok_or(Errno(EFAULT))?;
        let is_aligned = offset % 4 == 0 && len % 4 == 0;
        is_aligned.then_some(at).ok_or(Errno(EINVAL))
    }

    /// Copies from the program's memory. EINVAL for an offset or length that is no multiple of four, EFAULT
    /// for a range that is not within this memory, and where the program's memory cannot be read.
    ///
    /// # Safety
    /// What is mapped at `from` may be read.
    pub unsafe fn write(&self, offset: u64, from: *const u8, len: usize) -> Result<(), Errno> {
        let at = self.copied(offset, len)?;
        let to = core::ptr::with_exposed_provenance_mut(at);
        // SAFETY: the bytes are within the mapping of `allocate`, which no reference points to; the caller
        // says that the device may read the others.
        unsafe { nofault::copy(from, to, len) }.map_err(|Fault| Errno(EFAULT))
    }

    /// Copies to the program's memory, with the errors of [`DeviceMemory::write`].
    ///
    /// # Safety
    /// What is mapped at `to` may be written to.
    pub unsafe fn read(&self, offset: u64, to: *mut u8, len: usize) -> Result<(), Errno> {
        let at = self.copied(offset, len)?;
        let from = core::ptr::with_exposed_provenance(at);
        // SAFETY: as for `write`, with the caller's memory as what is written to.
        unsafe { nofault::copy(from, to, len) }.map_err(|Fault| Errno(EFAULT))
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let whole = self.len.next_multiple_of(page_size());
        if self.start != 0 {
            // SAFETY: the mapping of `allocate`. Regions in it hold a reference, so none is left.
            unsafe { libc::munmap(core::ptr::with_exposed_provenance_mut(self.start), whole) };
        }
        self.allocated.0.fetch_sub(whole, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_memory_is_limited_and_comes_back() {
        let allocated = Arc::new(Allocated::default());
        const LEN: usize = 1 << 20;
        let allocate = |len| DeviceMemory::allocate(&allocated, len, 6, LEN);
        for len in [0, LEN + 1, usize::MAX] {
            assert_eq!(allocate(len).err(), Some(Errno(EINVAL)), "{len}");
        }
        let too_aligned = DeviceMemory::allocate(&allocated, 64, 21, LEN);
        assert_eq!(too_aligned.err(), Some(Errno(EINVAL)));
        let first = allocate(LEN / 2 + 1).unwrap();
        assert_eq!(allocate(LEN / 2).err(), Some(Errno(ENOMEM)));
        let second = allocate(64).unwrap();
        drop((first, second));
        assert!(allocate(LEN).is_ok());
        assert_eq!(allocated.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn copies_stay_within_the_memory() {
        let allocated = Arc::new(Allocated::default());
        let memory = DeviceMemory::allocate(&allocated, 100, 0, 4096).unwrap();
        let (from, mut to) = ([7_u8; 100], [1_u8; 100]);
        // SAFETY: both arrays have 100 bytes, and no copy is longer.
        unsafe {
            assert_eq!(memory.read(0, to.as_mut_ptr(), 100), Ok(()));
            assert_eq!(to, [0; 100]);
            assert_eq!(memory.write(88, from.as_ptr(), 12), Ok(()));
            assert_eq!(memory.read(84, to.as_mut_ptr(), 16), Ok(()));
            assert_eq!((&to[..4], &to[4..16]), (&[0; 4][..], &from[..12]));
            assert_eq!(memory.write(100, from.as_ptr(), 0), Ok(()));
            for (offset, len, errno) in [
                (92, 12, EFAULT),
                (104, 0, EFAULT),
                (u64::MAX, 4, EFAULT),
                (0, 104, EFAULT),
                (2, 4, EINVAL),
                (4, 3, EINVAL),
            ] {
                let written = memory.write(offset, from.as_ptr(), len);
                assert_eq!(written, Err(Errno(errno)), "{offset}");
                let read = memory.read(offset, to.as_mut_ptr(), len);
                assert_eq!(read, Err(Errno(errno)), "{offset}");
            }
            let nowhere = core::ptr::without_provenance(8);
            assert_eq!(memory.write(0, nowhere, 12), Err(Errno(EFAULT)));
        }
    }
}
