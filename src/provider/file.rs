//! A provider's file, of which a few parts are read.

use core::ffi::CStr;
use std::{fs::File, os::unix::fs::FileExt};

use super::elf::ReadAt;
use crate::sys;

/// How many bytes of a file are read at first. Most providers' version references lie within them: they end
/// at byte 2488 to 4392, those of libmlx5 excepted. More bytes cost more than another read: the kernel copies
/// files that nothing else has used recently from memory, not from a cache.
const START: usize = 3712;
/// How many bytes are read at least from another place. Most providers have less between the dynamic section
/// and the end of the last segment.
const CHUNK: usize = 1216;

/// Memory for the parts of a file, used for one file after another.
pub struct FileBuffer {
    /// The first bytes of the file. Not on the heap: a new process has used these pages of its
    /// stack before.
    start: [u8; START],
    /// The bytes read last beyond the start.
    chunk: Vec<u8>,
}

impl Default for FileBuffer {
    fn default() -> Self {
        FileBuffer {
            start: [0; START],
            chunk: Vec::new(),
        }
    }
}

/// A provider's file, with two parts of it in memory.
pub struct ProviderFile<'a> {
    file: File,
    start: &'a [u8],
    memory: &'a mut Vec<u8>,
    chunk: Chunk,
}

/// The range of the file that is in `ProviderFile::memory`.
#[derive(Default)]
struct Chunk {
    offset: u64,
    len: usize,
}

impl<'a> ProviderFile<'a> {
    /// Opens `path`, relative to `dirfd` (AT_FDCWD for the working directory). `None` if it cannot be
    /// opened.
    pub fn open(dirfd: libc::c_int, path: &CStr, parts: &'a mut FileBuffer) -> Option<Self> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        let file = File::from(sys::openat(dirfd, path, flags).ok()?);
        let read = file.read_at(&mut parts.start[..], 0).unwrap_or(0);
        Some(ProviderFile {
            file,
            start: parts.start.get(..read).unwrap_or_default(),
            memory: &mut parts.chunk,
            chunk: Chunk::default(),
        })
    }

    /// Reads the chunk at `offset`, at least `len` bytes if the file has them.
    #[inline(never)]
    fn read_chunk(&mut self, offset: u64, len: usize) {
        let len = len.max(CHUNK);
        if self.memory.len() < len {
            self.memory.resize(len, 0);
        }
        let memory = self.memory.get_mut(..len).unwrap_or_default();
        let len = self.file.read_at(memory, offset).unwrap_or(0);
        self.chunk = Chunk { offset, len };
    }

    /// The bytes of the chunk, if it has them.
    fn in_chunk(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let chunk = self.memory.get(..self.chunk.len)?;
        part(chunk, offset.checked_sub(self.chunk.offset)?, len)
    }
}

impl ReadAt for ProviderFile<'_> {
    #[inline]
    fn bytes(&mut self, offset: u64, len: usize) -> Option<&[u8]> {
        if let Some(found) = part(self.start, offset, len) {
            return Some(found);
        }
        if self.in_chunk(offset, len).is_none() {
            self.read_chunk(offset, len);
        }
        self.in_chunk(offset, len)
    }
}

/// `len` of `bytes` from `offset` on; `None` if they end before.
#[inline]
fn part(bytes: &[u8], offset: u64, len: usize) -> Option<&[u8]> {
    bytes.get(usize::try_from(offset).ok()?..)?.get(..len)
}
