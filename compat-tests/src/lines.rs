//! The lines by which a C probe reports several checks: `ok NAME`, `not ok NAME`, `skip NAME # why`. All
//! other lines explain the next `not ok`.

use crate::verdict::{Failure, Verdict};

/// The checks in a probe's output, in its order.
pub fn parse(output: &str) -> Vec<(String, Verdict)> {
    let mut checks = Vec::new();
    let mut remarks = String::new();
    for line in output.lines() {
        let verdict = if let Some(name) = line.strip_prefix("ok ") {
            (name.trim().to_string(), Ok(()))
        } else if let Some(name) = line.strip_prefix("not ok ") {
            (
                name.trim().to_string(),
                Err(Failure::new("not ok").with(&remarks)),
            )
        } else if let Some((name, why)) = line
            .strip_prefix("skip ")
            .and_then(|rest| rest.split_once(" # "))
        {
            (name.trim().to_string(), Err(Failure::skip(why)))
        } else {
            remarks.push_str(line);
            remarks.push('\n');
            continue;
        };
        remarks.clear();
        checks.push(verdict);
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_belong_to_the_next_check() {
        let checks = parse("ok a\nx.c:1: not so\nnot ok b c\nskip d # no pages\nok e\n");
        let names: Vec<_> = checks.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b c", "d", "e"]);
        assert_eq!(checks[1].1.as_ref().unwrap_err().details, "x.c:1: not so\n");
        assert!(checks[2].1.as_ref().unwrap_err().skipped);
        assert_eq!(checks[3].1, Ok(()));
    }

    #[test]
    fn output_without_checks_has_none() {
        assert!(parse("nothing\nokay\n").is_empty());
    }
}
