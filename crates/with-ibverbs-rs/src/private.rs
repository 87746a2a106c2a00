//! Directories that nobody but this user can change. What is in them is loaded into programs, perhaps into
//! those of root who has kept the HOME of another user (`sudo -E`): that user could replace a directory of
//! root in its own.

use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::sys;

/// The permission bits that let others write to a directory.
const OTHERS_WRITE: u32 = 0o022;
/// The bit of a directory to which others may write, but from which they cannot remove what is not
/// theirs.
const STICKY: u32 = 0o1000;

/// The owner of files whose owner this user namespace does not know.
fn overflow_user() -> Option<u32> {
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    let all = map.split_whitespace().eq(["0", "0", "4294967295"]);
    let number = fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?;
    number.trim().parse().ok().filter(|_| !all)
}

/// Whether only root and this user can rename or replace what is in a directory. In a user namespace, the
/// directories above may be those of the host's root, whom the namespace does not know.
fn keeps_entries(found: &Metadata) -> bool {
    let owners = [Some(0), Some(sys::effective_user()), overflow_user()];
    let is_shared = found.mode() & OTHERS_WRITE != 0 && found.mode() & STICKY == 0;
    found.is_dir() && owners.contains(&Some(found.uid())) && !is_shared
}

/// Creates a directory, with those above it, and returns its path without symbolic links. Fails if another
/// user can change what is in it, or in a directory above. Creates nothing then.
pub fn create(directory: &Path) -> io::Result<PathBuf> {
    let exists = |path: &&Path| fs::symlink_metadata(path).is_ok();
    let nearest = directory
        .ancestors()
        .find(exists)
        .ok_or(io::ErrorKind::NotFound)?;
    let below = directory.strip_prefix(nearest).map_err(io::Error::other)?;
    let real = fs::canonicalize(nearest)?;
    for path in real.ancestors() {
        if !keeps_entries(&fs::symlink_metadata(path)?) {
            let why = format!("others can change what is in {}", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
    }
    let real = real.join(below);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&real)?;
    let found = fs::symlink_metadata(&real)?;
    if found.uid() != sys::effective_user() || found.mode() & OTHERS_WRITE != 0 {
        let why = format!("{} is not a directory of this user alone", real.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    /// A new directory of this test.
    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("private-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        fs::canonicalize(path).unwrap()
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_is_created_below_ones_that_others_cannot_change() {
        let top = scratch("own");
        let made = create(&top.join("a/b")).unwrap();
        assert_eq!(made, top.join("a/b"));
        assert_eq!(fs::metadata(&made).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(create(&made).unwrap(), made);
        symlink(&made, top.join("link")).unwrap();
        assert_eq!(create(&top.join("link/c")).unwrap(), made.join("c"));
        set_mode(&made, 0o777);
        assert!(create(&made).is_err(), "others can write to it");
        assert!(create(&made.join("d")).is_err() && !made.join("d").exists());
        set_mode(&made, 0o1777);
        assert!(create(&made).is_err(), "others can write to it");
        assert!(create(&made.join("d")).is_ok(), "as below /tmp");
        fs::write(top.join("file"), "").unwrap();
        assert!(create(&top.join("file")).is_err() && create(&top.join("file/x")).is_err());
        fs::remove_dir_all(top).unwrap();
    }

    /// A directory of another user, which only root can make, is refused.
    #[test]
    fn a_directory_of_another_user_is_refused() {
        if sys::effective_user() != 0 {
            return;
        }
        let top = scratch("other");
        let home = top.join("home");
        DirBuilder::new().mode(0o755).create(&home).unwrap();
        let own = create(&home.join("own")).unwrap();
        chown(&home, Some(23456), None).unwrap();
        assert!(create(&own).is_err(), "its user can replace it");
        assert!(create(&home).is_err() && create(&home.join("new")).is_err());
        assert!(!home.join("new").exists());
        fs::remove_dir_all(top).unwrap();
    }
}
