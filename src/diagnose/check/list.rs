//! Lists of requests: which request of one a finding is about, and limits that a request exceeds.

use crate::diagnose::finding::{Finding, Object, Outcome};
use crate::diagnose::rules::Rule;

/// The requests that are before one in its list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    pub count: usize,
    /// `wr_id` of the last of them.
    pub last: Option<u64>,
}

/// More elements than this no device has.
const SGES_ODD: i32 = 256;

impl Before {
    /// The whole list: a finding is about none of its requests.
    pub fn all(count: usize) -> Before {
        Before { count, last: None }
    }

    /// Notes which request a finding is about, if it is not the first: it may be one that was not meant.
    /// `is_odd`: it looks like memory that was never set.
    pub fn noted(self, mut found: Finding, is_odd: bool) -> Finding {
        let Some(last) = self.last else {
            return found;
        };
        let doubtful = is_odd || matches!(found.rule, Rule::SgeLimit | Rule::UnknownBits);
        let meant = match doubtful {
            true => "; if one request was meant, `next` of the one before was not set to NULL",
            false => "",
        };
        let note = format!(
            "it is request {} of the list, reached by `next` of wr_id {last}{meant}",
            self.count + 1
        );
        found.notes.push(note);
        found
    }
}

/// A list of requests or receives that contains itself behind `count` of them.
pub fn looping(object: Object, count: usize, call: &'static str) -> Finding {
    Finding::new(Rule::ChainLoop, object, call, Outcome::Called).with("count", count)
}

/// A request has more elements than its queue, or a negative number of them.
pub fn sge_limit(finding: Finding, count: i32, member: &'static str, max: u32) -> Finding {
    let mut found = finding
        .with("count", count)
        .with("member", member)
        .with("max", max);
    if !(0..=SGES_ODD).contains(&count) {
        let note =
            "num_sge looks like memory that was never set: set the whole request to zero at first";
        found.notes.push(note.into());
    }
    found
}

/// Whether `num_sge` is none that a queue with this limit takes.
pub fn is_over(count: i32, max: u32) -> bool {
    u32::try_from(count).map_or(true, |count| count > max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::finding::is_complete;

    fn finding(rule: Rule) -> Finding {
        Finding::new(rule, Object::qp(1, 2), "ibv_post_recv", Outcome::Called)
    }

    #[test]
    fn the_first_request_needs_no_note() {
        let notes = |count: usize, rule, is_odd| {
            let last = (count > 0).then_some(3);
            let found = Before { count, last }.noted(finding(rule), is_odd);
            found.notes.concat()
        };
        assert_eq!(
            Before::all(2),
            Before {
                count: 2,
                last: None
            }
        );
        let second = notes(1, Rule::PostState, false);
        assert_eq!(
            second,
            "it is request 2 of the list, reached by `next` of wr_id 3"
        );
        for (rule, is_odd) in [(Rule::SgeLimit, false), (Rule::Argument, true)] {
            assert!(notes(1, rule, is_odd).contains("not set to NULL"));
        }
    }

    #[test]
    fn numbers_of_elements() {
        assert!(!is_over(0, 1) && !is_over(1, 1) && is_over(2, 1) && is_over(-1, 1));
        for (count, is_odd) in [(2, false), (-1, true), (0x5a5a_5a5a, true)] {
            let found = sge_limit(finding(Rule::SgeLimit), count, "max_recv_sge", 1);
            assert!(is_complete(&found));
            assert_eq!(found.notes.len(), usize::from(is_odd));
        }
    }
}
