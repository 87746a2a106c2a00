//! Parses rules of IBV_FAULTS.
#![no_main]

use ibverbs_faults::{Facts, Point, RuleSet, parse};
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

fuzz_target!(|text: &[u8]| {
    let parsed = match parse(text) {
        Ok(parsed) => parsed,
        Err(error) => {
            let line = text.split(|byte| *byte == b'\n').nth(error.line - 1);
            assert!((1..=line.unwrap().len() + 1).contains(&error.column));
            assert!(!error.why.is_empty() && !error.to_string().contains('\n'));
            return;
        }
    };
    let mut set = RuleSet::new();
    set.set_seed(parsed.seed.unwrap_or(0));
    for rule in parsed.rules {
        // The text of a rule parses to the same rule.
        let again = parse(rule.to_string().as_bytes()).unwrap();
        assert_eq!(again.rules, std::slice::from_ref(&rule));
        set.add(rule, Duration::ZERO);
    }
    let facts = Facts {
        device: "uroce0",
        qpn: Some(17),
        opcode: Some("send"),
        size: Some(64),
        call: Some("reg_mr"),
        takes_receive: true,
        sent: false,
    };
    let points = [
        Point::Packet,
        Point::Completion,
        Point::Call,
        Point::Poll,
        Point::Time,
    ];
    for (i, point) in points.into_iter().cycle().take(50).enumerate() {
        let now = Duration::from_millis(i as u64);
        assert!(set.decide(point, &facts, now).is_none() || set.has(point));
        for (number, _) in set.due(now) {
            set.raised(number, now);
        }
        let _ = set.until_due(now);
    }
    for listed in set.list() {
        assert!(listed.applied <= listed.rule.count && listed.applied <= listed.matches);
    }
});
