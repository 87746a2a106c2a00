//! The host's side: boots a machine until all selected members have a verdict.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::boot::{Boot, End};
use super::guest::{PANIC, RUNNING, STOPPED};
use super::{Machine, Member};
use crate::context::Context;
use crate::process::read;
use crate::verdict::{Failure, Verdict};

/// How many machines a case may need: Soft-RoCE can panic.
const BOOTS: u32 = 8;
/// How many times the machine may stop in a member until that has failed.
const STOPS: u32 = 2;
/// The time until the first member starts, on a busy host.
const PREPARING: Duration = Duration::from_secs(240);

/// The variable that names the member in which the kernel of the first machine panics, for the
/// self-test.
const PANIC_IN: &str = "COMPAT_TESTS_PANIC_IN";

pub fn run(cx: &Context, machine: &Machine, members: &[Member]) -> Verdict {
    if let Ok(name) = std::env::var(PANIC_IN) {
        cx.write(PANIC, name)?;
    }
    if let Some(prepare) = machine.prepare {
        let names: Vec<String> = members
            .iter()
            .flat_map(|member| member.names.clone())
            .collect();
        prepare(cx, &names)?;
    }
    let mut stops: BTreeMap<String, u32> = BTreeMap::new();
    for boot in 1..=BOOTS {
        if is_done(cx, members) {
            return Ok(());
        }
        println!("boot {boot}");
        let stopped = match start(cx, members)? {
            End::Status(0) => return Ok(()),
            // Rust code of the case, which does the same the next time.
            End::Status(status) => (STOPS, format!("ended with status {status}")),
            End::Stopped(why) => (1, why),
        };
        let (weight, why) = stopped;
        let running = read(&cx.dir().join(RUNNING));
        let member = members
            .iter()
            .find(|member| member.names.first().is_some_and(|name| *name == running));
        let Some(member) = member else {
            println!("the machine stopped before its first member: {why}");
            continue;
        };
        println!("the machine stopped in {running}: {why}");
        let count = stops.entry(running.clone()).or_default();
        *count += weight;
        if *count >= STOPS {
            let why = format!("the machine stopped: {why}");
            for name in member.selected(cx) {
                cx.report_as(name, Err(Failure::new(&why)))?;
            }
        }
        let list: Vec<String> = stops.keys().cloned().collect();
        cx.write(STOPPED, list.join("\n"))?;
    }
    Err(Failure::new(format!("gave up after {BOOTS} machines")))
}

/// Boots a machine for the members without a verdict.
fn start(cx: &Context, members: &[Member]) -> Result<End, Failure> {
    let running = cx.dir().join(RUNNING);
    fs::write(&running, "")?;
    let limits: BTreeMap<&String, Duration> = members
        .iter()
        .filter_map(|member| Some((member.names.first()?, member.limit)))
        .collect();
    let boot = Boot::limit(super::HOURS);
    let mut now = (String::new(), Instant::now());
    boot.run_guest_part(cx, || hangs(&running, &limits, &mut now))
}

/// Whether the member that runs, or the time before the first, takes longer than it may.
fn hangs(
    running: &Path,
    limits: &BTreeMap<&String, Duration>,
    now: &mut (String, Instant),
) -> bool {
    let name = read(running);
    if name != now.0 {
        *now = (name, Instant::now());
    }
    let limit = limits.get(&now.0).copied().unwrap_or(PREPARING);
    now.1.elapsed() > limit
}

fn is_done(cx: &Context, members: &[Member]) -> bool {
    let reported = cx.reported();
    let mut selected = members.iter().flat_map(|member| member.selected(cx));
    selected.all(|name| reported.contains(name))
}
