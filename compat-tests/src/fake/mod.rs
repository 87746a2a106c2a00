//! Running programs on the fake kernel (../fake-uverbs/README.md): the distribution's unmodified
//! providers open devices that do not exist, and what they pass to the kernel is recorded.

pub mod leaks;
pub mod record;
pub mod scene;
pub mod sysfs;

use std::path::PathBuf;

use crate::context::{Context, Library};
use crate::process::{Ended, Program};
use crate::verdict::Failure;

/// The name of the fake kernel in cases/programs.toml.
pub const SHIM: &str = "shim";

/// A program of cases/programs.toml that the case names, or else of the distribution, on this library and the
/// fake kernel. Standard error is merged into standard output.
pub fn program(cx: &Context, library: Library, argv: &[String]) -> Result<Program, Failure> {
    let program = plain_program(cx, library, argv);
    Ok(program.env("LD_PRELOAD", cx.built(SHIM)?))
}

/// The same without the fake kernel.
pub fn plain_program(cx: &Context, library: Library, argv: &[String]) -> Program {
    let mut argv = argv.to_vec();
    if let Some(built) = argv.first().and_then(|name| cx.built(name).ok()) {
        argv[0] = built;
    }
    cx.program(argv).library(&cx.library_dir(library)).merged()
}

/// A program's output and exit code; only the directory of the library is masked.
pub fn transcript(cx: &Context, library: Library, ended: &Ended) -> String {
    let dir = format!("{}/", cx.library_dir(library).display());
    ended.transcript().replace(&dir, "LIBDIR/")
}

/// The directory of the distribution's providers.
pub fn provider_dir() -> Result<PathBuf, Failure> {
    let library = crate::artifacts::c_library()?;
    let dir = library.parent().ok_or("the C library has no directory")?;
    Ok(dir.join("libibverbs"))
}
