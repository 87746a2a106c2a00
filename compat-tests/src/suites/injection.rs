//! IBV_FAULTS (libibverbs-rs-faults(7)): each action and each selector has its effect, and no other; what was
//! injected is logged; errors in rules are refused with their place.

mod effects;
mod kernel;
pub mod rxe;

use std::path::PathBuf;
use std::time::Duration;

use ibverbs_faults::{CALLS, COMPLETION_OPCODES, EVENTS, PACKET_OPCODES, STATUSES};

use effects::{Effect, Printed, effects};

use crate::case::{Case, Tier};
use crate::compare;
use crate::context::{Context, Library};
use crate::process::{Program, Running, read, succeeded, wait_until};
use crate::sandbox::Sandbox;
use crate::testbed::Testbed;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// ENOSPC: no verb of uroce returns it here by itself.
const ERRNO: i32 = 28;

/// Texts that are refused, and what the warning says.
const REFUSED: &[(&str, &str)] = &[
    ("drip", "column 1: unknown action 'drip'; there are: drop, "),
    (
        "drop; delay:time=5",
        "column 18: expected a time such as 5ms, found '5'",
    ),
    (
        "drop:p=0.1,status=fatal-err",
        "column 12: drop has no key 'status'; it takes: p, count, ",
    ),
    (
        "fail:call=close,errno=EIO",
        "column 11: 'close' matches none of: alloc_dm, ",
    ),
    ("@/nonexistent", "/nonexistent: No such file or directory"),
];

pub fn cases() -> Vec<Case> {
    let place = |case: Case| {
        case.sandbox(Sandbox::Namespace)
            .programs(&["inject"])
            .tier(Tier::Check)
    };
    let mut cases: Vec<Case> = effects()
        .map(|row| {
            place(Case::new(format!("uroce/inject/{}", row.name), move |cx| {
                has_effect(cx, &row)
            }))
        })
        .collect();
    type CaseBody = fn(&Context) -> Verdict;
    let more: [(&str, CaseBody); 14] = [
        ("retry-exceeded", retry_exceeded),
        ("rnr-exceeded", rnr_exceeded),
        ("statuses", statuses),
        ("calls", calls),
        ("packet-opcodes", packet_opcodes),
        ("completion-opcodes", completion_opcodes),
        ("events", events),
        ("built", built),
        ("seed", seed),
        ("refused", refused),
        ("rule-file", rule_file),
        ("changed-file", changed_file),
        ("explained", explained),
        ("off", off),
    ];
    cases.extend(
        more.map(|(name, run)| place(Case::new(format!("uroce/inject/{name}"), run).limit(120))),
    );
    cases.extend(kernel::cases());
    for (name, sent) in [("pingpong", false), ("pingpong-tx", true)] {
        let run = move |cx: &Context| pingpong(cx, sent);
        cases.push(place(
            Case::new(format!("uroce/inject/{name}"), run).limit(120),
        ));
    }
    cases
}

fn log(cx: &Context) -> PathBuf {
    cx.dir().join("verbs.log")
}

/// A scene, as an ordinary user, on the loopback interface.
fn scene(cx: &Context, command: &str, rules: &str) -> Result<Program, Failure> {
    let words = command.split(' ').map(Into::into);
    Ok(cx
        .on_uroce([cx.built("inject")?].into_iter().chain(words))
        .env("VERBS_LOG_LEVEL", "2")
        .env("VERBS_LOG_FILE", log(cx))
        .env("IBV_FAULTS", rules))
}

/// Runs a scene, which succeeds. Returns what it printed, and how many faults the log has.
fn run(cx: &Context, command: &str, rules: &str) -> Result<(String, usize), Failure> {
    run_on(cx, &scene(cx, command, rules)?)
}

/// Runs this program of a scene.
fn run_on(cx: &Context, program: &Program) -> Result<(String, usize), Failure> {
    let _ = std::fs::remove_file(log(cx));
    let ended = program.succeed()?;
    let logged = read(&log(cx));
    let faults = logged
        .lines()
        .filter(|line| line.contains("fault of rule "));
    Ok((ended.out, faults.count()))
}

fn has_effect(cx: &Context, effect: &Effect) -> Verdict {
    let (out, faults) = run(cx, effect.scene, effect.rules)?;
    let why = format!("{faults} faults are logged, expected {}", effect.logged);
    ensure(faults == effect.logged, why).with(read(&log(cx)))?;
    for value in &effect.printed {
        let (Printed::Is(name, wanted) | Printed::AtLeast(name, wanted)) = value;
        let line = out
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}=")));
        let found: u64 = line.and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
        let ok = match value {
            Printed::Is(..) => found == *wanted,
            Printed::AtLeast(..) => (*wanted..u64::MAX).contains(&found),
        };
        ensure(ok, format!("{name} is {found}, expected {wanted}"))?;
    }
    Ok(())
}

/// Without any SEND that arrives, the retries are exhausted; without any receive, the RNR retries.
fn retry_exceeded(cx: &Context) -> Verdict {
    run(cx, "status 12", "drop:opcode=send").map(drop)
}

fn rnr_exceeded(cx: &Context) -> Verdict {
    run(cx, "status 13", "rnr").map(drop)
}

/// Each status, of a send, a receive, and with an extended CQ.
fn statuses(cx: &Context) -> Verdict {
    for (name, number) in STATUSES {
        let rule = format!("wc:status={name},opcode=send,count=1");
        one_fault(cx, run, &format!("status {number}"), &rule)?;
    }
    let rule = "wc:status=fatal-err,opcode=recv,count=1,size=64";
    run(cx, "status-recv 19", rule)?;
    let rule = "wc:status=rem-op-err,opcode=send,count=1";
    run(cx, "status-ex 11", rule).map(drop)
}

/// Each verb fails once.
fn calls(cx: &Context) -> Verdict {
    for call in CALLS {
        let rule = format!("fail:call={call},errno=ENOSPC,after=1,count=1");
        one_fault(cx, run, &format!("call {call} {ERRNO}"), &rule)?;
    }
    // A pattern, and a number in place of a name.
    run(
        cx,
        "call create_ah 4000",
        "fail:call=create_a*,errno=4000,after=1,count=1",
    )
    .map(drop)
}

/// A rule for each operation of packets applies to a packet of it.
fn packet_opcodes(cx: &Context) -> Verdict {
    for opcode in PACKET_OPCODES {
        let request = match opcode {
            "ack" => "send",
            "read-response" => "read",
            "atomic-ack" => "cmp-swap",
            opcode => opcode,
        };
        let rule = format!("duplicate:opcode={opcode},count=1");
        one_fault(cx, run, &format!("operation {request} 0 0"), &rule)?;
    }
    Ok(())
}

/// A rule for each operation of completions applies to its completion, and to no other. TSO is an operation
/// of raw packets, which uroce does not have.
fn completion_opcodes(cx: &Context) -> Verdict {
    const INJECTED: u32 = 21;
    let opcodes = COMPLETION_OPCODES.iter().map(|(name, _)| *name);
    for opcode in opcodes.filter(|name| *name != "tso") {
        let (request, [sent, received]) = match opcode {
            "recv" => ("send", [0, INJECTED]),
            "recv-imm" => ("write-imm", [0, INJECTED]),
            opcode => (opcode, [INJECTED, 0]),
        };
        let rule = format!("wc:status=general-err,opcode={opcode},count=1");
        let command = format!("operation {request} {sent} {received}");
        one_fault(cx, run, &command, &rule)?;
    }
    Ok(())
}

/// Requests that are posted by ibv_wr_complete: those that a rule lets fail are not posted, and their
/// completions have the status of a rule.
fn built(cx: &Context) -> Verdict {
    for (rules, wanted) in [
        (
            "fail:call=wr_complete,errno=ENOMEM,after=1,count=2",
            ".0xx.0.0\n",
        ),
        ("fail:call=post_send,errno=ENOMEM", ".0.0.0.0.0\n"),
        (
            "wc:status=rem-op-err,opcode=write,after=1,count=1",
            ".0.11.5.5.5\n",
        ),
    ] {
        let (out, _) = run(cx, "built 5", rules)?;
        compare::same(("expected", wanted), (rules, &out))?;
    }
    Ok(())
}

/// Each event, when there is an object that it is about.
fn events(cx: &Context) -> Verdict {
    for (name, number) in EVENTS {
        let moves_to_error = matches!(name, "qp-fatal" | "device-fatal");
        let (from, rule) = match moves_to_error {
            true => (300, format!("event:type={name},from=300ms,device=uroce0")),
            false => (0, format!("event:type={name}")),
        };
        run(cx, &format!("event {number} {from}"), &rule)?;
    }
    Ok(())
}

/// The same seed has the same faults, another one has others.
fn seed(cx: &Context) -> Verdict {
    let failed = |seed: &str| -> Result<String, Failure> {
        let rules = format!("seed={seed};fail:call=reg_mr,errno=EIO,p=0.4,after=1");
        Ok(run(cx, "calls 64", &rules)?.0)
    };
    let first = failed("5")?;
    let both = first.contains('x') && first.contains('.');
    ensure(both, format!("not some of the calls failed: {first}"))?;
    compare::same(("first", &first), ("second", &failed("5")?))?;
    ensure(first != failed("6")?, "the seed has no effect")
}

fn refused(cx: &Context) -> Verdict {
    for (rules, why) in REFUSED {
        let ended = scene(cx, "calls 4", rules)?.succeed()?;
        let start = format!("libibverbs: Warning: ignoring IBV_FAULTS: {why}");
        let ok = ended.err.starts_with(&start) && ended.err.lines().count() == 1;
        ensure(ok, format!("{rules}: it printed {}", ended.err))?;
        compare::same(("expected", "....\n"), ("calls", &ended.out))?;
    }
    Ok(())
}

fn rule_file(cx: &Context) -> Verdict {
    let file = cx.dir().join("rules");
    let value = format!("@{}", file.display());
    std::fs::write(
        &file,
        "# two failures\nfail:call=reg_mr,errno=EIO, after=1, count=2\n",
    )?;
    compare::same(
        ("expected", "xx..\n"),
        ("calls", &run(cx, "calls 4", &value)?.0),
    )?;
    std::fs::write(&file, "drop\n  fail:call=reg_mr\n")?;
    let ended = scene(cx, "calls 4", &value)?.run()?;
    let why = "line 2, column 3: fail needs errno=, a name such as ENOMEM or a number\n";
    ensure(
        ended.err.ends_with(why),
        format!("it printed {}", ended.err),
    )
}

/// The rules of a file that changes while the program runs. A file with an error changes nothing.
fn changed_file(cx: &Context) -> Verdict {
    const LIMIT: Duration = Duration::from_secs(20);
    let file = cx.dir().join("rules");
    let replace = |text: &str| -> Verdict {
        let new = cx.write("new-rules", text)?;
        Ok(std::fs::rename(new, &file)?)
    };
    replace("# none\n")?;
    let program = scene(cx, "changes", &format!("@{}", file.display()))?.merged();
    let mut running = program.spawn()?;
    let says = |running: &Running, text: &str| {
        let found = wait_until(LIMIT, || running.output().ends_with(text));
        ensure(
            found,
            format!("it does not say {text}: {}", running.output()),
        )
    };
    says(&running, "works\n")?;
    replace("fail:call=reg_mr,errno=ENOMEM\n")?;
    says(&running, "fails\n")?;
    replace("fail:call=reg_mr\n")?;
    let why = "column 1: fail needs errno=, a name such as ENOMEM or a number\n";
    says(&running, why)?;
    replace("")?;
    let exit = running.wait(LIMIT)?;
    let ended = running.ended(exit)?;
    succeeded("changes", &ended)?;
    let ok = ended.out.ends_with("number\nworks\n");
    ensure(ok, format!("it printed {}", ended.out))
}

/// Checks that with IBV_EXPLAIN faults are reported where it writes, and explained as if they were
/// real.
fn explained(cx: &Context) -> Verdict {
    let rules = "wc:status=rnr-retry-exc-err,opcode=send,count=1";
    let ended = scene(cx, "status 13", rules)?
        .env("IBV_EXPLAIN", "1")
        .succeed()?;
    let injected = "libibverbs: faults: rule 1: wc status=rnr-retry-exc-err: uroce0, QP ";
    let ok = ended.err.contains(injected) && ended.err.contains("[rnr-exceeded]");
    ensure(ok, format!("it printed {}", ended.err))?;
    let file = cx.dir().join("json");
    let json = format!("json:{}", file.display());
    let program = scene(cx, "calls 2", "fail:call=reg_mr,errno=EIO,after=1,count=1")?;
    program.env("IBV_EXPLAIN", json).succeed()?;
    let text = read(&file);
    let fault = text
        .lines()
        .find(|line| line.contains("\"fault\":1"))
        .unwrap_or_default();
    let parsed: serde_json::Value =
        serde_json::from_str(fault).map_err(|error| format!("{error}: {text}"))?;
    let what = "fail errno=EIO: uroce0, ibv_reg_mr, 64 bytes";
    ensure(parsed["what"] == what, format!("the fault is {fault}"))
}

/// Values that ask for nothing.
fn off(cx: &Context) -> Verdict {
    for value in ["", "0", "1"] {
        let ended = scene(cx, "calls 4", value)?.succeed()?;
        compare::same(("expected", "....\n"), ("calls", &ended.out))?;
        compare::same(("expected", ""), ("stderr", &ended.err))?;
    }
    Ok(())
}

/// Two processes. The server loses packets that it receives or sends. They take UDP, although shared memory
/// is not switched off.
fn pingpong(cx: &Context, sent: bool) -> Verdict {
    const PORT: &str = "20000";
    let hosts = Testbed::Loopback.make(cx)?;
    // No packet near the end has a fault: without the last ACK the client fails, as the server is gone.
    let rules = match sent {
        false => {
            "seed=3; drop:p=8%,count=6; duplicate:p=8%,count=6; corrupt:p=5%,count=4; \
             delay:time=300us,p=8%,count=6; rnr:p=5%,count=4"
        }
        true => {
            "drop:direction=tx,after=20,count=4; duplicate:direction=tx,after=60,count=4; \
             corrupt:direction=tx,after=100,count=4; \
             delay:time=300us,direction=tx,after=140,count=4; rnr:p=1%"
        }
    };
    let program = |address: Option<&str>| {
        let words = "ibv_rc_pingpong -g 1 -n 300 -p"
            .split(' ')
            .chain([PORT])
            .chain(address);
        let program = cx
            .program(words)
            .library(&cx.library_dir(Library::Ours))
            .env("IBV_UROCE", "uroce0=127.0.0.1")
            .env("IBV_UROCE_LOCAL", "1")
            .env("VERBS_LOG_LEVEL", "3");
        match address {
            None => program
                .env("VERBS_LOG_FILE", log(cx))
                .env("IBV_FAULTS", rules),
            Some(_) => program,
        }
    };
    let mut server = program(None).spawn()?;
    let port = PORT.parse().map_err(|_| Failure::new("PORT"))?;
    let ready = wait_until(Duration::from_secs(20), || hosts.server.listens(port));
    ensure(ready, "the server does not listen")?;
    program(Some("127.0.0.1")).succeed()?;
    let exit = server.wait(Duration::from_secs(30))?;
    succeeded("server", &server.ended(exit)?)?;
    let log = read(&log(cx));
    for action in ["drop", "duplicate", "corrupt", "delay", "rnr"] {
        let injected = log
            .lines()
            .any(|line| line.contains(&format!(": {action}: uroce0, QP ")));
        ensure(injected, format!("no packet has the fault {action}")).with(&log)?;
    }
    let counted = log.contains(" local_rcvd_pkts=");
    ensure(!counted, "packets through shared memory")
}

/// How a scene of c/inject runs on a device of the kernel: with this command and these rules it succeeds.
/// Returns what it printed, and how many faults the log has.
type Run = fn(&Context, &str, &str) -> Result<(String, usize), Failure>;

/// Runs a scene in which one fault is logged.
fn one_fault(cx: &Context, run: Run, command: &str, rules: &str) -> Verdict {
    let (_, faults) = run(cx, command, rules)?;
    ensure(faults == 1, format!("{rules}: {faults} faults are logged"))
}

fn built_in_kernel(cx: &Context, run: Run) -> Verdict {
    let rules = "fail:call=wr_complete,errno=ENOMEM,after=1,count=2";
    let (out, faults) = run(cx, "built 5", rules)?;
    compare::same(("expected", ".0xx.0.0\n"), (rules, &out))?;
    ensure(faults == 2, format!("{faults} faults are logged"))
}

fn slow_cq(cx: &Context, run: Run) -> Verdict {
    let (out, faults) = run(cx, "polls 5", "slow-cq:time=50ms,count=3")?;
    let took = out.trim().strip_prefix("ms=");
    let took: u64 = took.and_then(|text| text.parse().ok()).unwrap_or(0);
    ensure(faults == 3, format!("{faults} faults are logged"))?;
    ensure(took >= 150, format!("the polls took {took} ms"))
}

/// Rules for packets have no effect on a device whose packets the library does not see.
fn no_packets(cx: &Context, run: Run) -> Verdict {
    let (out, faults) = run(cx, "calls 4", "drop; drop:direction=tx; rnr")?;
    compare::same(("expected", "....\n"), ("calls", &out))?;
    ensure(faults == 0, format!("{faults} faults are logged"))
}
