//! [`MrTable`]: the memory regions and memory windows of a device by key, and the access checks.
//!
//! It computes the pointer of an [`MrSlice`] and never follows it: the copies are in `copy.rs`.
//!
//! Specification: 10.6.

use std::collections::hash_map::Entry;
use std::marker::PhantomData;

use ibverbs_abi::*;
use rustc_hash::FxHashMap;

use super::cached_by::{CachedBy, CachedBySet};
use crate::direct::ExportedRegion;
use roce::engine::{Access, Bind, LocalError, RemoteError, Sge};

/// A protection domain, by its number in the device (`ibv_pd.handle`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PdHandle(pub u32);

/// The queue pair on whose behalf memory is accessed: the responder of a remote request, or the QP that
/// binds or invalidates a memory window.
pub struct AccessingQp<'a> {
    /// The queue pair's number.
    pub qpn: u32,
    /// The protection domains whose memory its peer may access: its own, or for an XRC target QP those of
    /// the XRC domain's shared receive queues.
    pub pds: &'a [PdHandle],
}

/// The memory of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MrRange {
    /// Address of the first byte in this process.
    pub start: usize,
    /// Length in bytes.
    pub len: u64,
    /// The address that work requests and peers use for the first byte.
    pub iova: u64,
}

/// A memory region.
#[derive(Clone, Copy, Debug)]
pub struct MemoryRegion {
    /// The protection domain that it was registered in.
    pub pd: PdHandle,
    /// The memory of the region.
    pub range: MrRange,
    /// `IBV_ACCESS_*`.
    pub access: u32,
}

/// The changes that `ibv_rereg_mr` makes to a memory region.
pub struct Reregistration {
    /// The new protection domain.
    pub pd: Option<PdHandle>,
    /// The new range.
    pub range: Option<MrRange>,
    /// The new `IBV_ACCESS_*`.
    pub access: Option<u32>,
}

/// Refused because memory windows are bound to the region (EBUSY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// `ibv_mw_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MwType {
    /// Usable through every queue pair of its protection domain.
    Type1,
    /// Usable only through the queue pair that bound it (type 2B).
    Type2,
}

/// The part of a region that a memory window is bound to.
#[derive(Clone, Copy, Debug)]
struct MwBinding {
    /// Index of the region's key.
    mr_index: u32,
    /// The address of the window's first byte, as in the region.
    addr: u64,
    len: u64,
    /// `IBV_ACCESS_*`.
    access: u32,
    /// The queue pair that bound it.
    qpn: u32,
}

struct MemoryWindow {
    mw_type: MwType,
    pd: PdHandle,
    binding: Option<MwBinding>,
}

enum KeyObject {
    Mr {
        mr: MemoryRegion,
        bound_mws: u32,
        cached_by: CachedBySet,
    },
    Mw(MemoryWindow),
}

struct KeyEntry {
    /// The lower 8 bits of the key.
    key_byte: u8,
    object: KeyObject,
}

/// Bytes of a memory region, checked. Valid as long as the table does not change, or the queue pair that
/// knows the region is locked.
pub struct MrSlice<'a> {
    /// The address of the first byte.
    pub ptr: *mut u8,
    /// The length in bytes.
    pub len: usize,
    table: PhantomData<&'a MrTable>,
}

/// The bytes of a memory region that an R_Key gives access to.
struct RemoteRange<'a> {
    mr: &'a MemoryRegion,
    /// The address of the first byte in the peer's requests: 0 for a zero-based window.
    va: u64,
    len: u64,
    /// The same byte's address in the region.
    iova: u64,
}

/// The memory regions and windows of a device, by the upper 24 bits of their keys.
#[derive(Default)]
pub struct MrTable {
    /// The indices are random already and not the program's to choose, so a fast hash is enough.
    entries: FxHashMap<u32, KeyEntry>,
}

/// The access flag that a region or window must have for a peer's access.
fn required_flag(access: Access) -> u32 {
    match access {
        Access::Read => IBV_ACCESS_REMOTE_READ,
        Access::Write => IBV_ACCESS_REMOTE_WRITE,
        Access::Atomic => IBV_ACCESS_REMOTE_ATOMIC,
        Access::FlushGlobal => IBV_ACCESS_FLUSH_GLOBAL,
        Access::FlushPersistent => IBV_ACCESS_FLUSH_PERSISTENT,
    }
}

/// Whether `len` bytes at `addr` lie within `size` bytes at `base`.
fn within(addr: u64, len: u64, base: u64, size: u64) -> bool {
    addr >= base && len <= size && addr - base <= size - len
}

impl MemoryRegion {
    /// Describes the region to peers that read and write it directly; None if they may not.
    pub fn exported(&self, key: u32) -> Option<ExportedRegion> {
        let allowed = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        (self.access & allowed != 0).then_some(ExportedRegion {
            rkey: key,
            pd: self.pd.0,
            access: self.access,
            start: self.range.start as u64,
            iova: self.range.iova,
            len: self.range.len,
        })
    }

    /// The memory of a scatter/gather entry with this region's L_Key. None if that is not allowed.
    #[inline]
    pub fn local(&self, sge: &Sge, writable: bool, pd: PdHandle) -> Option<MrSlice<'_>> {
        let is_allowed = self.pd == pd
            && (!writable || self.access & IBV_ACCESS_LOCAL_WRITE != 0)
            && within(sge.addr, sge.len.into(), self.range.iova, self.range.len);
        is_allowed.then(|| self.slice(sge.addr, sge.len.into()))
    }

    /// `len` bytes at `addr`, which the caller has found to lie within the region.
    fn slice(&self, addr: u64, len: u64) -> MrSlice<'_> {
        let offset = (addr - self.range.iova) as usize;
        MrSlice {
            ptr: core::ptr::with_exposed_provenance_mut(self.range.start + offset),
            len: len as usize,
            table: PhantomData,
        }
    }
}

impl MrTable {
    /// Whether a key with this index exists.
    pub fn has(&self, index: u32) -> bool {
        self.entries.contains_key(&index)
    }

    /// The region with this key.
    pub fn region(&self, key: u32) -> Option<&MemoryRegion> {
        match self.entries.get(&(key >> 8))? {
            KeyEntry {
                key_byte,
                object: KeyObject::Mr { mr, .. },
            } if *key_byte == key as u8 => Some(mr),
            _ => None,
        }
    }

    /// Adds a memory region. The key's index is not in the table.
    pub fn add_mr(&mut self, key: u32, mr: MemoryRegion) {
        let object = KeyObject::Mr {
            mr,
            bound_mws: 0,
            cached_by: CachedBySet::default(),
        };
        self.add(key, object);
    }

    /// Adds a memory window, not bound. The key's index is not in the table.
    pub fn add_mw(&mut self, key: u32, mw_type: MwType, pd: PdHandle) {
        let window = MemoryWindow {
            mw_type,
            pd,
            binding: None,
        };
        self.add(key, KeyObject::Mw(window));
    }

    fn add(&mut self, key: u32, object: KeyObject) {
        let key_byte = key as u8;
        self.entries.insert(key >> 8, KeyEntry { key_byte, object });
    }

    /// The number of windows bound to the region with this index.
    fn bound_mws_mut(&mut self, index: u32) -> Option<&mut u32> {
        match &mut self.entries.get_mut(&index)?.object {
            KeyObject::Mr { bound_mws, .. } => Some(bound_mws),
            KeyObject::Mw(_) => None,
        }
    }

    /// The region with this L_Key; from now on the queue pair may have it in its cache.
    pub fn region_for(&self, lkey: u32, qpn: u32) -> Option<MemoryRegion> {
        match self.entries.get(&(lkey >> 8)) {
            Some(KeyEntry {
                key_byte,
                object: KeyObject::Mr { mr, cached_by, .. },
            }) if *key_byte == lkey as u8 => {
                cached_by.add(qpn);
                Some(*mr)
            }
            _ => None,
        }
    }

    /// The window with the index of `rkey`, and the lower byte of its current R_Key.
    fn mw_mut(&mut self, rkey: u32) -> Option<(&mut u8, &mut MemoryWindow)> {
        match self.entries.get_mut(&(rkey >> 8))? {
            KeyEntry {
                key_byte,
                object: KeyObject::Mw(mw),
            } => Some((key_byte, mw)),
            _ => None,
        }
    }

    /// Changes a region; a key that is not a region's is ignored. Returns who may know the old one. Fails
    /// while a window is bound to it.
    pub fn reregister(&mut self, key: u32, change: &Reregistration) -> Result<CachedBy, Busy> {
        let entry = self.entries.get_mut(&(key >> 8));
        let Some(KeyObject::Mr {
            mr,
            bound_mws,
            cached_by,
        }) = entry.map(|entry| &mut entry.object)
        else {
            return Ok(CachedBy::None);
        };
        if *bound_mws > 0 {
            return Err(Busy);
        }
        mr.pd = change.pd.unwrap_or(mr.pd);
        mr.range = change.range.unwrap_or(mr.range);
        mr.access = change.access.unwrap_or(mr.access);
        Ok(cached_by.take())
    }

    /// Removes a region; a key that is not a region's is ignored. Returns who may know it. Fails while a
    /// window is bound to it.
    pub fn remove_mr(&mut self, key: u32) -> Result<CachedBy, Busy> {
        match self.bound_mws_mut(key >> 8) {
            Some(1..) => Err(Busy),
            _ => Ok(self.take_mr(key)),
        }
    }

    /// [`MrTable::remove_mr`] that unbinds the region's windows instead of failing.
    pub fn unbind_and_remove_mr(&mut self, key: u32) -> CachedBy {
        if let Some(1..) = self.bound_mws_mut(key >> 8) {
            self.unbind_where(|_, binding| binding.mr_index == key >> 8);
        }
        self.take_mr(key)
    }

    /// Removes a region to which no window is bound. Returns who may know it.
    fn take_mr(&mut self, key: u32) -> CachedBy {
        let Entry::Occupied(mut entry) = self.entries.entry(key >> 8) else {
            return CachedBy::None;
        };
        let KeyObject::Mr { cached_by, .. } = &mut entry.get_mut().object else {
            return CachedBy::None;
        };
        let cached_by = cached_by.take();
        entry.remove();
        cached_by
    }

    /// Removes a window, bound or not; a key that is not a window's is ignored.
    pub fn remove_mw(&mut self, key: u32) {
        let Some((_, mw)) = self.mw_mut(key) else {
            return;
        };
        let binding = mw.binding;
        self.entries.remove(&(key >> 8));
        self.drop_binding(binding);
    }

    /// Decrements the region's count of bound windows.
    fn drop_binding(&mut self, binding: Option<MwBinding>) {
        if let Some(count) = binding.and_then(|binding| self.bound_mws_mut(binding.mr_index)) {
            *count -= 1;
        }
    }

    /// Binds the window with the index of `bind.rkey`, which becomes its R_Key. Length 0 unbinds a window of
    /// type 1. A window of type 2 must be unbound. Its new key may be the one that it has.
    pub fn bind(&mut self, bind: &Bind, qp: &AccessingQp) -> Result<(), LocalError> {
        const FAILED: LocalError = LocalError::Bind;
        let (_, mw) = self.mw_mut(bind.rkey).ok_or(FAILED)?;
        let (mw_type, pd, old) = (mw.mw_type, mw.pd, mw.binding);
        if !qp.pds.contains(&pd) {
            return Err(FAILED);
        }
        if mw_type == MwType::Type2 && (old.is_some() || bind.len == 0) {
            return Err(FAILED);
        }
        let binding = if bind.len == 0 {
            None
        } else {
            Some(self.check_bind(bind, pd, qp.qpn).ok_or(FAILED)?)
        };
        if let Some(count) = binding.and_then(|binding| self.bound_mws_mut(binding.mr_index)) {
            *count += 1;
        }
        if let Some((key_byte, mw)) = self.mw_mut(bind.rkey) {
            *key_byte = bind.rkey as u8;
            mw.binding = binding;
        }
        self.drop_binding(old);
        Ok(())
    }

    /// The binding that `bind` asks for; None if the region does not allow it.
    fn check_bind(&self, bind: &Bind, pd: PdHandle, qpn: u32) -> Option<MwBinding> {
        const WRITES: u32 = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
        let entry = self.entries.get(&(bind.mr_lkey >> 8))?;
        let KeyObject::Mr { mr, .. } = &entry.object else {
            return None;
        };
        let allowed = entry.key_byte == bind.mr_lkey as u8
            && mr.pd == pd
            && mr.access & IBV_ACCESS_MW_BIND != 0
            && (bind.access & WRITES == 0 || mr.access & IBV_ACCESS_LOCAL_WRITE != 0)
            && within(bind.addr, bind.len, mr.range.iova, mr.range.len);
        allowed.then_some(MwBinding {
            mr_index: bind.mr_lkey >> 8,
            addr: bind.addr,
            len: bind.len,
            access: bind.access,
            qpn,
        })
    }

    /// Unbinds the window of type 2 that has this R_Key and was bound by `qp`.
    pub fn invalidate(&mut self, rkey: u32, qp: &AccessingQp) -> Result<(), LocalError> {
        let (key_byte, mw) = self.mw_mut(rkey).ok_or(LocalError::Bind)?;
        let allowed = *key_byte == rkey as u8
            && mw.mw_type == MwType::Type2
            && qp.pds.contains(&mw.pd)
            && mw.binding.is_some_and(|binding| binding.qpn == qp.qpn);
        if !allowed {
            return Err(LocalError::Bind);
        }
        let binding = mw.binding.take();
        self.drop_binding(binding);
        Ok(())
    }

    /// Unbinds the windows of type 2 that the queue pair has bound.
    pub fn unbind_all_of(&mut self, qpn: u32) {
        self.unbind_where(|mw, binding| mw.mw_type == MwType::Type2 && binding.qpn == qpn);
    }

    /// Unbinds the windows of which `applies` returns true.
    fn unbind_where(&mut self, applies: impl Fn(&MemoryWindow, &MwBinding) -> bool) {
        let mut unbound = Vec::new();
        for entry in self.entries.values_mut() {
            if let KeyObject::Mw(mw) = &mut entry.object {
                if mw.binding.is_some_and(|binding| applies(mw, &binding)) {
                    unbound.push(mw.binding.take());
                }
            }
        }
        for binding in unbound {
            self.drop_binding(binding);
        }
    }

    /// The memory of a scatter/gather entry, checked against its L_Key. An entry of length 0 needs no key.
    #[inline]
    pub fn local(
        &self,
        sge: &Sge,
        writable: bool,
        pd: PdHandle,
    ) -> Result<MrSlice<'_>, LocalError> {
        if sge.len == 0 {
            return Ok(MrSlice {
                ptr: core::ptr::NonNull::dangling().as_ptr(),
                len: 0,
                table: PhantomData,
            });
        }
        match self.entries.get(&(sge.lkey >> 8)) {
            Some(KeyEntry {
                key_byte,
                object: KeyObject::Mr { mr, .. },
            }) if *key_byte == sge.lkey as u8 => mr.local(sge, writable, pd),
            _ => None,
        }
        .ok_or(LocalError::Protection)
    }

    /// The memory that a peer's request names, checked against its R_Key.
    pub fn remote(
        &self,
        rkey: u32,
        va: u64,
        len: u64,
        access: Access,
        qp: &AccessingQp,
    ) -> Result<MrSlice<'_>, RemoteError> {
        let range = self.remote_range(rkey, access, qp)?;
        if within(va, len, range.va, range.len) {
            Ok(range.mr.slice(va - range.va + range.iova, len))
        } else {
            Err(RemoteError)
        }
    }

    /// The index of the region that an R_Key gives access to.
    pub fn mr_index(&self, rkey: u32) -> Option<u32> {
        match &self.entries.get(&(rkey >> 8))?.object {
            KeyObject::Mr { .. } => Some(rkey >> 8),
            KeyObject::Mw(mw) => mw.binding.map(|binding| binding.mr_index),
        }
    }

    /// All the memory that an R_Key gives access to.
    pub fn remote_all(
        &self,
        rkey: u32,
        access: Access,
        qp: &AccessingQp,
    ) -> Result<MrSlice<'_>, RemoteError> {
        let range = self.remote_range(rkey, access, qp)?;
        Ok(range.mr.slice(range.iova, range.len))
    }

    /// Checks R_Key, protection domain and access flags, but no address.
    fn remote_range(
        &self,
        rkey: u32,
        access: Access,
        qp: &AccessingQp,
    ) -> Result<RemoteRange<'_>, RemoteError> {
        let entry = self.entries.get(&(rkey >> 8)).ok_or(RemoteError)?;
        if entry.key_byte != rkey as u8 {
            return Err(RemoteError);
        }
        let (pd, flags, range) = match &entry.object {
            KeyObject::Mr { mr, .. } => (mr.pd, mr.access, mr.remote_range()),
            KeyObject::Mw(mw) => {
                let binding = mw.binding_for(qp).ok_or(RemoteError)?;
                (mw.pd, binding.access, self.window_range(binding)?)
            }
        };
        if !qp.pds.contains(&pd) || flags & required_flag(access) == 0 {
            return Err(RemoteError);
        }
        Ok(range)
    }

    fn window_range(&self, binding: &MwBinding) -> Result<RemoteRange<'_>, RemoteError> {
        let entry = self.entries.get(&binding.mr_index).ok_or(RemoteError)?;
        let KeyObject::Mr { mr, .. } = &entry.object else {
            return Err(RemoteError);
        };
        let zero_based = binding.access & IBV_ACCESS_ZERO_BASED != 0;
        Ok(RemoteRange {
            mr,
            va: if zero_based { 0 } else { binding.addr },
            len: binding.len,
            iova: binding.addr,
        })
    }
}

impl MemoryRegion {
    fn remote_range(&self) -> RemoteRange<'_> {
        RemoteRange {
            mr: self,
            va: self.range.iova,
            len: self.range.len,
            iova: self.range.iova,
        }
    }
}

impl MemoryWindow {
    /// The binding of the window, if `qp` may use it.
    fn binding_for(&self, qp: &AccessingQp) -> Option<&MwBinding> {
        let binding = self.binding.as_ref()?;
        (self.mw_type == MwType::Type1 || binding.qpn == qp.qpn).then_some(binding)
    }
}
