//! libibverbs.a with the vendors' unmodified provider archives and librdmacm.a, in comparison with the C
//! library's:
//!
//! - It defines all names of the C library's archive that these need, and no others, in particular none
//!   of Rust or its standard library.
//! - Programs link with each provider alone, with all and with none; as plain executable, as static-pie,
//!   and with a dynamic libc; and with all providers of Debian 13 and sid (`link`).
//! - In the virtual machine, the programs print the same as with the C library's archive (`guest`).

mod guest;
mod link;
mod names;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::artifacts::library_dir;
use crate::case::Case;
use crate::checks;
use crate::context::Context;
use crate::paths::text;
use crate::process::read;
use crate::verdict::{Failure, Verdict};
use crate::{downloads, make, paths};

pub fn cases() -> Vec<Case> {
    let mut list = names::checks();
    list.extend(link::checks());
    let archive = checks::case("static/archive", list)
        .batch()
        .memory(2000)
        .limit(1800)
        .estimate(20);
    vec![archive, guest::case()]
}

/// The directory with our archive, which the first check that needs it builds.
fn ours(cx: &Context) -> Result<PathBuf, Failure> {
    static BUILT: OnceLock<Verdict> = OnceLock::new();
    let build = || make::must_make(cx, &["static".into()], Duration::from_secs(900));
    BUILT.get_or_init(build).clone()?;
    Ok(paths::target().join("static-lib"))
}

/// The directory with the C library's archive, and those of the providers.
fn theirs() -> Result<PathBuf, Failure> {
    Ok(library_dir()?)
}

/// The packages of another release of Debian: the directory of its archives, and that of its headers.
struct DebianRelease {
    lib: PathBuf,
    include: PathBuf,
}

impl DebianRelease {
    fn fetch(release: &str, package: &str, cached_as: &str) -> Result<Self, Failure> {
        let root = downloads::package(release, package, cached_as).map_err(Failure::skip)?;
        let dir = library_dir()?;
        Ok(Self {
            lib: root.join(dir.strip_prefix("/").unwrap_or(&dir)),
            include: root.join("usr/include"),
        })
    }

    fn debian_13() -> Result<Self, Failure> {
        Self::fetch("trixie", "libibverbs-dev", "trixie-libibverbs-dev")
    }

    /// librdmacm.a refers to libibverbs too.
    fn debian_13_rdmacm() -> Result<Self, Failure> {
        Self::fetch("trixie", "librdmacm-dev", "trixie-librdmacm-dev")
    }

    /// The package of rdma-core 65, as the cases of headers/ fetch it. It has libionic.a.
    fn sid() -> Result<Self, Failure> {
        let root =
            downloads::package("sid", "libibverbs-dev", "sid-headers").map_err(Failure::skip)?;
        let version = read(&root.join("version"));
        if !version.starts_with("65.") {
            return Err(Failure::skip(format!(
                "Debian sid has rdma-core {}",
                version.trim()
            )));
        }
        Self::fetch("sid", "libibverbs-dev", "sid-headers")
    }
}

/// The archives of the providers in a directory, as for -l.
fn provider_libraries(cx: &Context, dir: &Path) -> Result<Vec<String>, Failure> {
    let script = text(cx.source("../scripts/static-providers"));
    let names = cx.output([script, text(dir)])?;
    Ok(names.lines().map(|name| format!("-l{name}")).collect())
}

/// The global names that a file defines.
fn defined(cx: &Context, file: &Path) -> Result<BTreeSet<String>, Failure> {
    let ended = cx
        .program(["nm", "-g", "--defined-only", &text(file)])
        .succeed()?;
    let names = ended.out.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        fields.nth(2).map(String::from)
    });
    Ok(names.collect())
}

/// The providers whose symbols a program or an archive has.
fn providers_in(names: &str) -> BTreeSet<String> {
    let symbols = names
        .lines()
        .filter_map(|line| line.split_once(" verbs_provider_"));
    symbols.map(|(_, name)| name.to_string()).collect()
}

/// How to compile a program of static/.
struct Compile<'a> {
    output: PathBuf,
    source: &'a str,
    /// The directory of libibverbs.a.
    library: PathBuf,
    flags: Vec<String>,
}

impl<'a> Compile<'a> {
    fn new(cx: &Context, name: &str, source: &'a str, library: PathBuf, flags: &[&str]) -> Self {
        Self {
            output: cx.dir().join(name),
            source,
            library,
            flags: flags.iter().map(|flag| flag.to_string()).collect(),
        }
    }

    /// Links as the C library's pkg-config file says: libibverbs and the providers refer to each
    /// other.
    fn run(&self, cx: &Context) -> Result<PathBuf, Failure> {
        let mut words: Vec<String> = [
            "gcc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-O1", "-o",
        ]
        .map(String::from)
        .into();
        words.push(text(&self.output));
        words.push(text(cx.source("static").join(self.source)));
        words.extend(self.flags.clone());
        words.push(format!("-L{}", text(&self.library)));
        words.extend(["-Wl,--start-group", "-libverbs"].map(String::from));
        words.extend(provider_libraries(cx, &theirs()?)?);
        words.extend(["-Wl,--end-group", "-lnl-route-3", "-lnl-3", "-lpthread"].map(String::from));
        compiled(cx, words)?;
        Ok(self.output.clone())
    }
}

/// Runs a compiler, which must succeed. (The C library's archive uses libc's name services, about which
/// the linker warns.)
fn compiled(cx: &Context, words: Vec<String>) -> Verdict {
    cx.program(words).merged().succeed().map(drop)
}

/// The options that link librdmacm.a, which needs functions that need libnl.
fn rdmacm_flags(cx: &Context) -> Result<Vec<String>, Failure> {
    let mut flags = ["-static", "-Wl,--start-group", "-lrdmacm", "-libverbs"]
        .map(String::from)
        .to_vec();
    flags.extend(provider_libraries(cx, &theirs()?)?);
    flags.extend(["-lnl-route-3", "-lnl-3", "-Wl,--end-group"].map(String::from));
    Ok(flags)
}
