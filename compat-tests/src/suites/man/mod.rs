//! The manual pages in man/ are well-formed, complete and correct. Needs mandoc, groff and gcc.
//!
//! Each case is one kind of check over all pages. `man/selftest` introduces errors into a copy of the
//! pages, and expects a message for each of them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::case::{Case, Tier};
use crate::context::Context;
use crate::process::read;
use crate::verdict::{Failure, Verdict, ensure};

mod behaviour;
mod form;
mod headers;
mod interface;
mod mdoc;
mod selftest;

use headers::{Headers, VersionMap};
use mdoc::Page;

/// Page names of rdma-core that are not functions. Users search for them.
const ALIASES: &[&str] = &[
    "ibv_create_flow_action", "ibv_modify_flow_action", "ibv_wr_post",
];

/// The kinds of checks, and how many each makes at least: a check that finds nothing to check fails.
const KINDS: &[(&str, usize)] = &[
    ("form", 400),
    ("names", 300),
    ("packages", 1),
    ("references", 300),
    ("coverage", 300),
    ("versions", 20),
    ("prototypes", 300),
    ("structures", 100),
    ("examples", 5),
    ("words", 800),
    ("providers", 70),
    ("behaviour", 20),
    ("wrapper", 2),
    ("explain", 50),
    ("faults", 15),
    ("control", 2),
];

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = KINDS
        .iter()
        .map(|(kind, at_least)| {
            Case::new(format!("man/{kind}"), move |cx| {
                let checks = run(cx, &cx.paths.repo.join("man"), &[kind])?;
                checks.verdict(*at_least)
            })
        })
        .collect();
    cases.push(Case::new("man/selftest", selftest::run_all).estimate(10));
    cases
        .into_iter()
        .map(|case| case.tier(Tier::Check))
        .collect()
}

/// Counts checks, and keeps the messages of those that failed.
#[derive(Debug, Default)]
struct Checks {
    passed: usize,
    failures: Vec<String>,
}

impl Checks {
    fn check(&mut self, holds: bool, why: String) {
        if holds {
            self.passed += 1;
        } else {
            self.failures.push(why);
        }
    }

    fn verdict(&self, at_least: usize) -> Verdict {
        println!("{} passed, {} failed", self.passed, self.failures.len());
        if let Some(first) = self.failures.first() {
            return Err(Failure::new(first.lines().next().unwrap_or_default())
                .with(self.failures.join("\n")));
        }
        ensure(
            self.passed >= at_least,
            format!("only {} checks, not {at_least}", self.passed),
        )
    }
}

/// The headers and the version map that the pages are compared with.
struct References {
    sets: Vec<Headers>,
    map: VersionMap,
}

/// Makes these kinds of checks on the pages of a directory.
fn run(cx: &Context, dir: &Path, kinds: &[&str]) -> Result<Checks, Failure> {
    let repo = &cx.paths.repo;
    let everything = mdoc::pages(dir)?;
    let pages: Vec<&Page> = everything
        .iter()
        .filter(|page| page.link.is_none())
        .collect();
    let known = References {
        sets: Headers::sets(repo, cx.dir())?,
        map: VersionMap::read(repo)?,
    };
    let (public, private) = (known.map.public.len(), known.map.private.len());
    let found = format!("src/export/libibverbs.map: {public} and {private} names found");
    ensure(public > 90 && private > 70, found)?;
    let list = read(&cx.source("man/pages.lst"));
    let elsewhere = form::elsewhere(&list);
    let mut checks = Checks::default();
    for kind in kinds {
        let checks = &mut checks;
        let References { sets, map } = &known;
        match *kind {
            "form" => form::well_formed(dir, &pages, checks)?,
            "names" => form::names_lead_to_pages(&everything, checks),
            "packages" => form::list_is_true(&elsewhere, checks)?,
            "references" => form::references(&everything, &pages, &elsewhere, checks),
            "coverage" => interface::coverage(&everything, map, sets, checks),
            "versions" => interface::versions(&pages, map, checks),
            "prototypes" => interface::prototypes(&pages, sets, repo, checks)?,
            "structures" => interface::structures(&pages, sets, checks)?,
            "examples" => interface::examples(&pages, &sets[0], checks)?,
            "words" => interface::words(&pages, sets, map, checks),
            "providers" => interface::providers(&pages, map, checks),
            "behaviour" => {
                let index = page(&pages, "libibverbs-rs")?;
                behaviour::environment(index, repo, checks)?;
                behaviour::messages(index, repo, checks)?;
            }
            "wrapper" => behaviour::wrapper(page(&pages, "with-ibverbs-rs")?, repo, checks)?,
            "explain" => {
                behaviour::explanations(page(&pages, "libibverbs-rs-explain")?, repo, checks)?;
            }
            "control" => behaviour::control(page(&pages, "uroce-ctl")?, repo, checks)?,
            "faults" => behaviour::faults(page(&pages, "libibverbs-rs-faults")?, checks),
            other => return Err(Failure::new(format!("no kind of checks {other}"))),
        }
    }
    Ok(checks)
}

fn page<'a>(pages: &[&'a Page], name: &str) -> Result<&'a Page, Failure> {
    let found = pages.iter().find(|page| page.name == name);
    found
        .copied()
        .ok_or_else(|| Failure::new(format!("no page {name}")))
}

/// A property of each page.
fn names<'a>(pages: &[&'a Page], of: impl Fn(&'a Page) -> &'a str) -> BTreeSet<&'a str> {
    pages.iter().map(|page| of(page)).collect()
}

/// Copies the pages to a directory.
fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to)?;
    for page in mdoc::pages(from)? {
        match &page.link {
            Some(target) => symlink(target, to.join(&page.file))?,
            None => fs::copy(from.join(&page.file), to.join(&page.file)).map(drop)?,
        }
    }
    Ok(())
}
