//! The library built with UROCE=0, in a build directory of its own: its unit tests pass, it exports the same
//! symbols, nothing of uroce is in it, and IBV_UROCE has no effect.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use super::symbols::compare_exports;
use crate::case::Case;
use crate::checks::{self, Check};
use crate::compare;
use crate::context::Context;
use crate::fake::SHIM;
use crate::fake::sysfs::Tree;
use crate::paths::text;
use crate::process::{Ended, Program, succeeded};
use crate::verdict::{Details, Failure, Verdict, ensure};
use crate::{make, paths};

/// Values of IBV_UROCE that uroce accepts, or warns about.
const VALUES: &[&str] = &["1", "u=lo", "x=nosuch0", "nonsense"];
const LIMIT: u64 = 1200;

pub fn cases() -> Vec<Case> {
    let mut all = vec![
        Check::new("build", |cx| library(cx).map(drop)),
        Check::new("unit-tests", |cx| {
            succeeded("make test-unit", &make(cx, "test-unit")?)
        }),
        Check::new("symbols", |cx| compare_exports(cx, &library(cx)?)),
        Check::new("variable", no_variable),
        Check::new("functions", no_functions),
        Check::new("crates", no_crate),
    ];
    for value in VALUES {
        for kernel in ["none", "fake"] {
            all.push(Check::new(
                format!("kernel {kernel}, IBV_UROCE={value}"),
                move |cx| has_no_effect(cx, kernel, value),
            ));
        }
    }
    vec![
        checks::case("build/without-uroce", all)
            .batch()
            .memory(2000)
            .limit(2 * LIMIT)
            .estimate(200)
            .programs(&["devices", SHIM]),
    ]
}

fn target() -> PathBuf {
    paths::target().join("without-uroce")
}

/// The library, which is built when the first check needs it.
fn library(cx: &Context) -> Result<PathBuf, Failure> {
    static BUILT: OnceLock<Verdict> = OnceLock::new();
    let built = BUILT.get_or_init(|| succeeded("make build", &make(cx, "build")?));
    built.clone()?;
    Ok(target().join("release/libibverbs.so.1"))
}

/// Runs a target of the Makefile with UROCE=0.
fn make(cx: &Context, target_of_make: &str) -> Result<Ended, Failure> {
    let program = make::make(cx, ["UROCE=0", target_of_make]).env("CARGO_TARGET_DIR", target());
    Ok(program.limit(Duration::from_secs(LIMIT)).run()?)
}

/// The library does not read the variable.
fn no_variable(cx: &Context) -> Verdict {
    let stripped = cx.dir().join("stripped.so");
    cx.output([
        "strip",
        "--strip-all",
        "-o",
        &text(&stripped),
        &text(&library(cx)?),
    ])?;
    let bytes = fs::read(&stripped)?;
    let has = |word: &str| {
        bytes
            .windows(word.len())
            .any(|window| window == word.as_bytes())
    };
    ensure(
        has("RDMAV_DRIVERS"),
        "the library has no names of variables",
    )?;
    ensure(!has("IBV_UROCE"), "the library has the text IBV_UROCE")
}

fn no_functions(cx: &Context) -> Verdict {
    let symbols = cx.output(["nm".into(), library(cx)?.to_string_lossy().into_owned()])?;
    ensure(symbols.contains("ibv_open_device"), "no symbol table")?;
    let found: Vec<&str> = symbols
        .lines()
        .filter(|line| line.contains("uroce"))
        .collect();
    ensure(
        found.is_empty(),
        format!("{} functions of uroce", found.len()),
    )
    .with(found.join("\n"))
}

fn no_crate(cx: &Context) -> Verdict {
    let argv = [
        "cargo", "tree", "-e", "normal", "--no-default-features", "--features", "exports",
        "--prefix", "none",
    ];
    let ended = cx.program(argv).dir(&cx.paths.repo).succeed()?;
    let has = |name: &str| {
        ended
            .out
            .lines()
            .any(|line| line.starts_with(&format!("{name} ")))
    };
    ensure(has("libc"), "cargo tree does not show the crates")?;
    for name in ["roce", "uroce"] {
        ensure(!has(name), format!("cargo builds the crate {name}"))?;
    }
    Ok(())
}

fn has_no_effect(cx: &Context, kernel: &str, value: &str) -> Verdict {
    let library = library(cx)?;
    let dir = library.parent().ok_or("the library has no directory")?;
    let list = || -> Result<Program, Failure> {
        let sys = cx.dir().join("sys");
        let none = cx.dir().join("none");
        fs::create_dir_all(&none)?;
        Tree::new(["rxe0", "mlx5_0"]).write(&sys)?;
        let program = cx
            .program([cx.built("devices")?, "list".into()])
            .merged()
            .library(dir);
        Ok(match kernel {
            "none" => program.env("SYSFS_PATH", none),
            _ => program
                .env("SYSFS_PATH", sys)
                .env("LD_PRELOAD", cx.built(SHIM)?),
        })
    };
    let unset = list()?.run()?;
    let set = list()?.env("IBV_UROCE", value).run()?;
    ensure(!unset.out.is_empty(), "no list of devices")?;
    compare::same(
        ("without", &unset.transcript()),
        ("with", &set.transcript()),
    )
}
