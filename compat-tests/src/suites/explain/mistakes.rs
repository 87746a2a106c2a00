//! Mistakes as people make them (c/mistakes, c/cm-mistakes): each is named by the right rule with the right
//! values, and the same program without the mistake is not commented on.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::case::{Case, Tier};
use crate::compare;
use crate::context::Context;
use crate::process::{Exit, Program, read};
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Failure, Verdict, contains, ensure};

use super::{Expected, explained, file};

static MISTAKES: LazyLock<Vec<Expected>> =
    LazyLock::new(|| Expected::of_table("c/mistakes", "struct mistake"));

/// The same with librdmacm.
static WITH_CM: LazyLock<Vec<Expected>> =
    LazyLock::new(|| Expected::of_table("c/cm-mistakes", "struct mistake"));

/// The rules that these cases provoke.
pub fn rules() -> impl Iterator<Item = &'static str> {
    let all = MISTAKES.iter().chain(WITH_CM.iter());
    all.map(|row| row.rules.as_str())
}

pub fn cases() -> Vec<Case> {
    let place = |case: Case| case.sandbox(Sandbox::Namespace).tier(Tier::Check);
    let mut cases = Vec::new();
    for (program, rows) in [("mistakes", &MISTAKES), ("cm-mistakes", &WITH_CM)] {
        for row in rows.iter() {
            let name = format!("explain/{program}/{}", row.name);
            let run = move |cx: &Context| is_named(cx, program, row);
            cases.push(place(Case::new(name, run)).programs(&[program]));
        }
        let listed = move |cx: &Context| all_are_cases(cx, program, rows);
        cases.push(place(Case::new(format!("explain/{program}-all"), listed)).programs(&[program]));
    }
    for (name, run) in [
        (
            "slots-completed",
            slots_completed as fn(&Context) -> Verdict,
        ),
        ("backtrace", backtrace),
    ] {
        let case = Case::new(format!("explain/{name}"), run);
        cases.push(place(case).programs(&["mistakes"]));
    }
    cases
}

/// The rule of a device that frees slots by itself.
pub const SLOTS_COMPLETED: &str = "send-queue-rnic";

/// A device that frees slots by itself takes more requests than an RNIC: that is named.
fn slots_completed(cx: &Context) -> Verdict {
    let output = format!("json:{}", file(cx).display());
    program(cx, "mistakes", &["unsignaled-many", "wrong"])?
        .env("IBV_UROCE", "uroce0=lo,slots=completed")
        .env("IBV_EXPLAIN", output)
        .succeed()?;
    let found = explained(cx)?;
    ensure(
        found.rules.contains(SLOTS_COMPLETED),
        format!("explained: {:?}", found.rules),
    )
}

/// Lines say where the call came from, and where the object was created.
fn backtrace(cx: &Context) -> Verdict {
    let output = format!("backtrace,json:{}", file(cx).display());
    program(cx, "mistakes", &["inline-too-big", "wrong"])?
        .env("IBV_EXPLAIN", output)
        .succeed()?;
    let lines = read(&file(cx));
    let line = lines.lines().find(|line| line.contains("\"inline-limit\""));
    let json: serde_json::Value = serde_json::from_str(line.ok_or("no inline-limit")?)
        .map_err(|error| Failure::new(error.to_string()))?;
    for (member, function) in [("from", "inline_too_big"), ("created", "link_qp")] {
        let text = json[member].as_str().unwrap_or_default();
        ensure(text.contains(function), format!("{member}: {text:?}"))?;
    }
    Ok(())
}

fn program(cx: &Context, program: &str, words: &[&str]) -> Result<Program, Failure> {
    let mut command = vec![cx.built(program)?];
    command.extend(words.iter().map(ToString::to_string));
    Ok(cx.on_uroce(command).env("IBV_EXPLAIN_WAIT", "1"))
}

fn run(cx: &Context, name: &str, row: &Expected, how: &str) -> Verdict {
    let output = format!("json:{}", file(cx).display());
    let ended = program(cx, name, &[&row.name, how])?
        .env("IBV_EXPLAIN", output)
        .run()?;
    ensure(
        ended.exit == Exit::Code(0),
        format!("{how}: it ended with {}", ended.exit),
    )
    .with(ended.transcript())
    .with(read(&file(cx)))
}

/// The program without the mistake is run first: there must be no output.
fn is_named(cx: &Context, name: &str, row: &Expected) -> Verdict {
    run(cx, name, row, "right")?;
    compare::same(("expected", ""), ("explained", &read(&file(cx))))?;
    run(cx, name, row, "wrong")?;
    let found = explained(cx)?;
    let all = found.texts.join("\n");
    ensure(
        found.rules.contains(&row.rules),
        format!("explained: {:?}", found.rules),
    )
    .with(&all)?;
    contains(&all, &[&row.says])
}

/// The program has no mistake that is not a case here.
fn all_are_cases(cx: &Context, name: &str, rows: &[Expected]) -> Verdict {
    let listed = program(cx, name, &["list"])?.run()?;
    let sorted = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join("\n");
    let here = rows.iter().map(|row| row.name.as_str()).collect();
    let there = listed.out.lines().collect();
    compare::same(("cases", &sorted(here)), ("the program", &sorted(there)))
}
