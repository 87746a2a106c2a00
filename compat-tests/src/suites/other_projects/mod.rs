//! Other projects' tests and programs on Soft-RoCE, in the virtual machine: pyverbs, and the rows of the
//! testbed `suites` (librdmacm's programs, perftest, qperf). Each must have the same outcome and output on
//! both libraries, and must print what `output_checks` requires.

use std::collections::BTreeSet;

use crate::case_file::Row;
use crate::compare;
use crate::context::{Context, Library};
use crate::flaky::Tries;
use crate::machine::{Judged, Member};
use crate::output_checks;
use crate::pairs;
use crate::row_outcome::RowOutcome;
use crate::rows;
use crate::verdict::{Failure, Verdict};

pub mod pyverbs;

pub mod masks;
pub mod row;

/// The programs.
pub fn members() -> Result<Vec<Member>, String> {
    rows_of("suites", rows::of_testbed("suites")?)
}

/// The rows of this testbed. If the host has built programs for the machine, these run.
pub fn rows_of(testbed: &str, rows: Vec<(String, Row)>) -> Result<Vec<Member>, String> {
    let member = |(number, (group, row)): (usize, (String, Row))| {
        row.has_none_of(&["times", "clients", "mtu", "checker"])?;
        let name = format!("{group}/{}", row.name);
        let full = format!("{testbed}/{name}");
        let judge = move |cx: &Context| judge(cx, &name, &row, number as u16);
        Ok(Member::new(full, judge).limit(1800))
    };
    rows.into_iter().enumerate().map(member).collect()
}

fn judge(cx: &Context, name: &str, row: &Row, number: u16) -> Judged {
    let mut tries = Tries::new(name);
    let verdict = compare_libraries(cx, name, row, number, &mut tries);
    Judged {
        verdict,
        again: tries.again.join("; "),
    }
}

fn compare_libraries(
    cx: &Context,
    name: &str,
    row: &Row,
    number: u16,
    tries: &mut Tries,
) -> Verdict {
    let mut runs = Vec::new();
    let mut found = Vec::new();
    for library in Library::BOTH {
        let run = tries.run(
            (library == Library::Ours).then_some(library.name()),
            |_| calibrated(cx, row, library, number),
            |run| (run.exit != row.exit).then(|| format!("ended with {}", run.exit)),
        )?;
        if run.exit != row.exit {
            let why = format!(
                "{}: ended with {}, not {}",
                library.name(),
                run.exit,
                row.exit
            );
            found.push(Failure::new(why).with(run.text()));
        }
        found.extend(wrong_libraries(cx, library, &run));
        if run.exit == row.exit {
            let wrong = output_checks::of_row(row, &run.printed());
            let failure = |why| Failure::new(format!("{}: {why}", library.name())).with(run.text());
            found.extend(wrong.into_iter().map(failure));
        }
        runs.push(run);
    }
    let [c, ours] = runs.as_slice() else {
        return Err("there are two libraries".into());
    };
    let (theirs, mine) = (masks::streams(name, c), masks::streams(name, ours));
    for (stream, text) in &theirs {
        let other = mine.get(stream).map_or("", String::as_str);
        let (c, ours) = (format!("c: {stream}"), format!("ours: {stream}"));
        found.extend(compare::same((&c, text), (&ours, other)).err());
    }
    let mut found = found.into_iter();
    let Some(first) = found.next() else {
        return Ok(());
    };
    Err(found.fold(first, |all, next| all.with(&next.why).with(next.details)))
}

/// Runs the row; again, as other testbeds do, while perftest's figures are wrong for want of a calibration.
fn calibrated(
    cx: &Context,
    row: &Row,
    library: Library,
    number: u16,
) -> Result<RowOutcome, Failure> {
    let mut run = row::run(cx, row, library, number)?;
    for _ in 1..pairs::MAX_RUNS {
        if !run.is_uncalibrated(row) {
            break;
        }
        run = row::run(cx, row, library, number)?;
    }
    Ok(run)
}

/// The programs that did not load exactly the expected library.
fn wrong_libraries(cx: &Context, library: Library, run: &RowOutcome) -> Vec<Failure> {
    let ours = cx.library(Library::Ours).to_string_lossy().into_owned();
    let right = |files: &BTreeSet<String>| {
        files.len() == 1
            && files.iter().all(|file| match library {
                Library::C => !file.starts_with("/run/"),
                Library::Ours => *file == ours,
            })
    };
    let wrong = run.libraries.iter().filter(|(_, files)| !right(files));
    wrong
        .map(|(role, files)| {
            let name = library.name();
            Failure::new(format!(
                "{name}: {role} ran on the wrong library: {files:?}"
            ))
        })
        .collect()
}
