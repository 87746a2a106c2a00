//! [`StackPath`]: file names without allocation.

use core::{ffi::CStr, fmt};
use ibverbs_abi::Errno;
use std::io::Write;

use arrayvec::ArrayVec;

/// A file name under construction, for one system call. If it becomes longer than PATH_MAX it is unusable, as
/// it would be for the kernel.
///
/// It takes a page of stack. Functions that contain one, and that the first `ibv_get_device_list` calls, are
/// not inlined, so that they use the same page one after the other: the kernel provides each page in a
/// page fault.
#[derive(Default)]
pub struct StackPath {
    bytes: ArrayVec<u8, { libc::PATH_MAX as usize }>,
    overflow: bool,
}

impl StackPath {
    /// An empty name.
    #[inline]
    pub fn new() -> Self {
        StackPath::default()
    }

    /// The name of these parts.
    #[inline]
    pub fn joined(parts: &[&[u8]]) -> Self {
        let mut path = StackPath::new();
        for part in parts {
            path.overflow |= path.bytes.try_extend_from_slice(part).is_err();
        }
        path
    }

    /// Appends bytes, which need not be UTF-8.
    #[inline]
    pub fn push(mut self, bytes: &[u8]) -> Self {
        self.overflow |= self.bytes.try_extend_from_slice(bytes).is_err();
        self
    }

    /// Appends formatted text.
    #[inline]
    pub fn push_fmt(mut self, args: fmt::Arguments) -> Self {
        self.overflow |= self.bytes.write_fmt(args).is_err();
        self
    }

    /// The NUL-terminated name. ENAMETOOLONG if it did not fit. A NUL inside ends it early, as in C.
    #[inline]
    pub fn finish(&mut self) -> Result<&CStr, Errno> {
        if self.overflow || self.bytes.try_push(0).is_err() {
            return Err(Errno(libc::ENAMETOOLONG));
        }
        CStr::from_bytes_until_nul(&self.bytes).map_err(|_| Errno(libc::ENAMETOOLONG))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_and_refuses() {
        let mut path = StackPath::new()
            .push(b"/sys")
            .push(b"/\xff")
            .push_fmt(format_args!("/{}", 7));
        assert_eq!(path.finish(), Ok(c"/sys/\xff/7"));
        let long = [b'a'; 4095];
        assert!(StackPath::new().push(&long).finish().is_ok());
        assert_eq!(
            StackPath::new().push(&long).push(b"a").finish(),
            Err(Errno(libc::ENAMETOOLONG))
        );
        assert_eq!(
            StackPath::new().push(&long).push(b"aaa").finish(),
            Err(Errno(libc::ENAMETOOLONG))
        );
        let mut long = StackPath::new()
            .push(&long)
            .push_fmt(format_args!("{}", "aaaa"));
        assert_eq!(long.finish(), Err(Errno(libc::ENAMETOOLONG)));
    }
}
