//! Calls of the library itself see the kernel's files only, so that it does not find its software devices
//! among the kernel's. In the shared library this needs no measure, because its own calls are not
//! redirected. A program that contains the library as an archive has one GOT for both.

use core::cell::Cell;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, the calls of the thread that made it do not reach the tree.
pub struct Bypass(());

impl Bypass {
    /// Begins now.
    #[expect(clippy::new_without_default, reason = "it has an effect")]
    pub fn new() -> Bypass {
        DEPTH.set(DEPTH.get() + 1);
        Bypass(())
    }
}

impl Drop for Bypass {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Whether a [`Bypass`] of this thread lives.
pub fn is_active() -> bool {
    DEPTH.get() > 0
}
