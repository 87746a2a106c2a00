//! A run as JUnit XML, for forges and their tools. The first word of a case's name is its test suite.

use std::collections::BTreeMap;
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestRerun, TestSuite};

use crate::report::Summary;
use crate::verdict::{Finished, Outcome};

/// The whole run. What is written of a failure are its reason, its details, and where its log is.
pub fn of(summary: &Summary) -> Result<String, String> {
    let mut suites: BTreeMap<&str, TestSuite> = BTreeMap::new();
    for case in &summary.cases {
        let suite = case.name.split('/').next().unwrap_or(&case.name);
        let entry = suites.entry(suite);
        entry
            .or_insert_with(|| TestSuite::new(suite))
            .add_test_case(test_case(case, suite));
    }
    let mut report = Report::new("compat-tests");
    report.set_time(summary.took);
    report.add_test_suites(suites.into_values());
    report.to_string().map_err(|e| e.to_string())
}

fn test_case(case: &Finished, suite: &str) -> TestCase {
    let text = format!("{}\nlog: {}/log\n", case.details.trim_end(), case.dir);
    let failure = NonSuccessKind::Failure;
    let status = match case.outcome {
        Outcome::Passed => TestCaseStatus::success(),
        Outcome::Failed => {
            let mut status = TestCaseStatus::non_success(failure);
            status
                .set_message(&case.why)
                .set_description(text.trim_start());
            status
        }
        Outcome::Skipped => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(&case.why);
            status
        }
        Outcome::Unstable => {
            let mut status = TestCaseStatus::success();
            let mut first = TestRerun::new(failure);
            first
                .set_message(&case.why)
                .set_description(text.trim_start());
            status.add_rerun(first);
            status
        }
    };
    let mut test = TestCase::new(&case.name, status);
    test.set_classname(suite)
        .set_time(Duration::try_from_secs_f64(case.seconds).unwrap_or_default());
    test
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Failure;

    #[test]
    fn each_outcome_is_there() {
        let case = |name: &str, outcome| {
            let mut case = Finished::new(name, &Err(Failure::new("a < b").with("-1\n+2")));
            case.outcome = outcome;
            case
        };
        let summary = Summary {
            cases: vec![
                case("a/1", Outcome::Passed),
                case("a/2", Outcome::Failed),
                case("b/1", Outcome::Skipped),
                case("b/2", Outcome::Unstable),
            ],
            times: BTreeMap::new(),
            took: Duration::from_secs(2),
        };
        let xml = of(&summary).unwrap();
        for part in [
            r#"<testsuites name="compat-tests" tests="4" skipped="1" failures="1""#,
            r#"<testsuite name="a" tests="2""#,
            r#"<failure message="a &lt; b""#,
            "-1\n+2\nlog: ",
            r#"<skipped message="a &lt; b"/>"#,
            r#"<flakyFailure message="a &lt; b""#,
        ] {
            assert!(xml.contains(part), "{part}\n{xml}");
        }
    }
}
