//! The command descriptors of contexts. No command is written to them: they say which context a duplicate of
//! one belongs to (ibv_import_device(3)).

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

use ibverbs_os::unix;

use crate::sync::Mutex;

/// The file of a context's command descriptor, by which a duplicate is recognised: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandFile(u64, u64);

/// The name of the files. No command can be written to them.
const NAME: &CStr = c"uroce-commands";

impl CommandFile {
    /// A new file, and its descriptor. Where a filter of system calls (seccomp(2)) refuses memfd_create(2),
    /// it is the reading end of a pipe, which another process does not recognise as that of a context.
    pub fn create() -> io::Result<(OwnedFd, CommandFile)> {
        let fd = memfd().or_else(|_| pipe())?;
        let file = CommandFile::of(fd.as_raw_fd())?;
        Ok((fd, file))
    }

    /// The file of an open descriptor.
    pub fn of(fd: RawFd) -> io::Result<CommandFile> {
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        // SAFETY: the descriptor is only examined, and not closed.
        let file = core::mem::ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
        let metadata = file.metadata()?;
        Ok(CommandFile(metadata.dev(), metadata.ino()))
    }

    /// Whether the descriptor is that of a context of some process.
    pub fn is_of_any_context(fd: RawFd) -> bool {
        let target = std::fs::read_link(format!("/proc/self/fd/{fd}"));
        let name = format!("/memfd:{}", NAME.to_string_lossy());
        target.is_ok_and(|target| target.to_string_lossy().starts_with(&name))
    }
}

/// A new memfd to which nothing can be written.
fn memfd() -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name ends with NUL, and nothing else owns the new descriptor.
    let fd = unsafe { unix::owned(libc::memfd_create(NAME.as_ptr(), flags))? };
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL;
    // SAFETY: an open descriptor. Without the seals, what is written is not read by anyone.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    Ok(fd)
}

/// The reading end of a new pipe, whose other end is closed.
fn pipe() -> io::Result<OwnedFd> {
    let mut ends = [-1; 2];
    // SAFETY: the array has room for both ends.
    unix::check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: new descriptors, which nothing else owns.
    let [reader, _writer] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    Ok(reader)
}

/// The command file of each context that a process has open on a device.
#[derive(Default)]
pub struct CommandFiles(Mutex<Vec<CommandFile>>);

impl CommandFiles {
    /// A context with this command file is opened.
    pub fn add(&self, file: CommandFile) {
        self.0.lock().push(file);
    }

    /// Removes one context's entry of its command file, when that context is closed.
    pub fn remove(&self, file: CommandFile) {
        let mut files = self.0.lock();
        if let Some(at) = files.iter().position(|other| *other == file) {
            files.swap_remove(at);
        }
    }

    /// Whether a context with this command file is open.
    pub fn contains(&self, file: CommandFile) -> bool {
        self.0.lock().contains(&file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_is_of_the_same_file() {
        recognises_duplicates(&CommandFile::create().unwrap());
        let (other, _) = CommandFile::create().unwrap();
        assert!(CommandFile::is_of_any_context(other.as_raw_fd()));
        assert!(!CommandFile::is_of_any_context(0) && !CommandFile::is_of_any_context(-1));
        assert!(CommandFile::of(-1).is_err());
    }

    #[test]
    fn a_pipe_serves_as_well() {
        let fd = pipe().unwrap();
        let file = CommandFile::of(fd.as_raw_fd()).unwrap();
        recognises_duplicates(&(fd, file));
    }

    fn recognises_duplicates((fd, file): &(OwnedFd, CommandFile)) {
        let other = pipe().unwrap();
        let other_file = &CommandFile::of(other.as_raw_fd()).unwrap();
        let duplicate = fd.try_clone().unwrap();
        assert_eq!(CommandFile::of(duplicate.as_raw_fd()).unwrap(), *file);
        assert_ne!(file, other_file);
        // Nothing can be written to it.
        let byte = [0_u8];
        // SAFETY: one byte is read from the array.
        let written = unsafe { libc::write(fd.as_raw_fd(), byte.as_ptr().cast(), 1) };
        assert_eq!(written, -1);
    }

    #[test]
    fn contexts_with_one_file_are_counted() {
        let (files, file) = (CommandFiles::default(), CommandFile(1, 2));
        (0..2).for_each(|_| files.add(file));
        files.remove(file);
        assert!(files.contains(file) && !files.contains(CommandFile(1, 3)));
        files.remove(file);
        assert!(!files.contains(file));
    }
}
