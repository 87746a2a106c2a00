//! Checks that the cases in the virtual machine notice what they must: the C library in place of ours,
//! unchanged and with a kernel panic in the middle, and altered.

use std::fs;

use super::selftest;
use crate::case::Case;
use crate::context::{Context, Library};
use crate::process::{Exit, read};
use crate::runner::ONE_TRY;
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Failure, Outcome, Verdict, ensure};

/// The variable that names the member in which the kernel panics.
const PANIC_IN: &str = "COMPAT_TESTS_PANIC_IN";

pub fn cases() -> Vec<Case> {
    let fails = |name: &str, change: (&'static [u8], &'static [u8]), case, reason| {
        let run = move |cx: &Context| must_fail(cx, change, case, reason);
        Case::new(format!("selftest/vm/{name}"), run)
    };
    let cases = [
        Case::new("selftest/vm/kernel-panic", kernel_panic),
        fails(
            "another-word",
            (b"This will severely", b"This will hardly !"),
            "vm/tools/memlock-devinfo",
            "c: program.err and path: program.err differ",
        ),
        fails(
            "another-soname",
            (b"libibverbs.so.1\0", b"libibverbs.so.9\0"),
            "vm/tools/devices",
            "preload: program ran on the wrong library",
        ),
        fails(
            "cannot-be-loaded",
            (b"\x7fELF", b"nope"),
            "vm/tools/devices",
            "path: exit code 127, the C library's is 0",
        ),
    ];
    let in_vm = |case: Case| case.sandbox(Sandbox::Vm).limit(1000).estimate(80);
    cases.into_iter().map(in_vm).collect()
}

/// The C library's file, with all occurrences of a text replaced by another of the same length.
fn altered(cx: &Context, from: &[u8], to: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut bytes = fs::read(cx.library(Library::C))?;
    let at: Vec<usize> = (0..bytes.len() - from.len())
        .filter(|at| bytes[*at..].starts_with(from))
        .collect();
    ensure(
        !at.is_empty(),
        "the C library does not have the text to alter",
    )?;
    for at in at {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    Ok(bytes)
}

/// Runs cases with this library in place of ours.
fn run(
    cx: &Context,
    library: &[u8],
    env: &[(&str, &str)],
    cases: &[&str],
) -> Result<selftest::Inner, Failure> {
    let dir = cx.dir().join("library");
    fs::create_dir_all(&dir)?;
    fs::write(dir.join("libibverbs.so.1"), library)?;
    selftest::run(cx, &dir, env, cases)
}

/// The case must fail for this reason, which is in the report.
fn must_fail(cx: &Context, change: (&[u8], &[u8]), case: &str, reason: &str) -> Verdict {
    let library = altered(cx, change.0, change.1)?;
    let inner = run(cx, &library, &[(ONE_TRY, "1")], &[case])?;
    let exit = inner.ended.exit;
    ensure(exit == Exit::Code(1), format!("the exit code is {exit}"))?;
    let failed = inner.finished.iter().find(|finished| finished.name == case);
    let failed = failed.ok_or("the report does not have the case")?;
    ensure(failed.outcome == Outcome::Failed, "the case has not failed")?;
    let text = format!("{}\n{}", failed.why, failed.details);
    ensure(text.contains(reason), format!("not reported: {reason}")).with(text)
}

/// After a panic, a new machine runs the rest, and the member that was running: that is unstable.
fn kernel_panic(cx: &Context) -> Verdict {
    let library = fs::read(cx.library(Library::C))?;
    let member = "vm/pingpong/rc";
    let cases = ["vm/tools/devices", member];
    let inner = run(cx, &library, &[(PANIC_IN, member)], &cases)?;
    let exit = inner.ended.exit;
    ensure(exit == Exit::Code(0), format!("the exit code is {exit}")).with(&inner.ended.out)?;
    let mut outcomes: Vec<_> = inner
        .finished
        .iter()
        .map(|f| (f.name.as_str(), f.outcome))
        .collect();
    outcomes.sort_unstable_by_key(|(name, _)| *name);
    let expected = [
        (member, Outcome::Unstable),
        ("vm/tools/devices", Outcome::Passed),
    ];
    ensure(outcomes == expected, format!("reported: {outcomes:?}"))?;
    let log = read(&cx.dir().join("target/compat/last/machine/programs/log"));
    let says = format!("the machine stopped in {member}: ");
    let line = log.lines().find(|line| line.starts_with(&says));
    ensure(
        line.is_some_and(|line| line.contains("panic") || line.contains("sysrq")),
        "the log does not name the panic",
    )
    .with(log)
}
