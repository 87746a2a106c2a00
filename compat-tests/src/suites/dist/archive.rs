//! The files of the archive and those beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use regex_lite::Regex;
use serde::Deserialize;

use super::{LIMIT, NAME, archive, made, make_dist, text, unpacked};
use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::compare;
use crate::context::Context;
use crate::paths;
use crate::process::read;
use crate::verdict::{Failure, Verdict, ensure};

/// The newest glibc whose symbols may be used: that of RHEL 8.
const GLIBC: (u32, u32) = (2, 28);

pub fn case() -> Case {
    checks::case(
        "dist/archive",
        vec![
            Check::new("checksums", checksums),
            Check::new("one top directory", one_directory),
            Check::new("what make install installs", files),
            Check::new("no newer symbols than glibc 2.28", glibc_versions),
            Check::new("symbols of the static archive", static_archive),
            Check::new("no file names the build's directories", no_directories),
            Check::new("the wrapper finds the library", wrapper),
            Check::new("components are those that are linked", components),
            Check::new("components have licences and checksums", facts),
            Check::new("the library lists its crates", auditable),
        ],
    )
    .before(make_dist)
    .tier(Tier::All)
    .limit(LIMIT)
    .cpu(200)
    .memory(2000)
    .estimate(300)
}

/// SHA256SUMS lists every other file, with its sum.
fn checksums(cx: &Context) -> Verdict {
    let sums = text(made().join("SHA256SUMS"));
    let check = cx.program(["sha256sum", "--check", "--strict", &sums]);
    check.dir(&made()).succeed()?;
    let listed: BTreeSet<String> = read(sums.as_ref())
        .lines()
        .filter_map(|line| Some(line.split_once("  ")?.1.to_string()))
        .collect();
    let mut present = BTreeSet::from_iter(paths::names(made())?);
    present.remove("SHA256SUMS");
    ensure(
        listed == present && listed.len() >= 4,
        format!("listed: {listed:?}, present: {present:?}"),
    )
}

fn one_directory(cx: &Context) -> Verdict {
    let list = cx.output(["tar", "--zstd", "-tf", &text(archive())])?;
    let inside = |name: &&str| !name.starts_with(&format!("{NAME}/"));
    let others: Vec<&str> = list.lines().filter(inside).collect();
    ensure(others.is_empty(), format!("outside of {NAME}: {others:?}"))
}

/// The files that `make -n install` would install, and the documents.
fn files(cx: &Context) -> Verdict {
    let top = unpacked(cx)?;
    let list = cx.output(["find", &text(&top), "!", "-type", "d", "-printf", "%P\\n"])?;
    let found: BTreeSet<&str> = list.lines().collect();
    let version = env!("CARGO_PKG_VERSION");
    let library = format!("lib/libibverbs.so.1.{version}");
    let mut wanted: BTreeSet<String> = [
        library.as_str(),
        "lib/libibverbs.so.1",
        "lib/libibverbs.so",
        "lib/libibverbs.a",
        "lib/libibverbs-rs/libibverbs.so.1",
        "lib/libibverbs-rs/libibverbs.so",
        "lib/pkgconfig/libibverbs.pc",
        "lib/pkgconfig/libibverbs-ofed.pc",
        "bin/with-ibverbs-rs",
        "bin/uroce-ctl",
        "share/bash-completion/completions/with-ibverbs-rs",
        "share/bash-completion/completions/uroce-ctl",
        "share/zsh/site-functions/_with-ibverbs-rs",
        "share/zsh/site-functions/_uroce-ctl",
        "share/doc/libibverbs-rs/README.md",
        "share/doc/libibverbs-rs/CHANGELOG.md",
        "share/doc/libibverbs-rs/LICENSE-MIT",
        "share/doc/libibverbs-rs/LICENSE-APACHE",
        "share/doc/libibverbs-rs/LICENSE-CRATES",
    ]
    .map(String::from)
    .into();
    let headers = ["../include", "../ofed/include"].map(|dir| text(cx.source(dir)));
    let list = ["-name", "*.h", "-printf", "%P\\n"];
    let list = cx.output(["find", &headers[0], &headers[1]].into_iter().chain(list))?;
    wanted.extend(list.lines().map(|name| format!("include/{name}")));
    for name in paths::names(cx.source("../man"))? {
        if let Some(section @ ("1" | "3" | "7")) = name.rsplit('.').next() {
            wanted.insert(format!("share/man/man{section}/{name}"));
        }
    }
    let lines = |names: &mut dyn Iterator<Item = &str>| -> String {
        names.map(|name| format!("{name}\n")).collect()
    };
    compare::same(
        ("wanted", &lines(&mut wanted.iter().map(String::as_str))),
        ("found", &lines(&mut found.into_iter())),
    )
}

/// The programs and shared libraries of the archive and of the wheel.
fn binaries(cx: &Context) -> Result<Vec<PathBuf>, Failure> {
    let top = unpacked(cx)?;
    let wheel = cx.dir().join("wheel");
    if !wheel.exists() {
        let found = cx.output(["find", &text(made()), "-name", "*.whl"])?;
        let file = found.lines().next().ok_or("there is no wheel")?;
        cx.output(["python3", "-m", "zipfile", "-e", file, &text(&wheel)])?;
    }
    Ok(vec![
        top.join("lib/libibverbs.so.1"),
        top.join("bin/with-ibverbs-rs"),
        top.join("bin/uroce-ctl"),
        wheel.join("libibverbs_rs/lib/libibverbs.so.1"),
        wheel.join("libibverbs_rs/lib/libload_here.so"),
        wheel.join("libibverbs_rs/bin/with-ibverbs-rs"),
    ])
}

fn glibc_versions(cx: &Context) -> Verdict {
    let node = Regex::new(r"\bGLIBC_(\d+)\.(\d+)(\.\d+)?\b").map_err(|e| e.to_string())?;
    for file in binaries(cx)? {
        let headers = cx.output(["objdump", "-p", &text(&file)])?;
        let references = headers.split("Version References:").nth(1);
        let references = references.ok_or_else(|| format!("{}: no references", file.display()))?;
        let number = |digits: &str| digits.parse().unwrap_or(u32::MAX);
        let newest = node
            .captures_iter(references)
            .map(|found| (number(&found[1]), number(&found[2])))
            .max();
        println!("{}: {newest:?}", file.display());
        let newest = newest.ok_or_else(|| format!("{} needs no glibc", file.display()))?;
        ensure(
            newest <= GLIBC,
            format!("{} needs GLIBC_{}.{}", file.display(), newest.0, newest.1),
        )?;
    }
    Ok(())
}

/// Checks the undefined symbols of libibverbs.a, which programs link with the libc of their own
/// machine: glibc 2.28 has each, or its libc_nonshared.a. The names of libnl are for the programs
/// that use them, and weak ones may be absent.
fn static_archive(cx: &Context) -> Verdict {
    let top = unpacked(cx)?;
    let nm = |kind: &str| {
        cx.output(["nm", kind, &text(top.join("lib/libibverbs.a"))])
            .map(|list| {
                let name = |line: &str| {
                    let mut words = line.split_whitespace().rev();
                    let (name, kind) = (words.next()?, words.next()?);
                    (kind.to_lowercase() != "w").then(|| name.to_string())
                };
                list.lines().filter_map(name).collect::<BTreeSet<_>>()
            })
    };
    let defined = nm("--defined-only")?;
    let stub = crate::paths::target().join("dist-target/glibc-2.28/symbols");
    let glibc: BTreeSet<String> = read(&stub)
        .lines()
        .filter_map(|line| Some(line.rsplit_once(' ')?.1.to_string()))
        .collect();
    ensure(
        glibc.len() > 1500,
        "the list of glibc's symbols is too short",
    )?;
    let known = |name: &str| {
        let nonshared = [
            "stat", "stat64", "fstat", "fstat64", "lstat", "lstat64", "fstatat64",
        ];
        defined.contains(name)
            || glibc.contains(name)
            || nonshared.contains(&name)
            || name.starts_with("nl")
            || name.starts_with("rtnl_")
            || name.starts_with("_Unwind_")
            || name.starts_with("verbs_provider_")
            || name == "atexit"
            || name == "_GLOBAL_OFFSET_TABLE_"
            || name == "__tls_get_addr"
    };
    let undefined = nm("--undefined-only")?;
    let newer: Vec<_> = undefined.iter().filter(|name| !known(name)).collect();
    ensure(
        newer.is_empty() && undefined.len() > 50,
        format!("{} undefined, unknown: {newer:?}", undefined.len()),
    )
}

fn no_directories(cx: &Context) -> Verdict {
    let home = std::env::var("CARGO_HOME").or_else(|_| {
        let home = std::env::var("HOME");
        home.map(|home| format!("{home}/.cargo"))
    });
    let home = home.map_err(|e| format!("HOME: {e}"))?;
    let names = [
        text(crate::paths::repo()),
        text(crate::paths::target()),
        home,
    ];
    for name in names {
        for place in [unpacked(cx)?, cx.dir().join("wheel")] {
            binaries(cx)?;
            let found = cx.program(["grep", "-rlaF", &name, &text(&place)]).run()?;
            ensure(
                found.out.is_empty(),
                format!("{name} is named in {}", found.out.trim()),
            )?;
        }
    }
    Ok(())
}

fn wrapper(cx: &Context) -> Verdict {
    let top = unpacked(cx)?;
    let version = cx.output([text(top.join("bin/with-ibverbs-rs")), "--version".into()])?;
    let library = text(top.join("lib/libibverbs-rs/libibverbs.so.1"));
    let last = version.lines().last().unwrap_or_default();
    compare::same(("expected", &format!("library: {library}")), ("got", last))
}

#[derive(Deserialize)]
struct Bill {
    components: Vec<Component>,
}

#[derive(Deserialize)]
struct Component {
    name: String,
    version: String,
    #[serde(default)]
    licenses: Vec<serde_json::Value>,
    #[serde(default)]
    hashes: Vec<Hash>,
}

#[derive(Deserialize)]
struct Hash {
    alg: String,
    content: String,
}

fn bill() -> Result<Bill, Failure> {
    let file = made().join(format!("{NAME}.cdx.json"));
    Ok(serde_json::from_str(&read(&file)).map_err(|e| format!("{}: {e}", file.display()))?)
}

/// The same crates as `cargo tree` shows.
fn components(cx: &Context) -> Verdict {
    const TREE: &str = "tree --locked --offline -p libibverbs-rs -p with-ibverbs-rs -p uroce-ctl \
        -e normal,no-proc-macro --prefix none --target x86_64-unknown-linux-gnu";
    let argv = ["cargo"].into_iter().chain(TREE.split_whitespace());
    let tree = cx.program(argv).dir(&cx.paths.repo).succeed()?;
    let crates: BTreeSet<String> = tree
        .out
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some(format!(
                "{} {}\n",
                words.next()?,
                words.next()?.strip_prefix('v')?
            ))
        })
        .filter(|name| !name.starts_with("libibverbs-rs "))
        .collect();
    let listed: BTreeSet<String> = bill()?
        .components
        .iter()
        .map(|component| format!("{} {}\n", component.name, component.version))
        .collect();
    let join = |names: BTreeSet<String>| names.into_iter().collect::<String>();
    ensure(crates.len() > 10, "cargo tree shows too few crates")?;
    compare::same(("cargo tree", &join(crates)), ("listed", &join(listed)))
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// Each component has a licence, and those from the registry the checksum that Cargo.lock has, and their
/// licence's text in the archive.
fn facts(cx: &Context) -> Verdict {
    let lock: Lock =
        toml::from_str(&read(&cx.source("../Cargo.lock"))).map_err(|e| e.to_string())?;
    let sums: BTreeMap<(String, String), String> = lock
        .package
        .into_iter()
        .filter_map(|package| Some(((package.name, package.version), package.checksum?)))
        .collect();
    let texts = read(&unpacked(cx)?.join("share/doc/libibverbs-rs/LICENSE-CRATES"));
    let mut with_sum = 0;
    for component in bill()?.components {
        let name = component.name.clone();
        ensure(
            !component.licenses.is_empty(),
            format!("{name}: no licence"),
        )?;
        let listed = component.hashes.first();
        let listed = listed.map(|hash| (hash.alg.as_str(), hash.content.as_str()));
        let head = format!("\n{name} {}: ", component.version);
        let sum = sums.get(&(component.name, component.version));
        ensure(
            sum.is_none() || texts.contains(&head),
            format!("{name}: no text of its licence"),
        )?;
        let expected = sum.map(|sum| ("SHA-256", sum.as_str()));
        ensure(
            listed == expected,
            format!("{name}: {listed:?}, not {expected:?}"),
        )?;
        with_sum += u32::from(sum.is_some());
    }
    ensure(
        with_sum > 5,
        format!("{with_sum} components have a checksum"),
    )
}

/// The libraries and programs list their crates as cargo-auditable does; together, all components.
fn auditable(cx: &Context) -> Verdict {
    #[derive(Deserialize)]
    struct Listed {
        packages: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        version: String,
        #[serde(default)]
        kind: String,
    }
    if !cx.program(["cargo", "auditable", "-V"]).run()?.ok() {
        return Err(Failure::skip("cargo-auditable is not installed"));
    }
    const READ: &str =
        "import sys, zlib; print(zlib.decompress(open(sys.argv[1], 'rb').read()).decode())";
    let top = unpacked(cx)?;
    let mut listed = BTreeSet::new();
    for name in [
        "lib/libibverbs.so.1", "bin/with-ibverbs-rs", "bin/uroce-ctl",
    ] {
        let (file, section) = (text(top.join(name)), text(cx.dir().join("section")));
        let to = format!("--dump-section=.dep-v0={section}");
        cx.output(["objcopy", &to, &file, "/dev/null"])?;
        let list = cx.output(["python3", "-c", READ, &section])?;
        let list: Listed = serde_json::from_str(&list).map_err(|e| format!("{name}: {e}"))?;
        let linked = list
            .packages
            .into_iter()
            .filter(|package| package.kind != "build");
        listed.extend(linked.map(|package| format!("{} {}\n", package.name, package.version)));
    }
    let root = |name: &str| name.starts_with("libibverbs-rs ");
    let listed: String = listed.into_iter().filter(|name| !root(name)).collect();
    let components = bill()?.components.into_iter();
    let components: BTreeSet<String> = components
        .map(|component| format!("{} {}\n", component.name, component.version))
        .collect();
    compare::same(
        ("components", &components.into_iter().collect::<String>()),
        ("listed", &listed),
    )
}
