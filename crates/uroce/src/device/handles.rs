//! Handles: the numbers by which the process's verbs objects are known, as a kernel's `uobject` handles are.
//!
//! A handle is in the public structure (`ibv_qp.handle`, ...) and in the events of the object. A handle that
//! comes back is looked up here and never used as an address: the program may have freed the structure that
//! it was read from, and another process may have written to the socket.
//!
//! The table is the process's, not a device's: an event says which table to look in only by its handle.
//! Its lock is held across a fork, so that a child can destroy what it has inherited.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::sync::Mutex;

/// The kind of a handle's object, in the order in which closing a context destroys objects: each
/// kind uses objects of later kinds only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// `ibv_qp`.
    Qp,
    /// `ibv_ah`.
    Ah,
    /// `ibv_mw`.
    Mw,
    /// `ibv_mr`.
    Mr,
    /// `ibv_dm`.
    Dm,
    /// `ibv_srq`.
    Srq,
    /// `ibv_cq`.
    Cq,
    /// `ibv_comp_channel`.
    Channel,
    /// `ibv_xrcd`.
    Xrcd,
    /// `ibv_pd` that is a parent domain.
    ParentDomain,
    /// `ibv_pd`.
    Pd,
    /// `ibv_td`.
    Td,
    /// `ibv_comp_cntr`.
    CompCntr,
}

const KINDS: usize = ObjectKind::CompCntr as usize + 1;

/// How many objects of each kind a device has.
#[derive(Default)]
pub struct ObjectCounts([AtomicU32; KINDS]);

/// A handle has an index in its lower bits, and the number of the slot's use in the upper ones.
const INDEX_BITS: u32 = 24;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

/// The error if there is no room for another object: the device's limit, 2^24 objects of the
/// process, or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// An object that the program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The object's kind.
    pub kind: ObjectKind,
    /// The object's handle.
    pub handle: u32,
    /// The address of its public structure.
    pub object: usize,
    /// The address of its `ibv_context`.
    context: usize,
    /// The object's destruction has begun: [`claim`] has succeeded.
    claimed: bool,
}

#[derive(Default)]
struct HandleSlot {
    /// The upper bits of the present handle, or of the next one if the slot is free.
    use_number: u8,
    object: Option<Registered>,
    /// Set from [`reserve`] to [`remove`].
    counts: Option<(ObjectKind, Arc<ObjectCounts>)>,
}

pub(super) struct HandleTable {
    slots: Vec<HandleSlot>,
    free: Vec<u32>,
}

pub(super) static TABLE: Mutex<HandleTable> = Mutex::new(HandleTable {
    slots: Vec::new(),
    free: Vec::new(),
});

/// Locks the table, so that it is whole in the child. [`after_fork`] unlocks it.
pub fn before_fork() {
    core::mem::forget(TABLE.lock());
}

/// Unlocks the table in the parent and in the child.
///
/// # Safety
/// This thread has called [`before_fork`], and has not called this since.
pub unsafe fn after_fork() {
    // SAFETY: `before_fork` locked the table in this thread, as the caller says.
    unsafe { TABLE.force_unlock() };
}

impl HandleTable {
    /// Allocates space for one more slot, or for two if there is none; also for all of them to be free, so
    /// that [`remove`] needs no memory. False if there is no memory.
    fn try_reserve(&mut self) -> bool {
        let slots = self.slots.len() + 2;
        let missing = slots.saturating_sub(self.free.len());
        self.slots.try_reserve(2).is_ok() && self.free.try_reserve(missing).is_ok()
    }

    /// The slot of a handle that is in use.
    fn slot(&mut self, handle: u32) -> Option<&mut HandleSlot> {
        let slot = self.slots.get_mut((handle & INDEX_MASK) as usize)?;
        let present = slot.counts.is_some() && u32::from(slot.use_number) == handle >> INDEX_BITS;
        present.then_some(slot)
    }

    /// The object of this handle, if it is of this kind.
    fn object(&mut self, kind: ObjectKind, handle: u32) -> Option<&mut Registered> {
        let object = self.slot(handle)?.object.as_mut()?;
        (object.kind == kind).then_some(object)
    }
}

/// A handle of an object that is being created. Dropped, it is free again.
pub struct ReservedHandle(u32);

/// Takes a handle for a new object. Fails if the device has `limit` objects of the kind already.
pub fn reserve(
    kind: ObjectKind,
    counts: &Arc<ObjectCounts>,
    limit: u32,
) -> Result<ReservedHandle, Full> {
    // Relaxed: the counts limit the number of objects; the table has a lock.
    let count = &counts.0[kind as usize];
    let room = |count| (count < limit).then_some(count + 1);
    count
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, room)
        .map_err(|_| Full)?;
    let mut table = TABLE.lock();
    if !table.try_reserve() {
        count.fetch_sub(1, Ordering::Relaxed);
        return Err(Full);
    }
    if table.slots.is_empty() {
        // So that no handle is 0.
        table.slots.push(HandleSlot::default());
    }
    let index = match table.free.pop() {
        Some(index) => index,
        None if table.slots.len() <= INDEX_MASK as usize => {
            table.slots.push(HandleSlot::default());
            (table.slots.len() - 1) as u32
        }
        None => {
            count.fetch_sub(1, Ordering::Relaxed);
            return Err(Full);
        }
    };
    let slot = &mut table.slots[index as usize];
    slot.counts = Some((kind, counts.clone()));
    Ok(ReservedHandle(
        index | u32::from(slot.use_number) << INDEX_BITS,
    ))
}

impl ReservedHandle {
    /// The handle.
    pub fn handle(&self) -> u32 {
        self.0
    }

    /// Makes the handle stand for an object, which is initialised: from now on others find it.
    pub fn publish(self, kind: ObjectKind, object: usize, context: usize) {
        let handle = self.0;
        if let Some(slot) = TABLE.lock().slot(handle) {
            slot.object = Some(Registered {
                kind,
                handle,
                object,
                context,
                claimed: false,
            });
        }
        core::mem::forget(self);
    }
}

impl Drop for ReservedHandle {
    fn drop(&mut self) {
        remove(self.0);
    }
}

/// Frees the handle of an object that is destroyed.
pub fn remove(handle: u32) {
    let mut table = TABLE.lock();
    let Some(slot) = table.slot(handle) else {
        return;
    };
    slot.object = None;
    slot.use_number = slot.use_number.wrapping_add(1);
    if let Some((kind, counts)) = slot.counts.take() {
        counts.0[kind as usize].fetch_sub(1, Ordering::Relaxed);
    }
    table.free.push(handle & INDEX_MASK);
}

/// The identity of an object with which a program calls a verb, from its public structure.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The object's handle.
    pub handle: u32,
    /// The address of the structure.
    pub object: usize,
    /// The address of the `ibv_context`. A handle says nothing in another context than the object's.
    pub context: usize,
}

impl Registered {
    /// Whether it is what the program names, and is not being destroyed.
    fn is(&self, named: Named) -> bool {
        self.object == named.object && self.context == named.context && !self.claimed
    }
}

/// Whether an object of this kind is the named one, and is not being destroyed.
pub fn is_live(kind: ObjectKind, named: Named) -> bool {
    let mut table = TABLE.lock();
    let found = table.object(kind, named.handle);
    found.is_some_and(|found| found.is(named))
}

/// Begins the destruction of an object. Of several threads that destroy the same object, one gets true.
pub fn claim(kind: ObjectKind, named: Named) -> bool {
    claim_if(kind, named, || true) == Some(true)
}

/// [`claim`] if `condition` returns true. It is called with the table locked, as is what
/// [`with_object`] calls. Returns what it has returned, and None if there is no such object.
pub fn claim_if(kind: ObjectKind, named: Named, condition: impl FnOnce() -> bool) -> Option<bool> {
    let mut table = TABLE.lock();
    let found = table.object(kind, named.handle);
    let found = found.filter(|found| found.is(named))?;
    found.claimed = condition();
    Some(found.claimed)
}

/// The address of the object that an event is about, whose destruction may have begun.
pub fn object_of_event(kind: ObjectKind, handle: u64) -> Option<usize> {
    let handle = u32::try_from(handle).ok()?;
    let mut table = TABLE.lock();
    table.object(kind, handle).map(|found| found.object)
}

/// Calls `call` with the address of the object of this kind and handle. Its destruction has not begun, and
/// does not begin meanwhile: the table is locked, so `call` must not use it.
pub fn with_object<T>(kind: ObjectKind, handle: u32, call: impl FnOnce(usize) -> T) -> Option<T> {
    let mut table = TABLE.lock();
    let found = table.object(kind, handle).filter(|found| !found.claimed)?;
    Some(call(found.object))
}

/// The objects of a context, in the order of [`ObjectKind`]. The destruction of all of them begins.
pub fn claim_all_of(context: usize) -> Vec<Registered> {
    let mut table = TABLE.lock();
    let all = table
        .slots
        .iter_mut()
        .filter_map(|slot| slot.object.as_mut());
    let mut objects: Vec<_> = all
        .filter(|object| object.context == context)
        .map(|object| {
            object.claimed = true;
            *object
        })
        .collect();
    objects.sort_by_key(|object| object.kind);
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNLIMITED: u32 = u32::MAX;
    const CONTEXT: usize = 0x100;

    fn named(handle: u32, object: usize, context: usize) -> Named {
        Named {
            handle,
            object,
            context,
        }
    }

    fn add(kind: ObjectKind, object: usize, context: usize) -> u32 {
        let reserved = reserve(kind, &Arc::default(), UNLIMITED).unwrap();
        let handle = reserved.handle();
        reserved.publish(kind, object, context);
        handle
    }

    #[test]
    fn only_the_right_handle_finds_an_object() {
        let handle = add(ObjectKind::Cq, 0x1000, CONTEXT);
        assert_ne!(handle, 0);
        assert!(is_live(ObjectKind::Cq, named(handle, 0x1000, CONTEXT)));
        assert!(!is_live(ObjectKind::Qp, named(handle, 0x1000, CONTEXT)));
        assert!(!is_live(ObjectKind::Cq, named(handle, 0x1008, CONTEXT)));
        assert!(!is_live(
            ObjectKind::Cq,
            named(handle ^ 1 << INDEX_BITS, 0x1000, CONTEXT)
        ));
        assert!(!is_live(ObjectKind::Cq, named(INDEX_MASK, 0x1000, CONTEXT)));
        assert_eq!(
            object_of_event(ObjectKind::Cq, handle.into()),
            Some(0x1000),
            "an event"
        );
        assert_eq!(object_of_event(ObjectKind::Cq, 0x4141_4141_4141_4141), None);
        assert_eq!(
            object_of_event(ObjectKind::Cq, u64::from(handle) | 1 << 32),
            None
        );
        assert_eq!(object_of_event(ObjectKind::Cq, 0), None);
        remove(handle);
        assert!(!is_live(ObjectKind::Cq, named(handle, 0x1000, CONTEXT)));
        let again = add(ObjectKind::Cq, 0x1000, CONTEXT);
        assert_ne!(again, handle, "a handle that is used again at once");
        remove(handle);
        assert!(is_live(ObjectKind::Cq, named(again, 0x1000, CONTEXT)));
        remove(again);
    }

    /// A handle is unknown in another context, as in the kernel, where each open file has its own
    /// table of handles.
    #[test]
    fn a_handle_is_unknown_in_another_context() {
        let handle = add(ObjectKind::Pd, 0x4000, CONTEXT);
        let elsewhere = named(handle, 0x4000, CONTEXT + 8);
        assert!(!is_live(ObjectKind::Pd, elsewhere));
        assert!(!claim(ObjectKind::Pd, elsewhere));
        assert!(claim(ObjectKind::Pd, named(handle, 0x4000, CONTEXT)));
        remove(handle);
    }

    #[test]
    fn destruction_begins_once() {
        let handle = add(ObjectKind::Qp, 0x2000, CONTEXT);
        assert!(!claim(ObjectKind::Qp, named(handle, 0x2008, CONTEXT)));
        assert!(claim(ObjectKind::Qp, named(handle, 0x2000, CONTEXT)));
        assert!(!claim(ObjectKind::Qp, named(handle, 0x2000, CONTEXT)));
        assert!(!is_live(ObjectKind::Qp, named(handle, 0x2000, CONTEXT)));
        // Events that the program has read before are delivered.
        assert_eq!(object_of_event(ObjectKind::Qp, handle.into()), Some(0x2000));
        remove(handle);
        assert_eq!(object_of_event(ObjectKind::Qp, handle.into()), None);
    }

    #[test]
    fn limits_are_per_device_and_kind() {
        let counts = Arc::default();
        let first = reserve(ObjectKind::Pd, &counts, 1).unwrap();
        assert_eq!(reserve(ObjectKind::Pd, &counts, 1).err(), Some(Full));
        drop(reserve(ObjectKind::Td, &counts, 1).unwrap());
        drop(reserve(ObjectKind::Pd, &Arc::default(), 1).unwrap());
        drop(first);
        assert!(reserve(ObjectKind::Pd, &counts, 1).is_ok());
    }

    #[test]
    fn objects_of_a_context_come_in_the_order_of_their_kinds() {
        let context = 0x3333;
        let (pd, qp) = (
            add(ObjectKind::Pd, 0x3000, context),
            add(ObjectKind::Qp, 0x3100, context),
        );
        let other = add(ObjectKind::Qp, 0x3200, 0x3334);
        let unpublished = reserve(ObjectKind::Mr, &Arc::default(), UNLIMITED).unwrap();
        let found: Vec<u32> = claim_all_of(context).iter().map(|o| o.handle).collect();
        assert_eq!(found, [qp, pd]);
        assert!(!is_live(ObjectKind::Pd, named(pd, 0x3000, context)));
        assert_eq!(with_object(ObjectKind::Pd, pd, |_| ()), None);
        assert!(is_live(ObjectKind::Qp, named(other, 0x3200, 0x3334)));
        drop(unpublished);
        [pd, qp, other].into_iter().for_each(remove);
        assert_eq!(claim_all_of(context), []);
    }

    /// An object that is found by its handle alone exists until the finder has a reference to it.
    #[test]
    fn destruction_waits_for_who_looks_an_object_up() {
        let handle = add(ObjectKind::Pd, 0x5000, CONTEXT);
        let named = named(handle, 0x5000, CONTEXT);
        let mut refs = 0;
        let found = with_object(ObjectKind::Pd, handle, |object| {
            assert!(TABLE.try_lock().is_none(), "no thread can claim it");
            refs += 1;
            object
        });
        assert_eq!(found, Some(0x5000));
        assert_eq!(with_object(ObjectKind::Mr, handle, |_| ()), None);
        assert_eq!(claim_if(ObjectKind::Pd, named, || refs == 0), Some(false));
        assert!(is_live(ObjectKind::Pd, named), "still used");
        let claimed = claim_if(ObjectKind::Pd, named, || {
            assert!(TABLE.try_lock().is_none(), "no thread can look it up");
            true
        });
        assert_eq!(claimed, Some(true));
        assert_eq!(with_object(ObjectKind::Pd, handle, |_| ()), None);
        assert_eq!(claim_if(ObjectKind::Pd, named, || true), None);
        remove(handle);
    }
}
