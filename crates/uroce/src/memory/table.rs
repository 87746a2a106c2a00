//! The keys there are, and what a key lets whom do. Pure bookkeeping: addresses are numbers here, but
//! for the pointer of a [`Piece`], which nothing here follows.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::marker::PhantomData;

use ibverbs_abi::*;

use crate::engine::{Access, Bind, LocalError, RemoteError, Sge};

/// A protection domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(pub u32);

/// The queue pair that a remote request came through, or that binds.
pub struct Holder<'a> {
    pub qpn: u32,
    /// The domains whose memory it may let its peer reach.
    pub domains: &'a [Domain],
}

/// Registered memory.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    pub domain: Domain,
    /// Where it is in the program.
    pub start: usize,
    pub len: u64,
    /// The address of its first byte in requests.
    pub base: u64,
    /// `IBV_ACCESS_*`.
    pub access: u32,
}

/// What to change of a region.
pub struct Reregistration {
    pub domain: Option<Domain>,
    /// Start, length, base.
    pub place: Option<(usize, u64, u64)>,
    pub access: Option<u32>,
}

/// Windows are bound to the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// `ibv_mw_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowKind {
    /// Usable by all queue pairs of the domain.
    One,
    /// Usable by the queue pair that has bound it.
    Two,
}

/// What a window shows.
#[derive(Clone, Copy, Debug)]
struct Bound {
    /// Index of the region's key.
    region: u32,
    /// The address of its first byte in the region.
    addr: u64,
    len: u64,
    access: u32,
    qpn: u32,
}

struct Window {
    kind: WindowKind,
    domain: Domain,
    bound: Option<Bound>,
}

enum Holds {
    Region { region: Region, windows: u32 },
    Window(Window),
}

struct Entry {
    /// The lower 8 bits of the key.
    variant: u8,
    holds: Holds,
}

/// A part of a region, good for as long as the table is not changed.
pub struct Piece<'a> {
    pub at: *mut u8,
    pub len: usize,
    table: PhantomData<&'a Table>,
}

/// Keys and numbers of queue pairs are random already, and not their user's to choose.
#[derive(Default)]
pub struct AsItIs(u64);

/// A map by such numbers.
pub type NumberMap<T> = HashMap<u32, T, BuildHasherDefault<AsItIs>>;

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        // The map takes a place from the lower bits and a tag from the uppermost.
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.0 = value.into();
    }
}

/// By the index of the key.
#[derive(Default)]
pub struct Table {
    entries: NumberMap<Entry>,
}

/// The flags that a peer's access needs, any one bit set being a flag that must be there.
fn needs(access: Access) -> u32 {
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

impl Region {
    fn piece(&self, addr: u64, len: u64) -> Piece<'_> {
        Piece {
            at: core::ptr::with_exposed_provenance_mut(self.start + (addr - self.base) as usize),
            len: len as usize,
            table: PhantomData,
        }
    }
}

impl Table {
    pub fn has(&self, index: u32) -> bool {
        self.entries.contains_key(&index)
    }

    pub fn add_region(&mut self, key: u32, region: Region) {
        let holds = Holds::Region { region, windows: 0 };
        self.add(key, holds);
    }

    pub fn add_window(&mut self, key: u32, kind: WindowKind, domain: Domain) {
        let holds = Holds::Window(Window {
            kind,
            domain,
            bound: None,
        });
        self.add(key, holds);
    }

    fn add(&mut self, key: u32, holds: Holds) {
        let variant = key as u8;
        self.entries.insert(key >> 8, Entry { variant, holds });
    }

    /// The region with this index, and how many windows are bound to it.
    fn region(&mut self, index: u32) -> Option<(&mut Region, &mut u32)> {
        match &mut self.entries.get_mut(&index)?.holds {
            Holds::Region { region, windows } => Some((region, windows)),
            Holds::Window(_) => None,
        }
    }

    pub fn reregister(&mut self, key: u32, change: &Reregistration) -> Result<(), Busy> {
        let Some((region, windows)) = self.region(key >> 8) else {
            return Ok(());
        };
        if *windows > 0 {
            return Err(Busy);
        }
        if let Some(domain) = change.domain {
            region.domain = domain;
        }
        if let Some((start, len, base)) = change.place {
            (region.start, region.len, region.base) = (start, len, base);
        }
        if let Some(access) = change.access {
            region.access = access;
        }
        Ok(())
    }

    pub fn remove_region(&mut self, key: u32) -> Result<(), Busy> {
        match self.region(key >> 8) {
            Some((_, windows)) if *windows > 0 => Err(Busy),
            Some(_) => {
                self.entries.remove(&(key >> 8));
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub fn remove_window(&mut self, key: u32) {
        if let Some(Entry {
            holds: Holds::Window(window),
            ..
        }) = self.entries.remove(&(key >> 8))
        {
            self.release(window.bound);
        }
    }

    /// A window is no longer bound to its region.
    fn release(&mut self, bound: Option<Bound>) {
        if let Some((_, windows)) = bound.and_then(|bound| self.region(bound.region)) {
            *windows -= 1;
        }
    }

    fn window(&mut self, rkey: u32) -> Option<(&mut u8, &mut Window)> {
        match self.entries.get_mut(&(rkey >> 8))? {
            Entry {
                variant,
                holds: Holds::Window(window),
            } => Some((variant, window)),
            _ => None,
        }
    }

    /// Binds the window whose key has the index of `bind.rkey`. Of length 0 unbinds (type 1 only).
    pub fn bind(&mut self, bind: &Bind, holder: &Holder) -> Result<(), LocalError> {
        const FAILED: LocalError = LocalError::Bind;
        let (variant, window) = self.window(bind.rkey).ok_or(FAILED)?;
        let (kind, domain, old) = (window.kind, window.domain, window.bound);
        if !holder.domains.contains(&domain) {
            return Err(FAILED);
        }
        if kind == WindowKind::Two
            && (old.is_some() || bind.len == 0 || *variant == bind.rkey as u8)
        {
            return Err(FAILED);
        }
        let bound = if bind.len == 0 {
            None
        } else {
            Some(self.bound(bind, domain, holder.qpn).ok_or(FAILED)?)
        };
        if let Some((_, windows)) = bound.and_then(|bound| self.region(bound.region)) {
            *windows += 1;
        }
        if let Some((variant, window)) = self.window(bind.rkey) {
            *variant = bind.rkey as u8;
            window.bound = bound;
        }
        self.release(old);
        Ok(())
    }

    /// What a good `bind` shows.
    fn bound(&mut self, bind: &Bind, domain: Domain, qpn: u32) -> Option<Bound> {
        const WRITES: u32 = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
        let entry = self.entries.get(&(bind.mr_lkey >> 8))?;
        let Holds::Region { region, .. } = &entry.holds else {
            return None;
        };
        let good = entry.variant == bind.mr_lkey as u8
            && region.domain == domain
            && region.access & IBV_ACCESS_MW_BIND != 0
            && (bind.access & WRITES == 0 || region.access & IBV_ACCESS_LOCAL_WRITE != 0)
            && within(bind.addr, bind.len, region.base, region.len);
        good.then_some(Bound {
            region: bind.mr_lkey >> 8,
            addr: bind.addr,
            len: bind.len,
            access: bind.access,
            qpn,
        })
    }

    pub fn invalidate(&mut self, rkey: u32, holder: &Holder) -> Result<(), LocalError> {
        let (variant, window) = self.window(rkey).ok_or(LocalError::Bind)?;
        let mine = *variant == rkey as u8
            && window.kind == WindowKind::Two
            && holder.domains.contains(&window.domain)
            && window.bound.is_some_and(|bound| bound.qpn == holder.qpn);
        if !mine {
            return Err(LocalError::Bind);
        }
        let bound = window.bound.take();
        self.release(bound);
        Ok(())
    }

    pub fn unbind_all_of(&mut self, qpn: u32) {
        let mut released = Vec::new();
        for entry in self.entries.values_mut() {
            if let Holds::Window(window) = &mut entry.holds
                && window.kind == WindowKind::Two
                && window.bound.is_some_and(|bound| bound.qpn == qpn)
            {
                released.push(window.bound.take());
            }
        }
        for bound in released {
            self.release(bound);
        }
    }

    /// A piece of a work request.
    pub fn local(
        &self,
        sge: &Sge,
        writable: bool,
        domain: Domain,
    ) -> Result<Piece<'_>, LocalError> {
        if sge.len == 0 {
            return Ok(Piece {
                at: core::ptr::NonNull::dangling().as_ptr(),
                len: 0,
                table: PhantomData,
            });
        }
        match self.entries.get(&(sge.lkey >> 8)) {
            Some(Entry {
                variant,
                holds: Holds::Region { region, .. },
            }) if *variant == sge.lkey as u8
                && region.domain == domain
                && (!writable || region.access & IBV_ACCESS_LOCAL_WRITE != 0)
                && within(sge.addr, sge.len.into(), region.base, region.len) =>
            {
                Ok(region.piece(sge.addr, sge.len.into()))
            }
            _ => Err(LocalError::Protection),
        }
    }

    /// What a peer's request names.
    pub fn remote(
        &self,
        rkey: u32,
        va: u64,
        len: u64,
        access: Access,
        holder: &Holder,
    ) -> Result<Piece<'_>, RemoteError> {
        let (region, shown) = self.reach(rkey, access, holder)?;
        let (base, size, first) = shown;
        if within(va, len, base, size) {
            Ok(region.piece(va - base + first, len))
        } else {
            Err(RemoteError)
        }
    }

    /// All that a key shows.
    pub fn whole(
        &self,
        rkey: u32,
        access: Access,
        holder: &Holder,
    ) -> Result<Piece<'_>, RemoteError> {
        let (region, (_, size, first)) = self.reach(rkey, access, holder)?;
        Ok(region.piece(first, size))
    }

    /// The region behind a key, and of it: the address that requests call its first byte, the length,
    /// and where that first byte is in the region.
    fn reach(
        &self,
        rkey: u32,
        access: Access,
        holder: &Holder,
    ) -> Result<(&Region, (u64, u64, u64)), RemoteError> {
        let entry = self.entries.get(&(rkey >> 8)).ok_or(RemoteError)?;
        if entry.variant != rkey as u8 {
            return Err(RemoteError);
        }
        let (domain, rights) = match &entry.holds {
            Holds::Region { region, .. } => (region.domain, region.access),
            Holds::Window(window) => match window.bound {
                Some(bound) if window.kind == WindowKind::One || bound.qpn == holder.qpn => {
                    (window.domain, bound.access)
                }
                _ => return Err(RemoteError),
            },
        };
        if !holder.domains.contains(&domain) || rights & needs(access) == 0 {
            return Err(RemoteError);
        }
        match &entry.holds {
            Holds::Region { region, .. } => Ok((region, (region.base, region.len, region.base))),
            Holds::Window(Window {
                bound: Some(bound), ..
            }) => match &self.entries.get(&bound.region).ok_or(RemoteError)?.holds {
                Holds::Region { region, .. } => {
                    let zero_based = bound.access & IBV_ACCESS_ZERO_BASED != 0;
                    let base = if zero_based { 0 } else { bound.addr };
                    Ok((region, (base, bound.len, bound.addr)))
                }
                Holds::Window(_) => Err(RemoteError),
            },
            Holds::Window(_) => Err(RemoteError),
        }
    }
}
