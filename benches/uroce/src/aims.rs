//! The aims on one host, as ratios of the best rounds to those of peers of the same run. A report, no test: a
//! ratio is printed with its aim, whether it is met or not.

use crate::figures::{Figures, bytes};
use crate::peer::{Metric, Peer};

/// An aim: how the figure of a row of uroce compares with the best of other rows.
struct Aim {
    metric: Metric,
    size: usize,
    row: &'static str,
    /// The rows of which the best counts.
    beside: &'static [&'static str],
    /// The ratio that is aimed at: the highest for latencies, the lowest for bandwidths and rates.
    ratio: f64,
}

const POSIX: &[&str] = &["UCX, posix"];
const POSIX_OR_CMA: &[&str] = &["UCX, posix", "UCX, posix and cma"];

const fn aim(
    metric: Metric,
    size: usize,
    row: &'static str,
    beside: &'static [&'static str],
    ratio: f64,
) -> Aim {
    Aim {
        metric,
        size,
        row,
        beside,
        ratio,
    }
}

use Metric::{Bandwidth, Latency, Rate};

#[rustfmt::skip]
const AIMS: [Aim; 6] = [
    aim(Latency, 8, "send, RC", POSIX, 1.2),
    aim(Latency, 8, "write, RC", &["bare process_vm_writev"], 1.2),
    aim(Latency, 8, "UCX over uroce", POSIX, 3.0),
    aim(Bandwidth, 64 << 10, "send, RC", POSIX_OR_CMA, 0.9),
    aim(Bandwidth, 1 << 20, "send, RC", POSIX_OR_CMA, 0.9),
    aim(Rate, 8, "send, RC, posts of 32", POSIX, 1.0),
];

impl Aim {
    /// The ratio in a run; None if a row or size was not measured.
    fn reached(&self, peers: &[&Peer], figures: &Figures) -> Option<f64> {
        let figure = |name: &str| {
            let is_row = |peer: &&Peer| peer.metric == self.metric && peer.name == name;
            figures.best(peers.iter().position(is_row)?, self.size, self.metric)
        };
        let beside = self.beside.iter().filter_map(|name| figure(name));
        let best = beside.reduce(match self.metric {
            Latency => f64::min,
            _ => f64::max,
        })?;
        Some(figure(self.row)? / best)
    }

    fn is_met(&self, ratio: f64) -> bool {
        match self.metric {
            Latency => ratio <= self.ratio,
            _ => ratio >= self.ratio,
        }
    }
}

/// The aims that a run has figures for, a line each. Empty if it has none.
pub fn table(peers: &[&Peer], figures: &Figures) -> String {
    let mut text = String::new();
    for aim in &AIMS {
        let Some(ratio) = aim.reached(peers, figures) else {
            continue;
        };
        let what = format!("{}, {}", aim.row, bytes(aim.size));
        let beside = aim.beside.join(" or ");
        let bound = match aim.metric {
            Latency => "at most",
            _ => "at least",
        };
        let verdict = if aim.is_met(ratio) { "met" } else { "missed" };
        text += &format!(
            "{what:<32}{ratio:>6.2} x {beside:<34}{bound} {:.1}: {verdict}\n",
            aim.ratio
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::PEERS;

    /// Each aim names rows of the table, and compares latencies upwards and rates downwards.
    #[test]
    fn aims_are_of_rows() {
        let peers: Vec<&Peer> = PEERS.iter().collect();
        let mut figures = Figures::default();
        for row in 0..peers.len() {
            for size in [8, 64 << 10, 1 << 20] {
                figures.add(row, size, Ok(2.0));
            }
        }
        for aim in &AIMS {
            assert_eq!(aim.reached(&peers, &figures), Some(1.0), "{}", aim.row);
            assert!(aim.is_met(aim.ratio) && aim.is_met(1.0));
            let worse = match aim.metric {
                Latency => aim.ratio + 0.1,
                _ => aim.ratio - 0.1,
            };
            assert!(!aim.is_met(worse));
        }
        assert_eq!(table(&peers, &figures).lines().count(), AIMS.len());
        assert_eq!(table(&peers, &Figures::default()), "");
    }
}
