//! `compat-tests --vm COMMAND...`: runs one command in the virtual machine, as root, in the current
//! directory. Its output is shown as it comes. For demonstrations, benches, and use by hand.
//!
//! What the command changes is discarded. The device rxe0 is there unless VM_RDMA is `no`. After VM_TIMEOUT
//! seconds (600) the machine is ended.

use std::fs;
use std::io::Write;
use std::path::Path;

use super::boot::{Boot, End};
use crate::context::Context;
use crate::paths::{self, Paths};
use crate::pattern::Patterns;
use crate::process::read;
use crate::verdict::Failure;

/// The file of the shared directory with the command's output.
const OUTPUT: &str = "output";

/// Runs the command; returns its exit code.
pub fn run(words: &[String]) -> Result<i32, Failure> {
    let dir = paths::target().join(format!("compat/vm-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let ended = run_in(&dir, words);
    let removed = fs::remove_dir_all(&dir);
    let code = ended?;
    removed?;
    Ok(code)
}

fn run_in(dir: &Path, words: &[String]) -> Result<i32, Failure> {
    let paths = Paths {
        repo: paths::repo(),
        staged: dir.into(),
        case: dir.into(),
    };
    let cx = Context::new("vm", paths, Patterns::default());
    let variable = |name| std::env::var(name).unwrap_or_default();
    let boot = Boot {
        rdma: variable("VM_RDMA") != "no",
        ..Boot::limit(variable("VM_TIMEOUT").parse().unwrap_or(600))
    };
    let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
    let script = format!(
        "ln -sf /proc/self/mounts /etc/mtab\ncd {} || exit\nexec {} >>\"$OUT/{OUTPUT}\" 2>&1\n",
        quote(&std::env::current_dir()?.to_string_lossy()),
        quoted.join(" ")
    );
    let output = dir.join(OUTPUT);
    let mut shown = 0;
    let end = boot.run_unless(&cx, &script, || {
        show_rest(&output, &mut shown);
        false
    })?;
    show_rest(&output, &mut shown);
    match end {
        End::Status(code) => Ok(code),
        End::Stopped(why) => Err(format!("the machine stopped: {why}").into()),
    }
}

/// Prints what the file has beyond the first `shown` bytes, up to the last complete line.
fn show_rest(file: &Path, shown: &mut usize) {
    let text = read(file);
    let end = text.rfind('\n').map_or(0, |at| at + 1);
    let rest = text.get(*shown..end).unwrap_or_default();
    if !rest.is_empty() {
        print!("{rest}");
        let _ = std::io::stdout().flush();
        *shown = end;
    }
}

/// A word as a shell reads it back.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
