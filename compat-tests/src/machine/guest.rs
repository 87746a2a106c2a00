//! The guest's side: runs the selected members without a verdict, one after the other.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;

use super::{FILES, Judged, Member};
use crate::arguments::Arguments;
use crate::context::Context;
use crate::paths::{self, Paths};
use crate::process::read;
use crate::sandbox::sh;
use crate::verdict::{Failure, Finished, Outcome, Verdict, ensure};

/// Where ordinary users of the machine can read the libraries and programs.
pub const STAGED: &str = "/run/staged";
/// Where the members' directories are.
const OUTPUT: &str = "/run/case";
/// The file of the case's directory with the name of the member that runs.
pub const RUNNING: &str = "running";
/// The file with the names of the members in which a machine has stopped.
pub const STOPPED: &str = "stopped";
/// The file with the name of the member in which the kernel is to panic, once.
pub const PANIC: &str = "panic-in";

/// Runs the members and appends their verdicts to the file that the host reads.
pub fn run(args: Arguments, members: &[Member]) -> Verdict {
    sh(&format!(
        "mkdir -p {STAGED} && cp -r {}/. {STAGED}/",
        args.staged.display()
    ))?;
    let files = args.dir.join(FILES);
    if files.exists() {
        sh(&format!("cp -a {} /run/", files.display()))?;
    }
    let paths = Paths {
        repo: paths::repo(),
        staged: STAGED.into(),
        case: args.dir,
    };
    let cx = Context::new(&args.name, paths, args.patterns);
    let done = cx.reported();
    let stopped = read(&cx.dir().join(STOPPED));
    let stopped: BTreeSet<&str> = stopped.lines().collect();
    for member in members {
        let left = member.selected(&cx).any(|name| !done.contains(name));
        if left {
            run_member(&cx, member, &done, &stopped)?;
        }
    }
    Ok(())
}

fn run_member(
    cx: &Context,
    member: &Member,
    done: &BTreeSet<String>,
    stopped: &BTreeSet<&str>,
) -> Verdict {
    let first = member.names.first().ok_or("a member without a name")?;
    cx.write(RUNNING, first)?;
    println!("== {first}");
    panic_if_told(cx, first)?;
    let started = Instant::now();
    let own = context_of(cx, first)?;
    let mut verdicts = (member.body)(&own).unwrap_or_else(|failure| {
        let all = member.names.iter();
        all.map(|_| Judged::from(Err(failure.clone()))).collect()
    });
    ensure(
        verdicts.len() == member.names.len(),
        format!("{first}: not one verdict each"),
    )?;
    keep_output(cx, &own, &verdicts)?;
    let seconds = started.elapsed().as_secs_f64() / verdicts.len() as f64;
    for (name, judged) in member.names.iter().zip(&mut verdicts) {
        if stopped.contains(first.as_str()) {
            judged.again = "before that: the machine stopped".into();
        }
        if cx.concerns(name) && !done.contains(name) {
            cx.append(&Finished {
                seconds,
                ..finished(name, judged)
            })?;
        }
    }
    Ok(())
}

/// The host sees the output of members that did not simply pass.
fn keep_output(cx: &Context, own: &Context, verdicts: &[Judged]) -> Verdict {
    let passed = |judged: &Judged| judged.verdict.is_ok() && judged.again.is_empty();
    let (from, to) = (own.dir().display(), cx.dir().display());
    if verdicts.iter().all(passed) {
        sh(&format!("rm -rf '{from}'"))
    } else {
        sh(&format!("mv '{from}' '{to}/'"))
    }
}

/// The report on a member: one that passed only when it ran again is unstable.
fn finished(name: &str, judged: &Judged) -> Finished {
    let mut finished = Finished::new(name, &judged.verdict);
    if !judged.again.is_empty() && finished.outcome == Outcome::Passed {
        finished.outcome = Outcome::Unstable;
        finished.why = judged.again.clone();
    }
    finished
}

/// A context with a directory of its own, for the output of the programs: in memory, because each write
/// to the shared directory takes a millisecond.
fn context_of(cx: &Context, name: &str) -> Result<Context, Failure> {
    let dir = Path::new(OUTPUT).join(name.replace('/', "-"));
    fs::create_dir_all(&dir)?;
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777))?;
    Ok(cx.part(name, dir))
}

fn panic_if_told(cx: &Context, name: &str) -> Verdict {
    let file = cx.dir().join(PANIC);
    if read(&file).trim() == name {
        fs::remove_file(file)?;
        sh("sync; echo c >/proc/sysrq-trigger; sleep 60")?;
    }
    Ok(())
}
