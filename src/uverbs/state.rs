//! The library's knowledge of a context's kernel: the commands it lacks, and how to send them.

use core::{
    mem::offset_of,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering},
};

use ibverbs_abi::{ibv_context, verbs_context};

use super::srq_lock::{SrqGuard, SrqLock};

/// The commands whose support is remembered per context. Commands that share a bit are unsupported together:
/// as in rdma-core, destroying a flow or an RWQ indirection table shares `DestroyAh`, and both GID queries
/// share `QueryGid`.
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

/// The kernel state of one context: the first member of what `verbs_context.priv` points to.
#[repr(C)]
pub struct State {
    /// One bit per [`Op`] that the kernel does not support as an ioctl.
    unsupported: AtomicU64,
    /// RDMA_DRIVER_*. Each ioctl carries it, so that the kernel rejects the provider of another driver.
    pub driver_id: u32,
    /// Legacy commands go through the ioctl INVOKE_WRITE instead of `write()`.
    pub write_by_ioctl: AtomicBool,
    /// The context came from `ibv_import_device`. Its objects must not be created by `write()`, which
    /// cannot name an event file.
    pub imported: AtomicBool,
    /// The kernel's file of asynchronous events, if `async_fd` of the context is another; else -1.
    pub kernel_events: AtomicI32,
    /// Serialises the creation and destruction of SRQs.
    pub srq_lock: SrqLock,
}

impl State {
    /// The state of a new context, whose kernel is assumed to support every ioctl.
    pub fn new(driver_id: u32) -> Self {
        State {
            unsupported: AtomicU64::new(0),
            driver_id,
            write_by_ioctl: AtomicBool::new(false),
            imported: AtomicBool::new(false),
            kernel_events: AtomicI32::new(-1),
            srq_lock: SrqLock::new(),
        }
    }

    /// Whether the kernel may support `op` as an ioctl.
    #[inline]
    pub fn may_ioctl(&self, op: Op) -> bool {
        self.unsupported.load(Ordering::Relaxed) & (1 << op as u8) == 0
    }

    /// Records that the kernel does not support `op` as an ioctl.
    pub fn lacks(&self, op: Op) {
        self.unsupported.fetch_or(1 << op as u8, Ordering::Relaxed);
    }

    /// Records that the kernel has no ioctl for commands at all.
    pub fn lacks_ioctl(&self) {
        self.unsupported.store(u64::MAX, Ordering::Relaxed);
    }

    /// Whether legacy commands go through the ioctl INVOKE_WRITE.
    #[inline]
    pub fn writes_by_ioctl(&self) -> bool {
        self.write_by_ioctl.load(Ordering::Relaxed)
    }

    /// Blocks while another thread creates or destroys an SRQ of the context.
    #[inline]
    pub fn lock_srqs(&self) -> SrqGuard<'_> {
        self.srq_lock
            .lock(!self.write_by_ioctl.load(Ordering::Relaxed))
    }

    /// Whether the context came from `ibv_import_device`.
    #[inline]
    pub fn is_imported(&self) -> bool {
        self.imported.load(Ordering::Relaxed)
    }
}

/// The `verbs_context` whose last member is `context`. Its members have fixed offsets from the `ibv_context`
/// in every provider ABI.
///
/// # Safety
/// `context` is a context that a provider made through this library and that is still open.
#[inline]
pub unsafe fn extended(context: *mut ibv_context) -> *mut verbs_context {
    // SAFETY: the library allocates every context as the last member of a verbs_context.
    unsafe { context.byte_sub(offset_of!(verbs_context, context)).cast() }
}

/// The kernel state of `context`.
///
/// # Safety
/// As for [`extended`]; the reference must not outlive the context.
#[inline]
pub unsafe fn state<'a>(context: *mut ibv_context) -> &'a State {
    // SAFETY: when the library initialised the context, it made priv_ point to a structure that begins
    // with a State and lives as long as the context.
    unsafe { &*(*extended(context)).priv_.cast::<State>() }
}

/// The kernel's file of a context's asynchronous events: commands that create objects name it.
///
/// # Safety
/// As for [`extended`].
#[inline]
pub unsafe fn event_file(context: *mut ibv_context) -> libc::c_int {
    // SAFETY: the context is open, as the caller promises.
    unsafe {
        match state(context).kernel_events.load(Ordering::Relaxed) {
            -1 => (*context).async_fd,
            file => file,
        }
    }
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
