//! Fault rules: what the value of IBV_FAULTS means, and which rule applies to what happens. Pure: no I/O, no
//! clock, no unsafe. libibverbs-rs-faults(7) describes the syntax.
//!
//! | file | what is in it |
//! |---|---|
//! | `table.rs` | actions, keys, and the names that values can have |
//! | `kind.rs` | the values of rules that the tables name |
//! | `rule.rs` | a rule, and its text |
//! | `parse.rs`, `value.rs` | from text to rules; the values of keys |
//! | `parse/script.rs` | what happens at a time: links and devices that fail and come back |
//! | `shape.rs` | delays, lines and bursts: what happens to a packet |
//! | `set.rs` | the rules that are in force, and how often each has applied |
//!
//! Not here: what an action does. That is `src/diagnose/faults` of the library, and for packets
//! `crates/uroce`.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod kind;
mod parse;
mod rule;
mod set;
mod shape;
mod table;
mod value;

pub use kind::{Direction, Distribution};
pub use parse::{Error, Parsed, parse};
pub use rule::{Action, Latency, Network, Pattern, Rule};
pub use set::{Applied, Facts, Listed, RuleSet};
pub use table::{
    ACTIONS, ActionEntry, CALLS, COMPLETION_OPCODES, DIRECTIONS, DISTRIBUTIONS, EVENTS, KEYS, Key,
    KeyEntry, PACKET_OPCODES, Point, STATUSES, errno_name, name_of,
};
