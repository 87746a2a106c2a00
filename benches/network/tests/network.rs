//! Queue pairs of the engine in networks of all sizes.

use std::time::Duration;

use uroce::engine::Time;
use uroce_network::endpoint::{Connection, Operation, Program};
use uroce_network::port::{Line, Red};
use uroce_network::report::Report;
use uroce_network::simulation::{Network, Simulation};

const GIGABIT: u64 = 1_000_000_000;

const CONNECTION: Connection = Connection {
    mtu: 1024,
    timeout: 14,
    retry_cnt: 7,
    max_rd_atomic: 4,
};

const WRITES: Program = Program {
    operation: Operation::Write,
    message: 16 << 10,
    depth: 16,
    start: Time(0),
    count: u64::MAX,
};

fn ms(milliseconds: u64) -> Time {
    Time(milliseconds * 1_000_000)
}

fn network(rate: u64, queue: u64, delay: Duration, loss: f64) -> Network {
    let downlink = Line {
        rate,
        queue,
        red: None,
    };
    let uplink = Line {
        queue: u64::MAX,
        ..downlink
    };
    Network {
        uplink,
        downlink,
        delay,
        jitter: Duration::from_micros(2),
        loss,
    }
}

/// Senders into one host, each from a host of its own, for that many milliseconds.
fn incast(network: Network, senders: usize, program: Program, until: u64, seed: u64) -> Simulation {
    let mut simulation = Simulation::new(network, senders + 1, seed);
    for sender in 1..=senders {
        simulation.connect((sender, 0), &CONNECTION, program);
    }
    simulation.run_until(ms(until));
    simulation
}

/// One sender fills the line: 1024 bytes of payload in 1024 + 16 + 66 + 4 bytes and more.
#[test]
fn a_line_is_filled() {
    for operation in [Operation::Write, Operation::Read] {
        let network = network(10 * GIGABIT, 1 << 20, Duration::from_micros(10), 0.0);
        let program = Program {
            operation,
            ..WRITES
        };
        let simulation = incast(network, 1, program, 40, 1);
        let report = Report::of(&simulation, ms(10), ms(40));
        let share = report.goodput / 1e10;
        assert!((0.9..0.94).contains(&share), "{operation:?}: {report:?}");
        assert_eq!((report.dropped, report.failed), (0.0, 0));
        assert!(report.overhead < 1.1, "{report:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let run = |seed| {
        let network = network(GIGABIT, 64 << 10, Duration::from_micros(50), 0.01);
        incast(network, 8, WRITES, 50, seed).fingerprint()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// All data arrives, whatever is lost.
#[test]
fn every_message_completes_in_spite_of_loss() {
    for (seed, loss) in [(1, 1e-4), (2, 0.01), (3, 0.1)] {
        let network = network(GIGABIT, 64 << 10, Duration::from_micros(20), loss);
        let program = Program {
            count: 200,
            ..WRITES
        };
        let simulation = incast(network, 4, program, 60_000, seed);
        let report = Report::of(&simulation, Time(0), ms(60_000));
        assert_eq!(report.failed, 0, "{loss}: {report:?}");
        for end in simulation
            .endpoints()
            .iter()
            .filter(|end| end.program.is_some())
        {
            assert_eq!(end.progress.completed.len(), 200, "{loss}");
            assert_eq!(end.qp.send_depth(), 0);
        }
    }
}

#[test]
fn senders_share_a_line() {
    let network = network(10 * GIGABIT, 512 << 10, Duration::from_micros(10), 0.0);
    let simulation = incast(network, 8, WRITES, 100, 5);
    let report = Report::of(&simulation, ms(20), ms(100));
    assert!(report.goodput > 0.7e10, "{report:?}");
    assert!(report.fairness > 0.6, "{report:?}");
}

/// RED keeps the queue shorter than a queue that drops at its tail.
#[test]
fn red_keeps_queues_short() {
    let longest = |red| {
        let mut network = network(10 * GIGABIT, 512 << 10, Duration::from_micros(10), 0.0);
        network.downlink.red = red;
        let simulation = incast(network, 8, WRITES, 30, 5);
        simulation.downlink(0).longest
    };
    let red = Red {
        min: 50_000,
        max: 200_000,
        probability: 0.1,
    };
    assert!(longest(Some(red)) <= 200_000 + 1200);
    assert!(longest(None) > 400_000);
}

/// Queue pairs that have lost all of their first packets get through soon, although all of them retransmit:
/// the queue has room for 85 packets, and each sender has two at least in flight.
#[test]
fn nobody_starves() {
    let network = network(GIGABIT, 96 << 10, Duration::from_micros(10), 0.0);
    let program = Program {
        message: 4 << 10,
        ..WRITES
    };
    let simulation = incast(network, 40, program, 400, 1);
    let progress = simulation
        .endpoints()
        .iter()
        .filter(|end| end.program.is_some());
    let least = progress.map(|end| end.progress.completed.len()).min();
    assert!(least > Some(20), "{least:?}");
}

/// The round trip is longer than the first RTO: it is spurious, but most of the later ones are not.
#[test]
fn a_long_path_is_not_sent_twice() {
    let mut network = network(GIGABIT, 4 << 20, Duration::from_millis(30), 0.0);
    network.jitter = Duration::ZERO;
    let program = Program {
        depth: 128,
        ..WRITES
    };
    let simulation = incast(network, 1, program, 1500, 1);
    let report = Report::of(&simulation, ms(1000), ms(1500));
    // As many as are sent as long as each RTO is spurious.
    assert!(report.overhead < 1.3, "{report:?}");
    assert!(report.goodput > 5e6, "{report:?}");
}

#[test]
fn a_thousand_hosts() {
    let network = network(10 * GIGABIT, 4 << 20, Duration::from_micros(10), 0.0);
    let program = Program { depth: 1, ..WRITES };
    let mut simulation = Simulation::new(network, 1000, 9);
    // Each host writes to the next one.
    for host in 0..1000 {
        simulation.connect((host, (host + 1) % 1000), &CONNECTION, program);
    }
    simulation.run_until(Time(1_500_000));
    let report = Report::of(&simulation, Time(500_000), Time(1_500_000));
    assert!(
        report.goodput > 1e12 && report.fairness > 0.99,
        "{report:?}"
    );
}

/// A connection outlives an outage, and goes on at its rate soon.
#[test]
fn an_outage_is_survived() {
    let network = network(GIGABIT, 256 << 10, Duration::from_micros(20), 0.0);
    let mut simulation = Simulation::new(network, 2, 1);
    simulation.outage = Some((ms(50), ms(60)));
    simulation.connect((1, 0), &CONNECTION, WRITES);
    simulation.run_until(ms(150));
    let before = Report::of(&simulation, ms(10), ms(50));
    let after = Report::of(&simulation, ms(120), ms(150));
    assert!(
        after.goodput > 0.95 * before.goodput,
        "{before:?} {after:?}"
    );
    let whole = Report::of(&simulation, ms(10), ms(150));
    let stall = whole.longest_stall;
    assert!((10..100).contains(&(stall.as_millis() as u64)), "{stall:?}");
}
