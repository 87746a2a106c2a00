//! Two threads that use an object at the same time.

use crate::diagnose::finding::{Finding, Object, Outcome};
use crate::diagnose::rules::Rule;

/// Two threads in an object that is for one.
pub(super) fn overlap(
    object: Object,
    verb: &'static str,
    first: i32,
    second: i32,
    what: &'static str,
    flag: &'static str,
) -> Finding {
    Finding::new(Rule::ThreadDomain, object, verb, Outcome::Called)
        .with("first", first)
        .with("second", second)
        .with("verb", verb)
        .with("what", what)
        .with("flag", flag)
}
