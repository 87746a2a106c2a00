//! Memory for a command whose length is known only at run time.

use core::{ptr, slice};

use ibverbs_abi::Errno;
use libc::ENOMEM;

/// `len` bytes, initially zero and aligned to 8. They are on the stack, or from calloc if they do not fit
/// into `WORDS` words of eight bytes.
pub struct Scratch<const WORDS: usize> {
    small: [u64; WORDS],
    large: *mut u8,
    len: usize,
}

impl<const WORDS: usize> Scratch<WORDS> {
    /// ENOMEM if there is no memory.
    #[inline]
    pub fn new(len: usize) -> Result<Self, Errno> {
        let mut large = ptr::null_mut::<u8>();
        if len > size_of::<[u64; WORDS]>() {
            // SAFETY: calloc accepts every length; the result is checked.
            large = unsafe { libc::calloc(1, len) }.cast();
            if large.is_null() {
                return Errno(ENOMEM).fail();
            }
        }
        Ok(Scratch {
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
        // SAFETY: new() made either of them `len` bytes long at least and zeroed it; `self` owns both.
        unsafe { slice::from_raw_parts_mut(at, self.len) }
    }
}

impl<const WORDS: usize> Drop for Scratch<WORDS> {
    #[inline]
    fn drop(&mut self) {
        if !self.large.is_null() {
            // SAFETY: new() allocated it, and only drop frees it.
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
        assert!(Scratch::<2>::new(usize::MAX).is_err());
    }
}
