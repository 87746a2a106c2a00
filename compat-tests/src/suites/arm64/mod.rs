//! The library on arm64: built with Debian 13's cross compiler (scripts/arm64), and run in a machine that
//! QEMU emulates, with Debian 13's kernel and programs for arm64 (arm64/guest). Emulated processors order
//! memory accesses more strictly than real ones, so these cases do not test the memory order.

mod image;
mod packages;
mod static_programs;
mod targets;
mod wire;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use image::Kernel;

use super::other_projects::pyverbs;
use super::pyverbs as pyverbs_uroce;
use super::symbols::compare_exports;
use crate::artifacts;
use crate::case::{Case, Tier};
use crate::context::Context;
use crate::downloads;
use crate::lines;
use crate::machine::boot::{Boot, End};
use crate::paths::text;
use crate::process::{Ended, read, succeeded};
use crate::sandbox::{Sandbox, sh};
use crate::verdict::{Failure, Verdict, contains, ensure};

/// Below the directory of make arm64.
const LIBRARY: &str = "aarch64-unknown-linux-gnu/release/libibverbs.so";
/// The time to build the library on a busy machine. It is built once.
const BUILD_LIMIT: Duration = Duration::from_secs(2400);
/// The time that a machine may take, in seconds. On a busy host, emulation is several times slower.
const LIMIT: u64 = 3600;

/// The checks of a set of arm64/guest, and where they run.
struct Set {
    name: &'static str,
    /// The function of arm64/guest.
    function: &'static str,
    tier: Tier,
    kernel: Kernel,
    /// Programs of cases/programs.toml.
    programs: &'static [&'static str],
    /// Whether the C library is Debian 12's (release 44), as which ours behaves with fork. Debian 13's does
    /// not track memory if the kernel copies pinned pages.
    release_44: bool,
    /// Puts further files into the directory that the machine gets.
    stage: Option<fn(&Context, &Path) -> Verdict>,
    /// Reports the results of the tests of pyverbs, which the set runs.
    results: Option<fn(&Context) -> Verdict>,
    /// The least number of checks that must be reported.
    checks: usize,
    /// The duration on an idle machine, in seconds.
    estimate: u64,
}

const SET: Set = Set {
    name: "",
    function: "",
    tier: Tier::All,
    kernel: Kernel::Pages4,
    programs: &[],
    release_44: false,
    stage: None,
    results: None,
    checks: 0,
    estimate: 0,
};

const SETS: &[Set] = &[
    Set {
        name: "short",
        function: "short",
        tier: Tier::Test,
        programs: &["lookup", "variadic"],
        checks: 21,
        estimate: 150,
        ..SET
    },
    Set {
        name: "long",
        function: "long",
        programs: &["verbs", "threads"],
        checks: 36,
        estimate: 600,
        ..SET
    },
    Set {
        name: "fork_safety",
        function: "fork_safety",
        kernel: Kernel::Pages16,
        programs: &["verbs", "forktest", "forkmodel", "forkverbs"],
        release_44: true,
        checks: 18,
        estimate: 200,
        ..SET
    },
    Set {
        name: "fork_safety_64k",
        function: "fork_safety",
        kernel: Kernel::Pages64,
        programs: &["verbs", "forktest", "forkmodel", "forkverbs"],
        release_44: true,
        checks: 18,
        estimate: 200,
        ..SET
    },
    Set {
        name: "static",
        function: "static_programs",
        stage: Some(static_programs::stage),
        checks: 7,
        estimate: 200,
        ..SET
    },
    Set {
        name: "packages",
        function: "packages",
        stage: Some(packages::stage),
        checks: 8,
        estimate: 300,
        ..SET
    },
    Set {
        name: "pyverbs",
        function: "pyverbs",
        results: Some(|cx| pyverbs::report_all(cx, OURS.as_ref())),
        checks: 3,
        estimate: 1500,
        ..SET
    },
    Set {
        name: "pyverbs_uroce",
        function: "pyverbs_uroce",
        results: Some(|cx| pyverbs_uroce::report_all(cx, OURS.as_ref())),
        checks: 3,
        estimate: 600,
        ..SET
    },
];
/// The directory of the library, in the machine.
const OURS: &str = "/run/arm64/lib";

pub fn cases() -> Vec<Case> {
    let machines = SETS.iter().map(|set| {
        Case::new(format!("arm64/{}", set.name), |cx| run(cx, set))
            .sandbox(Sandbox::Vm)
            .tier(set.tier)
            .before(match set.kernel {
                Kernel::Pages4 => || image::make(Kernel::Pages4),
                Kernel::Pages16 => || image::make(Kernel::Pages16),
                Kernel::Pages64 => || image::make(Kernel::Pages64),
            })
            .token("arm64")
            .limit(BUILD_LIMIT.as_secs() + LIMIT + 100)
            .estimate(set.estimate)
    });
    let layouts = Case::new("arm64/layouts", layouts)
        .tier(Tier::Test)
        .before(|| image::build_root().map(drop))
        .batch()
        .token("arm64")
        .limit(1800)
        .estimate(40);
    let library = Case::new("arm64/library", library)
        .tier(Tier::Test)
        .before(|| image::build_root().map(drop))
        .batch()
        .token("arm64")
        .limit(BUILD_LIMIT.as_secs() + 900)
        .estimate(200);
    let wire = Case::new("arm64/wire", wire::wire)
        .sandbox(Sandbox::Vm)
        .tier(Tier::All)
        .before(wire::make_machines)
        .cpu(200)
        .token("arm64")
        .limit(BUILD_LIMIT.as_secs() + LIMIT + 100)
        .estimate(300);
    let targets = Case::new("arm64/targets", targets::targets)
        .tier(Tier::Test)
        .estimate(3);
    machines.chain([layouts, library, wire, targets]).collect()
}

/// Builds the library for arm64. Its symbols are those of the list, each is found, and the entries that are
/// written in assembly pass their arguments on; qemu-user runs the programs.
fn library(cx: &Context) -> Verdict {
    let library = build(cx)?;
    cx.report("exports", compare_exports(cx, &library))?;
    let all = artifacts::sources()?;
    let inside = format!("/target/{LIBRARY}");
    for (name, last) in [
        ("lookup", Some("compat-tests/symbols/exports.lst")),
        ("variadic", None),
    ] {
        let source = all.get(name).ok_or("cases/programs.toml lacks it")?;
        compile(cx, name, source)?;
        let program = format!("/target/{name}");
        let log = "env VERBS_LOG_LEVEL=1 VERBS_LOG_FILE=/tmp/verbs.log qemu-aarch64".split(' ');
        let words = log.chain([program.as_str(), inside.as_str()]).chain(last);
        let ended = in_build_root(cx, words, Duration::from_secs(300))?;
        cx.report(name, succeeded(name, &ended))?;
    }
    Ok(())
}

/// Builds the library for arm64, and returns its file.
fn build(cx: &Context) -> Result<PathBuf, Failure> {
    let ended = in_build_root(cx, ["make", "build"], BUILD_LIMIT)?;
    succeeded("make build, for arm64", &ended)?;
    Ok(built().join(LIBRARY))
}

/// The layout tests of ibverbs-abi, built for arm64 and emulated, with Debian 13's headers for arm64.
fn layouts(cx: &Context) -> Verdict {
    let fetch = cx.paths.repo.join("scripts/fetch-headers");
    let fetch = text(&fetch);
    let headers = cx.output([fetch, "trixie".into()])?;
    let copy = built().join("rdma-core");
    sh(&format!(
        "mkdir -p {0} && cp -r {1}/. {0}/",
        copy.display(),
        headers.trim()
    ))?;
    let words = "env RDMA_CORE_HEADERS=/target/rdma-core cargo test -p ibverbs-abi --test layout";
    let ended = in_build_root(cx, words.split(' '), Duration::from_secs(1500))?;
    succeeded("the layout tests", &ended)?;
    contains(&ended.out, &["test result: ok. 3 passed"])
}

/// Runs a command where the library is built for arm64 (scripts/arm64).
fn in_build_root<S: Into<String>>(
    cx: &Context,
    words: impl IntoIterator<Item = S>,
    limit: Duration,
) -> Result<Ended, Failure> {
    let script = cx.paths.repo.join("scripts/arm64");
    let script = text(&script);
    let argv = [script]
        .into_iter()
        .chain(words.into_iter().map(Into::into));
    Ok(cx.program(argv).merged().limit(limit).run()?)
}

fn run(cx: &Context, set: &Set) -> Verdict {
    let library = build(cx)?;
    stage(cx, set, &library)?;
    let boot = Boot {
        root: image::root()?,
        hardware: image::hardware(set.kernel)?,
        ..Boot::limit(LIMIT)
    };
    let script = format!(
        "exec bash \"$OUT/files/guest\" {} \"$OUT/files\" {} >\"$OUT/checks\" 2>&1\n",
        set.function,
        set.kernel.page_size()
    );
    let end = boot.run(cx, &script)?;
    let checks = lines::parse(&read(&cx.dir().join("checks")));
    let count = checks.len();
    for (name, verdict) in checks {
        cx.report(&name, verdict)?;
    }
    if let End::Stopped(why) = end {
        return Err(Failure::new(format!("the machine stopped: {why}")));
    }
    if let Some(report) = set.results {
        report(cx)?;
    }
    ensure(
        count >= set.checks,
        format!("{count} checks, at least {} were expected", set.checks),
    )
}

/// The directory of make arm64.
fn built() -> PathBuf {
    crate::paths::target().join("arm64")
}

/// Puts what the machine needs into the case's directory, which it sees.
fn stage(cx: &Context, set: &Set, library: &Path) -> Verdict {
    let files = cx.dir().join("files");
    fs::create_dir_all(files.join("lib"))?;
    fs::copy(library, files.join("lib/libibverbs.so.1"))?;
    if set.release_44 {
        let package = downloads::package(
            "bookworm", "libibverbs1:arm64", "bookworm-arm64-libibverbs1",
        );
        let inside = "usr/lib/aarch64-linux-gnu/libibverbs.so.1";
        fs::create_dir_all(files.join("c"))?;
        fs::copy(
            package.map_err(Failure::skip)?.join(inside),
            files.join("c/libibverbs.so.1"),
        )?;
    }
    fs::copy(cx.source("arm64/guest"), files.join("guest"))?;
    fs::copy(cx.source("symbols/exports.lst"), files.join("exports.lst"))?;
    if set.results.is_some() {
        let runner = cx.source("suites/pyverbs_runner.py");
        fs::copy(runner, files.join("pyverbs_runner.py"))?;
        pyverbs::write_flaky(cx)?;
    }
    if let Some(stage) = set.stage {
        stage(cx, &files)?;
    }
    let all = artifacts::sources()?;
    for name in set.programs {
        let source = all
            .get(*name)
            .ok_or("cases/programs.toml has no such program")?;
        compile(cx, name, source)?;
        fs::copy(built().join(name), files.join(name))?;
    }
    Ok(())
}

/// Compiles a program for arm64, with the headers of rdma-core there.
fn compile(cx: &Context, name: &str, source: &artifacts::Source) -> Verdict {
    let inside = |path: &String| format!("compat-tests/{path}");
    let words = ["sh", "-c", "exec aarch64-linux-gnu-gcc $*", "gcc"].map(String::from);
    let arguments = (artifacts::FLAGS.iter().map(|flag| flag.to_string()))
        .chain(
            source
                .include
                .iter()
                .map(|dir| format!("-I{}", inside(dir))),
        )
        .chain(source.sources.iter().map(inside))
        .chain(source.flags.iter().cloned())
        .chain(["-o".into(), format!("/target/{name}")]);
    let words = words.into_iter().chain(arguments);
    let ended = in_build_root(cx, words, Duration::from_secs(300))?;
    succeeded(&format!("compiling {name} for arm64"), &ended)
}
