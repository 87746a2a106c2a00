//! The verbs on uroce, within one process (uroce/verbs): which calls fail with which errno, what each
//! operation does, events, states, fork. `verbs-udp` is the same without shared memory,
//! `verbs-packets` without access to the memory of peers.

use crate::case::{Case, Place, Tier};
use crate::compare;
use crate::context::{Context, Library, succeeded};
use crate::place::as_ordinary_user;
use crate::process::Program;
use crate::verdict::{Verdict, ensure};

/// The checks of uroce/verbs/main.c, in its order.
const CHECKS: [&str; 17] = [
    "objects", "memory", "states", "posting", "building", "queues", "process", "windows", "kernel",
    "gids", "cancel", "errors", "lifetime", "order", "lost", "odp", "dm",
];

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = CHECKS
        .iter()
        .map(|check| case(check, move |cx| passes(cx, check, "uroce0=lo", "1")))
        .collect();
    for (suite, local) in [("verbs-udp", "0"), ("verbs-packets", "packets")] {
        cases.extend(CHECKS.map(|check| {
            let run = move |cx: &Context| passes(cx, check, "uroce0=lo", local);
            Case::new(format!("uroce/{suite}/{check}"), run)
                .place(Place::Namespace)
                .programs(&["verbs"])
        }));
    }
    cases.push(case("gids-of-an-address", |cx| {
        passes(cx, "gids", "uroce0=127.77.28.1", "1")
    }));
    cases.push(case("all-checks", all_checks));
    cases.push(case("unload", unload).programs(&["unload"]));
    cases
}

fn case(name: &str, run: impl Fn(&Context) -> Verdict + Send + Sync + 'static) -> Case {
    Case::new(format!("uroce/verbs/{name}"), run)
        .place(Place::Namespace)
        .tier(Tier::Check)
        .programs(&["verbs"])
}

fn on_uroce(cx: &Context, argv: Vec<String>, config: &str) -> Program {
    cx.program(argv)
        .under(as_ordinary_user())
        .library(&cx.library_dir(Library::Ours))
        .env("IBV_UROCE", config)
        .env("DEVICE", "uroce0")
}

/// The program prints the conditions that do not hold, and then the name with `ok` or `FAILED`. `local` is
/// the value of IBV_UROCE_LOCAL.
fn passes(cx: &Context, check: &str, config: &str, local: &str) -> Verdict {
    let argv = vec![cx.built("verbs")?, check.to_string()];
    let program = on_uroce(cx, argv, config).env("IBV_UROCE_LOCAL", local);
    let ended = program.run()?;
    succeeded(check, &ended)?;
    let ran = ended.out.lines().any(|line| line == format!("{check}: ok"));
    ensure(ran, format!("the program has no check {check}"))
}

/// The program has no check that is not a case here.
fn all_checks(cx: &Context) -> Verdict {
    let listed = on_uroce(cx, vec![cx.built("verbs")?, "list".into()], "uroce0=lo").run()?;
    succeeded("verbs list", &listed)?;
    let cases: String = CHECKS.iter().map(|check| format!("{check}\n")).collect();
    compare::same(("cases", &cases), ("the program", &listed.out))
}

/// dlclose of the library, while its background thread runs.
fn unload(cx: &Context) -> Verdict {
    let library = cx.library(Library::Ours).to_string_lossy().into_owned();
    let ended = on_uroce(cx, vec![cx.built("unload")?, library], "uroce0=lo").run()?;
    succeeded("unload", &ended)?;
    ensure(
        ended.out == "unload: ok\n",
        format!("it printed {}", ended.out),
    )
}
