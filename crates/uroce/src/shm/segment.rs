//! The memory of a channel: a memfd that both processes map. It is sealed, so that neither can cut it short
//! under the other, which would then get SIGBUS.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use ibverbs_os::{file_size, unix};

use super::ring::{Key, Ring};
use crate::direct::Accesses;
use crate::random::random;

/// The role of a side, which says from which ring it reads and to which it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Has created the memory.
    Initiator,
    /// Has got it from its peer.
    Acceptor,
}

/// The contents of the memory. Zeros are two empty rings, and no accesses.
#[repr(C)]
struct Rings {
    /// Written by the initiator before the acceptor has the memory, and read once for each mapping.
    key: AtomicU64,
    from_initiator: Ring,
    from_acceptor: Ring,
    by_initiator: Accesses,
    by_acceptor: Accesses,
}

/// Bytes of a channel's memory.
pub const SEGMENT_LEN: usize = size_of::<Rings>();
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// A mapping of a channel's memory. Unmapped when it is dropped.
pub struct Segment {
    content: NonNull<Rings>,
    /// The key of both rings.
    key: Key,
    /// The ring in it that this side produces into.
    outgoing: NonNull<Ring>,
    /// The ring in it that this side consumes from.
    incoming: NonNull<Ring>,
    /// The accesses of this side.
    own_accesses: NonNull<Accesses>,
    /// The accesses of the peer.
    peer_accesses: NonNull<Accesses>,
}

// SAFETY: the mapping belongs to the segment until it is dropped, and all of its content is `Sync`.
unsafe impl Send for Segment {}
// SAFETY: shared references reach the content only, all of which is `Sync`.
unsafe impl Sync for Segment {}

impl Segment {
    /// Creates the memory. Returns its descriptor too, for the peer. Fails as memfd_create(2), ftruncate(2),
    /// fcntl(2) and mmap(2).
    pub fn create() -> io::Result<(Segment, OwnedFd)> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a C string, and nothing else knows what memfd_create has just opened.
        let fd = unsafe { unix::owned(libc::memfd_create(c"uroce-channel".as_ptr(), flags))? };
        file_size::set_len(&fd, SEGMENT_LEN as u64)?;
        // SAFETY: F_ADD_SEALS takes no pointer.
        unix::check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, SEALS) })?;
        let segment = Segment::map_memory(fd.as_raw_fd(), Side::Initiator, true)?;
        Ok((segment, fd))
    }

    /// Maps memory that the peer has created. Fails with EINVAL unless it has the right length and the seals,
    /// and as mmap(2).
    pub fn open(fd: &OwnedFd) -> io::Result<Segment> {
        // SAFETY: F_GET_SEALS takes no pointer; zeros are a valid `stat`, which fstat may fill.
        let valid = unsafe {
            let seals = libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS);
            let mut stat: libc::stat = core::mem::zeroed();
            seals >= 0
                && seals & SEALS == SEALS
                && seals & (libc::F_SEAL_WRITE | libc::F_SEAL_FUTURE_WRITE) == 0
                && libc::fstat(fd.as_raw_fd(), &mut stat) == 0
                && stat.st_size == SEGMENT_LEN as libc::off_t
        };
        if !valid {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Segment::map(fd.as_raw_fd(), Side::Acceptor)
    }

    /// Maps the memory, which was checked or created by [`Segment::open`] or [`Segment::create`]. Fails as
    /// mmap(2).
    pub fn map(fd: RawFd, side: Side) -> io::Result<Segment> {
        Segment::map_memory(fd, side, false)
    }

    /// [`Segment::map`]; `is_new`: the memory has no key yet.
    fn map_memory(fd: RawFd, side: Side, is_new: bool) -> io::Result<Segment> {
        let none = core::ptr::null_mut();
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let at = unsafe { libc::mmap(none, SEGMENT_LEN, prot, libc::MAP_SHARED, fd, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let content = NonNull::new(at.cast()).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: mapped just now, page-aligned, and as long as `Rings`. Every part of `Rings` is atomic or
        // an UnsafeCell, so that others may change it.
        let rings: &Rings = unsafe { content.as_ref() };
        if is_new {
            let key = u64::from(random()) << 32 | u64::from(random());
            rings.key.store(key, Ordering::Relaxed);
        }
        let key = rings.key.load(Ordering::Relaxed);
        let (outgoing, incoming) = match side {
            Side::Initiator => (&rings.from_initiator, &rings.from_acceptor),
            Side::Acceptor => (&rings.from_acceptor, &rings.from_initiator),
        };
        let (own_accesses, peer_accesses) = match side {
            Side::Initiator => (&rings.by_initiator, &rings.by_acceptor),
            Side::Acceptor => (&rings.by_acceptor, &rings.by_initiator),
        };
        Ok(Segment {
            content,
            key: Key(key),
            own_accesses: NonNull::from(own_accesses),
            peer_accesses: NonNull::from(peer_accesses),
            outgoing: NonNull::from(outgoing),
            incoming: NonNull::from(incoming),
        })
    }

    /// Writes bytes from `at` on, up to the end of the memory, whatever lies there.
    #[cfg(any(test, feature = "internals"))]
    pub fn overwrite(&self, at: usize, bytes: &[u8]) {
        let len = bytes.len().min(SEGMENT_LEN.saturating_sub(at));
        // SAFETY: `len` bytes at `at` lie in the mapping, as just computed, and `Rings` may change at any
        // time.
        unsafe {
            let to = self.content.as_ptr().cast::<u8>().add(at.min(SEGMENT_LEN));
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, len);
        }
    }

    /// The key of both rings.
    pub fn key(&self) -> Key {
        self.key
    }

    /// The ring that this side produces into.
    #[inline]
    pub fn outgoing(&self) -> &Ring {
        // SAFETY: `map` took it from the mapping, which is there until `self` is dropped, and cannot be cut
        // short: its length is sealed.
        unsafe { self.outgoing.as_ref() }
    }

    /// The accesses of this side to the peer's memory, as it announces them.
    pub fn own_accesses(&self) -> &Accesses {
        // SAFETY: as `outgoing`: `map` took it from the mapping, which is there until `self` is dropped.
        unsafe { self.own_accesses.as_ref() }
    }

    /// The accesses of the peer to this side's memory, as it announces them.
    pub fn peer_accesses(&self) -> &Accesses {
        // SAFETY: as `outgoing`: `map` took it from the mapping, which is there until `self` is dropped.
        unsafe { self.peer_accesses.as_ref() }
    }

    /// The ring that this side consumes from.
    #[inline]
    pub fn incoming(&self) -> &Ring {
        // SAFETY: as `outgoing`: `map` took it from the mapping, which is there until `self` is dropped.
        unsafe { self.incoming.as_ref() }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the mapping is this segment's, and no reference to it outlives the segment.
        unsafe { libc::munmap(self.content.as_ptr().cast(), SEGMENT_LEN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_see_each_other() {
        let (first, fd) = Segment::create().unwrap();
        let second = Segment::open(&fd).unwrap();
        drop(fd);
        for (from, to) in [(&first, &second), (&second, &first)] {
            assert!(!to.incoming().has_record(to.key(), 0));
            from.outgoing().forge(from.key(), 0, 1, b"packet");
            assert!(to.incoming().has_record(to.key(), 0));
        }
    }

    #[test]
    fn memory_that_can_be_cut_short_is_refused() {
        for (seals, len) in [
            (0, SEGMENT_LEN),
            (libc::F_SEAL_GROW | libc::F_SEAL_SEAL, SEGMENT_LEN),
            (SEALS, SEGMENT_LEN - 1),
            (SEALS, 0),
            (SEALS | libc::F_SEAL_WRITE, SEGMENT_LEN),
        ] {
            // SAFETY: a new memfd; the other calls take no pointers.
            let fd = unsafe {
                let flags = libc::MFD_ALLOW_SEALING | libc::MFD_CLOEXEC;
                let fd = libc::memfd_create(c"test".as_ptr(), flags);
                libc::ftruncate(fd, len as libc::off_t);
                libc::fcntl(fd, libc::F_ADD_SEALS, seals);
                unix::owned(fd).unwrap()
            };
            assert!(Segment::open(&fd).is_err(), "{seals:x} {len}");
        }
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(Segment::open(&file.into()).is_err());
    }
}
