//! The control socket: `uroce-ctl` asks a running program for its queue pairs and counters, and adds and
//! removes rules of IBV_FAULTS. libibverbs-rs-faults(7) and uroce-ctl(1) describe it.
//!
//! | file | what is in it |
//! |---|---|
//! | `socket.rs` | the socket, its thread, and whom it answers |
//! | `request.rs` | requests and answers |
//! | `facts.rs` | what is known of devices and queue pairs |
//!
//! A process has the socket from the time when it opens its first device, if IBV_EXPLAIN or IBV_FAULTS is
//! set, or IBV_CONTROL=1; never with IBV_CONTROL=0, and never in a privileged program. Otherwise there is
//! neither a descriptor nor a thread: IBV_UROCE alone gives a program no name that others can see.

use core::sync::atomic::{AtomicBool, Ordering};

use super::faults;
use crate::{env, log as messages};

mod facts;
mod request;
mod socket;

pub use socket::start;

static ENABLED: AtomicBool = AtomicBool::new(false);

/// Whether the process has a control socket once it has opened a device.
pub fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Reads IBV_CONTROL, after the other variables.
pub fn initialize() {
    let by_default = super::is_enabled() || faults::is_enabled();
    let wanted = match env::get(c"IBV_CONTROL").map(core::ffi::CStr::to_bytes) {
        None | Some(b"") => by_default,
        Some(b"0") => false,
        Some(b"1") => true,
        Some(other) => {
            let parts: [&[u8]; 3] = [
                b"Warning: ignoring IBV_CONTROL='",
                other,
                b"': expected 0 or 1\n",
            ];
            messages::print(&parts);
            by_default
        }
    };
    if wanted && env::trusted() && !ENABLED.swap(true, Ordering::Relaxed) {
        socket::register_fork_handler();
    }
}
