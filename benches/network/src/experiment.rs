//! The experiments: networks and programs, and over what they are varied.

use std::time::Duration;

use roce::engine::Time;
use uroce_network::endpoint::{Connection, Operation, Program};
use uroce_network::port::{Line, Red};
use uroce_network::report::Report;
use uroce_network::simulation::{Network, Simulation};

/// The divisor of the simulated times.
#[derive(Clone, Copy)]
pub struct Scale(pub u64);

/// A run.
pub struct Point {
    /// The point's position on the axis.
    pub x: f64,
    /// The label of this point in the table, such as a number of senders.
    pub name: String,
    pub report: Report,
}

/// Runs that differ in one value.
pub struct Experiment {
    /// The file of the plot.
    pub file: &'static str,
    pub title: &'static str,
    /// The values that all points of the experiment share.
    pub setting: &'static str,
    /// The value that differs from point to point.
    pub across: &'static str,
    pub points: Vec<Point>,
}

const CONNECTION: Connection = Connection {
    mtu: 1024,
    timeout: 18,
    retry_cnt: 7,
    max_rd_atomic: 16,
    keeps_early: true,
};

const WRITES: Program = Program {
    operation: Operation::Write,
    message: 16 << 10,
    depth: 32,
    start: Time(0),
    count: u64::MAX,
};

/// 10 Gb/s, and what a cheap switch has for a port.
const LINE: Line = Line {
    rate: 10_000_000_000,
    queue: 512 << 10,
    red: None,
    mark: None,
};

const NETWORK: Network = Network {
    uplink: Line {
        queue: u64::MAX,
        ..LINE
    },
    downlink: LINE,
    delay: Duration::from_micros(10),
    jitter: Duration::from_micros(2),
    loss: 0.0,
};

/// Runs an experiment.
pub type Run = fn(Scale) -> Experiment;

/// All experiments, by the names of their files without `.svg`.
pub const ALL: [(&str, Run); 8] = [
    ("incast", incast),
    ("red", early),
    ("ecn", marked),
    ("loss", loss),
    ("delay", delay),
    ("outage", outage),
    ("nics", nics),
    ("mtu", mtu),
];

/// Senders on hosts of their own into one host. The first fifth of the time is not counted.
fn run(network: Network, senders: usize, program: Program, millis: u64, scale: Scale) -> Report {
    let mut simulation = Simulation::new(network, senders + 1, 1);
    for sender in 1..=senders {
        simulation.connect((sender, 0), &CONNECTION, program);
    }
    let end = Time(millis * 1_000_000 / scale.0);
    simulation.run_until(end);
    Report::of(&simulation, Time(end.0 / 5), end)
}

/// Runs the network with 1 to 1000 senders: a point for each number.
fn by_senders(network: Network, scale: Scale) -> Vec<Point> {
    let senders = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
    let points = senders.map(|senders| Point {
        x: senders as f64,
        name: senders.to_string(),
        report: run(network, senders, WRITES, 500, scale),
    });
    points.into()
}

/// A switch that drops packets before its queue is full.
fn early(scale: Scale) -> Experiment {
    let mut network = NETWORK;
    network.downlink.red = Some(Red {
        min: 64 << 10,
        max: 256 << 10,
        probability: 0.1,
    });
    Experiment {
        file: "red.svg",
        title: "Senders into one receiver, with RED",
        setting: "As before, but the switch drops packets at random while 64 KiB or more wait: up to 10 % at \
                  256 KiB, and all beyond.",
        across: "senders",
        points: by_senders(network, scale),
    }
}

/// A switch that marks packets before it has to drop them.
fn marked(scale: Scale) -> Experiment {
    let mut network = NETWORK;
    network.downlink.mark = Some(64 << 10);
    Experiment {
        file: "ecn.svg",
        title: "Senders into one receiver, with ECN",
        setting: "As before, but the switch marks packets while 64 KiB or more wait.",
        across: "senders",
        points: by_senders(network, scale),
    }
}

/// Two nodes with as many NICs each, as with collectives that do not keep to rails.
fn nics(scale: Scale) -> Experiment {
    let points = [1, 2, 4, 8].map(|nics| {
        let mut simulation = Simulation::new(NETWORK, 2 * nics, 1);
        for (from, to) in (0..nics * nics).map(|pair| (pair / nics, pair % nics)) {
            simulation.connect((nics + from, to), &CONNECTION, WRITES);
        }
        let end = Time(500_000_000 / scale.0);
        simulation.run_until(end);
        Point {
            x: nics as f64,
            name: nics.to_string(),
            report: Report::of(&simulation, Time(end.0 / 5), end),
        }
    });
    Experiment {
        file: "nics.svg",
        title: "A node with several NICs",
        setting: "Each NIC of a node writes to each NIC of another node; a line of 10 Gb/s for each NIC.",
        across: "NICs",
        points: points.into(),
    }
}

/// One sender with each path MTU: the cost of smaller packets on the line.
fn mtu(scale: Scale) -> Experiment {
    let points = [256, 512, 1024, 2048, 4096].map(|mtu| {
        let connection = Connection { mtu, ..CONNECTION };
        let mut simulation = Simulation::new(NETWORK, 2, 1);
        simulation.connect((1, 0), &connection, WRITES);
        let end = Time(500_000_000 / scale.0);
        simulation.run_until(end);
        Point {
            x: mtu.into(),
            name: mtu.to_string(),
            report: Report::of(&simulation, Time(end.0 / 5), end),
        }
    });
    Experiment {
        file: "mtu.svg",
        title: "Path MTU",
        setting: "One sender, 10 Gb/s, 10 us.",
        across: "MTU",
        points: points.into(),
    }
}

fn incast(scale: Scale) -> Experiment {
    Experiment {
        file: "incast.svg",
        title: "Senders into one receiver",
        setting: "10 Gb/s lines, 10 us from host to host, 512 KiB for the port of the receiver; each sender \
                  has 32 WRITEs of 16 KiB outstanding; MTU 1024.",
        across: "senders",
        points: by_senders(NETWORK, scale),
    }
}

fn loss(scale: Scale) -> Experiment {
    let losses = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2, 1e-1];
    let points = losses.map(|loss| {
        let network = Network { loss, ..NETWORK };
        Point {
            x: loss,
            name: format!("{loss:e}"),
            report: run(network, 1, WRITES, 2000, scale),
        }
    });
    Experiment {
        file: "loss.svg",
        title: "Random loss",
        setting: "One sender, 10 Gb/s, 10 us; each packet is lost with this probability.",
        across: "loss",
        points: points.into(),
    }
}

fn delay(scale: Scale) -> Experiment {
    let delays = [2, 10, 50, 200, 1000, 5000, 20_000, 100_000];
    let points = delays.map(|micros| {
        let network = Network {
            delay: Duration::from_micros(micros),
            ..NETWORK
        };
        let program = Program {
            depth: 256,
            ..WRITES
        };
        Point {
            x: micros as f64,
            name: format!("{micros} us"),
            report: run(network, 1, program, 500 + micros / 20, scale),
        }
    });
    Experiment {
        file: "delay.svg",
        title: "Delay",
        setting: "One sender, 10 Gb/s, 256 WRITEs of 16 KiB outstanding; the delay is one way.",
        across: "delay",
        points: points.into(),
    }
}

/// The stall beyond the outage is the time of recovery.
fn outage(scale: Scale) -> Experiment {
    const OUTAGE: u64 = 1_000_000;
    let delays = [2, 10, 50, 200, 1000, 5000, 20_000];
    let points = delays.map(|micros| {
        let network = Network {
            delay: Duration::from_micros(micros),
            ..NETWORK
        };
        let end = Time(1_000_000_000 / scale.0 + micros * 100_000);
        let mut simulation = Simulation::new(network, 2, 1);
        let start = Time(end.0 / 2);
        simulation.outage = Some((start, Time(start.0 + OUTAGE)));
        simulation.connect((1, 0), &CONNECTION, WRITES);
        simulation.run_until(end);
        Point {
            x: micros as f64,
            name: format!("{micros} us"),
            report: Report::of(&simulation, Time(end.0 / 5), end),
        }
    });
    Experiment {
        file: "outage.svg",
        title: "Recovery from an outage",
        setting: "One sender; no packet passes for 1 ms. The longest stall includes that.",
        across: "delay",
        points: points.into(),
    }
}
