//! The verbs on uroce, within one process (uroce/verbs): which calls fail with which errno, what each
//! operation does, events, states, fork. `verbs-udp` is the same without shared memory,
//! `verbs-packets` without access to the memory of peers.

use crate::c_table;
use crate::case::{Case, Tier};
use crate::compare;
use crate::context::{Context, Library};
use crate::machine::Member;
use crate::sandbox::Sandbox;
use crate::verdict::{Verdict, ensure};

/// The checks of a program of ours, by its directory: each is a case.
fn checks(program: &str) -> impl Iterator<Item = String> {
    let rows = c_table::entries(&format!("uroce/{program}"), "struct check").into_iter();
    rows.filter_map(|row| row.into_iter().next())
}

/// The programs: `newer` has the verbs that the distribution's library lacks.
const PROGRAMS: [&str; 2] = ["verbs", "newer"];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for program in PROGRAMS {
        for check in checks(program) {
            for (suite, local) in [
                ("verbs", "1"),
                ("verbs-udp", "0"),
                ("verbs-packets", "packets"),
            ] {
                let own = check.clone();
                let run = move |cx: &Context| passes(cx, (program, &own), "uroce0=lo", local);
                let case = Case::new(format!("uroce/{suite}/{check}"), run);
                let tier = if local == "1" {
                    Tier::Check
                } else {
                    Tier::Test
                };
                let case = case.sandbox(Sandbox::Namespace).tier(tier);
                cases.push(case.programs(&[program]));
            }
        }
    }
    cases.push(
        case("gids-of-an-address", |cx| {
            passes(cx, ("verbs", "gids"), "uroce0=127.77.28.1", "1")
        })
        .programs(&["verbs"]),
    );
    cases.push(case("all-checks", all_checks).programs(&["verbs", "newer"]));
    cases.push(case("unload", unload).programs(&["unload"]));
    cases
}

/// The member that needs a kernel with /dev/udmabuf, which makes a dma-buf of a memfd.
pub fn members() -> Vec<Member> {
    let with_udmabuf = |cx: &Context| {
        let argv = vec![cx.built("verbs")?, "dmabuf".into()];
        let program = cx.program(argv).library(&cx.library_dir(Library::Ours));
        let on_uroce = program
            .env("IBV_UROCE", "uroce0=lo")
            .env("DEVICE", "uroce0");
        on_uroce.env("UDMABUF", "1").succeed().map(drop)
    };
    vec![Member::new("uroce/verbs-vm/dmabuf", with_udmabuf).programs(&["verbs"])]
}

fn case(name: &str, run: impl Fn(&Context) -> Verdict + Send + Sync + 'static) -> Case {
    Case::new(format!("uroce/verbs/{name}"), run)
        .sandbox(Sandbox::Namespace)
        .tier(Tier::Check)
}

/// The program prints the conditions that do not hold, and then the name with `ok` or `FAILED`. `local` is
/// the value of IBV_UROCE_LOCAL.
fn passes(cx: &Context, (program, check): (&str, &str), config: &str, local: &str) -> Verdict {
    let argv = vec![cx.built(program)?, check.to_string()];
    let program = cx
        .on_uroce(argv)
        .env("IBV_UROCE", config)
        .env("IBV_UROCE_LOCAL", local);
    let ended = program.succeed()?;
    let ran = ended.out.lines().any(|line| line == format!("{check}: ok"));
    ensure(ran, format!("the program has no check {check}"))
}

/// The program has no check that is not a case here.
fn all_checks(cx: &Context) -> Verdict {
    for name in PROGRAMS {
        let argv = vec![cx.built(name)?, "list".into()];
        let listed = cx.on_uroce(argv).succeed()?;
        let cases: String = checks(name).map(|check| format!("{check}\n")).collect();
        compare::same(("cases", &cases), (name, &listed.out))?;
    }
    Ok(())
}

/// dlclose of the library, while its background thread runs.
fn unload(cx: &Context) -> Verdict {
    let library = cx.library(Library::Ours).to_string_lossy().into_owned();
    let ended = cx.on_uroce([cx.built("unload")?, library]).succeed()?;
    ensure(
        ended.out == "unload: ok\n",
        format!("it printed {}", ended.out),
    )
}
