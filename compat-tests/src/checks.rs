//! Cases that make many short checks one after the other in one process and sandbox, each a member with a
//! name and a verdict of its own: `suite/group/check`, or `suite/group/check/part` for more than one verdict.

use crate::case::Case;
use crate::context::Context;
use crate::verdict::{Failure, Verdict};

type ChecksBody = Box<dyn Fn(&Context) -> Result<Vec<Verdict>, Failure> + Send + Sync>;

/// A check, which returns one verdict for each of its parts.
pub struct Check {
    name: String,
    /// An empty text is the check itself.
    parts: Vec<&'static str>,
    body: ChecksBody,
}

impl Check {
    pub fn new(
        name: impl Into<String>,
        body: impl Fn(&Context) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        Self::with_parts(name, vec![""], move |cx| Ok(vec![body(cx)]))
    }

    /// A check with several verdicts, in the order of `parts`. An error is the verdict of all of them.
    pub fn with_parts(
        name: impl Into<String>,
        parts: Vec<&'static str>,
        body: impl Fn(&Context) -> Result<Vec<Verdict>, Failure> + Send + Sync + 'static,
    ) -> Self {
        let (name, body) = (slug(&name.into()), Box::new(body));
        Self { name, parts, body }
    }

    pub fn names(&self, group: &str) -> Vec<String> {
        let name = |part: &&str| match *part {
            "" => format!("{group}/{}", self.name),
            part => format!("{group}/{}/{part}", self.name),
        };
        self.parts.iter().map(name).collect()
    }

    /// Runs the check; one verdict for each of its parts.
    pub fn verdicts(&self, cx: &Context) -> Result<Vec<Verdict>, Failure> {
        (self.body)(cx)
    }

    /// Runs the check if a part of it is selected, and reports what is selected.
    fn run(&self, cx: &Context) -> Verdict {
        let names = self.names(&cx.name);
        if !names.iter().any(|name| cx.selects(name)) {
            return Ok(());
        }
        println!("== {}", names[0]);
        let verdicts = self
            .verdicts(cx)
            .unwrap_or_else(|failure| vec![Err(failure); names.len()]);
        if verdicts.len() != names.len() {
            return Err(Failure::new(format!("{}: not one verdict each", self.name)));
        }
        for (name, verdict) in names.iter().zip(verdicts) {
            if cx.selects(name) {
                cx.report_as(name, verdict)?;
            }
        }
        Ok(())
    }
}

/// A case of these checks.
pub fn case(name: &str, checks: Vec<Check>) -> Case {
    let members = checks.iter().flat_map(|check| check.names(name)).collect();
    Case::new(name, move |cx| {
        checks.iter().try_for_each(|check| check.run(cx))
    })
    .members(members)
}

/// A name that a shell and make take as it is: other characters than letters, digits and `._=+:-` become one
/// hyphen.
pub fn slug(text: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || "._=+:-".contains(c);
    let words = text.split(|c| !keep(c)).filter(|word| !word.is_empty());
    let joined = words.collect::<Vec<_>>().join("-");
    joined.replace(":-", "-").trim_matches(':').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_need_no_quotes() {
        assert_eq!(slug("a 'b', c"), "a-b-c");
        assert_eq!(slug("node: open=EACCES"), "node-open=EACCES");
        assert_eq!(slug("root:root/4755: /sys"), "root:root-4755-sys");
    }

    #[test]
    fn parts_are_members() {
        let both = Check::with_parts("one", vec!["", "bytes"], |_| Ok(vec![Ok(()), Ok(())]));
        let case = case("s/g", vec![both, Check::new("two", |_| Ok(()))]);
        assert_eq!(case.names(), ["s/g/one", "s/g/one/bytes", "s/g/two"]);
    }
}
