//! The control socket and uroce-ctl(1): what it shows of a running program, and the faults that it adds. Only
//! processes of the same user reach the socket; it survives fork and dlclose, and is not there unless a
//! variable asks for it.

mod names;
mod victim;

use std::fs;
use std::time::Instant;

use ibverbs_faults::EVENTS;
use serde_json::Value;
use victim::{START, Victim, ctl, fails, json, shown};

use crate::artifacts::CONTROL;
use crate::case::{Case, Tier};
use crate::context::{Context, Library};
use crate::process::{Exit, read, signal, succeeded, wait_until};
use crate::sandbox::{Sandbox, can_change_user};
use crate::verdict::{Details, Failure, Verdict, contains, ensure};

const ENOMEM: i32 = 12;

pub fn cases() -> Vec<Case> {
    type CaseBody = fn(&Context) -> Verdict;
    let bodies: [(&str, CaseBody); 16] = [
        ("rules", rules),
        ("statements", statements),
        ("packets", packets),
        ("qpn", qpn),
        ("several", several),
        ("without-faults", without_faults),
        ("other-user", other_user),
        ("off", off),
        ("fork", fork),
        ("taken", taken),
        ("unload", unload),
        ("stopped", stopped),
        ("usage", usage),
        ("names", names::shown_by_ctl),
        ("names-in-explanations", names::in_explanations),
        ("names-alone", names::alone),
    ];
    bodies
        .map(|(name, body)| {
            Case::new(format!("uroce/control/{name}"), body)
                .sandbox(Sandbox::Namespace)
                .programs(&["control", "control_unload", "names"])
                .tier(Tier::Check)
                .limit(120)
        })
        .into()
}

/// Rules are added to a running program, counted and removed; errors in them have their place.
fn rules(cx: &Context) -> Verdict {
    let victim = Victim::start(cx, "fifo", &[("IBV_FAULTS", "1")])?;
    victim.prints("reg", &["reg: errno 0"])?;
    let added = json(
        cx,
        &[
            "add",
            "fail:call=reg_mr,errno=ENOMEM,count=2",
            "slow-cq:time=1us",
        ],
    )?;
    ensure(
        added["added"] == serde_json::json!([1, 2]),
        format!("{added}"),
    )?;
    let failed = format!("reg: errno {ENOMEM}");
    victim.prints("reg", &[&failed])?;
    victim.prints("reg", &[&failed])?;
    victim.prints("reg", &["reg: errno 0"])?;
    let listed = json(cx, &["rules"])?;
    let first = &listed["rules"][0];
    let expected = (Some(1), Some(3), Some(2));
    let numbers = ["number", "matches", "applied"].map(|name| first[name].as_u64());
    ensure(
        (numbers[0], numbers[1], numbers[2]) == expected,
        format!("{listed}"),
    )?;
    let table = shown(cx, &["rules", "--pid", &victim.pid()])?;
    let lines = [
        "3        2  fail:call=reg_mr,errno=ENOMEM,count=2",
        "slow-cq:time=1us",
    ];
    ensure(
        lines.iter().all(|line| table.contains(line)),
        "the table lacks a rule",
    )
    .with(&table)?;
    fails(
        cx,
        &["add", "drop; drip"],
        "column 7: unknown action 'drip'",
    )?;
    fails(cx, &["clear", "7"], "there is no rule 7")?;
    ensure(
        json(cx, &["clear", "2"])?["cleared"] == 1,
        "rule 2 is not removed",
    )?;
    shown(cx, &["add", "fail:call=reg_mr,errno=ENOMEM"])?;
    victim.prints("reg", &[&failed])?;
    ensure(
        json(cx, &["clear"])?["cleared"] == 2,
        "not both rules are removed",
    )?;
    victim.prints("reg", &["reg: errno 0"])?;
    victim.quits()
}

/// Statements are added to a running program: their times count from then on.
fn statements(cx: &Context) -> Verdict {
    const EIO: i32 = 5;
    let victim = Victim::start(cx, "fifo", &[("IBV_FAULTS", "1")])?;
    victim.prints("reg", &["reg: errno 0"])?;
    let added = json(
        cx,
        &["add", "at 0s: device dies for 2s; at 60m: gids removed"],
    )?;
    let numbers = serde_json::json!([1, 2, 3, 4]);
    ensure(added["added"] == numbers, format!("{added}"))?;
    victim.prints("reg", &[&format!("reg: errno {EIO}")])?;
    let table = shown(cx, &["rules"])?;
    let lines = [
        "event:type=device-fatal,count=1",
        "drop:to=2s,direction=both",
        "fail:call=*,errno=EIO,to=2s",
        "gids:state=removed,count=1,from=3600s",
    ];
    let missing = lines.iter().find(|line| !table.contains(**line));
    ensure(missing.is_none(), format!("no {missing:?} in {table}"))?;
    let works_again = || {
        let lines = victim.does("reg", 1);
        lines.is_ok_and(|lines| lines == ["reg: errno 0"])
    };
    let is_over = wait_until(victim::START, works_again);
    ensure(is_over, "the device does not come back")?;
    fails(
        cx,
        &["add", "at 5s: link sideways"],
        "expected a rule, or: link down",
    )?;
    victim.quits()
}

/// Packets of a running program are lost; its counters and queue pairs say so.
fn packets(cx: &Context) -> Verdict {
    let victim = Victim::start(cx, "fifo", &[("IBV_FAULTS", "1")])?;
    let sent = ["send: status 0", "send: status 0"];
    victim.prints("send", &sent)?;
    shown(cx, &["add", "drop:opcode=send,count=1"])?;
    victim.prints("send", &sent)?;
    let counters = json(cx, &["counters"])?;
    let hw = &counters["devices"][0]["ports"][0]["hw_counters"];
    let retries = hw["completer_retry_err"].as_u64().unwrap_or(0);
    let ok = retries >= 1 && hw["rdma_sends"] == 2 && hw["rdma_recvs"] == 2;
    ensure(ok, format!("{counters}"))?;
    let table = shown(cx, &["counters"])?;
    ensure(
        table.contains("rdma_sends") && !table.contains("symbol_error"),
        "counters",
    )
    .with(&table)?;
    let zeros = shown(cx, &["counters", "-z"])?;
    ensure(zeros.contains("symbol_error"), "-z prints no symbol_error")?;
    let qps = json(cx, &["qps"])?;
    let [a, b] = [&qps["qps"][0], &qps["qps"][1]];
    let joined = a["dest_qpn"] == b["qpn"] && b["dest_qpn"] == a["qpn"] && a["peer"] == "127.0.0.1";
    let states = a["state"] == "RTS" && a["type"] == "RC" && a["device"] == "uroce0";
    let sends = ["rdma_sends", "rdma_recvs"].map(|name| {
        let count = |qp: &Value| qp["counters"][name].as_u64().unwrap_or(0);
        count(a) + count(b)
    });
    ensure(joined && states && sends == [2, 2], format!("{qps}"))?;
    let top = shown(cx, &["top", "-i", "0.1", "-n", "2"])?;
    let heads = top.lines().filter(|line| line.contains("TX MB/s")).count();
    let number = format!("{:#x}", a["qpn"].as_u64().unwrap_or(0));
    ensure(heads == 2 && top.contains(&number), "top").with(&top)?;
    victim.quits()
}

/// A rule for a queue pair applies to its packets, verbs, events and completions, not to those of another.
fn qpn(cx: &Context) -> Verdict {
    let victim = Victim::start(cx, "fifo", &[("IBV_FAULTS", "1")])?;
    let sent = ["send: status 0", "send: status 0"];
    victim.prints("send", &sent)?;
    let qps = json(cx, &["qps"])?;
    let sends = |qp: &&Value| qp["counters"]["rdma_sends"] == 1;
    let number = |qp: Option<&Value>| qp.and_then(|qp| qp["qpn"].as_u64());
    let qps: Vec<&Value> = qps["qps"].as_array().into_iter().flatten().collect();
    let a = number(qps.iter().copied().find(sends)).ok_or("no queue pair has sent")?;
    let b = number(qps.iter().copied().find(|qp| !sends(qp))).ok_or("no other queue pair")?;
    // The rules that are added here, and how often each has applied.
    let add = |rules: &[String]| {
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        shown(cx, &["clear"])?;
        shown(cx, &[&["add"], &rules[..]].concat())
    };
    let applied = |expected: [u64; 2]| {
        let listed = json(cx, &["rules"])?;
        let found = [0, 1].map(|rule: usize| listed["rules"][rule]["applied"].as_u64());
        ensure(found == expected.map(Some), format!("{listed}"))
    };
    // A packet's queue pair is the one that receives it, or that sends it.
    for (direction, expected) in [("rx", [0, 1]), ("tx", [1, 0])] {
        let rule = |qpn| format!("drop:opcode=send,direction={direction},qpn={qpn},count=1");
        add(&[a, b].map(rule))?;
        victim.prints("send", &sent)?;
        applied(expected)?;
    }
    add(&[format!("fail:call=query_qp,errno=ENOMEM,qpn={b}")])?;
    let failed = format!("query: errno {ENOMEM}");
    victim.prints("query", &["query: errno 0", &failed])?;
    // If the first rule applied to both queue pairs, the other one would have the next event, too.
    add(&[
        format!("event:type=comm-est,qpn={b}"),
        "event:type=sm-change".into(),
    ])?;
    let established = format!("event: {} of {b}", event_number("comm-est")?);
    victim.prints("event", &[&established])?;
    let changed = format!("event: {} of 0", event_number("sm-change")?);
    victim.prints("event", &[&changed])?;
    add(&[b, a].map(|qpn| format!("wc:status=general-err,opcode=send,qpn={qpn}")))?;
    let mut statuses = victim.does("send", 2)?;
    statuses.sort();
    let expected = ["send: status 0", "send: status 21"];
    ensure(statuses == expected, format!("{statuses:?}"))?;
    applied([0, 1])?;
    victim.quits()
}

/// The number of an event that rules name.
fn event_number(name: &str) -> Result<u32, Failure> {
    let mut events = EVENTS.iter();
    let found = events.find(|(event, _)| *event == name);
    Ok(found.ok_or("no such event")?.1)
}

/// Checks that one of several processes can be named, or all.
fn several(cx: &Context) -> Verdict {
    let one = Victim::start(cx, "one", &[("IBV_FAULTS", "1")])?;
    let other = Victim::start(cx, "other", &[("IBV_FAULTS", "1"), ("IBV_EXPLAIN", "1")])?;
    let list = shown(cx, &["list"])?;
    let has = |victim: &Victim, end: &str| {
        let start = format!("{}  control", victim.pid());
        let mut lines = list.lines().map(str::trim_start);
        lines.any(|line| line.starts_with(&start) && line.ends_with(end))
    };
    ensure(has(&one, "no") && has(&other, "yes"), "list").with(&list)?;
    let rule = "fail:call=reg_mr,errno=ENOMEM";
    fails(cx, &["add", rule], "there are several processes")?;
    fails(cx, &["clear"], "there are several processes")?;
    shown(cx, &["add", "--pid", &one.pid(), rule])?;
    let failed = format!("reg: errno {ENOMEM}");
    one.prints("reg", &[&failed])?;
    other.prints("reg", &["reg: errno 0"])?;
    shown(cx, &["add", "--all", rule])?;
    other.prints("reg", &[&failed])?;
    shown(cx, &["clear", "--pid", &one.pid()])?;
    one.prints("reg", &["reg: errno 0"])?;
    other.prints("reg", &[&failed])?;
    shown(cx, &["clear", "--all"])?;
    other.prints("reg", &["reg: errno 0"])?;
    shown_of_one(cx, &one)?;
    one.quits()?;
    other.quits()
}

/// Each command that shows something shows it of the process that is named, and of no other.
fn shown_of_one(cx: &Context, one: &Victim) -> Verdict {
    one.prints("send", &["send: status 0", "send: status 0"])?;
    let pid = one.pid();
    shown(cx, &["add", "-p", &pid, "slow-cq:time=1us"])?;
    let top = ["top", "-n", "1", "-i", "0.1"];
    for (command, lines) in [
        (&["list"][..], 1..=1),
        (&["rules"], 1..=1),
        (&["counters"], 2..=usize::MAX),
        (&["qps"], 2..=2),
        (&top, 2..=2),
    ] {
        let table = shown(cx, &[command, &["-p", &pid]].concat())?;
        let rows: Vec<&str> = table.lines().filter(|line| !line.is_empty()).collect();
        let is_of_one = |row: &&str| row.split_whitespace().next() == Some(&pid);
        let [head, rows @ ..] = &rows[..] else {
            return Err(Failure::new(format!("{command:?} prints nothing")));
        };
        let ok = head.trim_start().starts_with("PID ")
            && rows.iter().all(is_of_one)
            && lines.contains(&rows.len());
        ensure(ok, format!("{command:?}")).with(&table)?;
        if command == ["qps"] {
            let all_said = rows
                .iter()
                .all(|row| row.contains(" RTS ") && row.contains(" 127.0.0.1/0x"));
            ensure(all_said, "qps").with(&table)?;
        }
    }
    Ok(())
}

/// A program without IBV_FAULTS shows its queue pairs, but gets no faults.
fn without_faults(cx: &Context) -> Verdict {
    let victim = Victim::start(cx, "fifo", &[("IBV_CONTROL", "1")])?;
    ensure(
        json(cx, &["list"])?["qps"] == 2,
        "list does not count two queue pairs",
    )?;
    fails(
        cx,
        &["add", "drop"],
        "the program was started without IBV_FAULTS",
    )?;
    victim.quits()
}

/// The names of control sockets in this network namespace.
fn names() -> Vec<String> {
    let table = read("/proc/net/unix".as_ref());
    let names = table.lines().filter(|line| line.contains(" 00010000 "));
    let names = names.filter_map(|line| Some(line.split_once("@libibverbs-rs/")?.1.to_string()));
    names.collect()
}

/// Checks that another user neither finds the process nor gets an answer from its socket, and that
/// root does.
fn other_user(cx: &Context) -> Verdict {
    if !can_change_user() {
        return Err(Failure::skip("needs root, to be two users"));
    }
    let victim = Victim::start(cx, "fifo", &[("IBV_CONTROL", "1")])?;
    let found = wait_until(START, || !names().is_empty());
    ensure(found, "there is no control socket")?;
    let name = format!("libibverbs-rs/{}", names()[0]);
    let stranger = ["setpriv", "--reuid=4242", "--regid=4242", "--clear-groups"];
    let list = cx
        .program([cx.built(CONTROL)?, "list".into()])
        .under(stranger)
        .run()?;
    let none = list.exit == Exit::Code(1) && list.err.contains("no process of this user");
    ensure(none, "another user sees it").with(list.transcript())?;
    let ask = [cx.built("control")?, "ask".into(), name, "info".into()];
    let refused = cx
        .program(ask.clone())
        .under(stranger)
        .library(&cx.library_dir(Library::Ours))
        .run()?;
    let expected = "{\"error\":\"this process is of another user\"}\n";
    ensure(refused.out == expected, "another user is not refused").with(refused.transcript())?;
    let root = cx
        .program(ask)
        .library(&cx.library_dir(Library::Ours))
        .run()?;
    contains(&root.out, &["\"program\":\"control\""]).with(&root.err)?;
    cx.program([cx.built(CONTROL)?, "list".into()]).succeed()?;
    victim.quits()
}

/// Checks that with IBV_UROCE alone, and with IBV_CONTROL=0, there is neither a socket nor a
/// thread.
fn off(cx: &Context) -> Verdict {
    let threads = |victim: &Victim| -> Result<Vec<String>, Failure> {
        let mut names = Vec::new();
        for task in fs::read_dir(format!("/proc/{}/task", victim.pid()))? {
            names.push(read(&task?.path().join("comm")).trim_end().to_string());
        }
        Ok(names)
    };
    let on = Victim::start(cx, "on", &[("IBV_EXPLAIN", "1")])?;
    // A thread gives itself its name.
    let named = wait_until(START, || {
        threads(&on).is_ok_and(|found| found.iter().any(|name| name == "ibverbs-control"))
    });
    ensure(named, format!("there is no thread: {:?}", threads(&on)?))?;
    on.quits()?;
    let faults: &[(&str, &str)] = &[("IBV_CONTROL", "0"), ("IBV_FAULTS", "1")];
    for (name, variables) in [("alone", &[][..]), ("off", faults)] {
        let off = Victim::start(cx, name, variables)?;
        let found = threads(&off)?;
        let none = !found.iter().any(|name| name == "ibverbs-control");
        ensure(
            none && names().is_empty(),
            format!("{name}: {found:?}, {:?}", names()),
        )?;
        fails(
            cx,
            &["list"],
            "no process of this user has a control socket",
        )?;
        off.quits()?;
    }
    Ok(())
}

/// A child of fork does not keep the socket of its parent, which answers as before.
fn fork(cx: &Context) -> Verdict {
    let mut victim = Victim::start(cx, "fifo", &[("IBV_CONTROL", "1")])?;
    shown(cx, &["list"])?;
    let printed = victim.does("fork", 1)?;
    let child: i32 = printed[0]
        .strip_prefix("child: ")
        .and_then(|pid| pid.parse().ok())
        .ok_or("no child")?;
    let parent = json(cx, &["list"])?;
    ensure(parent["pid"] == victim.running.id(), format!("{parent}"))?;
    signal(victim.running.id() as i32, libc::SIGKILL);
    victim.running.wait(START)?;
    let alive = || fs::read_link(format!("/proc/{child}/exe")).is_ok();
    ensure(alive(), "the child has ended")?;
    let gone = wait_until(START, || names().is_empty());
    ensure(gone && alive(), format!("the child keeps {:?}", names()))?;
    signal(child, libc::SIGKILL);
    Ok(())
}

/// A program that closes the descriptor, and uses its number, is left alone.
fn taken(cx: &Context) -> Verdict {
    let victim = Victim::start(cx, "fifo", &[("IBV_CONTROL", "1")])?;
    shown(cx, &["list"])?;
    victim.prints("take", &["taken: yes"])?;
    // The thread still listened. It finds that the number is another socket's now, and ends.
    ensure(!ctl(cx, &["list"])?.ok(), "the socket still answers")?;
    let gone = wait_until(START, || names().is_empty());
    ensure(gone, format!("the socket is still there: {:?}", names()))?;
    victim.prints("taken", &["own socket: works"])?;
    victim.prints("send", &["send: status 0", "send: status 0"])?;
    victim.quits()
}

/// The thread survives dlclose of the library.
fn unload(cx: &Context) -> Verdict {
    let argv = vec![
        cx.built("control_unload")?,
        cx.library(Library::Ours).to_string_lossy().into_owned(),
    ];
    // Without the view of its files, uroce itself does not keep the library loaded.
    let running = cx
        .on_uroce(argv)
        .env("IBV_UROCE_VIEW", "0")
        .env("IBV_CONTROL", "1")
        .spawn()?;
    let unloaded = wait_until(START, || running.output().contains("unloaded"));
    ensure(unloaded, "not unloaded").with(running.output())?;
    let started = Instant::now();
    let mut answered = ctl(cx, &["list"])?;
    while !answered.ok() && started.elapsed() < START {
        answered = ctl(cx, &["list"])?;
    }
    succeeded("uroce-ctl list", &answered)?;
    ensure(answered.out.contains("control_unload"), answered.out)
}

/// Whether all threads of a process are stopped: each stops when it sees the signal.
fn are_stopped(pid: &str) -> bool {
    let is_stopped = |task: fs::DirEntry| {
        let stat = read(&task.path().join("stat"));
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('T'))
    };
    let mut tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    tasks.all(is_stopped)
}

/// A stopped process does not make uroce-ctl hang.
fn stopped(cx: &Context) -> Verdict {
    let victim = Victim::start(cx, "fifo", &[("IBV_CONTROL", "1")])?;
    shown(cx, &["list"])?;
    signal(victim.running.id() as i32, libc::SIGSTOP);
    let stopped = wait_until(START, || are_stopped(&victim.pid()));
    ensure(stopped, "it does not stop")?;
    let verdict = fails(cx, &["list"], "no answer within 5 s (is it stopped?)");
    signal(victim.running.id() as i32, libc::SIGCONT);
    verdict?;
    shown(cx, &["list"])?;
    victim.quits()
}

/// Help, version, and errors of the command line.
fn usage(cx: &Context) -> Verdict {
    let help = shown(cx, &["--help"])?;
    for command in [
        "list", "rules", "add", "clear", "counters", "qps", "names", "top",
    ] {
        let listed = help
            .lines()
            .any(|line| line.trim_start().starts_with(command));
        ensure(listed, format!("--help lacks {command}"))?;
        shown(cx, &[command, "--help"])?;
    }
    let version = shown(cx, &["--version"])?;
    ensure(
        version == concat!("uroce-ctl ", env!("CARGO_PKG_VERSION"), "\n"),
        version,
    )?;
    for wrong in [
        &["nothing"][..],
        &["add"],
        &["clear", "x"],
        &["add", "-a", "-p", "1", "drop"],
        &["top", "--json"],
        &[],
    ] {
        let ended = ctl(cx, wrong)?;
        ensure(
            ended.exit == Exit::Code(2),
            format!("{wrong:?}: exit code {}", ended.exit),
        )?;
    }
    fails(
        cx,
        &["list"],
        "no process of this user has a control socket",
    )?;
    fails(
        cx,
        &["list", "-p", "1"],
        "process 1 of this user has no control socket",
    )
}
