//! Linking with our archive.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{
    Compile, DebianRelease, compiled, ours, provider_libraries, providers_in, rdmacm_flags, text,
    theirs,
};
use crate::checks::Check;
use crate::context::Context;
use crate::suites::providers::PROVIDERS;
use crate::verdict::{Failure, Verdict, ensure};

/// glibc 2.38 has names of its own for C23's functions, which Debian 12's libc lacks.
const C23: [&str; 6] = [
    "sscanf", "strtoul", "strtol", "strtoull", "strtoll", "fscanf",
];

pub fn checks() -> Vec<Check> {
    let mut all = vec![Check::new("17 providers found", |cx| {
        let found = providers(cx)?;
        let expected = PROVIDERS.map(String::from).into();
        ensure(found == expected, format!("found: {found:?}"))
    })];
    for name in PROVIDERS {
        all.push(Check::new(format!("with {name}"), move |cx| {
            linked(cx, "one", &["-static", &format!("-DPROVIDERS={name}")]).map(drop)
        }));
    }
    all.extend([
        with("none", &["-static"], |_| Ok(names(&["none"]))),
        with("rxe alone", &["-static", "-DPROVIDERS=rxe"], |_| {
            Ok(names(&["none", "rxe"]))
        }),
        with("all", &["-static", "-DPROVIDERS=all"], |cx| {
            let mut all = providers(cx)?;
            // verbs_provider_ionic is an empty table if there is no libionic.a.
            all.extend(names(&["all", "none", "ionic"]));
            Ok(all)
        }),
        Check::new("as static-pie", |cx| pie(cx).map(drop)),
        Check::with_parts(
            "with rxe and a dynamic libc",
            vec!["", "no-libibverbs.so.1"],
            |cx| {
                let program = text(half(cx)?);
                let needed = cx.output(["readelf", "-d", &program])?;
                let loads = needed
                    .lines()
                    .any(|line| line.contains("NEEDED") && line.contains("libibverbs"));
                Ok(vec![Ok(()), ensure(!loads, "it loads libibverbs.so.1")])
            },
        ),
        Check::new("librdmacm.a", |cx| rdmacm(cx, "cm", ours(cx)?).map(drop)),
        Check::new("without libnl, if no archive needs it", |cx| {
            let words = ["gcc", "-static", "-O1", "-o", "nonl"].map(String::from);
            let source = text(cx.source("static/loopback.c"));
            let library = ["-L".to_string() + &text(ours(cx)?), "-libverbs".into()];
            compiled(
                cx,
                words.into_iter().chain([source]).chain(library).collect(),
            )
        }),
        Check::new("with all of Debian 13", |cx| newer(cx).map(drop)),
        Check::with_parts(
            "with all of sid",
            vec!["links", "contains-18-providers"],
            |cx| sid(cx).map(Vec::from),
        ),
    ]);
    all
}

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|name| name.to_string()).collect()
}

/// The providers whose archives this machine has.
fn providers(cx: &Context) -> Result<BTreeSet<String>, Failure> {
    let dir = theirs()?;
    let mut found = BTreeSet::new();
    for library in provider_libraries(cx, &dir)? {
        let archive = dir.join(format!("lib{}.a", library.trim_start_matches("-l")));
        let symbols = cx.output(["nm", "-g", "--defined-only", &text(archive)])?;
        found.extend(providers_in(&symbols));
    }
    Ok(found)
}

/// A program that links, and contains exactly these providers.
fn with(
    what: &str,
    flags: &'static [&'static str],
    contents: impl Fn(&Context) -> Result<BTreeSet<String>, Failure> + Send + Sync + 'static,
) -> Check {
    Check::with_parts(
        format!("with {what}"),
        vec!["links", "contains"],
        move |cx| {
            let program = linked(cx, "program", flags)?;
            let found = providers_in(&cx.output(["nm", &text(program)])?);
            let expected = contents(cx)?;
            let right = ensure(
                found == expected,
                format!("it contains {found:?}, not {expected:?}"),
            );
            Ok(vec![Ok(()), right])
        },
    )
}

/// static/loopback.c with our archive.
pub fn linked(cx: &Context, name: &str, flags: &[&str]) -> Result<PathBuf, Failure> {
    Compile::new(cx, name, "loopback.c", ours(cx)?, flags).run(cx)
}

pub fn pie(cx: &Context) -> Result<PathBuf, Failure> {
    linked(cx, "pie", &["-static-pie", "-DPROVIDERS=rxe"])
}

/// Links a program with only libibverbs and rxe static.
pub fn half(cx: &Context) -> Result<PathBuf, Failure> {
    let flags = [
        "-DPROVIDERS=rxe", "-Wl,-Bstatic", "-libverbs", "-lrxe-rdmav34", "-libverbs",
        "-Wl,-Bdynamic",
    ];
    linked(cx, "half", &flags)
}

/// static/cm.c with the libibverbs.a of this directory.
pub fn rdmacm(cx: &Context, name: &str, library: PathBuf) -> Result<PathBuf, Failure> {
    let flags = rdmacm_flags(cx)?;
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Compile::new(cx, name, "cm.c", library, &flags).run(cx)
}

/// Links a program with all providers of Debian 13.
pub fn newer(cx: &Context) -> Result<PathBuf, Failure> {
    let release = DebianRelease::debian_13()?;
    let libraries = provider_libraries(cx, &release.lib)?;
    let group = ["-Wl,--start-group", "-libverbs"].map(String::from);
    let words = group.into_iter().chain(libraries);
    let end = String::from("-Wl,--end-group");
    with_release(cx, "newer", &release, words.chain([end]).collect())
}

/// The 18 providers of rdma-core 65 are there, ionic's functions among them.
fn sid(cx: &Context) -> Result<[Verdict; 2], Failure> {
    let release = DebianRelease::sid()?;
    let libraries = provider_libraries(cx, &release.lib)?;
    let verbs = || [String::from("-libverbs")];
    let words = verbs().into_iter().chain(libraries).chain(verbs());
    let program = with_release(cx, "sid", &release, words.collect())?;
    let symbols = cx.output(["nm", &text(program)])?;
    let tables = symbols.matches(" D verbs_provider_").count();
    let ionic = symbols
        .lines()
        .any(|line| line.ends_with(" ionic_alloc_context"));
    let right = ensure(tables == 20, format!("{tables} tables, with all and none"))
        .and_then(|()| ensure(ionic, "no function of ionic"));
    Ok([Ok(()), right])
}

/// static/loopback.c with our archive and all providers of another release.
fn with_release(
    cx: &Context,
    name: &str,
    release: &DebianRelease,
    libraries: Vec<String>,
) -> Result<PathBuf, Failure> {
    let program = cx.dir().join(name);
    let mut words: Vec<String> = ["gcc", "-static", "-O1", "-DPROVIDERS=all", "-o"]
        .map(String::from)
        .into();
    words.push(text(&program));
    words.push(format!("-I{}", text(&release.include)));
    words.push(text(cx.source("static/loopback.c")));
    words.extend(C23.map(|name| format!("-Wl,--defsym=__isoc23_{name}={name}")));
    words.extend([&ours(cx)?, &release.lib].map(|dir| format!("-L{}", text(dir))));
    words.extend(libraries);
    compiled(cx, words)?;
    Ok(program)
}
