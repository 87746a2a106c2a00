//! Checks that both source packages share: each is rebuilt in a root directory that has what it
//! says it needs, without a network, and the library from its packages runs.

use std::path::Path;
use std::time::Duration;

use super::old_glibc::{enter, inside};
use super::{LIMIT, text};
use crate::case::{Case, Tier};
use crate::context::Context;
use crate::process::{Ended, last_lines, succeeded};
use crate::roots::Root;
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// A case that reports these checks.
pub fn case(name: &str, checks: &[&str], run: fn(&Context) -> Verdict) -> Case {
    let members = checks.iter().map(|check| format!("{name}/{check}"));
    Case::new(name, run)
        .members(members.collect())
        .sandbox(Sandbox::Root)
        .tier(Tier::All)
        .cpu(200)
        .memory(3000)
        .limit(LIMIT)
        .estimate(400)
}

/// Copies the source package to the directory `work`, runs the script there in the root directory, and
/// reports the check `builds`. None if it has failed.
pub fn build(
    cx: &Context,
    root: &Root,
    (source, work): (&Path, &Path),
    script: &str,
) -> Result<Option<Ended>, Failure> {
    cx.output(["cp", "-r", &text(source), &text(work)])?;
    enter(&root.dir()?)?;
    let build = inside(cx, ["sh", "-ec", script, "build", &text(work)])
        .env("HOME", cx.dir())
        .limit(Duration::from_secs(LIMIT))
        .merged()
        .run()?;
    let built = succeeded("the build", &build);
    let ended = built.is_ok();
    cx.report("builds", built.with(last_lines(&build.out, 60)))?;
    Ok(ended.then_some(build))
}

/// Reports the check `runs`: ibv_devices shows uroce's device with the library of this directory.
pub fn report_run(cx: &Context, library: &Path) -> Verdict {
    let devices = inside(cx, ["ibv_devices"])
        .library(library)
        .env("IBV_UROCE", "uroce0=lo")
        .run()?;
    let runs = succeeded("ibv_devices", &devices)
        .and_then(|()| ensure(devices.out.contains("uroce0"), "no uroce0"));
    cx.report("runs", runs)
}
