//! compat-tests [--check | --test | --all] [--list] [PATTERN...]: runs the cases, or those whose names
//! match a pattern. See README.md.
//!
//! For use by hand, by benches/ and by demonstrations: --fake-sysfs only makes a tree of sysfs, --vm runs a
//! command in the virtual machine.

use std::process::ExitCode;

use compat_tests::arguments::Arguments;
use compat_tests::case::Tier;
use compat_tests::child;
use compat_tests::fake::sysfs::{Device, Tree, known_devices};
use compat_tests::machine::command;
use compat_tests::pattern::Patterns;
use compat_tests::runner::{self, Options};
use compat_tests::suites;

const USAGE: &str = "usage: compat-tests [--check | --test | --all] [--list] [PATTERN...]
       compat-tests --fake-sysfs DIR DEVICE...
       compat-tests --vm COMMAND...";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(message) => {
            eprintln!("compat-tests: {message}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, String> {
    let mut args = std::env::args().skip(1).peekable();
    let cases = suites::all()?;
    if args.next_if_eq("--child").is_some() {
        let args = Arguments::parse(args).ok_or(USAGE)?;
        let case = cases.iter().find(|case| case.name == args.name);
        let case = case.ok_or_else(|| format!("no case {}", args.name))?;
        return child::run(case, args)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|failure| failure.to_string());
    }
    if args.next_if_eq("--guest").is_some() {
        let args = Arguments::parse(args).ok_or(USAGE)?;
        let case = cases.iter().find(|case| case.name == args.name);
        let case = case.ok_or_else(|| format!("no case {}", args.name))?;
        return case
            .run_in_guest(args)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|failure| format!("{failure}\n{}", failure.details));
    }
    if args.next_if_eq("--fake-sysfs").is_some() {
        return fake_sysfs(args).map(|()| ExitCode::SUCCESS);
    }
    if args.next_if_eq("--vm").is_some() {
        return in_machine(&args.collect::<Vec<_>>());
    }
    let mut options = Options {
        tier: Tier::Test,
        patterns: Patterns::default(),
    };
    let mut list = false;
    for arg in args {
        match arg.as_str() {
            "--check" => options.tier = Tier::Check,
            "--test" => options.tier = Tier::Test,
            "--all" => options.tier = Tier::All,
            "--list" => list = true,
            "--help" | "-h" => {
                println!("{USAGE}");
                return Ok(ExitCode::SUCCESS);
            }
            word if word.starts_with("--") => {
                return Err(format!("unknown option {word}\n{USAGE}"));
            }
            pattern => options.patterns.0.push(pattern.into()),
        }
    }
    if list {
        for case in runner::select(&cases, &options) {
            case.names()
                .iter()
                .filter(|n| options.patterns.select(n))
                .for_each(|n| println!("{n}"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let summary = runner::run(&cases, &options)?;
    print!("{}", summary.text());
    Ok(if summary.passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs a command in the virtual machine, and ends as it does.
fn in_machine(words: &[String]) -> Result<ExitCode, String> {
    if words.is_empty() {
        return Err(USAGE.into());
    }
    let code = command::run(words).map_err(|failure| format!("{failure}\n{}", failure.details))?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// Writes a tree of sysfs with these devices for the fake kernel, and prints the value of FAKE_NL_DEVICES for
/// it.
fn fake_sysfs(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    let dir = args.next().ok_or(USAGE)?;
    let devices: Vec<Device> = args.map(|name| Device::from(name.as_str())).collect();
    if devices.is_empty() {
        return Err(format!(
            "no device; known are: {}\n{USAGE}",
            known_devices().join(" ")
        ));
    }
    let tree = Tree::new(devices);
    tree.write(dir.as_ref())
        .map_err(|e| format!("{dir}: {e}"))?;
    println!("{}", tree.netlink());
    Ok(())
}
