//! Keys that cannot be guessed: random numbers of the kernel's, fetched in batches.

use parking_lot::Mutex;

struct Pool {
    bytes: [u8; 256],
    left: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    bytes: [0; 256],
    left: 0,
});

/// Nobody is drawing while the process is copied.
pub fn before_fork() {
    core::mem::forget(POOL.lock());
}

/// In both processes. The child forgets the batch: it must not draw what its parent draws.
///
/// # Safety
/// This thread has called [`before_fork`], and has not called this since.
pub unsafe fn after_fork(is_child: bool) {
    // SAFETY: the caller says that this thread has locked it; nobody else looks at it until it is unlocked.
    unsafe {
        if is_child {
            (*POOL.data_ptr()).left = 0;
        }
        POOL.force_unlock();
    }
}

/// A random number.
pub fn random() -> u32 {
    let mut pool = POOL.lock();
    if pool.left < 4 {
        fill(&mut pool.bytes);
        pool.left = pool.bytes.len();
    }
    pool.left -= 4;
    let at = pool.left;
    let drawn = pool.bytes[at..at + 4].try_into().unwrap_or_default();
    // What was drawn does not stay where a stray read could find it.
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
            // Interrupted; it cannot fail otherwise with these arguments, but in a sandbox that
            // forbids it. Addresses and time are the best there is then.
            _ if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            _ => return weak(rest),
        }
    }
}

/// Fills with the keyed hashes that the standard library seeds at random by other means.
fn weak(bytes: &mut [u8]) {
    use std::hash::{BuildHasher, RandomState};
    for chunk in bytes.chunks_mut(8) {
        let hash = RandomState::new().hash_one(chunk.as_ptr() as usize);
        let len = chunk.len();
        chunk.copy_from_slice(&hash.to_ne_bytes()[..len]);
    }
}

/// A key whose index is not taken; never 0, which programs take for "none". 2^24 indices are many
/// more than `max_mr` and `max_mw` allow, so that one is soon found.
pub fn fresh(taken: impl Fn(u32) -> bool) -> u32 {
    loop {
        let key = random();
        if key >> 8 != 0 && !taken(key >> 8) {
            return key;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// None of the bits stands still, and none follows from the key before.
    #[test]
    fn keys_tell_nothing_of_each_other() {
        let keys: Vec<u32> = (0..2001).map(|_| fresh(|_| false)).collect();
        let steps: Vec<u32> = keys.windows(2).map(|pair| pair[0] ^ pair[1]).collect();
        let differences = keys.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
        let mut all: Vec<u32> = differences.collect();
        all.sort_unstable();
        all.dedup();
        assert!(all.len() > 1990, "steps that repeat");
        for bit in 0..32 {
            for numbers in [&keys[1..], &steps] {
                let set = numbers.iter().filter(|n| *n >> bit & 1 == 1).count();
                // Seven times the standard deviation.
                assert!(
                    (1000 - 157..=1000 + 157).contains(&set),
                    "bit {bit}: {set} of 2000"
                );
            }
        }
    }
}
