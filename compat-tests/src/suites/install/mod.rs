//! `make install` and `make uninstall`, and what pkg-config reports then: under a prefix, staged with
//! DESTDIR for a distribution's directories, and without a usable Rust. Programs are built with the flags
//! from pkg-config, dynamically and statically, and run.
//!
//! `make install` builds with-ibverbs-rs for the directories that it installs to, in the runner's own
//! build directory. So these cases run one at a time, and others take with-ibverbs-rs from where the run
//! has staged it.

mod prefix;
mod rust;
mod staged;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::case::Case;
use crate::checks::{self, Check};
use crate::compare;
use crate::context::Context;
use crate::make::{self, make};
use crate::paths::text;
use crate::process::{Ended, Program};
use crate::verdict::{Failure, Verdict, contains};

/// The time that one `make install` may take: it builds the library and the archive if they are out of date.
const LIMIT: Duration = Duration::from_secs(900);
const VERSION: &str = env!("CARGO_PKG_VERSION");

pub fn cases() -> Vec<Case> {
    vec![
        group("install/prefix", prefix::checks()),
        group("install/rust", rust::checks()),
        group("install/staged", staged::checks()),
    ]
}

fn group(name: &str, list: Vec<Check>) -> Case {
    checks::case(name, list)
        .batch()
        .token(make::TOKEN)
        .memory(2000)
        .limit(2 * LIMIT.as_secs())
        .estimate(40)
}

/// Where `make install` installs to: its variables.
struct Destination(Vec<String>);

impl Destination {
    fn new(variables: &[(&str, &Path)]) -> Self {
        let words = variables
            .iter()
            .map(|(name, value)| format!("{name}={}", value.display()));
        Self(words.collect())
    }

    /// The same, with another variable.
    fn and(mut self, name: &str, value: &Path) -> Self {
        self.0.push(format!("{name}={}", value.display()));
        self
    }

    fn install(&self, cx: &Context) -> Verdict {
        self.make(cx, "install")
    }

    fn uninstall(&self, cx: &Context) -> Verdict {
        self.make(cx, "uninstall")
    }

    fn make(&self, cx: &Context, target: &str) -> Verdict {
        let words: Vec<String> = [target.to_string()]
            .into_iter()
            .chain(self.0.clone())
            .collect();
        make::must_make(cx, &words, LIMIT)
    }
}

/// Runs make, which may fail; returns what it prints and exits with.
fn outcome_of_make(cx: &Context, words: &[String], env: &[(&str, &str)]) -> Result<Ended, Failure> {
    let program = env.iter().fold(make(cx, words), |program, (name, value)| {
        program.env(*name, value)
    });
    Ok(program.limit(LIMIT).run()?)
}

/// The multiarch name of this machine: x86_64-linux-gnu.
fn multiarch(cx: &Context) -> Result<String, Failure> {
    Ok(cx
        .output(["gcc", "-print-multiarch"])?
        .trim_end()
        .to_string())
}

/// pkg-config with the files installed in `lib`, and no others.
fn pkg_config(cx: &Context, lib: &Path, package: &str, options: &[&str]) -> Program {
    let argv = ["pkg-config"].iter().chain(options).chain([&package]);
    cx.program(argv.copied())
        .env("PKG_CONFIG_LIBDIR", lib.join("pkgconfig"))
        .under([
            "env", "-u", "PKG_CONFIG_PATH", "-u", "PKG_CONFIG_SYSROOT_DIR",
        ])
}

/// Runs pkg-config for libibverbs and returns what it prints.
fn flags(cx: &Context, lib: &Path, options: &[&str]) -> Result<String, Failure> {
    printed(pkg_config(cx, lib, "libibverbs", options))
}

fn printed(program: Program) -> Result<String, Failure> {
    let ended = program.succeed()?;
    Ok(ended.out.trim_end().to_string())
}

const SOURCE: &str = "#include <infiniband/verbs.h>
#include <stdio.h>
int main(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	printf(\"%d %s\\n\", count, ibv_wc_status_str(IBV_WC_SUCCESS));
	if (list)
		ibv_free_device_list(list);
	return 0;
}
";

/// Compiles the program above with these flags, without a warning. Returns the program, and what gcc printed.
fn build(cx: &Context, name: &str, flags: &str) -> Result<(PathBuf, String), Failure> {
    let source = cx.write("program.c", SOURCE)?;
    compile(cx, name, &source, flags)
}

fn compile(
    cx: &Context,
    name: &str,
    source: &Path,
    flags: &str,
) -> Result<(PathBuf, String), Failure> {
    let program = cx.dir().join(name);
    let fixed = [
        "gcc",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        &text(&program),
        &text(source),
    ]
    .map(String::from);
    let words = fixed
        .into_iter()
        .chain(flags.split_whitespace().map(String::from));
    let ended = cx.program(words).merged().succeed()?;
    Ok((program, ended.out))
}

/// Runs the program, which must print the text of IBV_WC_SUCCESS.
fn answers(program: Program) -> Verdict {
    let ended = program.succeed()?;
    contains(&ended.out, &["success"])
}

fn same(expected: &str, got: &str) -> Verdict {
    compare::same(("expected", expected), ("got", got))
}

/// All files below a directory, sorted; symbolic links count as files.
fn files(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                dirs.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Passes if `make uninstall` has left these files only.
fn only_left(dir: &Path, expected: &[PathBuf]) -> Verdict {
    let left = files(dir)?;
    let list =
        |paths: &[PathBuf]| -> String { paths.iter().map(|path| text(path) + "\n").collect() };
    same(&list(expected), &list(&left))
}

/// The last line of `with-ibverbs-rs --version` names the library that it runs programs on.
fn wrapper_names(cx: &Context, wrapper: &Path, library: &Path) -> Verdict {
    let version = cx.output([&text(wrapper), "--version"])?;
    let last = version.lines().last().unwrap_or_default();
    same(&format!("library: {}", text(library)), last)
}
