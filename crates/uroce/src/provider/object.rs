//! The memory of a verbs object: the public structure that the program sees, and the private part
//! behind it.
//!
//! Every function that takes an object from C relies on what the manual pages require of the program:
//! it passes objects that this device created and that are not destroyed ("live"), and does not use an
//! object after its destroy has succeeded. A live object keeps alive what it was created with: its
//! context, protection domain, completion queues and so on. For all but the context, reference counts
//! make sure of that: to destroy an object that another one uses fails with EBUSY.

use core::cell::UnsafeCell;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use ibverbs_abi::Errno;
use libc::{EBUSY, ENOMEM, pthread_cond_t, pthread_mutex_t};
use std::alloc::{Layout, handle_alloc_error};

use super::ffi::Result;
use crate::process;

/// A public structure of verbs.h for which all zeros are a valid value.
///
/// # Safety
/// All zeros are a valid value: the structure has no references and no other types that forbid zero.
pub unsafe trait Zeroable: Sized {
    /// The structure with all bytes zero.
    fn zeroed() -> Self {
        // SAFETY: the implementor of the trait says that zeros are a valid value.
        unsafe { core::mem::zeroed() }
    }
}

macro_rules! zeroable {
    ($($of:ident)*) => { $(
        // SAFETY: integers, nullable pointers, optional functions, and pthread objects, which are memory
        // until they are initialised.
        unsafe impl Zeroable for ibverbs_abi::$of {}
    )* };
}
zeroable!(
    ibv_pd ibv_td verbs_mr ibv_mw ibv_ah verbs_cq verbs_srq verbs_xrcd verbs_qp ibv_device_attr_ex
    ibv_port_attr verbs_device ibv_qp_init_attr_ex ibv_qp_attr ibv_qp_init_attr ibv_srq_init_attr_ex
);

/// An object: the public structure, at its beginning, and the private part. It dereferences to the
/// private part.
#[repr(C)]
pub struct Object<B, T> {
    /// The public structure, in a cell, as the program may write to it as far as verbs.h lets it.
    public: UnsafeCell<B>,
    private: T,
}

/// The allocation of an object; see [`Object::alloc`].
#[repr(C)]
struct Allocation<B, T> {
    /// The generation of the process that created the object; and a word of room: see [`Object::room`].
    generation: usize,
    _room: usize,
    object: Object<B, T>,
}

impl<B, T> Object<B, T> {
    fn new(public: B, private: T) -> Object<B, T> {
        Object {
            public: UnsafeCell::new(public),
            private,
        }
    }

    /// Allocates the memory of an object, before its creation has effects that would have to be undone.
    /// ENOMEM if there is none.
    ///
    /// Two words precede the object, where malloc keeps its own data of free memory. So the structure of an
    /// object that was just freed is still whole: a program that destroys it again gets ENOENT;
    /// otherwise it would jump to an address that malloc wrote.
    pub fn room() -> Result<Room<B, T>> {
        // SAFETY: the layout has a size, that of the two words at least.
        let memory = unsafe { std::alloc::alloc(Layout::new::<Allocation<B, T>>()) };
        NonNull::new(memory.cast()).map(Room).ok_or(Errno(ENOMEM))
    }

    /// Allocates an object, and aborts the process if there is no memory.
    pub fn alloc(public: B, private: T) -> *mut B {
        match Object::room() {
            Ok(room) => room.fill(public, private),
            Err(_) => handle_alloc_error(Layout::new::<Allocation<B, T>>()),
        }
    }

    /// The object that a public structure is the beginning of.
    ///
    /// # Safety
    /// `public` is an object of this type, and not freed while the reference is used.
    pub unsafe fn of<'a>(public: *mut B) -> &'a Object<B, T> {
        // SAFETY: the caller says that the allocation is live and of this type. What C writes to is in a
        // cell, so that a shared reference is fine.
        unsafe { &*public.cast() }
    }

    /// Frees an object. In a child of the process that created it, its private part is not dropped: another
    /// thread of the parent may have been changing it during the fork.
    ///
    /// # Safety
    /// `public` is an object of this type, and neither it nor a reference to it is used
    /// afterwards.
    pub unsafe fn free(public: *mut B) {
        let before = core::mem::offset_of!(Allocation<B, T>, object);
        let allocation = public.wrapping_byte_sub(before);
        // SAFETY: `alloc` made it from the box of an allocation, and the caller gives up the only use of
        // it. ManuallyDrop has the layout of what it contains.
        let mut allocation =
            unsafe { Box::from_raw(allocation.cast::<ManuallyDrop<Allocation<B, T>>>()) };
        if allocation.generation == process::generation() as usize {
            // SAFETY: the value is not used after this.
            unsafe { ManuallyDrop::drop(&mut allocation) };
        }
    }

    /// Drops the private part of an object whose context is closed. The public structure stays readable,
    /// as with rdma-core, which frees nothing then.
    ///
    /// # Safety
    /// `public` is an object of this type, and no verb is called with it from now on.
    pub unsafe fn abandon(public: *mut B) {
        // SAFETY: the caller gives up the only use of the private part.
        unsafe { core::ptr::drop_in_place(&raw mut (*public.cast::<Object<B, T>>()).private) }
    }

    /// The public structure.
    pub fn public(&self) -> *mut B {
        self.public.get()
    }
}

/// Memory for an object; see [`Object::room`].
pub struct Room<B, T>(NonNull<Allocation<B, T>>);

impl<B, T> Room<B, T> {
    /// Makes it an object. The caller owns it, and frees it with [`Object::free`].
    pub fn fill(self, public: B, private: T) -> *mut B {
        let allocation = ManuallyDrop::new(self).0.as_ptr();
        let content = Allocation {
            generation: process::generation() as usize,
            _room: 0,
            object: Object::new(public, private),
        };
        // SAFETY: `room` allocated it with this type's layout, and nothing else knows it.
        unsafe {
            allocation.write(content);
            (&raw mut (*allocation).object).cast()
        }
    }
}

impl<B, T> Drop for Room<B, T> {
    fn drop(&mut self) {
        // SAFETY: `room` allocated it with this layout, and it was not filled.
        unsafe { std::alloc::dealloc(self.0.as_ptr().cast(), Layout::new::<Allocation<B, T>>()) };
    }
}

impl<B, T> Deref for Object<B, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.private
    }
}

/// The number of objects that use an object.
#[derive(Default)]
pub struct RefCount(AtomicU32);

impl RefCount {
    /// Counts one more object that uses this one.
    pub fn acquire(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one object fewer that uses this one.
    pub fn release(&self) {
        // The last accesses of that object come before those of the thread that finds the count at 0 and
        // frees this one.
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// EBUSY while an object uses it.
    pub fn ensure_unused(&self) -> Result<()> {
        if self.0.load(Ordering::Acquire) == 0 {
            Ok(())
        } else {
            Err(Errno(EBUSY))
        }
    }
}

/// Initialises the mutex and the condition of an object that has events.
///
/// # Safety
/// Both belong to a new object that no other thread knows, and do not move from now on.
pub unsafe fn init_event_lock(mutex: *mut pthread_mutex_t, cond: *mut pthread_cond_t) {
    // SAFETY: the caller passes memory for both, which nobody uses yet; NULL means default attributes.
    unsafe {
        libc::pthread_mutex_init(mutex, core::ptr::null());
        libc::pthread_cond_init(cond, core::ptr::null());
    }
}

/// Blocks until `acknowledged` returns true: until the program has acknowledged all events of the object
/// that it has read (`ibv_ack_cq_events`, `ibv_ack_async_event`).
///
/// # Safety
/// Mutex and condition are those of a live object. `acknowledged` reads only fields that the mutex
/// guards.
pub unsafe fn wait_until(
    mutex: *mut pthread_mutex_t,
    cond: *mut pthread_cond_t,
    acknowledged: impl Fn() -> bool,
) {
    // SAFETY: `init_event_lock` initialised both when the live object was created.
    unsafe {
        libc::pthread_mutex_lock(mutex);
        while !acknowledged() {
            libc::pthread_cond_wait(cond, mutex);
        }
        libc::pthread_mutex_unlock(mutex);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tests::out_of_memory::without_memory;
    use std::sync::Arc;

    #[test]
    fn an_object_without_memory_is_refused() {
        type Counted = Object<u64, Arc<()>>;
        assert_eq!(without_memory(Counted::room).err(), Some(Errno(ENOMEM)));
        drop(Counted::room().unwrap());
        let private = Arc::new(());
        let object = without_room(Counted::room().unwrap(), private.clone());
        // SAFETY: `object` was made above and is freed once.
        unsafe {
            assert_eq!((*object, Arc::strong_count(&private)), (7, 2));
            Counted::free(object);
        }
        assert_eq!(Arc::strong_count(&private), 1);
    }

    /// Filling the allocation needs no memory.
    fn without_room(room: Room<u64, Arc<()>>, private: Arc<()>) -> *mut u64 {
        without_memory(|| room.fill(7, private))
    }
}
