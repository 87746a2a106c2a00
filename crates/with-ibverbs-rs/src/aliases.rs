//! A directory with a link to our library under the name of each bundled copy.
//!
//! The dynamic linker satisfies a request for a library with one that is already loaded under that very name.
//! So the links are preloaded by their bare names. Nothing else takes precedence over the RPATH of a wheel.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process;

use crate::own_library::has_separator;
use crate::{FAILED, Stop, private, sys, var};

/// FNV-1a. Each library that is in use has its own directory of links.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The directory in the user's cache; None if it cannot be created, if others could change it, or if it
/// cannot be listed in LD_LIBRARY_PATH.
fn cache(library: &Path) -> Option<PathBuf> {
    let cache = var("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(var("HOME")?).join(".cache")))?;
    let directory = cache.join(format!(
        "libibverbs-rs/{:016x}",
        hash(library.as_os_str().as_bytes())
    ));
    // (a relative path would depend on the working directory of each child)
    let directory = directory.is_absolute().then_some(directory)?;
    let directory = private::create(&directory).ok()?;
    let usable = !has_separator(directory.as_os_str()) && sys::writable(&directory);
    usable.then_some(directory)
}

/// A directory below TMPDIR.
fn temporary() -> Result<PathBuf, Stop> {
    let place = PathBuf::from(var("TMPDIR").unwrap_or_else(|| "/tmp".into()));
    let directory = place.join(format!("libibverbs-rs-{}", sys::effective_user()));
    let stop = |why| Stop(FAILED, format!("{why}: set XDG_CACHE_HOME"));
    let directory = private::create(&directory).map_err(|error| {
        let why = format!("{} cannot be used: {error}", directory.display());
        stop(why)
    })?;
    if has_separator(directory.as_os_str()) {
        let why = "has a space or colon in its name, which the dynamic linker cannot take";
        return Err(stop(format!("{} {why}", directory.display())));
    }
    Ok(directory)
}

/// The directory, with links for these copies.
pub fn directory(library: &Path, copies: &[PathBuf]) -> Result<OsString, Stop> {
    let directory = cache(library).map_or_else(temporary, Ok)?;
    for name in copies.iter().filter_map(|copy| copy.file_name()) {
        let link = directory.join(name);
        if !fs::read_link(&link).is_ok_and(|target| target == library) {
            replace(&link, library).map_err(|error| {
                Stop(
                    FAILED,
                    format!("{} cannot be made: {error}", link.display()),
                )
            })?;
        }
    }
    Ok(directory.into_os_string())
}

/// Replaces a link: other processes see the old link or the new one.
fn replace(link: &Path, library: &Path) -> std::io::Result<()> {
    let mut new = link.as_os_str().to_owned();
    new.push(format!(".{}", process::id()));
    if let Err(error) = symlink(library, &new) {
        // A process of that number was killed before it renamed its link, or is in another PID namespace and
        // makes the same one.
        if error.kind() != ErrorKind::AlreadyExists {
            return Err(error);
        }
        fs::remove_file(&new)?;
        symlink(library, &new)?;
    }
    fs::rename(&new, link)
}
