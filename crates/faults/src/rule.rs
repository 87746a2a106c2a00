//! A rule, and its text, which parses to the same rule.

use core::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::kind::{Direction, Distribution};
use crate::table::{
    ACTIONS, ActionEntry, DISTRIBUTIONS, EVENTS, GID_STATES, Point, STATUSES, errno_name, name_of,
};

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

/// A delay that may vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Latency {
    /// The delay.
    pub time: Duration,
    /// How much it varies.
    pub jitter: Duration,
    /// How it varies.
    pub distribution: Distribution,
}

impl Latency {
    /// A delay that does not vary.
    pub fn of(time: Duration) -> Latency {
        Latency {
            time,
            ..Latency::default()
        }
    }
}

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// An address of the network.
    pub address: IpAddr,
    /// The number of bits.
    pub prefix: u8,
}

impl Network {
    /// Whether an address is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, true),
            IpAddr::V6(v6) => (v6.to_bits(), false),
        };
        let ((own, own_is_v4), (other, is_v4)) = (bits(self.address), bits(address));
        let differing = (own ^ other).checked_shr(128 - u32::from(self.prefix));
        own_is_v4 == is_v4 && differing.unwrap_or(0) == 0
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.address.is_ipv4() { 32 } else { 128 };
        write!(f, "{}", self.address)?;
        match self.prefix {
            prefix if prefix == whole => Ok(()),
            prefix => write!(f, "/{prefix}"),
        }
    }
}

/// The effect of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A packet is lost.
    Drop,
    /// A packet has a wrong ICRC.
    Corrupt,
    /// A packet arrives twice.
    Duplicate,
    /// A switch has marked a packet, which arrives with the ECN field "congestion experienced".
    Ecn,
    /// A packet arrives later.
    Delay(Latency),
    /// Packets are lost in bursts.
    Burst {
        /// The mean number of packets of a burst.
        length: u32,
        /// The probability that a packet of a burst is lost, out of 2^32.
        loss: u64,
    },
    /// Packets go through a line of this rate, with a queue in front of it.
    Rate {
        /// Bits per second.
        bits: u64,
        /// Bytes that may wait. What finds no room is lost.
        queue: u64,
    },
    /// A message finds no receive posted.
    Rnr,
    /// A completion has this status.
    Completion(u32),
    /// A verb fails.
    Fail {
        /// The verb, without `ibv_`.
        call: Pattern,
        /// The errno value that the call returns.
        errno: i32,
    },
    /// An asynchronous event is raised.
    Event {
        /// The type of the event.
        kind: u32,
        /// The interval between two of them.
        every: Duration,
    },
    /// A poll takes this much longer.
    SlowCq(Duration),
    /// The GIDs of a port are removed, or come back.
    Gids {
        /// Whether they are there from then on.
        present: bool,
    },
}

impl Action {
    /// The action's entry in [`ACTIONS`].
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
            Action::Burst { .. } => 9,
            Action::Rate { .. } => 10,
            Action::Gids { .. } => 11,
            Action::Ecn => 12,
        };
        &ACTIONS[at]
    }
}

/// A rule: an action, and what it applies to.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The effect.
    pub action: Action,
    /// The probability that it applies to a match, out of 2^32.
    pub probability: u64,
    /// The number of times that the rule applies at most.
    pub count: u64,
    /// This many matches are skipped first.
    pub after: u64,
    /// The time from which the rule applies, counted from when the rules were set.
    pub from: Duration,
    /// The time before which the rule applies.
    pub to: Duration,
    /// The device to which the rule applies only.
    pub device: Option<String>,
    /// The queue pair to which the rule applies only.
    pub qpn: Option<u32>,
    /// The operations to which the rule applies only.
    pub opcode: Option<Pattern>,
    /// The lengths to which the rule applies only: the least and the largest, in bytes.
    pub size: Option<(u64, u64)>,
    /// The direction of packets: those that the device receives, or sends.
    pub direction: Direction,
    /// The addresses that packets must come from or go to.
    pub peer: Option<Network>,
    /// `count` and `after` are of each queue pair.
    pub per_qp: bool,
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
            direction: Direction::Received,
            peer: None,
            per_qp: false,
        }
    }
}

impl Latency {
    fn push_keys(&self, keys: &mut Vec<String>) {
        keys.push(format!("time={}", time(self.time)));
        if self.jitter > Duration::ZERO {
            keys.push(format!("jitter={}", time(self.jitter)));
        }
        let mut named = DISTRIBUTIONS
            .iter()
            .filter(|(_, of)| *of == self.distribution);
        if self.distribution != Distribution::Uniform {
            keys.extend(named.next().map(|(name, _)| format!("distribution={name}")));
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

/// A probability in per cent, in the fewest decimal places that stand for it.
fn probability(value: u64) -> String {
    let percent = value as f64 / CERTAIN as f64 * 100.0;
    let stands_for = |text: &String| {
        let parsed = text
            .parse::<f64>()
            .map(|percent| (percent / 100.0 * CERTAIN as f64).round() as u64);
        parsed == Ok(value)
    };
    let found = (0..12)
        .map(|places| format!("{percent:.places$}"))
        .find(stands_for);
    format!("{}%", found.unwrap_or_else(|| percent.to_string()))
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
            Action::SlowCq(by) => keys.push(format!("time={}", time(*by))),
            Action::Delay(latency) => latency.push_keys(&mut keys),
            Action::Burst { length, loss } => {
                keys.push(format!("length={length}"));
                if *loss < CERTAIN {
                    keys.push(format!("loss={}", probability(*loss)));
                }
            }
            Action::Rate { bits, queue } => {
                keys.push(format!("rate={bits}"));
                keys.push(format!("queue={queue}"));
            }
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
            Action::Gids { present } => {
                let state = GID_STATES.iter().find(|(_, state)| state == present);
                keys.extend(state.map(|(name, _)| format!("state={name}")));
            }
            _ => {}
        }
        if self.probability < CERTAIN {
            keys.push(format!("p={}", probability(self.probability)));
        }
        // An action at a time happens once, unless the text says otherwise.
        if self.count < u64::MAX || self.action.entry().point == Point::Time {
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
        match self.direction {
            Direction::Received => {}
            Direction::Sent => keys.push("direction=tx".into()),
            Direction::Both => keys.push("direction=both".into()),
        }
        keys.extend(self.peer.iter().map(|peer| format!("peer={peer}")));
        if self.per_qp {
            keys.push("per=qp".into());
        }
        f.write_str(self.action.entry().name)?;
        if !keys.is_empty() {
            write!(f, ":{}", keys.join(","))?;
        }
        Ok(())
    }
}
