//! The results of a run: goodput, fairness, stalls and losses.

use std::time::Duration;

use roce::engine::Time;

use crate::endpoint::Endpoint;
use crate::simulation::Simulation;

/// The results of a run, of its programs together.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Bits of completed messages per second.
    pub goodput: f64,
    /// Jain's index of the programs' goodput: 1 if all have the same, 1/n if one of n has all.
    pub fairness: f64,
    /// The longest time in which one of the programs had no completion.
    pub longest_stall: Duration,
    /// Packets sent for each that would have been enough.
    pub overhead: f64,
    /// Packets that the switch has dropped, or lost at random, of those that reached it.
    pub dropped: f64,
    /// Programs whose queue pair has failed.
    pub failed: usize,
}

impl Report {
    /// The results between two times. All programs have begun before.
    pub fn of(simulation: &Simulation, from: Time, to: Time) -> Report {
        let period = to.since(from).as_secs_f64();
        let programs = || {
            simulation
                .endpoints()
                .iter()
                .filter(|end| end.program.is_some())
        };
        let bits: Vec<f64> = programs().map(|end| 8.0 * bytes(end, from, to)).collect();
        let sum: f64 = bits.iter().sum();
        let squares: f64 = bits.iter().map(|bits| bits * bits).sum();
        let stall = programs().map(|end| longest_stall(end, from, to)).max();
        let sent: u64 = programs().map(|end| end.qp.counters().sent_pkts).sum();
        let needed: f64 = programs().map(needed_packets).sum();
        Report {
            goodput: sum / period,
            fairness: match squares {
                0.0 => 1.0,
                _ => sum * sum / (squares * bits.len() as f64),
            },
            longest_stall: stall.unwrap_or_default(),
            overhead: sent as f64 / needed.max(1.0),
            dropped: dropped(simulation),
            failed: programs().filter(|end| end.progress.failed).count(),
        }
    }
}

fn bytes(end: &Endpoint, from: Time, to: Time) -> f64 {
    let within = |at: &&Time| **at > from && **at <= to;
    let messages = end.progress.completed.iter().filter(within).count();
    let message = end.program.map_or(0, |program| program.message);
    messages as f64 * f64::from(message)
}

fn longest_stall(end: &Endpoint, from: Time, to: Time) -> Duration {
    let within = |at: &&Time| **at > from && **at <= to;
    let mut last = from;
    let mut longest = Duration::ZERO;
    for at in end.progress.completed.iter().filter(within).chain([&to]) {
        longest = longest.max(at.since(last));
        last = *at;
    }
    longest
}

/// The packets of the messages that have completed.
fn needed_packets(end: &Endpoint) -> f64 {
    let mtu = end.qp.attributes().path_mtu.unwrap_or(1024);
    let message = end.program.map_or(1, |program| program.message);
    end.progress.completed.len() as f64 * f64::from(message.div_ceil(mtu))
}

fn dropped(simulation: &Simulation) -> f64 {
    let ports = simulation.downlinks();
    let (dropped, passed) = ports.fold((0, 0), |(dropped, passed), port| {
        (dropped + port.dropped, passed + port.passed.0)
    });
    let gone = dropped + simulation.lost;
    gone as f64 / (gone + passed).max(1) as f64
}
