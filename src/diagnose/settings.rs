//! The value of IBV_EXPLAIN. Pure.

use super::rules::{RULES, Rule, Severity};

/// Where findings are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output<'a> {
    #[default]
    Stderr,
    /// Lines of text, appended to this file.
    File(&'a [u8]),
    /// A JSON object per line, appended to this file.
    Json(&'a [u8]),
}

/// A rule, or a rule about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// None stands for all rules.
    rule: Option<Rule>,
    /// The label of an object, as messages show it, or its name.
    label: Option<String>,
}

impl Selector {
    pub fn selects(&self, rule: Rule, label: &str, name: Option<&str>) -> bool {
        let is_object = |of: &str| of == label || Some(of) == name;
        self.rule.is_none_or(|of| of == rule) && self.label.as_deref().is_none_or(is_object)
    }
}

/// The action when a rule applies, besides writing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Raise SIGTRAP, for a debugger.
    Trap,
    Abort,
}

/// The settings that a value of IBV_EXPLAIN asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings<'a> {
    pub output: Output<'a>,
    /// Rules that are less severe are not reported.
    pub least: Severity,
    /// Rules that are reported or not, whatever their severity; the last that selects a finding counts.
    switched: Vec<(Selector, bool)>,
    pub stops: Vec<(Selector, Stop)>,
    /// A line says where the call came from.
    pub backtrace: bool,
}

impl Settings<'_> {
    /// Whether a rule about an object is reported.
    pub fn reports(&self, rule: Rule, label: &str, name: Option<&str>) -> bool {
        let mut switched = self.switched.iter().rev();
        match switched.find(|(selector, _)| selector.selects(rule, label, name)) {
            Some((_, on)) => *on,
            None => rule.severity() >= self.least,
        }
    }
}

const EXPECTED: &str = "expected 1, error, warning, hint, -RULE, +RULE, trap, abort, trap:RULE, abort:RULE, \
                        backtrace, and at the end file:PATH or json:PATH, separated by commas";

/// Parses a value of IBV_EXPLAIN; `Ok(None)` if it asks for nothing.
pub fn parse(value: &[u8]) -> Result<Option<Settings<'_>>, String> {
    if matches!(value, b"" | b"0") {
        return Ok(None);
    }
    let mut settings = Settings::default();
    let mut rest = value;
    while !rest.is_empty() {
        if let Some(output) = output(rest)? {
            settings.output = output;
            break;
        }
        let end = rest.iter().position(|byte| *byte == b',');
        let word = &rest[..end.unwrap_or(rest.len())];
        rest = end.map_or(&[], |end| &rest[end + 1..]);
        apply(&mut settings, &String::from_utf8_lossy(word))?;
    }
    Ok(Some(settings))
}

/// The file that the rest of a value names.
fn output(rest: &[u8]) -> Result<Option<Output<'_>>, String> {
    let path = |path: &[u8]| match path {
        [] => Err("no file is named"),
        _ if path.contains(&0) => Err("the file name has a NUL"),
        _ => Ok(()),
    };
    if let Some(file) = rest.strip_prefix(b"file:") {
        path(file)?;
        return Ok(Some(Output::File(file)));
    }
    match rest.strip_prefix(b"json:") {
        Some(file) => {
            path(file)?;
            Ok(Some(Output::Json(file)))
        }
        None => Ok(None),
    }
}

/// `RULE` or `RULE@LABEL`.
fn selector(word: &str) -> Result<Selector, String> {
    let (name, label) = match word.split_once('@') {
        Some((name, label)) => (name, Some(label.to_string())),
        None => (word, None),
    };
    let rule = Rule::of_name(name).ok_or_else(|| {
        let near = RULES
            .iter()
            .find(|rule| rule.name.contains(name) && !name.is_empty());
        match near {
            Some(rule) => format!("there is no rule '{name}'; did you mean '{}'?", rule.name),
            None => format!("there is no rule '{name}' (libibverbs-rs-explain(7) lists them)"),
        }
    })?;
    Ok(Selector {
        rule: Some(rule),
        label,
    })
}

fn apply(settings: &mut Settings, word: &str) -> Result<(), String> {
    let every = Selector {
        rule: None,
        label: None,
    };
    match word {
        "1" => {}
        "error" => settings.least = Severity::Error,
        "warning" => settings.least = Severity::Warning,
        "hint" => settings.least = Severity::Hint,
        "backtrace" => settings.backtrace = true,
        "trap" => settings.stops.push((every, Stop::Trap)),
        "abort" => settings.stops.push((every, Stop::Abort)),
        _ => {
            if let Some(rule) = word.strip_prefix('-') {
                settings.switched.push((selector(rule)?, false));
            } else if let Some(rule) = word.strip_prefix('+') {
                settings.switched.push((selector(rule)?, true));
            } else if let Some(rule) = word.strip_prefix("trap:") {
                settings.stops.push((selector(rule)?, Stop::Trap));
            } else if let Some(rule) = word.strip_prefix("abort:") {
                settings.stops.push((selector(rule)?, Stop::Abort));
            } else {
                return Err(EXPECTED.into());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output_of(value: &[u8]) -> Output<'_> {
        parse(value).unwrap().unwrap().output
    }

    #[test]
    fn values() {
        assert_eq!(parse(b""), Ok(None));
        assert_eq!(parse(b"0"), Ok(None));
        assert_eq!(output_of(b"1"), Output::Stderr);
        assert_eq!(output_of(b"file:/a b"), Output::File(b"/a b"));
        assert_eq!(output_of(b"file:/a,b"), Output::File(b"/a,b"));
        assert_eq!(output_of(b"warning,-leak,json:x"), Output::Json(b"x"));
        let wrong = [
            &b"2"[..],
            b"yes",
            b"file:",
            b"json:",
            b"/tmp/x",
            b"1,-nothing",
            b"trap:",
            b"hint,x",
        ];
        for wrong in wrong {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        let near = parse(b"-unknown").unwrap_err();
        assert!(near.contains("did you mean 'key-unknown'"), "{near}");
    }

    #[test]
    fn rules_that_are_reported() {
        let all = parse(b"1").unwrap().unwrap();
        assert!(
            all.reports(Rule::Leak, "uroce0", None) && all.reports(Rule::NoAsyncEvent, "x", None)
        );
        let some = parse(b"error,+leak,-busy,-key-unknown@0x11")
            .unwrap()
            .unwrap();
        assert!(some.reports(Rule::Leak, "uroce0", None));
        assert!(!some.reports(Rule::ReceivesOverlap, "0x11", None));
        assert!(!some.reports(Rule::Busy, "0x11", None));
        assert!(some.reports(Rule::KeyUnknown, "0x12", None));
        assert!(!some.reports(Rule::KeyUnknown, "0x11", None));
        assert!(
            !some.reports(Rule::KeyUnknown, "0x12", Some("0x11")),
            "by its name"
        );
    }

    #[test]
    fn stops() {
        let settings = parse(b"abort:leak,trap").unwrap().unwrap();
        let stop = |rule| {
            let mut stops = settings.stops.iter();
            let found = stops.find(|(selector, _)| selector.selects(rule, "", None));
            found.map(|(_, stop)| *stop)
        };
        assert_eq!(stop(Rule::Leak), Some(Stop::Abort));
        assert_eq!(stop(Rule::Busy), Some(Stop::Trap));
    }
}
