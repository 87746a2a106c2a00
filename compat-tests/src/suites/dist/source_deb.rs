//! Debian's source package, built in the root directory of a Debian 13 that has what Build-Depends names and
//! nothing else, without a network: by Debian 13's rustc 1.85, the oldest that Cargo.toml allows.

use super::{source_package, text};
use crate::case::Case;
use crate::context::Context;
use crate::paths;
use crate::process::read;
use crate::roots::TRIXIE_BUILD;
use crate::verdict::{Verdict, ensure};

const CHECKS: &[&str] = &["builds", "compiler", "runs", "copyright"];

pub fn case() -> Case {
    source_package::case("dist/source-deb", CHECKS, run)
        .before(|| make_source().and_then(|()| TRIXIE_BUILD.make()))
}

fn make_source() -> Verdict {
    crate::make::on_host("deb-src")
}

const BUILD: &str = r#"
cd "$1"
dpkg-source --no-check -x libibverbs-rs_*.dsc src
cd src
sed -n 's/^rust-version = //p' Cargo.toml
rustc --version
dpkg-buildpackage -us -uc -b
"#;

fn run(cx: &Context) -> Verdict {
    let work = cx.dir().join("work");
    let source = paths::target().join("deb-src");
    let Some(build) = source_package::build(cx, &TRIXIE_BUILD, (&source, &work), BUILD)? else {
        return Ok(());
    };
    let old = build
        .out
        .lines()
        .any(|line| line.starts_with("rustc 1.85."));
    cx.report("compiler", ensure(old, "it was not Rust 1.85"))?;
    let unpack = r#"cd "$1"; for file in *.deb; do dpkg-deb -x "$file" root; done; ls *.deb"#;
    let list = cx.output(["sh", "-ec", unpack, "unpack", &text(&work)])?;
    println!("{list}");
    let root = work.join("root");
    source_package::report_run(cx, &root.join("usr/lib/x86_64-linux-gnu"))?;
    let doc = root.join("usr/share/doc/libibverbs1-rs");
    cx.report("copyright", names_crates(cx, &read(&doc.join("copyright"))))?;
    cx.output(["rm", "-rf", &text(&work)]).map(drop)
}

/// Every crate that is linked in has a paragraph.
pub(in crate::suites) fn names_crates(cx: &Context, copyright: &str) -> Verdict {
    let crates = cx
        .program(["packaging/linked-crates.py"])
        .dir(&cx.paths.repo);
    let ended = crates.succeed()?;
    for line in ended.out.lines() {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next(), words.next());
        let (Some(name), Some(version)) = (name, version) else {
            return Err(format!("linked-crates: {line:?}").into());
        };
        let files = format!("Files: vendor/{name}-{version}/*");
        ensure(copyright.contains(&files), format!("no paragraph {files}"))?;
    }
    ensure(ended.out.lines().count() > 5, "linked-crates lists nothing")
}
