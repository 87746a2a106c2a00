//! The unmodified tests of pyverbs. One Python process imports them once for many tests, and forks for
//! each (suites/pyverbs_runner.py). Compared are: pass, skip or fail; the reason of a skip; the last line
//! of the traceback.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{masks, tries};
use crate::context::{Context, Library, last_lines, succeeded};
use crate::machine::Member;
use crate::place::sh;
use crate::process::{Program, read};
use crate::verdict::{Failure, Verdict, ensure};

/// Where Debian's package has the tests, some of them compressed.
const TESTS: &str = "/usr/share/doc/rdma-core/tests";
const PYTHON: &str = "/usr/bin/python3";
/// How many tests run on one library before they run on the other. If the machine stops, these run again.
const AT_ONCE: usize = 70;
/// Fewer tests than this mean that most were not found.
const AT_LEAST: usize = 250;
/// Its device's node in sysfs.
const DEVICE: &str = "/sys/devices/virtual/infiniband/rxe0";

pub fn members() -> Vec<Member> {
    vec![Member::new("suites/pyverbs", all).limit(5400)]
}

/// Reports each test as a case; passes itself if there were enough.
fn all(cx: &Context) -> Verdict {
    let tests = unpack(cx)?;
    let names = names(cx, &tests)?;
    let done = cx.reported();
    let wanted = |name: &&String| {
        let case = format!("{}/{name}", cx.name);
        cx.selects(&case) && !done.contains(&case)
    };
    let chosen: Vec<&String> = names.iter().filter(wanted).collect();
    let any = chosen.len() + done.len() > 0;
    ensure(any, "no test has such a name")?;
    let _interface = Interface::show(cx)?;
    for names in chosen.chunks(AT_ONCE) {
        for library in Library::BOTH {
            run(cx, &tests, library, names)?;
        }
        for name in names {
            cx.report(name, compare(cx, name))?;
        }
    }
    Ok(())
}

fn unpack(cx: &Context) -> Result<PathBuf, Failure> {
    if !Path::new(TESTS).exists() {
        let why = format!("{TESTS} is missing: run scripts/install-deps suites");
        return Err(Failure::skip(why));
    }
    let tests = cx.dir().join("tests");
    sh(&format!(
        "mkdir {0} && cp {TESTS}/* {0}/ && gunzip -qf {0}/*.gz",
        tests.display()
    ))?;
    Ok(tests)
}

/// All tests: MODULE.CLASS.TEST.
fn names(cx: &Context, tests: &Path) -> Result<Vec<String>, Failure> {
    let argv = [PYTHON, "-B", "run_tests.py", "--list-tests"];
    let listed = cx
        .program(argv)
        .dir(tests)
        .limit(Duration::from_secs(200))
        .run()?;
    succeeded("run_tests.py --list-tests", &listed)?;
    let lines = listed.out.lines();
    let names: Vec<String> = lines
        .filter_map(|line| line.trim().strip_prefix("tests."))
        .map(String::from)
        .collect();
    let why = format!("{} tests, at least {AT_LEAST} were expected", names.len());
    ensure(names.len() >= AT_LEAST, why).map_err(|f| f.with(last_lines(&listed.out, 20)))?;
    Ok(names)
}

fn results(cx: &Context, name: &str, library: Library) -> PathBuf {
    let dir = format!("results/pyverbs:{name}/{}", library.name());
    cx.dir().join(dir)
}

/// Runs these tests. The head of pyverbs_runner.py describes the files.
fn run(cx: &Context, tests: &Path, library: Library, names: &[&String]) -> Verdict {
    let mut list = String::new();
    let mut flaky = String::new();
    for name in names {
        fs::create_dir_all(results(cx, name, library))?;
        list += &format!("pyverbs:{name}\n");
        if tries(&format!("pyverbs/{name}")) > 1 {
            flaky += &format!("pyverbs:{name}\n");
        }
    }
    fs::create_dir_all(cx.dir().join("in"))?;
    cx.write("in/flaky", flaky)?;
    let list = cx.write("in/names", list)?;
    let runner = cx.source("suites/pyverbs_runner.py");
    let words = [
        PYTHON,
        &runner.to_string_lossy(),
        library.name(),
        &list.to_string_lossy(),
    ]
    .map(String::from);
    let mut program: Program = cx
        .program(words)
        .dir(tests)
        .env("OUT", cx.dir())
        .env("PYVERBS_REPORT", "-")
        .limit(Duration::from_secs(2400));
    if library == Library::Ours {
        program = program.library(&cx.library_dir(library));
    }
    succeeded("pyverbs_runner.py", &program.run()?)
}

/// The outcome of a test with one library.
struct Outcome {
    exit: String,
    reason: String,
    libraries: BTreeSet<String>,
    err: String,
}

impl Outcome {
    fn of(cx: &Context, name: &str, library: Library) -> Self {
        let dir = results(cx, name, library);
        let text = |file: &str| read(&dir.join(file));
        Self {
            exit: text("exit").trim().into(),
            reason: masks::mask(&text("reason")).trim().into(),
            libraries: text("test.lib").lines().map(String::from).collect(),
            err: last_lines(&text("test.err"), 30),
        }
    }
}

fn compare(cx: &Context, name: &str) -> Verdict {
    let c = Outcome::of(cx, name, Library::C);
    let ours = Outcome::of(cx, name, Library::Ours);
    // A test that does not end with either library is no comparison.
    let ends = ["pass", "skip", "fail", "error"].contains(&c.exit.as_str());
    ensure(ends, format!("c: ended with {:?}", c.exit)).map_err(|f| f.with(&c.err))?;
    let described = |outcome: &Outcome| format!("{} ({})", outcome.exit, outcome.reason);
    let why = format!("ours: {}, c: {}", described(&ours), described(&c));
    ensure(described(&ours) == described(&c), why).map_err(|f| f.with(&ours.err))?;
    let own = cx.library(Library::Ours).to_string_lossy().into_owned();
    let on_c = c.libraries.iter().all(|file| !file.starts_with("/run/"));
    ensure(
        on_c && c.libraries.len() == 1,
        format!("c: ran on the wrong library: {:?}", c.libraries),
    )?;
    ensure(
        ours.libraries == BTreeSet::from([own]),
        format!("ours: ran on the wrong library: {:?}", ours.libraries),
    )
}

/// The device's network interface in sysfs, where the tests search for it: only hardware has it there.
struct Interface;

impl Interface {
    fn show(cx: &Context) -> Result<Self, Failure> {
        let added = cx.dir().join("sysfs");
        fs::create_dir_all(added.join("device/net/rd0"))?;
        let lower = format!("lowerdir={}:{DEVICE}", added.display());
        sh(&format!("mount -t overlay -o {lower} overlay {DEVICE}"))?;
        Ok(Self)
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        if let Err(failure) = sh(&format!("umount {DEVICE}")) {
            println!("{failure}");
        }
    }
}
