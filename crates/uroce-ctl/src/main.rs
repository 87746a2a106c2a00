//! `uroce-ctl` shows what programs on libibverbs-rs do, and injects faults into them, while they run. See
//! uroce-ctl(1).
//!
//! | file | what is in it |
//! |---|---|
//! | `cli.rs` | commands and options |
//! | `client.rs` | finds the control sockets of processes, and asks them |
//! | `show.rs` | answers as tables |
//! | `top.rs` | queue pairs and their rates, again and again |
//!
//! Not here: what the processes answer. That is `src/diagnose/control` of the library.
//!
//! The Rust runtime is not initialized (`no_main`), as in with-ibverbs-rs: with glibc before 2.34 it would
//! find no arguments, and a closed standard output ends this program by SIGPIPE.
#![cfg_attr(not(test), no_main)]

mod cli;
mod client;
mod show;
mod top;

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use clap::ArgMatches;
use serde_json::Value;

use client::{Process, Selected};

/// Exit status if a process refused a request, or none was found.
const FAILED: i32 = 1;

/// Writes to standard output.
fn print(text: &str) -> Result<(), String> {
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|error| format!("standard output: {error}"))
}

/// A request for each selected process. The first failure ends it.
fn ask_all(selected: &Selected, request: &str) -> Result<Vec<(Process, Value)>, String> {
    let mut answers = Vec::new();
    for process in selected.processes()? {
        let answer = process.ask(request)?;
        answers.push((process, answer));
    }
    Ok(answers)
}

/// The answers, as tables or as JSON: an object per process in a line.
fn show(
    answers: &[(Process, Value)],
    as_json: bool,
    table: impl FnOnce(&[(Process, Value)]) -> String,
) -> Result<(), String> {
    if !as_json {
        return print(&table(answers));
    }
    let lines = answers.iter().map(|(process, answer)| {
        let mut answer = answer.clone();
        answer["pid"] = process.pid.into();
        format!("{answer}\n")
    });
    print(&lines.collect::<String>())
}

fn run(arguments: &ArgMatches) -> Result<(), String> {
    let as_json = arguments.get_flag("json");
    let Some((command, options)) = arguments.subcommand() else {
        return Ok(());
    };
    let selected = Selected::new(options);
    match command {
        "list" => {
            let answers = ask_all(&selected, "info")?;
            show(&answers, as_json, show::processes)
        }
        "rules" => {
            let answers = ask_all(&selected, "rules")?;
            show(&answers, as_json, show::rules)
        }
        "add" => {
            let rules: Vec<&str> = options
                .get_many::<String>("RULES")
                .into_iter()
                .flatten()
                .map(String::as_str)
                .collect();
            let answers = ask_all(&selected.to_change()?, &format!("add {}", rules.join(";")))?;
            show(&answers, as_json, show::added)
        }
        "clear" => {
            let numbers = options.get_many::<u32>("NUMBER").into_iter().flatten();
            let numbers: String = numbers.map(|number| format!(" {number}")).collect();
            let answers = ask_all(&selected.to_change()?, &format!("clear{numbers}"))?;
            show(&answers, as_json, show::cleared)
        }
        "counters" => {
            let answers = ask_all(&selected, "counters")?;
            let zeros = options.get_flag("zeros");
            show(&answers, as_json, |answers| show::counters(answers, zeros))
        }
        "qps" => {
            let answers = ask_all(&selected, "qps")?;
            show(&answers, as_json, show::queue_pairs)
        }
        _ => top::run(&selected, options),
    }
}

fn uroce_ctl(arguments: Vec<OsString>) -> i32 {
    let parsed = match cli::parse(arguments) {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version go to standard output, with status 0.
            let _ = error.print();
            return error.exit_code();
        }
    };
    match run(&parsed) {
        Ok(()) => 0,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "uroce-ctl: {why}");
            FAILED
        }
    }
}

/// The C `main`.
#[cfg_attr(not(test), unsafe(export_name = "main"))]
#[cfg_attr(test, expect(dead_code, reason = "the test harness has the `main`"))]
extern "C" fn entry(argc: c_int, argv: *const *const c_char) -> i32 {
    let count = usize::try_from(argc).unwrap_or(0);
    // SAFETY: C calls main with `argc` strings at `argv`, which live as long as the process.
    let argument = |i| unsafe { CStr::from_ptr(*argv.add(i)) };
    let arguments = (0..count).map(|i| OsStr::from_bytes(argument(i).to_bytes()).into());
    uroce_ctl(arguments.collect())
}
