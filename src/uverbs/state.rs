//! What the library keeps of a context's kernel side.

use core::{
    mem::offset_of,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use ibverbs_abi::{ibv_context, verbs_context};

/// The commands whose support is remembered per context. What shares a bit shares its fate: the C
/// library keeps flow and RWQ table destruction with `DestroyAh`, and both GID queries together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    GetContext,
    QueryPort,
    QueryGid,
    DeallocPd,
    DeregMr,
    DeallocMw,
    CloseXrcd,
    DestroyAh,
    CreateCq,
    DestroyCq,
    CreateQp,
    DestroyQp,
    CreateSrq,
    DestroySrq,
    CreateWq,
    DestroyWq,
    RegMrEx,
}

/// The kernel side of one context. It is the first member of what `verbs_context.priv` points to.
#[repr(C)]
pub struct State {
    /// One bit per [`Op`] that the kernel does not know as an ioctl.
    unsupported: AtomicU64,
    /// RDMA_DRIVER_*, sent with each ioctl so that the kernel refuses a provider that is not its own.
    pub driver_id: u32,
    /// Legacy commands go by the ioctl INVOKE_WRITE instead of `write()`.
    pub write_by_ioctl: AtomicBool,
    /// The context came from `ibv_import_device`: its objects must not be made by `write()`, which
    /// has no way to name an event file.
    pub imported: AtomicBool,
}

impl State {
    /// The state of a new context, of which nothing is known yet.
    pub const fn new(driver_id: u32) -> Self {
        State {
            unsupported: AtomicU64::new(0),
            driver_id,
            write_by_ioctl: AtomicBool::new(false),
            imported: AtomicBool::new(false),
        }
    }

    /// Whether the kernel may know `op` as an ioctl.
    #[inline]
    pub fn may_ioctl(&self, op: Op) -> bool {
        self.unsupported.load(Ordering::Relaxed) & (1 << op as u8) == 0
    }

    /// The kernel does not know `op` as an ioctl.
    pub fn lacks(&self, op: Op) {
        self.unsupported.fetch_or(1 << op as u8, Ordering::Relaxed);
    }

    /// The kernel has no ioctls at all.
    pub fn lacks_ioctl(&self) {
        self.unsupported.store(u64::MAX, Ordering::Relaxed);
    }

    /// Whether the context was imported.
    #[inline]
    pub fn is_imported(&self) -> bool {
        self.imported.load(Ordering::Relaxed)
    }
}

/// The extended context that stands around `context`, whatever the provider's ABI: all slots have
/// fixed offsets from the `ibv_context` at its end.
///
/// # Safety
/// `context` is a context that a provider made through this library and that is still open.
#[inline]
pub unsafe fn extended(context: *mut ibv_context) -> *mut verbs_context {
    // SAFETY: by the contract the context is the last member of a verbs_context.
    unsafe { context.byte_sub(offset_of!(verbs_context, context)).cast() }
}

/// The kernel side of `context`.
///
/// # Safety
/// As for [`extended`]; the reference must not outlive the context.
#[inline]
pub unsafe fn state<'a>(context: *mut ibv_context) -> &'a State {
    // SAFETY: by the contract the context was initialised by the library, which made priv_ point to
    // a structure that begins with a State and lives as long as the context.
    unsafe { &*(*extended(context)).priv_.cast::<State>() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_independent_until_all_are_gone() {
        let state = State::new(0);
        state.lacks(Op::CreateQp);
        assert!(!state.may_ioctl(Op::CreateQp));
        assert!(state.may_ioctl(Op::CreateCq));
        state.lacks_ioctl();
        assert!(!state.may_ioctl(Op::CreateCq));
        assert!(!state.may_ioctl(Op::RegMrEx));
    }
}
