//! Reports of valgrind: memory that a program has lost, and errors.

use std::fmt;
use std::path::Path;

use crate::process::read;

/// The totals of a report of valgrind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Definitely and indirectly lost.
    bytes: u64,
    blocks: u64,
    errors: u64,
}

impl Counts {
    /// Whether this loses more bytes, or has more errors.
    pub fn exceed(&self, other: &Counts) -> bool {
        self.bytes > other.bytes || self.errors > other.errors
    }

    /// Parses a report; `None` if it has no summary.
    fn parse(report: &str) -> Option<Self> {
        let mut counts = Self::default();
        let mut complete = false;
        for line in report.lines() {
            if line.contains("definitely lost:") || line.contains("indirectly lost:") {
                let numbers = numbers(line);
                counts.bytes += numbers.first()?;
                counts.blocks += numbers.get(1)?;
            } else if line.contains("ERROR SUMMARY:") {
                counts.errors = *numbers(line).first()?;
                complete = true;
            }
        }
        complete.then_some(counts)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            bytes,
            blocks,
            errors,
        } = self;
        write!(f, "{bytes} bytes lost in {blocks} blocks, {errors} errors")
    }
}

/// The numbers of a line, without the process ID in front: 1,234 is one number.
fn numbers(line: &str) -> Vec<u64> {
    let words = line.split_whitespace().skip(1);
    words
        .filter_map(|word| word.replace(',', "").parse().ok())
        .collect()
}

/// A report of valgrind.
pub struct Leaks {
    pub counts: Counts,
    /// The first lines of the report, without the names of the files that the program reads.
    pub report: String,
}

impl Leaks {
    /// The command in front of the program.
    pub fn command(report: &str) -> Vec<String> {
        let options = [
            "valgrind",
            "-q",
            "--leak-check=full",
            "--errors-for-leak-kinds=none",
            "--show-leak-kinds=definite,indirect",
            "--verbose",
        ];
        let words = options.into_iter().map(String::from);
        words.chain([format!("--log-file={report}")]).collect()
    }

    pub fn read(path: &Path) -> Option<Self> {
        let text = read(path);
        let shown = |line: &&str| !line.contains("Reading syms") && !line.starts_with("--");
        let lines = text.lines().filter(shown).take(30);
        Some(Self {
            counts: Counts::parse(&text)?,
            report: lines.map(|line| format!("{line}\n")).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_a_report() {
        let report = "==7== LEAK SUMMARY:\n==7==    definitely lost: 1,032 bytes in 2 blocks\n\
                      ==7==    indirectly lost: 8 bytes in 1 blocks\n\
                      ==7== ERROR SUMMARY: 3 errors from 3 contexts (suppressed: 0 from 0)\n";
        let counts = Counts::parse(report).unwrap();
        let expected = Counts {
            bytes: 1040,
            blocks: 3,
            errors: 3,
        };
        assert_eq!(counts, expected);
        assert!(counts.exceed(&Counts::default()));
        assert!(!Counts::default().exceed(&counts));
    }

    #[test]
    fn a_report_that_ends_early_is_none() {
        assert_eq!(
            Counts::parse("==7== definitely lost: 0 bytes in 0 blocks\n"),
            None
        );
    }
}
