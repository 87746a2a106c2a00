//! What a verbs object is made of: the part that the program sees, and ours behind it.

use core::cell::UnsafeCell;
use core::ops::Deref;
use core::sync::atomic::{AtomicU32, Ordering};

use libc::{EBUSY, c_int, pthread_cond_t, pthread_mutex_t};

/// What an operation answers: the errno value in place of it.
pub type Answer<T> = Result<T, c_int>;

/// How C is told an [`Answer`].
pub trait ToC {
    type C;
    fn to_c(self) -> Self::C;
}

impl ToC for Answer<()> {
    type C = c_int;

    fn to_c(self) -> c_int {
        self.err().unwrap_or(0)
    }
}

impl<T> ToC for Answer<*mut T> {
    type C = *mut T;

    fn to_c(self) -> *mut T {
        self.unwrap_or_else(null)
    }
}

/// NULL, with errno.
pub fn null<T>(errno: c_int) -> *mut T {
    // SAFETY: errno is this thread's.
    unsafe { *libc::__errno_location() = errno };
    core::ptr::null_mut()
}

/// A public structure of verbs.h that zeros are a value of.
///
/// # Safety
/// They are.
pub unsafe trait Plain: Sized {
    fn zeroed() -> Self {
        // SAFETY: by the trait's contract.
        unsafe { core::mem::zeroed() }
    }
}

macro_rules! plain {
    ($($of:ident)*) => { $(
        // SAFETY: integers, nullable pointers and functions, and pthread's objects before they are
        // initialised.
        unsafe impl Plain for ibverbs_abi::$of {}
    )* };
}
plain!(
    ibv_pd ibv_td verbs_mr ibv_mw ibv_ah verbs_cq verbs_srq verbs_xrcd verbs_qp ibv_device_attr_ex
    ibv_port_attr verbs_device ibv_qp_init_attr_ex ibv_qp_attr ibv_qp_init_attr ibv_srq_init_attr_ex
);

/// An object: it begins with what the program sees, and writes to as verbs.h lets it.
#[repr(C)]
pub struct Object<B, T> {
    base: UnsafeCell<B>,
    ours: T,
}

impl<B, T> Object<B, T> {
    /// An object that is yet to be placed.
    pub fn new(base: B, ours: T) -> Object<B, T> {
        Object {
            base: UnsafeCell::new(base),
            ours,
        }
    }

    /// Allocates an object, to be freed by [`Object::free`].
    pub fn make(base: B, ours: T) -> *mut B {
        Box::into_raw(Box::new(Object::new(base, ours))).cast()
    }

    /// The object behind what the program hands in.
    ///
    /// # Safety
    /// `base` is from [`Object::make`] of this type, and not freed while the reference is used.
    pub unsafe fn of<'a>(base: *mut B) -> &'a Object<B, T> {
        // SAFETY: by the contract; what others write to is in a cell.
        unsafe { &*base.cast() }
    }

    /// Frees an object.
    ///
    /// # Safety
    /// As for [`Object::of`], and nobody uses it any more.
    pub unsafe fn free(base: *mut B) {
        // SAFETY: by the contract it came from a box.
        drop(unsafe { Box::from_raw(base.cast::<Object<B, T>>()) });
    }

    /// What the program sees.
    pub fn base(&self) -> *mut B {
        self.base.get()
    }
}

impl<B, T> Deref for Object<B, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.ours
    }
}

/// How many objects use one.
#[derive(Default)]
pub struct Users(AtomicU32);

impl Users {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn remove(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn check_none(&self) -> Answer<()> {
        if self.0.load(Ordering::Relaxed) == 0 {
            Ok(())
        } else {
            Err(EBUSY)
        }
    }
}

/// Initialises the lock of an object that has events.
///
/// # Safety
/// Both are the new object's own, and stay where they are.
pub unsafe fn initialise(mutex: *mut pthread_mutex_t, cond: *mut pthread_cond_t) {
    // SAFETY: by the contract; NULL asks for the defaults.
    unsafe {
        libc::pthread_mutex_init(mutex, core::ptr::null());
        libc::pthread_cond_init(cond, core::ptr::null());
    }
}

/// Blocks until `settled` holds: until the program has acknowledged the object's events.
///
/// # Safety
/// Mutex and condition are the object's own, initialised; `settled` reads only what they guard.
pub unsafe fn wait(
    mutex: *mut pthread_mutex_t,
    cond: *mut pthread_cond_t,
    settled: impl Fn() -> bool,
) {
    // SAFETY: by the contract.
    unsafe {
        libc::pthread_mutex_lock(mutex);
        while !settled() {
            libc::pthread_cond_wait(cond, mutex);
        }
        libc::pthread_mutex_unlock(mutex);
    }
}
