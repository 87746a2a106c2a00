//! The products of `make dist`: the prebuilt archive, its list of components, the Python wheel and
//! the checksums. The archive has what `make install` installs, runs on an old glibc, and serves
//! jobs of CI systems.

mod ai_images;
mod archive;
pub(super) mod ci;
mod ci_guide;
mod conda;
mod container;
pub(super) mod old_glibc;
mod publish;
mod reproducible;
mod schemas;
pub(super) mod source_deb;
mod source_package;
mod source_rpm;
mod system_crates;
pub(super) mod wheel;

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::case::Case;
use crate::context::Context;
use crate::paths::text;
use crate::verdict::{Failure, Verdict};
use crate::{make, paths};

/// The name of the archive, and of the directory in it.
const NAME: &str = concat!("libibverbs-rs-", env!("CARGO_PKG_VERSION"), "-x86_64");

/// The time limit of a case in seconds. It includes `make dist`, which builds the library three times.
pub(super) const LIMIT: u64 = 3600;

pub fn cases() -> Result<Vec<Case>, String> {
    let mut cases = ai_images::cases();
    cases.extend([
        archive::case(),
        old_glibc::case()?,
        ci::case(),
        ci_guide::case(),
        schemas::case(),
        reproducible::case(),
        conda::case(),
        publish::case(),
        container::case(),
        source_deb::case(),
        source_rpm::case(),
        system_crates::case(),
        wheel::case(),
    ]);
    Ok(cases)
}

/// Where `make dist` leaves what it makes.
fn made() -> PathBuf {
    paths::target().join("dist")
}

fn archive() -> PathBuf {
    made().join(format!("{NAME}.tar.zst"))
}

/// Runs `make dist`, once for all cases of a run. What it builds with stays, so that a later run is quick.
pub(super) fn make_dist() -> Verdict {
    static MADE: OnceLock<Verdict> = OnceLock::new();
    MADE.get_or_init(|| make::on_host("dist")).clone()
}

/// Unpacks the archive in the case's directory, once; returns its top directory.
fn unpacked(cx: &Context) -> Result<PathBuf, Failure> {
    let dir = cx.dir().join(NAME);
    if !dir.exists() {
        let (file, to) = (text(archive()), text(cx.dir()));
        cx.output(["tar", "--zstd", "-xf", &file, "-C", &to])?;
    }
    Ok(dir)
}
