//! Unmodified programs on Soft-RoCE, in the virtual machine: the rows of the testbed `vm`. Each runs on the
//! C library, on ours by LD_LIBRARY_PATH, and on ours by LD_PRELOAD, unless the row leaves out one of them.
//! Exit codes, output, and the log file must be the same, each program must load exactly the expected
//! library, and must print what `output_checks` requires.
//!
//! A row may alter the machine (`MachineState`: the user, the device's node, limits), and servers listen on
//! 127.0.0.1. `other_projects` has neither, and runs rows that take longer once on each library.

use std::collections::BTreeSet;

use crate::case_file::Row;
use crate::compare;
use crate::context::{Context, Library};
use crate::flaky::Tries;
use crate::machine::{Judged, Member};
use crate::normalise;
use crate::output_checks;
use crate::pairs;
use crate::row_outcome::RowOutcome;
use crate::rows;
use crate::suites::other_projects::masks;
use crate::verdict::{Failure, Verdict, ensure};

mod run;
pub mod setting;

pub fn members() -> Result<Vec<Member>, String> {
    let rows = rows::of_testbed("vm")?.into_iter().enumerate();
    let member = |(number, (group, row)): (usize, (String, Row))| {
        row.has_none_of(&["times", "clients", "mtu", "port", "checker"])?;
        Ok(member(number as u16, &group, row))
    };
    rows.map(member).collect()
}

fn member(number: u16, group: &str, row: Row) -> Member {
    Member::new(format!("vm/{group}/{}", row.name), move |cx| {
        judge(cx, &row, number)
    })
    .limit(3600)
    .programs(&["compat10", "suid-c", "suid-ours"])
}

/// The libibverbs that a program gets, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// The distribution's, as the programs find it.
    C,
    /// Our library, by LD_LIBRARY_PATH.
    Path,
    /// Our library, by LD_PRELOAD.
    Preload,
}

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Variant::C => "c",
            Variant::Path => "path",
            Variant::Preload => "preload",
        }
    }
}

fn judge(cx: &Context, row: &Row, number: u16) -> Judged {
    let mut tries = Tries::new(&cx.name);
    let verdict = compare_variants(cx, row, number, &mut tries);
    Judged {
        verdict,
        again: tries.again.join("; "),
    }
}

/// Runs the row in all variants, and compares.
fn compare_variants(cx: &Context, row: &Row, number: u16, tries: &mut Tries) -> Verdict {
    let mut found = Vec::new();
    let mut theirs = None;
    if row.machine.compared != Some(false) {
        let c = tried(cx, row, number, Variant::C, tries)?;
        check(cx, row, Variant::C, &c, &mut found);
        theirs = Some(c);
    }
    for variant in [Variant::Path, Variant::Preload] {
        if variant == Variant::Preload && row.machine.preload == Some(false) {
            continue;
        }
        let ours = tried(cx, row, number, variant, tries)?;
        check(cx, row, variant, &ours, &mut found);
        if let Some(c) = &theirs {
            differences(row, variant, c, &ours, &mut found);
        }
    }
    match found.split_first() {
        None => Ok(()),
        Some((first, rest)) => {
            let rest = rest.iter().map(|f| format!("{}\n{}", f.why, f.details));
            let rest: String = rest.collect();
            Err(first.clone().with(rest))
        }
    }
}

/// Runs the row until it ends as it must, or may not run again.
fn tried(
    cx: &Context,
    row: &Row,
    number: u16,
    variant: Variant,
    tries: &mut Tries,
) -> Result<RowOutcome, Failure> {
    tries.run(
        (variant != Variant::C).then_some(variant.name()),
        |before| run::row(cx, row, variant, run::port(number, variant, before)),
        |outcome| (outcome.exit != row.exit).then(|| format!("exit code {}", outcome.exit)),
    )
}

/// Adds what is wrong with one run: two equal failures must not pass.
fn check(cx: &Context, row: &Row, variant: Variant, run: &RowOutcome, found: &mut Vec<Failure>) {
    let name = variant.name();
    if run.exit != row.exit {
        let why = format!("{name}: exit code {}, not {}", run.exit, row.exit);
        found.push(Failure::new(why).with(run.text()));
    }
    for (role, libraries) in &run.libraries {
        if let Err(failure) = right_library(cx, variant, libraries) {
            found.push(Failure::new(format!("{name}: {role} {failure}")));
        }
    }
    if run.exit == row.exit {
        let wrong = output_checks::of_row(row, &run.printed());
        let failure = |why: String| Failure::new(format!("{name}: {why}")).with(run.text());
        found.extend(wrong.into_iter().map(failure));
    }
}

/// Under valgrind, the loader reports the same library twice.
fn right_library(cx: &Context, variant: Variant, libraries: &BTreeSet<String>) -> Verdict {
    let ours = cx.library(Library::Ours).to_string_lossy().into_owned();
    let right = |file: &String| match variant {
        Variant::C => file.starts_with("/lib/") || file.starts_with("/usr/lib/"),
        Variant::Path | Variant::Preload => *file == ours,
    };
    let seen: Vec<&str> = libraries.iter().map(String::as_str).collect();
    let seen = if seen.is_empty() {
        "none".into()
    } else {
        seen.join(", ")
    };
    ensure(
        libraries.len() == 1 && libraries.iter().all(right),
        format!("ran on the wrong library: {seen}"),
    )
}

/// Whether a row's command runs a ping-pong program, whose numbers have a mask of their own.
fn is_pingpong(command: &str) -> bool {
    pairs::split(command).is_ok_and(|words| output_checks::is_ibv_pingpong(&words))
}

/// Adds what differs between the C library and ours.
fn differences(
    row: &Row,
    variant: Variant,
    c: &RowOutcome,
    ours: &RowOutcome,
    found: &mut Vec<Failure>,
) {
    let mask = match row.machine.kind.as_deref() {
        Some("watch") => normalise::asyncwatch,
        Some(_) => str::to_string,
        None if row.server.as_deref().is_some_and(is_pingpong) => normalise::pingpong,
        None if row.server.is_some() => masks::mask,
        None => str::to_string,
    };
    if c.exit != ours.exit {
        let why = format!("{}: exit code {}", variant.name(), ours.exit);
        found.push(Failure::new(format!(
            "{why}, the C library's is {}",
            c.exit
        )));
    }
    let names: BTreeSet<&String> = c.streams.keys().chain(ours.streams.keys()).collect();
    for name in names {
        let (Some(theirs), Some(mine)) = (c.streams.get(name), ours.streams.get(name)) else {
            let why = format!("{}: {name} is there on one side only", variant.name());
            found.push(Failure::new(why));
            continue;
        };
        let label = |variant: Variant| format!("{}: {name}", variant.name());
        let same = compare::same(
            (&label(Variant::C), &mask(theirs)),
            (&label(variant), &mask(mine)),
        );
        found.extend(same.err());
    }
}
