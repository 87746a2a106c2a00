//! The unmodified tests of pyverbs. One Python process imports them once for many tests, and forks for
//! each (suites/pyverbs_runner.py). Compared are: pass, skip or fail; the reason of a skip; the last line
//! of the traceback.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::masks;
use crate::context::{Context, Library};
use crate::flaky;
use crate::machine::Member;
use crate::paths::text;
use crate::process::{Exit, Program, last_lines, read};
use crate::sandbox::sh;
use crate::suites::pyverbs::as_explained;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// Where Debian's package has the tests, some of them compressed.
const TESTS: &str = "usr/share/doc/rdma-core/tests";
const PYTHON: &str = "/usr/bin/python3";
const RUNNER: &str = "pyverbs_runner.py";
/// How many tests run on one library before they run on the other. If the machine stops, these run again.
const AT_ONCE: usize = 70;
/// Fewer tests than this mean that most were not found.
const AT_LEAST: usize = 250;
/// The sysfs node of the device that the tests use.
const DEVICE: &str = "sys/devices/virtual/infiniband/rxe0";

pub fn members() -> Vec<Member> {
    vec![
        Member::new("suites/pyverbs", |cx| all(cx, &PyverbsPlace::here(cx))).limit(5400),
        Member::new("explain/rxe/pyverbs", explained).limit(3600),
    ]
}

/// Where the tests run, in the virtual machine. The case's directory has the same path there.
pub struct PyverbsPlace {
    /// The root directory: that of the machine, or one that has its devices.
    pub root: PathBuf,
    /// The directory of the library under test, as seen in that root directory.
    pub ours: PathBuf,
}

impl PyverbsPlace {
    /// The virtual machine's root directory.
    fn here(cx: &Context) -> Self {
        Self {
            root: "/".into(),
            ours: cx.library_dir(Library::Ours),
        }
    }

    /// A file of this root directory.
    fn path(&self, file: &str) -> PathBuf {
        self.root.join(file)
    }

    /// Python with these arguments, in the directory of the tests.
    fn python<S: Into<String>>(
        &self,
        cx: &Context,
        tests: &Path,
        args: impl IntoIterator<Item = S>,
    ) -> Program {
        let words = [PYTHON, "-B"].map(String::from).into_iter();
        let program = cx.program(words.chain(args.into_iter().map(Into::into)));
        if self.root == Path::new("/") {
            return program.dir(tests);
        }
        let enter = ["env", "-C", &tests.to_string_lossy()].map(String::from);
        program
            .under(enter)
            .under(["chroot", &self.root.to_string_lossy()])
    }
}

/// Reports each test as a case; passes itself if there were enough.
pub fn all(cx: &Context, place: &PyverbsPlace) -> Verdict {
    let tests = unpack(cx, place)?;
    let names = names(cx, place, &tests)?;
    let done = cx.reported();
    let wanted = |name: &&String| {
        let case = format!("{}/{name}", cx.name);
        cx.selects(&case) && !done.contains(&case)
    };
    let chosen: Vec<&String> = names.iter().filter(wanted).collect();
    let any = chosen.len() + done.len() > 0;
    ensure(any, "no test has such a name")?;
    let _interface = VethInterface::show(cx, place)?;
    for names in chosen.chunks(AT_ONCE) {
        for library in Library::BOTH {
            run(cx, place, &tests, library, names, false)?;
        }
        for name in names {
            cx.report(name, compare(cx, &place.ours, name))?;
        }
    }
    Ok(())
}

/// Under IBV_EXPLAIN, the tests have the findings that they have on uroce, or those that
/// uroce/pyverbs-explained.toml has for rxe.
fn explained(cx: &Context) -> Verdict {
    let place = PyverbsPlace::here(cx);
    let tests = unpack(cx, &place)?;
    let names = names(cx, &place, &tests)?;
    let _interface = VethInterface::show(cx, &place)?;
    run(cx, &place, &tests, Library::Ours, &names, true)?;
    let errors = |name: &str| read(&results(cx, name, Library::Ours).join("test.err"));
    as_explained(cx, &names, true, errors)
}

/// The tests and their runner, uncompressed.
fn unpack(cx: &Context, place: &PyverbsPlace) -> Result<PathBuf, Failure> {
    let package = place.path(TESTS);
    if !package.exists() {
        let why = format!(
            "{} is missing: run scripts/install-deps suites",
            package.display()
        );
        return Err(Failure::skip(why));
    }
    let tests = cx.dir().join("tests");
    sh(&format!(
        "mkdir {tests} && cp {package}/* {tests}/ && gunzip -qf {tests}/*.gz && cp {runner} {tests}/",
        tests = tests.display(),
        package = package.display(),
        runner = cx.source("suites").join(RUNNER).display()
    ))?;
    Ok(tests)
}

/// All tests: MODULE.CLASS.TEST. Python 3.12 and newer exit with 5, because none was run.
fn names(cx: &Context, place: &PyverbsPlace, tests: &Path) -> Result<Vec<String>, Failure> {
    let listed = place
        .python(cx, tests, ["run_tests.py", "--list-tests"])
        .limit(Duration::from_secs(200))
        .run()?;
    let exit = &listed.exit;
    let ended = [Exit::Code(0), Exit::Code(5)].contains(exit);
    ensure(ended, format!("run_tests.py --list-tests: {exit}"))
        .with(last_lines(&listed.err, 20))?;
    let lines = listed.out.lines();
    let names: Vec<String> = lines
        .filter_map(|line| line.trim().strip_prefix("tests."))
        .map(String::from)
        .collect();
    ensure_enough(names.len()).with(last_lines(&listed.out, 20))?;
    Ok(names)
}

/// Reports each test that a machine has run on both libraries, which left the runner's files in the case's
/// directory.
pub fn report_all(cx: &Context, ours: &Path) -> Verdict {
    let names = read(&cx.dir().join("in/names"));
    let names: Vec<&str> = names
        .lines()
        .filter_map(|name| name.strip_prefix("pyverbs:"))
        .collect();
    ensure_enough(names.len())?;
    for name in names {
        cx.report(name, compare(cx, ours, name))?;
    }
    Ok(())
}

fn ensure_enough(count: usize) -> Verdict {
    let why = format!("{count} tests, at least {AT_LEAST} were expected");
    ensure(count >= AT_LEAST, why)
}

fn results(cx: &Context, name: &str, library: Library) -> PathBuf {
    let dir = format!("results/pyverbs:{name}/{}", library.name());
    cx.dir().join(dir)
}

/// Runs these tests. The head of pyverbs_runner.py describes the files.
fn run(
    cx: &Context,
    place: &PyverbsPlace,
    tests: &Path,
    library: Library,
    names: &[impl AsRef<str>],
    explain: bool,
) -> Verdict {
    let mut list = String::new();
    for name in names {
        let name = name.as_ref();
        fs::create_dir_all(results(cx, name, library))?;
        list += &format!("pyverbs:{name}\n");
    }
    write_flaky(cx)?;
    let list = cx.write("in/names", list)?;
    let mut program = place
        .python(cx, tests, [RUNNER, library.name(), &list.to_string_lossy()])
        .env("OUT", cx.dir())
        .env("PYVERBS_REPORT", "-")
        .limit(Duration::from_secs(2400));
    if explain {
        program = program.env("IBV_EXPLAIN", "1");
    }
    if library == Library::Ours {
        program = program.library(&place.ours);
    }
    program.succeed().map(drop)
}

/// Tells the runner which tests it may repeat.
pub fn write_flaky(cx: &Context) -> Verdict {
    let lines: String = flaky::below("pyverbs/")
        .map(|name| format!("pyverbs:{name}\n"))
        .collect();
    fs::create_dir_all(cx.dir().join("in"))?;
    cx.write("in/flaky", lines).map(drop)
}

/// The outcome of a test with one library.
struct PyverbsOutcome {
    exit: String,
    reason: String,
    libraries: BTreeSet<String>,
    err: String,
}

impl PyverbsOutcome {
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

/// `ours` is the directory of the library under test, where the test ran.
fn compare(cx: &Context, ours: &Path, name: &str) -> Verdict {
    let own = ours.join("libibverbs.so.1");
    let c = PyverbsOutcome::of(cx, name, Library::C);
    let ours = PyverbsOutcome::of(cx, name, Library::Ours);
    // A test that does not end with either library is no comparison.
    let ends = ["pass", "skip", "fail", "error"].contains(&c.exit.as_str());
    ensure(ends, format!("c: ended with {:?}", c.exit)).with(&c.err)?;
    let described = |outcome: &PyverbsOutcome| format!("{} ({})", outcome.exit, outcome.reason);
    let why = format!("ours: {}, c: {}", described(&ours), described(&c));
    ensure(described(&ours) == described(&c), why).with(&ours.err)?;
    let own = text(&own);
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
struct VethInterface(PathBuf);

impl VethInterface {
    fn show(cx: &Context, place: &PyverbsPlace) -> Result<Self, Failure> {
        let added = cx.dir().join("sysfs");
        fs::create_dir_all(added.join("device/net/rd0"))?;
        let device = place.path(DEVICE);
        let node = device.display();
        let lower = format!("lowerdir={}:{node}", added.display());
        sh(&format!("mount -t overlay -o {lower} overlay {node}"))?;
        Ok(Self(device))
    }
}

impl Drop for VethInterface {
    fn drop(&mut self) {
        if let Err(failure) = sh(&format!("umount {}", self.0.display())) {
            println!("{failure}");
        }
    }
}
