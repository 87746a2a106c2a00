//! The report of a run: lines on the terminal, and report.json.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::flaky;
use crate::verdict::{Finished, Outcome};

/// Why a case passed at a second try that is not listed as flaky.
const ANOTHER_MACHINE: &str = "The virtual machine stopped, and another one ran the case.";

/// Collects the finished cases and prints a line for each.
pub struct Report {
    started: Instant,
    state: Mutex<State>,
}

struct State {
    finished: Vec<Finished>,
    total: usize,
    times: BTreeMap<String, Took>,
}

/// The time that the process of a case took, in seconds. The CPU time is also that of programs that
/// it waited for.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Took {
    pub seconds: f64,
    pub cpu: f64,
}

impl Report {
    /// `total` is the number of cases that are expected.
    pub fn new(total: usize) -> Self {
        Self {
            started: Instant::now(),
            state: Mutex::new(State {
                finished: Vec::new(),
                total,
                times: BTreeMap::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds a case; `expected` says that it was counted in the total.
    pub fn add(&self, case: Finished, expected: bool) {
        let mut state = self.state();
        state.total += usize::from(!expected);
        let number = state.finished.len() + 1;
        let width = state.total.to_string().len();
        println!("[{number:width$}/{}] {}", state.total, line(&case));
        state.finished.push(case);
    }

    /// Notes what the process of a case took.
    pub fn took(&self, name: &str, took: Took) {
        self.state().times.insert(name.into(), took);
    }

    /// A case that was expected reports others in its place.
    pub fn withdraw(&self) {
        let mut state = self.state();
        state.total = state.total.saturating_sub(1);
    }

    /// Marks the failed case or member of this name as unstable: it has passed at its second try.
    /// The first one's reason and details stay.
    pub fn passed_later(&self, name: &str) {
        let mut state = self.state();
        let failed = |case: &&mut Finished| case.name == name && case.outcome == Outcome::Failed;
        if let Some(case) = state.finished.iter_mut().find(failed) {
            case.outcome = Outcome::Unstable;
            println!("{}", line(case));
        }
    }

    /// The end: returns the summary, and all cases by name.
    pub fn end(self) -> Summary {
        let state = self
            .state
            .into_inner()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut cases = state.finished;
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        Summary {
            cases,
            times: state.times,
            took: self.started.elapsed(),
        }
    }
}

fn line(case: &Finished) -> String {
    let (mark, why) = match case.outcome {
        Outcome::Passed => ("ok      ", String::new()),
        Outcome::Unstable => ("unstable", format!(": {}", case.why)),
        Outcome::Failed => ("FAILED  ", format!(": {}", case.why)),
        Outcome::Skipped => ("skipped ", format!(": {}", case.why)),
    };
    format!("{mark} {:5.1} s  {}{why}", case.seconds, case.name)
}

/// A run that has ended.
pub struct Summary {
    pub cases: Vec<Finished>,
    /// The times that the processes of cases took, by the name of the case.
    pub times: BTreeMap<String, Took>,
    pub took: Duration,
}

impl Summary {
    pub fn count(&self, outcome: Outcome) -> usize {
        self.of(outcome).count()
    }

    fn of(&self, outcome: Outcome) -> impl Iterator<Item = &Finished> {
        self.cases
            .iter()
            .filter(move |case| case.outcome == outcome)
    }

    /// A run that tested nothing has not passed.
    pub fn passed(&self) -> bool {
        self.count(Outcome::Failed) == 0
            && self.count(Outcome::Passed) + self.count(Outcome::Unstable) > 0
    }

    /// Failures with their details, the reasons of skipped cases, second tries, and the counts.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for case in self.of(Outcome::Failed) {
            text += &format!("\nFAILED {}: {}\n", case.name, case.why);
            text += &indented(&case.details);
            text += &format!(
                "    log: {}/log\n    again: make test T='{}'\n",
                case.dir, case.name
            );
        }
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for case in self.of(Outcome::Skipped) {
            reasons.entry(&case.why).or_default().push(&case.name);
        }
        for (why, names) in reasons {
            let others = if names.len() > 1 {
                format!(" and {} more", names.len() - 1)
            } else {
                String::new()
            };
            text += &format!("\nskipped {}{others}: {why}\n", names[0]);
        }
        for case in self.of(Outcome::Unstable) {
            text += &format!(
                "\npassed only at a second try: {}: {}\n",
                case.name, case.why
            );
            let reason = flaky::reason(&case.name, &case.why);
            text += &indented(reason.unwrap_or(ANOTHER_MACHINE));
            text += &indented(&case.details);
        }
        text + &self.counts()
    }

    fn counts(&self) -> String {
        let minutes = |seconds: u64| format!("{}:{:02}", seconds / 60, seconds % 60);
        let cpu: f64 = self.times.values().map(|took| took.cpu).sum();
        let unstable = self.count(Outcome::Unstable);
        format!(
            "\n{} passed, {} failed, {} skipped, {unstable} passed only at a second try; \
             {} (CPU time {})\n",
            self.count(Outcome::Passed) + unstable,
            self.count(Outcome::Failed),
            self.count(Outcome::Skipped),
            minutes(self.took.as_secs()),
            minutes(cpu as u64)
        )
    }

    /// Writes all cases, and what their processes took, to JSON files in this directory.
    pub fn write(&self, dir: &Path) -> std::io::Result<()> {
        let cases = serde_json::to_string_pretty(&self.cases)?;
        fs::write(dir.join("report.json"), cases + "\n")?;
        let times = serde_json::to_string_pretty(&self.times)?;
        fs::write(dir.join("times.json"), times + "\n")
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Failure;

    fn summary(outcomes: &[Outcome]) -> Summary {
        let report = Report::new(outcomes.len());
        for (i, outcome) in outcomes.iter().enumerate() {
            let mut case = Finished::new(format!("a/{i}"), &Err(Failure::new("why").with("line")));
            case.outcome = *outcome;
            report.add(case, true);
        }
        report.end()
    }

    #[test]
    fn a_run_passes_if_something_passed_and_nothing_failed() {
        use Outcome::*;
        assert!(summary(&[Passed, Skipped]).passed());
        assert!(summary(&[Unstable]).passed());
        assert!(!summary(&[Passed, Failed]).passed());
        assert!(!summary(&[Skipped]).passed());
        assert!(!summary(&[]).passed());
    }

    #[test]
    fn the_text_says_how_to_repeat_a_case_and_why_others_were_skipped() {
        let text = summary(&[Outcome::Failed, Outcome::Skipped, Outcome::Skipped]).text();
        assert!(text.contains("FAILED a/0: why\n    line\n"), "{text}");
        assert!(text.contains("make test T='a/0'"), "{text}");
        assert!(text.contains("skipped a/1 and 1 more: why"), "{text}");
        assert!(text.contains("0 passed, 1 failed, 2 skipped"), "{text}");
    }
}
