//! Regions and windows: their keys and rights, and every copy from and to the program's memory.
//!
//! | file | what is in it |
//! |---|---|
//! | `table.rs` | the keys there are, and what a key lets whom do (no access to the memory itself) |
//! | `keys.rs` | keys that cannot be guessed |
//! | `copy.rs` | the copies |
//! | `prefault.rs` | whether memory is there, when it is registered |
//!
//! A key has an index of 24 bits, drawn at random, and a variant of 8 bits; for a window of type 2 the
//! variant is the program's to choose.

mod copy;
mod keys;
mod prefault;
mod table;

use parking_lot::{RwLock, RwLockReadGuard};

use crate::engine::{Access, Bind, LocalError, RemoteError, Sge};

pub use keys::{after_fork, before_fork, random};
pub use prefault::prefault;
use table::Table;
pub use table::{Busy, Domain, Holder, NumberMap, Region, Reregistration, WindowKind};

/// The regions and windows of a device. Keys are looked up at each access, under a read lock that is
/// held during the copy, so that a region that has been deregistered is not touched any more.
#[derive(Default)]
pub struct Memory {
    table: RwLock<Table>,
}

impl Memory {
    /// Adds a region; returns its key, which is both local and remote.
    pub fn register(&self, region: Region) -> u32 {
        let mut table = self.table.write();
        let key = keys::fresh(|index| table.has(index));
        table.add_region(key, region);
        key
    }

    /// Changes a region; its key stays.
    pub fn reregister(&self, key: u32, change: &Reregistration) -> Result<(), Busy> {
        self.table.write().reregister(key, change)
    }

    /// Forgets a region; waits for copies under way.
    pub fn deregister(&self, key: u32) -> Result<(), Busy> {
        self.table.write().remove_region(key)
    }

    /// Adds a window, not bound to anything yet; returns its key.
    pub fn allocate_window(&self, kind: WindowKind, domain: Domain) -> u32 {
        let mut table = self.table.write();
        let key = keys::fresh(|index| table.has(index));
        table.add_window(key, kind, domain);
        key
    }

    /// Forgets a window, bound or not.
    pub fn free_window(&self, key: u32) {
        self.table.write().remove_window(key);
    }

    /// Binds a window by a queue pair of `holder`.
    pub fn bind(&self, bind: &Bind, holder: &Holder) -> Result<(), LocalError> {
        self.table.write().bind(bind, holder)
    }

    /// Unbinds the window of type 2 that has this key.
    pub fn invalidate(&self, rkey: u32, holder: &Holder) -> Result<(), LocalError> {
        self.table.write().invalidate(rkey, holder)
    }

    /// Unbinds the windows of type 2 of a queue pair that goes.
    pub fn unbind_all_of(&self, qpn: u32) {
        self.table.write().unbind_all_of(qpn);
    }

    /// Looks up without changing.
    fn view(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read()
    }

    /// Whether the pieces are good; the sum of their lengths.
    pub fn check_local(
        &self,
        sges: &[Sge],
        writable: bool,
        domain: Domain,
    ) -> Result<u64, LocalError> {
        let view = self.view();
        let mut sum = 0;
        for sge in sges {
            view.local(sge, writable, domain)?;
            sum += u64::from(sge.len);
        }
        Ok(sum)
    }

    /// Copies out of the pieces, from byte `offset` of their sequence on.
    pub fn gather(
        &self,
        sges: &[Sge],
        offset: u64,
        into: &mut [u8],
        domain: Domain,
    ) -> Result<(), LocalError> {
        let view = self.view();
        let mut rest = into;
        for part in parts(sges, offset, rest.len()) {
            let piece = view.local(&part, false, domain)?;
            let (now, later) = rest.split_at_mut(piece.len);
            copy::read(&piece, now);
            rest = later;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(LocalError::Length)
        }
    }

    /// Copies into the pieces, from byte `offset` of their sequence on.
    pub fn scatter(
        &self,
        sges: &[Sge],
        offset: u64,
        from: &[u8],
        domain: Domain,
    ) -> Result<(), LocalError> {
        let view = self.view();
        let mut rest = from;
        for part in parts(sges, offset, rest.len()) {
            let piece = view.local(&part, true, domain)?;
            let (now, later) = rest.split_at(piece.len);
            copy::write(&piece, now);
            rest = later;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(LocalError::Length)
        }
    }

    /// Whether `holder`'s peer may do `access`.
    pub fn check_remote(
        &self,
        rkey: u32,
        va: u64,
        len: u64,
        access: Access,
        holder: &Holder,
    ) -> Result<(), RemoteError> {
        if len == 0 {
            return Ok(());
        }
        self.view().remote(rkey, va, len, access, holder).map(drop)
    }

    /// Writes a peer's bytes; the last ones become visible last.
    pub fn write_remote(
        &self,
        rkey: u32,
        va: u64,
        from: &[u8],
        holder: &Holder,
    ) -> Result<(), RemoteError> {
        if from.is_empty() {
            return Ok(());
        }
        let view = self.view();
        let piece = view.remote(rkey, va, from.len() as u64, Access::Write, holder)?;
        copy::write(&piece, from);
        Ok(())
    }

    /// Reads bytes for a peer.
    pub fn read_remote(
        &self,
        rkey: u32,
        va: u64,
        into: &mut [u8],
        holder: &Holder,
    ) -> Result<(), RemoteError> {
        if into.is_empty() {
            return Ok(());
        }
        let view = self.view();
        let piece = view.remote(rkey, va, into.len() as u64, Access::Read, holder)?;
        copy::read(&piece, into);
        Ok(())
    }

    /// Changes eight bytes atomically; returns what was there.
    pub fn atomic(
        &self,
        rkey: u32,
        va: u64,
        change: &mut dyn FnMut(u64) -> u64,
        holder: &Holder,
    ) -> Result<u64, RemoteError> {
        let view = self.view();
        let piece = view.remote(rkey, va, 8, Access::Atomic, holder)?;
        copy::fetch_update(&piece, change).ok_or(RemoteError)
    }

    /// Writes eight bytes at once.
    pub fn atomic_write(
        &self,
        rkey: u32,
        va: u64,
        data: [u8; 8],
        holder: &Holder,
    ) -> Result<(), RemoteError> {
        let view = self.view();
        let piece = view.remote(rkey, va, 8, Access::Write, holder)?;
        copy::store(&piece, data).ok_or(RemoteError)
    }

    /// Makes a range (or the region) visible to all, or persistent.
    pub fn flush(
        &self,
        rkey: u32,
        va: u64,
        len: u64,
        whole: bool,
        access: Access,
        holder: &Holder,
    ) -> Result<(), RemoteError> {
        let view = self.view();
        let piece = if whole {
            view.whole(rkey, access, holder)?
        } else if len == 0 {
            return Ok(());
        } else {
            view.remote(rkey, va, len, access, holder)?
        };
        copy::flush(&piece, access == Access::FlushPersistent)
            .then_some(())
            .ok_or(RemoteError)
    }
}

/// The parts of `sges` that bytes `offset .. offset + len` of their sequence lie in.
fn parts(sges: &[Sge], offset: u64, len: usize) -> impl Iterator<Item = Sge> {
    let (mut skip, mut left) = (offset, len as u64);
    sges.iter().filter_map(move |sge| {
        let skipped = skip.min(u64::from(sge.len));
        skip -= skipped;
        let len = (u64::from(sge.len) - skipped).min(left);
        left -= len;
        (len > 0).then(|| Sge {
            addr: sge.addr.wrapping_add(skipped),
            len: len as u32,
            lkey: sge.lkey,
        })
    })
}

#[cfg(test)]
mod tests;
