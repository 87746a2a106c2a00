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

/// Forgets the batch: a child of fork must not draw what its parent draws.
pub fn forget() {
    if let Some(mut pool) = POOL.try_lock() {
        pool.left = 0;
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
