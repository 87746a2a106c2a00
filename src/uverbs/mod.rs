//! The kernel's side: the ioctl engine, the legacy write path, and the fallback between them.
//!
//! A command goes to the kernel as an ioctl with attributes ([`ioctl`]). A kernel without that
//! framework (ENOTTY) or without that method (EPROTONOSUPPORT) gets the same command by `write()`
//! ([`write`]); what it did not know is remembered in the context ([`state`]), so that it is asked
//! once. [`fallback`] decides between the two.

use core::sync::atomic::{AtomicI32, Ordering};

use libc::{EIO, c_int};

pub mod cmd;
pub mod events;
pub mod fallback;
pub mod ioctl;
pub mod linked;
pub mod scratch;
pub mod state;
mod valgrind;
pub mod write;

/// The kernel's uverbs ABI version, 3 to 6; 0 before the first device was discovered.
pub static KERNEL_ABI: AtomicI32 = AtomicI32::new(0);

/// The kernel's uverbs ABI version.
#[inline]
pub fn kernel_abi() -> c_int {
    KERNEL_ABI.load(Ordering::Relaxed)
}

/// The exported `verbs_allow_disassociate_destroy`: a byte that providers read too, so it lives
/// under its C name, and Rust reaches it as they do, through the GOT.
mod allow_disassociate {
    use core::sync::atomic::AtomicBool;

    #[cfg(all(feature = "exports", not(test)))]
    unsafe extern "C" {
        #[link_name = "__verbs_allow_disassociate_destroy"]
        pub safe static FLAG: AtomicBool;
    }
    #[cfg(not(all(feature = "exports", not(test))))]
    pub static FLAG: AtomicBool = AtomicBool::new(false);
}

/// Lets destroy commands succeed on a device that is gone (RDMAV_ALLOW_DISASSOC_DESTROY).
pub fn set_allow_disassociate_destroy(allow: bool) {
    allow_disassociate::FLAG.store(allow, Ordering::Relaxed);
}

/// What a destroy command's result means.
pub(crate) enum Destroyed {
    /// The object is gone; its events must be waited for.
    Yes,
    /// Return this value now, without waiting: an error, or 0 for a device that went away while the
    /// program asked for such failures to be ignored.
    Return(c_int),
}

/// Reads a destroy command's result: EIO means that the device is gone, and its events with it.
#[inline]
pub(crate) fn destroyed(ret: c_int) -> Destroyed {
    match ret {
        0 => Destroyed::Yes,
        EIO if allow_disassociate::FLAG.load(Ordering::Relaxed) => Destroyed::Return(0),
        _ => Destroyed::Return(ret),
    }
}
