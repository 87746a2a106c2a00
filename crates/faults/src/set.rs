//! The rules in force: decides which rule applies to a packet, a call or a completion, and counts.
//!
//! Not here: what a rule does then. The library (`src/diagnose/faults`) and uroce
//! (`device/faults.rs`) do that.
//!
//! Repeatable: each rule has random numbers of its own, which follow from the seed and the rule's number. So
//! the same matches in the same order have the same faults, whatever other rules there are.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::rule::{Action, Latency, Pattern, Rule};
use crate::shape::{Bursts, Line};
use crate::table::Point;

/// The facts about a packet, call or object that a rule may apply to. A rule with a selector does
/// not match what has no such value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// The device's name.
    pub device: &'a str,
    /// The queue pair.
    pub qpn: Option<u32>,
    /// The operation.
    pub opcode: Option<&'a str>,
    /// Bytes.
    pub size: Option<u64>,
    /// The verb, without `ibv_`.
    pub call: Option<&'a str>,
    /// A packet that takes a receive.
    pub takes_receive: bool,
    /// A packet that is about to be sent.
    pub sent: bool,
    /// The address of the peer that a packet is from, or to.
    pub peer: Option<IpAddr>,
}

/// A rule that applies.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The rule's number.
    pub number: u32,
    /// The effect on what has happened.
    pub action: Action,
    /// How often the rule has applied by now.
    pub times: u64,
}

/// A rule in force.
#[derive(Clone, Debug)]
struct Active {
    number: u32,
    rule: Rule,
    /// When it was set: its times count from there.
    since: Duration,
    random: Random,
    matches: u64,
    applied: u64,
    /// Matches and applications of each queue pair, for a rule that counts them so.
    per_qp: BTreeMap<u32, (u64, u64)>,
    line: Line,
    bursts: Bursts,
    /// The time at which the next event is due, counted from `since`; only of rules for events.
    next: Duration,
}

/// A rule and its counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The rule's number.
    pub number: u32,
    /// How often it has matched.
    pub matches: u64,
    /// How often it has applied.
    pub applied: u64,
    /// The rule.
    pub rule: Rule,
}

/// The rules in force.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    active: Vec<Active>,
    seed: u64,
    /// The number of the last rule.
    last: u32,
}

/// A random number generator (SplitMix64).
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64, number: u32) -> Random {
        let mut random = Random(seed.wrapping_add(u64::from(number) << 40));
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl RuleSet {
    /// No rules.
    pub const fn new() -> RuleSet {
        RuleSet {
            active: Vec::new(),
            seed: 0,
            last: 0,
        }
    }

    /// The seed of rules that are added from now on.
    pub fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Adds a rule, whose times count from `now`. Returns its number.
    pub fn add(&mut self, rule: Rule, now: Duration) -> u32 {
        self.last += 1;
        let number = self.last;
        self.active.push(Active {
            number,
            since: now,
            random: Random::new(self.seed, number),
            matches: 0,
            applied: 0,
            per_qp: BTreeMap::new(),
            line: Line::default(),
            bursts: Bursts::default(),
            next: rule.from,
            rule,
        });
        number
    }

    /// Removes a rule. False if there is none of this number.
    pub fn remove(&mut self, number: u32) -> bool {
        let before = self.active.len();
        self.active.retain(|active| active.number != number);
        self.active.len() < before
    }

    /// Removes all rules. Returns how many there were.
    pub fn clear(&mut self) -> usize {
        let count = self.active.len();
        self.active.clear();
        count
    }

    /// The rules and their counts.
    pub fn list(&self) -> impl Iterator<Item = Listed> {
        self.active.iter().map(|active| Listed {
            number: active.number,
            matches: active.matches,
            applied: active.applied,
            rule: active.rule.clone(),
        })
    }

    /// Whether there is a rule for a point.
    pub fn has(&self, point: Point) -> bool {
        let of = |active: &Active| active.rule.action.entry().point;
        self.active.iter().any(|active| of(active) == point)
    }

    /// Applies the rules to what has happened: the first that matches decides. Delays of a packet
    /// add up, and rules behind them apply, too. Counts the matches of the rules that were asked.
    pub fn decide(&mut self, point: Point, facts: &Facts, now: Duration) -> Option<Applied> {
        let mut delayed: Option<(u32, u64, Duration)> = None;
        for active in &mut self.active {
            let is_meant = active.rule.action.entry().point == point && active.matches(facts, now);
            let Some(action) = is_meant.then(|| active.strike(facts, now)).flatten() else {
                continue;
            };
            match action {
                Action::Delay(latency) => {
                    let first = (active.number, active.applied, Duration::ZERO);
                    let (number, times, sum) = delayed.unwrap_or(first);
                    delayed = Some((number, times, sum.saturating_add(latency.time)));
                }
                action => {
                    return Some(Applied {
                        number: active.number,
                        action,
                        times: active.applied,
                    });
                }
            }
        }
        let (number, times, sum) = delayed?;
        Some(Applied {
            number,
            action: Action::Delay(Latency::of(sum)),
            times,
        })
    }

    /// The events that are due: the number of their rule, and the rule. They stay due until
    /// [`RuleSet::raised`].
    pub fn due(&self, now: Duration) -> Vec<(u32, Rule)> {
        let due = self.active.iter().filter(|active| active.is_due(now));
        due.map(|active| (active.number, active.rule.clone()))
            .collect()
    }

    /// A due event was raised: the next one is due later.
    pub fn raised(&mut self, number: u32, now: Duration) {
        if let Some(active) = self
            .active
            .iter_mut()
            .find(|active| active.number == number)
        {
            active.matches += 1;
            active.applied += 1;
            let every = match active.rule.action {
                Action::Event { every, .. } => every,
                _ => Duration::ZERO,
            };
            active.next = now.saturating_sub(active.since).saturating_add(every);
        }
    }

    /// How long until the next event is due; None if none will be.
    pub fn until_due(&self, now: Duration) -> Option<Duration> {
        let pending = self.active.iter().filter(|active| active.is_pending(now));
        pending
            .map(|active| (active.since + active.next).saturating_sub(now))
            .min()
    }
}

impl Active {
    fn in_time(&self, now: Duration) -> bool {
        let age = now.saturating_sub(self.since);
        self.rule.from <= age && age < self.rule.to
    }

    /// An event that is due, now or later.
    fn is_pending(&self, now: Duration) -> bool {
        let has_time = self.rule.action.entry().point == Point::Time;
        has_time && self.applied < self.rule.count && now.saturating_sub(self.since) < self.rule.to
    }

    fn is_due(&self, now: Duration) -> bool {
        self.is_pending(now) && self.next <= now.saturating_sub(self.since)
    }

    fn matches(&self, facts: &Facts, now: Duration) -> bool {
        let rule = &self.rule;
        let is_meant = match (&rule.action, facts.call) {
            (Action::Fail { call, .. }, Some(name)) => call.matches(name),
            (Action::Fail { .. }, None) => false,
            (Action::Rnr, _) => facts.takes_receive,
            _ => true,
        };
        let has = |pattern: &Pattern| facts.opcode.is_some_and(|name| pattern.matches(name));
        let within = |(least, largest): (u64, u64)| {
            facts
                .size
                .is_some_and(|size| (least..=largest).contains(&size))
        };
        is_meant
            && rule.direction.matches(facts.sent)
            && rule
                .peer
                .is_none_or(|peer| facts.peer.is_some_and(|address| peer.contains(address)))
            && rule
                .device
                .as_deref()
                .is_none_or(|name| name == facts.device)
            && rule.qpn.is_none_or(|qpn| facts.qpn == Some(qpn))
            && rule.opcode.as_ref().is_none_or(has)
            && rule.size.is_none_or(within)
            && self.in_time(now)
    }

    /// Counts a match. Returns what is to be done, if the rule applies to it.
    fn strike(&mut self, facts: &Facts, now: Duration) -> Option<Action> {
        self.matches += 1;
        let random = &mut self.random;
        let action = match self.rule.action {
            Action::Burst { length, loss } => {
                let begin = self.rule.probability;
                let lost = self.bursts.loses(begin, length, loss, || random.next());
                lost.then_some(Action::Drop)
            }
            Action::Rate { bits, queue } => {
                let size = facts.size.unwrap_or(0);
                Some(match self.line.carry(size, bits, queue, now) {
                    Some(later) => Action::Delay(Latency::of(later)),
                    None => Action::Drop,
                })
            }
            _ => return self.strike_by_count(facts),
        };
        self.applied += u64::from(action.is_some());
        action
    }

    /// [`Active::strike`] of a rule with a count and a probability.
    fn strike_by_count(&mut self, facts: &Facts) -> Option<Action> {
        let rule = &self.rule;
        let (matches, applied) = match facts.qpn.filter(|_| rule.per_qp) {
            Some(qpn) => {
                let of_qp = self.per_qp.entry(qpn).or_default();
                of_qp.0 += 1;
                *of_qp
            }
            None => (self.matches, self.applied),
        };
        if matches <= rule.after || applied >= rule.count {
            return None;
        }
        if self.random.next() >> 32 >= rule.probability {
            return None;
        }
        self.applied += 1;
        if let Some(of_qp) = facts.qpn.and_then(|qpn| self.per_qp.get_mut(&qpn)) {
            of_qp.1 += 1;
        }
        Some(match &rule.action {
            Action::Delay(latency) => {
                let random = &mut self.random;
                Action::Delay(Latency::of(latency.draw(|| random.next())))
            }
            action => action.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    const NOW: Duration = Duration::from_secs(10);

    fn set(text: &str) -> RuleSet {
        let parsed = parse(text.as_bytes()).unwrap();
        let mut set = RuleSet::new();
        set.set_seed(parsed.seed.unwrap_or(0));
        for rule in parsed.rules {
            set.add(rule, NOW);
        }
        set
    }

    fn packet(opcode: &'static str, size: u64) -> Facts<'static> {
        Facts {
            device: "uroce0",
            qpn: Some(17),
            opcode: Some(opcode),
            size: Some(size),
            call: None,
            takes_receive: opcode == "send",
            sent: false,
            peer: Some([192, 0, 2, 7].into()),
        }
    }

    fn applies(set: &mut RuleSet, facts: &Facts) -> bool {
        set.decide(Point::Packet, facts, NOW).is_some()
    }

    #[test]
    fn selectors() {
        let facts = packet("send", 64);
        for (text, expected) in [
            ("drop:device=uroce0", true),
            ("drop:device=uroce1", false),
            ("drop:qpn=17", true),
            ("drop:qpn=18", false),
            ("drop:opcode=send", true),
            ("drop:opcode=s*", true),
            ("drop:opcode=write", false),
            ("drop:size=64", true),
            ("drop:size=65-", false),
            ("drop:size=-63", false),
            ("drop:from=1ns", false),
            ("drop:to=1ns", true),
            ("drop:p=0", false),
            ("drop:p=1", true),
            ("fail:call=reg_mr,errno=EIO", false),
            ("corrupt:qpn=1;drop", true),
            ("rnr", true),
            ("drop:peer=192.0.2.7", true),
            ("drop:peer=192.0.2.0/24", true),
            ("drop:peer=192.0.3.0/24", false),
            ("drop:peer=0.0.0.0/0", true),
            ("drop:peer=::/0", false),
            ("drop:direction=both", true),
        ] {
            assert_eq!(applies(&mut set(text), &facts), expected, "{text}");
        }
        assert!(!applies(&mut set("drop:qpn=17"), &Facts::default()));
        let sent = Facts {
            sent: true,
            ..facts
        };
        for (text, received, is_sent) in [
            ("drop", true, false),
            ("drop:direction=rx", true, false),
            ("drop:direction=tx", false, true),
        ] {
            assert_eq!(applies(&mut set(text), &facts), received, "{text}");
            assert_eq!(applies(&mut set(text), &sent), is_sent, "{text}");
        }
        assert!(!applies(&mut set("rnr"), &packet("read", 4)));
        let call = Facts {
            call: Some("create_qp"),
            ..Facts::default()
        };
        let mut fail = set("fail:call=create_*,errno=EIO");
        assert!(fail.decide(Point::Call, &call, NOW).is_some());
        assert!(fail.decide(Point::Call, &Facts::default(), NOW).is_none());
    }

    #[test]
    fn counts_and_order() {
        let mut set = set("drop:after=2,count=2; corrupt");
        let actions: Vec<Action> = (0..6)
            .map(|_| {
                set.decide(Point::Packet, &packet("ack", 4), NOW)
                    .unwrap()
                    .action
            })
            .collect();
        let [c, d] = [Action::Corrupt, Action::Drop];
        assert_eq!(actions, [c.clone(), c.clone(), d.clone(), d, c.clone(), c]);
        let counts: Vec<_> = set
            .list()
            .map(|rule| (rule.number, rule.matches, rule.applied))
            .collect();
        assert_eq!(counts, [(1, 6, 2), (2, 4, 4)]);
        assert!(set.remove(2) && !set.remove(2));
        assert_eq!((set.clear(), set.clear()), (1, 0));
    }

    #[test]
    fn random_numbers_follow_from_the_seed() {
        let drawn = |text: &str| -> Vec<bool> {
            let mut set = set(text);
            (0..1000)
                .map(|_| applies(&mut set, &packet("ack", 4)))
                .collect()
        };
        let first = drawn("seed=5;drop:p=0.1");
        assert_eq!(first, drawn("seed=5;drop:p=10%"));
        assert_ne!(first, drawn("seed=6;drop:p=0.1"));
        let count = first.iter().filter(|applied| **applied).count();
        assert!((60..140).contains(&count), "{count}");
        // Rules before it that apply to something else change nothing.
        let mut other = set("seed=5;drop:p=0.1;drop:qpn=1");
        assert!(other.remove(2));
        let again: Vec<bool> = (0..1000)
            .map(|_| applies(&mut other, &packet("ack", 4)))
            .collect();
        assert_eq!(first, again);
    }

    #[test]
    fn delays_add_up_and_losses_win() {
        let mut rules = set("delay:time=5ms; rate:rate=8M,queue=2000; drop:opcode=ack");
        let mut decide = |opcode, size| {
            let applied = rules.decide(Point::Packet, &packet(opcode, size), NOW)?;
            Some((applied.number, applied.action))
        };
        let later = |millis| Action::Delay(Latency::of(Duration::from_millis(millis)));
        assert_eq!(decide("send", 1000), Some((1, later(6))));
        assert_eq!(decide("send", 1000), Some((1, later(7))));
        assert_eq!(decide("send", 1000), Some((2, Action::Drop)));
        let mut lost = set("delay:time=5ms; drop:opcode=ack");
        let of_ack = lost.decide(Point::Packet, &packet("ack", 4), NOW).unwrap();
        assert_eq!((of_ack.number, of_ack.action), (2, Action::Drop));
    }

    #[test]
    fn counts_of_each_queue_pair() {
        let mut rules = set("drop:after=1,count=1,per=qp");
        let mut lost = |qpn| {
            let facts = Facts {
                qpn: Some(qpn),
                ..packet("send", 4)
            };
            applies(&mut rules, &facts)
        };
        let of = [1, 1, 2, 1, 2, 2].map(&mut lost);
        assert_eq!(of, [false, true, false, false, true, false]);
        let counts: Vec<_> = rules
            .list()
            .map(|rule| (rule.matches, rule.applied))
            .collect();
        assert_eq!(counts, [(6, 2)]);
    }

    #[test]
    fn bursts_follow_from_the_seed() {
        let drawn = |seed| -> Vec<bool> {
            let mut rules = set(&format!("seed={seed};burst:p=5%,length=4"));
            let lost = |_| applies(&mut rules, &packet("send", 4));
            (0..500).map(lost).collect()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn events_by_time() {
        let mut set = set("event:type=port-err,from=2s,every=1s,count=2");
        let at = |millis| NOW + Duration::from_millis(millis);
        assert!(set.due(at(1999)).is_empty());
        assert_eq!(set.until_due(at(500)), Some(Duration::from_millis(1500)));
        assert_eq!(set.due(at(2000)).len(), 1);
        set.raised(1, at(2000));
        assert!(set.due(at(2999)).is_empty());
        assert_eq!(set.due(at(3000)).len(), 1);
        set.raised(1, at(3000));
        assert_eq!(
            (set.due(at(9000)).len(), set.until_due(at(9000))),
            (0, None)
        );
        assert!(!set.has(Point::Packet) && set.has(Point::Time));
    }
}
