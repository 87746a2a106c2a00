//! The pictures of stored results (`docs/benchmarks.md`): which rows of which file each of them shows.

use std::path::Path;

use charts::{Bars, Chart, Curve, Curves, Point};

use crate::figures::{bytes, median, number};
use crate::store::{Results, Row};

/// A picture: its file, its source, and its charts.
struct Picture {
    file: &'static str,
    results: &'static str,
    title: &'static str,
    charts: &'static [Kind],
}

/// A chart of the rows of a metric.
enum Kind {
    /// The rows with these names, over the size of messages.
    Curves(&'static str, &'static str, &'static [&'static str]),
    /// A bar for each size of each row.
    Sizes(&'static str, &'static str),
    /// This library's figure over the C library's, for each row.
    Ratios(&'static str, &'static str),
}

const ON_ONE_HOST: &[&str] = &[
    "send, RC",
    "write, RC",
    "UCX over uroce",
    "UCX, posix",
    "UCX, posix and cma",
    "UCX, tcp",
    "libfabric, shm",
];
const ON_TWO: &[&str] = &[
    "send, RC",
    "write, RC",
    "UCX over uroce",
    "UCX, tcp",
    "bare UDP",
    "bare TCP",
];

const PICTURES: [Picture; 6] = [
    Picture {
        file: "latency.svg",
        results: "loopback.toml",
        title: "Latency on one host",
        charts: &[Kind::Curves("latency", "one way, in us", ON_ONE_HOST)],
    },
    Picture {
        file: "bandwidth.svg",
        results: "loopback.toml",
        title: "Bandwidth on one host",
        charts: &[Kind::Curves("bandwidth", "MiB/s", ON_ONE_HOST)],
    },
    Picture {
        file: "rate.svg",
        results: "loopback.toml",
        title: "Message rate on one host, 8 bytes",
        charts: &[Kind::Sizes("rate", "million messages a second")],
    },
    Picture {
        file: "namespaces.svg",
        results: "veth.toml",
        title: "Between two network namespaces",
        charts: &[
            Kind::Curves("latency", "one way, in us", ON_TWO),
            Kind::Curves("bandwidth", "MiB/s", ON_TWO),
        ],
    },
    Picture {
        file: "instructions.svg",
        results: "count.toml",
        title: "Instructions for a message on one host",
        charts: &[Kind::Sizes(
            "instructions",
            "both ends together, by the size of the message",
        )],
    },
    Picture {
        file: "verbs.svg",
        results: "verbs.toml",
        title: "This library over the C library",
        charts: &[
            Kind::Ratios(
                "instructions, mlx5_0, ioctl ok",
                "instructions of a verb in user space (ratio; ours / theirs)",
            ),
            Kind::Ratios(
                "start",
                "a process that opens a device: CPU time in us (ratio; ours / theirs)",
            ),
        ],
    },
];

/// Draws all pictures whose results are in the directory.
pub fn all(results: &Path, out: &Path) -> Result<(), String> {
    for picture in &PICTURES {
        let source = results.join(picture.results);
        if !source.exists() {
            eprintln!("{} is missing: no {}", source.display(), picture.file);
            continue;
        }
        let file = out.join(picture.file);
        std::fs::write(&file, picture.draw(&Results::read(&source)?))
            .map_err(|why| format!("{}: {why}", file.display()))?;
        println!("drawn: {}", file.display());
    }
    Ok(())
}

impl Picture {
    fn draw(&self, results: &Results) -> String {
        let charts: Vec<Chart> = self
            .charts
            .iter()
            .map(|kind| kind.chart(&results.rows))
            .collect();
        let run = &results.run;
        let note = format!(
            "{}; {}; {}, commit {}",
            run.cpu, run.kernel, run.date, run.commit
        );
        charts::picture(self.title, &charts, &[note, run.versions.clone()])
    }
}

impl Kind {
    fn chart(&self, rows: &[Row]) -> Chart {
        let of = |metric: &'static str| rows.iter().filter(move |row| row.metric == metric);
        match self {
            Kind::Curves(metric, up, names) => {
                let named = |name: &&'static str| of(metric).find(|row| row.name == **name);
                curves(up, names.iter().filter_map(named))
            }
            Kind::Sizes(metric, across) => {
                let colors = of(metric).map(by_size).max_by_key(Vec::len);
                let groups = of(metric).map(|row| {
                    let values = by_size(row).into_iter();
                    let bars = values.map(|(_, values)| with_text(best(row, values)));
                    (row.name.clone(), bars.collect())
                });
                Chart::Bars(Bars {
                    across: (*across).into(),
                    colors: colors
                        .iter()
                        .flatten()
                        .map(|(size, _)| bytes(*size))
                        .collect(),
                    groups: groups.collect(),
                    line: None,
                })
            }
            Kind::Ratios(metric, across) => Chart::Bars(Bars {
                across: (*across).into(),
                colors: vec![],
                groups: of(metric)
                    .filter_map(|row| Some((row.name.clone(), vec![ratio(row)?])))
                    .collect(),
                line: Some(1.0),
            }),
        }
    }
}

fn with_text(value: f64) -> (f64, String) {
    (value, number(value))
}

/// The best round: what disturbs a program makes it slower.
fn best(row: &Row, values: &[f64]) -> f64 {
    match row.metric.as_str() {
        "bandwidth" | "rate" => values.iter().copied().fold(0.0, f64::max),
        _ => values.iter().copied().fold(f64::MAX, f64::min),
    }
}

/// The figures of a row in the order of their sizes.
fn by_size(row: &Row) -> Vec<(usize, &Vec<f64>)> {
    let sizes = row.at.iter();
    let mut all: Vec<_> = sizes
        .filter_map(|(size, values)| Some((size.parse().ok()?, values)))
        .collect();
    all.sort_unstable_by_key(|(size, _)| *size);
    all
}

/// This library's figure over the C library's, with both. None if one of them is missing.
fn ratio(row: &Row) -> Option<(f64, String)> {
    let of = |key: &str| Some(median(&mut row.at.get(key)?.clone()));
    let (ours, theirs) = (of("ours")?, of("theirs")?);
    let ratio = ours / theirs;
    Some((ratio, format!("{ratio:.2} ({ours:.0} / {theirs:.0})")))
}

/// Curves over the size of messages. Those of this project are thick.
fn curves<'a>(up: &str, rows: impl Iterator<Item = &'a Row>) -> Chart {
    let curve = |row: &Row| Curve {
        name: row.name.clone(),
        strong: row.name.contains("RC") || row.name.contains("uroce"),
        points: by_size(row)
            .into_iter()
            .map(|(size, values)| point(row, size, values))
            .collect(),
    };
    let curves: Vec<Curve> = rows.map(curve).collect();
    let mut sizes: Vec<f64> = curves
        .iter()
        .flat_map(|curve| &curve.points)
        .map(|point| point.x)
        .collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    Chart::Curves(Curves {
        up: up.into(),
        across: "message size".into(),
        ticks: sizes
            .into_iter()
            .map(|size| (size, bytes(size as usize)))
            .collect(),
        curves,
    })
}

fn point(row: &Row, size: usize, values: &[f64]) -> Point {
    let ends = values
        .iter()
        .fold((f64::MAX, 0.0), |(low, high): (f64, f64), &value| {
            (low.min(value), high.max(value))
        });
    Point {
        x: size as f64,
        y: best(row, values),
        range: ends,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pictures in the documentation are those of the stored results, and the page names their machines.
    #[test]
    fn the_pictures_are_drawn_from_the_stored_results() {
        let repo = compat_tests::paths::repo();
        let page = std::fs::read_to_string(repo.join("docs/benchmarks.md")).unwrap();
        for picture in &PICTURES {
            let results =
                Results::read(&repo.join("benches/results").join(picture.results)).unwrap();
            let drawn =
                std::fs::read_to_string(repo.join("docs/benchmarks").join(picture.file)).unwrap();
            assert!(
                picture.draw(&results) == drawn,
                "{}: run make bench-plots",
                picture.file
            );
            for shown in [
                picture.file,
                &results.run.date,
                &results.run.cpu,
                &results.run.kernel,
            ] {
                assert!(
                    page.contains(shown),
                    "docs/benchmarks.md does not name {shown}"
                );
            }
        }
    }

    #[test]
    fn ratios_have_both_figures() {
        let row = |at: &[(&str, f64)]| Row {
            metric: "instructions".into(),
            name: "alloc_pd".into(),
            at: at
                .iter()
                .map(|(key, value)| ((*key).into(), vec![*value]))
                .collect(),
        };
        let both = row(&[("ours", 50.0), ("theirs", 200.0)]);
        assert_eq!(ratio(&both), Some((0.25, "0.25 (50 / 200)".into())));
        assert_eq!(ratio(&row(&[("ours", 50.0)])), None);
    }

    #[test]
    fn a_point_has_the_best_round_and_the_range() {
        for (metric, best) in [("latency", 1.0), ("bandwidth", 3.0)] {
            let row = Row {
                metric: metric.into(),
                name: "send, RC".into(),
                at: Default::default(),
            };
            let point = point(&row, 8, &[3.0, 1.0, 2.0]);
            assert_eq!((point.x, point.y, point.range), (8.0, best, (1.0, 3.0)));
        }
    }
}
