//! Fork safety on both libraries, over the fake kernel: the parts of registered memory that a child
//! of fork() gets. Both must behave the same. Where rdma-core is wrong (fork/README.md explains
//! how), the output with our library must be that in fork/expected.

use std::fs;
use std::path::Path;

use regex_lite::Regex;

use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::compare;
use crate::context::{Context, Library};
use crate::fake::SHIM;
use crate::fake::scene::{SYS, Scene};
use crate::fake::sysfs::{Tree, known_devices};
use crate::normalise::replace;
use crate::process::read;
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Failure, Verdict, ensure};

mod copies;
mod huge;
mod verbs;
mod vm;

pub use vm::members;

const LOG: &str = "/tmp/verbs.log";
const PROGRAMS: &[&str] = &[
    "forktest", "forkhuge", "forkmodel", "forkverbs", "forkunload",
];

/// The kernel on which the programs run, and how much they do there.
#[derive(Debug, Clone, Copy)]
pub struct ForkKernel {
    real: bool,
    /// Random steps of the model.
    steps: &'static str,
    /// The number of rounds of the threads.
    rounds: &'static str,
}

const FAKE: ForkKernel = ForkKernel {
    real: false,
    steps: "2000",
    rounds: "100",
};
/// The virtual machine is slower.
const REAL: ForkKernel = ForkKernel {
    real: true,
    steps: "200",
    rounds: "10",
};

pub fn cases() -> Vec<Case> {
    vec![
        group("ranges", ranges(FAKE)),
        group("lazy", lazy(FAKE)),
        group("huge-pages", huge::checks(FAKE)).token("huge pages"),
        group("kernel", copies::checks()),
        group("verbs", verbs::checks()),
    ]
}

fn group(name: &str, list: Vec<Check>) -> Case {
    checks::case(&format!("fork/{name}"), list)
        .sandbox(Sandbox::Namespace)
        .tier(Tier::Test)
        .programs(&[SHIM])
        .programs(PROGRAMS)
        .limit(900)
        .estimate(30)
}

/// A scene for which both libraries must print the same, and the program must end with 0.
fn both(kernel: ForkKernel, name: impl Into<String>, argv: &[&str]) -> Scene {
    Scene::new(name, argv.iter().copied())
        .real_kernel(kernel.real)
        .limit(120)
        .exit(0)
        .mask(without_initialized)
}

/// Whether the kernel copies pinned pages is tested by scenes of its own.
fn without_initialized(text: &str) -> String {
    replace(r"(?m) initialized [0-9]$", text, "")
}

/// Checks that with our library the output of the scene is that in the file.
fn expected(name: &str, file: &'static str, scene: Scene) -> Check {
    Check::new(name, move |cx| as_expected(cx, file, &scene))
}

fn as_expected(cx: &Context, file: &str, scene: &Scene) -> Verdict {
    let path = cx.source("fork/expected").join(file);
    let text = read(&path);
    ensure(!text.is_empty(), format!("{} is missing", path.display()))?;
    if scene.run(cx, Library::C)?.text == text {
        println!("the C library's output is the same");
    }
    let _ = fs::remove_file(LOG);
    let ours = scene.run(cx, Library::Ours)?;
    compare::same((&format!("expected/{file}"), &text), ("ours", &ours.text))
}

/// Passes if a line of the library's log matches, which is removed then.
fn log_says(pattern: &str) -> Verdict {
    log_says_in(LOG, pattern)
}

fn log_says_in(file: &str, pattern: &str) -> Verdict {
    let log = read(Path::new(file));
    let _ = fs::remove_file(file);
    let pattern = Regex::new(pattern).map_err(|e| e.to_string())?;
    let found = log.lines().any(|line| pattern.is_match(line));
    ensure(found, format!("no line of the log matches {pattern:?}")).with(log)
}

fn ranges(kernel: ForkKernel) -> Vec<Check> {
    let scenes = "overlaps untracked bytes never-protected unmapped-later too-late too-late-by-release twice \
        stack";
    let mut list: Vec<Check> = scenes
        .split_whitespace()
        .map(|scene| both(kernel, scene, &["forktest", scene]).check())
        .collect();
    list.push(
        both(
            kernel,
            "overlaps-RDMAV_HUGEPAGES_SAFE",
            &["forktest", "overlaps"],
        )
        .env("RDMAV_HUGEPAGES_SAFE", "1")
        .check(),
    );
    list.push(expected(
        "failure",
        "failure",
        both(kernel, "", &["forktest", "failure"]),
    ));
    let threads = both(kernel, "", &["forktest", "threads", kernel.rounds]);
    list.push(expected("threads", "threads", threads));
    for seed in ["1", "2", "3"] {
        list.push(
            both(
                kernel,
                format!("model-seed-{seed}"),
                &["forkmodel", seed, kernel.steps],
            )
            .check(),
        );
    }
    let holes = both(kernel, "", &["forkmodel", "4", kernel.steps, "holes"]);
    list.push(expected("model-with-holes", "model-with-holes", holes));
    list
}

/// IBV_FORK_SAFE=lazy: pages are returned to children only at the next fork.
fn lazy(kernel: ForkKernel) -> Vec<Check> {
    let lazy = |name: &str, argv: &[&str]| both(kernel, name, argv).env("IBV_FORK_SAFE", "lazy");
    let after_fork = |name: &str, argv: &[&str]| lazy(name, argv).env("FORK_FIRST", "1");
    let mut list = vec![expected(
        "pages-are-hidden",
        "lazy",
        lazy("", &["forktest", "overlaps"]),
    )];
    for scene in [
        "overlaps", "bytes", "never-protected", "unmapped-later", "twice",
    ] {
        list.push(after_fork(scene, &["forktest", scene]).check());
    }
    let failure = after_fork("", &["forktest", "failure"]);
    list.push(expected("failure", "failure", failure));
    for seed in ["1", "2", "3"] {
        let name = format!("model-seed-{seed}");
        list.push(after_fork(&name, &["forkmodel", seed, kernel.steps]).check());
    }
    let threads = after_fork("", &["forktest", "threads", kernel.rounds]);
    list.push(expected("threads", "threads", threads));
    list.push(lazy("unloaded", &["forkunload"]).check());
    list
}
