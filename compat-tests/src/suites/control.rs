//! The control socket and uroce-ctl(1): what it shows of a running program, and the faults that it adds. Only
//! processes of the same user reach the socket; it survives fork and dlclose, and is not there unless a
//! variable asks for it.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::artifacts::CONTROL;
use crate::case::{Case, Place, Tier};
use crate::context::{Context, Library, succeeded};
use crate::place::{as_ordinary_user, can_change_user};
use crate::process::{Ended, Exit, Program, Running, read, signal, wait_until};
use crate::verdict::{Failure, Verdict, ensure};

/// How long a program may take until its socket is there.
const START: Duration = Duration::from_secs(20);
const ENOMEM: i32 = 12;

pub fn cases() -> Vec<Case> {
    type CaseBody = fn(&Context) -> Verdict;
    let bodies: [(&str, CaseBody); 11] = [
        ("rules", rules),
        ("packets", packets),
        ("several", several),
        ("without-faults", without_faults),
        ("other-user", other_user),
        ("off", off),
        ("fork", fork),
        ("taken", taken),
        ("unload", unload),
        ("stopped", stopped),
        ("usage", usage),
    ];
    bodies
        .map(|(name, body)| {
            Case::new(format!("uroce/control/{name}"), body)
                .place(Place::Namespace)
                .programs(&["control", "control_unload"])
                .tier(Tier::Check)
                .limit(120)
        })
        .into()
}

/// `control` that runs, and its FIFO.
struct Victim {
    running: Running,
    fifo: PathBuf,
}

/// A program of this suite, as an ordinary user, on the loopback interface.
fn on_uroce(cx: &Context, argv: Vec<String>) -> Program {
    cx.program(argv)
        .under(as_ordinary_user())
        .library(&cx.library_dir(Library::Ours))
        .env("IBV_UROCE", "uroce0=lo")
}

impl Victim {
    /// Starts it with these variables, and waits until it is ready.
    fn start(cx: &Context, name: &str, variables: &[(&str, &str)]) -> Result<Victim, Failure> {
        let fifo = cx.dir().join(name);
        cx.output(["mkfifo", "-m", "666", &fifo.to_string_lossy()])?;
        let argv = vec![cx.built("control")?, fifo.to_string_lossy().into_owned()];
        let mut program = on_uroce(cx, argv);
        for (name, value) in variables {
            program = program.env(*name, value);
        }
        let victim = Victim {
            running: program.spawn()?,
            fifo,
        };
        victim.await_text("ready")?;
        Ok(victim)
    }

    /// Waits until the program has printed a text.
    fn await_text(&self, text: &str) -> Verdict {
        let printed = wait_until(START, || self.running.output().contains(text));
        ensure(printed, format!("it does not print '{text}'"))
            .map_err(|failure| failure.with(self.running.output()))
    }

    /// Writes a line into its FIFO, and returns the lines that it prints then, of which there are `count`.
    fn does(&self, line: &str, count: usize) -> Result<Vec<String>, Failure> {
        let before = self.running.output().lines().count();
        let mut fifo = OpenOptions::new().write(true).open(&self.fifo)?;
        fifo.write_all(format!("{line}\n").as_bytes())?;
        wait_until(START, || {
            self.running.output().lines().count() >= before + count
        });
        let lines = self.running.output();
        let lines: Vec<String> = lines.lines().skip(before).map(String::from).collect();
        ensure(
            lines.len() == count,
            format!("{line}: it printed {lines:?}"),
        )?;
        Ok(lines)
    }

    fn prints(&self, line: &str, expected: &[&str]) -> Verdict {
        let printed = self.does(line, expected.len())?;
        ensure(
            printed == expected,
            format!("{line}: {printed:?}, not {expected:?}"),
        )
    }

    /// It ends without an error.
    fn quits(mut self) -> Verdict {
        let mut fifo = OpenOptions::new().write(true).open(&self.fifo)?;
        fifo.write_all(b"quit\n")?;
        let exit = self.running.wait(START)?;
        let ended = self.running.ended(exit)?;
        succeeded("control", &ended)
    }

    /// The PID of the program itself: setpriv(1) and env(1) execute it in their own process.
    fn pid(&self) -> String {
        self.running.id().to_string()
    }
}

/// uroce-ctl as the ordinary user.
fn ctl(cx: &Context, arguments: &[&str]) -> Result<Ended, Failure> {
    let mut argv = vec![cx.built(CONTROL)?];
    argv.extend(arguments.iter().map(ToString::to_string));
    Ok(cx.program(argv).under(as_ordinary_user()).run()?)
}

/// What uroce-ctl prints; it must succeed.
fn shown(cx: &Context, arguments: &[&str]) -> Result<String, Failure> {
    let ended = ctl(cx, arguments)?;
    succeeded(&format!("uroce-ctl {}", arguments.join(" ")), &ended)?;
    Ok(ended.out)
}

/// The JSON object that it prints for one process.
fn json(cx: &Context, arguments: &[&str]) -> Result<Value, Failure> {
    let text = shown(cx, &[&["--json"], arguments].concat())?;
    let parsed = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    Ok(parsed)
}

/// uroce-ctl fails with a message that contains a text.
fn fails(cx: &Context, arguments: &[&str], text: &str) -> Verdict {
    let ended = ctl(cx, arguments)?;
    let ok = ended.exit == Exit::Code(1) && ended.err.contains(text);
    let why = format!("uroce-ctl {}: '{text}' is expected", arguments.join(" "));
    ensure(ok, why).map_err(|failure| failure.with(ended.transcript()))
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
    .map_err(|failure| failure.with(&table))?;
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
    .map_err(|failure| failure.with(&table))?;
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
    ensure(heads == 2 && top.contains(&number), "top").map_err(|failure| failure.with(&top))?;
    victim.quits()
}

/// Of several processes, one is named, or all.
fn several(cx: &Context) -> Verdict {
    let one = Victim::start(cx, "one", &[("IBV_FAULTS", "1")])?;
    let other = Victim::start(cx, "other", &[("IBV_FAULTS", "1"), ("IBV_EXPLAIN", "1")])?;
    let list = shown(cx, &["list"])?;
    let has = |victim: &Victim, end: &str| {
        let start = format!("{}  control", victim.pid());
        let mut lines = list.lines().map(str::trim_start);
        lines.any(|line| line.starts_with(&start) && line.ends_with(end))
    };
    ensure(has(&one, "no") && has(&other, "yes"), "list").map_err(|failure| failure.with(&list))?;
    let rule = "fail:call=reg_mr,errno=ENOMEM";
    fails(cx, &["add", rule], "there are several processes")?;
    fails(cx, &["clear"], "there are several processes")?;
    shown(cx, &["add", "--pid", &one.pid(), rule])?;
    let failed = format!("reg: errno {ENOMEM}");
    one.prints("reg", &[&failed])?;
    other.prints("reg", &["reg: errno 0"])?;
    shown(cx, &["add", "--all", rule])?;
    other.prints("reg", &[&failed])?;
    shown(cx, &["clear", "--all"])?;
    one.prints("reg", &["reg: errno 0"])?;
    one.quits()?;
    other.quits()
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

/// Another user neither finds the process nor gets an answer from its socket; root does.
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
    ensure(none, "another user sees it").map_err(|failure| failure.with(list.transcript()))?;
    let ask = [cx.built("control")?, "ask".into(), name, "info".into()];
    let refused = cx
        .program(ask.clone())
        .under(stranger)
        .library(&cx.library_dir(Library::Ours))
        .run()?;
    let expected = "{\"error\":\"this process is of another user\"}\n";
    ensure(refused.out == expected, "another user is not refused")
        .map_err(|failure| failure.with(refused.transcript()))?;
    let root = cx
        .program(ask)
        .library(&cx.library_dir(Library::Ours))
        .run()?;
    ensure(
        root.out.contains("\"program\":\"control\""),
        "root gets no answer",
    )
    .map_err(|failure| failure.with(root.transcript()))?;
    let list = cx.program([cx.built(CONTROL)?, "list".into()]).run()?;
    succeeded("uroce-ctl of root", &list)?;
    victim.quits()
}

/// With IBV_UROCE alone, and with IBV_CONTROL=0, there is neither a socket nor a thread.
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
    let running = on_uroce(cx, argv)
        .env("IBV_UROCE_VIEW", "0")
        .env("IBV_CONTROL", "1")
        .spawn()?;
    let unloaded = wait_until(START, || running.output().contains("unloaded"));
    ensure(unloaded, "not unloaded").map_err(|failure| failure.with(running.output()))?;
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
    for command in ["list", "rules", "add", "clear", "counters", "qps", "top"] {
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
