//! The table of what a process lets its peers access: in a memfd, which the process writes and its
//! peers map for reading.
//!
//! Not here: the checks of a request, which the peer makes (`grant.rs`, `imports.rs`).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

#[cfg(not(loom))]
use std::sync::atomic::Ordering;

#[cfg(loom)]
use loom::sync::atomic::Ordering;

use ibverbs_os::{file_size, unix};

use super::accesses::Object;
use super::accessors::{Accessor, Accessors};
use super::grant::{self, ExportedQp, ExportedRegion, WORDS};
use super::imports::TableFd;
use super::liveness::LivenessGuard;
use super::table::{Entry, Mapping, Table};
use crate::descriptors::{self, Owned};
use crate::random::random;
use crate::sync::Mutex;

const SEALS: i32 =
    libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_SEAL;
/// The exports of this process. Thread-safe.
pub struct Exports {
    mapping: Mapping,
    fd: Owned<OwnedFd>,
    /// Held by the thread that writes to the table.
    writer: Mutex<()>,
    accessors: Accessors,
    /// See [`Exports::without_place`].
    without_place: AtomicU64,
}

impl Exports {
    /// An empty table. Fails as memfd_create(2), ftruncate(2), fcntl(2) and mmap(2): with EINVAL before
    /// Linux 5.1, which lets peers write to whatever they can map.
    pub fn create() -> io::Result<Exports> {
        let mut mapping = None;
        let fd = descriptors::open(|| {
            let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
            // SAFETY: the name is a C string, and nothing else knows what memfd_create has just opened.
            let fd = unsafe { unix::owned(libc::memfd_create(c"uroce-exports".as_ptr(), flags))? };
            file_size::set_len(&fd, size_of::<Table>() as u64)?;
            mapping = Some(Mapping::new(
                fd.as_raw_fd(),
                libc::PROT_READ | libc::PROT_WRITE,
            )?);
            // SAFETY: F_ADD_SEALS takes no pointer.
            unix::check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, SEALS) })?;
            Ok(fd)
        })?;
        let mapping: Mapping = mapping.ok_or(io::ErrorKind::InvalidInput)?;
        let table = mapping.table();
        let secret = u64::from(random()) << 32 | u64::from(random());
        table.secret.store(secret, Ordering::Relaxed);
        Ok(Exports {
            mapping,
            fd,
            writer: Mutex::default(),
            accessors: Accessors::default(),
            without_place: AtomicU64::new(0),
        })
    }

    /// The table's descriptor, for peers.
    pub fn place(&self) -> TableFd {
        TableFd {
            fd: self.fd.as_raw_fd(),
            secret: self.mapping.table().secret.load(Ordering::Relaxed),
        }
    }

    /// Lets peers access memory until the guard is dropped or the calling thread ends. Fails as
    /// get_robust_list(2).
    pub fn begin(&self) -> io::Result<LivenessGuard<'_>> {
        self.mapping.table().liveness.begin()
    }

    /// [`Exports::begin`] without a thread.
    #[cfg(test)]
    pub fn begin_for_good(&self) {
        self.mapping.table().liveness.begin_for_good();
    }

    /// Lets peers access a region, unless others have its places.
    pub fn add_region(&self, region: &ExportedRegion) {
        let table = self.mapping.table();
        self.add(|| table.region(region.rkey), region.rkey, region.words());
    }

    /// Lets the peer of a queue pair access memory, unless others have its places. Returns whether it can.
    pub fn add_qp(&self, qp: &ExportedQp) -> bool {
        let table = self.mapping.table();
        self.add(|| table.queue_pair(qp.qpn), qp.qpn, qp.words())
    }

    fn add<'a, P: Iterator<Item = &'a Entry>>(
        &self,
        places: impl Fn() -> P,
        number: u32,
        words: [u64; WORDS],
    ) -> bool {
        let _writer = self.writer.lock();
        let is_free = |entry: &&Entry| !entry.read().is_some_and(|words| grant::is_used(&words));
        let own = entry_of(places(), number);
        let place = own.or_else(|| places().find(is_free));
        match place {
            Some(entry) => entry.write(words),
            None => drop(self.without_place.fetch_add(1, Ordering::Relaxed)),
        }
        place.is_some()
    }

    /// How often something was not exported because others had its places.
    pub fn without_place(&self) -> u64 {
        self.without_place.load(Ordering::Relaxed)
    }

    /// Withdraws a region: from now on no access to it begins. Returns whether one may be in
    /// progress: see [`Exports::wait_for_region`].
    #[must_use]
    pub fn withdraw_region(&self, rkey: u32) -> bool {
        self.withdraw(self.mapping.table().region(rkey), rkey)
    }

    /// Withdraws a queue pair: from now on its peer begins no access. Returns whether one may be in
    /// progress.
    pub fn withdraw_qp(&self, qpn: u32) -> bool {
        self.withdraw(self.mapping.table().queue_pair(qpn), qpn)
    }

    fn withdraw<'a>(&self, places: impl Iterator<Item = &'a Entry>, number: u32) -> bool {
        let _writer = self.writer.lock();
        let own = entry_of(places, number);
        own.into_iter().for_each(|entry| entry.write([0; WORDS]));
        own.is_some()
    }

    /// See [`Accessors::add`].
    pub fn add_accessor(&self, accessor: Arc<dyn Accessor>) -> bool {
        self.accessors.add(accessor)
    }

    /// Forgets the processes that are gone.
    pub fn remove_gone(&self) {
        self.accessors.remove_gone();
    }

    #[cfg(test)]
    pub fn accessor_count(&self) -> usize {
        self.accessors.count()
    }

    /// Blocks until the accesses to a region that were in progress have ended: see [`Accessors::wait`].
    pub fn wait_for_region(&self, rkey: u32) {
        self.accessors.wait(Object::Region(rkey));
    }

    /// Blocks until the accesses of a queue pair's peer that were in progress have ended.
    pub fn wait_for_qp(&self, qpn: u32) {
        self.accessors.wait(Object::QueuePair(qpn));
    }
}

/// The entry of an object. Called with the writer locked.
fn entry_of<'a>(mut places: impl Iterator<Item = &'a Entry>, number: u32) -> Option<&'a Entry> {
    let is_its = |words: [u64; WORDS]| grant::is_of(&words, number);
    places.find(|entry| entry.read().is_some_and(is_its))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::grant::Request;
    use super::super::imports::Imports;
    use super::super::table::{FURTHER, PLACES};

    use super::*;

    const QP: ExportedQp = ExportedQp {
        qpn: 7,
        peer_qpn: 9,
        peer: [3; 16],
        pd: 5,
        access: 2 | 4,
        first_psn: 0xff_ffff,
    };
    const REGION: ExportedRegion = ExportedRegion {
        rkey: 0x0012_3456,
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
        first_psn: 0xff_ffff,
        rkey: 0x0012_3456,
        va: 0x110,
        len: 0x70,
        flag: 2,
    };

    fn import(exports: &Exports) -> Imports {
        let place = exports.place();
        Imports::open(std::process::id() as libc::pid_t, place, place.fd).unwrap()
    }

    fn locate(imports: &Imports, request: &Request) -> Option<u64> {
        imports.find(request).map(|(address, ..)| address)
    }

    #[test]
    fn only_what_the_responder_would_grant_is_located() {
        let exports = Exports::create().unwrap();
        let imports = import(&exports);
        assert_eq!(locate(&imports, &REQUEST), None);
        assert!(exports.add_qp(&QP));
        assert_eq!(locate(&imports, &REQUEST), None);
        exports.add_region(&REGION);
        assert_eq!(locate(&imports, &REQUEST), Some(0x7010));
        let changes: [fn(&mut Request); 11] = [
            |request| request.qpn = 8,
            |request| request.gid = [4; 16],
            |request| request.target_qpn = 8,
            |request| request.first_psn = 0,
            |request| request.rkey = 0x0012_3457,
            |request| request.va = 0xff,
            |request| request.va = 0x111,
            |request| request.va = u64::MAX,
            |request| request.len = 0x71,
            |request| request.len = u64::MAX,
            |request| request.flag = 4,
        ];
        for change in changes {
            let mut request = REQUEST;
            change(&mut request);
            assert_eq!(locate(&imports, &request), None, "{request:?}");
        }
        exports.add_region(&ExportedRegion { pd: 6, ..REGION });
        assert_eq!(locate(&imports, &REQUEST), None);
        exports.add_region(&ExportedRegion {
            access: 2 | 4,
            ..REGION
        });
        assert_eq!(
            locate(&imports, &Request { flag: 4, ..REQUEST }),
            Some(0x7010)
        );
        assert!(exports.withdraw_qp(QP.qpn) && !exports.withdraw_qp(QP.qpn));
        assert_eq!(locate(&imports, &REQUEST), None);
    }

    #[test]
    fn objects_with_the_same_places_are_exported_while_there_is_one() {
        let exports = Exports::create().unwrap();
        let imports = import(&exports);
        assert!(exports.add_qp(&QP));
        let rkeys = (0..).map(|i| REGION.rkey + i * ((FURTHER as u32) << 8));
        let rkeys: Vec<u32> = rkeys.take(2 * PLACES + 1).collect();
        let add = |rkey| exports.add_region(&ExportedRegion { rkey, ..REGION });
        let located = |rkey| locate(&imports, &Request { rkey, ..REQUEST }).is_some();
        rkeys.iter().for_each(|rkey| add(*rkey));
        let (last, others) = rkeys.split_last().unwrap();
        assert!(others.iter().all(|rkey| located(*rkey)) && !located(*last));
        assert_eq!(exports.without_place(), 1);
        assert!(!exports.withdraw_region(*last) && exports.withdraw_region(others[3]));
        add(*last);
        assert!(located(*last) && !located(others[3]));
        // One that changes has its entry already.
        add(others[4]);
        assert!(located(others[4]) && exports.withdraw_region(others[4]) && !located(others[4]));
        assert_eq!(exports.without_place(), 1);
    }

    /// Many more than the first entries hold.
    #[test]
    fn thirty_thousand_regions_are_exported_but_for_some() {
        let exports = Exports::create().unwrap();
        let imports = import(&exports);
        assert!(exports.add_qp(&QP));
        let mut state = 1_u32;
        let mut xorshift = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        let rkeys: Vec<u32> = (0..30_000).map(|_| xorshift()).collect();
        for rkey in &rkeys {
            exports.add_region(&ExportedRegion {
                rkey: *rkey,
                ..REGION
            });
        }
        let is_located = |rkey: &&u32| {
            let request = Request {
                rkey: **rkey,
                ..REQUEST
            };
            locate(&imports, &request).is_some()
        };
        let without_place = exports.without_place() as usize;
        assert!(without_place < 60, "{without_place}");
        let located = rkeys.iter().filter(is_located).count();
        assert_eq!(located, 30_000 - without_place);
    }

    #[test]
    fn peers_cannot_write() {
        let exports = Exports::create().unwrap();
        let TableFd { fd, secret } = exports.place();
        assert!(Mapping::new(fd, libc::PROT_READ | libc::PROT_WRITE).is_err());
        // SAFETY: the bytes are readable.
        let written = unsafe { libc::write(fd, b"x".as_ptr().cast(), 1) };
        assert_eq!(written, -1);
        let path = format!("/proc/self/fd/{fd}");
        let again = std::fs::File::options().write(true).open(path).unwrap();
        assert!(Mapping::new(again.as_raw_fd(), libc::PROT_READ | libc::PROT_WRITE).is_err());
        let secret_again = exports.place().secret;
        assert_eq!(secret, secret_again);
    }

    #[test]
    fn only_the_table_of_that_process_is_imported() {
        let exports = Exports::create().unwrap();
        let pid = std::process::id() as libc::pid_t;
        let place = exports.place();
        let open = |pid, place| Imports::open(pid, place, exports.fd.as_raw_fd());
        assert!(open(pid, place).is_ok());
        let secret = place.secret ^ 1;
        assert!(open(pid, TableFd { secret, ..place }).is_err());
        assert!(open(pid, TableFd::NONE).is_err());
        assert!(open(0, place).is_err());
        // Not on the mount of memfds: who serves the file could let this process wait.
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let fd = file.as_raw_fd();
        assert!(open(pid, TableFd { fd, ..place }).is_err());
        assert!(Imports::open(pid, place, fd).is_err());
    }

    #[test]
    fn a_table_is_found_without_the_memory_of_its_owner() {
        let exports = Exports::create().unwrap();
        let place = exports.place();
        let at: *const Table = exports.mapping.table();
        let protect = |rights| {
            // SAFETY: nothing accesses this mapping of the table while it cannot be.
            let result =
                unsafe { libc::mprotect(at.cast_mut().cast(), size_of::<Table>(), rights) };
            assert_eq!(result, 0);
        };
        protect(libc::PROT_NONE);
        let found = Imports::open(std::process::id() as libc::pid_t, place, place.fd);
        protect(libc::PROT_READ | libc::PROT_WRITE);
        assert!(found.is_ok());
    }

    #[test]
    fn memory_is_accessed_while_the_thread_runs_that_has_begun() {
        let exports = Exports::create().unwrap();
        let imports = import(&exports);
        assert!(imports.process().is_none());
        let guard = exports.begin().unwrap();
        assert!(imports.process().is_some());
        drop(guard);
        assert!(imports.process().is_none());
    }
}
