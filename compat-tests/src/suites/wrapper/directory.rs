//! The directory in which the wheel makes its links (packaging/python), as root with the HOME of
//! another user.

use std::path::Path;

use crate::case::{Case, Tier};
use crate::context::Context;
use crate::sandbox::Sandbox;
use crate::verdict::Verdict;

pub fn of_python() -> Case {
    Case::new("wrapper/python-directory", python)
        .sandbox(Sandbox::Root)
        .tier(Tier::Check)
        .limit(30)
}

fn python(cx: &Context) -> Verdict {
    let path = |name| cx.source(name).display().to_string();
    // Others may write to the case's directory.
    let work = Path::new("/tmp/directory");
    std::fs::create_dir(work)?;
    let words = [
        "python3".into(),
        path("suites/wheel_directory.py"),
        path("../packaging/python"),
        work.display().to_string(),
    ];
    cx.report_lines(&cx.program(words).run()?, 8)
}
