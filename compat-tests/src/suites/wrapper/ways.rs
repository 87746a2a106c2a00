//! The ways in which programs load libibverbs: linked, also with a path of their own, by dlopen, as children.

use std::collections::BTreeSet;
use std::fs;

use super::{WORK, libraries, only_ours, ours, plain, real, script, text, theirs, wrapped};
use crate::checks::Check;
use crate::context::{Context, Library};
use crate::process::{Ended, Exit, Program};
use crate::verdict::{Details, Failure, Verdict, ensure};

/// A program to run with and without the wrapper.
pub struct Way {
    pub words: Vec<String>,
    pub env: Vec<(&'static str, String)>,
    /// The library that it loads without the wrapper.
    pub loads: String,
}

impl Way {
    pub fn new<S: Into<String>>(
        loads: impl Into<String>,
        words: impl IntoIterator<Item = S>,
    ) -> Self {
        Self {
            words: words.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            loads: loads.into(),
        }
    }

    pub fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    fn with_variables(&self, program: Program) -> Program {
        self.env
            .iter()
            .fold(program, |program, (name, value)| program.env(*name, value))
    }

    pub fn plain(&self, cx: &Context) -> Result<Ended, Failure> {
        Ok(self.with_variables(plain(cx, self.words.clone())).run()?)
    }

    /// Runs the way with the wrapper, and these options for it.
    pub fn wrapped(&self, cx: &Context, options: &[&str]) -> Result<Ended, Failure> {
        let words = options.iter().map(|word| word.to_string());
        let program = wrapped(cx, words.chain(self.words.clone()))?;
        Ok(self.with_variables(program).run()?)
    }

    /// Runs the way without the wrapper, with it, and with `--check`: the program loads its own
    /// library; ours and no other; and `--check` names both.
    pub fn verdicts(&self, cx: &Context) -> Result<Vec<Verdict>, Failure> {
        let expected = real(&self.loads)?;
        let plain = self.plain(cx)?;
        let loaded = libraries(&plain.out);
        let right = loaded.contains(&expected) && !loaded.contains(&ours(cx));
        let as_it_is = ensure(right, format!("loaded: {loaded:?}"));
        let checked = self.wrapped(cx, &["--check"])?;
        Ok(vec![
            as_it_is.with(&plain.out),
            only_ours(cx, &self.wrapped(cx, &[])?),
            names(cx, &checked, &expected).with(&checked.out),
        ])
    }
}

/// The names of the parts of a way.
pub const PARTS: &[&str] = &["as-it-is", "wrapped", "check-option"];

pub fn way(
    name: &str,
    way: impl Fn(&Context) -> Result<Way, Failure> + Send + Sync + 'static,
) -> Check {
    Check::with_parts(name, PARTS.to_vec(), move |cx| way(cx)?.verdicts(cx))
}

/// `--check` says that the program gets ours, and which file it has without the wrapper.
fn names(cx: &Context, checked: &Ended, expected: &str) -> Verdict {
    let code = checked.exit;
    ensure(code == Exit::Code(0), format!("--check: exit code {code}"))?;
    let dir = text(cx.library_dir(Library::Ours));
    let verdict = format!("verdict: libibverbs-rs, {dir}/libibverbs.so.1");
    let says = checked.out.lines().any(|line| line == verdict);
    ensure(says, format!("no line {verdict:?}"))?;
    let named = named(&checked.out);
    ensure(named.contains(expected), format!("it names {named:?}"))
}

/// The files of libibverbs that `--check` names for the program without the wrapper, by themselves or in a
/// wheel.
fn named(output: &str) -> BTreeSet<String> {
    let before = output
        .lines()
        .take_while(|line| !line.starts_with("with with-"));
    let files = before.filter_map(|line| {
        let line = line.strip_prefix("  ")?;
        let file = match line.strip_prefix("in a Python wheel: ") {
            Some(file) => file,
            None => {
                line.split_once(" is ")
                    .filter(|(name, _)| name.starts_with("libibverbs") && !name.contains(' '))?
                    .1
            }
        };
        file.split_whitespace()
            .next()
            .filter(|file| file.starts_with('/'))
    });
    files
        .map(|file| real(file).unwrap_or_else(|_| file.into()))
        .collect()
}

pub fn checks() -> Vec<Check> {
    let named = |name: &'static str| {
        way(&format!("dlopen of {name}"), move |cx| {
            Ok(Way::new(theirs()?, [cx.built("where-named")?, name.into()]))
        })
    };
    vec![
        way("linked", |cx| {
            Ok(Way::new(theirs()?, [cx.built("where-linked")?]))
        }),
        named("libibverbs.so.1"),
        named("libibverbs.so"),
        to_a_copy(
            "linked, with an RPATH to a copy",
            "-Wl,--disable-new-dtags",
            "rpath",
        ),
        to_a_copy(
            "linked, with a RUNPATH to a copy",
            "-Wl,--enable-new-dtags",
            "runpath",
        ),
        way("a child of a script", |cx| {
            let program = cx.built("where-linked")?;
            let script = script(cx, "script", &format!("#!/bin/sh\nexec \"{program}\"\n"))?;
            Ok(Way::new(theirs()?, [script]))
        }),
    ]
}

/// A program whose own search path has a copy of the distribution's library.
fn to_a_copy(name: &str, flag: &'static str, program: &'static str) -> Check {
    way(name, move |cx| {
        let copy = cx.dir().join("private/libibverbs.so.1");
        fs::create_dir_all(cx.dir().join("private"))?;
        fs::copy(theirs()?, &copy)?;
        let path = format!("-Wl,-rpath,{WORK}/private");
        let source = text(cx.source("wrapper/where.c"));
        let output = format!("{WORK}/{program}");
        cx.output(["gcc", &source, "-o", &output, "-libverbs", flag, &path])?;
        Ok(Way::new(text(copy), [output]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_check_names() {
        let text = "program: x\n  libibverbs.so.1 is /nowhere/a\n  in a Python wheel: /nowhere/b (x)\n\
                    with with-ibverbs-rs:\n  libibverbs.so.1 is /nowhere/c\n";
        let found: Vec<String> = named(text).into_iter().collect();
        assert_eq!(found, ["/nowhere/a", "/nowhere/b"]);
    }
}
