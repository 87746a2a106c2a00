//! Commands and options.

use std::ffi::OsString;

use clap::builder::NonEmptyStringValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

const RULES_HELP: &str = "Rules such as drop:p=1%, as in libibverbs-rs-faults(7)";

fn pid() -> Arg {
    Arg::new("pid")
        .short('p')
        .long("pid")
        .value_name("PID")
        .value_parser(value_parser!(u32).range(1..))
        .help("Only this process")
}

fn all() -> Arg {
    Arg::new("all")
        .short('a')
        .long("all")
        .action(ArgAction::SetTrue)
        .conflicts_with("pid")
        .help("All processes")
}

/// Parses the arguments, or fails with the message that the user gets.
pub fn parse(arguments: Vec<OsString>) -> Result<ArgMatches, clap::Error> {
    let mut command = command();
    let parsed = command.try_get_matches_from_mut(arguments)?;
    if parsed.get_flag("json") && parsed.subcommand_name() == Some("metrics") {
        let why = "metrics prints OpenMetrics text: `uroce-ctl --json qps` has the same numbers";
        return Err(command.error(ErrorKind::ArgumentConflict, why));
    }
    if parsed.get_flag("json") && parsed.subcommand_name() == Some("top") {
        let why = "top prints no JSON: run `uroce-ctl --json qps` again and again";
        return Err(command.error(ErrorKind::ArgumentConflict, why));
    }
    Ok(parsed)
}

/// The command line.
pub fn command() -> Command {
    let json = Arg::new("json")
        .long("json")
        .global(true)
        .action(ArgAction::SetTrue)
        .help("Print JSON: an object for each process, in a line");
    Command::new("uroce-ctl")
        .about("Shows queue pairs and counters of programs on libibverbs-rs, and injects faults into them")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .arg(json)
        .subcommands([
            Command::new("list")
                .about("List the processes")
                .arg(pid()),
            Command::new("rules")
                .about("List the rules in force, and how often each has matched and applied")
                .arg(pid()),
            Command::new("add")
                .about("Put further rules into force, in programs that run with IBV_FAULTS")
                .args([pid(), all()])
                .arg(
                    Arg::new("RULES")
                        .required(true)
                        .num_args(1..)
                        .value_parser(NonEmptyStringValueParser::new())
                        .help(RULES_HELP),
                ),
            Command::new("clear")
                .about("Remove rules")
                .args([pid(), all()])
                .arg(
                    Arg::new("NUMBER")
                        .num_args(0..)
                        .value_parser(value_parser!(u32))
                        .help("The numbers of the rules; without one, all rules are removed"),
                ),
            Command::new("counters")
                .about("Print the counters of devices")
                .arg(pid())
                .arg(
                    Arg::new("zeros")
                        .short('z')
                        .long("zeros")
                        .action(ArgAction::SetTrue)
                        .help("Print those that are 0, too"),
                ),
            Command::new("qps").about("List queue pairs").arg(pid()),
            Command::new("names")
                .about("List the objects to which programs have given names")
                .arg(pid()),
            Command::new("metrics")
                .about("Print the counters of queue pairs as OpenMetrics text")
                .arg(pid()),
            Command::new("top")
                .about("Show the queue pairs with their rates, again and again")
                .arg(pid())
                .arg(
                    Arg::new("interval")
                        .short('i')
                        .long("interval")
                        .value_name("SECONDS")
                        .default_value("1")
                        .value_parser(value_parser!(f64))
                        .help("The time between two updates"),
                )
                .arg(
                    Arg::new("count")
                        .short('n')
                        .long("count")
                        .value_name("N")
                        .value_parser(value_parser!(u64).range(1..))
                        .help("Stop after N updates"),
                ),
        ])
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap_complete::{Shell, generate};

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    /// The files of packaging/completion are what clap_complete generates. UPDATE=1 writes them.
    #[test]
    fn completions() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/completion");
        for (shell, name) in [(Shell::Bash, "uroce-ctl.bash"), (Shell::Zsh, "_uroce-ctl")] {
            let mut generated = Vec::new();
            generate(shell, &mut command(), "uroce-ctl", &mut generated);
            // For bash, clap_complete has two names for a command of a program with a hyphen (clap's issue
            // 6421), so that nothing behind the command is completed.
            let generated = String::from_utf8(generated)
                .unwrap()
                .replace("uroce__subcmd__ctl", "uroce__ctl");
            let file = directory.join(name);
            if std::env::var_os("UPDATE").is_some() {
                std::fs::write(&file, &generated).unwrap();
            }
            let committed = std::fs::read_to_string(&file).unwrap();
            assert!(
                committed == generated,
                "{name} is outdated: UPDATE=1 cargo test -p uroce-ctl"
            );
        }
    }
}
