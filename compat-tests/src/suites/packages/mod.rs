//! The Debian packages in root directories of Debian 12, 13 and sid, and the rpm packages in one with an rpm
//! database: installed in place of the distribution's library, upgraded, and removed, which must restore
//! everything. The distribution's programs run in the virtual machine with that root directory, on the C
//! library and on ours.
//!
//! The first of the cases to start builds the packages: `packages/build`, if all run. What runs in the roots
//! is described in packages/README.md.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::case::{Case, Tier};
use crate::context::Context;
use crate::machine::kernel;
use crate::make;
use crate::paths;
use crate::process::{Ended, last_lines};
use crate::roots::{BOOKWORM, Root, SID_DEPENDENTS, TRIXIE};
use crate::sandbox::{Sandbox, sh};
use crate::verdict::{Details, Failure, Verdict, ensure};

mod debian;
mod fresh_clone;
mod programs;
mod rpm;

pub fn cases() -> Vec<Case> {
    // It is the first of the batch cases: the others find the packages there when it is their turn.
    let build = Case::new("packages/build", all_are_built)
        .batch()
        .before(make_packages)
        .token(make::TOKEN)
        .memory(2000)
        .limit(3600)
        .estimate(300);
    // On the host, whose build directory it needs; it changes nothing but its own directory.
    let rpm = Case::new("packages/rpm", rpm::run)
        .batch()
        .limit(1800)
        .estimate(20)
        .before(make_packages)
        .token(make::TOKEN);
    vec![
        build,
        debian(&BOOKWORM).before(|| prepare(&BOOKWORM)),
        debian(&TRIXIE).before(|| prepare(&TRIXIE)),
        debian(&SID_DEPENDENTS)
            .before(|| prepare(&SID_DEPENDENTS))
            .tier(Tier::All),
        rpm,
        fresh_clone::case(),
    ]
}

fn debian(root: &'static Root) -> Case {
    let name = format!("packages/{}{}", root.release(), root.variant());
    Case::new(name, move |cx| debian::run(cx, root))
        .sandbox(Sandbox::Root)
        .boots_machine()
        .memory(5000)
        .limit(3600)
        // Not one of the first machines: the packages are being built then.
        .estimate(100)
}

/// Fetches what the case needs from the network, which its place does not have, and builds the packages.
fn prepare(root: &Root) -> Verdict {
    root.make()?;
    kernel::make()?;
    make_packages()
}

/// Builds the packages of both kinds, once in the process of the runner.
fn make_packages() -> Verdict {
    static MADE: OnceLock<Verdict> = OnceLock::new();
    let make = || {
        let (repo, log) = (paths::repo(), paths::target().join("test-logs/packages"));
        sh(&format!(
            "mkdir -p '{logs}'
            env -u MAKEFLAGS -u MAKELEVEL nice -n 5 make --no-print-directory -C '{repo}' deb rpm \
                >'{log}' 2>&1 || {{ tail -40 '{log}' >&2; exit 1; }}",
            logs = log.parent().unwrap_or(&log).display(),
            repo = repo.display(),
            log = log.display(),
        ))
    };
    MADE.get_or_init(make).clone()
}

/// Each package is there, once.
fn all_are_built(_: &Context) -> Verdict {
    for name in debian::OURS {
        package("deb", name)?;
    }
    for name in rpm::NAMES {
        package("rpm", name)?;
    }
    Ok(())
}

/// The file of a package of a kind, `deb` or `rpm`: the name is followed by the version.
fn package(kind: &str, name: &str) -> Result<PathBuf, Failure> {
    let dir = paths::target().join(kind);
    let is_it = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let rest = file.strip_prefix(name).unwrap_or_default();
        rest.starts_with(['-', '_'])
            && rest[1..].starts_with(|c: char| c.is_ascii_digit())
            && rest.ends_with(&format!(".{kind}"))
    };
    let found: Vec<PathBuf> = std::fs::read_dir(&dir)
        .map_err(|e| format!("{}: {e}: run make {kind}", dir.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(is_it)
        .collect();
    match found.as_slice() {
        [file] => Ok(file.clone()),
        _ => Err(format!("not one package {name} in {}: {found:?}", dir.display()).into()),
    }
}

/// Passes if the command ended with 0.
fn ended_well(ended: &Ended) -> Verdict {
    let why = format!("exit code {}", ended.exit);
    ensure(ended.ok(), why).with(last_words(ended))
}

fn last_words(ended: &Ended) -> String {
    last_lines(&format!("{}{}", ended.out, ended.err), 30)
}

/// Passes if the command printed nothing and ended with 0.
fn silent(ended: &Ended) -> Verdict {
    ended_well(ended)?;
    ensure(
        ended.out.is_empty() && ended.err.is_empty(),
        "it says something",
    )
    .with(last_words(ended))
}

/// The lines, sorted.
fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The file of libibverbs in what ldd prints.
fn libibverbs_in(listing: &str) -> Option<&str> {
    let mut lines = listing.lines().map(str::trim_start);
    let line = lines.find(|line| line.starts_with("libibverbs.so.1 "))?;
    line.split_whitespace().nth(2)
}

/// Reports a comparison of two texts.
fn same(cx: &Context, name: &str, expected: &str, got: &str) -> Verdict {
    let verdict = crate::compare::same(("expected", expected), ("found", got));
    cx.report(name, verdict)
}
