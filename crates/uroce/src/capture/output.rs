//! The file of a capture: its name, its bound on size, and whether it still is the capture's.
//!
//! Invariant: the file ends with a whole block, except while it is written.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::pcapng;
use super::settings::{CaptureSettings, with_part};

/// An open file of a capture.
pub struct CaptureFile {
    file: File,
    identity: Identity,
    path: PathBuf,
    pid: u32,
    /// Section header and interfaces: what each file begins with.
    header: Vec<u8>,
    /// Bytes in the file.
    len: u64,
    /// Bytes that the file may have. There may be an older file of the same length.
    max_len: Option<u64>,
    snaplen: u32,
}

/// A descriptor, and the file that it refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub fd: RawFd,
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(file: &File) -> io::Result<Identity> {
        let metadata = file.metadata()?;
        Ok(Identity {
            fd: file.as_raw_fd(),
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }

    /// Whether the descriptor still refers to the file. Programs close descriptors that they did not
    /// open, and then have files of their own under the same number. Async-signal-safe.
    pub fn holds(&self) -> bool {
        let mut stat = core::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: `stat` is writable, and is read only if fstat has filled it.
        let stat = unsafe {
            if libc::fstat(self.fd, stat.as_mut_ptr()) != 0 {
                return false;
            }
            stat.assume_init()
        };
        (stat.st_dev, stat.st_ino) == (self.device, self.inode)
    }
}

impl Identity {
    fn check(&self) -> io::Result<()> {
        match self.holds() {
            true => Ok(()),
            false => Err(io::Error::other("the program has closed the descriptor")),
        }
    }
}

impl CaptureFile {
    /// Opens the file of the process `pid`. What it contained is lost, unless another process is writing to
    /// it: then this process's file has the process ID in its name. Writes nothing yet: that is for a thread
    /// that blocks SIGXFSZ.
    pub fn open(settings: &CaptureSettings, pid: u32) -> io::Result<CaptureFile> {
        let mut header = Vec::new();
        let application = format!("libibverbs-rs {}, process {pid}", env!("CARGO_PKG_VERSION"));
        pcapng::section(&mut header, &application);
        let (file, path) = open_unused(settings.path(pid), pid)?;
        let identity = Identity::of(&file)?;
        Ok(CaptureFile {
            file,
            identity,
            path,
            pid,
            header,
            len: 0,
            max_len: settings.limit.map(|limit| limit / 2),
            snaplen: settings.snaplen.map_or(0, |len| len as u32),
        })
    }

    /// Describes one more interface. The first comes before all packets.
    pub fn add_interface(&mut self, name: &str) -> io::Result<()> {
        let start = if self.len == 0 { 0 } else { self.header.len() };
        pcapng::interface(&mut self.header, name, self.snaplen);
        self.append(start..self.header.len())
    }

    /// Writes blocks. When the file is full, it is renamed, and a new file takes its name.
    pub fn write(&mut self, mut blocks: &[u8]) -> io::Result<()> {
        while !blocks.is_empty() {
            let room = self
                .max_len
                .map_or(u64::MAX, |max| max.saturating_sub(self.len));
            let mut fitting = pcapng::whole_blocks(blocks, room);
            if fitting == 0 {
                self.rotate()?;
                // An empty file has room for any packet.
                let room = self
                    .max_len
                    .map_or(u64::MAX, |max| max.saturating_sub(self.len));
                fitting = match pcapng::whole_blocks(blocks, room) {
                    0 => blocks.len(),
                    fitting => fitting,
                };
            }
            let (now, later) = blocks.split_at(fitting);
            write_whole(&mut self.file, &mut self.len, &self.identity, now)?;
            blocks = later;
        }
        Ok(())
    }

    /// Writes a part of the header.
    fn append(&mut self, part: std::ops::Range<usize>) -> io::Result<()> {
        let part = &self.header[part];
        write_whole(&mut self.file, &mut self.len, &self.identity, part)
    }

    /// Keeps the full file under another name, in place of an older one, and begins a new file.
    fn rotate(&mut self) -> io::Result<()> {
        self.identity.check()?;
        std::fs::rename(&self.path, with_part(&self.path, "old"))?;
        unlock(&self.file);
        let (file, path) = open_unused(self.path.clone(), self.pid)?;
        self.identity = Identity::of(&file)?;
        (self.file, self.path, self.len) = (file, path, 0);
        self.append(0..self.header.len())
    }

    /// The descriptor.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The file's name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Closes the file, unless the descriptor is another file's now.
    pub fn close(self) {
        if self.identity.holds() {
            // A child may have a copy of the descriptor, which would keep the lock.
            unlock(&self.file);
        } else {
            let _ = self.file.into_raw_fd();
        }
    }
}

/// Writes blocks. If that fails, the file ends with the last block that is there as a whole.
fn write_whole(
    file: &mut File,
    len: &mut u64,
    identity: &Identity,
    blocks: &[u8],
) -> io::Result<()> {
    identity.check()?;
    let mut written = 0;
    while written < blocks.len() {
        match file.write(&blocks[written..]) {
            Ok(count) if count > 0 => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            failed => {
                *len += pcapng::whole_blocks(blocks, written as u64) as u64;
                // Making a file shorter needs no space.
                let _ = file.set_len(*len);
                return failed.and(Err(io::ErrorKind::WriteZero.into()));
            }
        }
    }
    *len += blocks.len() as u64;
    Ok(())
}

/// Opens `path`, or, if another process writes to it, the path with the process ID.
fn open_unused(path: PathBuf, pid: u32) -> io::Result<(File, PathBuf)> {
    if let Some(file) = open_locked(&path)? {
        return Ok((file, path));
    }
    let own = with_part(&path, &pid.to_string());
    match open_locked(&own)? {
        Some(file) => Ok((file, own)),
        None => Err(io::Error::other("another process writes to it")),
    }
}

/// Opens a file and empties it. None if another process, or another capture, has it locked.
fn open_locked(path: &Path) -> io::Result<Option<File>> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        // Packets contain the program's data.
        .mode(0o600)
        // Do not wait for the reader of a pipe.
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if file.as_raw_fd() <= libc::STDERR_FILENO {
        // The program has closed its standard output, and may still write to it. The copy has a number
        // above these.
        file = file.try_clone()?;
    }
    // A file system may know no locks: then the file is taken as it is.
    if is_locked_elsewhere(&file) {
        return Ok(None);
    }
    file.set_len(0)?;
    Ok(Some(file))
}

/// Locks the file, unless another process has. `File::try_lock` needs Rust 1.89.
fn is_locked_elsewhere(file: &File) -> bool {
    // SAFETY: flock takes no pointers.
    let result = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    result != 0 && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock
}

fn unlock(file: &File) {
    // SAFETY: flock takes no pointers.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
}
