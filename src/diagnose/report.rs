//! Writes findings to stderr or a file, each (rule, object) once, and their counts at exit.
//!
//! Invariants: no lock of this module is held while something is written. errno does not change, and no
//! cancellation point is added to the program's call.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use ibverbs_abi::Errno;
use ibverbs_abi::disable_cancellation;
use ibverbs_os::file_size;

use super::backtrace;
use super::finding::{Finding, Kind, quote};
use super::rules::Rule;
use super::settings::{Output, Settings, Stop};
use crate::log;

/// The findings reported so far, so that each is reported once.
pub struct Reported {
    /// The detail tells failures of several calls on one object apart.
    seen: BTreeSet<(Rule, Kind, usize, (&'static str, i64))>,
    /// How often each rule applied, and to how many objects.
    counts: BTreeMap<Rule, (u64, u64)>,
}

impl Reported {
    pub const fn new() -> Reported {
        Reported {
            seen: BTreeSet::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Counts a finding. Returns whether it is the first of its rule for the object.
    pub fn admit(&mut self, finding: &Finding) -> bool {
        let object = &finding.object;
        let first = self
            .seen
            .insert((finding.rule, object.kind, object.address, finding.detail()));
        let (times, objects) = self.counts.entry(finding.rule).or_default();
        *times += 1;
        *objects += u64::from(first);
        first
    }

    /// The object is gone: another one may get its address.
    pub fn forget(&mut self, kind: Kind, address: usize) {
        self.seen
            .retain(|(_, of, at, _)| (*of, *at) != (kind, address));
    }

    /// Returns what was reported, and begins anew.
    pub fn take(&mut self) -> Reported {
        core::mem::replace(self, Reported::new())
    }

    /// The counts, as the last line; None if nothing was found.
    fn summary(&self) -> Option<String> {
        if self.counts.is_empty() {
            return None;
        }
        let each = self.counts.iter().map(|(rule, (times, objects))| {
            let name = rule.text().name;
            match (times, objects) {
                (1, _) => format!("{name} 1"),
                _ => format!("{name} {times} (on {objects} objects)"),
            }
        });
        Some(each.collect::<Vec<_>>().join(", "))
    }

    /// The counts as JSON.
    fn summary_json(&self, seconds: f64, pid: u32) -> String {
        let each = self.counts.iter().map(|(rule, (times, objects))| {
            let name = rule.text().name;
            format!("\"{name}\":{{\"times\":{times},\"objects\":{objects}}}")
        });
        let counts = each.collect::<Vec<_>>().join(",");
        format!("{{\"time\":{seconds:.6},\"pid\":{pid},\"counts\":{{{counts}}}}}\n")
    }
}

thread_local! {
    static COUNT: Cell<u32> = const { Cell::new(0) };
    static STACK: Cell<u64> = const { Cell::new(0) };
}

/// Remembers where the program's stack ends, in the call that this thread makes.
pub fn set_stack(end: u64) {
    STACK.set(end);
}

/// Where the program's stack ends, in the call that this thread makes; 0 if it is not known.
pub fn stack() -> u64 {
    STACK.get()
}

/// How often something was found, or injected, in calls of this thread. So a wrapper knows whether a call
/// that failed has been explained.
pub fn count() -> u32 {
    COUNT.get()
}

/// Counts one more finding or injection of this thread: see [`count`].
pub fn count_one() {
    COUNT.set(COUNT.get().wrapping_add(1));
}

/// The destination of findings.
enum Destination {
    Stderr,
    File(File),
    Json(File),
}

static DESTINATION: OnceLock<Destination> = OnceLock::new();
static SETTINGS: OnceLock<Settings<'static>> = OnceLock::new();

/// Whether lines say where calls came from, and objects.
pub fn traces() -> bool {
    SETTINGS.get().is_some_and(|settings| settings.backtrace)
}

/// Whether a finding is to be reported.
pub fn is_wanted(finding: &Finding) -> bool {
    let settings = SETTINGS.get();
    settings.is_none_or(|settings| {
        let label = finding.object.label.to_string();
        settings.reports(finding.rule, &label, finding.name.as_deref())
    })
}

/// Opens the output. Falls back to stderr, with a warning, if the file cannot be opened.
pub fn open(settings: Settings<'static>) {
    let output = settings.output;
    // A second call, in a child of fork whose parent was in the first, finds what is there.
    let _ = SETTINGS.set(settings);
    let file = |path: &[u8]| {
        OpenOptions::new()
            .append(true)
            .create(true)
            .custom_flags(libc::O_CLOEXEC)
            .open(std::ffi::OsStr::from_bytes(path))
            .map_err(|error| {
                log::print(&[
                    b"Warning: couldn't open the file of IBV_EXPLAIN '",
                    path,
                    format!("': {error}\n").as_bytes(),
                ]);
            })
    };
    let destination = match output {
        Output::Stderr => Destination::Stderr,
        Output::File(path) => file(path).map_or(Destination::Stderr, Destination::File),
        Output::Json(path) => file(path).map_or(Destination::Stderr, Destination::Json),
    };
    // A second call, in a child of fork whose parent was in the first, finds the destination that is there.
    let _ = DESTINATION.set(destination);
}

/// Whether findings are written.
pub fn is_open() -> bool {
    DESTINATION.get().is_some()
}

fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |time| time.as_secs_f64())
}

/// Writes findings, a line each, whole lines at a time.
pub fn write(findings: &[Finding]) {
    let Some(destination) = DESTINATION.get() else {
        return;
    };
    let settings = SETTINGS.get();
    for finding in findings {
        let from = traces().then(backtrace::called_from);
        put(
            destination,
            || finding.line(),
            || finding.json(now(), std::process::id(), from.as_deref()),
        );
        if let Some(from) = from {
            let created = match &finding.created {
                Some(created) => {
                    format!(
                        "explain:   the {} was created from {created}\n",
                        finding.object.kind.name()
                    )
                }
                None => String::new(),
            };
            put(
                destination,
                || format!("explain:   called from {from}\n"),
                String::new,
            );
            if !created.is_empty() {
                put(destination, || created, String::new);
            }
        }
        let stops = settings.map_or(&[][..], |settings| &settings.stops);
        let of = |(selector, _): &&(_, _)| {
            let selector: &super::settings::Selector = selector;
            selector.selects(
                finding.rule,
                &finding.object.label.to_string(),
                finding.name.as_deref(),
            )
        };
        match stops.iter().find(of) {
            // SAFETY: raise takes a number; a debugger stops, or the program ends.
            Some((_, Stop::Trap)) => drop(unsafe { libc::raise(libc::SIGTRAP) }),
            Some((_, Stop::Abort)) => std::process::abort(),
            None => {}
        }
    }
}

/// Writes the counts, when the program exits; nothing if there are none.
pub fn write_summary(reported: &Reported) {
    let (Some(destination), Some(text)) = (DESTINATION.get(), reported.summary()) else {
        return;
    };
    put(
        destination,
        || format!("explain: counts: {text}\n"),
        || reported.summary_json(now(), std::process::id()),
    );
}

/// The first applications of a rule of IBV_FAULTS get a line each; later each power of ten.
const FAULTS_SHOWN: u64 = 10;

/// Writes that a rule of IBV_FAULTS has applied: its number, its action, and to what. `times`: how often
/// it has applied.
pub fn write_fault(rule: u32, times: u64, action: &str, what: &str) {
    count_one();
    let Some(destination) = DESTINATION.get() else {
        return;
    };
    let is_power = times
        .checked_ilog10()
        .is_some_and(|log| 10_u64.pow(log) == times);
    if times > FAULTS_SHOWN && !is_power {
        return;
    }
    let so_far = match times > FAULTS_SHOWN {
        true => format!(" ({times} times so far)"),
        false => String::new(),
    };
    let what = &format!("{what}{so_far}");
    let json = || {
        let (seconds, pid) = (now(), std::process::id());
        let mut json =
            format!("{{\"time\":{seconds:.6},\"pid\":{pid},\"fault\":{rule},\"action\":");
        quote(&mut json, action);
        json.push_str(",\"what\":");
        quote(&mut json, what);
        json + "}\n"
    };
    put(
        destination,
        || format!("faults: rule {rule}: {what}\n"),
        json,
    );
}

fn put(destination: &Destination, line: impl FnOnce() -> String, json: impl FnOnce() -> String) {
    let errno = Errno::last();
    let _not_cancelled = disable_cancellation();
    // A full file system, or a limit of the file's size, must not disturb the program: the line is lost.
    file_size::without_signal(|| match destination {
        Destination::Stderr => log::print(&[line().as_bytes()]),
        Destination::File(file) => drop((&*file).write_all(line().as_bytes())),
        Destination::Json(file) => drop((&*file).write_all(json().as_bytes())),
    });
    errno.set();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::finding::{Object, Outcome};

    fn finding(rule: Rule, address: usize) -> Finding {
        let object = Object::at(Kind::Qp, address);
        Finding::new(rule, object, "call", Outcome::Succeeded)
    }

    #[test]
    fn each_rule_once_per_object() {
        let mut reported = Reported::new();
        assert_eq!(reported.summary(), None);
        assert!(reported.admit(&finding(Rule::Busy, 1)));
        assert!(!reported.admit(&finding(Rule::Busy, 1)));
        assert!(reported.admit(&finding(Rule::Busy, 2)));
        assert!(reported.admit(&finding(Rule::Leak, 1)));
        let counts = reported.summary().unwrap();
        assert_eq!(counts, "busy 3 (on 2 objects), leak 1");
        reported.forget(Kind::Cq, 1);
        assert!(!reported.admit(&finding(Rule::Busy, 1)));
        reported.forget(Kind::Qp, 1);
        assert!(reported.admit(&finding(Rule::Busy, 1)));
        let json = reported.summary_json(1.0, 2);
        assert!(
            json.contains("\"busy\":{\"times\":5,\"objects\":3}"),
            "{json}"
        );
        assert!(reported.take().summary().is_some());
        assert_eq!(reported.summary(), None);
    }
}
