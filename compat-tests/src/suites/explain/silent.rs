//! Programs that use verbs rightly are not commented on: rows of the case files for uroce on the loopback
//! interface, with IBV_EXPLAIN. Where a program causes a finding, it is one that is true (`TRUE`).

use std::collections::BTreeSet;

use super::{explained, file};
use crate::case::{Case, Tier};
use crate::case_file::Row;
use crate::context::Context;
use crate::pairs;
use crate::pattern;
use crate::rows;
use crate::sandbox::Sandbox;
use crate::testbed::Testbed;
use crate::verdict::{Details, Verdict, ensure};

/// The groups of rows, by the beginnings of their names.
const GROUPS: &[&str] = &["pingpong", "perftest", "qperf", "rdmacm", "ucx"];
/// Rows that run in `make test`; the others take long together.
const QUICK: &[&str] = &[
    "perftest/send_lat-UD", "perftest/atomic_bw-fetch", "perftest/read_lat-RC", "qperf/rc_lat",
    "pingpong/rc-1M-e", "ucx-rc/tag_lat-8", "rdmacm/rping", "rdmacm/rstream",
];

/// Findings that are true: the rows as a pattern, the rules, and why.
pub const TRUE: &[(&str, &[&str], &str)] = &[
    (
        "pingpong/rc-nogid",
        &["gid-no-grh"],
        "without -g it has no GRH, and fails",
    ),
    (
        "pingpong/rc-gid99*",
        &["gid-no-grh", "attr-range"],
        "the index is empty or beyond the table, so it sends a zero GID, or fails",
    ),
    (
        "perftest/send_bw-*",
        &["leak"],
        "its client creates two CQs and destroys one",
    ),
    (
        "perftest/send_bw-UD-g",
        &["busy", "call-failed"],
        "it fails, and does not detach its queue pair from the group before it destroys it, nor destroy it \
         before its CQs",
    ),
    (
        "perftest/*-R",
        &["cm-qp"],
        "both ends destroy the queue pair of an id with ibv_destroy_qp, before the id",
    ),
    ("perftest/*-R-*", &["cm-qp"], "the same"),
    (
        "perftest/send_bw-DC",
        &["argument"],
        "no type of queue pair is DC, which only a provider's own functions create",
    ),
    (
        "qperf*/*",
        &["busy", "leak"],
        "it deallocates its PD before it deregisters its MR",
    ),
    (
        "qperf-cm/*",
        &["argument", "crash"],
        "its server destroys the queue pair of an id that has none, and ends with SIGSEGV in ibv_destroy_qp",
    ),
    (
        "rdmacm/rping*",
        &["cm-qp"],
        "its server destroys an id before the queue pair, and both ends use ibv_destroy_qp for that",
    ),
    (
        "qperf-cm/u*",
        &["gid-no-grh"],
        "it addresses its peer by LID, and fails",
    ),
    (
        "rdmacm/ucmatose*",
        &["cq-never-polled"],
        "its server does not poll the completions of its signaled replies",
    ),
    (
        "rdmacm/udaddy*",
        &["ah-in-use"],
        "its client destroys the address handle after unsignaled sends, before the queue pair",
    ),
    ("rdmacm/mckey*", &["ah-in-use"], "its sender does the same"),
    (
        "rdmacm/udpong",
        &["gid-no-grh"],
        "datagram rsockets address themselves by LID, and fail",
    ),
    ("rdmacm/preload-udpong", &["gid-no-grh"], "the same"),
    (
        "rdmacm/udpong-*",
        &["busy"],
        "closing a datagram rsocket leaves its address handles, and deallocates their domain",
    ),
    (
        "rdmacm/*-nobody*",
        &["cm-event"],
        "nobody listens, so its connection is rejected",
    ),
    (
        "rdmacm/mckey-M",
        &["cm-failed"],
        "it cannot join the group, and fails",
    ),
    (
        "rdmacm/cmtime",
        &["busy"],
        "it uses the CQs of its first queue pair for all, and destroys them with the first",
    ),
];

pub fn cases() -> Result<Vec<Case>, String> {
    let rows = rows::of_testbed("loopback")?.into_iter();
    let meant = rows.filter(|(group, row)| {
        let runs = row.testbeds.get("loopback").and_then(|tier| tier.tier());
        runs.is_some() && GROUPS.iter().any(|of| group.starts_with(of))
    });
    let case = |(group, row): (String, Row)| {
        let name = format!("{group}/{}", row.name);
        let tier = match QUICK.contains(&&name[..]) {
            true => Tier::Test,
            false => Tier::All,
        };
        let limit = pairs::limit(&row).as_secs() + 40;
        let cpu = 100 * u32::from(row.times.max(row.clients));
        let checker = row.checker.clone();
        let checker: Vec<&str> = checker.as_deref().into_iter().collect();
        let run = move |cx: &Context| is_silent(cx, &group, &row);
        Case::new(format!("explain/silent/{name}"), run)
            .sandbox(Sandbox::Namespace)
            .programs(&checker)
            .tier(tier)
            .limit(limit)
            .cpu(cpu)
    };
    Ok(meant.map(case).collect())
}

fn is_silent(cx: &Context, group: &str, row: &Row) -> Verdict {
    let mut row = row.clone();
    let output = format!("json:{}", file(cx).display());
    row.env.insert("IBV_EXPLAIN".into(), output);
    pairs::run_in(cx, &row, Testbed::Loopback)?;
    if !file(cx).exists() {
        return Ok(());
    }
    let name = format!("{group}/{}", row.name);
    let found = explained(cx)?;
    let expected = TRUE
        .iter()
        .filter(|(rows, ..)| pattern::matches(rows, &name));
    let expected: BTreeSet<&str> = expected.flat_map(|of| of.1.iter().copied()).collect();
    let other = found
        .rules
        .iter()
        .filter(|rule| !expected.contains(&rule[..]));
    let other: Vec<&String> = other.collect();
    ensure(other.is_empty(), format!("explained: {other:?}")).with(found.texts.join("\n"))
}
