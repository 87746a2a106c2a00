//! Where things are: in the source tree, and below the build directory.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The directories of the source tree and of one run, as the current process sees them: the process of a case
/// in a namespace sees them below /tmp (see `sandbox`).
#[derive(Debug, Clone)]
pub struct Paths {
    /// The source tree.
    pub repo: PathBuf,
    /// The directory that `artifacts` made for this run: `lib/ours`, `lib/c`, `bin`.
    pub staged: PathBuf,
    /// The case's own directory. All users may write to it.
    pub case: PathBuf,
}

impl Paths {
    /// The paths as a process in a namespace sees them.
    pub fn in_namespace() -> Self {
        Self {
            repo: "/tmp/repo".into(),
            staged: "/tmp/staged".into(),
            case: "/tmp/case".into(),
        }
    }
}

/// A path as an argument of a program.
pub fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().to_string_lossy().into_owned()
}

/// The last part of a path.
pub fn name(path: &Path) -> String {
    text(path.file_name().unwrap_or_default())
}

/// The names of a directory's entries, in order.
pub fn names(directory: impl AsRef<Path>) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(directory)?;
    let mut names: Vec<String> = entries
        .map(|entry| Ok(text(entry?.file_name())))
        .collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

/// The source tree: that in which this runner was built.
pub fn repo() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.parent().unwrap_or(crate_dir).to_path_buf()
}

/// cargo's build directory.
pub fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => repo().join(dir),
        None => repo().join("target"),
    }
}

/// Where downloads are kept: `$LIBIBVERBS_RS_CACHE`, or libibverbs-rs in the user's cache directory.
pub fn downloads() -> io::Result<PathBuf> {
    let var = |name| env::var_os(name).map(PathBuf::from);
    let dir = var("LIBIBVERBS_RS_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("libibverbs-rs")))
        .or_else(|| var("HOME").map(|dir| dir.join(".cache/libibverbs-rs")))
        .ok_or_else(|| io::Error::other("neither HOME nor LIBIBVERBS_RS_CACHE is set"))?;
    fs::create_dir_all(&dir)?;
    Ok(dir)
}
