//! The file of rules (IBV_FAULTS=@FILE). When it changes, its rules replace those before, so that a running
//! program can be disturbed, and left alone again.

use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use ibverbs_faults::{Parsed, parse};

use crate::log as messages;

/// How often a change of the file is looked for.
pub const INTERVAL: Duration = Duration::from_millis(100);
/// Larger files are refused.
const MAX_BYTES: u64 = 1 << 20;

/// The attributes of the file that change when it is written or replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Version {
    inode: u64,
    size: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Version {
    fn of(file: &Metadata) -> Version {
        Version {
            inode: file.ino(),
            size: file.size(),
            seconds: file.mtime(),
            nanoseconds: file.mtime_nsec(),
        }
    }
}

/// The file that IBV_FAULTS names, with its version when it was first read.
static FILE: OnceLock<(PathBuf, Option<Version>)> = OnceLock::new();

/// Reads the file, and remembers it for [`Watched`]. The error is one line.
pub fn open(path: &[u8]) -> Result<Parsed, String> {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let version = fs::metadata(path).ok().as_ref().map(Version::of);
    let parsed = read(path)?;
    // The same at each call.
    let _ = FILE.set((path.into(), version));
    Ok(parsed)
}

fn read(path: &Path) -> Result<Parsed, String> {
    let name = path.as_os_str().as_bytes().escape_ascii();
    let text = match fs::metadata(path) {
        Ok(file) if file.len() > MAX_BYTES => {
            return Err(format!("{name}: more than {MAX_BYTES} bytes"));
        }
        Ok(_) => fs::read(path),
        Err(error) => Err(error),
    };
    let text = text.map_err(|error| format!("{name}: {error}"))?;
    parse(&text).map_err(|error| format!("{name}: {error}"))
}

/// The file of rules, and which version of it was read last.
pub struct Watched {
    path: &'static Path,
    version: Option<Version>,
}

impl Watched {
    /// None if the rules are not those of a file.
    pub fn new() -> Option<Watched> {
        let (path, version) = FILE.get()?;
        Some(Watched {
            path,
            version: *version,
        })
    }

    /// Puts the file's rules into force if it has changed. If there is an error in them, a warning
    /// says so, and the rules before stay.
    pub fn reread(&mut self) {
        let version = fs::metadata(self.path).ok().as_ref().map(Version::of);
        if version.is_none() || version == self.version {
            return;
        }
        self.version = version;
        match read(self.path) {
            Ok(parsed) => {
                log::info!("IBV_FAULTS: {} rules are in force", parsed.rules.len());
                super::set(parsed);
            }
            Err(why) => {
                messages::print(&[b"Warning: ignoring IBV_FAULTS: ", why.as_bytes(), b"\n"]);
            }
        }
    }
}
