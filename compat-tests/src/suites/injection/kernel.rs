//! The same on a device of the kernel: that of c/loop over the fake kernel. Verbs, completions, polls and
//! events have faults there; packets do not, because none is seen.

use std::fs;

use ibverbs_faults::{EVENTS, STATUSES};

use super::{built_in_kernel, log, no_packets, one_fault, run_on, slow_cq};
use crate::case::{Case, Tier};
use crate::context::{Context, Library};
use crate::fake::SHIM;
use crate::fake::sysfs::Tree;
use crate::process::Program;
use crate::sandbox::{Sandbox, as_ordinary_user};
use crate::verdict::{Failure, Verdict, ensure};

type CaseBody = fn(&Context) -> Verdict;

pub fn cases() -> impl Iterator<Item = Case> {
    let all: [(&str, CaseBody); 7] = [
        ("statuses", statuses),
        ("calls", calls),
        ("built", |cx| built_in_kernel(cx, run)),
        ("slow-cq", |cx| slow_cq(cx, run)),
        ("events", events),
        ("events-blocking", events_blocking),
        ("packets", |cx| no_packets(cx, run)),
    ];
    all.into_iter().map(|(name, run)| {
        Case::new(format!("inject/kernel/{name}"), run)
            .sandbox(Sandbox::Namespace)
            .programs(&["inject", "loop", SHIM])
            .tier(Tier::Check)
            .limit(120)
    })
}

fn scene(cx: &Context, command: &str, rules: &str) -> Result<Program, Failure> {
    let tree = Tree::new(["loop0"]);
    let sys = cx.dir().join("sys");
    tree.write(&sys)?;
    fs::copy(cx.built("loop")?, cx.dir().join("libloop-rdmav34.so"))?;
    let words = command.split(' ').map(Into::into);
    Ok(cx
        .program([cx.built("inject")?].into_iter().chain(words))
        .under(as_ordinary_user())
        .library(&cx.library_dir(Library::Ours))
        .env("LD_PRELOAD", cx.built(SHIM)?)
        .env("SYSFS_PATH", sys)
        .env("FAKE_NL_DEVICES", tree.netlink())
        .env("IBV_DRIVERS", cx.dir().join("libloop"))
        .env("DEVICE", "loop0")
        .env("VERBS_LOG_LEVEL", "2")
        .env("VERBS_LOG_FILE", log(cx))
        .env("IBV_FAULTS", rules))
}

/// Runs a scene, which succeeds. Returns what it printed, and how many faults the log has.
fn run(cx: &Context, command: &str, rules: &str) -> Result<(String, usize), Failure> {
    run_on(cx, &scene(cx, command, rules)?)
}

fn statuses(cx: &Context) -> Verdict {
    for (name, number) in STATUSES {
        let rule = format!("wc:status={name},opcode=send,count=1");
        one_fault(cx, run, &format!("status {number}"), &rule)?;
    }
    let rule = "wc:status=fatal-err,opcode=recv,count=1,size=64";
    run(cx, "status-recv 19", rule).map(drop)
}

/// The verbs that the provider has.
const CALLS: &[&str] = &[
    "alloc_pd", "create_cq", "create_qp", "create_qp_ex", "create_srq", "modify_qp", "post_recv",
    "query_device_ex", "query_port", "query_qp", "reg_mr", "req_notify_cq",
];

fn calls(cx: &Context) -> Verdict {
    for call in CALLS {
        let rule = format!("fail:call={call},errno=ENOSPC,after=1,count=1");
        one_fault(cx, run, &format!("call {call} 28"), &rule)?;
    }
    Ok(())
}

/// Each event is raised and can be waited for; objects that had events are destroyed.
fn events(cx: &Context) -> Verdict {
    for (name, number) in EVENTS {
        let moves_to_error = matches!(name, "qp-fatal" | "device-fatal");
        let (from, rule) = match moves_to_error {
            true => (300, format!("event:type={name},from=300ms,device=loop0")),
            false => (0, format!("event:type={name}")),
        };
        let (_, faults) = run(cx, &format!("event {number} {from}"), &rule)?;
        ensure(faults > 0, format!("{name}: no fault is logged"))?;
    }
    Ok(())
}

/// A program that blocks in ibv_get_async_event gets injected events and those of the kernel. A destroyed
/// object's events that were not read disappear.
fn events_blocking(cx: &Context) -> Verdict {
    let rules = "event:type=port-err,from=50ms; event:type=comm-est,from=500ms";
    run(cx, "waits", rules).map(drop)
}
