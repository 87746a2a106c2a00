//! Which packets a rule is for, and how a delay varies: values that rules have and the tables name.

/// How the delay of packets varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Distribution {
    /// Evenly, by as much as the jitter, to both sides.
    #[default]
    Uniform,
    /// By a normal distribution; the jitter is the standard deviation.
    Normal,
    /// Upwards, with a long tail: a Pareto distribution whose mean is the jitter.
    Pareto,
}

/// Which packets a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    /// Those that a device receives.
    #[default]
    Received,
    /// Those that a device sends.
    Sent,
    /// All.
    Both,
}

impl Direction {
    /// Whether a packet is meant.
    pub fn matches(self, sent: bool) -> bool {
        match self {
            Direction::Received => !sent,
            Direction::Sent => sent,
            Direction::Both => true,
        }
    }
}
