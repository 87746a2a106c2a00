//! The functions of extended queue pairs or CQs whose pointers there are replaced by wrappers: what a layer
//! of wrappers calls.
//!
//! Invariant: an object's functions are here from before its pointers are replaced until it is destroyed.

use std::collections::BTreeMap;

use super::preserving_errno;
use crate::memory::lock::ForkLock;

/// The functions of one kind of objects, by the objects' addresses. All methods preserve errno, and find
/// nothing in a signal handler that interrupted this thread in one of them.
pub struct ExtendedOps<T: 'static>(ForkLock<BTreeMap<usize, T>>);

impl<T> ExtendedOps<T> {
    pub const fn new() -> ExtendedOps<T> {
        ExtendedOps(ForkLock::new(BTreeMap::new()))
    }

    /// Returns whether there was a place for them.
    pub fn add(&'static self, address: usize, functions: T) -> bool {
        preserving_errno(|| self.0.with(|all| all.insert(address, functions))).is_some()
    }

    /// Removes those of an object that is about to be destroyed.
    pub fn take(&'static self, address: usize) -> Option<T> {
        preserving_errno(|| self.0.with(|all| all.remove(&address))).flatten()
    }

    /// The object was not destroyed.
    pub fn put_back(&'static self, address: usize, functions: Option<T>) {
        if let Some(functions) = functions {
            self.add(address, functions);
        }
    }

    /// Reads or changes those of an object. `work` must not call this type.
    pub fn with<R>(&'static self, address: usize, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        preserving_errno(|| self.0.with(|all| all.get_mut(&address).map(work))).flatten()
    }

    /// Before a fork, in the parent.
    pub fn before_fork(&'static self) {
        self.0.prepare_fork(|_| ());
    }

    /// After a fork, in the parent and in the child.
    pub fn after_fork(&'static self) {
        self.0.after_fork();
    }
}

impl<T: Copy> ExtendedOps<T> {
    /// A copy of those of an object.
    pub fn get(&'static self, address: usize) -> Option<T> {
        self.with(address, |functions| *functions)
    }
}
