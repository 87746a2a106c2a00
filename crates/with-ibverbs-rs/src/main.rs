//! `with-ibverbs-rs PROGRAM [ARG...]` runs a program on libibverbs-rs. With `--check` it reports which
//! libibverbs the program would load, and does not run it. See with-ibverbs-rs(1).
//!
//! It prepends the directory of our library to `LD_LIBRARY_PATH` and the library itself to `LD_PRELOAD`,
//! then executes the program in its own process. The program inherits everything else unchanged. That is
//! why the Rust runtime is not initialized here (`no_main`): it would ignore SIGPIPE and open closed
//! standard streams.
#![cfg_attr(not(test), no_main)]

mod aliases;
mod check;
mod elf;
mod linker;
mod own_library;
mod private;
mod privilege;
mod program;
mod sys;
mod verdict;
mod wheels;

use std::env;
use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::io::{Write, stderr, stdout};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use own_library::Library;
use program::NotAProgram;
use wheels::Copies;

const USAGE: &str = "\
usage: with-ibverbs-rs PROGRAM [ARG...]          run PROGRAM on libibverbs-rs
       with-ibverbs-rs --check PROGRAM [ARG...]  report which libibverbs it would load, and why; do not run it
       with-ibverbs-rs --version                 print the version, and the file of the library
The children of PROGRAM run on libibverbs-rs too.
IBVERBS_RS_DIR names another directory with libibverbs.so.1 and libibverbs.so.
";

/// Exit status of an error of this program itself, as of env(1) and nohup(1).
const FAILED: i32 = 125;
/// Exit status if the program exists but cannot be run.
const NOT_EXECUTABLE: i32 = 126;
const NO_SUCH_PROGRAM: i32 = 127;

/// An environment variable. None if it is not set or empty.
fn var(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

fn say(line: &str) {
    // Nobody is left to report to if standard output is closed.
    let _ = writeln!(stdout(), "{line}");
}

fn warn(line: &str) {
    let _ = writeln!(stderr(), "with-ibverbs-rs: {line}");
}

/// An error that ends this program: its exit status and message.
struct Stop(i32, String);

/// `first`, followed by the value that the variable has now.
fn prepended(first: OsString, variable: &str) -> OsString {
    let mut list = first;
    if let Some(rest) = var(variable) {
        list.push(":");
        list.push(rest);
    }
    list
}

/// The values of LD_LIBRARY_PATH and LD_PRELOAD for the program.
struct Settings {
    library_path: OsString,
    preload: OsString,
}

impl Settings {
    fn new(library: &Library, copies: &Copies) -> Result<Self, Stop> {
        let mut library_path = library.directory.clone().into_os_string();
        let mut preload = library.file.clone().into_os_string();
        if !copies.replaceable.is_empty() {
            library_path.push(":");
            library_path.push(aliases::directory(&library.file, &copies.replaceable)?);
            for name in copies
                .replaceable
                .iter()
                .filter_map(|copy| copy.file_name())
            {
                preload.push(":");
                preload.push(name);
            }
        }
        Ok(Self {
            library_path: prepended(library_path, "LD_LIBRARY_PATH"),
            preload: prepended(preload, "LD_PRELOAD"),
        })
    }
}

enum Command {
    Usage,
    Version,
    Help,
    Run,
    Check,
}

/// The command that the options select, and the number of arguments that are options.
fn options(args: &[OsString]) -> Result<(Command, usize), Stop> {
    let mut command = Command::Run;
    for (count, arg) in args.iter().enumerate() {
        match arg.as_bytes() {
            b"--help" | b"-h" => return Ok((Command::Help, count + 1)),
            b"--version" => return Ok((Command::Version, count + 1)),
            b"--check" => command = Command::Check,
            b"--" if count + 1 < args.len() => return Ok((command, count + 1)),
            b"--" => return Ok((Command::Usage, count + 1)),
            [b'-', ..] => {
                let option = Path::new(arg).display();
                return Err(Stop(
                    FAILED,
                    format!("there is no option {option} (with-ibverbs-rs --help)"),
                ));
            }
            _ => return Ok((command, count)),
        }
    }
    Ok((Command::Usage, args.len()))
}

fn version() -> i32 {
    say(concat!("with-ibverbs-rs ", env!("CARGO_PKG_VERSION")));
    match Library::find() {
        Ok(library) => say(&format!("library: {}", library.file.display())),
        Err(Stop(_, why)) => say(&format!("library: {why}")),
    }
    0
}

/// Executes the program. Returns only if that fails.
fn exec_program(program: &Path, args: &[OsString], library: &Library) -> Result<i32, Stop> {
    let copies = Copies::find(program, library);
    let settings = Settings::new(library, &copies)?;
    for copy in &copies.kept {
        warn(&format!(
            "not replaced: {copy}, which libibverbs-rs does not have"
        ));
    }
    if let Some(reason) = verdict::reason_when_run(program, library) {
        warn(&reason);
    }
    sys::set_var("LD_LIBRARY_PATH", &settings.library_path);
    sys::set_var("LD_PRELOAD", &settings.preload);
    let mut error = sys::exec(program, args);
    if error.raw_os_error() == Some(libc::ENOEXEC) && elf::inspect(program).is_none() {
        // A text file without `#!`: the shell reads it, as when a shell runs it.
        let script = [&[program.into()], args].concat();
        error = sys::exec(Path::new("/bin/sh"), &script);
    }
    Err(Stop(
        NOT_EXECUTABLE,
        format!("{} cannot be run: {error}", program.display()),
    ))
}

fn not_a_program(name: &OsStr, why: &NotAProgram) -> Stop {
    let status = if matches!(why, NotAProgram::Missing(_)) {
        NO_SUCH_PROGRAM
    } else {
        NOT_EXECUTABLE
    };
    Stop(status, format!("{}: {why}", Path::new(name).display()))
}

fn with_ibverbs_rs(args: &[OsString]) -> Result<i32, Stop> {
    let (command, count) = options(args)?;
    let args = &args[count..];
    match command {
        Command::Help => {
            let _ = stdout().write_all(USAGE.as_bytes());
            Ok(0)
        }
        Command::Usage => {
            let _ = stderr().write_all(USAGE.as_bytes());
            Ok(FAILED)
        }
        Command::Version => Ok(version()),
        Command::Check => check::check(&args[0], &Library::find()?),
        Command::Run => {
            let library = Library::find()?;
            let program = program::find(&args[0]).map_err(|why| not_a_program(&args[0], &why))?;
            exec_program(&program, &args[1..], &library)
        }
    }
}

/// The C `main`. `env::args_os` would be empty before glibc 2.34 if the program is linked with a newer one,
/// as that of `make dist` is: the constructor that stores the arguments does not run there.
#[cfg_attr(not(test), unsafe(export_name = "main"))]
#[cfg_attr(test, expect(dead_code, reason = "the test harness has the `main`"))]
extern "C" fn entry(argc: c_int, argv: *const *const c_char) -> i32 {
    let count = usize::try_from(argc).unwrap_or(0);
    // SAFETY: C calls main with `argc` strings at `argv`, which live as long as the process.
    let argument = |i| unsafe { CStr::from_ptr(*argv.add(i)) };
    let args: Vec<OsString> = (1..count)
        .map(|i| OsStr::from_bytes(argument(i).to_bytes()).into())
        .collect();
    with_ibverbs_rs(&args).unwrap_or_else(|Stop(status, why)| {
        warn(&why);
        status
    })
}
