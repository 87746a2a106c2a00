//! Running targets of the project's Makefile from cases.

use std::fs;
use std::process::{Command, Stdio};

use crate::context::Context;
use crate::paths;
use crate::process::{Program, clear_variables, last_lines, read, succeeded};
use crate::verdict::{Details, Verdict, ensure};

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

/// Runs `make TARGET` in the source tree, before a case that needs what it makes. Its output is in
/// target/TARGET.log.
pub fn on_host(target: &str) -> Verdict {
    let log = paths::target().join(format!("{target}.log"));
    let out = fs::File::create(&log)?;
    let mut command = Command::new("make");
    command
        .args(["--no-print-directory", target])
        .current_dir(paths::repo())
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out);
    clear_variables(&mut command);
    let status = command.status()?;
    ensure(status.success(), format!("make {target}: {status}")).with(last_lines(&read(&log), 30))
}
