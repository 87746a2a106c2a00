//! How the programs of a row ended, on one library. What must be equal is for the suite to decide.

use std::collections::{BTreeMap, BTreeSet};

use crate::case_file::Row;
use crate::output_checks::{self, Printed};
use crate::process::{Exit, Running};
use crate::verdict::{Failure, Verdict};

/// How a run ended.
#[derive(Debug, Default)]
pub struct RowOutcome {
    /// The exit code, or those of server and client.
    pub exit: String,
    /// The texts that the programs wrote, by `ROLE.out`, `ROLE.err`, and `verbs.log`.
    pub streams: BTreeMap<String, String>,
    /// The files of libibverbs that each program loaded.
    pub libraries: BTreeMap<&'static str, BTreeSet<String>>,
    /// The command of each program, and how it ended.
    pub ended: BTreeMap<&'static str, (Vec<String>, Exit)>,
}

impl RowOutcome {
    /// The outcome of one program.
    pub fn of_program(running: &Running, exit: Exit) -> Result<Self, Failure> {
        let mut outcome = Self {
            exit: exit.to_string(),
            ..Self::default()
        };
        outcome.add("program", running, exit)?;
        Ok(outcome)
    }

    /// All that was written.
    pub fn text(&self) -> String {
        let streams = self.streams.iter().filter(|(_, text)| !text.is_empty());
        streams
            .map(|(name, text)| format!("{name}:\n{text}"))
            .collect()
    }

    /// The programs, for `output_checks`.
    pub fn printed(&self) -> Vec<Printed<'_>> {
        let stream = |name: String| self.streams.get(&name).map_or("", String::as_str);
        let programs = self.ended.iter().map(|(role, (argv, exit))| Printed {
            role,
            argv,
            exit: *exit,
            out: stream(format!("{role}.out")),
            err: stream(format!("{role}.err")),
        });
        programs.collect()
    }

    /// Whether the output is wrong after perftest could not calibrate its clock: its figures mean nothing.
    pub fn is_uncalibrated(&self, row: &Row) -> bool {
        let printed = self.printed();
        self.exit == row.exit
            && printed
                .iter()
                .any(|of| output_checks::is_uncalibrated(of.err))
            && !output_checks::of_row(row, &printed).is_empty()
    }

    /// Adds what the program in this role wrote, and the libraries that it loaded.
    pub fn add(&mut self, role: &'static str, running: &Running, exit: Exit) -> Verdict {
        let ended = running.ended(exit)?;
        self.streams.insert(format!("{role}.out"), ended.out);
        self.streams.insert(format!("{role}.err"), ended.err);
        self.libraries.insert(role, ended.libraries);
        self.ended.insert(role, (running.argv().to_vec(), exit));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WARNING: &str = "Correlation coefficient r^2: 0.771256 < 0.9\n";

    fn outcome(exit: &str, rate: &str, err: &str) -> RowOutcome {
        let argv = ["ib_send_bw", "-s", "8192", "localhost"].map(String::from);
        RowOutcome {
            exit: exit.into(),
            streams: BTreeMap::from([
                (
                    "client.out".into(),
                    format!(" 8192  5  {rate}  {rate}  0.1\n"),
                ),
                ("client.err".into(), err.into()),
            ]),
            ended: BTreeMap::from([("client", (argv.to_vec(), Exit::Code(0)))]),
            ..RowOutcome::default()
        }
    }

    #[test]
    fn wrong_figures_count_as_uncalibrated_only_after_perftest_has_said_so() {
        let row: Row = toml::from_str("name = 'a'\nexit = '0/0'\nwhere = {}").unwrap();
        let of = |exit, rate, err| outcome(exit, rate, err).is_uncalibrated(&row);
        assert!(of("0/0", "0.00", WARNING));
        assert!(!of("0/0", "0.00", ""));
        assert!(!of("0/0", "1.00", WARNING));
        assert!(!of("0/1", "0.00", WARNING));
    }
}
