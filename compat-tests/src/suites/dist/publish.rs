//! The crates as they would be published: they build from their own files, offline; each has its licences,
//! its README and what the registry's page shows; the registry's client finds nothing wrong.

use std::time::Duration;

use super::{LIMIT, text};
use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::context::Context;
use crate::process::Program;
use crate::verdict::{Failure, Verdict, ensure};

/// The crates in the order in which they can be published.
const CRATES: &[&str] = &[
    "ibverbs-abi", "ibverbs-faults", "ibverbs-netlink", "ibverbs-os", "roce", "uroce",
    "libibverbs-rs", "with-ibverbs-rs", "uroce-ctl",
];

pub fn case() -> Case {
    let all = vec![
        Check::new("builds offline", builds),
        Check::new("files", files),
        Check::new("dry run", dry_run),
    ];
    checks::case("dist/publish", all)
        .tier(Tier::All)
        .cpu(200)
        .memory(2000)
        .limit(LIMIT)
        .estimate(120)
}

/// A cargo command for all crates that can be published. The tests stay in the repository.
fn cargo(cx: &Context, words: &[&str]) -> Program {
    let target = text(cx.dir().join("target"));
    let all = [
        "--workspace", "--exclude", "compat-tests", "--exclude", "uroce-bench", "--exclude",
        "uroce-network", "--exclude", "charts", "--allow-dirty",
    ];
    let own = ["--locked", "--target-dir", &target];
    let words = ["cargo"].iter().chain(words).chain(&all).chain(&own);
    cx.program(words.copied())
        .dir(&cx.paths.repo)
        .merged()
        .limit(Duration::from_secs(1200))
}

/// cargo builds each crate from its archive, with the archives of the others.
fn builds(cx: &Context) -> Verdict {
    let ended = cargo(cx, &["package", "--offline"]).succeed()?;
    for name in CRATES {
        let line = format!("Verifying {name} v");
        ensure(ended.out.contains(&line), format!("no {line:?}"))?;
    }
    cx.output(["rm", "-rf", &text(cx.dir().join("target"))])
        .map(drop)
}

/// Prints what the archive of a crate lacks.
const LACKS: &str = r#"
import sys, tarfile, tomllib
archive, repo = sys.argv[1:]
with tarfile.open(archive) as crate:
    top = crate.getnames()[0].split('/')[0]
    def read(name):
        return crate.extractfile(f'{top}/{name}').read()
    names = {member.name for member in crate if member.isfile() and member.size}
    for name in ('README.md', 'LICENSE-MIT', 'LICENSE-APACHE', 'Cargo.toml'):
        if f'{top}/{name}' not in names:
            sys.exit(f'no file {name}')
    for name in ('LICENSE-MIT', 'LICENSE-APACHE'):
        if read(name) != open(f'{repo}/{name}', 'rb').read():
            sys.exit(f'{name} has another text')
    package = tomllib.loads(read('Cargo.toml').decode())['package']
for field in ('description', 'license', 'repository', 'homepage', 'rust-version', 'keywords', 'categories'):
    if not package.get(field):
        sys.exit(f'no {field}')
if len(package['keywords']) > 5 or len(package['categories']) > 5:
    sys.exit('the registry takes five keywords and categories')
"#;

fn files(cx: &Context) -> Verdict {
    cargo(cx, &["package", "--no-verify"]).succeed()?;
    let repo = text(&cx.paths.repo);
    for name in CRATES {
        let file = format!("target/package/{name}-{}.crate", env!("CARGO_PKG_VERSION"));
        let file = text(cx.dir().join(file));
        cx.program(["python3", "-c", LACKS, &file, &repo])
            .succeed()?;
    }
    Ok(())
}

/// Asks the registry whether the dependencies are there, and uploads nothing.
fn dry_run(cx: &Context) -> Verdict {
    let version = cx.output(["cargo", "--version"])?;
    let minor = version.split('.').nth(1).and_then(|n| n.parse().ok());
    if minor.unwrap_or(0u32) < 90 {
        return Err(Failure::skip("cargo publish --workspace needs Rust 1.90"));
    }
    let ended = cargo(cx, &["publish", "--dry-run", "--no-verify"]).succeed()?;
    for name in CRATES {
        let line = format!("Uploading {name} v");
        ensure(ended.out.contains(&line), format!("no {line:?}"))?;
    }
    let aborted = ended.out.matches("aborting upload due to dry run").count();
    ensure(aborted == CRATES.len(), format!("{aborted} dry runs"))
}
