//! Finds the file that is run for a name: the search in PATH, and the interpreters of scripts.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::{elf, sys, var};

pub const A_LIBRARY: &str = "a shared library, not a program: name the program that loads it";

/// Why a name cannot be run.
#[derive(Debug, PartialEq)]
pub enum NotAProgram {
    /// The file does not exist. If the name was searched in PATH: the file of that name in the
    /// working directory.
    Missing(Option<PathBuf>),
    Directory,
    Library,
    NotExecutable,
}

impl fmt::Display for NotAProgram {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Missing(None) => f.write_str("no such program"),
            Self::Missing(Some(here)) => {
                write!(
                    f,
                    "no such program in PATH (for the file in this directory: {})",
                    here.display()
                )
            }
            Self::Directory => f.write_str("is a directory, not a program"),
            Self::Library => write!(f, "is {A_LIBRARY}"),
            Self::NotExecutable => {
                f.write_str("is not executable (chmod +x, or name the program that reads it)")
            }
        }
    }
}

/// The executable file of that name in PATH.
pub fn in_path(name: &OsStr) -> Option<PathBuf> {
    let directories = var("PATH")?;
    env::split_paths(&directories)
        .map(|directory| {
            if directory.as_os_str().is_empty() {
                PathBuf::from(".")
            } else {
                directory
            }
        })
        .map(|directory| directory.join(name))
        .find(|file| file.is_file() && sys::executable(file))
}

/// The program of that name, as a shell finds it. The result contains a slash.
pub fn find(name: &OsStr) -> Result<PathBuf, NotAProgram> {
    let path = PathBuf::from(name);
    if !name.as_bytes().contains(&b'/') {
        let here = Path::new(".").join(&path);
        let here = (!name.is_empty() && here.is_file()).then_some(here);
        return in_path(name)
            .filter(|_| !name.is_empty())
            .ok_or(NotAProgram::Missing(here));
    }
    match path.metadata() {
        Err(_) => Err(NotAProgram::Missing(None)),
        Ok(found) if found.is_dir() => Err(NotAProgram::Directory),
        Ok(_) if sys::executable(&path) => Ok(path),
        Ok(_) if is_library(&path) => Err(NotAProgram::Library),
        Ok(_) => Err(NotAProgram::NotExecutable),
    }
}

fn is_library(path: &Path) -> bool {
    elf::inspect(path).is_some_and(|elf| elf.kind == elf::Kind::Library)
}

/// The file that the kernel loads for a program, with the interpreters of scripts on the way there.
pub struct Loaded {
    /// The interpreters as the scripts name them, the first script's first.
    pub interpreters: Vec<PathBuf>,
    /// Without symbolic links. If it does not exist, as it was named.
    pub file: PathBuf,
}

/// The kernel refuses longer chains of scripts whose interpreters are scripts.
const MAX_SCRIPTS: usize = 4;

pub fn loaded(program: &Path) -> Loaded {
    let mut interpreters = Vec::new();
    let mut file = real(program);
    while interpreters.len() < MAX_SCRIPTS {
        let Some(next) = interpreter(&first_bytes(&file)) else {
            break;
        };
        file = real(&next);
        interpreters.push(next);
    }
    Loaded { interpreters, file }
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

fn first_bytes(file: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A file that cannot be read is not treated as a script. The kernel reports the error when it is run.
    let _ = File::open(file).and_then(|file| file.take(4096).read_to_end(&mut bytes));
    bytes
}

/// The interpreter in the first line of a script. For `env NAME` it is the program NAME.
fn interpreter(script: &[u8]) -> Option<PathBuf> {
    let line = script
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(OsStr::from_bytes);
    let named = Path::new(words.next().unwrap_or(OsStr::new("/bin/sh")));
    if named.file_name() == Some(OsStr::new("env")) {
        let mut words = words.map(OsStr::as_bytes);
        if let Some(word) = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'=')) {
            let word = OsStr::from_bytes(word);
            return Some(in_path(word).unwrap_or(word.into()));
        }
    }
    Some(named.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(script: &str) -> Option<PathBuf> {
        interpreter(script.as_bytes())
    }

    #[test]
    fn a_script_names_its_interpreter() {
        assert_eq!(of("#!/bin/sh\n/bin/other"), Some("/bin/sh".into()));
        assert_eq!(
            of("#! /usr/bin/python3 -E\n"),
            Some("/usr/bin/python3".into())
        );
        assert_eq!(
            of("#!/usr/bin/env -S A=1 no-such-program -x\n"),
            Some("no-such-program".into())
        );
        assert_eq!(of("#!/usr/bin/env"), Some("/usr/bin/env".into()));
        assert_eq!(of("#!\n"), Some("/bin/sh".into()));
        assert_eq!(of("\x7fELF"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn names_that_run_nothing() {
        assert_eq!(find("".as_ref()), Err(NotAProgram::Missing(None)));
        assert_eq!(find("/nowhere/x".as_ref()), Err(NotAProgram::Missing(None)));
        assert_eq!(find("/etc".as_ref()), Err(NotAProgram::Directory));
        assert_eq!(
            find("/etc/passwd".as_ref()),
            Err(NotAProgram::NotExecutable)
        );
        assert_eq!(
            find("Cargo.toml".as_ref()),
            Err(NotAProgram::Missing(Some("./Cargo.toml".into())))
        );
    }
}
