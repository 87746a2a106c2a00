//! Privileged (set-user-ID, set-group-ID) programs ignore some variables. The C library ignores fewer:
//! none of a set-group-ID program's, and it opens the log. With those, ours must print what the C library
//! prints without.

use std::fs;
use std::path::Path;

use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::compare;
use crate::context::{Context, Library};
use crate::fake::SHIM;
use crate::fake::scene::SYS;
use crate::fake::sysfs::{Device, Tree};
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Failure, Verdict, ensure};

use super::fixtures;
use super::node::{OWN_DEV, RIGHT};

const DIR: &str = "/tmp/setid";

/// The C library's treatment of a variable in a privileged program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum C {
    /// The same as ours.
    AsOurs,
    /// The C library obeys the variable: what it prints without the variable is expected of ours.
    Obeys,
}

pub fn case() -> Case {
    let mut programs = vec![SHIM, "probe", "verbs_walk"];
    programs.extend(fixtures::PROGRAMS);
    let modes = ["4755", "755", "2755"];
    checks::case(
        "badinput/privileged",
        modes.into_iter().flat_map(of_mode).collect(),
    )
    .sandbox(Sandbox::Root)
    .tier(Tier::Test)
    .programs(&programs)
    .limit(120)
}

/// The checks of a program with this file mode, which root owns. 755 is an ordinary one.
fn of_mode(mode: &'static str) -> Vec<Check> {
    let ordinary = mode == "755";
    let as_root = |obeys| if obeys { C::Obeys } else { C::AsOurs };
    let of_group = as_root(mode == "2755");
    let says = format!("={}", fixtures::path("says"));
    let check = |name: &str, variables: Vec<String>, c, want: &'static str| {
        let variables = variables.clone();
        let parts = if want.is_empty() {
            vec![""]
        } else {
            vec!["", "prints"]
        };
        Check::with_parts(format!("{mode}-{name}"), parts, move |cx| {
            verdicts(cx, mode, &variables, c, want)
        })
    };
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
    let loaded = if ordinary { "was loaded" } else { "" };
    vec![
        check("sys", words(&["A=1"]), C::AsOurs, "1 devices"),
        check(
            "SYSFS_PATH",
            words(&["SYSFS_PATH=/nowhere"]),
            of_group,
            if ordinary { "no list" } else { "1 devices" },
        ),
        check(
            "RDMAV_DRIVERS",
            vec![format!("RDMAV_DRIVERS{says}")],
            of_group,
            loaded,
        ),
        check(
            "IBV_DRIVERS",
            vec![format!("IBV_DRIVERS{says}")],
            of_group,
            loaded,
        ),
        check(
            "VERBS_LOG",
            words(&["VERBS_LOG_LEVEL=4", "VERBS_LOG_FILE=/dev/stdout"]),
            as_root(!ordinary),
            "",
        ),
        check(
            "other-variables",
            words(&[
                "RDMAV_FORK_SAFE=1", "RDMAV_HUGEPAGES_SAFE=1", "IBV_SHOW_WARNINGS=1",
            ]),
            C::AsOurs,
            "",
        ),
    ]
}

fn verdicts(
    cx: &Context,
    mode: &str,
    variables: &[String],
    c: C,
    want: &str,
) -> Result<Vec<Verdict>, Failure> {
    make(cx)?;
    let of_c = match c {
        C::AsOurs => variables.to_vec(),
        C::Obeys => vec!["A=1".to_string()],
    };
    let expected = run(cx, Library::C, mode, &of_c)?;
    let got = run(cx, Library::Ours, mode, variables)?;
    let mut verdicts = vec![compare::same(("C library", &expected), ("ours", &got))];
    if !want.is_empty() {
        let prints = ensure(got.contains(want), format!("does not print {want:?}"));
        verdicts.push(prints.with(&got));
    }
    Ok(verdicts)
}

/// Programs that have their library by RUNPATH, the tree and the providers; once in the case.
fn make(cx: &Context) -> Verdict {
    fixtures::make(cx)?;
    if Path::new(DIR).exists() {
        return Ok(());
    }
    fs::create_dir(DIR)?;
    Tree::new([Device::from("rxe0").number("1:3")]).write(SYS.as_ref())?;
    let source = cx.source("badinput/probe.c");
    for library in Library::BOTH {
        let dir = cx.library_dir(library);
        let (search, rpath) = (
            format!("-L{}", dir.display()),
            format!("-Wl,-rpath,{}", dir.display()),
        );
        let out = program_of(library);
        let source = source.to_string_lossy();
        cx.output([
            "gcc", "-std=gnu11", "-O1", "-o", &out, &source, &search, "-libverbs", &rpath,
        ])?;
    }
    Ok(())
}

fn program_of(library: Library) -> String {
    format!("{DIR}/probe-{}", library.name())
}

/// Runs the program as an ordinary user, with its own /sys and /dev, and without the fake kernel.
fn run(
    cx: &Context,
    library: Library,
    mode: &str,
    variables: &[String],
) -> Result<String, Failure> {
    let program = program_of(library);
    cx.output(["chown", "root:root", &program])?;
    cx.output(["chmod", mode, &program])?;
    let script = format!(
        "mount -t tmpfs none /mnt; cp -r {SYS}/class /mnt/; mount --move /mnt /sys; {OWN_DEV} {RIGHT}\n\
         exec setpriv --reuid=65534 --regid=65534 --clear-groups env \"$@\""
    );
    let mut argv: Vec<String> = ["unshare", "-m", "-n", "sh", "-c", &script, "setid"]
        .map(String::from)
        .to_vec();
    argv.extend(variables.iter().cloned());
    argv.extend([program, "list".into()]);
    Ok(cx.program(argv).merged().run()?.transcript())
}
