//! The thread that raises asynchronous events when their time has come, and reads the file of rules again. A
//! process has it while IBV_FAULTS is set and a device was opened.

use core::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ibverbs_faults::{Action, Applied};
use ibverbs_os::thread;

use super::file::{INTERVAL, Watched};
use super::{RULES, changes, log_injected, now, objects};

/// When events are due of objects that do not exist yet.
const RETRY: Duration = Duration::from_millis(10);

/// The process whose thread runs, or 0.
static RUNS_IN: AtomicU32 = AtomicU32::new(0);

/// Starts the thread, unless it runs.
pub fn start() {
    let pid = std::process::id();
    if RUNS_IN.swap(pid, Ordering::Relaxed) != pid
        && thread::spawn_detached("ibverbs-faults", run).is_err()
    {
        RUNS_IN.store(0, Ordering::Relaxed);
        log::warn!("IBV_FAULTS: no thread could be started, so no events are raised");
    }
}

fn run() {
    let mut file = Watched::new();
    loop {
        if let Some(file) = &mut file {
            file.reread();
        }
        let seen = changes::seen();
        let due = RULES.with(|rules| rules.due(now())).unwrap_or_default();
        for (number, rule) in due {
            let before = super::list().into_iter().find(|of| of.number == number);
            let applied = Applied {
                number,
                action: rule.action.clone(),
                times: before.map_or(0, |of| of.applied) + 1,
            };
            let log = |about: &str| log_injected(&applied, about);
            let happened = match rule.action {
                Action::Event { kind, .. } => objects::raise(kind, &rule, &log),
                Action::Gids { present } => objects::set_gids(present, &rule, &log),
                _ => continue,
            };
            if happened {
                RULES.with(|rules| rules.raised(number, now()));
            }
        }
        let until = RULES.with(|rules| rules.until_due(now())).flatten();
        let until = until.map(|time| if time.is_zero() { RETRY } else { time });
        let reread = file.as_ref().map(|_| INTERVAL);
        changes::wait(seen, until.into_iter().chain(reread).min());
    }
}

/// The child has no such thread.
pub fn after_fork_in_child() {
    RUNS_IN.store(0, Ordering::Relaxed);
}
