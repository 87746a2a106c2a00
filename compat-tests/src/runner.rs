//! A run: selects cases, prepares what they need, runs them, and reports.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use std::{env, io};

use crate::arguments::Arguments;
use crate::attempt::{Attempt, Concluded};
use crate::case::{Case, Tier};
use crate::pattern::Patterns;
use crate::process::{
    AFTER_OTHERS, clear_variables, die_with_parent, read, set_priority, set_priority_of_descendants,
};
use crate::report::{Report, Summary};
use crate::sandbox::Isolation;
use crate::schedule::{self, Job, Resources};
use crate::verdict::{Failure, Finished, Outcome};
use crate::{artifacts, flaky, junit, paths};

/// How many runs are kept in target/compat.
const KEPT_RUNS: usize = 4;

/// The variable with which what fails gets no second try: for tests of the tests, which know that
/// it will fail.
pub const ONE_TRY: &str = "COMPAT_TESTS_ONE_TRY";

/// The cases to run.
#[derive(Debug, Clone)]
pub struct Options {
    pub tier: Tier,
    pub patterns: Patterns,
}

/// The cases that the patterns select: without patterns, all of the tier. A pattern selects cases of
/// longer tiers only if it is the name of one, or if it matches no others.
pub fn select<'a>(cases: &'a [Case], options: &Options) -> Vec<&'a Case> {
    let patterns = &options.patterns.0;
    if patterns.is_empty() {
        let fits = |case: &&Case| case.tier <= options.tier;
        return cases.iter().filter(fits).collect();
    }
    let found: BTreeSet<usize> = patterns
        .iter()
        .flat_map(|pattern| select_by(cases, pattern, options.tier))
        .collect();
    found.into_iter().map(|index| &cases[index]).collect()
}

/// The indices of the cases that one pattern selects.
fn select_by(cases: &[Case], pattern: &str, tier: Tier) -> Vec<usize> {
    let matching = matching(cases, pattern);
    let named = |case: &Case| case.name == pattern || case.names().contains(&pattern);
    let fits = |index: &usize| cases[*index].tier <= tier;
    if !matching.iter().any(fits) {
        return matching;
    }
    let selected = matching
        .into_iter()
        .filter(|index| fits(index) || named(&cases[*index]));
    selected.collect()
}

/// The indices of the cases of all tiers that a pattern matches.
fn matching(cases: &[Case], pattern: &str) -> Vec<usize> {
    let patterns = Patterns(vec![pattern.into()]);
    let matches = |case: &Case| {
        let selected = |name: &&str| patterns.select(name) || patterns.name_below(name);
        case.names().iter().any(selected)
    };
    let indices = 0..cases.len();
    indices.filter(|index| matches(&cases[*index])).collect()
}

/// How many names the patterns match in cases that are not selected, because they belong to a longer tier.
fn left_out(cases: &[Case], selected: &[&Case], patterns: &Patterns) -> usize {
    let matching: BTreeSet<usize> = patterns
        .0
        .iter()
        .flat_map(|pattern| matching(cases, pattern))
        .collect();
    matching
        .into_iter()
        .map(|index| &cases[index])
        .filter(|case| !selected.iter().any(|other| std::ptr::eq(*other, *case)))
        .map(|case| case.selected(patterns).len())
        .sum()
}

/// A run: its directory, and what it found out before the first case.
struct Run {
    dir: PathBuf,
    staged: PathBuf,
    isolation: Isolation,
    /// Programs that did not compile, with the compiler's messages.
    broken: BTreeMap<String, String>,
    patterns: Patterns,
    report: Report,
    /// The failures: the case, and the name that it reported.
    failed: Mutex<Vec<(String, String)>>,
    /// Batch cases have a lower priority than others: until only they are left.
    batch_yields: AtomicBool,
}

/// The message if no case matches: how names look, and those that contain a word of the patterns.
fn no_case(cases: &[Case], patterns: &Patterns) -> String {
    let names = cases.iter().flat_map(Case::names);
    let words = patterns
        .0
        .iter()
        .flat_map(|pattern| pattern.split(['/', '*']));
    let words: Vec<&str> = words.filter(|word| word.len() > 2).collect();
    let similar = names.filter(|name| words.iter().any(|word| name.contains(word)));
    let similar: Vec<&str> = similar.take(6).collect();
    let mut text = format!(
        "no case matches: {} (they look like uroce/verbs; cargo run -p compat-tests -- --list --all)",
        patterns.0.join(" ")
    );
    if !similar.is_empty() {
        text += &format!("\nsimilar: {}", similar.join(" "));
    }
    text
}

/// Runs the selected cases. The error is for what prevents the whole run.
pub fn run(cases: &[Case], options: &Options) -> Result<Summary, String> {
    let selected = select(cases, options);
    if selected.is_empty() {
        return Err(no_case(cases, &options.patterns));
    }
    let dir = new_directory().map_err(|e| e.to_string())?;
    let more = left_out(cases, &selected, &options.patterns);
    if more > 0 {
        println!("{more} more cases of these names take longer: make test-all T=... runs them");
    }
    let run = prepare(dir, &selected, options)?;
    let timings = timings();
    let jobs = selected.iter().enumerate().map(|(index, case)| Job {
        index,
        needs: case.needs.clone(),
        estimate: timings.get(&case.name).copied().unwrap_or(case.estimate),
    });
    let case = |index: usize| run.run_case(selected[index]);
    let only_batch = || run.stop_yielding();
    let silent = |running: &[(usize, Duration)]| {
        let names = running.iter().map(|(index, since)| {
            let seconds = since.as_secs();
            let name = &selected[*index].name;
            format!("{name} ({}:{:02})", seconds / 60, seconds % 60)
        });
        println!("still running: {}", names.collect::<Vec<_>>().join(", "));
    };
    schedule::run(
        jobs.collect(),
        Resources::of_machine(),
        case,
        only_batch,
        silent,
    );
    run.second_tries(&selected);
    let summary = run.report.end();
    let mut written = fs::write(run.dir.join("junit.xml"), junit::of(&summary)?)
        .and_then(|()| summary.write(&run.dir));
    // With patterns, a case may have run some of its members only.
    if options.patterns.0.is_empty() {
        written = written.and_then(|()| keep_timings(timings, &summary));
    }
    written.map_err(|e| e.to_string())?;
    Ok(summary)
}

fn prepare(dir: PathBuf, selected: &[&Case], options: &Options) -> Result<Run, String> {
    let staged = dir.join("staged");
    let libraries = artifacts::stage_libraries(&staged)?;
    artifacts::stage_programs(&staged)?;
    let total: usize = selected
        .iter()
        .map(|case| case.selected(&options.patterns).len())
        .sum();
    println!("{total} cases, results in {}", dir.display());
    for (library, file) in libraries {
        println!("{:4} {}", library.name(), file.display());
    }
    let programs: BTreeSet<String> = selected
        .iter()
        .flat_map(|case| case.needs.programs.clone())
        .collect();
    let broken = artifacts::build_programs(&staged, &programs);
    let isolation = Isolation::find();
    let patterns = options.patterns.clone();
    Ok(Run {
        dir,
        staged,
        isolation,
        broken,
        patterns,
        report: Report::new(total),
        failed: Mutex::default(),
        batch_yields: AtomicBool::new(true),
    })
}

impl Run {
    /// Runs a case and reports what it reports; the members of a machine, which takes long, as they come.
    fn run_case(&self, case: &Case) {
        let dir = self.dir.join(directory_name(&case.name));
        let concluded = self.attempt(case, &self.patterns, &dir, &|result| self.add(case, result));
        // The time of some members only says nothing about the next run of all.
        let ran_all = case.selected(&self.patterns).len() == case.names().len();
        if ran_all && !concluded.skipped {
            self.report.took(&case.name, concluded.took);
        }
        if concluded.sums_up {
            self.report.withdraw();
        }
    }

    fn add(&self, case: &Case, result: Finished) {
        if result.outcome == Outcome::Failed {
            let name = result.name.clone();
            self.failed().push((case.name.clone(), name));
        }
        let expected = case
            .selected(&self.patterns)
            .contains(&result.name.as_str());
        self.report.add(result, expected);
    }

    fn failed(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        let failed = self.failed.lock();
        failed.unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Only batch cases are left: those that run, and those that follow, need not wait for other work of the
    /// machine any more.
    fn stop_yielding(&self) {
        self.batch_yields.store(false, Ordering::SeqCst);
        set_priority_of_descendants(0);
    }

    /// Runs the cases that failed and are listed as flaky once more, one at a time. What passes then is
    /// unstable. Any other case stays failed.
    fn second_tries(&self, selected: &[&Case]) {
        let mut failed = std::mem::take(&mut *self.failed());
        failed.retain(|(_, name)| flaky::tries(name) > 1);
        if env::var_os(ONE_TRY).is_some() {
            return;
        }
        for case in selected {
            let of_case = failed.iter().filter(|(owner, _)| *owner == case.name);
            let names: Vec<String> = of_case.map(|(_, name)| name.clone()).collect();
            if names.is_empty() {
                continue;
            }
            println!("second try: {}", names.join(" "));
            let dir = directory_name(&case.name) + "-try-2";
            let results = RefCell::new(Vec::new());
            let patterns = Patterns(names.clone());
            self.attempt(case, &patterns, &self.dir.join(dir), &|result| {
                results.borrow_mut().push(result)
            });
            for name in names {
                if passed(&results.borrow(), case, &name) {
                    self.report.passed_later(&name);
                }
            }
        }
    }

    /// Runs a case's process in this directory.
    fn attempt(
        &self,
        case: &Case,
        patterns: &Patterns,
        dir: &Path,
        report: &dyn Fn(Finished),
    ) -> Concluded {
        let attempt = Attempt::new(case, patterns, dir, report);
        let child = self.ready(case).and_then(|command| {
            fs::create_dir_all(dir)?;
            fs::set_permissions(dir, fs::Permissions::from_mode(0o777))?;
            Ok(self.start(case, &command, dir, patterns)?)
        });
        attempt.run(child)
    }

    /// The command that starts the case's process, or why it cannot run.
    fn ready(&self, case: &Case) -> Result<Vec<String>, Failure> {
        let broken = case
            .needs
            .programs
            .iter()
            .find_map(|name| self.broken.get_key_value(name));
        if let Some((name, messages)) = broken {
            return Err(Failure::new(format!("{name} does not compile")).with(messages));
        }
        if let Some(action) = case.before {
            action()?;
        }
        self.isolation.command_for(case.sandbox)
    }

    fn start(
        &self,
        case: &Case,
        prefix: &[String],
        dir: &Path,
        patterns: &Patterns,
    ) -> io::Result<Child> {
        let own = env::current_exe()?.to_string_lossy().into_owned();
        let args = Arguments {
            name: case.name.clone(),
            dir: dir.into(),
            staged: self.staged.clone(),
            patterns: patterns.clone(),
        };
        let words: Vec<String> = prefix
            .iter()
            .cloned()
            .chain([own])
            .chain(args.words())
            .collect();
        let log = File::create(dir.join("log"))?;
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        clear_variables(&mut command);
        // A group of its own, so that ^C reaches the runner alone, whose end ends all.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        die_with_parent(&mut command);
        if case.needs.batch && self.batch_yields.load(Ordering::SeqCst) {
            set_priority(&mut command, AFTER_OTHERS);
        }
        command.spawn()
    }
}

/// Whether what failed under this name passed in a second try. A case that only sums up others has no verdict
/// of its own then.
fn passed(results: &[Finished], case: &Case, name: &str) -> bool {
    match results.iter().find(|result| result.name == name) {
        Some(result) => result.outcome == Outcome::Passed,
        None => {
            let failed = |result: &Finished| result.outcome == Outcome::Failed;
            name == case.name && !results.is_empty() && !results.iter().any(failed)
        }
    }
}

/// The directory of a case below that of the run.
fn directory_name(name: &str) -> String {
    name.replace([':', ' '], "-")
}

/// Creates the directory of this run in target/compat, makes `last` a link to it, and removes old ones.
fn new_directory() -> io::Result<PathBuf> {
    let all = paths::target().join("compat");
    fs::create_dir_all(&all)?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let name = format!(
        "run-{}-{}",
        now.map_or(0, |time| time.as_secs()),
        std::process::id()
    );
    let dir = all.join(&name);
    fs::create_dir(&dir)?;
    let link = all.join(format!(".last-{}", std::process::id()));
    std::os::unix::fs::symlink(&name, &link)?;
    fs::rename(link, all.join("last"))?;
    let mut runs: Vec<PathBuf> = fs::read_dir(&all)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with("run-"))
        })
        .collect();
    runs.sort();
    for old in &runs[..runs.len().saturating_sub(KEPT_RUNS)] {
        if !is_running(old) {
            fs::remove_dir_all(old)?;
        }
    }
    Ok(dir)
}

/// Whether the process that made this run's directory still exists.
fn is_running(dir: &Path) -> bool {
    let name = dir.to_string_lossy();
    name.rsplit('-')
        .next()
        .is_some_and(|id| Path::new("/proc").join(id).exists())
}

/// How long each case took when it last ran here.
fn timings() -> BTreeMap<String, Duration> {
    let text = read(&paths::target().join("compat/timings.json"));
    let seconds: BTreeMap<String, f64> = serde_json::from_str(&text).unwrap_or_default();
    let duration = |s: f64| Duration::try_from_secs_f64(s).unwrap_or_default();
    seconds
        .into_iter()
        .map(|(name, s)| (name, duration(s)))
        .collect()
}

fn keep_timings(mut known: BTreeMap<String, Duration>, run: &Summary) -> io::Result<()> {
    for (name, took) in &run.times {
        known.insert(
            name.clone(),
            Duration::try_from_secs_f64(took.seconds).unwrap_or_default(),
        );
    }
    let seconds: BTreeMap<_, _> = known
        .iter()
        .map(|(name, time)| (name, time.as_secs_f64()))
        .collect();
    let own = paths::target().join(format!("compat/.timings-{}", std::process::id()));
    fs::write(&own, serde_json::to_string_pretty(&seconds)?)?;
    fs::rename(own, paths::target().join("compat/timings.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the selected cases, and how many names of longer cases are left out.
    fn selection(tier: Tier, patterns: &[&str]) -> (Vec<String>, usize) {
        let case = |name: &str, tier| Case::new(name, |_| Ok(())).tier(tier);
        let cases = [
            case("a/quick", Tier::Check),
            case("a/long", Tier::All),
            case("b/long", Tier::All).members(vec!["b/long/1".into(), "b/long/2".into()]),
        ];
        let patterns = Patterns(patterns.iter().map(|p| p.to_string()).collect());
        let options = Options { tier, patterns };
        let selected = select(&cases, &options);
        let names = selected.iter().map(|case| case.name.clone()).collect();
        (names, left_out(&cases, &selected, &options.patterns))
    }

    fn names(tier: Tier, patterns: &[&str]) -> Vec<String> {
        selection(tier, patterns).0
    }

    #[test]
    fn longer_cases_are_counted_only_if_a_pattern_matches_them() {
        assert_eq!(selection(Tier::Test, &[]), (vec!["a/quick".into()], 0));
        assert_eq!(selection(Tier::Test, &["a"]), (vec!["a/quick".into()], 1));
        assert_eq!(selection(Tier::Test, &["*"]), (vec!["a/quick".into()], 3));
        assert_eq!(selection(Tier::All, &["*"]).1, 0);
    }

    #[test]
    fn a_pattern_selects_within_the_tier() {
        assert_eq!(names(Tier::Test, &[]), ["a/quick"]);
        assert_eq!(names(Tier::Test, &["a"]), ["a/quick"]);
        assert_eq!(names(Tier::Test, &["a*g"]), ["a/long"]);
        assert_eq!(names(Tier::All, &["a"]), ["a/quick", "a/long"]);
    }

    #[test]
    fn a_name_selects_its_case_in_any_tier() {
        assert_eq!(names(Tier::Check, &["a/long"]), ["a/long"]);
        assert_eq!(names(Tier::Check, &["a", "a/long"]), ["a/quick", "a/long"]);
        assert_eq!(
            names(Tier::Check, &["*", "b/long/2"]),
            ["a/quick", "b/long"]
        );
    }

    #[test]
    fn a_pattern_that_matches_only_longer_cases_selects_them() {
        assert_eq!(names(Tier::Check, &["b"]), ["b/long"]);
        assert_eq!(names(Tier::Check, &["b/long/*"]), ["b/long"]);
        assert!(names(Tier::Check, &["c"]).is_empty());
    }
}
