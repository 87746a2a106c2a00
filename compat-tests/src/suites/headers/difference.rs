//! Compares the facts of two sets of headers, in both directions. The file `expected` lists the known
//! differences, with reasons.

use std::collections::BTreeSet;

use regex_lite::Regex;

use super::facts::Facts;
use crate::verdict::{Failure, Verdict};

/// A known difference.
struct Rule {
    /// `theirs` or `ours`: the side that alone has the fact.
    side: String,
    fact: Regex,
    line: usize,
    reason: String,
    used: usize,
}

/// The rules of `expected` for one comparison.
fn rules(what: &str, expected: &str) -> Result<Vec<Rule>, String> {
    let mut rules = Vec::new();
    for (number, line) in expected.lines().enumerate() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let parts: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [head, pattern, reason] = parts[..] else {
            return Err(format!("expected:{}: not three columns", number + 1));
        };
        let (of, side) = head
            .split_once(char::is_whitespace)
            .ok_or("expected: no side")?;
        if of.split(',').any(|of| of == what) {
            let fact = Regex::new(&format!("^(?:{pattern})$")).map_err(|e| e.to_string())?;
            let (side, reason) = (side.trim().into(), reason.into());
            rules.push(Rule {
                side,
                fact,
                line: number + 1,
                reason,
                used: 0,
            });
        }
    }
    Ok(rules)
}

/// The subject of a fact: `function inline NAME`, or a word and a name.
fn subject(fact: &str) -> String {
    let words = if fact.starts_with("function inline ") {
        3
    } else {
        2
    };
    fact.split(' ').take(words).collect::<Vec<_>>().join(" ")
}

/// Passes if the facts are equal, except for what `expected` lists for `what`. `newer` are the facts of a
/// newer release of rdma-core: ours may have facts from it that theirs lack, or that have changed. A rule
/// that matches no difference is a failure too.
pub fn compare(
    what: &str,
    theirs: &Facts,
    ours: &Facts,
    newer: Option<&Facts>,
    expected: &str,
) -> Verdict {
    let mut rules = rules(what, expected)?;
    let nothing = Facts::new();
    let newer = newer.unwrap_or(&nothing);
    let known: BTreeSet<String> = newer.iter().map(|fact| subject(fact)).collect();
    let mut wrong = Vec::new();
    let mut changed = 0;
    for (side, one, other) in [("theirs", theirs, ours), ("ours", ours, theirs)] {
        for fact in one.difference(other) {
            // Where a newer release differs, ours must be as in that release.
            let is_newer = if side == "ours" {
                newer.contains(fact)
            } else {
                known.contains(&subject(fact)) && !newer.contains(fact)
            };
            if is_newer {
                changed += 1;
                continue;
            }
            match rules
                .iter_mut()
                .find(|rule| rule.side == side && rule.fact.is_match(fact))
            {
                Some(rule) => rule.used += 1,
                None => wrong.push(format!("only {side}: {fact}")),
            }
        }
    }
    for rule in &rules {
        match rule.used {
            0 => wrong.push(format!(
                "expected:{}: this difference no longer exists",
                rule.line
            )),
            n => println!("{n:4} only {}, as expected: {}", rule.side, rule.reason),
        }
    }
    let equal = theirs.intersection(ours).count();
    println!(
        "{what}: {equal} facts equal, {changed} newer, {} wrong",
        wrong.len()
    );
    if wrong.is_empty() && equal > 0 {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} facts are wrong, {equal} are equal",
        wrong.len()
    ))
    .with(wrong.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(lines: &[&str]) -> Facts {
        lines.iter().map(|line| line.to_string()).collect()
    }

    #[test]
    fn differences_need_a_rule_and_rules_a_difference() {
        let (theirs, ours) = (facts(&["a x 1", "b x 2"]), facts(&["a x 1", "b x 3"]));
        assert!(compare("w", &theirs, &ours, None, "").is_err());
        let rules = "# remark\nw theirs | b x \\d | why\nw ours | b x 3 | why\n";
        assert!(compare("w", &theirs, &ours, None, rules).is_ok());
        assert!(compare("w", &theirs, &theirs, None, rules).is_err());
        assert!(compare("w", &facts(&[]), &facts(&[]), None, "").is_err());
    }

    #[test]
    fn ours_may_be_as_in_a_newer_release() {
        let (theirs, ours) = (
            facts(&["a x 1", "b x 2"]),
            facts(&["a x 1", "b x 3", "c x 4"]),
        );
        let newer = facts(&["b x 3", "c x 4"]);
        assert!(compare("w", &theirs, &ours, Some(&newer), "").is_ok());
        let newer = facts(&["b x 5", "c x 4"]);
        assert!(compare("w", &theirs, &ours, Some(&newer), "").is_err());
    }
}
