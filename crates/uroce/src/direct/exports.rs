//! What a process lets its peers access: a table in a memfd, which the process writes and its peers map for
//! reading.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::accesses::Accesses;
use crate::descriptors::{self, Owned};
use crate::engine::Gid;
use crate::sync::Mutex;

/// Entries for regions, and for queue pairs. Of those that share an entry only the first is exported.
const ENTRIES: usize = if cfg!(loom) { 1 } else { 4096 };
/// Set in an entry that is in use.
const VALID: u64 = 1 << 63;
const WORDS: usize = 6;
const SEALS: i32 =
    libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_SEAL;
/// How often a target that waits for accesses checks whether the initiator still exists.
const POLLS_PER_CHECK: u32 = 64;
const POLL_INTERVAL: Duration = Duration::from_micros(20);

/// An entry. Its version is odd while the owner writes it.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Entry {
    version: AtomicU32,
    words: [AtomicU64; WORDS],
}

impl Entry {
    /// The owner writes. Only one thread does at a time.
    pub fn write(&self, words: [u64; WORDS]) {
        let version = self.version.load(Ordering::Relaxed);
        self.version
            .store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        for (to, from) in self.words.iter().zip(words) {
            to.store(from, Ordering::Relaxed);
        }
        self.version
            .store(version.wrapping_add(2), Ordering::Release);
    }

    /// What the owner has written. None while it writes.
    pub fn read(&self) -> Option<[u64; WORDS]> {
        let before = self.version.load(Ordering::Acquire);
        let mut words = [0; WORDS];
        for (to, from) in words.iter_mut().zip(&self.words) {
            *to = from.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        let after = self.version.load(Ordering::Relaxed);
        (before == after && before & 1 == 0).then_some(words)
    }
}

/// What lies in the memfd. Zeros: nothing is exported.
#[repr(C)]
struct Table {
    regions: [Entry; ENTRIES],
    queue_pairs: [Entry; ENTRIES],
}

impl Table {
    fn region(&self, rkey: u32) -> &Entry {
        &self.regions[(rkey >> 8) as usize % ENTRIES]
    }

    fn queue_pair(&self, qpn: u32) -> &Entry {
        &self.queue_pairs[qpn as usize % ENTRIES]
    }
}

/// A queue pair whose peer may access memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedQp {
    /// Its number.
    pub qpn: u32,
    /// The number of its peer.
    pub peer_qpn: u32,
    /// The GID of its peer, as packets of the peer have it.
    pub peer: Gid,
    /// Its protection domain.
    pub pd: u32,
    /// What its peer may do, `IBV_ACCESS_REMOTE_*`.
    pub access: u32,
}

/// A memory region whose key gives peers access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedRegion {
    /// Its key.
    pub rkey: u32,
    /// Its protection domain.
    pub pd: u32,
    /// `IBV_ACCESS_*`.
    pub access: u32,
    /// The address of its first byte in the owner's process.
    pub start: u64,
    /// The address that peers use for the first byte.
    pub iova: u64,
    /// Bytes.
    pub len: u64,
}

/// An access that an initiator wants to make.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The number of the initiator's queue pair.
    pub qpn: u32,
    /// The GID of the initiator, as its packets have it.
    pub gid: Gid,
    /// The number of the target's queue pair.
    pub target_qpn: u32,
    /// The R_Key.
    pub rkey: u32,
    /// The address, as in the RETH.
    pub va: u64,
    /// Bytes; not 0.
    pub len: u64,
    /// `IBV_ACCESS_REMOTE_WRITE` or `IBV_ACCESS_REMOTE_READ`.
    pub flag: u32,
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl ExportedQp {
    fn words(&self) -> [u64; WORDS] {
        let gid = u128::from_ne_bytes(self.peer);
        [
            pair(self.qpn, self.peer_qpn),
            pair(self.pd, self.access),
            gid as u64,
            (gid >> 64) as u64,
            0,
            VALID,
        ]
    }

    fn parse(words: &[u64; WORDS]) -> Option<ExportedQp> {
        let qp = ExportedQp {
            qpn: words[0] as u32,
            peer_qpn: (words[0] >> 32) as u32,
            pd: words[1] as u32,
            access: (words[1] >> 32) as u32,
            peer: (u128::from(words[2]) | u128::from(words[3]) << 64).to_ne_bytes(),
        };
        (words[5] == VALID).then_some(qp)
    }
}

impl ExportedRegion {
    fn words(&self) -> [u64; WORDS] {
        [
            pair(self.rkey, self.pd),
            self.start,
            self.iova,
            self.len,
            self.access.into(),
            VALID,
        ]
    }

    fn parse(words: &[u64; WORDS]) -> Option<ExportedRegion> {
        let region = ExportedRegion {
            rkey: words[0] as u32,
            pd: (words[0] >> 32) as u32,
            start: words[1],
            iova: words[2],
            len: words[3],
            access: words[4] as u32,
        };
        (words[5] == VALID).then_some(region)
    }
}

/// Returns where the bytes are in the target's process. None if its responder would not grant the request.
fn locate(qp: &ExportedQp, region: &ExportedRegion, request: &Request) -> Option<u64> {
    let offset = request.va.checked_sub(region.iova)?;
    let granted = qp.qpn == request.target_qpn
        && qp.peer_qpn == request.qpn
        && qp.peer == request.gid
        && region.rkey == request.rkey
        && region.pd == qp.pd
        && qp.access & region.access & request.flag != 0
        && request.len <= region.len
        && offset <= region.len - request.len;
    if granted {
        region.start.checked_add(offset)
    } else {
        None
    }
}

/// A mapping of a table.
struct Mapping(NonNull<Table>);

// SAFETY: all of a table is `Sync`, and the mapping belongs to its owner until that is dropped.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(fd: RawFd, prot: i32) -> io::Result<Mapping> {
        let none = core::ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses.
        let at = unsafe { libc::mmap(none, size_of::<Table>(), prot, libc::MAP_SHARED, fd, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let table = NonNull::new(at.cast()).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Mapping(table))
    }

    fn table(&self) -> &Table {
        // SAFETY: mapped until `self` is dropped, as long as a `Table`, and cannot be cut short: its length
        // is sealed. All of it is atomic, so that its owner may change it.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and no reference to it is left.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Table>()) };
    }
}

/// A process that may access what is exported.
pub trait Accessor: Send + Sync {
    /// What it announces.
    fn accesses(&self) -> &Accesses;
    /// Whether the process has ended, or has closed the device. May make a system call.
    fn is_gone(&self) -> bool;
}

/// What this process exports. Thread-safe.
pub struct Exports {
    mapping: Mapping,
    fd: Owned<OwnedFd>,
    /// Held by the thread that writes to the table.
    writer: Mutex<()>,
    accessors: Mutex<Vec<Arc<dyn Accessor>>>,
}

impl Exports {
    /// An empty table. Fails as memfd_create(2), ftruncate(2), fcntl(2) and mmap(2): with EINVAL before
    /// Linux 5.1, which lets peers write to whatever they can map.
    pub fn create() -> io::Result<Exports> {
        let mut mapping = None;
        let fd = descriptors::open(|| {
            let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
            // SAFETY: the name is a C string.
            let fd = unsafe { libc::memfd_create(c"uroce-exports".as_ptr(), flags) };
            check(fd)?;
            // SAFETY: memfd_create has just opened it, and nothing else knows it.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            // SAFETY: ftruncate takes no pointer.
            check(unsafe { libc::ftruncate(fd.as_raw_fd(), size_of::<Table>() as libc::off_t) })?;
            mapping = Some(Mapping::new(
                fd.as_raw_fd(),
                libc::PROT_READ | libc::PROT_WRITE,
            )?);
            // SAFETY: F_ADD_SEALS takes no pointer.
            check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, SEALS) })?;
            Ok(fd)
        })?;
        Ok(Exports {
            mapping: mapping.ok_or(io::ErrorKind::InvalidInput)?,
            fd,
            writer: Mutex::default(),
            accessors: Mutex::default(),
        })
    }

    /// The descriptor for peers.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Lets peers access a region, unless another one has its entry.
    pub fn add_region(&self, region: &ExportedRegion) {
        let entry = self.mapping.table().region(region.rkey);
        self.add(entry, region.words());
    }

    /// Lets the peer of a queue pair access memory, unless another one has its entry. Returns whether it can.
    pub fn add_qp(&self, qp: &ExportedQp) -> bool {
        self.add(self.mapping.table().queue_pair(qp.qpn), qp.words())
    }

    fn add(&self, entry: &Entry, words: [u64; WORDS]) -> bool {
        let _writer = self.writer.lock();
        let used = entry.read().filter(|words| words[5] == VALID);
        // What the first word identifies is the same object, which has changed.
        let is_free = used.is_none_or(|used| used[0] as u32 == words[0] as u32);
        if is_free {
            entry.write(words);
        }
        is_free
    }

    /// From now on no access to a region begins. Returns whether one may be in progress: see
    /// [`Exports::wait`].
    #[must_use]
    pub fn withdraw_region(&self, rkey: u32) -> bool {
        self.withdraw(self.mapping.table().region(rkey), rkey)
    }

    /// From now on the peer of a queue pair begins no access. Returns whether one may be in progress.
    pub fn withdraw_qp(&self, qpn: u32) -> bool {
        self.withdraw(self.mapping.table().queue_pair(qpn), qpn)
    }

    fn withdraw(&self, entry: &Entry, key: u32) -> bool {
        let _writer = self.writer.lock();
        let used = entry.read().filter(|words| words[5] == VALID);
        let is_its = used.is_some_and(|used| used[0] as u32 == key);
        if is_its {
            entry.write([0; WORDS]);
        }
        is_its
    }

    /// From now on [`Exports::wait`] waits for the accesses of this process. Without memory it is not added,
    /// and false is returned: it must not get the table.
    pub fn add_accessor(&self, accessor: Arc<dyn Accessor>) -> bool {
        let mut accessors = self.accessors.lock();
        let added = accessors.try_reserve(1).is_ok();
        if added {
            accessors.push(accessor);
        }
        added
    }

    /// Forgets the processes that are gone.
    pub fn remove_gone(&self) {
        self.accessors.lock().retain(|accessor| !accessor.is_gone());
    }

    /// Blocks until the accesses that were in progress have ended, or their processes have. An access takes
    /// as long as its copy; an initiator that is stopped in between stops the caller too.
    pub fn wait(&self) {
        // After the table was written: see `direct/mod.rs`.
        fence(Ordering::SeqCst);
        let accessors = self.accessors.lock().clone();
        for accessor in &accessors {
            for slot in 0..Accesses::SLOTS {
                wait_for(accessor.as_ref(), slot);
            }
        }
    }
}

/// Blocks until the access that is in progress in a slot has ended.
fn wait_for(accessor: &dyn Accessor, slot: usize) {
    let Some(first) = accessor.accesses().in_progress(slot) else {
        return;
    };
    let mut polls = 0;
    while accessor.accesses().in_progress(slot) == Some(first) {
        polls += 1;
        if polls % POLLS_PER_CHECK == 0 && accessor.is_gone() {
            return;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// What another process exports.
pub struct Imports(Mapping);

impl Imports {
    /// Maps the table of another process. Fails with EINVAL unless it has the right length and seals, and as
    /// mmap(2).
    pub fn open(fd: &OwnedFd) -> io::Result<Imports> {
        // SAFETY: F_GET_SEALS takes no pointer; zeros are a valid `stat`, which fstat may fill.
        let valid = unsafe {
            let seals = libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS);
            let mut stat: libc::stat = core::mem::zeroed();
            seals >= 0
                && seals & libc::F_SEAL_SHRINK != 0
                && libc::fstat(fd.as_raw_fd(), &mut stat) == 0
                && stat.st_size == size_of::<Table>() as libc::off_t
        };
        if !valid {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Mapping::new(fd.as_raw_fd(), libc::PROT_READ).map(Imports)
    }

    /// Where the bytes of a request are in the process. None if it does not export them to the initiator, or
    /// is changing that. The caller has announced the access.
    pub fn locate(&self, request: &Request) -> Option<u64> {
        let table = self.0.table();
        let qp = ExportedQp::parse(&table.queue_pair(request.target_qpn).read()?)?;
        let region = ExportedRegion::parse(&table.region(request.rkey).read()?)?;
        locate(&qp, &region, request)
    }
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    const QP: ExportedQp = ExportedQp {
        qpn: 7,
        peer_qpn: 9,
        peer: [3; 16],
        pd: 5,
        access: 2 | 4,
    };
    const REGION: ExportedRegion = ExportedRegion {
        rkey: 0x1234_56,
        pd: 5,
        access: 2,
        start: 0x7000,
        iova: 0x100,
        len: 0x80,
    };
    const REQUEST: Request = Request {
        qpn: 9,
        gid: [3; 16],
        target_qpn: 7,
        rkey: 0x1234_56,
        va: 0x110,
        len: 0x70,
        flag: 2,
    };

    fn import(exports: &Exports) -> Imports {
        // SAFETY: the new descriptor belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(libc::dup(exports.fd())) };
        Imports::open(&fd).unwrap()
    }

    #[test]
    fn only_what_the_responder_would_grant_is_located() {
        let exports = Exports::create().unwrap();
        let imports = import(&exports);
        assert_eq!(imports.locate(&REQUEST), None);
        assert!(exports.add_qp(&QP));
        assert_eq!(imports.locate(&REQUEST), None);
        exports.add_region(&REGION);
        assert_eq!(imports.locate(&REQUEST), Some(0x7010));
        let refused = [
            Request { qpn: 8, ..REQUEST },
            Request {
                gid: [4; 16],
                ..REQUEST
            },
            Request {
                target_qpn: 8,
                ..REQUEST
            },
            Request {
                rkey: 0x1234_57,
                ..REQUEST
            },
            Request {
                va: 0xff,
                ..REQUEST
            },
            Request {
                va: 0x111,
                ..REQUEST
            },
            Request {
                va: u64::MAX,
                ..REQUEST
            },
            Request {
                len: 0x71,
                ..REQUEST
            },
            Request {
                len: u64::MAX,
                ..REQUEST
            },
            Request { flag: 4, ..REQUEST },
        ];
        for request in refused {
            assert_eq!(imports.locate(&request), None, "{request:?}");
        }
        exports.add_region(&ExportedRegion { pd: 6, ..REGION });
        assert_eq!(imports.locate(&REQUEST), None);
        exports.add_region(&ExportedRegion {
            access: 2 | 4,
            ..REGION
        });
        assert_eq!(
            imports.locate(&Request { flag: 4, ..REQUEST }),
            Some(0x7010)
        );
        assert!(exports.withdraw_qp(QP.qpn) && !exports.withdraw_qp(QP.qpn));
        assert_eq!(imports.locate(&REQUEST), None);
    }

    #[test]
    fn of_two_with_one_entry_the_first_is_exported() {
        let exports = Exports::create().unwrap();
        let imports = import(&exports);
        let other = 0x1234_56 + ((ENTRIES as u32) << 8);
        assert!(exports.add_qp(&QP));
        exports.add_region(&REGION);
        exports.add_region(&ExportedRegion {
            rkey: other,
            ..REGION
        });
        assert!(!exports.withdraw_region(other));
        assert_eq!(imports.locate(&REQUEST), Some(0x7010));
        assert!(exports.withdraw_region(REGION.rkey));
        exports.add_region(&ExportedRegion {
            rkey: other,
            ..REGION
        });
        assert_eq!(imports.locate(&REQUEST), None);
        let request = Request {
            rkey: other,
            ..REQUEST
        };
        assert_eq!(imports.locate(&request), Some(0x7010));
    }

    #[test]
    fn peers_cannot_write() {
        let exports = Exports::create().unwrap();
        assert!(Mapping::new(exports.fd(), libc::PROT_READ | libc::PROT_WRITE).is_err());
        // SAFETY: the bytes are readable.
        let written = unsafe { libc::write(exports.fd(), b"x".as_ptr().cast(), 1) };
        assert_eq!(written, -1);
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(Imports::open(&file.into()).is_err());
    }

    #[derive(Default)]
    struct TestAccessor {
        accesses: Accesses,
        gone: AtomicBool,
    }

    impl Accessor for TestAccessor {
        fn accesses(&self) -> &Accesses {
            &self.accesses
        }

        fn is_gone(&self) -> bool {
            self.gone.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn withdrawing_waits_for_accesses_and_not_for_the_dead() {
        let exports = Exports::create().unwrap();
        let [alive, dead] = [(); 2].map(|()| Arc::new(TestAccessor::default()));
        assert!(exports.add_accessor(alive.clone()) && exports.add_accessor(dead.clone()));
        exports.wait();
        alive.accesses.begin(1);
        dead.accesses.begin(2);
        dead.gone.store(true, Ordering::Relaxed);
        let waited = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                exports.wait();
                waited.store(true, Ordering::SeqCst);
            });
            thread::sleep(Duration::from_millis(50));
            assert!(!waited.load(Ordering::SeqCst));
            alive.accesses.end(1);
        });
        assert!(waited.load(Ordering::SeqCst));
        exports.remove_gone();
        assert_eq!(exports.accessors.lock().len(), 1);
    }
}
