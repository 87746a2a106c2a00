//! A rule, and its text, which parses to the same rule.

use core::fmt;
use std::time::Duration;

use crate::table::{ACTIONS, ActionEntry, EVENTS, STATUSES, errno_name, name_of};

/// A name, or the beginning of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    pub(crate) text: String,
    pub(crate) is_prefix: bool,
}

impl Pattern {
    /// The pattern that a text stands for: `name`, or `prefix*`.
    pub fn new(text: &str) -> Pattern {
        match text.strip_suffix('*') {
            Some(prefix) => Pattern {
                text: prefix.into(),
                is_prefix: true,
            },
            None => Pattern {
                text: text.into(),
                is_prefix: false,
            },
        }
    }

    /// Whether the pattern matches the name.
    pub fn matches(&self, name: &str) -> bool {
        match self.is_prefix {
            true => name.starts_with(&self.text),
            false => name == self.text,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.is_prefix { "*" } else { "" };
        write!(f, "{}{star}", self.text)
    }
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A packet is lost.
    Drop,
    /// A packet has a wrong ICRC.
    Corrupt,
    /// A packet arrives twice.
    Duplicate,
    /// A packet arrives later.
    Delay(Duration),
    /// A message finds no receive posted.
    Rnr,
    /// A completion has this status.
    Completion(u32),
    /// A verb fails.
    Fail {
        /// The verb, without `ibv_`.
        call: Pattern,
        /// Its errno value.
        errno: i32,
    },
    /// An asynchronous event is raised.
    Event {
        /// Its type.
        kind: u32,
        /// The interval between two of them.
        every: Duration,
    },
    /// A poll takes this much longer.
    SlowCq(Duration),
}

impl Action {
    /// Its entry in [`ACTIONS`].
    pub fn entry(&self) -> &'static ActionEntry {
        let at = match self {
            Action::Drop => 0,
            Action::Corrupt => 1,
            Action::Duplicate => 2,
            Action::Delay(_) => 3,
            Action::Rnr => 4,
            Action::Completion(_) => 5,
            Action::Fail { .. } => 6,
            Action::Event { .. } => 7,
            Action::SlowCq(_) => 8,
        };
        &ACTIONS[at]
    }
}

/// A rule: an action, and what it applies to.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// What it does.
    pub action: Action,
    /// The probability that it applies to a match, out of 2^32.
    pub probability: u64,
    /// It applies this many times at most.
    pub count: u64,
    /// This many matches are skipped first.
    pub after: u64,
    /// It applies from this time on, counted from when the rules were set.
    pub from: Duration,
    /// It applies before this time.
    pub to: Duration,
    /// On this device only.
    pub device: Option<String>,
    /// To this queue pair only.
    pub qpn: Option<u32>,
    /// To these operations only.
    pub opcode: Option<Pattern>,
    /// To these lengths only: the least and the largest, in bytes.
    pub size: Option<(u64, u64)>,
    /// Of packets: to those that the device sends, not to those that it receives.
    pub sent: bool,
}

/// The probability of a rule that always applies.
pub(crate) const CERTAIN: u64 = 1 << 32;

impl Rule {
    /// A rule that applies to every match.
    pub fn new(action: Action) -> Rule {
        Rule {
            action,
            probability: CERTAIN,
            count: u64::MAX,
            after: 0,
            from: Duration::ZERO,
            to: Duration::MAX,
            device: None,
            qpn: None,
            opcode: None,
            size: None,
            sent: false,
        }
    }
}

/// A time as rules write it, without loss.
fn time(value: Duration) -> String {
    let nanos = value.as_nanos();
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    match units.iter().find(|(_, unit)| nanos % unit == 0) {
        Some((name, unit)) => format!("{}{name}", nanos / unit),
        None => format!("{nanos}ns"),
    }
}

/// A probability in the fewest decimal places that stand for it.
fn probability(value: u64) -> String {
    let p = value as f64 / CERTAIN as f64;
    let stands_for = |text: &String| {
        let parsed = text
            .parse::<f64>()
            .map(|p| (p * CERTAIN as f64).round() as u64);
        parsed == Ok(value)
    };
    let texts = (1..12).map(|places| format!("{p:.places$}"));
    texts
        .into_iter()
        .find(stands_for)
        .unwrap_or_else(|| p.to_string())
}

fn size(least: u64, largest: u64) -> String {
    match (least, largest) {
        _ if least == largest => least.to_string(),
        (0, _) => format!("-{largest}"),
        (_, u64::MAX) => format!("{least}-"),
        _ => format!("{least}-{largest}"),
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut keys = Vec::new();
        match &self.action {
            Action::Delay(by) | Action::SlowCq(by) => keys.push(format!("time={}", time(*by))),
            Action::Completion(status) => {
                keys.push(format!("status={}", name_of(&STATUSES, *status)))
            }
            Action::Fail { call, errno } => {
                keys.push(format!("call={call}"));
                keys.push(format!("errno={}", errno_name(*errno)));
            }
            Action::Event { kind, every } => {
                keys.push(format!("type={}", name_of(&EVENTS, *kind)));
                if *every > Duration::ZERO {
                    keys.push(format!("every={}", time(*every)));
                }
            }
            _ => {}
        }
        if self.probability < CERTAIN {
            keys.push(format!("p={}", probability(self.probability)));
        }
        // An event's count is 1 unless the text says otherwise.
        if self.count < u64::MAX || matches!(self.action, Action::Event { .. }) {
            keys.push(format!("count={}", self.count));
        }
        if self.after > 0 {
            keys.push(format!("after={}", self.after));
        }
        if self.from > Duration::ZERO {
            keys.push(format!("from={}", time(self.from)));
        }
        if self.to < Duration::MAX {
            keys.push(format!("to={}", time(self.to)));
        }
        keys.extend(self.device.iter().map(|name| format!("device={name}")));
        keys.extend(self.qpn.iter().map(|qpn| format!("qpn={qpn}")));
        keys.extend(self.opcode.iter().map(|opcode| format!("opcode={opcode}")));
        keys.extend(
            self.size
                .iter()
                .map(|of| format!("size={}", size(of.0, of.1))),
        );
        if self.sent {
            keys.push("direction=tx".into());
        }
        f.write_str(self.action.entry().name)?;
        if !keys.is_empty() {
            write!(f, ":{}", keys.join(","))?;
        }
        Ok(())
    }
}
