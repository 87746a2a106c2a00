//! All that makes packages, in a fresh clone of the repository, with no crate in cargo's directory: each
//! downloads what it needs. And nothing that it makes names the directories of the build: what another user
//! makes elsewhere is equal. Then the commands of the release workflow run in the clone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::{ended_well, make_packages};
use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::compare;
use crate::context::Context;
use crate::make;
use crate::paths::text;
use crate::process::{Program, path_with_sbin, read};
use crate::suites::dist::make_dist;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// Each is run in the same clone, in this order: `deb` is the first, as nothing has downloaded a crate then.
const TARGETS: &[&str] = &["deb", "rpm", "deb-src", "rpm-src", "dist", "deb-arm64"];
const LIMIT: Duration = Duration::from_secs(1500);

/// The clone has what is not committed yet, too.
const CLONE: &str =
    r#"git clone -q --no-local . "$1"; git ls-files -z | xargs -0 cp -a --parents -t "$1""#;

/// Unpacks each package that is made, and prints the files that contain a text. The source packages are the
/// project's own files and those of crates: their contents depend on no directory.
const NAMES: &str = r#"
out=$1 work=$2 text=$3
rm -rf "$work"
mkdir "$work"
for file in "$out"/deb/*.deb "$out"/arm64/deb/*.deb "$out"/rpm/*.rpm "$out"/dist/*.{tar.zst,whl}; do
    to=$work/${file##*/}
    mkdir "$to"
    case $file in
    *.deb) dpkg-deb -R "$file" "$to" ;;
    *.rpm) rpm2cpio "$file" | (cd "$to" && cpio -id --quiet) ;;
    *.tar.zst) tar -C "$to" -xf "$file" ;;
    *.whl) python3 -m zipfile -e "$file" "$to" ;;
    esac
done
# Manual pages and copyright files are compressed.
find "$work" -name '*.gz' -type f -exec gunzip {} +
cp "$out/release/libibverbs.so" "$out/static-lib/libibverbs.a" "$work"
[ -z "${PLANT:-}" ] || echo "$text/src" >>"$work/planted"
grep -rlF -e "$text" "$work" || [ $? = 1 ]
"#;

pub fn case() -> Case {
    let mut all: Vec<Check> = TARGETS
        .iter()
        .map(|target| Check::new(format!("make {target}"), |cx| made(cx, target)))
        .collect();
    all.push(Check::new("no package names the source tree", |cx| {
        not_named(cx, &clone(cx))
    }));
    all.push(Check::new("no package names cargo's directory", |cx| {
        not_named(cx, &cargo_home(cx))
    }));
    all.push(Check::new("a name would be found", |cx| {
        let found = naming(cx, &clone(cx), true)?;
        ensure(found.ends_with("/planted"), "it was not found").with(found)
    }));
    all.push(Check::new("equal to those of another directory", equal));
    all.push(Check::new("the release workflow", release));
    checks::case("packages/fresh-clone", all)
        .before(|| make_packages().and_then(|()| make_dist()))
        .batch()
        .tier(Tier::All)
        .token(make::TOKEN)
        .cpu(200)
        .memory(2000)
        .limit(TARGETS.len() as u64 * LIMIT.as_secs())
        .estimate(700)
}

fn clone(cx: &Context) -> String {
    text(cx.dir().join("clone"))
}

fn cargo_home(cx: &Context) -> String {
    text(cx.dir().join("cargo-home"))
}

fn made(cx: &Context, target: &str) -> Verdict {
    let clone = clone(cx);
    if !Path::new(&clone).exists() {
        let cloned = cx.program(["bash", "-ec", CLONE, "clone", &clone]);
        cloned.dir(&cx.paths.repo).succeed()?;
    }
    ended_well(&in_clone(cx, &["make", "--no-print-directory", target]).run()?)
}

/// A command in the clone.
fn in_clone(cx: &Context, words: &[&str]) -> Program {
    let clone = clone(cx);
    cx.program(words.iter().copied())
        .dir(Path::new(&clone))
        .env("CARGO_HOME", cargo_home(cx))
        .env("CARGO_TARGET_DIR", format!("{clone}/target"))
        .under(["env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL"])
        .merged()
        .limit(LIMIT)
}

/// Checksums of what `make deb rpm dist` makes.
const SUMS: &str = r#"
cd "$1"
sha256sum deb/*.deb rpm/*.rpm dist/*
"#;

/// The source tree's own packages are those of another directory, and of another CARGO_HOME.
fn equal(cx: &Context) -> Verdict {
    let sums = |target: String| -> Result<String, Failure> {
        let ended = cx
            .program(["bash", "-euc", SUMS, "sums", &target])
            .succeed()?;
        Ok(ended.out)
    };
    let here = sums(text(crate::paths::target()))?;
    let there = sums(format!("{}/target", clone(cx)))?;
    compare::same(("the source tree", &here), ("the clone", &there))
}

/// A script in place of GitHub's client: the files of the release are there.
const GH: &str = r#"#!/bin/sh
set -e
[ "$1 $2" = "release create" ]
shift 3
for file in "$@"; do
    case $file in --*) ;; *) ls "$file" ;; esac
done
echo "released"
"#;

/// Runs the one-line commands of the workflow, in the clone. The first step, which has more lines,
/// installs packages.
fn release(cx: &Context) -> Verdict {
    let workflow = read(&cx.source("../.github/workflows/release.yml"));
    let commands = workflow.lines().filter_map(|line| {
        let line = line.trim_start().trim_start_matches("- ");
        line.strip_prefix("run: ")
            .filter(|text| !text.starts_with('>'))
    });
    // It would write into the user's own configuration.
    let commands: Vec<&str> = commands
        .filter(|text| !text.starts_with("git config"))
        .collect();
    ensure(commands.len() == 5, format!("commands: {commands:?}"))?;
    fs::create_dir_all(cx.dir().join("bin"))?;
    let gh = cx.write("bin/gh", GH)?;
    fs::set_permissions(&gh, fs::Permissions::from_mode(0o755))?;
    let path = format!("{}:{}", text(cx.dir().join("bin")), path_with_sbin());
    let tag = concat!("v", env!("CARGO_PKG_VERSION"));
    let script = commands.join("\n");
    let program = in_clone(cx, &["bash", "-ec", &script]);
    let ended = program
        .env("PATH", path)
        .env("GITHUB_REF_NAME", tag)
        .run()?;
    ended_well(&ended)?;
    let released = [
        "x86_64.tar.zst", ".whl", "SHA256SUMS", "setup-uroce", "released",
    ];
    let missing: Vec<_> = released
        .into_iter()
        .filter(|name| !ended.out.contains(name))
        .collect();
    ensure(missing.is_empty(), format!("not released: {missing:?}"))
}

/// The files that contain a text; with `plant`, one that does is added.
fn naming(cx: &Context, name: &str, plant: bool) -> Result<String, Failure> {
    let (out, work) = (
        format!("{}/target", clone(cx)),
        text(cx.dir().join("unpacked")),
    );
    let program = cx
        .program(["bash", "-euc", NAMES, "names", &out, &work, name])
        .env("PLANT", if plant { "1" } else { "" })
        .limit(Duration::from_secs(120));
    let ended = program.succeed()?;
    Ok(ended.out.trim().into())
}

fn not_named(cx: &Context, name: &str) -> Verdict {
    let found = naming(cx, name, false)?;
    ensure(found.is_empty(), format!("files name {name}")).with(found)
}
