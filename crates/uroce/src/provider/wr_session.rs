//! The requests that a program builds with the `ibv_wr_*` functions, until it posts them.
//!
//! Not here: these functions, and who holds the lock when (`wr_api.rs`).

use core::cell::UnsafeCell;

use ibverbs_abi::{Errno, ibv_mw};

use crate::sync::{RawMutex, RawMutexApi as _};
use roce::engine::SendWr;

/// The requests between `ibv_wr_start` and `ibv_wr_complete` or `ibv_wr_abort`.
pub struct WrSession {
    /// Locked between these calls.
    pub lock: RawMutex,
    pub pending: UnsafeCell<PendingWrs>,
}

/// Requests that are not posted yet.
#[derive(Default)]
pub struct PendingWrs {
    pub wrs: Vec<SendWr>,
    /// The windows that requests among them bind.
    pub binds: Vec<PendingBind>,
    /// The last error of a function that returns none; `ibv_wr_complete` reports it.
    pub error: Option<Errno>,
}

/// A window, and the key that it has once the bind is posted.
pub struct PendingBind {
    pub mw: *mut ibv_mw,
    pub rkey: u32,
}

// SAFETY: only the thread that holds the lock uses the requests.
unsafe impl Sync for WrSession {}

impl Default for WrSession {
    fn default() -> WrSession {
        WrSession {
            lock: RawMutex::INIT,
            pending: UnsafeCell::default(),
        }
    }
}
