//! rdma-core's pyverbs tests on uroce, on the loopback interface. Each test must pass, or have the
//! outcome that uroce/pyverbs.toml gives: a test that ends otherwise fails, so that file stays correct. It
//! holds for Debian 12's tests, which run here, and for Debian 13's, which run on arm64 (suites/arm64).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use regex_lite::Regex;
use serde::Deserialize;

use crate::case::Case;
use crate::context::{Context, Library};
use crate::paths::text;
use crate::pattern;
use crate::process::{Program, Running, last_lines, read, succeeded};
use crate::sandbox::{Sandbox, sh};
use crate::verdict::{Details, Failure, Verdict, ensure};

/// Where Debian's package has the tests, some of them compressed.
const TESTS: &str = "/usr/share/doc/rdma-core/tests";
const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";
/// How many one of the tests needs.
const NEEDED_PAGES: u32 = 8;
/// Fewer tests than this mean that most were not found.
const AT_LEAST: usize = 250;
/// How lines of IBV_EXPLAIN begin.
const EXPLAIN: &str = "libibverbs: explain: ";
/// The time that the tests take together, at most.
const LIMIT: Duration = Duration::from_secs(500);

/// Tests that do not pass on uroce.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    /// Names, as patterns.
    tests: String,
    uroce: String,
    /// The outcome on kernel rxe.
    #[allow(dead_code, reason = "for the reader of the file")]
    rxe: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exceptions {
    exception: Vec<Exception>,
}

/// Tests that IBV_EXPLAIN explains, and the rules that it names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Explained {
    /// Names, as patterns.
    tests: String,
    rules: BTreeSet<String>,
    /// The rules on kernel rxe, if they differ from `rules`.
    rxe: Option<BTreeSet<String>>,
    #[allow(dead_code, reason = "for the reader of the file")]
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AllExplained {
    finding: Vec<Explained>,
}

/// The cases of pyverbs: in each, one process imports the tests once, and forks for each test.
pub fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Context) -> Verdict| {
        Case::new(name, run)
            .sandbox(Sandbox::Namespace)
            .cpu(150)
            .limit(600)
            .estimate(30)
    };
    vec![
        case("uroce/pyverbs", pyverbs),
        case("explain/pyverbs", explained),
    ]
}

/// Under IBV_EXPLAIN, the tests have the findings of uroce/pyverbs-explained.toml, and no others.
fn explained(cx: &Context) -> Verdict {
    let _pages = HugePages::reserve();
    let tests = unpack(cx)?;
    let names = names(cx, &tests)?;
    for way in [Way::Verbs, Way::RdmaCm] {
        let names: Vec<String> = names
            .iter()
            .filter(|name| way.runs(name))
            .cloned()
            .collect();
        let mut running = start(cx, &tests, way, &names, true)?;
        let exit = running.wait(LIMIT)?;
        succeeded("pyverbs_runner.py", &running.ended(exit)?)?;
    }
    let errors = |name: &str| read(&results(cx, name).join("test.err"));
    as_explained(cx, &names, false, errors)
}

/// Each test has the findings of uroce/pyverbs-explained.toml, and no others. `errors` returns what a test
/// has written to its standard error.
pub fn as_explained(
    cx: &Context,
    names: &[String],
    on_rxe: bool,
    errors: impl Fn(&str) -> String,
) -> Verdict {
    let text = read(&cx.source("uroce/pyverbs-explained.toml"));
    let expected: AllExplained = toml::from_str(&text).map_err(|e| e.to_string())?;
    let mut wrong = String::new();
    for name in names {
        let mut meant = expected.finding.iter();
        let meant = meant.find(|finding| pattern::matches(&finding.tests, name));
        let meant = meant.map_or(BTreeSet::new(), |finding| {
            let rxe = finding.rxe.as_ref().filter(|_| on_rxe);
            rxe.unwrap_or(&finding.rules).clone()
        });
        let errors = errors(name);
        let found = rules(&errors);
        if found != meant {
            wrong += &format!("{name}: {found:?}, not {meant:?}\n{}", lines_of(&errors));
        }
    }
    ensure(wrong.is_empty(), "other findings than expected").with(wrong)
}

/// The lines of IBV_EXPLAIN in a program's output.
fn lines_of(err: &str) -> String {
    let lines = err.lines().filter(|line| line.starts_with(EXPLAIN));
    lines.map(|line| format!("    {line}\n")).collect()
}

/// The rules whose findings a program has written to its standard error: their names end the lines.
fn rules(err: &str) -> BTreeSet<String> {
    let lines = err.lines().filter(|line| line.starts_with(EXPLAIN));
    let name = |line: &str| Some(line.strip_suffix(']')?.rsplit_once('[')?.1.to_string());
    lines.filter_map(name).collect()
}

fn pyverbs(cx: &Context) -> Verdict {
    let exceptions = exceptions(cx)?;
    let _pages = HugePages::reserve();
    let tests = unpack(cx)?;
    let all = names(cx, &tests)?;
    if cx.selects(&format!("{}/exceptions", cx.name)) {
        cx.report("exceptions", all_match(&exceptions, &all))?;
    }
    let selected = |name: &String| cx.selects(&format!("{}/{name}", cx.name));
    let chosen: Vec<String> = all.into_iter().filter(selected).collect();
    if chosen.is_empty() {
        return ensure(
            cx.selects(&format!("{}/exceptions", cx.name)),
            "no test has such a name",
        );
    }
    for way in [Way::Verbs, Way::RdmaCm] {
        let names: Vec<String> = chosen
            .iter()
            .filter(|name| way.runs(name))
            .cloned()
            .collect();
        if !names.is_empty() {
            let running = start(cx, &tests, way, &names, false)?;
            report_as_they_end(cx, &exceptions, running, &names)?;
        }
    }
    Ok(())
}

/// How tests see the device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The tests use verbs only. Some tests run ls(1) on a directory that they find in sysfs. That
    /// program sees only what the kernel has, so the tests must not see more.
    Verbs,
    /// The tests use sysfs, too, where those of rdma_cm find the interface's name.
    RdmaCm,
}

impl Way {
    fn runs(self, name: &str) -> bool {
        name.starts_with("test_rdmacm.") == (self == Way::RdmaCm)
    }

    fn set(self, cx: &Context, program: Program) -> Program {
        match self {
            Way::Verbs => program.env("IBV_UROCE_VIEW", "0"),
            Way::RdmaCm => program.env("LD_PRELOAD", cx.library(Library::Ours)),
        }
    }

    /// The file with the names of the tests.
    fn list(self) -> &'static str {
        match self {
            Way::Verbs => "in/names",
            Way::RdmaCm => "in/names-rdmacm",
        }
    }
}

fn exceptions(cx: &Context) -> Result<Vec<Exception>, Failure> {
    let text = read(&cx.source("uroce/pyverbs.toml"));
    let parsed: Exceptions = toml::from_str(&text).map_err(|e| e.to_string())?;
    Ok(parsed.exception)
}

/// An exception without a test is out of date.
fn all_match(exceptions: &[Exception], names: &[String]) -> Verdict {
    let unused: Vec<&str> = exceptions
        .iter()
        .map(|exception| exception.tests.as_str())
        .filter(|tests| !names.iter().any(|name| pattern::matches(tests, name)))
        .collect();
    let why = format!("uroce/pyverbs.toml: no test matches {}", unused.join(", "));
    ensure(unused.is_empty(), why)
}

/// Copies the package's tests into the case's directory, uncompressed.
fn unpack(cx: &Context) -> Result<PathBuf, Failure> {
    let tests = cx.dir().join("tests");
    ensure(
        Path::new(TESTS).is_dir(),
        format!("{TESTS} is missing: run scripts/install-deps uroce"),
    )?;
    sh(&format!(
        "mkdir {dir}; for file in {TESTS}/*; do name=${{file##*/}}
         zcat -f \"$file\" >\"{dir}/${{name%.gz}}\"; done",
        dir = tests.display()
    ))?;
    Ok(tests)
}

/// Runs on the device `uroce0`.
fn on_uroce(cx: &Context, argv: Vec<String>, tests: &Path) -> Program {
    cx.on_uroce(argv).env("HOME", cx.dir()).dir(tests)
}

/// All tests: MODULE.CLASS.TEST.
fn names(cx: &Context, tests: &Path) -> Result<Vec<String>, Failure> {
    let argv = ["/usr/bin/python3", "-B", "run_tests.py", "--list-tests"];
    let listed = on_uroce(cx, argv.map(String::from).to_vec(), tests);
    let listed = Way::Verbs.set(cx, listed).succeed()?;
    let names: Vec<String> = listed
        .out
        .lines()
        .filter_map(|line| line.trim().strip_prefix("tests."))
        .map(String::from)
        .collect();
    ensure_enough(names.len()).with(last_lines(&listed.out, 20))?;
    Ok(names)
}

/// Starts suites/pyverbs_runner.py, whose head describes the files.
fn start(
    cx: &Context,
    tests: &Path,
    way: Way,
    names: &[String],
    explain: bool,
) -> Result<Running, Failure> {
    let lines: String = names
        .iter()
        .map(|name| format!("pyverbs:{name}\n"))
        .collect();
    fs::create_dir_all(cx.dir().join("in"))?;
    let list = cx.write(way.list(), lines)?;
    cx.write("in/flaky", "")?;
    for name in names {
        let dir = results(cx, name);
        fs::create_dir_all(&dir)?;
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777))?;
    }
    let runner = cx.source("suites/pyverbs_runner.py");
    let argv = vec![
        "/usr/bin/python3".into(),
        text(&runner),
        "uroce".into(),
        text(&list),
    ];
    let program = way
        .set(cx, on_uroce(cx, argv, tests))
        .env("OUT", cx.dir())
        .env("PYVERBS_ARGS", "--dev uroce0")
        .env("PYVERBS_REPORT", "-")
        .env("PYVERBS_LIMIT", "30")
        .env("IBV_EXPLAIN", if explain { "1" } else { "0" });
    Ok(program.spawn()?)
}

fn results(cx: &Context, name: &str) -> PathBuf {
    cx.dir().join(format!("results/pyverbs:{name}/uroce"))
}

/// Reports each test when its line is printed: `@@ pyverbs:NAME uroce OUTCOME MILLISECONDS`.
fn report_as_they_end(
    cx: &Context,
    exceptions: &[Exception],
    mut running: Running,
    names: &[String],
) -> Verdict {
    let line = Regex::new(r"(?m)^@@ pyverbs:(\S+) uroce (\S+) \d+$").map_err(|e| e.to_string())?;
    let deadline = Instant::now() + LIMIT;
    let mut reported = BTreeSet::new();
    loop {
        let ended = !running.is_running() || Instant::now() > deadline;
        for found in line.captures_iter(&running.output()) {
            let name = found[1].to_string();
            if reported.insert(name.clone()) {
                let ours = cx.library_dir(Library::Ours);
                cx.report(&name, judge(cx, exceptions, &ours, &name, &found[2]))?;
            }
        }
        if ended {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let exit = running.wait(Duration::ZERO)?;
    succeeded("pyverbs_runner.py", &running.ended(exit)?)?;
    for name in names.iter().filter(|name| !reported.contains(*name)) {
        cx.report(name, Err("it did not run".into()))?;
    }
    Ok(())
}

/// Reports each test that a machine has run on uroce, which left the runner's files in the case's directory.
/// `ours` is the directory of the library there.
pub fn report_all(cx: &Context, ours: &Path) -> Verdict {
    let exceptions = exceptions(cx)?;
    let names = read(&cx.dir().join("in/names"));
    let names: Vec<String> = names
        .lines()
        .filter_map(|name| name.strip_prefix("pyverbs:"))
        .map(String::from)
        .collect();
    ensure_enough(names.len())?;
    cx.report("exceptions", all_match(&exceptions, &names))?;
    for name in &names {
        let exit = read(&results(cx, name).join("exit"));
        let got = match exit.trim() {
            "" => "not run",
            exit => exit,
        };
        cx.report(name, judge(cx, &exceptions, ours, name, got))?;
    }
    Ok(())
}

fn ensure_enough(count: usize) -> Verdict {
    let why = format!("{count} tests, at least {AT_LEAST} were expected");
    ensure(count >= AT_LEAST, why)
}

/// `ours` is the directory of the library, where the test ran.
fn judge(cx: &Context, exceptions: &[Exception], ours: &Path, name: &str, got: &str) -> Verdict {
    let dir = results(cx, name);
    let reason = read(&dir.join("reason")).trim().to_string();
    let exception = exceptions
        .iter()
        .rfind(|exception| pattern::matches(&exception.tests, name));
    let (wanted, why) = exception.map_or(("pass", String::new()), |exception| {
        (exception.uroce.as_str(), format!(" ({})", exception.reason))
    });
    if got == "skip" && reason.contains("no huge pages") {
        return Err(Failure::skip(format!(
            "{reason}; reserve some in {HUGE_PAGES}"
        )));
    }
    ensure(
        got == wanted,
        format!("{got} ({reason}), not {wanted}{why}"),
    )
    .with(last_lines(&read(&dir.join("test.err")), 30))?;
    // Tests that never call the library are linked to it as well.
    let loaded = read(&dir.join("test.lib"));
    let all_right = loaded
        .lines()
        .all(|file| Path::new(file).parent() == Some(ours));
    let ran_on_ours = !loaded.is_empty() && all_right;
    ensure(
        ran_on_ours || !["pass", "skip"].contains(&got),
        format!("ran on the wrong library: {loaded}"),
    )
}

/// Huge pages that this process has reserved; given back when the value is dropped. Other runs wait until
/// then.
struct HugePages {
    _lock: File,
    before: u32,
}

impl HugePages {
    /// Reserves pages if there are too few and the process has the right. If it has not, or the kernel
    /// finds no free memory, the test says that it needs them.
    fn reserve() -> Option<Self> {
        let lock = File::options().write(true).open(HUGE_PAGES).ok()?;
        // SAFETY: flock takes no pointers.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) } != 0 {
            return None;
        }
        let before = read(HUGE_PAGES.as_ref()).trim().parse().ok()?;
        if before >= NEEDED_PAGES {
            return None;
        }
        fs::write(HUGE_PAGES, NEEDED_PAGES.to_string()).ok()?;
        println!(
            "huge pages: {before} before, now {}",
            read(HUGE_PAGES.as_ref()).trim()
        );
        Some(Self {
            _lock: lock,
            before,
        })
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let given_back = fs::write(HUGE_PAGES, self.before.to_string());
        println!("huge pages given back: {}", given_back.is_ok());
    }
}
