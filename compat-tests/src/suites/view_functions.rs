//! Every function that the view redirects, called by name, by an address in data, and by dlsym(3), on the
//! tree and on a directory of the kernel. The program (c/view/every.c) is compiled from the table of
//! redirections in each way in which programs are linked: position-independent or not, with functions bound
//! at the start or by their first call; with the library preloaded, or in the program as an archive; static,
//! where nothing is redirected and everything must reach the kernel.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::OnceLock;

use crate::case::{Case, Tier};
use crate::context::{Context, Library};
use crate::paths::text;
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Failure, Verdict, ensure};
use crate::{make, paths};

/// A link to the directory of a device `u`.
const TREE: &str = "/sys/class/infiniband/u";
/// How the compiler makes it: position-independent or not.
const PIE: &[&str] = &["-fPIE", "-pie"];
const FIXED: &[&str] = &["-fno-pie", "-no-pie"];

pub fn cases() -> Vec<Case> {
    let case = |name, run: fn(&Context) -> Verdict| {
        let case = Case::new(name, run).sandbox(Sandbox::Namespace);
        case.limit(120).cpu(100).estimate(12)
    };
    vec![
        case("uroce/view/functions", |cx| preloaded(cx, PIE)).tier(Tier::Check),
        case("uroce/view/functions-fixed", |cx| preloaded(cx, FIXED)).tier(Tier::Check),
        case("uroce/view/functions-archive", archive)
            .before(make_archive)
            .token(make::TOKEN),
    ]
}

fn make_archive() -> Verdict {
    static MADE: OnceLock<Verdict> = OnceLock::new();
    MADE.get_or_init(|| make::on_host("static")).clone()
}

/// The names in the table of redirections.
pub fn redirected(cx: &Context) -> Result<BTreeSet<String>, Failure> {
    let table = fs::read_to_string(cx.source("../crates/uroce/src/view/calls/mod.rs"))?;
    let names = table.lines().filter_map(|line| {
        let (name, _) = line.trim().strip_prefix('"')?.split_once("\" => ")?;
        Some(name.to_string())
    });
    let names: BTreeSet<String> = names.collect();
    ensure(
        names.len() > 100,
        format!("{} redirected functions", names.len()),
    )?;
    Ok(names)
}

/// Compiles the program for these functions. One without a call in every-calls.h is a compiler's error.
fn compiled(
    cx: &Context,
    name: &str,
    functions: &BTreeSet<String>,
    flags: &[&str],
) -> Result<String, Failure> {
    let dir = cx.dir().join(name);
    fs::create_dir_all(&dir)?;
    let rows: String = functions.iter().map(|name| format!(" X({name})")).collect();
    let list = format!("#define FUNCTIONS(X){rows}\n");
    fs::write(dir.join("every-list.h"), list)?;
    let program = text(dir.join("every"));
    let mut words: Vec<String> = ["gcc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-O1"]
        .map(String::from)
        .into();
    words.push(format!("-I{}", text(&dir)));
    words.extend(["-o".into(), program.clone()]);
    words.push(text(cx.source("c/view/every.c")));
    words.extend(flags.iter().map(|flag| flag.to_string()));
    cx.program(words).merged().succeed()?;
    Ok(program)
}

/// A link to a directory of the kernel's file systems with what the program expects.
fn in_kernel(cx: &Context) -> Result<String, Failure> {
    let link = cx.dir().join("link");
    if !link.exists() {
        let dir = cx.dir().join("devices/u");
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("node_guid"), "0000:0000:0000:0001\n")?;
        symlink("devices/u", &link)?;
    }
    Ok(text(&link))
}

/// One run of the program, which makes this number of calls.
fn run(
    cx: &Context,
    name: &str,
    program: &str,
    link: &str,
    (variables, count): (&[(&str, &str)], usize),
) -> Verdict {
    let mut command = cx.program([program, link]).env("IBV_UROCE", "u=lo");
    for (variable, value) in variables {
        command = command.env(*variable, value);
    }
    let ended = command.run()?;
    let failed = ended.out.lines().filter(|line| line.starts_with("not ok"));
    let failed: Vec<&str> = failed.collect();
    let passed = ended
        .out
        .lines()
        .filter(|line| line.starts_with("ok "))
        .count();
    let right = ended.ok() && failed.is_empty() && passed == count;
    let why = format!("{passed} calls of {count}; {failed:?}");
    cx.report(name, ensure(right, why).with(&ended.err))
}

/// Runs the program with the library preloaded.
fn preloaded(cx: &Context, flags: &[&str]) -> Verdict {
    let functions = redirected(cx)?;
    let calls = 3 * functions.len();
    let flags = [flags, &["-Wl,-z,lazy"]].concat();
    let program = compiled(cx, "dynamic", &functions, &flags)?;
    let (library, kernel) = (text(cx.library(Library::Ours)), in_kernel(cx)?);
    run(cx, "without-the-library", &program, &kernel, (&[], calls))?;
    for (bound, now) in [("lazily", ""), ("at-the-start", "1")] {
        let variables = [("LD_PRELOAD", library.as_str()), ("LD_BIND_NOW", now)];
        for (place, link) in [("tree", TREE), ("kernel", &kernel)] {
            let name = format!("bound-{bound}-on-the-{place}");
            run(cx, &name, &program, link, (&variables, calls))?;
        }
    }
    Ok(())
}

/// Runs the program with the library in it.
fn archive(cx: &Context) -> Verdict {
    let functions = redirected(cx)?;
    let kernel = in_kernel(cx)?;
    let directory = format!("-L{}", text(paths::target().join("static-lib")));
    for (name, kind) in [("pie", PIE), ("fixed", FIXED)] {
        let end = [
            "-DOWN_LIBRARY",
            &directory,
            "-Wl,-Bstatic,-libverbs,-Bdynamic",
        ];
        let program = compiled(cx, name, &functions, &[kind, &end].concat())?;
        for (place, link) in [("tree", TREE), ("kernel", &kernel)] {
            let calls = 3 * functions.len() + 1;
            let name = format!("{name}-on-the-{place}");
            run(cx, &name, &program, link, (&[], calls))?;
        }
    }
    // There dlopen needs the libc of the machine that it was linked on, and the linker warns.
    let functions: BTreeSet<String> = functions
        .into_iter()
        .filter(|name| !name.starts_with("dl"))
        .collect();
    for kind in ["-static", "-static-pie"] {
        let flags = [kind, "-DOWN_LIBRARY", "-DSTATIC", &directory, "-libverbs"];
        let program = compiled(cx, &kind[1..], &functions, &flags)?;
        let calls = 2 * functions.len() + 1;
        run(cx, &kind[1..], &program, &kernel, (&[], calls))?;
    }
    Ok(())
}
