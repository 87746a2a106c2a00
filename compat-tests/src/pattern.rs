//! Patterns of case names: `*` stands for any text. A pattern also selects everything below it.

/// Patterns, any of which may match. Without patterns, everything matches.
#[derive(Debug, Clone, Default)]
pub struct Patterns(pub Vec<String>);

impl Patterns {
    /// Whether a case of this name is selected.
    pub fn select(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|pattern| matches(pattern, name))
    }

    /// Whether a pattern names something below this name, such as a check that this case reports.
    pub fn name_below(&self, name: &str) -> bool {
        let below = |pattern: &String| {
            pattern
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        self.0.iter().any(below)
    }
}

/// Whether the pattern matches the name, or a name above it: `symbols` matches `symbols/exports`.
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern = pattern.trim_end_matches('/');
    let ends = name.match_indices('/').map(|(i, _)| i).chain([name.len()]);
    ends.into_iter()
        .any(|end| glob(pattern.as_bytes(), &name.as_bytes()[..end]))
}

/// Whether the whole text matches; `*` in the pattern matches any bytes, also none.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|n| glob(rest, &text[n..])),
        Some((c, rest)) => text
            .split_first()
            .is_some_and(|(d, text)| c == d && glob(rest, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_selects_a_case_or_all_below() {
        assert!(matches("symbols/exports", "symbols/exports"));
        assert!(matches("symbols", "symbols/exports"));
        assert!(matches("symbols/", "symbols/exports"));
        assert!(matches("uroce/*/rc-?*", "uroce/loopback/rc-?e"));
        assert!(matches("*rc-e", "uroce/loopback/pingpong/rc-e"));
        assert!(!matches("symbol", "symbols/exports"));
        assert!(!matches("exports", "symbols/exports"));
        assert!(!matches("", "symbols/exports"));
    }

    #[test]
    fn a_check_is_below_its_case() {
        let patterns = Patterns(vec!["a/b/c*".into()]);
        assert!(patterns.name_below("a/b"));
        assert!(!patterns.name_below("a/b/c"));
        assert!(!patterns.name_below("a/bb"));
        assert!(!Patterns::default().name_below("a/b"));
    }

    #[test]
    fn without_patterns_everything_is_selected() {
        assert!(Patterns::default().select("a/b"));
        assert!(!Patterns(vec!["c".into()]).select("a/b"));
        assert!(Patterns(vec!["c".into(), "a/*".into()]).select("a/b"));
    }
}
