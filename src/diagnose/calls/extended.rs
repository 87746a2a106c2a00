//! The provider's functions of extended queue pairs or CQs, whose pointers there are replaced by wrappers.
//!
//! Invariant: an object's functions are here from before its pointers are replaced until it is destroyed.

use super::super::shadow::Registry;
use super::preserving_errno;
use crate::memory::lock::ForkLock;

/// The functions of one kind of objects, by the objects' addresses. All methods preserve errno, and find
/// nothing in a signal handler that interrupted this thread in one of them.
pub struct Originals<T: 'static>(ForkLock<Registry<T>>);

impl<T: Copy> Originals<T> {
    pub const fn new() -> Originals<T> {
        Originals(ForkLock::new(Registry::new()))
    }

    /// Returns whether there was a place for them.
    pub fn add(&'static self, address: usize, functions: T) -> bool {
        preserving_errno(|| self.0.with(|all| all.add(address, functions))).is_some()
    }

    pub fn take(&'static self, address: usize) -> Option<T> {
        preserving_errno(|| self.0.with(|all| all.take(address))).flatten()
    }

    pub fn get(&'static self, address: usize) -> Option<T> {
        preserving_errno(|| self.0.with(|all| all.get(&address).copied())).flatten()
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
