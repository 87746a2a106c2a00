//! The kernel's uverbs interface: commands by ioctl, commands by `write()`, and the choice between them.
//!
//! A command goes to the kernel as an ioctl with attributes ([`ioctl`]). A kernel without that ioctl
//! (ENOTTY) or without the method (EPROTONOSUPPORT) gets the same command by `write()` ([`write`]). The
//! context's [`state`] remembers what the kernel lacks, so that each context tries a method once.
//! [`fallback`] chooses between the two. [`cmd`] has the commands, a file per object.
//!
//! An error that the kernel returned is in errno too. A command that refuses its arguments sets errno
//! ([`Errno::fail`]) only where rdma-core does, because programs print errno.

use core::sync::atomic::{AtomicI32, Ordering};

use ibverbs_abi::{Errno, IntoC};
use libc::{EIO, c_int};

pub mod cmd;
pub mod events;
pub mod fallback;
pub mod ioctl;
pub mod scratch;
pub mod srq_lock;
pub mod state;
pub mod uhw;
mod valgrind;
pub mod write;

pub use fallback::linked;

/// The version of the kernel's uverbs ABI, 3 to 6; 0 before the first device is discovered.
pub static KERNEL_ABI: AtomicI32 = AtomicI32::new(0);

/// The value of [`KERNEL_ABI`].
#[inline]
pub fn kernel_abi() -> c_int {
    KERNEL_ABI.load(Ordering::Relaxed)
}

/// The exported `verbs_allow_disassociate_destroy`, a C bool that providers read too. It is defined under
/// its C name, and Rust reads it as providers do, through the GOT.
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

/// How the sending of a command ended: 0, or an errno value. `Result<(), Errno>` has a discriminant of its
/// own, which costs each verb one to three instructions if functions that send return it.
#[derive(Clone, Copy)]
#[must_use]
struct Status(c_int);

impl Status {
    const OK: Status = Status(0);

    /// The status of a system call that has just failed.
    #[inline(always)]
    fn failed() -> Self {
        Status(Errno::last().0)
    }

    #[inline(always)]
    fn result(self) -> Result<(), Errno> {
        match self.0 {
            0 => Ok(()),
            value => Err(Errno(value)),
        }
    }
}

impl From<Result<(), Errno>> for Status {
    #[inline(always)]
    fn from(result: Result<(), Errno>) -> Self {
        Status(result.into_c())
    }
}

/// The finding of a destroy command that did not fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destroyed {
    /// The object; the program must acknowledge its events before its memory is freed.
    Object,
    /// No device: it was disassociated, and its objects and events are gone with it.
    NoDevice,
}

/// Reads the result of a destroy command. EIO means that the device was disassociated, which is a success
/// if the program said so ([`set_allow_disassociate_destroy`]).
#[inline]
pub(crate) fn destroyed(result: Result<(), Errno>) -> Result<Destroyed, Errno> {
    match result {
        Ok(()) => Ok(Destroyed::Object),
        Err(Errno(EIO)) if allow_disassociate::FLAG.load(Ordering::Relaxed) => {
            Ok(Destroyed::NoDevice)
        }
        Err(errno) => Err(errno),
    }
}
