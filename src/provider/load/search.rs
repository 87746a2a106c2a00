//! The search for a configured provider's file: the provider directories, and the ABIs in the file
//! names.
//!
//! A provider is named `libNAME-rdmavN.so` after its provider ABI N. If there are several, the newest is
//! preferred. The directories are searched in order, and the first that has the provider in any ABI is
//! used.

use core::{
    ffi::{CStr, c_int},
    ops::Range,
};
use std::{
    ffi::{CString, OsStr},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    str::Split,
};

use arrayvec::ArrayVec;
use ibverbs_abi::Errno;

use super::cstring;
use crate::{
    provider::{
        file::{FileBuffer, ProviderFile},
        identify::{Examiner, Verdict},
    },
    sys,
};

/// The directories of the providers, separated by colons. IBVERBS_PROVIDER_DIR at build time replaces
/// them. If there is none, the dynamic linker searches its own path only.
const PROVIDER_DIRS: &str = match option_env!("IBVERBS_PROVIDER_DIR") {
    Some(dirs) => dirs,
    // Debian's directory, Fedora's and Alpine's.
    None => concat!(
        "/usr/lib/",
        multiarch!(),
        "/libibverbs:/usr/lib64/libibverbs:/usr/lib/libibverbs"
    ),
};

/// The numbers of the provider ABIs, the newest first, and the ends of their providers' file names.
const SUFFIXES: [(u32, &str); 5] = [
    (65, "-rdmav65.so"),
    (64, "-rdmav64.so"),
    (59, "-rdmav59.so"),
    (57, "-rdmav57.so"),
    (34, "-rdmav34.so"),
];

/// The ends of the file names of providers, the newest ABI first.
pub fn suffixes() -> impl Iterator<Item = &'static str> {
    SUFFIXES.iter().map(|(_, suffix)| *suffix)
}

/// The place of a number in [`SUFFIXES`]; that of an ABI that the library does not have comes last.
fn rank(number: u32) -> usize {
    let known = SUFFIXES.iter().position(|(known, _)| *known == number);
    known.unwrap_or(SUFFIXES.len())
}

/// A file of a provider.
pub struct Candidate {
    pub path: CString,
    /// The end of its name; `None` if the configuration names the file itself, or for an ABI that the
    /// library does not have.
    pub suffix: Option<&'static str>,
}

/// The provider directories, as they are when a provider is looked for. Further ones are opened when those
/// before do not have it.
pub struct Directories {
    opened: Vec<Directory>,
    unopened: Split<'static, char>,
    examiner: Examiner,
    parts: Option<FileBuffer>,
}

impl Default for Directories {
    fn default() -> Self {
        Directories {
            opened: Vec::new(),
            unopened: PROVIDER_DIRS.split(':'),
            examiner: Examiner::default(),
            parts: None,
        }
    }
}

struct Directory {
    path: &'static [u8],
    contents: Contents,
}

enum Contents {
    Listed(sys::Dir, Files),
    /// The directory may be searched but not listed.
    Unlisted(OwnedFd),
}

/// The providers in a directory.
#[derive(Default)]
struct Files {
    /// The names of all, one after the other.
    names: Vec<u8>,
    /// The entries, each with the range of its name in `names`, and the number in its file name.
    entries: Vec<(Range<usize>, u32)>,
}

impl Directories {
    /// The first directory that has the provider `name`.
    fn with(&mut self, name: &[u8]) -> Option<&Directory> {
        let mut found = self.opened.iter().position(|dir| dir.has(name));
        while found.is_none() {
            let path = self.unopened.next()?;
            if let Some(dir) = Directory::open(path) {
                found = dir.has(name).then_some(self.opened.len());
                self.opened.push(dir);
            }
        }
        self.opened.get(found?)
    }

    /// The files of the provider `name` in the first directory that has one, the newest ABI first. For an
    /// absolute name, those with that name and a suffix, or the file itself.
    pub fn files(&mut self, name: &CStr) -> Vec<Candidate> {
        let name = name.to_bytes();
        if name.starts_with(b"/") {
            return by_path(name);
        }
        self.with(name)
            .map(|dir| dir.files(name))
            .unwrap_or_default()
    }

    /// The verdict on the first of [`Self::files`]; `None` if there is none. It makes no path, because most
    /// providers are only examined.
    pub fn examine_first(&mut self, name: &CStr) -> Option<Verdict> {
        let bytes = name.to_bytes();
        let dir = if bytes.starts_with(b"/") {
            None
        } else {
            self.with(bytes)
        };
        let newest = dir.and_then(|dir| Some((dir.newest(bytes)?, dir.fd(), dir.path)));
        let Some((number, dirfd, dir)) = newest else {
            let file = self.files(name).into_iter().next()?;
            return Some(self.examine(&file.path));
        };
        let suffix = SUFFIXES.get(rank(number)).map(|(_, suffix)| suffix)?;
        let mut file: ArrayVec<u8, { libc::NAME_MAX as usize + 1 }> = ArrayVec::new();
        for part in [b"lib", bytes, suffix.as_bytes(), b"\0"] {
            file.try_extend_from_slice(part).ok()?;
        }
        let file = CStr::from_bytes_with_nul(&file).ok()?;
        let path = || Path::new(OsStr::from_bytes(dir)).join(OsStr::from_bytes(file.to_bytes()));
        Some(self.examine_at(dirfd, file, &path))
    }

    /// The verdict on a file.
    pub fn examine(&mut self, path: &CStr) -> Verdict {
        // Relative to the directory, which saves the kernel most of the path.
        let bytes = path.to_bytes_with_nul();
        let relative = self.opened.iter().find_map(|dir| {
            let rest = bytes.strip_prefix(dir.path)?.strip_prefix(b"/")?;
            Some((dir.fd(), CStr::from_bytes_with_nul(rest).ok()?))
        });
        let (dirfd, file) = relative.unwrap_or((libc::AT_FDCWD, path));
        let path = || PathBuf::from(OsStr::from_bytes(path.to_bytes()));
        self.examine_at(dirfd, file, &path)
    }

    /// The verdict on a file relative to `dirfd`; `path` returns its whole path.
    fn examine_at(&mut self, dirfd: c_int, file: &CStr, path: &dyn Fn() -> PathBuf) -> Verdict {
        let parts = self.parts.get_or_insert_with(FileBuffer::default);
        match ProviderFile::open(dirfd, file, parts) {
            Some(mut file) => self.examiner.examine(&mut file, path),
            None => Verdict::Unknown,
        }
    }
}

impl Directory {
    /// `None` if it does not exist.
    fn open(path: &'static str) -> Option<Self> {
        let name = cstring(&[path.as_bytes()]);
        let contents = match sys::Dir::open(&name) {
            Ok(mut dir) => {
                let files = Files::list(&mut dir);
                Contents::Listed(dir, files)
            }
            Err(Errno(libc::ENOENT | libc::ENOTDIR)) => return None,
            Err(_) => {
                let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
                Contents::Unlisted(sys::open(&name, flags).ok()?)
            }
        };
        let path = path.as_bytes();
        Some(Directory { path, contents })
    }

    /// The descriptor, for openat.
    fn fd(&self) -> c_int {
        match &self.contents {
            Contents::Listed(dir, _) => dir.fd(),
            Contents::Unlisted(fd) => fd.as_raw_fd(),
        }
    }

    /// Whether it has the provider `name`.
    fn has(&self, name: &[u8]) -> bool {
        match &self.contents {
            Contents::Listed(_, files) => files.numbers(name).next().is_some(),
            Contents::Unlisted(_) => !self.files(name).is_empty(),
        }
    }

    /// The number of the newest ABI that the provider `name` has here; `None` if the directory is not
    /// listed.
    fn newest(&self, name: &[u8]) -> Option<u32> {
        match &self.contents {
            Contents::Listed(_, files) => files.numbers(name).min_by_key(|number| rank(*number)),
            Contents::Unlisted(_) => None,
        }
    }

    /// The files of the provider `name`, the newest ABI first, and last those of ABIs that the library does
    /// not have, which are refused with a message.
    fn files(&self, name: &[u8]) -> Vec<Candidate> {
        let Contents::Listed(_, files) = &self.contents else {
            let all = SUFFIXES.iter().map(|(number, _)| self.file(name, *number));
            return all.filter(|file| exists(&file.path)).collect();
        };
        let mut numbers: Vec<u32> = files.numbers(name).collect();
        numbers.sort_by_key(|number| rank(*number));
        let files = numbers.into_iter().map(|number| self.file(name, number));
        files.collect()
    }

    fn file(&self, name: &[u8], number: u32) -> Candidate {
        match SUFFIXES.get(rank(number)) {
            Some((_, suffix)) => Candidate {
                path: cstring(&[self.path, b"/lib", name, suffix.as_bytes()]),
                suffix: Some(suffix),
            },
            None => {
                let suffix = format!("-rdmav{number}.so");
                Candidate {
                    path: cstring(&[self.path, b"/lib", name, suffix.as_bytes()]),
                    suffix: None,
                }
            }
        }
    }
}

impl Files {
    fn list(dir: &mut sys::Dir) -> Self {
        let mut files = Files {
            names: Vec::with_capacity(512),
            entries: Vec::with_capacity(32),
        };
        while let Some(file) = dir.next_name() {
            if let Some((name, number)) = parse(file.to_bytes()) {
                let start = files.names.len();
                files.names.extend_from_slice(name);
                files.entries.push((start..files.names.len(), number));
            }
        }
        files
    }

    /// The numbers of the provider `name`, in the directory's order.
    fn numbers(&self, name: &[u8]) -> impl Iterator<Item = u32> {
        let here = move |(at, number): &(Range<usize>, u32)| {
            let same = at.len() == name.len() && self.names.get(at.clone()) == Some(name);
            same.then_some(*number)
        };
        self.entries.iter().filter_map(here)
    }
}

/// The name and the number in `libNAME-rdmavN.so`.
fn parse(file: &[u8]) -> Option<(&[u8], u32)> {
    let stem = file.strip_prefix(b"lib")?.strip_suffix(b".so")?;
    let dash = stem.iter().rposition(|&c| c == b'-')?;
    let (name, number) = stem.split_at_checked(dash)?;
    let number = core::str::from_utf8(number.strip_prefix(b"-rdmav")?).ok()?;
    Some((name, number.parse().ok()?))
}

/// The files that an absolute name in the configuration stands for. `NAME-rdmav34.so` if there is none,
/// for the error message.
fn by_path(name: &[u8]) -> Vec<Candidate> {
    let file = |suffix: &'static str| Candidate {
        path: cstring(&[name, suffix.as_bytes()]),
        suffix: Some(suffix),
    };
    let mut files: Vec<Candidate> = suffixes()
        .map(file)
        .filter(|file| exists(&file.path))
        .collect();
    let whole = cstring(&[name]);
    if files.is_empty() && name.windows(3).any(|part| part == b".so") && is_file(&whole) {
        files.push(Candidate {
            path: whole,
            suffix: None,
        });
    }
    if files.is_empty() {
        files.extend(SUFFIXES.last().map(|(_, suffix)| file(suffix)));
    }
    files
}

/// Whether there is anything of that name, a dangling link included.
fn exists(path: &CStr) -> bool {
    std::fs::symlink_metadata(OsStr::from_bytes(path.to_bytes())).is_ok()
}

fn is_file(path: &CStr) -> bool {
    sys::stat(path).is_ok_and(|st| st.st_mode & libc::S_IFMT == libc::S_IFREG)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::abi;

    #[test]
    fn each_abi_has_its_suffix_and_the_newest_comes_first() {
        let mut numbers: Vec<u32> = abi::ALL.iter().map(|abi| abi.number).collect();
        numbers.dedup();
        assert_eq!(numbers, SUFFIXES.map(|(number, _)| number));
        for (number, suffix) in SUFFIXES {
            assert_eq!(suffix, format!("-rdmav{number}.so"));
        }
        assert!(rank(65) < rank(34) && rank(34) < rank(99));
    }

    #[test]
    fn file_names() {
        let parsed = |file: &str| parse(file.as_bytes()).map(|(name, abi)| (name.to_vec(), abi));
        assert_eq!(parsed("librxe-rdmav34.so"), Some((b"rxe".to_vec(), 34)));
        assert_eq!(
            parsed("libmy-own-rdmav65.so"),
            Some((b"my-own".to_vec(), 65))
        );
        assert_eq!(parsed("librxe-rdmav.so"), None);
        assert_eq!(parsed("librxe-rdmav34.so.1"), None);
        assert_eq!(parsed("libmlx5.so"), None);
        assert_eq!(parsed("rxe-rdmav34.so"), None);
    }

    #[test]
    fn the_newest_abi_is_preferred() {
        let dir = std::env::temp_dir().join(format!("rs-search-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let base = dir.join("libx");
        let name = |end: &str| format!("{}{end}", base.display());
        let files = |name: &str| -> Vec<String> {
            let found = by_path(name.as_bytes());
            found
                .iter()
                .map(|file| file.path.to_str().unwrap().to_owned())
                .collect()
        };
        let own = name("");
        assert_eq!(files(&own), [name("-rdmav34.so")], "none exists");
        for abi in [57, 65, 34] {
            std::fs::write(name(&format!("-rdmav{abi}.so")), b"").unwrap();
        }
        let all = [
            name("-rdmav65.so"),
            name("-rdmav57.so"),
            name("-rdmav34.so"),
        ];
        assert_eq!(files(&own), all);
        assert_eq!(
            files(&name("-rdmav57.so")),
            [name("-rdmav57.so")],
            "the file itself"
        );
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn missing_and_odd_names_have_no_files() {
        let mut dirs = Directories::default();
        assert!(dirs.files(c"no-such-provider").is_empty());
        assert!(dirs.files(c"").is_empty());
        assert!(dirs.files(c"../").is_empty());
    }
}
