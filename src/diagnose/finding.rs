//! A finding: a rule that applies to an object and a call, with the values for its texts. Pure.

use core::fmt::Write as _;
use core::hash::{Hash, Hasher};
use std::hash::DefaultHasher;

use ibverbs_abi::Errno;

use super::rules::{Class, Rule};

/// The kinds of objects that findings are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Process,
    Context,
    Pd,
    Mr,
    Mw,
    Dm,
    Cq,
    Qp,
    Srq,
    Ah,
    Channel,
    Provider,
    /// An `rdma_cm_id`.
    CmId,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Process => "process",
            Kind::Context => "device",
            Kind::Pd => "PD",
            Kind::Mr => "MR",
            Kind::Mw => "MW",
            Kind::Dm => "device memory",
            Kind::Cq => "CQ",
            Kind::Qp => "QP",
            Kind::Srq => "SRQ",
            Kind::Ah => "AH",
            Kind::Channel => "completion channel",
            Kind::Provider => "provider",
            Kind::CmId => "rdma_cm_id",
        }
    }
}

/// The name of an object in messages. It is made into text when a message is written: most verbs
/// find nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// A number or an address.
    Hex(u64),
    Text(String),
}

impl core::fmt::Display for Label {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Label::Hex(number) => write!(f, "{number:#x}"),
            Label::Text(text) => f.write_str(text),
        }
    }
}

impl From<String> for Label {
    fn from(text: String) -> Label {
        Label::Text(text)
    }
}

/// An object. `address` tells objects apart; 0 stands for the process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    pub kind: Kind,
    pub address: usize,
    /// The name in messages: a number, or the device's name.
    pub label: Label,
}

impl Object {
    /// An id of librdmacm, by the number that the kernel or the software device has given it.
    pub fn cm_id(id: u32) -> Object {
        Object {
            kind: Kind::CmId,
            address: id as usize + 1,
            label: id.to_string().into(),
        }
    }

    /// An object that has no number of its own: its address names it.
    pub fn at(kind: Kind, address: usize) -> Object {
        Object {
            kind,
            address,
            label: Label::Hex(address as u64),
        }
    }

    /// A queue pair by its number.
    pub fn qp(address: usize, number: u32) -> Object {
        Object {
            kind: Kind::Qp,
            address,
            label: Label::Hex(number.into()),
        }
    }

    /// A device by its name; `address` is that of its context, or its own.
    pub fn device(address: usize, name: &str) -> Object {
        Object {
            kind: Kind::Context,
            address,
            label: name.to_string().into(),
        }
    }

    /// The process itself.
    pub fn process() -> Object {
        Object {
            kind: Kind::Process,
            address: 0,
            label: std::process::id().to_string().into(),
        }
    }
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call has not returned yet.
    Called,
    Succeeded,
    Failed(Errno),
    /// A completion with this status.
    Completion(u32),
}

impl Outcome {
    /// 0 or an errno value.
    pub fn of(returned: i32) -> Outcome {
        match returned {
            0 => Outcome::Succeeded,
            value if value > 0 => Outcome::Failed(Errno(value)),
            _ => Outcome::Failed(Errno::last()),
        }
    }

    /// A result for which NULL is failure.
    pub fn of_pointer(is_null: bool) -> Outcome {
        match is_null {
            true => Outcome::Failed(Errno::last()),
            false => Outcome::Succeeded,
        }
    }

    pub fn is(&self, errno: i32) -> bool {
        *self == Outcome::Failed(Errno(errno))
    }

    pub fn failed(&self) -> bool {
        matches!(self, Outcome::Failed(_))
    }

    /// The outcome as messages say it.
    pub fn text(&self) -> String {
        match self {
            Outcome::Called => "called".into(),
            Outcome::Succeeded => "succeeded".into(),
            Outcome::Failed(errno) => {
                format!("failed with errno {} ({})", errno.0, describe(*errno))
            }
            Outcome::Completion(status) => format!("reported status {status}"),
        }
    }
}

/// An error as strerror(3) says it, without its number.
pub fn describe(errno: Errno) -> String {
    let text = errno.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].into(),
        None => text,
    }
}

/// A rule that applies.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub rule: Rule,
    pub object: Object,
    /// The function that the program called.
    pub call: &'static str,
    pub outcome: Outcome,
    /// The values for the texts' `{name}`.
    pub values: Vec<(&'static str, String)>,
    /// The notes beside the rule's texts: further facts.
    pub notes: Vec<String>,
    /// The name that the program has given the object.
    pub name: Option<String>,
    /// Where in the program the object was created, if that is asked for.
    pub created: Option<String>,
}

impl Finding {
    pub fn new(rule: Rule, object: Object, call: &'static str, outcome: Outcome) -> Finding {
        Finding {
            rule,
            object,
            call,
            outcome,
            values: Vec::new(),
            notes: Vec::new(),
            name: None,
            created: None,
        }
    }

    /// Tells findings of the rule about one object apart; the same for all, except of the general rules.
    pub fn detail(&self) -> (&'static str, i64) {
        match (self.rule, &self.outcome) {
            (Rule::CallFailed, Outcome::Failed(errno)) => (self.call, errno.0.into()),
            (Rule::RequestFailed, Outcome::Completion(status)) => ("", (*status).into()),
            (Rule::Argument | Rule::AttrRange | Rule::NullObject, _) => (self.call, self.subject()),
            (Rule::CmFailed, _) => (self.call, 0),
            _ if self.rule.text().class == Class::Failures => (self.call, 0),
            _ => ("", 0),
        }
    }

    /// Tells by a number the arguments apart that a general rule is about. The values in the text do not
    /// count: a loop that passes another wrong value each time is reported once.
    fn subject(&self) -> i64 {
        let what = self.fill(self.rule.text().what);
        let is_value = |word: &&str| word.contains(|c: char| c.is_ascii_digit());
        let mut hasher = DefaultHasher::new();
        for word in what.split_whitespace().filter(|word| !is_value(word)) {
            word.hash(&mut hasher);
        }
        hasher.finish() as i64
    }

    /// Adds a value.
    pub fn with(mut self, name: &'static str, value: impl ToString) -> Finding {
        self.values.push((name, value.to_string()));
        self
    }

    /// Replaces a value.
    pub fn set(&mut self, name: &'static str, value: impl ToString) {
        self.values.retain(|(of, _)| *of != name);
        self.values.push((name, value.to_string()));
    }

    /// Adds the values of rules about an argument that is an object.
    pub fn with_object(self, member: impl ToString, kind: Kind, address: usize) -> Finding {
        let found = self.with("member", member).with("kind", kind.name());
        found.with("address", format!("{address:#x}"))
    }

    /// Adds the values of the general rules: what is wrong, why, and what to do.
    pub fn with_texts(
        self,
        what: impl ToString,
        why: impl ToString,
        todo: impl ToString,
    ) -> Finding {
        let found = self.with("what", what).with("why", why);
        found.with("todo", todo)
    }

    /// A text of the rule, with the values. A name without a value stays as it is.
    fn fill(&self, text: &str) -> String {
        let mut filled = text.to_string();
        for (name, value) in &self.values {
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
        filled
    }

    /// Formats the finding as one line of text, with its newline, without the prefix of all
    /// messages of the library.
    pub fn line(&self) -> String {
        let text = self.rule.text();
        let what = self.fill(text.what);
        let (why, advice) = (self.fill(text.why), self.fill(text.advice));
        let notes: String = self
            .notes
            .iter()
            .map(|note| format!(" Note: {note}."))
            .collect();
        let name = match &self.name {
            Some(name) => format!(" \"{name}\""),
            None => String::new(),
        };
        let mut line = format!(
            "explain: {}: {} {}{name}: {} {}: {what}. Why: {why}. Do: {advice}.{notes} [{}]",
            self.rule.severity().name(),
            self.object.kind.name(),
            self.object.label,
            self.call,
            self.outcome.text(),
            text.name,
        );
        line = line.replace(['\n', '\r'], " ");
        line.push('\n');
        line
    }

    /// Formats the finding as a JSON object in one line, with its newline. `seconds` is the time
    /// since the Unix epoch. `from` is where the call came from.
    pub fn json(&self, seconds: f64, pid: u32, from: Option<&str>) -> String {
        let text = self.rule.text();
        let mut json = format!("{{\"time\":{seconds:.6},\"pid\":{pid}");
        let mut member = |name: &str, value: &str| {
            json.push_str(",\"");
            json.push_str(name);
            json.push_str("\":");
            quote(&mut json, value);
        };
        member("rule", text.name);
        member("severity", self.rule.severity().name());
        member("class", text.class.name());
        member("object", self.object.kind.name());
        member("label", &self.object.label.to_string());
        if let Some(name) = &self.name {
            member("name", name);
        }
        member("call", self.call);
        member("outcome", &self.outcome.text());
        member("what", &self.fill(text.what));
        member("why", &self.fill(text.why));
        member("do", &self.fill(text.advice));
        if !self.notes.is_empty() {
            member("note", &self.notes.join(". "));
        }
        if let Some(from) = from {
            member("from", from);
        }
        if let Some(created) = &self.created {
            member("created", created);
        }
        json.push_str(",\"values\":{");
        for (i, (name, value)) in self.values.iter().enumerate() {
            json.push_str(if i == 0 { "\"" } else { ",\"" });
            json.push_str(name);
            json.push_str("\":");
            quote(&mut json, value);
        }
        json.push_str("}}\n");
        json
    }
}

/// Appends a JSON string.
pub fn quote(json: &mut String, value: &str) {
    json.push('"');
    for c in value.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            c if (c as u32) < 0x20 => {
                // Writing to a String does not fail.
                let _ = write!(json, "\\u{:04x}", c as u32);
            }
            c => json.push(c),
        }
    }
    json.push('"');
}

/// Adds a finding to a list, if there is one. `Vec::extend` would first move it, also one that is not there,
/// and findings are large.
#[inline(always)]
pub fn add(list: &mut Vec<Finding>, found: Option<Finding>) {
    if let Some(found) = found {
        list.push(found);
    }
}

/// Whether all values that a finding's texts name are there. For tests of the checks.
#[cfg(test)]
pub fn is_complete(finding: &Finding) -> bool {
    let text = finding.rule.text();
    [text.what, text.why, text.advice]
        .iter()
        .all(|text| !finding.fill(text).contains('{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding() -> Finding {
        let object = Object::qp(0x1000, 17);
        let outcome = Outcome::of(libc::ENOMEM);
        Finding::new(Rule::NeverSignaled, object, "ibv_post_send", outcome)
            .with("outstanding", 4)
            .with("max", "4 \"x\"\n")
    }

    #[test]
    fn a_line_has_the_values_and_one_newline() {
        let line = finding().line();
        assert!(line.starts_with(
            "explain: error: QP 0x11: ibv_post_send failed with errno 12 (Cannot allocate memory): "
        ));
        assert!(line.contains("the send queue is full with 4 of 4 \"x\"  requests"));
        assert!(line.ends_with(". [never-signaled]\n"));
        assert_eq!(line.matches('\n').count(), 1);
    }

    #[test]
    fn json_escapes() {
        let json = finding().json(1.5, 7, Some("main (a.c:3)"));
        assert!(json.contains("\"from\":\"main (a.c:3)\""));
        assert!(json.starts_with("{\"time\":1.500000,\"pid\":7,\"rule\":\"never-signaled\""));
        assert!(json.contains("\"values\":{\"outstanding\":\"4\",\"max\":\"4 \\\"x\\\"\\n\"}}"));
        assert_eq!(json.matches('\n').count(), 1);
    }

    #[test]
    fn a_general_rule_tells_arguments_apart_and_not_values() {
        let of = |what: &str| {
            let outcome = Outcome::Called;
            let finding = Finding::new(Rule::Argument, Object::process(), "ibv_create_qp", outcome);
            finding.with("what", what).detail()
        };
        let size = of("max_send_wr is 70000");
        assert_eq!(of("max_send_wr is 80000"), size);
        assert_ne!(of("qp_type is 0"), size);
    }

    #[test]
    fn completeness_is_by_the_names_in_the_texts() {
        assert!(is_complete(&finding()));
        let mut lacking = finding();
        lacking.values.pop();
        assert!(!is_complete(&lacking));
    }
}
