//! The lines of a ring: words and bodies. The only place that touches them.

#[cfg(not(loom))]
pub use real::Lines;
#[cfg(loom)]
pub use tracked::Lines;

/// Bytes of a cache line.
pub const LINE: usize = 64;
/// Bytes of the word that a record begins with.
pub const WORD_LEN: usize = 8;
/// The lines of a ring.
pub const LINES: u64 = if cfg!(loom) { 4 } else { 4096 };
#[cfg(not(loom))]
const BYTES: usize = LINES as usize * LINE;

#[cfg(not(loom))]
mod real {
    use core::cell::UnsafeCell;
    use core::sync::atomic::{AtomicU64, Ordering};

    use super::{BYTES, LINE, LINES, WORD_LEN};

    /// The lines, which are in shared memory.
    #[repr(C, align(64))]
    pub struct Lines(UnsafeCell<[u8; BYTES]>);

    // SAFETY: words are atomic, and bodies are accessed by the producer before it has published them, and by
    // the consumer until it has released them. A peer that breaks this rule is another process: it makes the
    // content undefined, which is only copied, or parsed from a copy.
    unsafe impl Sync for Lines {}

    impl Lines {
        fn at(&self, position: u64) -> *mut u8 {
            let offset = (position % LINES) as usize * LINE;
            // SAFETY: a line of the ring, because of the remainder.
            unsafe { self.0.get().cast::<u8>().add(offset) }
        }

        /// The first word of a line.
        #[inline]
        pub fn word(&self, position: u64) -> &AtomicU64 {
            // SAFETY: lines are aligned, and lie in the ring. Both sides access words by atomic operations
            // only, while they are words; a body that a word lies in is the producer's or the consumer's
            // alone.
            unsafe { AtomicU64::from_ptr(self.at(position).cast()) }
        }

        /// The `len` bytes behind the word of a line. They lie in the ring.
        fn body(&self, position: u64, len: usize) -> *mut u8 {
            let offset = (position % LINES) as usize * LINE + WORD_LEN;
            assert!(offset + len <= BYTES);
            // SAFETY: within the ring, as just checked.
            unsafe { self.0.get().cast::<u8>().add(offset) }
        }

        /// Moves a line to this CPU's cache, so that a later store to it need not wait for it.
        #[inline]
        pub fn prefetch(&self, position: u64) {
            crate::arch::prefetch_for_write(self.at(position));
        }

        /// The bytes behind the word of a line, each read once.
        #[inline]
        pub fn head(&self, position: u64) -> [u8; LINE - WORD_LEN] {
            let mut bytes = [0; LINE - WORD_LEN];
            for (i, to) in bytes.chunks_exact_mut(WORD_LEN).enumerate() {
                // SAFETY: aligned words of a line that the consumer has to itself.
                let word = unsafe {
                    let at = self.at(position).cast::<u64>().add(1 + i);
                    AtomicU64::from_ptr(at).load(Ordering::Relaxed)
                };
                to.copy_from_slice(&word.to_ne_bytes());
            }
            bytes
        }

        /// Lets the producer write a body that it has room for.
        #[inline]
        pub fn fill<T>(&self, position: u64, len: usize, fill: impl FnOnce(&mut [u8]) -> T) -> T {
            // SAFETY: the bytes lie in the ring, and the consumer has released them, so this process has them
            // to itself.
            fill(unsafe { core::slice::from_raw_parts_mut(self.body(position, len), len) })
        }

        /// Lets the consumer read a body that was published.
        #[inline]
        pub fn view<T>(&self, position: u64, len: usize, read: impl FnOnce(&[u8]) -> T) -> T {
            // SAFETY: the bytes lie in the ring, and the producer, which has published them, does not write
            // them before they are released.
            read(unsafe { core::slice::from_raw_parts(self.body(position, len), len) })
        }
    }
}

/// The same for loom, which reports an access to a body that is not ordered behind the other side's.
#[cfg(loom)]
mod tracked {
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::AtomicU64;

    use super::{LINE, LINES, WORD_LEN};

    /// Records of one line.
    pub struct Lines {
        words: [AtomicU64; LINES as usize],
        bodies: [UnsafeCell<[u8; LINE - WORD_LEN]>; LINES as usize],
    }

    // SAFETY: loom checks the accesses to the bodies.
    unsafe impl Sync for Lines {}

    impl Lines {
        /// Zeros.
        pub fn new() -> Lines {
            Lines {
                words: core::array::from_fn(|_| AtomicU64::new(0)),
                bodies: core::array::from_fn(|_| UnsafeCell::new([0; LINE - WORD_LEN])),
            }
        }

        pub fn prefetch(&self, _position: u64) {}

        pub fn word(&self, position: u64) -> &AtomicU64 {
            &self.words[(position % LINES) as usize]
        }

        pub fn head(&self, position: u64) -> [u8; LINE - WORD_LEN] {
            self.view(position, LINE - WORD_LEN, |body| {
                body.try_into().expect("a whole line")
            })
        }

        pub fn fill<T>(&self, position: u64, len: usize, fill: impl FnOnce(&mut [u8]) -> T) -> T {
            let body = &self.bodies[(position % LINES) as usize];
            // SAFETY: loom reports other accesses at the same time.
            body.with_mut(|body| fill(unsafe { &mut (&mut *body)[..len] }))
        }

        pub fn view<T>(&self, position: u64, len: usize, read: impl FnOnce(&[u8]) -> T) -> T {
            let body = &self.bodies[(position % LINES) as usize];
            // SAFETY: loom reports that another thread writes at the same time.
            body.with(|body| read(unsafe { &(&*body)[..len] }))
        }
    }
}
