//! Where packets to send are collected: one outbox per thread, as it is large, and one per device for threads
//! without memory for their own.

use std::cell::{Cell, RefCell};

use crate::process;
use crate::sync::Mutex;
use crate::transport::Outbox;

thread_local! {
    static OUTBOX: RefCell<Option<Outbox>> = const { RefCell::new(None) };
    /// This thread has used `OUTBOX`, which is registered at its first use.
    static IS_REGISTERED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread may use `OUTBOX`.
fn may_register() -> bool {
    IS_REGISTERED.get() || process::can_register_destructor()
}

/// The outboxes of a device's threads.
pub(super) struct Outboxes {
    /// For threads without memory for one of their own.
    spare: Mutex<Outbox>,
}

impl Outboxes {
    /// None if there is no memory.
    pub fn try_new() -> Option<Outboxes> {
        let spare = Mutex::new(Outbox::try_new()?);
        Some(Outboxes { spare })
    }

    /// Calls `call` with this thread's outbox; without memory for one, with the device's spare one.
    pub fn with<T>(&self, call: impl FnOnce(&mut Outbox) -> T) -> T {
        if !may_register() {
            return self.with_new(call);
        }
        let mut call = Some(call);
        // A thread that is ending may have dropped its outbox already, and one that calls this within `call`
        // has it in use.
        let result = OUTBOX.try_with(|cell| {
            IS_REGISTERED.set(true);
            let mut own = cell.try_borrow_mut().ok()?;
            if own.is_none() {
                *own = Outbox::try_new();
            }
            let outbox = own.as_mut()?;
            call.take().map(|call| call(outbox))
        });
        match (result, call) {
            (Ok(Some(result)), _) => result,
            (_, Some(call)) => self.with_new(call),
            (_, None) => unreachable!("a call that was made has a result"),
        }
    }

    #[cold]
    fn with_new<T>(&self, call: impl FnOnce(&mut Outbox) -> T) -> T {
        match Outbox::try_new() {
            Some(mut outbox) => call(&mut outbox),
            None => call(&mut self.spare.lock()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A nested call, while the thread's outbox is in use, gets another one.
    #[test]
    fn a_call_within_a_call_has_an_outbox_of_its_own() {
        let outboxes = Outboxes::try_new().unwrap();
        let address = |outbox: &mut Outbox| core::ptr::from_mut(outbox).addr();
        let own = outboxes.with(address);
        let within = outboxes.with(|outbox| (address(outbox), outboxes.with(address)));
        assert_eq!(within.0, own);
        assert_ne!(within.1, own);
    }
}
