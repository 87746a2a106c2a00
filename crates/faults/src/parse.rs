//! The parser of rules: from text to [`Rule`]s, or an error with the place where it is.
//!
//! Not here: names and their values (`table.rs`), whether a rule can apply to anything.

mod script;

use core::fmt;
use std::time::Duration;

use crate::rule::{Action, CERTAIN, Latency, Pattern, Rule};
use crate::table::{
    ACTIONS, ActionEntry, CALLS, COMPLETION_OPCODES, DIRECTIONS, DISTRIBUTIONS, EVENTS, GID_STATES,
    KEYS, Key, KeyEntry, PACKET_OPCODES, Point, STATUSES,
};
use crate::value::{
    Span, Wrong, bits, bytes, device, duration, error_number, named, names, network, number,
    pattern, probability, qp_number, shown, sizes, times,
};

/// The most rules of a text.
const MAX_RULES: usize = 256;
/// The bytes that may wait in front of a line, if a rule does not say.
const QUEUE: u64 = 256 << 10;
/// The longest burst, in packets.
const MAX_BURST: u64 = 1 << 20;

/// The rules of a text, and its seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// The rules, in the order in which they were written.
    pub rules: Vec<Rule>,
    /// The seed of the random numbers, if there is one.
    pub seed: Option<u64>,
}

/// Why a text was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The line, from 1.
    pub line: usize,
    /// The column in bytes, from 1.
    pub column: usize,
    /// The error, in one line.
    pub why: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 1 {
            write!(f, "line {}, ", self.line)?;
        }
        write!(f, "column {}: {}", self.column, self.why)
    }
}

/// Parses rules. They are separated by `;` or line ends; what follows `#` in a line is a comment.
pub fn parse(text: &[u8]) -> Result<Parsed, Error> {
    let mut parsed = Parsed::default();
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let result = core::str::from_utf8(line)
            .map_err(|error| (error.valid_up_to(), "this is not UTF-8".to_string()))
            .and_then(|line| parse_line(line, &mut parsed));
        result.map_err(|(column, why)| Error {
            line: at + 1,
            column: column + 1,
            why,
        })?;
    }
    Ok(parsed)
}

fn parse_line(line: &str, parsed: &mut Parsed) -> Result<(), Wrong> {
    let text = line.split('#').next().unwrap_or_default();
    for entry in (Span { text, at: 0 }).split(';') {
        let entry = entry.trimmed();
        if entry.text.is_empty() {
            continue;
        }
        if let Some(seed) = entry.text.strip_prefix("seed=") {
            let at = entry.at + "seed=".len();
            if parsed.seed.is_some() {
                return entry.wrong("'seed' is there twice");
            }
            parsed.seed = Some(number(Span { text: seed, at })?);
            continue;
        }
        let rules = match script::is_statement(entry) {
            true => script::statement(entry)?,
            false => vec![rule(entry)?],
        };
        if parsed.rules.len() + rules.len() > MAX_RULES {
            return entry.wrong(format!("there are more than {MAX_RULES} rules"));
        }
        parsed.rules.extend(rules);
    }
    Ok(())
}

/// The rule of an entry.
pub(crate) fn rule(entry: Span) -> Result<Rule, Wrong> {
    let (name, keys) = match entry.split_once(':') {
        Some((name, keys)) => (name.trimmed(), Some(keys)),
        None => (entry, None),
    };
    let Some(action) = ACTIONS.iter().find(|action| action.name == name.text) else {
        let all = names(ACTIONS.iter().map(|action| action.name));
        return name.wrong(format!(
            "unknown action '{}'; there are: {all}, seed=N",
            shown(name.text)
        ));
    };
    let mut values = Vec::new();
    for pair in keys.iter().flat_map(|keys| keys.split(',')) {
        let (key, value) = key_and_value(pair.trimmed(), action)?;
        if values
            .iter()
            .any(|(other, _): &(&KeyEntry, Span)| other.key == key.key)
        {
            return pair
                .trimmed()
                .wrong(format!("'{}' is there twice", key.name));
        }
        values.push((key, value));
    }
    let missing = action
        .needs
        .iter()
        .find(|needed| !values.iter().any(|(key, _)| key.key == **needed));
    if let Some(missing) = missing {
        let key = entry_of(*missing);
        return name.wrong(format!(
            "{} needs {}=, {}",
            action.name, key.name, key.value
        ));
    }
    let mut rule = Rule::new(blank(action));
    for (key, value) in &values {
        set(&mut rule, key, *value)?;
    }
    if rule.from >= rule.to {
        return name.wrong("'to' is not after 'from'");
    }
    if action.point == Point::Time && !values.iter().any(|(key, _)| key.key == Key::Count) {
        rule.count = 1;
    }
    Ok(rule)
}

fn entry_of(key: Key) -> &'static KeyEntry {
    // Every key has an entry: a unit test of the table checks it.
    KEYS.iter()
        .find(|entry| entry.key == key)
        .unwrap_or(&KEYS[0])
}

fn key_and_value<'a>(
    pair: Span<'a>,
    action: &ActionEntry,
) -> Result<(&'static KeyEntry, Span<'a>), Wrong> {
    let Some((key, value)) = pair.split_once('=') else {
        return pair.wrong(format!("expected KEY=VALUE, found '{}'", shown(pair.text)));
    };
    let (key, value) = (key.trimmed(), value.trimmed());
    let allowed = || {
        action
            .needs
            .iter()
            .chain(action.takes)
            .map(|key| entry_of(*key))
    };
    match allowed().find(|entry| entry.name == key.text) {
        Some(entry) => Ok((entry, value)),
        None => {
            let all = names(allowed().map(|entry| entry.name));
            let (name, key_text) = (action.name, shown(key.text));
            key.wrong(format!("{name} has no key '{key_text}'; it takes: {all}"))
        }
    }
}

/// The action, without what its keys say.
fn blank(action: &ActionEntry) -> Action {
    match action.name {
        "corrupt" => Action::Corrupt,
        "duplicate" => Action::Duplicate,
        "ecn" => Action::Ecn,
        "rnr" => Action::Rnr,
        "wc" => Action::Completion(0),
        "fail" => Action::Fail {
            call: Pattern::new(""),
            errno: 0,
        },
        "event" => Action::Event {
            kind: 0,
            every: Duration::ZERO,
        },
        "slow-cq" => Action::SlowCq(Duration::ZERO),
        "gids" => Action::Gids { present: true },
        "delay" => Action::Delay(Latency::default()),
        "burst" => Action::Burst {
            length: 1,
            loss: CERTAIN,
        },
        "rate" => Action::Rate {
            bits: 1,
            queue: QUEUE,
        },
        _ => Action::Drop,
    }
}

fn burst_length(value: Span) -> Result<u32, Wrong> {
    match number(value)? {
        length @ 1..=MAX_BURST => Ok(length as u32),
        _ => value.wrong(format!("a burst has 1 to {MAX_BURST} packets")),
    }
}

/// Sets what a key of the rule says.
fn set(rule: &mut Rule, key: &KeyEntry, value: Span) -> Result<(), Wrong> {
    match (key.key, &mut rule.action) {
        (Key::Time, Action::SlowCq(time)) => *time = duration(value)?,
        (Key::Time, Action::Delay(latency)) => latency.time = duration(value)?,
        (Key::Jitter, Action::Delay(latency)) => latency.jitter = duration(value)?,
        (Key::Distribution, Action::Delay(latency)) => {
            latency.distribution = named(value, &DISTRIBUTIONS)?;
        }
        (Key::Length, Action::Burst { length, .. }) => *length = burst_length(value)?,
        (Key::Loss, Action::Burst { loss, .. }) => *loss = probability(value)?,
        (Key::Rate, Action::Rate { bits: rate, .. }) => *rate = bits(value)?,
        (Key::Queue, Action::Rate { queue, .. }) => *queue = bytes(value)?,
        (Key::Every, Action::Event { every, .. }) => *every = duration(value)?,
        (Key::Status, Action::Completion(status)) => *status = named(value, &STATUSES)?,
        (Key::Type, Action::Event { kind, .. }) => *kind = named(value, &EVENTS)?,
        (Key::State, Action::Gids { present }) => *present = named(value, &GID_STATES)?,
        (Key::Call, Action::Fail { call, .. }) => *call = pattern(value, CALLS.iter().copied())?,
        (Key::Errno, Action::Fail { errno, .. }) => *errno = error_number(value)?,
        (Key::P, _) => rule.probability = probability(value)?,
        (Key::Count, _) => rule.count = times(value)?,
        (Key::After, _) => rule.after = number(value)?,
        (Key::From, _) => rule.from = duration(value)?,
        (Key::To, _) => rule.to = duration(value)?,
        (Key::Device, _) => rule.device = Some(device(value)?),
        (Key::Qpn, _) => rule.qpn = Some(qp_number(value)?),
        (Key::Opcode, Action::Completion(_)) => {
            let names = COMPLETION_OPCODES.iter().map(|(name, _)| *name);
            rule.opcode = Some(pattern(value, names)?);
        }
        (Key::Opcode, _) => rule.opcode = Some(pattern(value, PACKET_OPCODES.iter().copied())?),
        (Key::Size, _) => rule.size = Some(sizes(value)?),
        (Key::Direction, _) => rule.direction = named(value, &DIRECTIONS)?,
        (Key::Peer, _) => rule.peer = Some(network(value)?),
        (Key::Per, _) => rule.per_qp = named(value, &[("qp", true)])?,
        // The table gives these keys to the actions above only.
        _ => return value.wrong(format!("'{}' does not belong to this action", key.name)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Rule {
        let parsed = parse(text.as_bytes()).unwrap();
        assert_eq!(parsed.rules.len(), 1, "{text}");
        parsed.rules[0].clone()
    }

    #[test]
    fn every_action_and_key() {
        for text in [
            "drop",
            "drop:p=25%,count=3,after=2,from=1s,to=2s,device=mlx5_0,qpn=17,opcode=send*,size=1-64",
            "corrupt:size=100-",
            "duplicate:opcode=ack",
            "drop:p=50%,direction=tx",
            "delay:time=5ms,size=-64",
            "delay:time=5ms,jitter=1ms",
            "delay:time=5ms,jitter=1ms,distribution=pareto,direction=both",
            "burst:length=8,loss=50%,p=25%",
            "burst:length=8,p=12.5%,peer=192.0.2.0/24",
            "rate:rate=100000000,queue=65536,direction=tx",
            "drop:direction=both,peer=fd00::1",
            "wc:status=retry-exc-err,count=1,after=2,per=qp",
            "rnr:count=1",
            "wc:status=retry-exc-err,count=1,opcode=recv",
            "fail:call=create_*,errno=ENOMEM",
            "fail:call=reg_mr,errno=4000,size=4096",
            "event:type=port-err,every=100us,count=4",
            "event:type=port-err,count=18446744073709551615",
            "slow-cq:time=1500ns,p=50%",
            "gids:state=removed,count=1",
            "gids:state=present,count=1,from=1s,device=a0",
        ] {
            let rule = one(text);
            assert_eq!(rule.to_string(), text);
            assert_eq!(one(&rule.to_string()), rule);
        }
        assert_eq!(one("drop:p=25%"), one("drop:p=0.25"));
        assert_eq!(one("drop:p=1%").to_string(), "drop:p=1%");
        assert_eq!(one("drop:p=0.001").to_string(), "drop:p=0.1%");
        assert_eq!(one("drop:direction=rx"), one("drop"));
        assert_eq!(one("drop:qpn=0x11"), one("drop:qpn=17"));
        assert_eq!(
            one("rate:rate=100M,queue=64K"),
            one("rate:rate=100000000,queue=65536")
        );
        assert_eq!(one("rate:rate=1G"), one("rate:rate=1000M,queue=256K"));
        assert_eq!(one("event:type=gid-change").count, 1);
        assert_eq!(one(" delay : time = 60s "), one("delay:time=1m"));
    }

    #[test]
    fn lists() {
        let parsed = parse(b"seed=7; drop\n# a comment; drop\ncorrupt # drop\n\n;").unwrap();
        assert_eq!(parsed.seed, Some(7));
        let rules: Vec<String> = parsed.rules.iter().map(Rule::to_string).collect();
        assert_eq!(rules, ["drop", "corrupt"]);
        assert_eq!(parse(b"").unwrap(), Parsed::default());
    }

    #[test]
    fn errors_have_their_place() {
        for (text, line, column, part) in [
            (
                "drip",
                1,
                1,
                "unknown action 'drip'; there are: drop, corrupt",
            ),
            ("drop;\n  drip", 2, 3, "unknown action"),
            ("drop:x=1", 1, 6, "drop has no key 'x'; it takes: p, count"),
            ("drop:p=0.1,status=fatal-err", 1, 12, "no key 'status'"),
            ("drop:p", 1, 6, "expected KEY=VALUE"),
            ("drop:", 1, 6, "expected KEY=VALUE"),
            ("drop:p=2", 1, 8, "expected a probability"),
            ("drop:p=1e-3", 1, 8, "expected a probability"),
            ("drop:p=inf", 1, 8, "expected a probability"),
            ("drop:p=.", 1, 8, "expected a probability"),
            ("drop:count=-1", 1, 12, "expected a number"),
            ("drop:count=", 1, 12, "expected a number"),
            ("drop:count=0", 1, 12, "count=0 never applies"),
            ("seed=1;seed=2", 1, 8, "'seed' is there twice"),
            (
                "fail:call=ibv_reg_mr,errno=EIO",
                1,
                11,
                "did you mean 'reg_mr'",
            ),
            ("drop:count=+1", 1, 12, "expected a number"),
            ("drop:p=1,p=1", 1, 10, "'p' is there twice"),
            ("delay", 1, 1, "delay needs time="),
            ("delay:time=5", 1, 12, "expected a time such as 5ms"),
            ("delay:time=99999999999999m", 1, 12, "expected a time"),
            ("drop:from=2s,to=1s", 1, 1, "'to' is not after 'from'"),
            ("drop:device=", 1, 13, "expected the name of a device"),
            ("drop:qpn=16777216", 1, 10, "24 bits"),
            ("drop:opcode=recv", 1, 13, "'recv' matches none of: send"),
            ("wc:status=success", 1, 11, "unknown name 'success'"),
            ("wc:status=fatal-err,opcode=ack", 1, 28, "matches none"),
            ("fail:call=close_device,errno=EIO", 1, 11, "matches none of"),
            ("fail:call=reg_mr,errno=0", 1, 24, "unknown errno '0'"),
            ("fail:call=reg_mr", 1, 1, "fail needs errno="),
            ("event:type=x", 1, 12, "unknown name 'x'"),
            ("event:type=port-err,p=1", 1, 21, "event has no key 'p'"),
            ("drop:size=5-4", 1, 11, "larger than the second"),
            ("drop:size=-", 1, 11, "expected bytes"),
            (
                "drop:direction=up",
                1,
                16,
                "unknown name 'up'; there are: rx, tx, both",
            ),
            ("drop:peer=example.org", 1, 11, "expected an address"),
            ("drop:peer=192.0.2.0/33", 1, 11, "an address has 32 bits"),
            ("drop:per=cq", 1, 10, "unknown name 'cq'; there are: qp"),
            ("rate:rate=0", 1, 11, "this is 0, or too large"),
            ("burst:length=0,p=1", 1, 14, "a burst has 1 to"),
            ("burst:length=2", 1, 1, "burst needs p="),
            (
                "at 5s: link sideways",
                1,
                8,
                "expected a rule, or: link down",
            ),
            ("at 5s", 1, 1, "expected 'at TIME: ...'"),
            ("at x: drop", 1, 4, "expected a time"),
            ("at 5s: drop:from=1s", 1, 8, "has times of its own"),
            ("rnr:direction=tx", 1, 5, "rnr has no key 'direction'"),
            ("seed=x", 1, 6, "expected a number"),
        ] {
            let error = parse(text.as_bytes()).expect_err(text);
            assert_eq!(
                (error.line, error.column),
                (line, column),
                "{text}: {error}"
            );
            assert!(error.why.contains(part), "{text}: {error}");
            assert!(!error.to_string().contains('\n'));
        }
        assert_eq!(parse(b"drop;\xff").unwrap_err().column, 6);
        let many = "drop;".repeat(MAX_RULES + 1);
        assert!(parse(many.as_bytes()).is_err());
    }
}
