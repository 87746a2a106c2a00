//! Running targets of the project's Makefile from cases.

use crate::context::{Context, succeeded};
use crate::process::Program;
use crate::verdict::Verdict;

/// The token of cases that build in the runner's own build directory: one of them runs at a time.
pub const TOKEN: &str = "build directory";

/// make in the source tree, with these targets and variables. It does not get the flags of the make that runs
/// the tests.
pub fn make<S: Into<String>>(cx: &Context, arguments: impl IntoIterator<Item = S>) -> Program {
    let repo = cx.paths.repo.to_string_lossy().into_owned();
    let argv = ["make", "--no-print-directory", "-C", &repo].map(String::from);
    let argv = argv
        .into_iter()
        .chain(arguments.into_iter().map(Into::into));
    cx.program(argv)
        .merged()
        .under(["env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL"])
}

/// The same, run to its end; it must succeed within `limit`.
pub fn must_make(cx: &Context, arguments: &[String], limit: std::time::Duration) -> Verdict {
    let ended = make(cx, arguments).limit(limit).run()?;
    succeeded(&format!("make {}", arguments.join(" ")), &ended)
}
