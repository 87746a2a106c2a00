//! The command line of the process of a case.

use std::path::PathBuf;

use crate::pattern::Patterns;

/// The arguments that the runner passes to a case's process, in this order.
pub struct Arguments {
    pub name: String,
    pub dir: PathBuf,
    pub staged: PathBuf,
    pub patterns: Patterns,
}

impl Arguments {
    /// Parses the command line, after `--child`.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let (name, dir, staged) = (args.next()?, args.next()?.into(), args.next()?.into());
        Some(Self {
            name,
            dir,
            staged,
            patterns: Patterns(args.collect()),
        })
    }

    /// The command line that `parse` reads.
    pub fn words(&self) -> Vec<String> {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let mut words = vec![
            "--child".into(),
            self.name.clone(),
            text(&self.dir),
            text(&self.staged),
        ];
        words.extend(self.patterns.0.iter().cloned());
        words
    }
}
