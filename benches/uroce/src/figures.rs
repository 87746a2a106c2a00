//! Medians, and the tables that show them.

use std::collections::BTreeMap;

use crate::peer::{Metric, Peer};
use crate::store::Row;

/// The middle value, or the mean of the two in the middle. There must be one at least.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 {
        values[half]
    } else {
        (values[half - 1] + values[half]) / 2.0
    }
}

/// The figures of an environment: of each peer and size, those of all rounds.
#[derive(Default)]
pub struct Figures {
    values: BTreeMap<(usize, usize), Vec<f64>>,
    failures: BTreeMap<usize, String>,
}

impl Figures {
    pub fn add(&mut self, row: usize, size: usize, figure: Result<f64, String>) {
        match figure {
            Ok(value) => self.values.entry((row, size)).or_default().push(value),
            Err(why) => drop(self.failures.entry(row).or_insert(why)),
        }
    }

    pub fn has_failed(&self, row: usize) -> bool {
        self.failures.contains_key(&row)
    }

    pub fn median(&self, row: usize, size: usize) -> Option<f64> {
        self.values
            .get(&(row, size))
            .map(|values| median(&mut values.clone()))
    }

    /// The best figure of all rounds: the lowest latency, the highest bandwidth or rate. What disturbs a
    /// run makes it slower, and so does a host that moves the virtual CPUs to cores that share no cache.
    pub fn best(&self, row: usize, size: usize, metric: Metric) -> Option<f64> {
        let values = self.values.get(&(row, size))?.iter().copied();
        values.reduce(match metric {
            Metric::Latency => f64::min,
            Metric::Bandwidth | Metric::Rate => f64::max,
        })
    }

    /// The rows to store: one for each peer that has figures.
    pub fn rows(&self, peers: &[&Peer]) -> Vec<Row> {
        let at = |row| {
            let own = self
                .values
                .iter()
                .filter(move |((other, _), _)| *other == row);
            own.map(|((_, size), values)| (size.to_string(), values.clone()))
        };
        let all = peers.iter().enumerate().map(|(row, peer)| Row {
            metric: peer.metric.name().into(),
            name: peer.name.into(),
            at: at(row).collect(),
        });
        all.filter(|row| !row.at.is_empty()).collect()
    }

    /// One table: a row for each peer of the metric, a column for each size that any of them has.
    pub fn table(&self, peers: &[&Peer], metric: Metric, sizes: &[usize]) -> String {
        let rows = peers
            .iter()
            .enumerate()
            .filter(|(_, peer)| peer.metric == metric);
        let has = |size: &usize| {
            rows.clone()
                .any(|(row, _)| self.values.contains_key(&(row, *size)))
        };
        let sizes: Vec<usize> = sizes.iter().copied().filter(has).collect();
        let mut text = format!("{:<32}", metric.unit());
        text.extend(sizes.iter().map(|&size| format!("{:>10}", bytes(size))));
        text.push('\n');
        for (row, peer) in rows {
            text += &format!("{:<32}", peer.name);
            for &size in &sizes {
                text += &format!("{:>10}", self.median(row, size).map_or("-".into(), number));
            }
            if let Some(why) = self.failures.get(&row) {
                text += &format!("  {why}");
            }
            text.push('\n');
        }
        text
    }
}

/// Three digits that count.
pub fn number(value: f64) -> String {
    let decimals = match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// A size with its unit.
pub fn bytes(size: usize) -> String {
    match size {
        size if size >= 1 << 20 => format!("{} MiB", size >> 20),
        size if size >= 1 << 10 => format!("{} KiB", size >> 10),
        size => format!("{size} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0]), 2.5);
    }

    #[test]
    fn the_best_of_all_rounds() {
        let mut figures = Figures::default();
        for value in [2.0, 1.0, 3.0] {
            figures.add(0, 8, Ok(value));
        }
        assert_eq!(figures.best(0, 8, Metric::Latency), Some(1.0));
        assert_eq!(figures.best(0, 8, Metric::Rate), Some(3.0));
        assert_eq!(figures.best(1, 8, Metric::Rate), None);
    }

    #[test]
    fn sizes_and_numbers() {
        let sizes = [8, 4096, 1 << 20].map(bytes);
        assert_eq!(sizes, ["8 B", "4 KiB", "1 MiB"]);
        assert_eq!([0.123, 12.34, 1234.5].map(number), ["0.12", "12.3", "1234"]);
    }
}
