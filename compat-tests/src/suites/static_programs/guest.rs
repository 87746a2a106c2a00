//! Static programs over Soft-RoCE in the virtual machine: with our archive they print the same as with the C
//! library's. Without providers, a program has uroce's devices.

use std::collections::BTreeMap;
use std::fs;

use super::link::{half, linked, newer, pie, rdmacm};
use super::{Compile, text, theirs};
use crate::case::Case;
use crate::compare;
use crate::context::Context;
use crate::machine::boot::Boot;
use crate::process::read;
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// Programs with our archive, and the one with the C library's that must print the same.
const PAIRS: &[(&str, &str)] = &[
    ("none", "c-none"),
    ("rxe", "c-rxe"),
    ("all", "c-all"),
    ("pie", "c-rxe"),
    ("half", "c-rxe"),
    ("cm", "c-cm"),
    ("newer", "c-all"),
];
const LIMIT: u64 = 900;

pub fn case() -> Case {
    let mut members: Vec<String> = PAIRS
        .iter()
        .map(|(ours, c)| format!("static/vm/{ours}-as-{c}"))
        .collect();
    members.extend(["machine", "no-device", "messages"].map(|name| format!("static/vm/{name}")));
    if std::env::var("UROCE").map_or(true, |value| value != "0") {
        members.push("static/vm/uroce".into());
    }
    Case::new("static/vm", run)
        .sandbox(Sandbox::Vm)
        .limit(LIMIT + 1000)
        .estimate(120)
        .members(members)
}

fn run(cx: &Context) -> Verdict {
    let programs = cx.dir().join("programs");
    fs::create_dir_all(&programs)?;
    build(cx)?;
    boot(cx)?;
    let said = said(&read(&cx.dir().join("guest.out")));
    let of = |name: &str| said.get(name).map(String::as_str).unwrap_or_default();
    cx.report(
        "machine",
        ensure(said.len() == 11, format!("{} programs", said.len())),
    )?;
    for (ours, c) in PAIRS {
        let same = ensure(!of(c).is_empty(), "no output with the C library's archive")
            .and_then(|()| compare::same(("C library", of(c)), ("ours", of(ours))));
        cx.report(&format!("{ours}-as-{c}"), same)?;
    }
    let none = compare::same(
        ("expected", "0 devices\nexit code 0\n"),
        ("got", of("none")),
    );
    cx.report("no-device", none)?;
    let successes = of("rxe")
        .lines()
        .filter(|line| line.contains("completion: ") && line.contains(" success"))
        .count();
    let messages = ensure(successes == 5, format!("{successes} completions"));
    cx.report("messages", messages.with(of("rxe")))?;
    if cx.selects("static/vm/uroce") {
        cx.report("uroce", on_uroce(cx, of("rxe")))?;
    }
    Ok(())
}

/// Compiles all programs into the directory that the machine shares.
fn build(cx: &Context) -> Verdict {
    let into = |name: &str| format!("programs/{name}");
    for (name, providers) in [("none", None), ("rxe", Some("rxe")), ("all", Some("all"))] {
        let define = providers.map(|list| format!("-DPROVIDERS={list}"));
        let mut flags = vec!["-static"];
        flags.extend(define.as_deref());
        linked(cx, &into(name), &flags)?;
        Compile::new(
            cx,
            &into(&format!("c-{name}")),
            "loopback.c",
            theirs()?,
            &flags,
        )
        .run(cx)?;
    }
    rdmacm(cx, &into("cm"), super::ours(cx)?)?;
    rdmacm(cx, &into("c-cm"), theirs()?)?;
    for program in [pie(cx)?, half(cx)?, newer(cx)?] {
        let name = program.file_name().ok_or("a program without a name")?;
        fs::rename(&program, cx.dir().join("programs").join(name))?;
    }
    Ok(())
}

/// Runs static/guest on the programs, in the machine, which shares the case's directory.
fn boot(cx: &Context) -> Verdict {
    let guest = text(cx.source("static/guest"));
    let script = format!("exec '{guest}' \"$OUT/programs\" >\"$OUT/guest.out\" 2>&1\n");
    Boot::limit(LIMIT).succeeds(cx, &script)
}

/// Splits the output into what each program printed: static/guest writes its name in front of each
/// line.
fn said(output: &str) -> BTreeMap<String, String> {
    let mut said: BTreeMap<String, String> = BTreeMap::new();
    for line in output.lines() {
        if let Some((name, text)) = line.split_once(": ") {
            *said.entry(name.into()).or_default() += &format!("{text}\n");
        }
    }
    said
}

/// A program without providers has the same messages on uroce, on this machine; the first three lines are
/// about the device.
fn on_uroce(cx: &Context, on_rxe: &str) -> Verdict {
    let program = cx.program([text(cx.dir().join("programs/none"))]);
    let ended = program.merged().env("IBV_UROCE", "1").run()?;
    let without_device = |text: &str| -> Result<String, Failure> {
        let lines: Vec<&str> = text.lines().skip(3).collect();
        ensure(!lines.is_empty(), "no messages")?;
        Ok(lines.join("\n"))
    };
    let (expected, got) = (
        without_device(on_rxe)?,
        without_device(&ended.transcript())?,
    );
    compare::same(("on rxe", &expected), ("on uroce", &got))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_belong_to_the_program_in_front() {
        let said = said("a: 0 devices\nb: x: y\na: exit code 0\n");
        assert_eq!(said["a"], "0 devices\nexit code 0\n");
        assert_eq!(said["b"], "x: y\n");
    }
}
