//! IBV_EXPLAIN on a device of the kernel, rxe0 in the virtual machine: the scenes of c/explain have the
//! findings that they have on uroce, and programs that use verbs rightly have none. Findings about
//! programs are true (`silent::TRUE`, and `TRUE`).

use std::collections::BTreeSet;

use super::{Expected, SCENES, check_scene, explained, file, scene, silent};
use crate::case::Tier;
use crate::case_file::Row;
use crate::compare;
use crate::context::{Context, Library};
use crate::flaky;
use crate::machine::Member;
use crate::pattern;
use crate::process::{Program, read};
use crate::rows;
use crate::suites::other_projects::row;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// The parts of first explanations that differ between rxe and uroce. rxe's queues are larger than
/// requested.
const PARTS: [(&str, &str); 2] = [
    ("gid-unreachable", "198.51.100.9 cannot be reached from rd0"),
    ("recv-queue-full", "31 have no polled completion"),
];

/// Rules that depend on what the device reports besides the error: events, and the peer's completions.
const OTHERWISE: &[&str] = &["async-error", "request-failed", "unread-error"];

/// Rules that a scene does not provoke on rxe. It flushes a request whose key it refuses, and destroying the
/// queue pair removes that completion.
const NOT_SAID: (&str, &str) = ("mr-in-use", "key-deregistered");

/// Scenes that do not run on rxe.
// rustfmt would put comments behind the rows before.
#[rustfmt::skip]
const NOT_ON_RXE: &[&str] = &[
    // How a READ with max_rd_atomic 0 fails depends on the device.
    "rd-atomic-zero",
    // Its provider imports no objects.
    "call-failed",
    // Which status the peer's wrong key causes here depends on the device.
    "request-failed",
    // rxe's provider refuses the request when it is posted.
    "atomic-unaligned",
    // It flushes the request; whether its region was deregistered earlier or later is not known.
    "key-deregistered",
    // Its provider locks the CQ nevertheless, and hangs.
    "thread-domain",
    // On rxe, a request that is posted in SQD does not complete within 2 s after the move to RTS.
    "send-queue-full", "never-signaled",
];

/// Scenes that run in `make test`, too: one or two of each class that depends on the device.
const QUICK: &[&str] = &[
    "gid-empty", "gid-family", "gid-unreachable", "retry-exceeded", "rnr-exceeded", "reg-unmapped",
    "reg-read-only", "key-range", "rkey-range", "recv-queue-full", "inline-limit", "qp-transition",
    "post-state", "busy",
];

/// Findings that are true on rxe: the rows as a pattern, the rules, and why.
const TRUE: [(&str, &[&str], &str); 5] = [
    (
        "qperf/uc_*",
        &["gid-no-grh"],
        "it addresses its peer by LID, and fails",
    ),
    ("qperf/ud_*", &["gid-no-grh"], "the same"),
    (
        "qperf/*",
        &["argument", "busy", "crash"],
        "its server frees its domain before a region, and calls rdma_destroy_qp for an id without one",
    ),
    (
        "rdmacm/mckey-6",
        &["cm-failed"],
        "it cannot join the group, and leaves it nevertheless",
    ),
    (
        "rdmacm/rdma_xclient-x",
        &["argument"],
        "rxe has no XRC, and it fails",
    ),
];

/// The groups of rows that run here.
const GROUPS: &[&str] = &["pingpong", "perftest", "qperf", "rdmacm"];

/// The first port is not one of the testbed `suites`.
const FIRST: u16 = 1000;

/// The scenes that run on rxe, and the rows of programs. Most are for `make test-all`.
pub fn members() -> Result<Vec<Member>, String> {
    let on_rxe = SCENES
        .iter()
        .filter(|scene| !NOT_ON_RXE.contains(&scene.name.as_str()));
    let scenes = on_rxe.map(|scene| {
        let is_quick = QUICK.contains(&scene.name.as_str());
        let name = format!("scene/{}", scene.name);
        let member = member(&name, move |cx| explains(cx, scene)).programs(&["explain"]);
        member.tier(if is_quick { Tier::Test } else { Tier::All })
    });
    let mut all: Vec<Member> = scenes.collect();
    all.push(member("correct", correct).programs(&["explain"]));
    for (number, (group, row)) in (FIRST..).zip(rows()?) {
        let name = format!("silent/{group}/{}", row.name);
        let member = member(&name, move |cx| is_silent(cx, &group, &row, number));
        all.push(member.limit(900).tier(Tier::All));
    }
    Ok(all)
}

fn member(name: &str, run: impl Fn(&Context) -> Verdict + Send + Sync + 'static) -> Member {
    Member::new(format!("explain/rxe/{name}"), run)
}

/// The rows that are a server and a client, in a machine as it boots.
fn rows() -> Result<Vec<(String, Row)>, String> {
    let mut rows = rows::of_testbed("vm")?;
    rows.extend(rows::of_testbed("suites")?);
    rows.retain(|(group, row)| {
        let machine = &row.machine;
        let is_altered =
            machine.memlock.is_some() || machine.mode.is_some() || machine.node.is_some();
        GROUPS.contains(&&group[..]) && row.server.is_some() && !is_altered
    });
    Ok(rows)
}

fn on_rxe(cx: &Context, name: &str, explain: &str) -> Result<Program, Failure> {
    Ok(scene(cx, name, explain)?
        .env("IBV_UROCE", "")
        .env("DEVICE", "rxe0"))
}

fn explains(cx: &Context, expected: &Expected) -> Verdict {
    let name = expected.name.as_str();
    let output = format!("json:{}", file(cx).display());
    on_rxe(cx, name, &output)?.succeed()?;
    let other = PARTS.iter().find(|(scene, _)| *scene == name);
    let says = other.map_or(expected.says.as_str(), |(_, part)| part);
    let mut rules = expected.rules();
    rules.retain(|rule| (name, *rule) != NOT_SAID);
    check_scene(cx, name, &rules, says, OTHERWISE)
}

fn correct(cx: &Context) -> Verdict {
    let output = format!("file:{}", file(cx).display());
    on_rxe(cx, "correct", &output)?.succeed()?;
    compare::same(("expected", ""), ("explained", &read(&file(cx))))
}

/// The row ends as it must, and nothing is said but what is true.
fn is_silent(cx: &Context, group: &str, row: &Row, number: u16) -> Verdict {
    let name = format!("{group}/{}", row.name);
    let mut row = row.clone();
    let output = format!("json:{}", file(cx).display());
    row.env.insert("IBV_EXPLAIN".into(), output);
    let mut ended = row::run(cx, &row, Library::Ours, number)?;
    for _ in 1..flaky::tries(&name) {
        if ended.exit == row.exit {
            break;
        }
        ended = row::run(cx, &row, Library::Ours, number)?;
    }
    let why = format!("ended with {}, not {}", ended.exit, row.exit);
    ensure(ended.exit == row.exit, why).with(ended.text())?;
    // The file is there from the first explanation on.
    if !file(cx).exists() {
        return Ok(());
    }
    let found = explained(cx)?;
    let expected = silent::TRUE.iter().chain(&TRUE);
    let expected = expected.filter(|(rows, ..)| pattern::matches(rows, &name));
    let expected: BTreeSet<&str> = expected.flat_map(|of| of.1.iter().copied()).collect();
    let mut other = found.rules.iter();
    let other = other.find(|rule| !expected.contains(&rule[..]));
    ensure(other.is_none(), format!("explained: {other:?}")).with(found.texts.join("\n"))
}
