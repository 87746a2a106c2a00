//! A picture of an experiment: goodput and the longest stall.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::experiment::{Experiment, Point};

const SIZE: (u32, u32) = (900, 360);

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Writes the experiment's file into the directory.
pub fn write(directory: &Path, experiment: &Experiment) -> Result<(), String> {
    let file = directory.join(experiment.file);
    let root = SVGBackend::new(&file, SIZE).into_drawing_area();
    let draw = || -> Drawn {
        root.fill(&WHITE)?;
        let (left, right) = root.split_horizontally(SIZE.0 / 2);
        let goodput = |point: &Point| point.report.goodput / 1e9;
        let stall = |point: &Point| point.report.longest_stall.as_secs_f64() * 1e3;
        chart(&left, experiment, "goodput in Gb/s", &goodput)?;
        chart(&right, experiment, "longest stall in ms", &stall)?;
        Ok(root.present()?)
    };
    draw().map_err(|why| format!("{}: {why}", file.display()))
}

fn chart<D: DrawingBackend>(
    area: &DrawingArea<D, Shift>,
    experiment: &Experiment,
    what: &str,
    value: &dyn Fn(&Point) -> f64,
) -> Drawn
where
    D::ErrorType: 'static,
{
    // On a logarithmic axis there is no 0.
    let points: Vec<(f64, f64)> = experiment
        .points
        .iter()
        .map(|point| (point.x, value(point).max(1e-4)))
        .collect();
    let ends = |of: fn(&(f64, f64)) -> f64| {
        let values = points.iter().map(of);
        values.fold((f64::MAX, 0.0), |(low, high): (f64, f64), value| {
            (low.min(value), high.max(value))
        })
    };
    let (across, up) = (ends(|point| point.0), ends(|point| point.1));
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(
            (across.0 * 0.8..across.1 * 1.25).log_scale(),
            (up.0 * 0.5..up.1 * 2.0).log_scale(),
        )?;
    let text = |value: &f64| format!("{value}");
    chart
        .configure_mesh()
        .x_desc(experiment.across)
        .y_desc(what)
        .x_label_formatter(&text)
        .y_label_formatter(&text)
        .light_line_style(WHITE)
        .draw()?;
    let style = BLUE.stroke_width(2);
    chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
    let dots = points
        .iter()
        .map(|point| Circle::new(*point, 3, BLUE.filled()));
    chart.draw_series(dots)?;
    Ok(())
}
