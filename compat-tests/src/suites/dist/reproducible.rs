//! A second build, of a copy of the source tree in another directory, with another build directory, umask,
//! locale and time zone, has the same checksums.

use std::fs;
use std::time::Duration;

use super::{LIMIT, made, make_dist, text};
use crate::case::{Case, Tier};
use crate::compare;
use crate::context::Context;
use crate::process::read;
use crate::verdict::Verdict;

pub fn case() -> Case {
    Case::new("dist/reproducible", run)
        .before(make_dist)
        .tier(Tier::All)
        .cpu(200)
        .memory(2000)
        .limit(LIMIT)
        .estimate(300)
}

/// The files that git knows. Without git, the copy takes its time from SOURCE_DATE_EPOCH.
const COPY: &str = r#"mkdir "$1"; git ls-files -z | xargs -0 cp -a --parents -t "$1""#;

fn run(cx: &Context) -> Verdict {
    let copy = cx.dir().join("a-directory-with-another-length");
    let target = cx.dir().join("built");
    let repo = &cx.paths.repo;
    let time = cx
        .program(["git", "log", "-1", "--format=%ct"])
        .dir(repo)
        .run()?;
    cx.program(["sh", "-ec", COPY, "copy", &text(&copy)])
        .dir(repo)
        .succeed()?;
    let script = "umask 077; exec make --no-print-directory dist";
    let build = cx
        .program(["sh", "-ec", script])
        .dir(&copy)
        .env("CARGO_TARGET_DIR", &target)
        .env("SOURCE_DATE_EPOCH", time.out.trim())
        .env("TZ", "Pacific/Auckland")
        .env("LC_ALL", "C")
        .under(["env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL"])
        .merged()
        .limit(Duration::from_secs(LIMIT));
    build.succeed()?;
    let verdict = compare::same(
        ("first", &read(&made().join("SHA256SUMS"))),
        ("second", &read(&target.join("dist/SHA256SUMS"))),
    );
    if verdict.is_ok() {
        fs::remove_dir_all(&target)?;
        fs::remove_dir_all(&copy)?;
    }
    verdict
}
