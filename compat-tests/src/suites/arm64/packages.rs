//! The Debian packages for arm64 (make deb-arm64).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{BUILD_LIMIT, built, in_build_root};
use crate::context::Context;
use crate::paths::text;
use crate::process::succeeded;
use crate::verdict::{Failure, Verdict, ensure};

const PACKAGES: &[&str] = &["libibverbs1-rs", "libibverbs-rs-dev", "with-ibverbs-rs"];

/// Builds the packages, and unpacks them into the directory `packages` of `files`. lintian finds nothing.
pub fn stage(cx: &Context, files: &Path) -> Verdict {
    let build = "env DEB_ARCH=arm64 NO_LINTIAN=1 packaging/build-deb /target/deb";
    let made = in_build_root(cx, build.split(' '), BUILD_LIMIT)?;
    succeeded("packaging/build-deb, for arm64", &made)?;
    let debs = built().join("deb");
    let lintian = cx.paths.repo.join("packaging/lintian");
    let words = [lintian, debs.clone()].map(text);
    let checked = cx.program(words).merged().limit(Duration::from_secs(600));
    cx.report("lintian", succeeded("lintian", &checked.run()?))?;
    let to = files.join("packages");
    for name in PACKAGES {
        let file = package(&debs, name)?;
        let file = file.to_string_lossy();
        let architecture = cx.output(["dpkg-deb", "-f", &file, "Architecture"])?;
        let why = format!("{name} is for {architecture}");
        ensure(architecture.trim() == "arm64", why)?;
        cx.output(["dpkg-deb", "-x", &file, &to.to_string_lossy()])?;
    }
    Ok(())
}

fn package(debs: &Path, name: &str) -> Result<PathBuf, Failure> {
    let prefix = format!("{name}_");
    let mut found = fs::read_dir(debs)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            file.starts_with(&prefix) && file.ends_with("_arm64.deb")
        });
    match (found.next(), found.next()) {
        (Some(path), None) => Ok(path),
        _ => Err(format!("not one package {name}").into()),
    }
}
