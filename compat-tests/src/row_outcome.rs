//! How the programs of a row ended, on one library. What must be equal is for the suite to decide.

use std::collections::{BTreeMap, BTreeSet};

use crate::output_checks::Printed;
use crate::process::{Exit, Running};
use crate::verdict::Verdict;

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
