//! Memory regions and memory windows: keys, access checks, and every copy from and to the program's
//! memory.
//!
//! Not here: the objects that C sees (`provider/mr.rs`, `provider/mw.rs`), the memory of other
//! processes (`direct`).
//!
//! | file | content |
//! |---|---|
//! | `mr_table.rs` | regions and windows by key, and the access checks; never touches the memory itself |
//! | `parts.rs` | the parts of scatter/gather lists |
//! | `mr_cache.rs`, `cached_by.rs` | regions that a queue pair uses without the table, and which pairs do |
//! | `pins.rs` | regions that are in use without the table's lock |
//! | `keys.rs` | L_Keys and R_Keys that cannot be guessed |
//! | `copy.rs` | the copies |
//! | `prefault.rs` | whether memory is mapped, at registration |
//! | `device_memory.rs`, `dmabuf.rs` | memory that is the device's; memory of other devices |
//! | `on_demand.rs` | regions with on-demand paging: what advice names |
//!
//! A key has a random index of 24 bits and a key byte of 8 bits. For a window of type 2 the program chooses
//! the key byte.
//!
//! Specification: 10.6.

mod cached_by;
mod copy;
mod device_memory;
mod dmabuf;
mod keys;
mod mr_cache;
mod mr_table;
mod on_demand;
mod parts;
mod pins;
mod prefault;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, RwLockReadGuard};

use libc::iovec;
use smallvec::SmallVec;

use crate::direct::Exports;
use crate::nofault::{self, Fault};
use crate::sync::RwLock;
use roce::engine::{Access, Bind, LocalError, RemoteError, Sge};

pub use cached_by::CachedBy;
pub use device_memory::{Allocated, DeviceMemory};
pub use dmabuf::DmaBufMapping;
pub use mr_cache::MrCache;
pub use mr_table::{AccessingQp, Busy, MemoryRegion, MrRange, MwType, PdHandle, Reregistration};
use mr_table::{MrSlice, MrTable};
use parts::{only_part, parts};
use pins::{Pin, Pins};
pub use prefault::prefault;

/// The memory regions and windows of a device. Thread-safe.
///
/// Each access looks its key up under a read lock and holds the lock during the copy. What may take long pins
/// the region instead, and deregistration waits for it: a flush to a file, and a copy from or to the memory
/// of another process. A queue pair that has the region in its cache needs no lock but its own
/// ([`MrCache`]): the device waits for that ([`CachedBy`]), and then a region that is deregistered is not
/// accessed any more.
#[derive(Default)]
pub struct Memory {
    table: RwLock<MrTable>,
    /// How often a region was removed or changed. Written with the table locked.
    changes: AtomicU64,
    pins: Pins,
    /// The table of regions that peers may access directly; not set if they may access none.
    exports: OnceLock<Arc<Exports>>,
    /// How much of the device's own memory is in use.
    pub allocated_device_memory: Arc<Allocated>,
}

impl Memory {
    /// Adds a region; returns its key, which is both L_Key and R_Key.
    pub fn register(&self, mr: MemoryRegion) -> u32 {
        nofault::handler::install();
        let mut table = self.table.write();
        let key = keys::new_key(|index| table.has(index));
        table.add_mr(key, mr);
        if let Some(exports) = self.exports.get() {
            export(exports, key, &mr);
        }
        key
    }

    /// Lets peers access regions directly from now on. Called before the first one is registered.
    pub fn set_exports(&self, exports: Arc<Exports>) {
        let _ = self.exports.set(exports);
    }

    /// Takes a region away from the processes that access it directly.
    fn withdraw(&self, key: u32) {
        if let Some(exports) = self.exports.get() {
            if exports.withdraw_region(key) {
                exports.wait_for_region(key);
            }
        }
    }

    /// Changes a region, which keeps its key, and waits for flushes of the old one. Returns which queue pairs
    /// may still use the old one. Fails if windows are bound to it.
    pub fn reregister(&self, key: u32, change: &Reregistration) -> Result<CachedBy, Busy> {
        let cached_by = self.change(|table| table.reregister(key, change))?;
        self.withdraw(key);
        self.pins.wait_for(key >> 8);
        let table = self.read_table();
        if let (Some(exports), Some(mr)) = (self.exports.get(), table.region(key)) {
            export(exports, key, mr);
        }
        Ok(cached_by)
    }

    /// Removes a region, after copies and flushes in progress. Returns which queue pairs may still use it.
    /// Fails if windows are bound to it.
    pub fn deregister(&self, key: u32) -> Result<CachedBy, Busy> {
        let cached_by = self.change(|table| table.remove_mr(key))?;
        self.await_removed(key);
        Ok(cached_by)
    }

    /// [`Memory::deregister`] that unbinds the region's windows instead of failing.
    pub fn unbind_and_deregister(&self, key: u32) -> CachedBy {
        let cached_by = self.change(|table| table.unbind_and_remove_mr(key));
        self.await_removed(key);
        cached_by
    }

    /// Waits for copies and flushes of a region that is not in the table any more, so that no other thread
    /// pins it.
    fn await_removed(&self, key: u32) {
        self.withdraw(key);
        self.pins.wait_for(key >> 8);
    }

    fn change<T>(&self, change: impl FnOnce(&mut MrTable) -> T) -> T {
        let mut table = self.table.write();
        let changed = change(&mut table);
        self.changes.fetch_add(1, Ordering::Release);
        changed
    }

    /// The memory of a scatter/gather entry, which is not empty, for the queue pair `qpn`, which is locked.
    /// None if the table has to be asked.
    #[inline]
    fn cached<'a>(
        &self,
        cache: &'a mut MrCache,
        qpn: u32,
        sge: &Sge,
        writable: bool,
        pd: PdHandle,
    ) -> Option<MrSlice<'a>> {
        let changes = || self.changes.load(Ordering::Acquire);
        if !cache.has(sge.lkey, writable, changes()) {
            self.add_to_cache(cache, qpn, sge.lkey, writable);
        }
        cache.local(sge, writable, pd, changes())
    }

    /// Adds the region with this L_Key to a queue pair's cache, if there is one.
    #[cold]
    fn add_to_cache(&self, cache: &mut MrCache, qpn: u32, lkey: u32, writable: bool) {
        if cache.is_open() {
            let table = self.read_table();
            if let Some(mr) = table.region_for(lkey, qpn) {
                cache.add(writable, lkey, mr, self.changes.load(Ordering::Acquire));
            }
        }
    }

    /// Adds a window that is not bound; returns its R_Key.
    pub fn alloc_mw(&self, mw_type: MwType, pd: PdHandle) -> u32 {
        let mut table = self.table.write();
        let key = keys::new_key(|index| table.has(index));
        table.add_mw(key, mw_type, pd);
        key
    }

    /// Removes a window, bound or not.
    pub fn dealloc_mw(&self, rkey: u32) {
        self.table.write().remove_mw(rkey);
    }

    /// Executes a bind of `qp`.
    pub fn bind(&self, bind: &Bind, qp: &AccessingQp) -> Result<(), LocalError> {
        self.table.write().bind(bind, qp)
    }

    /// Unbinds the window of type 2 that has this R_Key.
    pub fn invalidate(&self, rkey: u32, qp: &AccessingQp) -> Result<(), LocalError> {
        self.table.write().invalidate(rkey, qp)
    }

    /// Unbinds the windows of type 2 of a queue pair that is destroyed. Modified to RESET, it keeps them, as
    /// with the kernel's rxe.
    pub fn unbind_all_of(&self, qpn: u32) {
        self.table.write().unbind_all_of(qpn);
    }

    fn read_table(&self) -> RwLockReadGuard<'_, MrTable> {
        self.table.read()
    }

    /// Checks a scatter/gather list against its L_Keys; returns its length in bytes.
    pub fn check_local(
        &self,
        sges: &[Sge],
        writable: bool,
        pd: PdHandle,
    ) -> Result<u64, LocalError> {
        let table = self.read_table();
        let mut sum = 0;
        for sge in sges {
            table.local(sge, writable, pd)?;
            sum += u64::from(sge.len);
        }
        Ok(sum)
    }

    /// Calls `call` with the memory of a scatter/gather list, `len` bytes from `offset` on, checked against
    /// its L_Keys. The memory stays registered meanwhile. Fails with [`LocalError::Length`] if the list is
    /// too short.
    pub fn with_local<T>(
        &self,
        sges: &[Sge],
        (offset, len): (u64, usize),
        writable: bool,
        pd: PdHandle,
        call: impl FnOnce(&[iovec]) -> T,
    ) -> Result<T, LocalError> {
        let table = self.read_table();
        let mut vectors = SmallVec::<[iovec; 4]>::new();
        let mut pins = SmallVec::<[Pin<'_>; 4]>::new();
        let has_room =
            vectors.try_reserve(sges.len()).is_ok() && pins.try_reserve(sges.len()).is_ok();
        if !has_room {
            return Err(LocalError::Length);
        }
        let mut left = len;
        for part in parts(sges, offset, len) {
            let slice = table.local(&part, writable, pd)?;
            left -= slice.len;
            vectors.push(vector_of(&slice));
            pins.push(self.pins.pin(part.lkey >> 8).ok_or(LocalError::Length)?);
        }
        if left > 0 {
            return Err(LocalError::Length);
        }
        drop(table);
        Ok(call(&vectors))
    }

    /// [`Memory::with_local`] for the queue pair `qpn`, which is locked.
    #[inline]
    pub fn with_local_for<T>(
        &self,
        (cache, qpn): (&mut MrCache, u32),
        sges: &[Sge],
        (offset, len): (u64, usize),
        writable: bool,
        pd: PdHandle,
        call: impl FnOnce(&[iovec]) -> T,
    ) -> Result<T, LocalError> {
        let part = only_part(sges, offset, len).filter(|part| part.len > 0);
        match part.and_then(|part| self.cached(cache, qpn, &part, writable, pd)) {
            Some(slice) => Ok(call(&[vector_of(&slice)])),
            None => self.with_local(sges, (offset, len), writable, pd, call),
        }
    }

    /// Fills `into` from a scatter/gather list, starting at byte `offset` of the list. Fails with
    /// [`LocalError::Length`] if the list is too short.
    pub fn gather(
        &self,
        sges: &[Sge],
        offset: u64,
        into: &mut [u8],
        pd: PdHandle,
    ) -> Result<(), LocalError> {
        let len = into.len();
        self.for_each_part(sges, (offset, len), false, pd, |slice, range| {
            copy::read(slice, &mut into[range])
        })
    }

    /// Calls `call` with the memory of each part of a scatter/gather list, checked against its L_Key, and
    /// with the part's range of the `len` bytes that begin at byte `offset` of the list. Fails with
    /// [`LocalError::Length`] if the list is too short.
    #[inline]
    fn for_each_part(
        &self,
        sges: &[Sge],
        (offset, len): (u64, usize),
        writable: bool,
        pd: PdHandle,
        mut call: impl FnMut(&MrSlice, Range<usize>) -> Result<(), Fault>,
    ) -> Result<(), LocalError> {
        let table = self.read_table();
        if let Some(part) = only_part(sges, offset, len) {
            return Ok(call(&table.local(&part, writable, pd)?, 0..len)?);
        }
        let mut begin = 0;
        for part in parts(sges, offset, len) {
            let slice = table.local(&part, writable, pd)?;
            let end = begin + slice.len;
            call(&slice, begin..end)?;
            begin = end;
        }
        if begin == len {
            Ok(())
        } else {
            Err(LocalError::Length)
        }
    }

    /// [`Memory::gather`] for the queue pair `qpn`, which is locked.
    #[inline]
    pub fn gather_for(
        &self,
        (cache, qpn): (&mut MrCache, u32),
        sges: &[Sge],
        offset: u64,
        into: &mut [u8],
        pd: PdHandle,
    ) -> Result<(), LocalError> {
        let part = only_part(sges, offset, into.len()).filter(|part| part.len > 0);
        match part.and_then(|part| self.cached(cache, qpn, &part, false, pd)) {
            Some(slice) => Ok(copy::read(&slice, into)?),
            None => self.gather(sges, offset, into, pd),
        }
    }

    /// [`Memory::scatter`] for the queue pair `qpn`, which is locked.
    #[inline]
    pub fn scatter_for(
        &self,
        (cache, qpn): (&mut MrCache, u32),
        sges: &[Sge],
        offset: u64,
        from: &[u8],
        pd: PdHandle,
    ) -> Result<(), LocalError> {
        let part = only_part(sges, offset, from.len()).filter(|part| part.len > 0);
        match part.and_then(|part| self.cached(cache, qpn, &part, true, pd)) {
            Some(slice) => Ok(copy::write(&slice, from)?),
            None => self.scatter(sges, offset, from, pd),
        }
    }

    /// Copies `from` to a scatter/gather list, starting at byte `offset` of the list. Fails with
    /// [`LocalError::Length`] if the list is too short.
    pub fn scatter(
        &self,
        sges: &[Sge],
        offset: u64,
        from: &[u8],
        pd: PdHandle,
    ) -> Result<(), LocalError> {
        self.for_each_part(sges, (offset, from.len()), true, pd, |slice, range| {
            copy::write(slice, &from[range])
        })
    }

    /// Checks a request of the peer of `qp` against its R_Key. A request of length 0 needs no key.
    pub fn check_remote(
        &self,
        rkey: u32,
        va: u64,
        len: u64,
        access: Access,
        qp: &AccessingQp,
    ) -> Result<(), RemoteError> {
        if len == 0 {
            return Ok(());
        }
        self.read_table()
            .remote(rkey, va, len, access, qp)
            .map(drop)
    }

    /// Executes an RDMA WRITE. The last bytes become visible last.
    pub fn write_remote(
        &self,
        rkey: u32,
        va: u64,
        from: &[u8],
        qp: &AccessingQp,
    ) -> Result<(), RemoteError> {
        if from.is_empty() {
            return Ok(());
        }
        let table = self.read_table();
        let slice = table.remote(rkey, va, from.len() as u64, Access::Write, qp)?;
        Ok(copy::write(&slice, from)?)
    }

    /// Executes an RDMA READ.
    pub fn read_remote(
        &self,
        rkey: u32,
        va: u64,
        into: &mut [u8],
        qp: &AccessingQp,
    ) -> Result<(), RemoteError> {
        if into.is_empty() {
            return Ok(());
        }
        let table = self.read_table();
        let slice = table.remote(rkey, va, into.len() as u64, Access::Read, qp)?;
        Ok(copy::read(&slice, into)?)
    }

    /// Executes an ATOMIC operation: replaces eight bytes by `change` of them and returns the old value.
    /// Fails if they are not aligned in the program's memory.
    pub fn atomic(
        &self,
        rkey: u32,
        va: u64,
        change: &mut dyn FnMut(u64) -> u64,
        qp: &AccessingQp,
    ) -> Result<u64, RemoteError> {
        let table = self.read_table();
        let slice = table.remote(rkey, va, 8, Access::Atomic, qp)?;
        Ok(copy::fetch_update(&slice, change)?)
    }

    /// Executes an ATOMIC WRITE of eight bytes. Fails if they are not aligned in the program's memory.
    pub fn atomic_write(
        &self,
        rkey: u32,
        va: u64,
        data: [u8; 8],
        qp: &AccessingQp,
    ) -> Result<(), RemoteError> {
        let table = self.read_table();
        let slice = table.remote(rkey, va, 8, Access::Write, qp)?;
        Ok(copy::store(&slice, data)?)
    }

    /// Executes a FLUSH of a range, or of all that the R_Key gives access to if `whole`: makes earlier writes
    /// visible to all CPUs, or persistent, as `access` says.
    pub fn flush(
        &self,
        rkey: u32,
        va: u64,
        len: u64,
        whole: bool,
        access: Access,
        qp: &AccessingQp,
    ) -> Result<(), RemoteError> {
        let table = self.read_table();
        let slice = if whole {
            table.remote_all(rkey, access, qp)?
        } else if len == 0 {
            return Ok(());
        } else {
            table.remote(rkey, va, len, access, qp)?
        };
        if access != Access::FlushPersistent {
            copy::flush_to_cpus();
            return Ok(());
        }
        let mr_index = table.mr_index(rkey).ok_or(RemoteError)?;
        let _pin = self.pins.pin(mr_index).ok_or(RemoteError)?;
        let (start, len) = (slice.ptr as usize, slice.len);
        drop(table);
        copy::flush_to_file(start, len)
            .then_some(())
            .ok_or(RemoteError)
    }
}

impl From<Fault> for LocalError {
    fn from(_: Fault) -> LocalError {
        LocalError::Protection
    }
}

impl From<Fault> for RemoteError {
    fn from(_: Fault) -> RemoteError {
        RemoteError
    }
}

fn vector_of(slice: &MrSlice) -> iovec {
    iovec {
        iov_base: slice.ptr.cast(),
        iov_len: slice.len,
    }
}

/// Lets peers access a region directly, if its key gives them access at all.
fn export(exports: &Exports, key: u32, mr: &MemoryRegion) {
    if let Some(region) = mr.exported(key) {
        exports.add_region(&region);
    }
}

#[cfg(test)]
mod tests;
