//! Room for a command whose length is known only when it is built.

use core::{ptr, slice};

/// `len` bytes, zeroed at first and aligned to 8: on the stack, or from malloc where they do not fit into
/// `WORDS` words of eight bytes.
pub struct Scratch<const WORDS: usize> {
    small: [u64; WORDS],
    large: *mut u8,
    len: usize,
}

impl<const WORDS: usize> Scratch<WORDS> {
    /// None if there is no memory.
    #[inline]
    pub fn new(len: usize) -> Option<Self> {
        let mut large = ptr::null_mut::<u8>();
        if len > size_of::<[u64; WORDS]>() {
            // SAFETY: calloc of a length that is not 0.
            large = unsafe { libc::calloc(1, len) }.cast();
            if large.is_null() {
                return None;
            }
        }
        Some(Scratch {
            small: [0; WORDS],
            large,
            len,
        })
    }

    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        let at = if self.large.is_null() {
            (&raw mut self.small).cast()
        } else {
            self.large
        };
        // SAFETY: either has `len` bytes or more, initialised by new(), and is this struct's own.
        unsafe { slice::from_raw_parts_mut(at, self.len) }
    }
}

impl<const WORDS: usize> Drop for Scratch<WORDS> {
    #[inline]
    fn drop(&mut self) {
        if !self.large.is_null() {
            // SAFETY: allocated by new() and freed only here.
            unsafe { libc::free(self.large.cast()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_are_zeroed_and_written() {
        for len in [0, 1, 15, 16, 17, 5000] {
            let mut scratch = Scratch::<2>::new(len).unwrap();
            assert!(scratch.bytes().iter().all(|&byte| byte == 0));
            assert_eq!(scratch.bytes().len(), len);
            assert_eq!(scratch.bytes().as_ptr().addr() % 8, 0);
            scratch.bytes().fill(7);
            assert!(scratch.bytes().iter().all(|&byte| byte == 7));
        }
        assert!(Scratch::<2>::new(usize::MAX).is_none());
    }
}
