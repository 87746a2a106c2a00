//! The fuzz targets (../../fuzz/README.md), each for a few seconds on generated input, starting from the
//! committed corpus and from what earlier runs have found. FUZZ_SECONDS in the environment is another
//! time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use crate::case::{Case, Tier};
use crate::context::Context;
use crate::paths;
use crate::process::{Ended, Program, last_lines, succeeded};
use crate::verdict::{Details, Failure, Verdict, ensure};

/// The time for each target, in seconds.
const SECONDS: u64 = 5;
/// The time for building all targets, in seconds: minutes on an idle machine.
const BUILD: u64 = 3000;
/// Inputs are at most this long, in bytes. Whole provider files would slow down mutation.
const LENGTH: u32 = 1024;
const LENGTH_OF_ELF: u32 = 8192;

pub fn cases() -> Result<Vec<Case>, String> {
    let targets = targets()?;
    let time = (seconds() + 30) * targets.len() as u64;
    let members = targets.iter().map(|name| format!("fuzz/{name}")).collect();
    let case = Case::new("fuzz/targets", move |cx| run(cx, &targets))
        .batch()
        .memory(2000)
        .limit(BUILD + time)
        .estimate(210)
        .members(members);
    let oss_fuzz = Case::new("fuzz/oss-fuzz", oss_fuzz)
        .tier(Tier::All)
        .batch()
        .memory(2000)
        .limit(BUILD)
        .estimate(300);
    Ok(vec![case, oss_fuzz])
}

/// packaging/oss-fuzz/build.sh as OSS-Fuzz runs it, and each target that it makes on its seeds.
fn oss_fuzz(cx: &Context) -> Verdict {
    if !has_nightly() {
        return Err(Failure::skip("no nightly Rust"));
    }
    let (sources, out) = (cx.dir().join("src"), cx.dir().join("out"));
    fs::create_dir_all(&sources)?;
    fs::create_dir_all(&out)?;
    std::os::unix::fs::symlink(&cx.paths.repo, sources.join("libibverbs-rs"))?;
    let script = cx.source("../packaging/oss-fuzz/build.sh");
    let build = cx
        .program([script.to_string_lossy()])
        .env("SRC", &sources)
        .env("OUT", &out)
        .env("RUSTUP_TOOLCHAIN", "nightly")
        .env("CARGO_TARGET_DIR", paths::target().join("fuzz"))
        .merged()
        .limit(Duration::from_secs(BUILD));
    build.succeed()?;
    for name in targets()? {
        let (target, seeds) = (out.join(&name), cx.dir().join(&name));
        let archive = out.join(format!("{name}_seed_corpus.zip"));
        let [archive, seeds, target] = [&archive, &seeds, &target].map(|p| p.display().to_string());
        let unzip = ["python3", "-m", "zipfile", "-e", &archive, &seeds];
        cx.program(unzip).succeed()?;
        let run = cx.program([
            target.as_str(),
            "-runs=2000",
            "-print_final_stats=1",
            &seeds,
        ]);
        verdict(&run.merged().run()?)?;
    }
    Ok(())
}

fn seconds() -> u64 {
    let value = std::env::var("FUZZ_SECONDS");
    value
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(SECONDS)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The names of the programs in fuzz/Cargo.toml.
fn targets() -> Result<Vec<String>, String> {
    #[derive(Deserialize)]
    struct Manifest {
        bin: Vec<Target>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
    }
    let path = paths::repo().join("fuzz/Cargo.toml");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let manifest: Manifest =
        toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(manifest.bin.into_iter().map(|target| target.name).collect())
}

/// Runs the targets, as many at once as there are cores. All take the same time.
fn run(cx: &Context, targets: &[String]) -> Verdict {
    let programs = build(cx)?;
    let wanted: Vec<&String> = targets
        .iter()
        .filter(|name| cx.selects(&format!("fuzz/{name}")))
        .collect();
    for some in wanted.chunks(cores()) {
        let mut running = Vec::new();
        for name in some {
            running.push((*name, target(cx, &programs, name)?.spawn()?));
        }
        for (name, mut running) in running {
            let exit = running.wait(Duration::from_secs(seconds() + 60))?;
            let verdict = verdict(&running.ended(exit)?);
            let _ = fs::remove_dir(artifacts(cx, name));
            cx.report_as(&format!("fuzz/{name}"), verdict)?;
        }
    }
    let _ = fs::remove_dir(cx.source("../fuzz/artifacts"));
    Ok(())
}

/// Builds the targets; returns the directory of the programs.
fn build(cx: &Context) -> Result<PathBuf, Failure> {
    let version = Command::new("rustc").arg("-vV").output()?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("rustc does not name its host")?;
    let dir = paths::target().join("fuzz");
    // The sanitizer flags are unstable: without a nightly compiler, the stable one is made to accept them.
    let fuzz = if has_nightly() {
        ["rustup", "run", "nightly", "cargo", "fuzz"].as_slice()
    } else {
        &["env", "RUSTC_BOOTSTRAP=1", "cargo", "fuzz"]
    };
    let cargo = |argument: &str| {
        let words = fuzz.iter().copied().chain([argument]);
        let program = cx.program(words).dir(&cx.source("../fuzz")).merged();
        program.env("CARGO_TARGET_DIR", &dir)
    };
    if !cargo("--version").run()?.ok() {
        let why = "cargo-fuzz is missing: cargo install --locked cargo-fuzz";
        return Err(Failure::skip(why));
    }
    let mut build = cargo("build").limit(Duration::from_secs(BUILD));
    if seconds() <= SECONDS {
        // Optimizing more takes longer than it saves.
        build = build.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    }
    build.succeed()?;
    Ok(dir.join(host).join("release"))
}

fn has_nightly() -> bool {
    let output = Command::new("rustup")
        .args(["run", "nightly", "rustc", "-V"])
        .output();
    output.is_ok_and(|output| output.status.success())
}

/// Where inputs that fail are written.
fn artifacts(cx: &Context, name: &str) -> PathBuf {
    cx.source("../fuzz/artifacts").join(name)
}

fn target(cx: &Context, programs: &Path, name: &str) -> Result<Program, Failure> {
    // New inputs are written to the first corpus, which the next run uses too.
    let found = paths::target().join("fuzz/corpus").join(name);
    let committed = cx.source("../fuzz/corpus").join(name);
    let artifacts = artifacts(cx, name);
    for dir in [&found, &artifacts] {
        fs::create_dir_all(dir)?;
    }
    let text = |path: &Path| path.display().to_string();
    let length = if name == "elf" { LENGTH_OF_ELF } else { LENGTH };
    let argv = vec![
        text(&programs.join(name)),
        text(&found),
        text(&committed),
        format!("-artifact_prefix={}/", text(&artifacts)),
        format!("-max_total_time={}", seconds()),
        "-timeout=10".into(),
        format!("-max_len={length}"),
        "-print_final_stats=1".into(),
    ];
    Ok(cx.program(argv).merged())
}

/// Passes if the target ended well and has run on inputs.
fn verdict(ended: &Ended) -> Verdict {
    succeeded("the target", ended)?;
    let count = ended
        .out
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let count = count.and_then(|text| text.trim().parse::<u64>().ok());
    ensure(count.is_some_and(|count| count > 0), "it ran on no inputs")
        .with(last_lines(&ended.out, 20))
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_target_has_a_corpus() {
        let targets = super::targets().unwrap();
        assert!(targets.contains(&"config".to_string()));
        for name in targets {
            let corpus = crate::paths::repo().join("fuzz/corpus").join(&name);
            assert!(corpus.exists(), "{name}");
        }
    }
}
