//! bin/with-ibverbs-rs of a source tree finds what make has built, wherever that is.

use std::path::Path;

use super::{build_into, plain, says, text, tree_at};
use crate::checks::Check;
use crate::compare;
use crate::context::Context;
use crate::process::Program;
use crate::verdict::{Failure, Verdict};

pub fn checks() -> Vec<Check> {
    vec![
        Check::new("nothing built: it says what to do", |cx| {
            let root = cx.dir().join("empty");
            let ended = script(cx, &root, &["ls"])?.run()?;
            says(&ended, 125, &format!("run make in {}", text(root)))
        }),
        Check::new("built in target", |cx| finds(cx, "target", None)),
        Check::new("built in target, CARGO_TARGET_DIR set later", |cx| {
            finds(cx, "target", Some(&text(cx.dir().join("later"))))
        }),
        Check::new("built with CARGO_TARGET_DIR", |cx| {
            let other = text(cx.dir().join("other"));
            finds(cx, &other, Some(&other))
        }),
        Check::new("built with a relative CARGO_TARGET_DIR", |cx| {
            finds(cx, "relative", Some("relative"))
        }),
    ]
}

/// The wrapper of a source tree, without the variable that names the library's directory.
fn script(cx: &Context, root: &Path, words: &[&str]) -> Result<Program, Failure> {
    let script = tree_at(cx, root)?;
    let unset = ["env", "-u", "IBVERBS_RS_DIR"].map(String::from);
    let words = words.iter().map(|word| word.to_string());
    Ok(plain(cx, unset.into_iter().chain([script]).chain(words)))
}

/// Checks that what is built in this directory, by itself or relative to the tree, is found. There
/// is also a build in `target`, as make made it before the variable was set.
fn finds(cx: &Context, dir: &str, variable: Option<&str>) -> Verdict {
    let root = cx.dir().join("tree");
    build_into(cx, &root.join("target"))?;
    let dir = root.join(dir);
    build_into(cx, &dir)?;
    let mut program = script(cx, &root, &["--version"])?;
    if let Some(value) = variable {
        program = program.env("CARGO_TARGET_DIR", value);
    }
    let ended = program.run()?;
    let expected = format!("library: {}/release/libibverbs.so.1", text(dir));
    let last = ended.out.lines().last().unwrap_or_default();
    compare::same(("expected", &expected), ("got", last))
}
