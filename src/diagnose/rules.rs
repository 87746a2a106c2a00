//! The rules of IBV_EXPLAIN: their names, classes, severities and texts. A rule may stand anywhere in its
//! file. libibverbs-rs-explain(7) lists the same; the test case `man/explain` compares both.
//!
//! | file | the rules of |
//! |---|---|
//! | `gid.rs` | GIDs, address vectors |
//! | `connection.rs` | the way to the peer: acknowledgments, RNR NAKs, librdmacm |
//! | `memory.rs` | memory: registration, changes while requests use it |
//! | `keys.rs` | keys and access rights |
//! | `queues.rs` | sizes of queues, lists and messages |
//! | `states.rs` | states and attributes of queue pairs |
//! | `lifetime.rs` | order of destruction, threads, forked processes |
//! | `events.rs` | events and completions that do not come, or that nobody reads |
//! | `environment.rs` | devices, their files, providers |
//! | `failures.rs` | arguments of any call; failures that no other rule explains |
//! | `classes.rs` | the classes and severities that a rule can have |
//!
//! Not here: when a rule applies (`check/`, `shadow/`). CONTRIBUTING.md lists the files of a rule.
//!
//! A text has `{name}` where a finding's value of that name goes ([`Finding`](super::finding::Finding)).

mod classes;
#[macro_use]
mod connection;
#[macro_use]
mod environment;
#[macro_use]
mod events;
#[macro_use]
mod failures;
#[macro_use]
mod gid;
#[macro_use]
mod keys;
#[macro_use]
mod lifetime;
#[macro_use]
mod memory;
#[macro_use]
mod queues;
#[macro_use]
mod states;

pub use classes::{Class, Severity};

/// A rule's name and texts.
#[derive(Debug)]
pub struct Text {
    /// The name in messages, which does not change between releases.
    pub name: &'static str,
    pub class: Class,
    pub severity: Severity,
    /// The event, with values: what happened.
    pub what: &'static str,
    /// Why that is an error, or what caused it.
    pub why: &'static str,
    /// The advice: what to do.
    pub advice: &'static str,
}

macro_rules! rules {
    ($($rule:ident $name:literal $class:ident $severity:ident:
        $what:literal, $why:literal, $advice:literal;)+) => {
        /// A rule. The number of a variant is its index in [`RULES`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule { $($rule),+ }

        /// All rules, in their order.
        const ALL: &[Rule] = &[$(Rule::$rule),+];

        /// The texts of all rules, in the order of [`Rule`].
        pub static RULES: &[Text] = &[$(Text {
            name: $name,
            class: Class::$class,
            severity: Severity::$severity,
            what: $what,
            why: $why,
            advice: $advice,
        }),+];
    };
}

/// Makes one list of the rules of all files, and gives it to `rules!`: each file's macro, named as its file,
/// appends its rows to what it is given.
macro_rules! collect {
    ($file:ident $($files:ident)*; $($row:tt)*) => { $file! { $($files)*; $($row)* } };
    (; $($row:tt)*) => { rules! { $($row)* } };
}

collect! { gid connection memory keys queues states lifetime events environment failures; }

impl Rule {
    /// The rule's name and texts.
    pub fn text(self) -> &'static Text {
        &RULES[self as usize]
    }

    /// How bad it is that the rule applies.
    pub fn severity(self) -> Severity {
        self.text().severity
    }

    /// The rule of this name.
    pub fn of_name(name: &str) -> Option<Rule> {
        let at = RULES.iter().position(|rule| rule.name == name)?;
        ALL.get(at).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_texts_well_formed() {
        let names: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names.len(), RULES.len());
        for rule in RULES {
            for text in [rule.what, rule.why, rule.advice] {
                assert_eq!(
                    text.matches('{').count(),
                    text.matches('}').count(),
                    "{text}"
                );
                assert!(!text.ends_with('.') && !text.contains('\n'), "{text}");
            }
        }
    }

    #[test]
    fn a_rule_has_the_text_of_its_place() {
        assert_eq!(Rule::GidEmpty.text().name, "gid-empty");
        assert!(
            RULES
                .iter()
                .zip(ALL)
                .all(|(text, rule)| Rule::of_name(text.name) == Some(*rule))
        );
        assert!(Severity::Error > Severity::Warning && Severity::Warning > Severity::Hint);
    }
}
