//! The verdict of a case: passed, or why it failed or was skipped.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The result of a case's body: `Ok`, or why it failed or was skipped. `?` works on I/O errors and
/// texts.
pub type Verdict = Result<(), Failure>;

/// Why a case did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The machine lacks something that the case needs: it is counted as skipped, not as failed.
    pub skipped: bool,
    /// The reason, in one line.
    pub why: String,
    /// More lines: a difference, the end of a log.
    pub details: String,
}

impl Failure {
    pub fn new(why: impl Into<String>) -> Self {
        Self {
            skipped: false,
            why: why.into(),
            details: String::new(),
        }
    }

    /// The case cannot run on this machine, for this reason.
    pub fn skip(why: impl Into<String>) -> Self {
        Self {
            skipped: true,
            ..Self::new(why)
        }
    }

    /// Adds lines that help to find the cause.
    pub fn with(mut self, details: impl AsRef<str>) -> Self {
        let details = details.as_ref().trim_end();
        if !details.is_empty() {
            self.details.push_str(details);
            self.details.push('\n');
        }
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::new(why)
    }
}

impl From<&str> for Failure {
    fn from(why: &str) -> Self {
        Self::new(why)
    }
}

/// Fails with this reason unless the condition holds.
pub fn ensure(holds: bool, why: impl Into<String>) -> Verdict {
    if holds {
        Ok(())
    } else {
        Err(Failure::new(why))
    }
}

/// Fails unless each of these is in the text.
pub fn contains(text: &str, wanted: &[&str]) -> Verdict {
    wanted.iter().try_for_each(|wanted| {
        ensure(text.contains(wanted), format!("there is no {wanted:?}")).with(text)
    })
}

/// Adds lines to the failure of a result, which help to find the cause.
pub trait Details {
    fn with(self, details: impl AsRef<str>) -> Self;
}

impl<T> Details for Result<T, Failure> {
    fn with(self, details: impl AsRef<str>) -> Self {
        self.map_err(|failure| failure.with(details))
    }
}

/// The outcome of a case in reports. `Unstable`: it failed, and passed when it was tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Passed,
    Unstable,
    Failed,
    Skipped,
}

/// A finished case, as its process reports it and as report.json keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    pub name: String,
    pub outcome: Outcome,
    #[serde(default)]
    pub why: String,
    #[serde(default)]
    pub details: String,
    #[serde(default)]
    pub seconds: f64,
    /// The directory with the case's log and the output of its programs.
    #[serde(default)]
    pub dir: String,
}

impl Finished {
    pub fn new(name: impl Into<String>, verdict: &Verdict) -> Self {
        let (outcome, why, details) = match verdict {
            Ok(()) => (Outcome::Passed, String::new(), String::new()),
            Err(f) if f.skipped => (Outcome::Skipped, f.why.clone(), f.details.clone()),
            Err(f) => (Outcome::Failed, f.why.clone(), f.details.clone()),
        };
        Self {
            name: name.into(),
            outcome,
            why,
            details,
            seconds: 0.0,
            dir: String::new(),
        }
    }
}
