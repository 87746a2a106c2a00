//! Programs of threads/, and verbs_walk of providers/, on builds of our library with ThreadSanitizer
//! (data races) and AddressSanitizer (memory errors, leaks). valgrind's helgrind does not know locks made
//! of futexes. There is no such build of the C library, so nothing is compared: any report of a sanitizer
//! is a failure.
//!
//! They need a nightly compiler, gcc's sanitizer runtimes and, for ThreadSanitizer, the sources of std
//! (rustup component add rust-src): it must see std's locks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::case::{Case, Tier};
use crate::checks::slug;
use crate::context::Context;
use crate::fake::SHIM;
use crate::fake::sysfs::Tree;
use crate::paths::{self, text};
use crate::process::{Program, read, succeeded};
use crate::verdict::{Details, Failure, Verdict, ensure};

const DEVICES: [&str; 2] = ["rxe0", "mlx5_0"];
const THREADS: &str = "4";
const ROUNDS: &str = "10";
const BUILD: Duration = Duration::from_secs(1200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SanitizerKind {
    Thread,
    Address,
}

impl SanitizerKind {
    fn name(self) -> &'static str {
        match self {
            SanitizerKind::Thread => "thread",
            SanitizerKind::Address => "address",
        }
    }

    /// The initial of tsan and asan, in names of libraries and functions.
    fn initial(self) -> char {
        match self {
            SanitizerKind::Thread => 't',
            SanitizerKind::Address => 'a',
        }
    }

    /// The programs. gcc's ThreadSanitizer must compile them too; AddressSanitizer works without.
    fn programs(self) -> [&'static str; 2] {
        match self {
            SanitizerKind::Thread => ["threads-tsan", "verbs_walk-tsan"],
            SanitizerKind::Address => ["threads", "verbs_walk"],
        }
    }
}

pub fn cases() -> Vec<Case> {
    [SanitizerKind::Thread, SanitizerKind::Address]
        .map(case)
        .into()
}

fn case(kind: SanitizerKind) -> Case {
    let group = format!("sanitizers/{}", kind.name());
    let mut members = vec![format!("{group}/the-library-is-watched")];
    members.extend(runs().iter().map(|run| format!("{group}/{}", run.name)));
    let programs = kind.programs();
    Case::new(group, move |cx| run(cx, kind))
        .tier(Tier::All)
        .cpu(200)
        .memory(3000)
        .limit(4000)
        .estimate(400)
        .programs(&[SHIM, programs[0], programs[1]])
        .members(members)
}

/// A program on the fake kernel.
struct SanitizedProgram {
    name: String,
    /// The program's index in `SanitizerKind::programs`.
    program: usize,
    arguments: Vec<&'static str>,
    variable: Option<(&'static str, &'static str)>,
}

fn runs() -> Vec<SanitizedProgram> {
    let mut all = Vec::new();
    let threads = |mode, device| vec![mode, device, THREADS, ROUNDS];
    for device in DEVICES {
        for io in ["ENOTTY", "ok"] {
            let variable = Some(("FAKE_IOCTL", io));
            for mode in ["objects", "shared", "events", "cancel", "fork", "loops"] {
                all.push(SanitizedProgram {
                    name: slug(&format!("{mode}, {device}, ioctl {io}")),
                    program: 0,
                    arguments: threads(mode, device),
                    variable,
                });
            }
            all.push(SanitizedProgram {
                name: slug(&format!("verbs_walk, {device}, ioctl {io}")),
                program: 1,
                arguments: vec![device],
                variable,
            });
        }
        for (kind, variable) in [("netlink", Some(("FAKE_NL", "ok"))), ("sysfs", None)] {
            all.push(SanitizedProgram {
                name: slug(&format!("list, {device}, {kind}")),
                program: 0,
                arguments: threads("list", device),
                variable,
            });
        }
    }
    all
}

fn run(cx: &Context, kind: SanitizerKind) -> Verdict {
    let dir = build(cx, kind)?;
    let library = dir.join("libibverbs.so.1");
    let symbols = cx.output(["nm", "-D", &text(&library)])?;
    let watched = symbols.contains(&format!("U __{}san_", kind.initial()));
    cx.report(
        "the-library-is-watched",
        ensure(watched, "it is not instrumented"),
    )?;
    Tree::new(DEVICES).write(&cx.dir().join("sys"))?;
    for run in runs() {
        if cx.selects(&format!("{}/{}", cx.name, run.name)) {
            cx.report(&run.name, passes(cx, kind, &dir, &run))?;
        }
    }
    Ok(())
}

/// Runs a command; returns what it prints if it succeeds.
fn printed(words: &[&str]) -> Option<String> {
    let output = Command::new(words[0]).args(&words[1..]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
    output.status.success().then_some(text)
}

/// The runtime of gcc's sanitizer.
fn runtime(kind: SanitizerKind) -> Option<PathBuf> {
    let name = format!("-print-file-name=lib{}san.so", kind.initial());
    fs::canonicalize(printed(&["gcc", &name])?).ok()
}

/// Builds the library with the sanitizer; returns the directory with nothing but its two names.
fn build(cx: &Context, kind: SanitizerKind) -> Result<PathBuf, Failure> {
    let skip = |why: &str| Failure::skip(why);
    let runtime = runtime(kind).ok_or_else(|| skip("gcc's sanitizer runtime is missing"))?;
    let root = printed(&["rustup", "run", "nightly", "rustc", "--print", "sysroot"]);
    let root = root.ok_or_else(|| skip("needs a nightly compiler"))?;
    let has_std = Path::new(&root)
        .join("lib/rustlib/src/rust/library")
        .exists();
    if kind == SanitizerKind::Thread && !has_std {
        return Err(skip("needs rust-src of the nightly compiler"));
    }
    let host = printed(&["rustc", "-vV"]).unwrap_or_default();
    let host = host.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("rustc does not name its host")?;
    let mut words = ["rustup", "run", "nightly", "cargo", "build", "--release"].to_vec();
    if has_std {
        words.push("-Zbuild-std=std,panic_abort");
    }
    words.extend(["--target", host]);
    let target = paths::target().join("sanitize").join(kind.name());
    let program = cx.program(words).dir(&cx.paths.repo).merged();
    let program = program
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("RUSTFLAGS", rust_flags(cx, kind, &runtime)?);
    program.limit(BUILD).succeed()?;
    let dir = cx.dir().join("lib");
    fs::create_dir_all(&dir)?;
    let built = target.join(host).join("release/libibverbs.so");
    fs::copy(built, dir.join("libibverbs.so.1"))?;
    Ok(dir)
}

fn rust_flags(cx: &Context, kind: SanitizerKind, runtime: &Path) -> Result<String, Failure> {
    let mut flags = format!(
        "-Zsanitizer={} -Cunsafe-allow-abi-mismatch=sanitizer -Clink-arg={}",
        kind.name(),
        text(runtime)
    );
    if kind == SanitizerKind::Thread {
        let object = paths::target().join("sanitize/tsan_mem.o");
        fs::create_dir_all(paths::target().join("sanitize"))?;
        let source = text(cx.source("threads/tsan_mem.c"));
        let compile = [
            "gcc",
            "-O1",
            "-fPIC",
            "-fvisibility=hidden",
            "-c",
            "-o",
            &text(&object),
            &source,
        ];
        cx.output(compile)?;
        flags += &format!(" -Clink-arg={}", text(&object));
    }
    Ok(flags)
}

/// Passes if the program exits with 0 and the sanitizer reports nothing.
fn passes(cx: &Context, kind: SanitizerKind, library: &Path, run: &SanitizedProgram) -> Verdict {
    let report = cx.dir().join(format!("report-{}", run.name));
    let mut argv = vec![cx.built(kind.programs()[run.program])?];
    argv.extend(run.arguments.iter().map(|word| word.to_string()));
    let mut program = cx
        .program(argv)
        .merged()
        .library(library)
        .env("SYSFS_PATH", cx.dir().join("sys"))
        .env("FAKE_NL_DEVICES", Tree::new(DEVICES).netlink())
        .env("LIMIT", "500")
        .limit(Duration::from_secs(300));
    if let Some((name, value)) = run.variable {
        program = program.env(name, value);
    }
    let ended = with_options(cx, kind, program, &report)?.run()?;
    let reports = reports(cx, &report)?;
    succeeded("the program", &ended).with(&reports)?;
    ensure(reports.is_empty(), "the sanitizer has reported errors").with(&reports)
}

/// The runtime wants its part of the address space. Providers are not built for it, so what they do is
/// not seen; the library's and the program's accesses are.
fn with_options(
    cx: &Context,
    kind: SanitizerKind,
    program: Program,
    report: &Path,
) -> Result<Program, Failure> {
    let shim = cx.built(SHIM)?;
    let log = format!("log_path={}", text(report));
    let suppressions =
        |file: &str| format!("suppressions={}", text(cx.source("threads").join(file)));
    Ok(match kind {
        // The sanitizer's open() comes after the fake kernel's.
        SanitizerKind::Thread => program
            .env("LD_PRELOAD", shim)
            .env(
                "TSAN_OPTIONS",
                format!(
                    "{log} second_deadlock_stack=1 {}",
                    suppressions("tsan.supp")
                ),
            )
            .under(["setarch", "-R"]),
        SanitizerKind::Address => {
            let runtime = runtime(kind).ok_or("gcc's sanitizer runtime is missing")?;
            program
                .env("LD_PRELOAD", format!("{} {shim}", text(&runtime)))
                .env("ASAN_OPTIONS", format!("{log}:detect_leaks=1"))
                .env(
                    "LSAN_OPTIONS",
                    format!("{}:print_suppressions=0", suppressions("lsan.supp")),
                )
        }
    })
}

/// Reads the reports of the sanitizer: a file for each process, named `REPORT.PID`.
fn reports(cx: &Context, report: &Path) -> Result<String, Failure> {
    let prefix = format!("{}.", text(report));
    let mut all = String::new();
    for entry in fs::read_dir(cx.dir())? {
        let path = entry?.path();
        if text(&path).starts_with(&prefix) {
            all += &read(&path);
        }
    }
    Ok(all
        .lines()
        .take(60)
        .map(|line| format!("{line}\n"))
        .collect())
}
