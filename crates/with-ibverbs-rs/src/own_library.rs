//! Finds the library that this program belongs to.
//!
//! `make` builds the library and this program into one directory. For `make install` the Makefile compiles
//! in two paths to the library's directory: the relative one from BINDIR, so that a prefix can be moved as
//! a whole, and the absolute one, for when the path of this program is unknown (no /proc) or BINDIR is a
//! symbolic link.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf, absolute};

use crate::{FAILED, Stop, var};

/// The library's directory, relative to this program's and absolute. The Makefile sets both.
const FROM_BINDIR: Option<&str> = option_env!("WITH_IBVERBS_RS_FROM_BINDIR");
const OWN_DIR: Option<&str> = option_env!("WITH_IBVERBS_RS_OWN_DIR");

/// Where distributions keep libraries, relative to this program's directory. `sudo make install` without
/// cargo installs a program that may have been built for another LIBDIR.
fn usual() -> [String; 3] {
    [
        "lib",
        &format!("lib/{}-linux-gnu", env::consts::ARCH),
        "lib64",
    ]
    .map(|lib| format!("../{lib}/libibverbs-rs"))
}

pub struct Library {
    pub directory: PathBuf,
    /// libibverbs.so.1 in the directory
    pub file: PathBuf,
}

/// `base/way` without `..`. `base` must have no symbolic links.
fn follow(base: &Path, way: &str) -> PathBuf {
    let mut path = base.to_path_buf();
    for part in Path::new(way).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    path
}

/// The directories to search, in order. `exe` is the path of this program.
fn candidates(exe: Option<&Path>) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    if let Some(bin) = exe.and_then(Path::parent) {
        let usual = usual();
        let ways = FROM_BINDIR
            .into_iter()
            .chain(usual.iter().map(String::as_str));
        directories.push(bin.to_path_buf());
        directories.extend(ways.map(|way| follow(bin, way)));
    }
    directories.extend(OWN_DIR.map(PathBuf::from));
    directories
}

fn library_in(directory: PathBuf) -> Library {
    Library {
        file: directory.join("libibverbs.so.1"),
        directory,
    }
}

/// Has the path a character that separates the entries of LD_PRELOAD or LD_LIBRARY_PATH?
pub fn has_separator(path: &OsStr) -> bool {
    path.as_bytes()
        .iter()
        .any(|byte| matches!(byte, b' ' | b':'))
}

impl Library {
    /// The library of `IBVERBS_RS_DIR`, else the one that belongs to this program.
    pub fn find() -> Result<Self, Stop> {
        let library = match var("IBVERBS_RS_DIR") {
            Some(directory) => {
                library_in(absolute(&directory).unwrap_or_else(|_| directory.into()))
            }
            None => Self::installed()?,
        };
        if !library.file.exists() {
            return Err(missing(&library.file.display().to_string()));
        }
        if has_separator(library.directory.as_os_str()) {
            let directory = library.directory.display();
            let why = format!(
                "the dynamic linker cannot take a directory with a space or colon in its name: {directory}"
            );
            return Err(Stop(FAILED, why));
        }
        Ok(library)
    }

    fn installed() -> Result<Self, Stop> {
        let directories = candidates(env::current_exe().ok().as_deref());
        if let Some(library) = directories
            .iter()
            .cloned()
            .map(library_in)
            .find(|library| library.file.exists())
        {
            return Ok(library);
        }
        let mut places: Vec<_> = directories
            .iter()
            .map(|directory| directory.display().to_string())
            .collect();
        places.sort();
        places.dedup();
        Err(missing(&format!(
            "in each of {}, libibverbs.so.1",
            places.join(", ")
        )))
    }
}

fn missing(what: &str) -> Stop {
    Stop(
        FAILED,
        format!("{what} is missing: is libibverbs-rs installed? (in the source tree: make)"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_the_library_goes_up_and_down() {
        assert_eq!(
            follow(Path::new("/usr/bin"), "../lib64/x"),
            Path::new("/usr/lib64/x")
        );
        assert_eq!(follow(Path::new("/b"), "../../opt"), Path::new("/opt"));
    }

    #[test]
    fn the_directory_of_the_program_comes_first() {
        let directories = candidates(Some(Path::new("/usr/bin/with-ibverbs-rs")));
        assert_eq!(directories[0], Path::new("/usr/bin"));
        for directory in ["/usr/lib/libibverbs-rs", "/usr/lib64/libibverbs-rs"] {
            assert!(
                directories.contains(&PathBuf::from(directory)),
                "{directory}"
            );
        }
    }
}
