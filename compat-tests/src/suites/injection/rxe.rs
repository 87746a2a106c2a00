//! IBV_FAULTS on rxe0 in the virtual machine. Nothing there is this project's but the library: verbs,
//! completions, polls and events have faults; packets do not, because none is seen.

use std::time::Duration;

use ibverbs_faults::STATUSES;

use super::{built_in_kernel, no_packets, run_on, scene, slow_cq};
use crate::case::Tier;
use crate::case_file::MachineState;
use crate::context::{Context, Library};
use crate::machine::Member;
use crate::process::wait_until;
use crate::sandbox::sh;
use crate::suites::vm::setting::Setting;
use crate::verdict::{Failure, Verdict, ensure};

type Body = fn(&Context) -> Verdict;

/// The members, with the shortest make target that runs them.
pub fn members() -> impl Iterator<Item = Member> {
    let all: [(&str, Tier, Body); 9] = [
        ("status", Tier::Test, status),
        ("calls", Tier::Test, calls),
        ("events-blocking", Tier::Test, events_blocking),
        ("packets", Tier::Test, |cx| no_packets(cx, run)),
        ("statuses", Tier::All, statuses),
        ("all-calls", Tier::All, all_calls),
        ("built", Tier::All, |cx| built_in_kernel(cx, run)),
        ("slow-cq", Tier::All, |cx| slow_cq(cx, run)),
        ("events", Tier::All, events),
    ];
    all.into_iter().map(|(name, tier, run)| {
        let member = Member::new(format!("inject/rxe/{name}"), run);
        member.tier(tier).programs(&["inject"])
    })
}

/// Runs a scene on rxe0, which succeeds. Returns what it printed, and how many faults the log has.
fn run(cx: &Context, command: &str, rules: &str) -> Result<(String, usize), Failure> {
    let program = scene(cx, command, rules)?;
    run_on(cx, &program.env("IBV_UROCE", "").env("DEVICE", "rxe0"))
}

/// The program succeeds, and the log has one fault.
fn once(cx: &Context, command: &str, rules: &str) -> Verdict {
    let (_, faults) = run(cx, command, rules)?;
    ensure(faults == 1, format!("{rules}: {faults} faults are logged"))
}

fn status(cx: &Context) -> Verdict {
    once(
        cx,
        "status 10",
        "wc:status=rem-access-err,opcode=send,count=1",
    )?;
    once(
        cx,
        "status-recv 19",
        "wc:status=fatal-err,opcode=recv,count=1,size=64",
    )?;
    once(
        cx,
        "status-ex 11",
        "wc:status=rem-op-err,opcode=send,count=1",
    )
}

/// Each status, of a real request whose completion rxe reports as a success.
fn statuses(cx: &Context) -> Verdict {
    STATUSES.iter().try_for_each(|(name, number)| {
        let rule = format!("wc:status={name},opcode=send,count=1");
        once(cx, &format!("status {number}"), &rule)
    })
}

fn fails(cx: &Context, calls: &[&str]) -> Verdict {
    calls.iter().try_for_each(|call| {
        let rule = format!("fail:call={call},errno=ENOSPC,after=1,count=1");
        once(cx, &format!("call {call} 28"), &rule)
    })
}

fn calls(cx: &Context) -> Verdict {
    fails(cx, &["create_qp", "modify_qp", "reg_mr"])
}

fn all_calls(cx: &Context) -> Verdict {
    fails(
        cx,
        &[
            "alloc_pd", "create_ah", "create_cq", "create_srq", "post_recv", "query_port",
            "query_qp", "req_notify_cq",
        ],
    )
}

/// A program that polls the event descriptor gets each injected event. The kernel does not know of them. An
/// event of a queue pair is raised on all that there are then.
fn events(cx: &Context) -> Verdict {
    for (name, number, from) in [
        ("cq-err", 0, 0),
        ("qp-fatal", 1, 300),
        ("comm-est", 4, 0),
        ("device-fatal", 8, 300),
        ("port-active", 9, 0),
        ("port-err", 10, 0),
        ("srq-limit-reached", 15, 0),
        ("gid-change", 18, 0),
    ] {
        let rule = format!("event:type={name},from={from}ms,device=rxe0");
        let (_, faults) = run(cx, &format!("event {number} {from}"), &rule)?;
        ensure(faults > 0, format!("{name}: no fault is logged"))?;
    }
    Ok(())
}

/// ibv_asyncwatch blocks in ibv_get_async_event. It gets injected events, and then those of the kernel.
fn events_blocking(cx: &Context) -> Verdict {
    const LIMIT: Duration = Duration::from_secs(60);
    let second = MachineState {
        second_device: true,
        ..MachineState::default()
    };
    let _rxe1 = Setting::new(&second)?;
    let program = cx
        .program(["stdbuf", "-oL", "ibv_asyncwatch", "-d", "rxe1"])
        .library(&cx.library_dir(Library::Ours))
        .env(
            "IBV_FAULTS",
            "event:type=lid-change,from=50ms; event:type=sm-change,from=300ms",
        );
    let running = program.spawn()?;
    let says = |text: &str| {
        let found = wait_until(LIMIT, || running.output().contains(text));
        let why = format!("it does not say {text}: {}", running.output());
        ensure(found, why)
    };
    says("IBV_EVENT_LID_CHANGE")?;
    says("IBV_EVENT_SM_CHANGE")?;
    sh("ip link set rd1 down")?;
    says("IBV_EVENT_PORT_ERR")?;
    sh("ip link set rd1 up")?;
    says("IBV_EVENT_PORT_ACTIVE")
}
