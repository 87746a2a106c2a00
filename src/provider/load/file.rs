//! A provider's file, of which a few parts are read.

use core::{cell::Cell, ffi::CStr};
use std::{fs::File, os::unix::fs::FileExt};

use super::elf::ReadAt;
use crate::sys;

/// How many bytes of a file are read at first. Most providers' version references lie within them.
const START: usize = 6144;

/// Memory for the start of a file, used for one file after another.
pub struct Start(Box<[u8; START]>);

impl Default for Start {
    fn default() -> Self {
        Start(Box::new([0; START]))
    }
}

/// A provider's file, with two parts of it in memory.
pub struct ProviderFile<'a> {
    file: File,
    start: &'a [u8],
    /// The bytes read last beyond `start`.
    chunk: Cell<Chunk>,
}

/// Some bytes of a file.
#[derive(Default)]
struct Chunk {
    offset: u64,
    bytes: Vec<u8>,
}

impl<'a> ProviderFile<'a> {
    /// Opens `path`, relative to `dirfd` (AT_FDCWD for the working directory). `None` if it cannot be
    /// opened.
    pub fn open(dirfd: libc::c_int, path: &CStr, start: &'a mut Start) -> Option<Self> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        let file = File::from(sys::openat(dirfd, path, flags).ok()?);
        let read = file.read_at(&mut start.0[..], 0).unwrap_or(0);
        Some(ProviderFile {
            file,
            start: start.0.get(..read).unwrap_or_default(),
            chunk: Cell::default(),
        })
    }
}

impl ReadAt for ProviderFile<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Option<()> {
        copy(self.start, offset, buf).or_else(|| {
            let mut chunk = self.chunk.take();
            let mut copied = offset
                .checked_sub(chunk.offset)
                .and_then(|at| copy(&chunk.bytes, at, buf));
            if copied.is_none() {
                chunk.offset = offset;
                chunk.bytes.resize(buf.len().max(4096), 0);
                let len = self.file.read_at(&mut chunk.bytes, offset).unwrap_or(0);
                chunk.bytes.truncate(len);
                copied = copy(&chunk.bytes, 0, buf);
            }
            self.chunk.set(chunk);
            copied
        })
    }
}

/// Fills `buf` from `bytes` at `offset`; `None` if they end before.
fn copy(bytes: &[u8], offset: u64, buf: &mut [u8]) -> Option<()> {
    let from = bytes
        .get(usize::try_from(offset).ok()?..)?
        .get(..buf.len())?;
    buf.copy_from_slice(from);
    Some(())
}
