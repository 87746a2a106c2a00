//! The provider ABI that a provider was built for, read from its file before its code runs.
//!
//! A provider imports its ABI's version node of libibverbs, IBVERBS_PRIVATE_*. Number 59 stands for two
//! layouts, and nothing that a provider passes to the library shows which one it has. So these are
//! consulted, in this order; the first that knows decides:
//!
//! 1. the names in the file: functions and versions that only releases 62 and 63 have; for libmlx5, the
//!    versions that it defines; for a provider that was compiled with this library's driver.h, a symbol of
//!    that header;
//! 2. the release at the end of the file's real name, as in `libmlx5.so.1.25.61.0`;
//! 3. the same of the files beside it, because releases ship all providers together: the names in
//!    libmlx5-rdmav59.so, then the real names of providers;
//! 4. the C library beside it: release 62 added IBVERBS_1.16.
//!
//! A provider that none of them knows is refused: with the wrong layout every call would be another op.

use core::ffi::{CStr, c_void};
use std::{
    ffi::{CString, OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use ibverbs_abi::verbs_device_ops;
use libc::AT_FDCWD;

use super::{
    abi::{Numbered, ProviderAbi, SUPPORTED},
    elf::{Abi, Imports, ReadAt, imports},
    file::{FileBuffer, ProviderFile},
};
use crate::log;

/// The result of reading a file's imports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A provider of this layout.
    Supported(&'static ProviderAbi),
    /// A shared object that imports no provider ABI.
    NoProvider,
    /// The file is not understood: whether it can be loaded is for dlopen to decide.
    Unknown,
    Refused(Refusal),
}

/// Why a provider cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The provider has an ABI that the library does not have.
    Unsupported(u32),
    /// The provider imports several ABIs.
    Several,
    /// The provider has one of two layouts with the same number.
    EitherOf(&'static ProviderAbi, &'static ProviderAbi),
}

impl Refusal {
    /// The reason and what would help, for a message of one line.
    pub fn reason(self) -> String {
        match self {
            Refusal::Unsupported(number) => format!(
                "it has provider ABI {number} (of rdma-core {number}); supported are {SUPPORTED}"
            ),
            Refusal::Several => {
                "it imports several provider ABIs (IBVERBS_PRIVATE_*) at once".to_owned()
            }
            Refusal::EitherOf(old, new) => format!(
                "it has provider ABI {0}, and no file beside it shows which of the two (rdma-core {1}, or \
                 {2}); libmlx5-rdmav{0}.so of the same release beside it would",
                old.number, old.releases, new.releases
            ),
        }
    }
}

/// Names that files of rdma-core 62 and 63 have among their imports and exports, and older ones do not.
const SINCE_62: [&[u8]; 5] = [
    b"ibv_cmd_query_port_speed",
    b"ibv_cmd_export_dmabuf_fd",
    b"MLX5_1.26",
    b"EFA_1.5",
    b"ibv_provider_layout_62", // of this library's driver.h
];
/// Names of older files: what driver.h defines, and a version that every libmlx5 of provider ABI 59 has. With
/// these, none of [`SINCE_62`] means an older release.
const UNTIL_61: [&[u8]; 2] = [b"ibv_provider_layout_59", b"MLX5_1.25"];
/// Providers whose real file name ends in the release.
const VERSIONED: [&str; 5] = ["mlx5", "mlx4", "efa", "mana", "hns"];

/// Examines files. Remembers what the files beside them show, for the next file of the same directory.
#[derive(Default)]
pub struct Examiner {
    beside: Vec<(PathBuf, Option<bool>)>,
}

impl Examiner {
    /// The verdict on a provider's file. `path` returns its path, which only some ABIs need.
    pub fn examine(&mut self, file: &mut impl ReadAt, path: &dyn Fn() -> PathBuf) -> Verdict {
        let Some(imports) = imports(file) else {
            return Verdict::Unknown;
        };
        let number = match imports.abi {
            Abi::One(number) => number,
            Abi::None => return Verdict::NoProvider,
            Abi::Several => return Verdict::Refused(Refusal::Several),
        };
        match ProviderAbi::numbered(number) {
            Numbered::One(abi) => Verdict::Supported(abi),
            Numbered::Unsupported => Verdict::Refused(Refusal::Unsupported(number)),
            Numbered::Two(old, new) => match self.is_newer(&imports, file, &path()) {
                Some(false) => Verdict::Supported(old),
                Some(true) => Verdict::Supported(new),
                None => Verdict::Refused(Refusal::EitherOf(old, new)),
            },
        }
    }

    /// Whether a provider of ABI 59 has the newer layout; `None` if nothing shows it.
    fn is_newer(&mut self, imports: &Imports, file: &mut impl ReadAt, path: &Path) -> Option<bool> {
        by_names(imports, file)
            .or_else(|| by_real_name(path))
            .or_else(|| {
                let dir = path.parent()?;
                let known = self.beside.iter().find(|(known, _)| known == dir);
                match known {
                    Some((_, newer)) => *newer,
                    None => {
                        let newer = by_neighbours(dir);
                        self.beside.push((dir.to_owned(), newer));
                        newer
                    }
                }
            })
    }
}

/// Whether the names in a file of provider ABI 59 are those of release 62 and later.
fn by_names(imports: &Imports, file: &mut impl ReadAt) -> Option<bool> {
    if imports.mention(file, &SINCE_62) {
        Some(true)
    } else if imports.mention(file, &UNTIL_61) {
        Some(false)
    } else {
        None
    }
}

/// Whether the release at the end of the file's real name is 62 or later.
fn by_real_name(path: &Path) -> Option<bool> {
    let real = std::fs::canonicalize(path).ok()?;
    release(real.file_name()?.as_bytes()).map(|release| release >= 62)
}

/// The release in a name such as `libmlx5.so.1.25.61.0`, if it is one of provider ABI 59.
fn release(name: &[u8]) -> Option<u32> {
    let mut fields = name.rsplit(|&c| c == b'.');
    let number = |field: &[u8]| core::str::from_utf8(field).ok()?.parse::<u32>().ok();
    number(fields.next()?)?;
    number(fields.next()?).filter(|release| (59..=63).contains(release))
}

/// Distinguishes the layouts of ABI 59 by the files in the provider's directory, and those in the
/// library's.
fn by_neighbours(dir: &Path) -> Option<bool> {
    // A provider is in the library's directory itself if a program is linked with it.
    let places = [dir.to_owned(), dir.join("libibverbs")];
    let beside = |name: &str, test: &dyn Fn(&Path) -> Option<bool>| {
        places
            .iter()
            .find_map(|place| test(&place.join(format!("lib{name}-rdmav59.so"))))
    };
    beside("mlx5", &|path| {
        with_file(path, |imports, file| by_names(imports, file))
    })
    .or_else(|| {
        VERSIONED
            .into_iter()
            .find_map(|name| beside(name, &by_real_name))
    })
    .or_else(|| {
        [dir.join("../libibverbs.so.1"), dir.join("libibverbs.so.1")]
            .iter()
            .find_map(|path| with_file(path, |imports, file| by_c_library(imports, file)))
    })
}

/// Whether a C library of provider ABI 59 has the public node of release 62.
fn by_c_library(imports: &Imports, file: &mut impl ReadAt) -> Option<bool> {
    // This library has the nodes of all ABIs, and shows nothing about the providers.
    let is_c = imports.mention(file, &[b"IBVERBS_PRIVATE_59"])
        && !imports.mention(file, &[b"IBVERBS_PRIVATE_34"]);
    is_c.then(|| imports.mention(file, &[b"IBVERBS_1.16"]))
}

/// A test of a file.
type Test = for<'a, 'b> fn(&Imports, &'b mut ProviderFile<'a>) -> Option<bool>;

/// Applies `test` to the file at `path`; `None` if it cannot be read.
fn with_file(path: &Path, test: Test) -> Option<bool> {
    let mut parts = FileBuffer::default();
    let mut file = ProviderFile::open(AT_FDCWD, &c_string(path)?, &mut parts)?;
    test(&imports(&mut file)?, &mut file)
}

fn c_string(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}

/// The path of the loaded file that contains `address`; empty if it is unknown.
pub(super) fn path_of(address: *const c_void) -> OsString {
    // SAFETY: dladdr accepts any address, and fills the structure if it succeeds; the name lives as long as
    // the file is loaded, and providers are never unloaded.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(address, &mut info) == 0 || info.dli_fname.is_null() {
            return OsString::new();
        }
        OsString::from_vec(CStr::from_ptr(info.dli_fname).to_bytes().to_vec())
    }
}

/// The verdict on the loaded file that contains `address`, and its path.
fn of_address(address: *const c_void) -> (Verdict, OsString) {
    let mut verdict = Verdict::Unknown;
    let path = path_of(address);
    let mut parts = FileBuffer::default();
    if let Some(name) = c_string(Path::new(&path)) {
        if let Some(mut file) = ProviderFile::open(AT_FDCWD, &name, &mut parts) {
            verdict = Examiner::default().examine(&mut file, &|| PathBuf::from(&path));
        }
    }
    (verdict, path)
}

/// The layout of a provider that registers as one of ABI `PABI`. `None`, with a warning on stderr, if the
/// ABI stands for several layouts and the provider's is not known.
pub fn of_caller<const PABI: u32>(ops: *const verbs_device_ops) -> Option<&'static ProviderAbi> {
    if let Numbered::One(abi) = ProviderAbi::numbered(PABI) {
        return Some(abi);
    }
    match of_address(ops.cast()) {
        (Verdict::Supported(abi), _) if abi.number == PABI => Some(abi),
        (verdict, path) => {
            warn(&path, refusal(verdict, PABI));
            None
        }
    }
}

/// The refusal to report of a provider of ABI `number` that did not get a layout of that ABI.
fn refusal(verdict: Verdict, number: u32) -> Refusal {
    match (verdict, ProviderAbi::numbered(number)) {
        (Verdict::Refused(refusal), _) => refusal,
        (_, Numbered::Two(old, new)) => Refusal::EitherOf(old, new),
        _ => Refusal::Unsupported(number),
    }
}

/// Prints that the provider at `path` is not used, and why.
pub fn warn(path: &OsStr, refusal: Refusal) {
    log::print(&[
        b"Warning: couldn't load driver '",
        path.as_bytes(),
        b"': ",
        refusal.reason().as_bytes(),
        b"\n",
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_from_real_names() {
        assert_eq!(release(b"libmlx5.so.1.25.61.0"), Some(61));
        assert_eq!(release(b"libefa.so.1.5.63.1"), Some(63));
        for other in [
            &b"libmlx5.so.1.24.56.1"[..],
            b"libmlx5.so.1.25.2510mlnx12",
            b"librxe-rdmav59.so",
            b"61.x",
            b"61",
            b"",
        ] {
            assert_eq!(release(other), None);
        }
    }

    #[test]
    fn a_loaded_file_that_is_no_provider_is_none() {
        let (verdict, path) = of_address(libc::malloc as *const c_void);
        assert_eq!(verdict, Verdict::NoProvider);
        assert!(path.as_bytes().starts_with(b"/"));
    }

    #[test]
    fn refusals_say_what_is_supported() {
        let text = Refusal::Unsupported(71).reason();
        assert!(
            text.contains("ABI 71 (of rdma-core 71)") && text.contains("34, 57, 59, 64 and 65")
        );
        let Numbered::Two(old, new) = ProviderAbi::numbered(59) else {
            panic!("59 stands for two layouts");
        };
        let text = Refusal::EitherOf(old, new).reason();
        assert!(text.contains("59 to 61") && text.contains("62 and 63"));
    }
}
