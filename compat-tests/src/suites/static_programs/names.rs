//! The names that libibverbs.a defines.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::{DebianRelease, defined, ours, text, theirs};
use crate::checks::Check;
use crate::context::Context;
use crate::verdict::{Details, Failure, Verdict, ensure};

pub fn checks() -> Vec<Check> {
    vec![
        Check::new("names that the distribution's archives need", |cx| {
            needed_are_defined(cx, &[theirs()?], 100)
        }),
        Check::new("all public names of the C library's archive", |cx| {
            let mut names = defined(cx, &theirs()?.join("libibverbs.a"))?;
            names.retain(|name| !name.starts_with("rdmacore"));
            has_all(cx, &names)
        }),
        Check::new("no other names", no_others),
        Check::new("verbs_provider_all is in a separate member", members),
        Check::new("names that Debian 13's archives need", |cx| {
            let dirs = [
                DebianRelease::debian_13()?.lib,
                DebianRelease::debian_13_rdmacm()?.lib,
            ];
            needed_are_defined(cx, &dirs, 90)
        }),
        Check::new("names that sid's archives need", |cx| {
            needed_are_defined(cx, &[DebianRelease::sid()?.lib], 90)
        }),
    ]
}

fn needed_are_defined(cx: &Context, dirs: &[PathBuf], more_than: usize) -> Verdict {
    let needed = needed(cx, dirs)?;
    ensure(
        needed.len() > more_than,
        format!("only {} names are needed", needed.len()),
    )?;
    has_all(cx, &needed)
}

fn has_all(cx: &Context, names: &BTreeSet<String>) -> Verdict {
    let ours = defined(cx, &ours(cx)?.join("libibverbs.a"))?;
    let missing: Vec<&str> = names.difference(&ours).map(String::as_str).collect();
    let why = format!("{} of {} names are missing", missing.len(), names.len());
    ensure(missing.is_empty() && !names.is_empty(), why).with(missing.join("\n"))
}

/// The names that the archives of these directories need from the libibverbs.a in the first of them.
fn needed(cx: &Context, dirs: &[PathBuf]) -> Result<BTreeSet<String>, Failure> {
    let first = dirs.first().ok_or("no directory")?;
    let defined = defined(cx, &first.join("libibverbs.a"))?;
    let mut words = vec!["nm".to_string(), "-u".into()];
    let entries = dirs
        .iter()
        .map(fs::read_dir)
        .collect::<Result<Vec<_>, _>>()?;
    for entry in entries.into_iter().flatten() {
        let path = entry?.path();
        let is_archive = path.extension().is_some_and(|end| end == "a");
        if is_archive && path.file_name().is_some_and(|name| name != "libibverbs.a") {
            words.push(text(path));
        }
    }
    // nm refuses files named so that are scripts of the linker, and goes on.
    let symbols = cx.program(words).run()?.out;
    let mut needed = BTreeSet::new();
    for line in symbols.lines() {
        let mut fields = line.split_whitespace();
        if let (Some("U" | "w"), Some(name)) = (fields.next(), fields.next()) {
            needed.insert(name.to_string());
        }
    }
    Ok(needed.intersection(&defined).cloned().collect())
}

fn no_others(cx: &Context) -> Verdict {
    let pattern = regex_lite::Regex::new(
        "^(rdmacore[0-9]+_[0-9]+_|_?ibv_|mult_to_ibv_rate$|mbps_to_ibv_rate$|\
            verbs_provider_(none|all|ionic)$)",
    )
    .map_err(|e| e.to_string())?;
    let ours = defined(cx, &ours(cx)?.join("libibverbs.a"))?;
    let strange: Vec<&str> = ours
        .iter()
        .map(String::as_str)
        .filter(|name| !pattern.is_match(name))
        .collect();
    ensure(
        strange.is_empty() && !ours.is_empty(),
        format!("{} strange names", strange.len()),
    )
    .with(strange.join("\n"))
}

/// A program gets the providers only by naming them, and libnl only by librdmacm.
fn members(cx: &Context) -> Verdict {
    let archive = text(ours(cx)?.join("libibverbs.a"));
    let list = cx.output(["ar", "t", &archive])?;
    let expected = "ibverbs.o\nrdmanl.o\nall_providers.o\n";
    ensure(list == expected, format!("the members are {list:?}"))?;
    cx.output(["ar", "x", &archive])?;
    let all = defined(cx, &cx.dir().join("all_providers.o"))?;
    let expected = ["verbs_provider_all", "verbs_provider_ionic"].map(String::from);
    ensure(
        all == BTreeSet::from(expected),
        format!("all_providers.o defines {all:?}"),
    )?;
    let symbols = cx.output(["nm", "ibverbs.o"])?;
    ensure(!symbols.contains(" nl_"), "ibverbs.o needs libnl")
}
