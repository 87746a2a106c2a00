//! Statements: what happens at a time, and for how long. Each stands for rules with these times.
//!
//! `at 5s: link down for 2s` is a port that loses its link: an event at the beginning, one at the end, and no
//! packets in between.

use std::time::Duration;

use ibverbs_abi::{IBV_EVENT_DEVICE_FATAL, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR};

use super::rule;
use crate::kind::Direction;
use crate::rule::{Action, Pattern, Rule};
use crate::value::{Span, Wrong, device, duration, network, shown};

/// Whether an entry is a statement, and no rule.
pub(crate) fn is_statement(entry: Span) -> bool {
    entry.text == "at" || entry.text.starts_with("at ")
}

/// A period, and the device that it is about.
struct Scope {
    from: Duration,
    to: Duration,
    device: Option<String>,
}

/// The rules of `at TIME: WHAT [for TIME] [on DEVICE]`.
pub(crate) fn statement(entry: Span) -> Result<Vec<Rule>, Wrong> {
    let Some((head, body)) = entry.split_once(':') else {
        return entry.wrong("expected 'at TIME: ...'");
    };
    let start = head.text.strip_prefix("at").unwrap_or_default();
    let start = Span {
        text: start,
        at: head.at + "at".len(),
    };
    let from = duration(start.trimmed())?;
    let (body, on) = cut(body.trimmed(), " on ");
    let (body, period) = cut(body, " for ");
    let scope = Scope {
        from,
        to: match period {
            Some(period) => from.saturating_add(duration(period)?),
            None => Duration::MAX,
        },
        device: on.map(device).transpose()?,
    };
    let words: Vec<&str> = body.text.split_whitespace().collect();
    match words[..] {
        ["link", "down"] => Ok(scope.link_down()),
        ["device", "dies"] => Ok(scope.device_dies()),
        ["gids", "removed"] => Ok(scope.gids_removed()),
        ["partition", "from", address] => {
            let at = body.at + body.text.len() - address.len();
            let mut lost = scope.nothing_passes();
            lost.peer = Some(network(Span { text: address, at })?);
            Ok(vec![lost])
        }
        [single] => scope.limited(
            rule(Span {
                text: single,
                ..body
            })?,
            body,
        ),
        _ => body.wrong(format!(
            "expected a rule, or: link down, device dies, gids removed, partition from ADDRESS; found '{}'",
            shown(body.text)
        )),
    }
}

/// The text in front of the last `separator`, and what is behind it.
fn cut<'a>(text: Span<'a>, separator: &str) -> (Span<'a>, Option<Span<'a>>) {
    match text.text.rsplit_once(separator) {
        Some((before, after)) => {
            let at = text.at + before.len() + separator.len();
            let before = Span {
                text: before,
                ..text
            };
            (before.trimmed(), Some(Span { text: after, at }.trimmed()))
        }
        None => (text, None),
    }
}

impl Scope {
    fn rule(&self, action: Action) -> Rule {
        Rule {
            from: self.from,
            to: self.to,
            device: self.device.clone(),
            ..Rule::new(action)
        }
    }

    fn event(&self, kind: u32, at: Duration) -> Rule {
        let every = Duration::ZERO;
        Rule {
            from: at,
            to: Duration::MAX,
            count: 1,
            ..self.rule(Action::Event { kind, every })
        }
    }

    fn nothing_passes(&self) -> Rule {
        Rule {
            direction: Direction::Both,
            ..self.rule(Action::Drop)
        }
    }

    fn link_down(&self) -> Vec<Rule> {
        let mut rules = vec![
            self.event(IBV_EVENT_PORT_ERR, self.from),
            self.nothing_passes(),
        ];
        if self.to < Duration::MAX {
            rules.push(self.event(IBV_EVENT_PORT_ACTIVE, self.to));
        }
        rules
    }

    /// The rules of a device that dies: its queue pairs are in error, nothing passes, and verbs
    /// fail. A context that is opened later works.
    fn device_dies(&self) -> Vec<Rule> {
        let fail = Action::Fail {
            call: Pattern::new("*"),
            errno: libc::EIO,
        };
        let event = self.event(IBV_EVENT_DEVICE_FATAL, self.from);
        vec![event, self.nothing_passes(), self.rule(fail)]
    }

    fn gids(&self, present: bool, at: Duration) -> Rule {
        Rule {
            from: at,
            to: Duration::MAX,
            count: 1,
            ..self.rule(Action::Gids { present })
        }
    }

    /// The device itself raises the events.
    fn gids_removed(&self) -> Vec<Rule> {
        let back = (self.to < Duration::MAX).then(|| self.gids(true, self.to));
        let removed = self.gids(false, self.from);
        core::iter::once(removed).chain(back).collect()
    }

    /// A rule within the period.
    fn limited(&self, rule: Rule, body: Span) -> Result<Vec<Rule>, Wrong> {
        if rule.from > Duration::ZERO || rule.to < Duration::MAX {
            return body.wrong("the rule has times of its own");
        }
        Ok(vec![Rule {
            from: self.from,
            to: self.to,
            device: self.device.clone().or(rule.device.clone()),
            ..rule
        }])
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse;

    fn rules(text: &str) -> Vec<String> {
        let parsed = parse(text.as_bytes()).unwrap();
        parsed.rules.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn statements_stand_for_rules() {
        assert_eq!(
            rules("at 5s: link down for 2s on mlx5_0"),
            [
                "event:type=port-err,count=1,from=5s,device=mlx5_0",
                "drop:from=5s,to=7s,device=mlx5_0,direction=both",
                "event:type=port-active,count=1,from=7s,device=mlx5_0",
            ]
        );
        assert_eq!(rules("at 1ms: link down").len(), 2);
        assert_eq!(
            rules("at 5s: device dies for 1s"),
            [
                "event:type=device-fatal,count=1,from=5s",
                "drop:from=5s,to=6s,direction=both",
                "fail:call=*,errno=EIO,from=5s,to=6s",
            ]
        );
        assert_eq!(
            rules("at 5s: gids removed for 2s on a0"),
            [
                "gids:state=removed,count=1,from=5s,device=a0",
                "gids:state=present,count=1,from=7s,device=a0",
            ]
        );
        assert_eq!(rules("at 5s: gids removed").len(), 1);
        assert_eq!(
            rules("at 0s: partition from 192.0.2.0/24 for 10ms; drop"),
            ["drop:to=10ms,direction=both,peer=192.0.2.0/24", "drop"]
        );
        assert_eq!(
            rules("at 3s: delay:time=5ms,jitter=1ms for 500ms"),
            ["delay:time=5ms,jitter=1ms,from=3s,to=3500ms"]
        );
        assert_eq!(
            rules("at 3s: drop:peer=fd00::1"),
            ["drop:from=3s,peer=fd00::1"]
        );
    }
}
