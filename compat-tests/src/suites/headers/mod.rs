//! include/ compared with rdma-core's headers.
//!
//! - What they declare to a compiler, fact by fact (`facts`), is compared in both directions with
//!   rdma-core 65 (headers/65.facts, and Debian sid's libibverbs-dev while that is version 65), with the
//!   installed libibverbs-dev, and driver.h with rdma-core's source. Intended differences are listed in
//!   headers/expected.
//! - The same is compared with the Rust types, which cbindgen writes as a C header (`rust_types`).
//! - Every declared function is exported by the library, and every exported one is declared.
//! - gcc and clang report no warnings, in any standard of C and C++ (`warnings`).
//! - Inline functions make the same calls as rdma-core's (`inline`).

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::case::{Case, Tier};
use crate::context::Context;
use crate::downloads;
use crate::process::{last_lines, read};
use crate::provider_layouts::{NEWEST, abis};
use crate::verdict::{Failure, Verdict, ensure};

mod difference;
mod facts;
mod inline;
mod rust_types;
mod warnings;

use facts::{Facts, Query};

/// All headers for programs.
const PUBLIC: &[&str] = &[
    "infiniband/verbs.h",
    "infiniband/verbs_api.h",
    "infiniband/opcode.h",
    "infiniband/sa.h",
    "infiniband/tm_types.h",
    "infiniband/ib_user_ioctl_verbs.h",
    "infiniband/arch.h",
    "infiniband/sa-kern-abi.h",
];
const DRIVER: [&str; 2] = ["infiniband/driver.h", "infiniband/cmd_write.h"];
/// The headers with inline functions for programs.
const WITH_INLINE: &[&str] = &[
    "infiniband/verbs.h", "infiniband/opcode.h", "infiniband/sa.h", "infiniband/tm_types.h",
    "infiniband/arch.h",
];
/// Functions that no packaged header declares: called by old programs and other libraries of rdma-core, or
/// looked up by the functions of libibverbs-rs/names.h.
const UNDECLARED: &[&str] = &[
    "ibv_copy_ah_attr_from_kern", "ibv_copy_path_rec_from_kern", "ibv_copy_path_rec_to_kern",
    "ibv_copy_qp_attr_from_kern", "ibv_register_driver", "ibverbs_rs_set_name",
];

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("headers/facts/65", facts_65),
        Case::new("headers/facts/sid", facts_sid).limit(300),
        Case::new("headers/facts/installed", |cx| facts_installed(cx, None)),
        Case::new("headers/facts/static", |cx| {
            facts_installed(cx, Some("rxe,mlx5"))
        }),
        Case::new("headers/facts/driver", facts_driver).limit(300),
        Case::new("headers/facts/driver-56", |cx| {
            facts_driver_of(cx, "trixie", "56.", "34")
        })
        .limit(300),
        Case::new("headers/facts/driver-65", |cx| {
            facts_driver_of(cx, "sid", "65.", "65")
        })
        .limit(300),
        Case::new("headers/facts/selftest", selftest),
        Case::new("headers/rust-types", rust_types::compare).estimate(5),
        Case::new("headers/exports", exports).limit(300),
        Case::new("headers/inline/installed", inline_installed)
            .limit(300)
            .estimate(10),
        Case::new("headers/inline/sid", inline_sid)
            .limit(300)
            .estimate(10),
        Case::new("headers/inline/driver", inline_driver)
            .limit(300)
            .estimate(10),
    ];
    cases.extend(warnings::cases());
    cases
        .into_iter()
        .map(|case| case.tier(Tier::Check))
        .collect()
}

fn ours(cx: &Context) -> PathBuf {
    cx.paths.repo.join("include")
}

/// Our headers as programs see them, with all that the newest release has.
fn our_query(cx: &Context) -> Query {
    Query::new(ours(cx), PUBLIC).define(&format!("IBVERBS_PABI_VERSION={}", NEWEST.abi))
}

fn our_facts(cx: &Context) -> Result<Facts, Failure> {
    Ok(our_query(cx).facts()?)
}

fn facts_of_65(cx: &Context) -> Facts {
    read(&cx.source("headers/65.facts"))
        .lines()
        .map(String::from)
        .collect()
}

fn expected(cx: &Context) -> String {
    read(&cx.source("headers/expected"))
}

fn facts_65(cx: &Context) -> Verdict {
    difference::compare("65", &facts_of_65(cx), &our_facts(cx)?, None, &expected(cx))
}

/// The headers of sid's libibverbs-dev; skipped if they cannot be fetched or are no longer of version 65.
fn sid() -> Result<PathBuf, Failure> {
    let dir = downloads::package("sid", "libibverbs-dev", "sid-headers").map_err(Failure::skip)?;
    let version = read(&dir.join("version"));
    if !version.starts_with("65.") {
        let why = format!(
            "sid's libibverbs-dev is version {}, not 65: 65.facts remains",
            version.trim()
        );
        return Err(Failure::skip(why));
    }
    Ok(dir.join("usr/include"))
}

fn facts_sid(cx: &Context) -> Verdict {
    let sid = Query::new(sid()?, PUBLIC).facts()?;
    // To become 65.facts if sid's headers of that version change.
    cx.write(
        "sid.facts",
        sid.iter()
            .map(|fact| format!("{fact}\n"))
            .collect::<String>(),
    )?;
    difference::compare("sid", &facts_of_65(cx), &sid, None, "")
}

/// The installed headers alone, without the rest of /usr/include.
fn installed(cx: &Context) -> Result<Query, Failure> {
    let theirs = Path::new("/usr/include/infiniband");
    ensure(
        theirs.join("verbs.h").exists(),
        "libibverbs-dev is missing: run make deps",
    )?;
    let dir = cx.dir().join("installed");
    if !dir.exists() {
        fs::create_dir(&dir)?;
        symlink(theirs, dir.join("infiniband"))?;
    }
    Ok(Query::new(dir, PUBLIC).of(theirs))
}

fn facts_installed(cx: &Context, providers: Option<&str>) -> Verdict {
    let (mut theirs, mut mine) = (installed(cx)?, Query::new(ours(cx), PUBLIC));
    if let Some(providers) = providers {
        let define = format!("RDMA_STATIC_PROVIDERS={providers}");
        (theirs, mine) = (theirs.define(&define), mine.define(&define));
    }
    let what = if providers.is_some() {
        "static"
    } else {
        "installed"
    };
    let newer = facts_of_65(cx);
    difference::compare(
        what,
        &theirs.facts()?,
        &mine.facts()?,
        Some(&newer),
        &expected(cx),
    )
}

/// rdma-core's headers for providers, from the source of the installed release.
fn source(cx: &Context) -> Result<PathBuf, Failure> {
    source_of(cx, None)
}

/// The same of a release of Debian.
fn source_of(cx: &Context, release: Option<&str>) -> Result<PathBuf, Failure> {
    let output = Command::new(cx.paths.repo.join("scripts/fetch-headers"))
        .args(release)
        .output()?;
    if !output.status.success() {
        let why = last_lines(&String::from_utf8_lossy(&output.stderr), 3);
        return Err(Failure::skip(format!("rdma-core's source: {}", why.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}

fn their_driver(source: &Path, abi: &str) -> Query {
    Query::new(source, &DRIVER)
        .define(&format!("IBVERBS_PABI_VERSION={abi}"))
        .of(source.join("infiniband"))
}

/// Our headers for providers, as those of a provider ABI see them.
fn our_driver(cx: &Context, source: &Path, abi: &str) -> Query {
    Query::new(ours(cx), &DRIVER)
        .also(source)
        .define(&format!("IBVERBS_PABI_VERSION={abi}"))
        .of(ours(cx))
}

fn facts_driver(cx: &Context) -> Verdict {
    let source = source(cx)?;
    let (theirs, mine) = (
        their_driver(&source, "34").facts()?,
        our_driver(cx, &source, "34").facts()?,
    );
    difference::compare(
        "driver",
        &theirs,
        &mine,
        Some(&facts_of_65(cx)),
        &expected(cx),
    )
}

/// driver.h for authors of providers of ABI `abi`, and what it includes, compared with the source of a
/// release of Debian while that has rdma-core `version`.
fn facts_driver_of(cx: &Context, release: &str, version: &str, abi: &str) -> Verdict {
    let source = source_of(cx, Some(release))?;
    let got = read(&source.join("version"));
    if !got.starts_with(version) {
        let why = format!("{release} has rdma-core {}, not {version}*", got.trim());
        return Err(Failure::skip(why));
    }
    let what = format!("driver-{}", version.trim_end_matches('.'));
    let (theirs, mine) = (
        their_driver(&source, abi).facts()?,
        our_driver(cx, &source, abi).facts()?,
    );
    let newer = facts_of_65(cx);
    difference::compare(&what, &theirs, &mine, Some(&newer), &expected(cx))
}

/// A wrong fact is found.
fn selftest(cx: &Context) -> Verdict {
    let mut facts = our_facts(cx)?;
    let right = "struct ibv_qp size 160 align 8";
    ensure(facts.remove(right), format!("no fact {right:?}"))?;
    facts.insert(right.replace("160", "168"));
    let verdict = difference::compare("65", &facts_of_65(cx), &facts, None, &expected(cx));
    ensure(verdict.is_err(), "a wrong size is not found")
}

/// Every exported function is declared, and every declared one is exported.
fn exports(cx: &Context) -> Verdict {
    let list = read(&cx.source("symbols/exports.lst"));
    let names = list
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    let is_node = |name: &str| name.starts_with("IBVERBS") || name.starts_with("LIBIBVERBS_RS");
    let exported: BTreeSet<&str> = names.filter(|name| !is_node(name)).collect();
    let mut facts = our_facts(cx)?;
    let source = source(cx)?;
    for abi in abis() {
        facts.extend(our_driver(cx, &source, &abi.to_string()).facts()?);
    }
    let declared: BTreeSet<&str> = facts.iter().filter_map(|fact| declared(fact)).collect();
    let missing: Vec<&str> = exported
        .difference(&declared)
        .copied()
        .filter(|name| !UNDECLARED.contains(name))
        .collect();
    let undeclared = ensure(
        missing.is_empty(),
        format!("exported, not declared: {missing:?}"),
    );
    cx.report("declared", undeclared)?;
    let missing: Vec<&&str> = declared.difference(&exported).collect();
    let unexported = ensure(
        missing.is_empty(),
        format!("declared, not exported: {missing:?}"),
    );
    cx.report("exported", unexported)
}

/// The name of a function that is not inline, or of a variable.
fn declared(fact: &str) -> Option<&str> {
    let mut words = fact.split(' ');
    let kind = words.next()?;
    let name = words.next()?;
    (["function", "variable"].contains(&kind) && name != "inline").then_some(name)
}

fn inline_installed(cx: &Context) -> Verdict {
    let (theirs, mine) = (installed(cx)?, Query::new(ours(cx), PUBLIC));
    // struct ibv_port_attr was shorter in that release
    let but = (
        ["___ibv_query_port"].as_slice(),
        ["BUT_QUERY_PORT"].as_slice(),
    );
    inline_functions(cx, &theirs, mine, but.0, but.1, WITH_INLINE)
}

fn inline_sid(cx: &Context) -> Verdict {
    let theirs = Query::new(sid()?, PUBLIC);
    inline_functions(
        cx,
        &theirs,
        Query::new(ours(cx), PUBLIC),
        &[],
        &[],
        WITH_INLINE,
    )
}

fn inline_driver(cx: &Context) -> Verdict {
    let source = source(cx)?;
    let headers = [DRIVER.as_slice(), WITH_INLINE].concat();
    let (theirs, mine) = (their_driver(&source, "34"), our_driver(cx, &source, "34"));
    inline_functions(
        cx,
        &theirs,
        mine,
        &[],
        &["IBVERBS_PABI_VERSION=34"],
        &headers,
    )
}

fn inline_functions(
    cx: &Context,
    theirs: &Query,
    mine: Query,
    skipped: &[&str],
    define: &[&str],
    headers: &[&str],
) -> Verdict {
    let (their_facts, our_facts) = (theirs.facts()?, mine.facts()?);
    // Our headers include some of the kernel's that only rdma-core's source has.
    let mine = if mine.include.len() > 1 {
        mine
    } else {
        mine.also(source(cx)?)
    };
    let theirs = inline::Side {
        facts: &their_facts,
        query: theirs,
    };
    let mine = inline::Side {
        facts: &our_facts,
        query: &mine,
    };
    inline::compare(cx, &mine, &theirs, skipped, define, headers)
}
