//! The classes and severities that a rule of IBV_EXPLAIN can have. Each row of the other files
//! names both.

/// The subject of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Gid,
    Connection,
    Rnr,
    Memory,
    Keys,
    Queues,
    States,
    Lifetime,
    Threads,
    Events,
    Drivers,
    Environment,
    Failures,
}

impl Class {
    /// The name in messages and in the manual page.
    pub fn name(self) -> &'static str {
        match self {
            Class::Gid => "GID",
            Class::Connection => "connection",
            Class::Rnr => "RNR",
            Class::Memory => "memory",
            Class::Keys => "keys",
            Class::Queues => "queues",
            Class::States => "states",
            Class::Lifetime => "lifetime",
            Class::Threads => "threads",
            Class::Events => "events",
            Class::Drivers => "drivers",
            Class::Environment => "environment",
            Class::Failures => "failures",
        }
    }
}

/// How bad it is that a rule applies. The order is that of the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The call may be meant, or matters on other devices only.
    #[default]
    Hint,
    /// The call works, and may fail another time.
    Warning,
    /// A call or a request has failed, or data is at risk.
    Error,
}

impl Severity {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Hint => "hint",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}
