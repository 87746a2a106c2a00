//! The oldest Rust that Cargo.toml allows, which is Debian 13's: `make test-unit` and the formatter run in a
//! root directory of Debian 13 with Debian's own cargo, rustc and rustfmt.
//!
//! The crates are those that this machine's cargo has downloaded. The place has no network.

use std::path::PathBuf;
use std::time::Duration;

use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::context::Context;
use crate::paths;
use crate::process::{Ended, succeeded};
use crate::roots::TRIXIE_RUST;
use crate::sandbox::{Sandbox, sh};
use crate::suites::dist::old_glibc::{ROOT, enter, inside};
use crate::verdict::{Details, Failure, Verdict, ensure};

const LIMIT: Duration = Duration::from_secs(3000);

pub fn cases() -> Vec<Case> {
    let all = vec![
        Check::new("compiler", compiler),
        Check::new("make test-unit", unit_tests),
        Check::new("cargo fmt", |cx| {
            let ended = run(cx, &["cargo", "fmt", "--all", "--check"])?;
            succeeded("cargo fmt", &ended)
        }),
    ];
    let case = checks::case("rust/oldest", all)
        .sandbox(Sandbox::Root)
        .before(prepare)
        .batch()
        .tier(Tier::All)
        .cpu(200)
        .memory(3000)
        .limit(2 * LIMIT.as_secs())
        .estimate(600);
    vec![case]
}

/// Downloads the crates, and the headers that a unit test compares with.
fn prepare() -> Verdict {
    TRIXIE_RUST.make()?;
    let (repo, cache, release) = (paths::repo(), paths::downloads()?, TRIXIE_RUST.release());
    sh(&format!(
        "cd '{}' && cargo fetch -q --locked && CACHE='{}' scripts/fetch-headers {release}",
        repo.display(),
        cache.display(),
    ))
}

/// The root directory has the version that Cargo.toml names.
fn compiler(cx: &Context) -> Verdict {
    let manifest = std::fs::read_to_string(cx.source("../Cargo.toml"))?;
    let needed = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'));
    let needed = needed.ok_or("Cargo.toml has no rust-version")?;
    for program in ["cargo", "rustc"] {
        let ended = run(cx, &[program, "--version"])?;
        succeeded(program, &ended)?;
        let is_it = ended.out.starts_with(&format!("{program} {needed}."));
        ensure(is_it, format!("not {program} {needed}")).with(ended.out)?;
    }
    Ok(())
}

/// All of the workspace has unit tests, and all of them pass.
fn unit_tests(cx: &Context) -> Verdict {
    let ended = run(cx, &["make", "--no-print-directory", "test-unit"])?;
    // Gigabytes.
    let _ = std::fs::remove_dir_all(cx.dir().join("target"));
    succeeded("make test-unit", &ended)?;
    let passed = ended.out.lines().filter_map(|line| {
        let rest = line.strip_prefix("test result: ok. ")?;
        rest.split_once(" passed")?.0.parse::<u32>().ok()
    });
    let count: u32 = passed.sum();
    println!("{count} unit tests passed");
    ensure(count > 500, format!("only {count} unit tests ran"))
}

/// Runs a command of the source tree in the root directory.
fn run(cx: &Context, words: &[&str]) -> Result<Ended, Failure> {
    if !PathBuf::from(ROOT).exists() {
        enter_with_crates(cx)?;
    }
    let dir = |name: &str| cx.dir().join(name).display().to_string();
    // chroot(1) changes to the root directory.
    let there = [
        "env".to_string(),
        format!("--chdir={}", cx.paths.repo.display()),
    ];
    let words = there
        .into_iter()
        .chain(words.iter().map(|word| word.to_string()));
    let program = inside(cx, words)
        .env("CARGO_HOME", dir("cargo"))
        .env("CARGO_NET_OFFLINE", "true")
        .env("CARGO_TARGET_DIR", dir("target"))
        .env("HOME", dir("home"))
        .env("RDMA_CORE_HEADERS", dir("headers"))
        .merged()
        .limit(LIMIT);
    Ok(program.run()?)
}

/// Enters the root directory, with this machine's crates and the headers below the case's directory.
fn enter_with_crates(cx: &Context) -> Verdict {
    let home = std::env::var("HOME").unwrap_or_default();
    let cargo = std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{home}/.cargo"));
    let headers = paths::downloads()?.join(format!("rdma-core-{}", TRIXIE_RUST.release()));
    sh(&format!(
        "cd '{}'
        mkdir -p cargo/registry headers home
        mount -n --bind '{cargo}/registry' cargo/registry
        mount -n --bind '{}' headers",
        cx.dir().display(),
        headers.display(),
    ))?;
    enter(&TRIXIE_RUST.dir()?)
}
