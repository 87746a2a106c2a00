//! Structures and results of restartable sequences (`crate::restart`), as the instructions of each
//! architecture have them.

/// The results of the instructions when they have called nothing, from here on down. No error
/// number is that high.
pub const CHANGED: i64 = -0x8000;
pub const STALE: i64 = CHANGED - 1;
pub const RESTARTED: i64 = CHANGED - 2;
/// Words that are compared. The instructions know the number.
pub const CHECKS: usize = 4;

/// `struct rseq` of Linux, in its first version.
#[repr(C, align(32))]
pub struct Area {
    cpu_id_start: u32,
    /// Negative while the thread is not registered.
    pub cpu_id: i32,
    /// The sequence that the thread is in.
    pub rseq_cs: u64,
    flags: u32,
    rest: [u32; 3],
}

impl Area {
    /// An area before its registration.
    pub const UNREGISTERED: Area = Area {
        cpu_id_start: 0,
        cpu_id: -1,
        rseq_cs: 0,
        flags: 0,
        rest: [0; 3],
    };
}

/// A word, and the value that it must have, as the instructions read it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Check {
    pub word: *const u32,
    pub value: u32,
}

/// The call and its checks, as the instructions read them.
#[repr(C)]
pub struct Call {
    pub number: libc::c_long,
    pub arguments: [usize; 6],
    pub checks: [Check; CHECKS],
    pub verified_at: *const u64,
    pub fresh_ticks: u64,
}
