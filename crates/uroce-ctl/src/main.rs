//! `uroce-ctl` shows what programs on libibverbs-rs do, and injects faults into them, while they run. See
//! uroce-ctl(1).
//!
//! | file | what is in it |
//! |---|---|
//! | `cli.rs` | commands and options |
//! | `client.rs` | finds the control sockets of processes, and asks them |
//! | `exchange.rs` | a request to many processes, and their answers |
//! | `metrics.rs` | counters as OpenMetrics text |
//! | `show.rs` | answers as tables |
//! | `text.rs` | texts of other processes, as a terminal may show them |
//! | `top.rs` | queue pairs and their rates, again and again |
//!
//! Not here: what the processes answer. That is `src/diagnose/control` of the library.
//!
//! The Rust runtime is not initialized (`no_main`), as in with-ibverbs-rs: with glibc before 2.34 it would
//! find no arguments, and a closed standard output ends this program by SIGPIPE.
#![cfg_attr(not(test), no_main)]

mod cli;
mod client;
mod exchange;
mod metrics;
mod show;
mod text;
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

/// The answers of the selected processes. For each of the others, why not is written to standard
/// error.
struct Answers {
    answers: Vec<(Process, Value)>,
    /// How many have not answered.
    failed: usize,
}

fn ask_all(selected: &Selected, request: &str) -> Result<Answers, String> {
    let processes = selected.processes()?;
    let mut all = Answers {
        answers: Vec::new(),
        failed: 0,
    };
    let answers = client::ask(&processes, request);
    for (process, answer) in processes.into_iter().zip(answers) {
        match answer {
            Ok(answer) => all.answers.push((process, answer)),
            Err(why) => {
                report(&why);
                all.failed += 1;
            }
        }
    }
    Ok(all)
}

fn report(why: &str) {
    let _ = writeln!(std::io::stderr(), "uroce-ctl: {why}");
}

/// The answers, as tables or as JSON: an object per process in a line. The exit status.
fn show(
    all: &Answers,
    as_json: bool,
    table: impl FnOnce(&[(Process, Value)]) -> String,
) -> Result<i32, String> {
    let status = if all.failed == 0 { 0 } else { FAILED };
    if all.answers.is_empty() && all.failed > 0 {
        return Ok(status);
    }
    if !as_json {
        print(&table(&all.answers))?;
        return Ok(status);
    }
    let lines = all.answers.iter().map(|(process, answer)| {
        let mut answer = answer.clone();
        answer["pid"] = process.pid.into();
        format!("{}\n", text::printable_json(&answer))
    });
    print(&lines.collect::<String>())?;
    Ok(status)
}

/// Runs a command. Its exit status, or why it has failed.
fn run(arguments: &ArgMatches) -> Result<i32, String> {
    let as_json = arguments.get_flag("json");
    let Some((command, options)) = arguments.subcommand() else {
        return Ok(0);
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
        "names" => {
            let answers = ask_all(&selected, "names")?;
            show(&answers, as_json, show::names)
        }
        "qps" => {
            let answers = ask_all(&selected, "qps")?;
            show(&answers, as_json, show::queue_pairs)
        }
        "metrics" => {
            let all = ask_all(&selected, "qps")?;
            print(&metrics::page(&all.answers))?;
            Ok(if all.failed == 0 { 0 } else { FAILED })
        }
        _ => top::run(&selected, options).map(|()| 0),
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
        Ok(status) => status,
        Err(why) => {
            report(&why);
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
