//! How the programs of a row ended, on one library. What must be equal is for the suite to decide.

use std::collections::{BTreeMap, BTreeSet};

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
}

impl RowOutcome {
    /// All that was written.
    pub fn text(&self) -> String {
        let streams = self.streams.iter().filter(|(_, text)| !text.is_empty());
        streams
            .map(|(name, text)| format!("{name}:\n{text}"))
            .collect()
    }

    /// Adds what the program in this role wrote, and the libraries that it loaded.
    pub fn add(&mut self, role: &'static str, running: &Running, exit: Exit) -> Verdict {
        let ended = running.ended(exit)?;
        self.streams.insert(format!("{role}.out"), ended.out);
        self.streams.insert(format!("{role}.err"), ended.err);
        self.libraries.insert(role, ended.libraries);
        Ok(())
    }
}
