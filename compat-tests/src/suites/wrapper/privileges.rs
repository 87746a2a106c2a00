//! Programs that gain privileges from their files run on the distribution's library, because the dynamic
//! linker ignores the wrapper's variables there; one line says so.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use super::help::warns;
use super::{libraries, mode, ours, plain, text, theirs};
use crate::artifacts::WRAPPER;
use crate::checks::Check;
use crate::compare;
use crate::context::Context;
use crate::process::{Program, read};
use crate::sandbox::{self, CAP_NET_BIND_SERVICE, as_ordinary_user, give_capability};
use crate::verdict::{Failure, Verdict};

/// The wrapper, the library and the programs, which an ordinary user can read.
const PUBLIC: &str = "/tmp/public";

pub fn checks() -> Vec<Check> {
    let mut all = vec![Check::new(
        "a program without privileges, for comparison",
        |cx| {
            let plain = program(cx, "plain", 0o755)?;
            let command = format!("'{plain}' | sed -n 's/^called: //p'");
            let expected = format!("{PUBLIC}/libibverbs.so.1\n");
            warns(wrapped(cx, &["sh", "-c", &command]), "", &expected)
        },
    )];
    for (name, kind, bits) in [
        ("setuid", "set-user-ID", 0o4755),
        ("setgid", "set-group-ID", 0o2755),
        ("capable", "given capabilities", 0o755),
    ] {
        all.push(Check::with_parts(
            format!("a program that is {kind}"),
            vec!["runs-on-the-distribution-s-library", "one-line-says-so"],
            move |cx| gains(cx, name, kind, bits),
        ));
    }
    all
}

/// A program of root with these permission bits.
fn program(cx: &Context, name: &str, bits: u32) -> Result<String, Failure> {
    let public = Path::new(PUBLIC);
    fs::create_dir_all(public)?;
    fs::copy(cx.built(WRAPPER)?, public.join(WRAPPER))?;
    fs::copy(ours(cx), public.join("libibverbs.so.1"))?;
    let path = public.join(name);
    fs::copy(cx.built("where-linked")?, &path)?;
    chown(&path, Some(0), Some(0))?;
    mode(&path, bits)?;
    Ok(text(path))
}

/// The wrapper in PUBLIC, run by an ordinary user who has no cache directory. It finds the library beside
/// itself.
fn wrapped(cx: &Context, words: &[&str]) -> Program {
    let wrapper = format!("{PUBLIC}/{WRAPPER}");
    let start = ["env", "-u", "IBVERBS_RS_DIR", &wrapper];
    let program = plain(cx, start.iter().chain(words).copied()).apart();
    program
        .env("XDG_CACHE_HOME", "/nowhere")
        .env("TMPDIR", "/nowhere")
        .dir("/".as_ref())
        .under(as_ordinary_user())
}

fn gains(cx: &Context, name: &str, kind: &str, bits: u32) -> Result<Vec<Verdict>, Failure> {
    let path = program(cx, name, bits)?;
    if name == "capable" {
        give_capability(path.as_ref(), CAP_NET_BIND_SERVICE)?;
    }
    if no_privileges() {
        return Err(Failure::skip(
            "the kernel gives no privileges here (no_new_privs)",
        ));
    }
    let ended = wrapped(cx, &[&path]).run()?;
    let loaded: Vec<String> = libraries(&ended.out).into_iter().collect();
    let warning = format!(
        "with-ibverbs-rs: {path} is {kind}, so the dynamic linker ignores LD_LIBRARY_PATH and LD_PRELOAD: \
         libibverbs-rs is neither in it nor in what it starts (install the package instead)\n"
    );
    Ok(vec![
        compare::same(("expected", &theirs()?), ("got", &loaded.join(" "))),
        compare::same(("expected", &warning), ("got", &ended.err)),
    ])
}

/// Whether programs gain nothing from their files. /tmp of the namespace permits it.
fn no_privileges() -> bool {
    let status = read("/proc/self/status".as_ref());
    let mut lines = status.lines();
    lines.any(|line| line.starts_with("NoNewPrivs:") && line.ends_with('1')) || !sandbox::is_root()
}
