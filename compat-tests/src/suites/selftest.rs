//! Checks that the runner notices what it must. It is run on a damaged library, and on cases that end in
//! every way in which a case can end (`fixtures`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::case::{Case, Tier};
use crate::compare;
use crate::context::{Context, Library};
use crate::process::{Ended, Exit, read};
use crate::verdict::{Failure, Finished, Outcome, Verdict, ensure};

/// The time limit of a run of the runner.
const LIMIT: Duration = Duration::from_secs(900);

/// The variable with which the runner has the cases of `fixtures`.
const FIXTURES: &str = "COMPAT_TESTS_FIXTURES";

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("selftest/runner/outcomes", outcomes),
        Case::new("selftest/runner/second-try", second_try),
        Case::new("selftest/runner/no-case", no_case),
        Case::new("selftest/library/symbol-missing", symbol_missing),
        Case::new("selftest/library/not-a-library", not_a_library),
        Case::new("selftest/library/wrong-library", wrong_library),
    ];
    cases = cases
        .into_iter()
        .map(|case| case.tier(Tier::Check))
        .collect();
    if std::env::var_os(FIXTURES).is_some() {
        cases.extend(fixtures());
    }
    cases
}

/// Cases that end in every way. They belong to the self-test alone.
fn fixtures() -> Vec<Case> {
    vec![
        Case::new("fixture/passes", |_| Ok(())),
        Case::new("fixture/fails", |_| Err(Failure::new("so"))),
        Case::new("fixture/is-skipped", |_| Err(Failure::skip("not here"))),
        Case::new("fixture/panics", |_| panic!("a panic")),
        Case::new("fixture/hangs", |_| {
            std::thread::sleep(Duration::from_secs(60));
            Ok(())
        })
        .limit(1),
        Case::new("fixture/passes-later", |cx| {
            ensure(is_second_try(cx), "the first try")
        }),
        Case::new("fixture/listed-passes-later", |cx| {
            ensure(is_second_try(cx), "the first try")
        }),
        Case::new("fixture/listed-fails", |_| Err(Failure::new("so"))),
        Case::new("fixture/passes-later-too", |cx| {
            cx.report_as("fixture/later/1", Ok(()))?;
            let verdict = ensure(is_second_try(cx), "the first try");
            cx.report_as("fixture/later/2", verdict)
        })
        .members(vec!["fixture/later/1".into(), "fixture/later/2".into()]),
        Case::new("fixture/reports", |cx| {
            cx.report("one", Ok(()))?;
            cx.report("two", Err(Failure::new("wrong")))
        }),
        Case::new("fixture/machine", |cx| {
            cx.report_as("fixture/member/1", Ok(()))
        })
        .members(vec!["fixture/member/1".into(), "fixture/member/2".into()]),
        Case::new("fixture/broken-machine", |cx| {
            cx.report_as("fixture/broken/1", Ok(()))?;
            panic!("the machine stops")
        })
        .members(vec!["fixture/broken/1".into(), "fixture/broken/2".into()]),
    ]
}

fn is_second_try(cx: &Context) -> bool {
    cx.dir().to_string_lossy().ends_with("-try-2")
}

/// The outcomes that the fixtures must have when all run. Those that are listed as flaky have a
/// second try.
const EXPECTED: &[(&str, Outcome)] = &[
    ("fixture/broken-machine", Outcome::Failed),
    ("fixture/broken/1", Outcome::Passed),
    ("fixture/broken/2", Outcome::Failed),
    ("fixture/fails", Outcome::Failed),
    ("fixture/hangs", Outcome::Failed),
    ("fixture/is-skipped", Outcome::Skipped),
    ("fixture/later/1", Outcome::Passed),
    ("fixture/later/2", Outcome::Unstable),
    ("fixture/listed-fails", Outcome::Failed),
    ("fixture/listed-passes-later", Outcome::Unstable),
    ("fixture/member/1", Outcome::Passed),
    ("fixture/member/2", Outcome::Failed),
    ("fixture/panics", Outcome::Failed),
    ("fixture/passes", Outcome::Passed),
    ("fixture/passes-later", Outcome::Failed),
    ("fixture/reports/one", Outcome::Passed),
    ("fixture/reports/two", Outcome::Failed),
];

/// A run of the runner in this case's directory.
pub struct Inner {
    pub ended: Ended,
    pub finished: Vec<Finished>,
}

impl Inner {
    fn outcomes(&self) -> BTreeMap<&str, Outcome> {
        let cases = self.finished.iter();
        cases
            .map(|case| (case.name.as_str(), case.outcome))
            .collect()
    }

    /// Exactly these cases were reported so, and the runner ended with this code.
    fn reported(&self, expected: &[(&str, Outcome)], code: i32) -> Verdict {
        let lines = |cases: &mut dyn Iterator<Item = (&str, Outcome)>| -> String {
            cases
                .map(|(name, outcome)| format!("{name} {outcome:?}\n"))
                .collect()
        };
        let expected = lines(&mut expected.iter().copied());
        let got = lines(&mut self.outcomes().into_iter());
        compare::same(("expected", &expected), ("the report", &got))?;
        ensure(
            self.ended.exit == Exit::Code(code),
            format!("the exit code is {}", self.ended.exit),
        )
    }

    fn says(&self, text: &str) -> Verdict {
        let printed = self.ended.out.contains(text);
        ensure(printed, format!("not printed: {text}"))
    }
}

pub fn run(
    cx: &Context,
    library: &Path,
    env: &[(&str, &str)],
    cases: &[&str],
) -> Result<Inner, Failure> {
    let own = std::env::current_exe()?.to_string_lossy().into_owned();
    let target = cx.dir().join("target");
    let words = [own.as_str()].into_iter().chain(cases.iter().copied());
    let mut program = cx
        .program(words)
        .env("OUR_LIBDIR", library)
        .env("CARGO_TARGET_DIR", &target);
    for (name, value) in env {
        program = program.env(*name, value);
    }
    let ended = program.limit(LIMIT).run()?;
    let report = read(&target.join("compat/last/report.json"));
    let finished = serde_json::from_str(&report).unwrap_or_default();
    Ok(Inner { ended, finished })
}

fn outcomes(cx: &Context) -> Verdict {
    let library = cx.library_dir(Library::Ours);
    let inner = run(cx, &library, &[(FIXTURES, "1")], &["fixture"])?;
    inner.reported(EXPECTED, 1)?;
    inner.says("make test T='fixture/fails'")?;
    inner.says("skipped fixture/is-skipped: not here")?;
    inner.says("not finished after 1 s")
}

/// Checks second tries. A case that is listed as flaky gets one: if it passes then, the run has
/// passed. A case that is not listed has failed.
fn second_try(cx: &Context) -> Verdict {
    let library = cx.library_dir(Library::Ours);
    let fixtures = [(FIXTURES, "1")];
    let unstable = [
        ("fixture/later/1", Outcome::Passed),
        ("fixture/later/2", Outcome::Unstable),
        ("fixture/listed-passes-later", Outcome::Unstable),
    ];
    let listed = ["fixture/listed-passes-later", "fixture/later"];
    let inner = run(cx, &library, &fixtures, &listed)?;
    inner.reported(&unstable, 0)?;
    inner.says("passed only at a second try: fixture/later/2: the first try")?;
    inner.says("It fails at its first try.")?;
    inner.says("2 passed only at a second try")?;
    let failed = [
        ("fixture/listed-fails", Outcome::Failed),
        ("fixture/listed-passes-later", Outcome::Unstable),
        ("fixture/passes-later", Outcome::Failed),
    ];
    let inner = run(cx, &library, &fixtures, &failed.map(|(name, _)| name))?;
    inner.reported(&failed, 1)
}

/// A pattern that selects nothing is an error, not an empty run that passes.
fn no_case(cx: &Context) -> Verdict {
    let inner = run(cx, &cx.library_dir(Library::Ours), &[], &["nosuch"])?;
    ensure(
        inner.ended.exit == Exit::Code(2),
        format!("the exit code is {}", inner.ended.exit),
    )
}

/// Runs these cases on a library, of which all must fail.
fn must_fail(cx: &Context, library: &[u8], cases: &[&str]) -> Verdict {
    let dir = cx.dir().join("spoiled");
    fs::create_dir_all(&dir)?;
    fs::write(dir.join("libibverbs.so.1"), library)?;
    let inner = run(cx, &dir, &[], cases)?;
    ensure(
        inner.ended.exit == Exit::Code(1),
        format!("the exit code is {}", inner.ended.exit),
    )?;
    let outcomes = inner.outcomes();
    for case in cases {
        let outcome = outcomes.get(*case);
        ensure(
            outcome == Some(&Outcome::Failed),
            format!("{case}: {outcome:?}"),
        )?;
    }
    Ok(())
}

fn symbol_missing(cx: &Context) -> Verdict {
    let mut library = fs::read(cx.library(Library::Ours))?;
    let name = b"\0ibv_open_device\0";
    let at = library
        .windows(name.len())
        .position(|window| window == name);
    library[at.ok_or("no symbol ibv_open_device")? + 1] = b'x';
    must_fail(cx, &library, &["symbols/exports", "symbols/lookup"])
}

fn not_a_library(cx: &Context) -> Verdict {
    must_fail(
        cx,
        b"not a library\n",
        &["symbols/exports", "symbols/soname", "symbols/lookup"],
    )
}

/// The C library in place of ours exports other symbols.
fn wrong_library(cx: &Context) -> Verdict {
    must_fail(cx, &fs::read(cx.library(Library::C))?, &["symbols/exports"])
}
