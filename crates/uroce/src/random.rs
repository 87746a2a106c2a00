//! Random numbers from the kernel (getrandom(2)), fetched 256 bytes at a time: L_Keys, R_Keys, queue pair
//! numbers and UDP ports must not be predictable by a peer.
//!
//! Thread-safe, and safe across fork: a child discards the bytes that it inherited, so that it never draws
//! what its parent draws.

use crate::sync::Mutex;

/// Random bytes that have not been used yet: the first `left` ones.
pub(crate) struct Pool {
    bytes: [u8; 256],
    left: usize,
}

pub(crate) static POOL: Mutex<Pool> = Mutex::new(Pool {
    bytes: [0; 256],
    left: 0,
});

/// Locks the pool, so that no thread draws while the process is copied. [`after_fork`] unlocks it.
pub fn before_fork() {
    core::mem::forget(POOL.lock());
}

/// Unlocks the pool in the parent and in the child. The child discards the pool's bytes first.
///
/// # Safety
/// This thread has called [`before_fork`], and has not called this since.
pub unsafe fn after_fork(is_child: bool) {
    // SAFETY: `before_fork` locked the pool in this thread, as the caller promises, so no other thread
    // has a reference to its content until it is unlocked here.
    unsafe {
        if is_child {
            (*POOL.data_ptr()).left = 0;
        }
        POOL.force_unlock();
    }
}

/// A random number, uniformly distributed.
pub fn random() -> u32 {
    let mut pool = POOL.lock();
    if pool.left < 4 {
        fill(&mut pool.bytes);
        pool.left = pool.bytes.len();
    }
    pool.left -= 4;
    let at = pool.left;
    let drawn = pool.bytes[at..at + 4].try_into().unwrap_or_default();
    // Erased, so that a stray read does not find the bytes of a key in use.
    pool.bytes[at..at + 4].fill(0);
    u32::from_ne_bytes(drawn)
}

fn fill(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        // SAFETY: `rest` is writable for its length.
        match unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) } {
            n if n > 0 => filled += n as usize,
            // With these arguments getrandom fails only with EINTR, or where a sandbox forbids it.
            _ if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            _ => return fill_without_getrandom(rest),
        }
    }
}

/// Fills `bytes` with keyed hashes, whose keys the standard library takes from another source.
fn fill_without_getrandom(bytes: &mut [u8]) {
    use std::hash::{BuildHasher, RandomState};
    for chunk in bytes.chunks_mut(8) {
        let hash = RandomState::new().hash_one(chunk.as_ptr() as usize);
        let len = chunk.len();
        chunk.copy_from_slice(&hash.to_ne_bytes()[..len]);
    }
}
