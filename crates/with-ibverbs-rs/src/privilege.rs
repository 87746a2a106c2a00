//! Programs that get privileges when they start. The dynamic linker ignores LD_LIBRARY_PATH and LD_PRELOAD
//! in them and takes both out of their environment (AT_SECURE, ld.so(8)).

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::sys;

/// The consequence of a privilege, as reports put it.
pub const IGNORED: &str = "so the dynamic linker ignores LD_LIBRARY_PATH and LD_PRELOAD";

/// Returns the privileges that the file gives to whoever runs it.
pub fn of(file: &Path) -> Option<&'static str> {
    let mode = file.metadata().map_or(0, |found| found.mode());
    if mode & libc::S_ISUID != 0 {
        Some("set-user-ID")
    } else if mode & libc::S_ISGID != 0 {
        Some("set-group-ID")
    } else if has_capabilities(file) {
        Some("given capabilities")
    } else {
        None
    }
}

fn has_capabilities(file: &Path) -> bool {
    sys::has_attribute(file, c"security.capability")
}

/// Returns the privileges that the file gives, if the kernel changes privileges when this process
/// runs it.
///
/// It does not if the process has that user or group already, if it is root and the mark is capabilities, on
/// `nosuid` mounts, and under `no_new_privs` (as in many containers).
pub fn gained_by_us(file: &Path) -> Option<&'static str> {
    let marked = of(file)?;
    let found = file.metadata().ok()?;
    let (user, group) = sys::real_ids();
    let gains = found.mode() & libc::S_ISUID != 0 && found.uid() != user
        || found.mode() & libc::S_ISGID != 0 && found.gid() != group
        || user != 0 && has_capabilities(file);
    (gains && !sys::no_new_privileges() && !sys::mounted_nosuid(file)).then_some(marked)
}
