//! Values that rules have and the tables name: the packets that a rule is for, and the variation of
//! a delay.

/// How the delay of packets varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Distribution {
    /// Evenly, by as much as the jitter, to both sides.
    #[default]
    Uniform,
    /// The delay varies by a normal distribution; the jitter is the standard deviation.
    Normal,
    /// Upwards, with a long tail: a Pareto distribution whose mean is the jitter.
    Pareto,
}

/// The packets that a rule is for, by their direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    /// The packets that a device receives.
    #[default]
    Received,
    /// The packets that a device sends.
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
