//! make without cargo, or with an old one: it says what to do before it does anything else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Destination, VERSION, outcome_of_make, same, text};
use crate::checks::Check;
use crate::context::Context;
use crate::make;
use crate::paths;
use crate::process::Exit;
use crate::sandbox::is_root;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// The Rust version that the project needs: 1.NN.
const NEEDED: &str = env!("CARGO_PKG_RUST_VERSION");
const OLD: &str = "1.63.0";
const GOALS: [&str; 7] = ["all", "static", "deb", "rpm", "demo", "test", "lint-rust"];

pub fn checks() -> Vec<Check> {
    let mut all = vec![Check::new("make, without cargo", |cx| {
        let missing = format!("{} is missing or does not run", text(nowhere(cx)));
        refused(cx, &[cargo_is(&nowhere(cx))], &[], &missing)
    })];
    for goal in GOALS {
        all.push(Check::new(
            format!("make {goal}, with an old one"),
            move |cx| {
                let cargo = cargo(cx)?;
                let reason = format!("you have {OLD} ({})", text(&cargo));
                refused(
                    cx,
                    &[goal.into(), cargo_is(&cargo)],
                    &[("OLD", OLD)],
                    &reason,
                )
            },
        ));
    }
    for (name, version) in enough() {
        all.push(Check::new(format!("Rust {name} is enough"), move |cx| {
            let cargo = cargo(cx)?;
            let script = text(cx.source("../scripts/need-rust"));
            let program = cx
                .program([script])
                .env("OLD", &version)
                .env("CARGO", cargo);
            program.merged().succeed().map(drop)
        }));
    }
    all.push(Check::new(
        "make install without cargo installs what is built",
        without_cargo,
    ));
    all.push(Check::new("sudo make install after make", by_root));
    all.push(Check::new(
        "make install without cargo when nothing is built",
        |cx| {
            let missing = format!("{} is missing or does not run", text(nowhere(cx)));
            let prefix = format!("PREFIX={}", text(cx.dir().join("nothing")));
            let words = ["install".into(), prefix, cargo_is(&nowhere(cx))];
            let empty = text(cx.dir().join("empty"));
            refused(cx, &words, &[("CARGO_TARGET_DIR", &empty)], &missing)
        },
    ));
    all
}

/// Versions that must not be refused.
fn enough() -> [(String, String); 3] {
    let minor = NEEDED
        .strip_prefix("1.")
        .and_then(|minor| minor.parse::<u32>().ok());
    let newer = format!("1.{}.1-nightly", minor.unwrap_or(0) + 5);
    [format!("{NEEDED}.0"), newer, "2.0.0".into()].map(|version| (version.clone(), version))
}

fn nowhere(cx: &Context) -> PathBuf {
    cx.dir().join("nowhere")
}

fn cargo_is(path: &std::path::Path) -> String {
    format!("CARGO={}", path.display())
}

/// A cargo whose version is the value of the variable OLD.
fn cargo(cx: &Context) -> Result<PathBuf, Failure> {
    let cargo = cx.write(
        "cargo",
        "#!/bin/sh\necho \"cargo ${OLD:?} (0123456 2022-08-01)\"\n",
    )?;
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755))?;
    Ok(cargo)
}

/// make must fail, in a few lines that give the reason and what to do.
fn refused(cx: &Context, words: &[String], env: &[(&str, &str)], reason: &str) -> Verdict {
    let ended = outcome_of_make(cx, words, env)?;
    let message = format!("libibverbs-rs needs Rust {NEEDED} or later; {reason}");
    let right = ended.exit != Exit::Code(0)
        && ended.out.contains("rustup")
        && ended.out.contains(&message)
        && ended.out.lines().count() <= 5;
    ensure(
        right,
        format!("exit code {}, or another message", ended.exit),
    )
    .with(&ended.out)
}

/// The installed wrapper has this version, and finds the installed library.
fn finds_library(cx: &Context, prefix: &Path) -> Verdict {
    let version = cx.output([&text(prefix.join("bin/with-ibverbs-rs")), "--version"])?;
    let library = text(prefix.join("lib/libibverbs-rs/libibverbs.so.1"));
    same(
        &format!("with-ibverbs-rs {VERSION}\nlibrary: {library}\n"),
        &version,
    )
}

/// sudo often has no cargo in PATH.
fn without_cargo(cx: &Context) -> Verdict {
    make::must_make(cx, &["build".into(), "static".into()], super::LIMIT)?;
    let prefix = cx.dir().join("prefix");
    let destination = Destination::new(&[("PREFIX", &prefix), ("CARGO", &nowhere(cx))]);
    destination.install(cx)?;
    finds_library(cx, &prefix)?;
    destination.uninstall(cx)
}

/// Checks that root installs what another user has built without a run of cargo, and leaves no file
/// there.
fn by_root(cx: &Context) -> Verdict {
    if !is_root() {
        return Err(Failure::skip(
            "only root can install what another user has built",
        ));
    }
    make::must_make(cx, &["build".into()], super::LIMIT)?;
    let (target, prefix) = (cx.dir().join("of-a-user"), cx.dir().join("by-root"));
    let release = target.join("release");
    fs::create_dir_all(&release)?;
    for file in ["libibverbs.so", "with-ibverbs-rs", "uroce-ctl"] {
        fs::copy(
            paths::target().join("release").join(file),
            release.join(file),
        )?;
    }
    cx.output(["chown", "-R", "65534:65534", &text(&target)])?;
    let ran = cx.dir().join("cargo-ran");
    let cargo = cx.write(
        "cargo-of-root",
        format!("#!/bin/sh\necho cargo 1.99.0; touch '{}'\n", text(&ran)),
    )?;
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755))?;
    let words = [
        "install".into(),
        format!("PREFIX={}", text(&prefix)),
        cargo_is(&cargo),
    ];
    let ended = outcome_of_make(cx, &words, &[("CARGO_TARGET_DIR", &text(&target))])?;
    let said = |what: &str| ended.out.contains(what);
    let right = ended.exit == Exit::Code(0)
        && said("installing what user 65534 has built")
        && said("libibverbs.a is not built, and not installed");
    ensure(
        right,
        format!("exit code {}, or other messages", ended.exit),
    )
    .with(&ended.out)?;
    ensure(!ran.exists(), "root has run cargo")?;
    same("", &cx.output(["find", &text(&target), "-user", "0"])?)?;
    finds_library(cx, &prefix)
}
