//! Latency and bandwidth over the size of messages, all peers in one picture.

use std::path::Path;

use plotters::prelude::*;

use crate::figures::{Figures, bytes};
use crate::peer::{Device, Metric, Peer};

const SIZE: (u32, u32) = (1500, 700);

/// Writes an SVG with both metrics side by side.
pub fn write(
    file: &Path,
    title: &str,
    peers: &[&Peer],
    figures: &Figures,
    sizes: &[usize],
) -> Result<(), String> {
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    let draw = || -> Result<(), Box<dyn std::error::Error>> {
        root.fill(&WHITE)?;
        let area = root.titled(title, ("sans-serif", 22))?;
        for (area, metric) in area
            .split_evenly((1, 2))
            .iter()
            .zip([Metric::Latency, Metric::Bandwidth])
        {
            chart(area, metric, peers, figures, sizes)?;
        }
        Ok(root.present()?)
    };
    draw().map_err(|why| format!("{}: {why}", file.display()))
}

fn chart<D: DrawingBackend>(
    area: &DrawingArea<D, plotters::coord::Shift>,
    metric: Metric,
    peers: &[&Peer],
    figures: &Figures,
    sizes: &[usize],
) -> Result<(), Box<dyn std::error::Error>>
where
    D::ErrorType: 'static,
{
    let curves: Vec<(&Peer, Vec<(f64, f64)>)> = peers
        .iter()
        .enumerate()
        .filter(|(_, peer)| peer.metric == metric)
        .map(|(row, peer)| {
            let at = |&size: &usize| Some(((size as f64).log2(), figures.median(row, size)?));
            (*peer, sizes.iter().filter_map(at).collect())
        })
        .filter(|(_, points): &(_, Vec<_>)| !points.is_empty())
        .collect();
    let values = || {
        curves
            .iter()
            .flat_map(|(_, points)| points)
            .map(|point| point.1)
    };
    let (low, high) = (
        values().fold(f64::MAX, f64::min),
        values().fold(0.0, f64::max),
    );
    if low > high {
        return Ok(());
    }
    let (Some(&first), Some(&last)) = (sizes.first(), sizes.last()) else {
        return Ok(());
    };
    let across = (first as f64).log2() - 0.5..(last as f64).log2() + 0.5;
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(across, (low / 2.0..high * 2.0).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("message size")
        .y_desc(match metric {
            Metric::Latency => "latency in us",
            _ => "bandwidth in MiB/s",
        })
        .x_labels(12)
        .x_label_formatter(&|power| bytes(power.exp2().round() as usize))
        .light_line_style(WHITE)
        .draw()?;
    for (peer, points) in &curves {
        let color = color(peer, peers);
        // The lines of peers on uroce are thicker.
        let width = if peer.device == Device::None { 1 } else { 3 };
        let style = color.stroke_width(width);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), style))?
            .label(peer.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        chart.draw_series(
            points
                .iter()
                .map(|&point| Circle::new(point, 3, color.filled())),
        )?;
    }
    let position = match metric {
        Metric::Latency => SeriesLabelPosition::UpperLeft,
        _ => SeriesLabelPosition::LowerRight,
    };
    chart
        .configure_series_labels()
        .position(position)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

/// The same for peers of one name in both charts.
fn color(peer: &Peer, peers: &[&Peer]) -> HSLColor {
    let mut names: Vec<&str> = peers.iter().map(|peer| peer.name).collect();
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    let index = names
        .iter()
        .position(|name| *name == peer.name)
        .unwrap_or(0);
    let lightness = if index % 2 == 0 { 0.4 } else { 0.6 };
    HSLColor(index as f64 / names.len() as f64, 0.8, lightness)
}
