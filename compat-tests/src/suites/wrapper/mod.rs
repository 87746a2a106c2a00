//! with-ibverbs-rs: programs load our library with it, in each way in which programs load libibverbs, and its
//! `--check` says so. It passes on arguments, input and signals, and says where it cannot help.
//!
//! All checks use the with-ibverbs-rs of a source tree, a copy in the case's directory.

mod directory;
mod help;
mod passing;
mod privileges;
mod tree;
mod ways;
mod wheel;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use regex_lite::Regex;

use crate::artifacts::{WRAPPER, library_dir};
use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::context::{Context, Library};
use crate::paths::text;
use crate::process::{Ended, Exit, Program};
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// The directory of a case in its namespace.
const WORK: &str = "/tmp/case";

pub fn cases() -> Vec<Case> {
    vec![
        group("ways", ways::checks()),
        group("bundled", wheel::checks()),
        group("options", help::options()),
        group("no-help", help::refusals()),
        group("warnings", help::warnings()),
        group("tree", tree::checks()),
        group("passes-on", passing::checks()),
        group("privileges", privileges::checks()).sandbox(Sandbox::Root),
        directory::of_python(),
        wheel::of_registry(),
    ]
}

fn group(name: &str, list: Vec<Check>) -> Case {
    checks::case(&format!("wrapper/{name}"), list)
        .sandbox(Sandbox::Namespace)
        .tier(Tier::Check)
        .programs(&["where-linked", "where-named", "where-consumer"])
}

/// The distribution's library.
fn theirs() -> Result<String, Failure> {
    real(library_dir()?.join("libibverbs.so.1"))
}

/// Our library, and the directory that with-ibverbs-rs gets for it.
fn ours(cx: &Context) -> String {
    text(cx.library(Library::Ours))
}

fn real(path: impl AsRef<Path>) -> Result<String, Failure> {
    let path = path.as_ref();
    let real = fs::canonicalize(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(text(real))
}

/// Makes what `make` builds, in `DIR/release`.
fn build_into(cx: &Context, dir: &Path) -> Verdict {
    let release = dir.join("release");
    fs::create_dir_all(&release)?;
    fs::copy(cx.built(WRAPPER)?, release.join("with-ibverbs-rs"))?;
    let library = release.join("libibverbs.so.1");
    if !library.exists() {
        symlink(ours(cx), library)?;
    }
    Ok(())
}

/// bin/with-ibverbs-rs of a source tree at `root`, in which nothing is built.
fn tree_at(cx: &Context, root: &Path) -> Result<String, Failure> {
    let script = root.join("bin/with-ibverbs-rs");
    fs::create_dir_all(root.join("bin"))?;
    fs::copy(cx.source("../bin/with-ibverbs-rs"), &script)?;
    Ok(text(script))
}

/// with-ibverbs-rs, in a built tree.
fn wrapper(cx: &Context) -> Result<String, Failure> {
    let root = cx.dir().join("built");
    if !root.exists() {
        build_into(cx, &root.join("target"))?;
    }
    tree_at(cx, &root)
}

/// A program without the wrapper. Nothing of the caller's Python gets in, and its files are the case's own.
fn plain<S: Into<String>>(cx: &Context, words: impl IntoIterator<Item = S>) -> Program {
    let home = cx.dir().join("home");
    let _ = fs::create_dir_all(&home);
    // As /tmp: links are made in no directory in which others can replace them.
    let _ = fs::set_permissions(cx.dir(), fs::Permissions::from_mode(0o1777));
    let unset = [
        "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "CARGO_TARGET_DIR",
    ];
    let unset = unset.into_iter().flat_map(|name| ["-u", name]);
    cx.program(words)
        .merged()
        .env("HOME", &home)
        .env("XDG_CACHE_HOME", home.join(".cache"))
        .env("TMPDIR", cx.dir())
        .env("IBVERBS_RS_DIR", cx.library_dir(Library::Ours))
        .under(["env"].into_iter().chain(unset))
}

/// with-ibverbs-rs with these arguments.
fn wrapped<S: Into<String>>(
    cx: &Context,
    arguments: impl IntoIterator<Item = S>,
) -> Result<Program, Failure> {
    let words = arguments.into_iter().map(Into::into);
    Ok(plain(cx, [wrapper(cx)?].into_iter().chain(words)))
}

/// The libraries that `where.c` reports: the one that it called, and all that the process has mapped.
fn libraries(output: &str) -> BTreeSet<String> {
    let files = output.lines().filter_map(|line| {
        line.strip_prefix("called: ")
            .or_else(|| line.strip_prefix("mapped: "))
    });
    files
        .map(|file| real(file).unwrap_or_else(|_| file.into()))
        .collect()
}

/// Passes if exactly our library was loaded.
fn only_ours(cx: &Context, ended: &Ended) -> Verdict {
    let loaded = libraries(&ended.out);
    ensure(
        loaded == BTreeSet::from([ours(cx)]),
        format!("loaded: {loaded:?}"),
    )
    .with(&ended.out)
}

/// Passes if the program exited with this code, and a line of its output matches.
fn says(ended: &Ended, exit: i32, pattern: &str) -> Verdict {
    let regex = Regex::new(&format!("(?m){pattern}")).map_err(|e| e.to_string())?;
    ensure(
        ended.exit == Exit::Code(exit),
        format!("exit code {}, not {exit}", ended.exit),
    )
    .and_then(|()| {
        ensure(
            regex.is_match(&ended.out),
            format!("no line matches {pattern:?}"),
        )
    })
    .with(&ended.out)
}

/// Runs `--check` on a program: its exit code and what it must print.
fn check(
    name: &str,
    exit: i32,
    pattern: &'static str,
    program: impl Fn(&Context) -> Result<String, Failure> + Send + Sync + 'static,
) -> Check {
    Check::new(name, move |cx| {
        let ended = wrapped(cx, ["--check".to_string(), program(cx)?])?.run()?;
        says(&ended, exit, pattern)
    })
}

/// An executable file in the case's directory.
fn script(cx: &Context, name: &str, contents: &str) -> Result<String, Failure> {
    let path = cx.write(name, contents)?;
    mode(&path, 0o755)?;
    Ok(text(path))
}

/// A copy of a file in the case's directory.
fn copy(cx: &Context, file: &str, name: &str) -> Result<PathBuf, Failure> {
    let path = cx.dir().join(name);
    fs::copy(file, &path)?;
    Ok(path)
}

fn mode(path: &Path, mode: u32) -> Verdict {
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

/// The busybox of this machine, which is static.
fn busybox(cx: &Context) -> Result<String, Failure> {
    let path = cx.output(["sh", "-c", "command -v busybox"])?;
    Ok(path.trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_called_and_mapped() {
        let text = "called: /nowhere/a\nmapped: /nowhere/b\nother: /nowhere/c\n";
        let found: Vec<String> = libraries(text).into_iter().collect();
        assert_eq!(found, ["/nowhere/a", "/nowhere/b"]);
    }
}
