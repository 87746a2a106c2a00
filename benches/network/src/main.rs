//! `uroce-network [--quick] DIRECTORY [NAME...]` runs the experiments of docs/network.md, or those that are
//! named: prints their tables, and writes their plots as SVG files into the directory. With `--quick` each
//! runs for a tenth of the time.

mod experiment;
mod plot;

use std::path::PathBuf;
use std::process::ExitCode;

use experiment::{Experiment, Scale};

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_quick = arguments.first().is_some_and(|first| first == "--quick");
    if is_quick {
        arguments.remove(0);
    }
    let Some((directory, names)) = arguments.split_first() else {
        eprintln!("usage: uroce-network [--quick] DIRECTORY [NAME...]");
        return ExitCode::from(2);
    };
    let is_known = |name: &&String| experiment::ALL.iter().any(|(other, _)| other == name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        eprintln!("uroce-network: there is no experiment {unknown}");
        return ExitCode::from(2);
    }
    let scale = if is_quick { Scale(10) } else { Scale(1) };
    let directory = PathBuf::from(directory);
    for (name, run) in experiment::ALL {
        if !names.is_empty() && !names.iter().any(|other| other == name) {
            continue;
        }
        let experiment = run(scale);
        print!("{}", table(&experiment));
        if let Err(why) = plot::write(&directory, &experiment) {
            eprintln!("uroce-network: {why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The results as a table in Markdown.
fn table(experiment: &Experiment) -> String {
    let mut text = format!("\n## {}\n\n{}\n\n", experiment.title, experiment.setting);
    text += &format!(
        "| {} | goodput | fairness | longest stall",
        experiment.across
    );
    text += " | packets sent for one | dropped |\n|---|---|---|---|---|---|\n";
    for point in &experiment.points {
        let report = &point.report;
        let failed = match report.failed {
            0 => String::new(),
            failed => format!(" ({failed} failed)"),
        };
        text += &format!(
            "| {} | {:.3} Gb/s{failed} | {:.2} | {:.2} ms | {:.3} | {:.3} % |\n",
            point.name,
            report.goodput / 1e9,
            report.fairness,
            report.longest_stall.as_secs_f64() * 1e3,
            report.overhead,
            report.dropped * 100.0,
        );
    }
    text
}
