//! `uroce-bench`: latency, bandwidth and message rate of uroce beside UCX, libfabric, sockets and plain
//! memory. All peers of an environment take turns in each round; the table shows the medians of the rounds.
//! `uroce-bench draw` makes the pictures of stored results.
//!
//! To be run in a network namespace of its own (`run` beside this crate does it). It asserts no times.

mod aims;
mod bare;
mod commands;
mod draw;
mod environment;
mod figures;
mod pair;
mod peer;
mod round_trips;
mod shared;
mod store;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

use environment::{Environment, Kind};
use figures::Figures;
use peer::{Metric, Peer, Tool};

/// How often a line shows what runs, where there is no terminal.
const INTERVAL: Duration = Duration::from_secs(30);

#[derive(Parser)]
#[command(about = "Measures uroce beside UCX, libfabric, sockets and plain memory")]
struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    /// Where to measure
    #[arg(value_enum, default_values = ["loopback", "veth"])]
    places: Vec<Kind>,
    /// In how many rounds the peers take turns
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The sizes of messages in bytes
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "8,64,512,4096,16384,65536,262144,1048576,4194304"
    )]
    sizes: Vec<usize>,
    /// Only perftest on the devices, for an emulated machine
    #[arg(long)]
    devices_only: bool,
    /// Only peers whose name contains this, or one of these
    #[arg(long)]
    only: Vec<String>,
    /// The directory in which the figures are stored
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// One side of an exchange without RDMA; prints its figure
    #[command(hide = true)]
    Bare(bare::Bare),
    /// Draws the results that are stored in a directory
    Draw { results: PathBuf, out: PathBuf },
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.command {
        Some(Command::Bare(bare)) => bare.run().map_err(|error| error.to_string()),
        Some(Command::Draw { results, out }) => draw::all(results, out),
        None => options.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("uroce-bench: {why}");
            ExitCode::FAILURE
        }
    }
}

impl Options {
    fn run(&self) -> Result<(), String> {
        let libdir = environment::libdir()?;
        for &kind in &self.places {
            let environment = Environment::make(kind, &libdir)?;
            let peers: Vec<&Peer> = commands::peers(&environment)
                .filter(|peer| self.selects(peer))
                .collect();
            let figures = self.measure(&environment, &peers);
            println!("\n{}", kind.title());
            for metric in [Metric::Latency, Metric::Bandwidth, Metric::Rate] {
                if peers.iter().any(|peer| peer.metric == metric) {
                    println!("\n{}", figures.table(&peers, metric, &self.sizes));
                }
            }
            let aims = aims::table(&peers, &figures);
            if !aims.is_empty() {
                println!("\naims, as ratios of the best rounds of this run\n\n{aims}");
            }
            if let Some(out) = &self.out {
                let file = out.join(format!("{kind:?}.toml").to_lowercase());
                store::write(&file, &figures.rows(&peers))?;
                println!("stored: {}", file.display());
            }
        }
        Ok(())
    }

    fn selects(&self, peer: &Peer) -> bool {
        let device = matches!(peer.tool, Tool::Perftest(_)) && peer.device == peer::Device::Default;
        let named = self.only.is_empty() || self.only.iter().any(|name| peer.name.contains(name));
        named && (device || !self.devices_only)
    }

    /// Runs each peer with each size once a round. A peer that fails is not tried again.
    fn measure(&self, environment: &Environment, peers: &[&Peer]) -> Figures {
        let mut figures = Figures::default();
        let sizes = |peer: &Peer| {
            self.sizes
                .iter()
                .copied()
                .filter(|&size| size <= peer.largest)
                .count()
        };
        let total = self.rounds * peers.iter().map(|peer| sizes(peer)).sum::<usize>();
        let mut done = 0;
        let mut progress = Progress::default();
        for _ in 0..self.rounds {
            for &size in &self.sizes {
                for (row, peer) in peers.iter().enumerate() {
                    if size > peer.largest {
                        continue;
                    }
                    done += 1;
                    let size_text = figures::bytes(size);
                    progress.show(&format!("{done}/{total} {}, {size_text}", peer.name));
                    if !figures.has_failed(row) {
                        let port = 21_000 + (done % 4096) as u16;
                        figures.add(row, size, pair::run(peer, environment, size, port));
                    }
                }
            }
        }
        progress.clear();
        figures
    }
}

/// Shows on stderr what runs: always on a terminal, else a line every half minute.
#[derive(Default)]
struct Progress {
    shown: Option<Instant>,
}

impl Progress {
    fn show(&mut self, text: &str) {
        let mut stderr = std::io::stderr();
        if stderr.is_terminal() {
            let _ = write!(stderr, "\r\x1b[K{text}");
        } else if self.shown.is_none_or(|at| at.elapsed() >= INTERVAL) {
            let _ = writeln!(stderr, "{text}");
            self.shown = Some(Instant::now());
        }
    }

    fn clear(&self) {
        let mut stderr = std::io::stderr();
        if stderr.is_terminal() {
            let _ = write!(stderr, "\r\x1b[K");
        }
    }
}
