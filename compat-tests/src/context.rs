//! The context that the body of a case works with: its files, its programs and what it reports.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::lines;
use crate::paths::Paths;
use crate::pattern::Patterns;
use crate::process::{Ended, Program, read, succeeded};
use crate::sandbox::as_ordinary_user;
use crate::verdict::{Failure, Finished, Verdict, ensure};

/// The two libraries that a run compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// rdma-core's libibverbs, as the distribution installs it.
    C,
    /// The library under test.
    Ours,
}

impl Library {
    pub const BOTH: [Library; 2] = [Library::C, Library::Ours];

    /// The library's name in reports and directories.
    pub fn name(self) -> &'static str {
        match self {
            Library::C => "c",
            Library::Ours => "ours",
        }
    }
}

/// A running case: its directories, its programs, and how it reports.
pub struct Context {
    pub name: String,
    pub paths: Paths,
    patterns: Patterns,
    /// The file to which verdicts are appended.
    verdicts: PathBuf,
    started_programs: Cell<u32>,
    last_report: Cell<Instant>,
}

impl Context {
    pub fn new(name: &str, paths: Paths, patterns: Patterns) -> Self {
        Self {
            name: name.into(),
            verdicts: paths.case.join(VERDICTS),
            paths,
            patterns,
            started_programs: Cell::new(0),
            last_report: Cell::new(Instant::now()),
        }
    }

    /// The case's own directory.
    pub fn dir(&self) -> &Path {
        &self.paths.case
    }

    /// A file or directory of compat-tests/.
    pub fn source(&self, path: &str) -> PathBuf {
        self.paths.repo.join("compat-tests").join(path)
    }

    /// The directory that contains this library's libibverbs.so.1, and nothing else.
    pub fn library_dir(&self, library: Library) -> PathBuf {
        self.paths.staged.join("lib").join(library.name())
    }

    /// The file of this library.
    pub fn library(&self, library: Library) -> PathBuf {
        self.library_dir(library).join("libibverbs.so.1")
    }

    /// A program of cases/programs.toml, which the case must name with `Case::programs`; or
    /// with-ibverbs-rs, or uroce-ctl.
    pub fn built(&self, name: &str) -> Result<String, Failure> {
        let path = self.paths.staged.join("bin").join(name);
        ensure(
            path.exists(),
            format!("{name} is not built: run make, or name it in the case's `programs`"),
        )?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// A program to run in the case's directory. Its output files are numbered.
    pub fn program<S: Into<String>>(&self, argv: impl IntoIterator<Item = S>) -> Program {
        let argv: Vec<String> = argv.into_iter().map(Into::into).collect();
        let number = self.started_programs.get() + 1;
        self.started_programs.set(number);
        let base = argv
            .first()
            .and_then(|path| path.rsplit('/').next())
            .unwrap_or("none");
        let files = self.dir().join(format!("{number:02}-{base}"));
        self.program_at(argv, files)
    }

    /// A program that an ordinary user runs on this library, with the device uroce0 on the interface lo.
    pub fn on_uroce<S: Into<String>>(&self, argv: impl IntoIterator<Item = S>) -> Program {
        self.program(argv)
            .under(as_ordinary_user())
            .library(&self.library_dir(Library::Ours))
            .env("IBV_UROCE", "uroce0=lo")
            .env("DEVICE", "uroce0")
    }

    /// As `program`, with the path of its output files, without `.out` and `.err`.
    pub fn program_at(&self, argv: Vec<String>, files: PathBuf) -> Program {
        Program::new(argv, self.dir(), files)
    }

    /// Runs a program that must succeed, and returns what it printed.
    pub fn output<S: Into<String>>(
        &self,
        argv: impl IntoIterator<Item = S>,
    ) -> Result<String, Failure> {
        Ok(self.program(argv).succeed()?.out)
    }

    /// A part of this case with a directory of its own, which reports to the same file.
    pub fn part(&self, name: &str, dir: PathBuf) -> Self {
        let paths = Paths {
            case: dir,
            ..self.paths.clone()
        };
        Self {
            verdicts: self.verdicts.clone(),
            ..Self::new(name, paths, self.patterns.clone())
        }
    }

    /// The names that were reported.
    pub fn reported(&self) -> BTreeSet<String> {
        let text = read(&self.verdicts);
        let finished = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Finished>(line).ok());
        finished.map(|finished| finished.name).collect()
    }

    /// The patterns that select members and checks.
    pub fn patterns(&self) -> &[String] {
        &self.patterns.0
    }

    /// Whether a member or a check of this case is selected.
    pub fn selects(&self, name: &str) -> bool {
        self.patterns.select(name)
    }

    /// Whether a member of this case is selected, or something that it reports.
    pub fn concerns(&self, name: &str) -> bool {
        self.patterns.select(name) || self.patterns.name_below(name)
    }

    /// Reports a member, or a check as a case of its own: `NAME/CHECK`. Its time is that since the last
    /// report.
    pub fn report(&self, check: &str, verdict: Verdict) -> Verdict {
        self.report_as(&format!("{}/{check}", self.name), verdict)
    }

    /// The same, with the whole name.
    pub fn report_as(&self, name: &str, verdict: Verdict) -> Verdict {
        let mut finished = Finished::new(name, &verdict);
        finished.seconds = self
            .last_report
            .replace(Instant::now())
            .elapsed()
            .as_secs_f64();
        self.append(&finished)
    }

    /// Reports a case as this says.
    pub fn append(&self, finished: &Finished) -> Verdict {
        let line = serde_json::to_string(finished).map_err(|e| e.to_string())?;
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.verdicts)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        Ok(())
    }

    /// Reports each `ok` and `not ok` line of a probe as a case. Fails if there are fewer than `at_least`, or
    /// if the probe did not end with 0 although all lines are `ok`.
    pub fn report_lines(&self, ended: &Ended, at_least: usize) -> Verdict {
        let checks = lines::parse(&ended.out);
        let count = checks.len();
        let all_ok = checks.iter().all(|(_, verdict)| verdict.is_ok());
        for (name, verdict) in checks {
            self.report(&name, verdict)?;
        }
        if all_ok {
            succeeded("the probe", ended)?;
        }
        ensure(
            count >= at_least,
            format!("{count} checks, at least {at_least} were expected"),
        )
    }

    /// Writes a file into the case's directory.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> Result<PathBuf, Failure> {
        let path = self.dir().join(name);
        fs::write(&path, contents)?;
        Ok(path)
    }
}

/// The file of a case's directory to which verdicts are appended, a JSON object per line.
pub const VERDICTS: &str = "verdicts";
