//! A picture of an experiment: goodput and the longest stall.

use std::path::Path;

use charts::{Chart, Curve, Curves};

use crate::experiment::{Experiment, Point};

/// Writes the experiment's file into the directory.
pub fn write(directory: &Path, experiment: &Experiment) -> Result<(), String> {
    let file = directory.join(experiment.file);
    let charts = [
        chart(experiment, "goodput in Gb/s", |point| {
            point.report.goodput / 1e9
        }),
        chart(experiment, "longest stall in ms", |point| {
            point.report.longest_stall.as_secs_f64() * 1e3
        }),
    ];
    let picture = charts::picture(experiment.title, &charts, &[]);
    std::fs::write(&file, picture).map_err(|why| format!("{}: {why}", file.display()))
}

fn chart(experiment: &Experiment, up: &str, value: fn(&Point) -> f64) -> Chart {
    let points = experiment.points.iter().map(|point| {
        // On a logarithmic axis there is no 0.
        let y = value(point).max(1e-4);
        charts::Point {
            x: point.x,
            y,
            range: (y, y),
        }
    });
    let curve = Curve {
        name: up.into(),
        strong: true,
        points: points.collect(),
    };
    let ticks = experiment.points.iter();
    Chart::Curves(Curves {
        up: up.into(),
        across: experiment.across.into(),
        ticks: ticks.map(|point| (point.x, point.name.clone())).collect(),
        curves: vec![curve],
    })
}
