//! One try of a case: reads the verdicts of its process while it runs, and what is to be said at its end.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};
use std::{io, mem, thread};

use crate::case::Case;
use crate::context::VERDICTS;
use crate::pattern::Patterns;
use crate::process::{last_lines, read, signal};
use crate::report::Took;
use crate::verdict::{Failure, Finished, Outcome};

/// A case's process, while it runs.
pub struct Attempt<'a> {
    case: &'a Case,
    patterns: &'a Patterns,
    dir: &'a Path,
    /// Called with each verdict, as it comes.
    report: &'a dyn Fn(Finished),
    started: Instant,
    cpu: Duration,
    /// Names that were reported, other than the case's own.
    reported: BTreeSet<String>,
    own: Option<Finished>,
}

/// How a case's process ended.
pub struct Concluded {
    pub took: Took,
    pub skipped: bool,
    /// The case passed, and has reported verdicts for its members in its own place.
    pub sums_up: bool,
}

impl<'a> Attempt<'a> {
    /// `dir` is the case's directory; `patterns` select what it runs.
    pub fn new(
        case: &'a Case,
        patterns: &'a Patterns,
        dir: &'a Path,
        report: &'a dyn Fn(Finished),
    ) -> Self {
        Self {
            case,
            patterns,
            dir,
            report,
            started: Instant::now(),
            cpu: Duration::ZERO,
            reported: BTreeSet::new(),
            own: None,
        }
    }

    /// Waits for the process that was started, or failed to start, and reports what the case has to report.
    pub fn run(mut self, child: Result<Child, Failure>) -> Concluded {
        let ended = child.and_then(|mut child| self.follow(&mut child));
        self.conclude(ended)
    }

    /// Reads verdicts until the process ends, or its time does, of which [`Case::before`] takes none: it may
    /// be a build.
    fn follow(&mut self, child: &mut Child) -> Result<(), Failure> {
        let (mut read_lines, began) = (0, Instant::now());
        loop {
            let ended = try_wait(child)?;
            let text = read(&self.dir.join(VERDICTS));
            // A line without an end is still being written.
            let complete = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
            for line in complete.lines().skip(read_lines) {
                read_lines += 1;
                self.take(serde_json::from_str(line).map_err(|e| format!("{line}: {e}"))?);
            }
            if let Some((status, cpu)) = ended {
                self.cpu = cpu;
                let why = format!("the case's process ended without a verdict: {status}");
                return if self.own.is_some() {
                    Ok(())
                } else {
                    Err(Failure::new(why))
                };
            }
            if began.elapsed() > self.case.limit {
                signal(-(child.id() as i32), libc::SIGKILL);
                let _ = child.wait();
                let limit = self.case.limit.as_secs();
                return Err(Failure::new(format!("not finished after {limit} s")));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn take(&mut self, mut finished: Finished) {
        finished.dir = self.dir.display().to_string();
        if finished.name == self.case.name {
            self.own = Some(finished);
            return;
        }
        self.reported.insert(finished.name.clone());
        (self.report)(finished);
    }

    /// Reports what is left: members without a verdict, and the case's own, unless it only sums up others.
    fn conclude(mut self, ended: Result<(), Failure>) -> Concluded {
        let mut own = match (ended, self.own.take()) {
            (Ok(()), Some(own)) => own,
            (ended, _) => {
                let log = last_lines(&read(&self.dir.join("log")), 20);
                let failed = ended.map_err(|f| if f.skipped { f } else { f.with(log) });
                Finished::new(&self.case.name, &failed)
            }
        };
        own.seconds = self.started.elapsed().as_secs_f64();
        own.dir = self.dir.display().to_string();
        let members = !self.case.members.is_empty();
        let names = self.case.selected(self.patterns);
        for name in names.iter().filter(|_| members) {
            if !self.reported.contains(*name) {
                (self.report)(missing(name, &own));
            }
        }
        let sums_up = !self.reported.is_empty() && own.outcome == Outcome::Passed;
        let concluded = Concluded {
            took: Took {
                seconds: own.seconds,
                cpu: self.cpu.as_secs_f64(),
            },
            skipped: own.outcome == Outcome::Skipped,
            sums_up: sums_up && !members,
        };
        let members_failed = !self.reported.is_empty() && own.outcome == Outcome::Failed;
        if members_failed || !members && !sums_up {
            (self.report)(own);
        }
        concluded
    }
}

/// As `Child::try_wait`, with the CPU time of the process and of those that it has waited for.
fn try_wait(child: &Child) -> io::Result<Option<(ExitStatus, Duration)>> {
    let mut status = 0;
    // SAFETY: rusage has integers only.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: both references are valid for the call.
    let id = unsafe { libc::wait4(child.id() as i32, &mut status, libc::WNOHANG, &mut usage) };
    match id {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        _ => {
            let time = |t: libc::timeval| {
                Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64)
            };
            let cpu = time(usage.ru_utime) + time(usage.ru_stime);
            Ok(Some((ExitStatus::from_raw(status), cpu)))
        }
    }
}

/// The verdict of a member that has reported none, from that of its case.
fn missing(name: &str, own: &Finished) -> Finished {
    let mut missing = own.clone();
    missing.name = name.into();
    if own.outcome == Outcome::Passed {
        missing.outcome = Outcome::Failed;
        missing.why = "no verdict".into();
    }
    missing
}
