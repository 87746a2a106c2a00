//! A build in Debian sid with the crates of its own packages (librust-*-dev) in place of the vendored ones:
//! packaging/system-crates prepares the source tree. The programs of sid run on what is built.

use std::time::Duration;

use super::old_glibc::{enter, inside};
use super::{LIMIT, text};
use crate::case::{Case, Tier};
use crate::context::Context;
use crate::roots::SID_CRATES;
use crate::sandbox::Sandbox;
use crate::verdict::{Verdict, contains};

pub fn case() -> Case {
    Case::new("dist/system-crates", run)
        .before(|| SID_CRATES.make())
        .sandbox(Sandbox::Root)
        .tier(Tier::All)
        .cpu(200)
        .memory(2000)
        .limit(LIMIT)
        .estimate(200)
}

/// The namespace has no network: cargo can take crates from nowhere else.
const BUILD: &str = r#"
cd "$1/source"
export CARGO_HOME=$1/cargo CARGO_TARGET_DIR=$1/target
mkdir -p "$CARGO_HOME"
cat >"$CARGO_HOME/config.toml" <<'END'
[source.crates-io]
replace-with = "debian"
[source.debian]
directory = "/usr/share/cargo/registry"
END
cargo rustc --offline --release --lib --crate-type cdylib
cargo build --offline --release -p with-ibverbs-rs -p uroce-ctl
ln -sf libibverbs.so "$CARGO_TARGET_DIR/release/libibverbs.so.1"
"#;

fn run(cx: &Context) -> Verdict {
    let (repo, dir) = (text(&cx.paths.repo), text(cx.dir()));
    let copy = r#"
mkdir "$2/source"
tar -C "$1" --exclude=./target --exclude=./.git -cf - . | tar -C "$2/source" -xf -
"$1/packaging/system-crates" "$2/source""#;
    let copied = cx.program(["sh", "-ec", copy, "copy", &repo, &dir]);
    copied.limit(Duration::from_secs(300)).succeed()?;
    enter(&SID_CRATES.dir()?)?;
    let build = inside(cx, ["sh", "-ec", BUILD, "build", &dir]).merged();
    build.limit(Duration::from_secs(LIMIT)).succeed()?;
    let ended = inside(cx, ["ibv_devinfo", "-d", "uroce0"])
        .env("IBV_UROCE", "uroce0=lo")
        .env("LD_LIBRARY_PATH", cx.dir().join("target/release"))
        .succeed()?;
    contains(&ended.out, &["PORT_ACTIVE"])
}
