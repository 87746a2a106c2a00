//! All that makes packages, in a fresh clone of the repository, with no crate in cargo's directory: each
//! downloads what it needs. And nothing that it makes names the directories of the build.

use std::path::Path;
use std::time::Duration;

use super::ended_well;
use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::context::{Context, succeeded};
use crate::make;
use crate::verdict::{Failure, Verdict, ensure};

/// Each is run in the same clone, in this order: `deb` is the first, as nothing has downloaded a crate then.
const TARGETS: [&str; 5] = ["deb", "rpm", "deb-src", "rpm-src", "dist"];
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
for file in "$out"/deb/*.deb "$out"/rpm/*.rpm "$out"/dist/*.tar.zst "$out"/dist/*.whl; do
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
        ensure(found.ends_with("/planted"), "it was not found").map_err(|f| f.with(found))
    }));
    checks::case("packages/fresh-clone", all)
        .batch()
        .tier(Tier::All)
        .token(make::TOKEN)
        .cpu(200)
        .memory(2000)
        .limit(TARGETS.len() as u64 * LIMIT.as_secs())
        .estimate(700)
}

fn clone(cx: &Context) -> String {
    text(&cx.dir().join("clone"))
}

fn cargo_home(cx: &Context) -> String {
    text(&cx.dir().join("cargo-home"))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn made(cx: &Context, target: &str) -> Verdict {
    let clone = clone(cx);
    if !Path::new(&clone).exists() {
        let cloned = cx.program(["bash", "-ec", CLONE, "clone", &clone]);
        succeeded("git clone", &cloned.dir(&cx.paths.repo).run()?)?;
    }
    let build = cx
        .program(["make", "--no-print-directory", target])
        .dir(Path::new(&clone))
        .env("CARGO_HOME", cargo_home(cx))
        .env("CARGO_TARGET_DIR", format!("{clone}/target"))
        .under(["env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL"])
        .merged()
        .limit(LIMIT);
    ended_well(&build.run()?)
}

/// The files that contain a text; with `plant`, one that does is added.
fn naming(cx: &Context, name: &str, plant: bool) -> Result<String, Failure> {
    let (out, work) = (
        format!("{}/target", clone(cx)),
        text(&cx.dir().join("unpacked")),
    );
    let program = cx
        .program(["bash", "-euc", NAMES, "names", &out, &work, name])
        .env("PLANT", if plant { "1" } else { "" })
        .limit(Duration::from_secs(120));
    let ended = program.run()?;
    succeeded("unpacking", &ended)?;
    Ok(ended.out.trim().into())
}

fn not_named(cx: &Context, name: &str) -> Verdict {
    let found = naming(cx, name, false)?;
    ensure(found.is_empty(), format!("files name {name}")).map_err(|failure| failure.with(found))
}
