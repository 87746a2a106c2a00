//! The programs that are compared: each sends messages of one size from one process to another, and
//! prints a latency or a bandwidth.

/// The figure that a peer measures, with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Half a round trip for sends and writes, a whole one for reads and atomics, in microseconds.
    Latency,
    /// The bandwidth in MiB/s.
    Bandwidth,
    /// The rate in millions of messages per second.
    Rate,
}

impl Metric {
    pub fn unit(self) -> &'static str {
        match self {
            Metric::Latency => "us",
            Metric::Bandwidth => "MiB/s",
            Metric::Rate => "million/s",
        }
    }

    /// The metric's name in stored results.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Latency => "latency",
            Metric::Bandwidth => "bandwidth",
            Metric::Rate => "rate",
        }
    }

    /// Messages of this size per run: enough for a median, few enough for a tenth of a second.
    pub fn count(self, size: usize) -> usize {
        let (bytes, most) = match self {
            Metric::Latency => (64 << 20, 5000),
            Metric::Bandwidth => (512 << 20, 20_000),
            // Fewer take less time than the start of the programs, and vary by a factor of three.
            Metric::Rate => (512 << 20, 500_000),
        };
        (bytes / size.max(1)).clamp(20, most)
    }
}

/// The path of uroce's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// The device of the environment: uroce, through shared memory where both ends are on one host.
    Default,
    /// uroce without direct access: the target's CPU does its part.
    Packets,
    /// uroce by UDP only.
    Udp,
    /// No RDMA device.
    None,
}

/// The program that runs on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// A program of perftest with arguments.
    Perftest(&'static str),
    /// A test of ucx_perftest, over the transports of `UCX_TLS`.
    Ucx {
        test: &'static str,
        transports: &'static str,
    },
    /// fi_pingpong over this provider of libfabric.
    Fabric(&'static str),
    /// A measure of `bare`, between two processes.
    Sockets(&'static str),
    /// A measure of `bare` that starts both sides itself.
    Memory(&'static str),
    /// `many.c`, which `run` has built: a process that is connected to this number of others.
    Many(usize),
}

/// One row of a table.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub name: &'static str,
    pub metric: Metric,
    pub device: Device,
    pub tool: Tool,
    /// The largest message in bytes.
    pub largest: usize,
    /// The peer runs only where both processes are in one network namespace.
    pub one_host: bool,
}

const FETCH_AND_ADD: &str = "ib_atomic_lat -A FETCH_AND_ADD";
const ANY: usize = usize::MAX;
/// The largest datagram of the port: its MTU.
const DATAGRAM: usize = 4096;
/// The largest datagram of UDP, to a multiple of 4096.
const UDP: usize = 61_440;

const fn perftest(name: &'static str, metric: Metric, device: Device, line: &'static str) -> Peer {
    Peer {
        name,
        metric,
        device,
        tool: Tool::Perftest(line),
        largest: ANY,
        one_host: false,
    }
}

const fn many(name: &'static str, processes: usize) -> Peer {
    Peer {
        name,
        metric: Metric::Latency,
        device: Device::Default,
        tool: Tool::Many(processes),
        largest: 8,
        one_host: true,
    }
}

const fn ucx(
    name: &'static str,
    metric: Metric,
    device: Device,
    transports: &'static str,
    one_host: bool,
) -> Peer {
    let test = match metric {
        Metric::Latency => "tag_lat",
        Metric::Bandwidth | Metric::Rate => "tag_bw",
    };
    Peer {
        name,
        metric,
        device,
        tool: Tool::Ucx { test, transports },
        largest: ANY,
        one_host,
    }
}

const fn without_device(
    name: &'static str,
    metric: Metric,
    tool: Tool,
    largest: usize,
    one_host: bool,
) -> Peer {
    Peer {
        name,
        metric,
        device: Device::None,
        tool,
        largest,
        one_host,
    }
}

use Device::{Default, None, Packets, Udp as ByUdp};
use Metric::{Bandwidth, Latency, Rate};
use Tool::{Fabric, Memory, Sockets};

/// The peers of the tables, in their order there.
#[rustfmt::skip]
pub const PEERS: [Peer; 39] = [
    perftest("send, RC", Latency, Default, "ib_send_lat"),
    perftest("send, RC, by UDP", Latency, ByUdp, "ib_send_lat"),
    Peer { largest: DATAGRAM, ..perftest("send, UD", Latency, Default, "ib_send_lat -c UD") },
    perftest("send, RC, both ends sleep", Latency, Default, "ib_send_lat -e"),
    many("send, RC, to 1 that sleeps", 1),
    many("send, RC, to one of 100", 100),
    perftest("write, RC", Latency, Default, "ib_write_lat"),
    perftest("write, RC, by packets", Latency, Packets, "ib_write_lat"),
    perftest("read, RC (round trip)", Latency, Default, "ib_read_lat"),
    Peer { largest: 8, ..perftest("fetch and add (round trip)", Latency, Default, FETCH_AND_ADD) },
    ucx("UCX over uroce", Latency, Default, "rc_v,ud_v", false),
    ucx("UCX, posix", Latency, None, "posix", true),
    ucx("UCX, posix and cma", Latency, None, "posix,cma", true),
    ucx("UCX, tcp", Latency, None, "tcp", false),
    without_device("libfabric, shm", Latency, Fabric("shm"), ANY, true),
    without_device("bare ring, two copies", Latency, Memory("ring"), ANY, true),
    without_device("bare process_vm_writev", Latency, Memory("process-vm"), ANY, true),
    without_device("bare UDP", Latency, Sockets("udp"), UDP, false),
    without_device("bare TCP", Latency, Sockets("tcp"), ANY, false),

    perftest("send, RC", Bandwidth, Default, "ib_send_bw"),
    perftest("send, RC, by UDP", Bandwidth, ByUdp, "ib_send_bw"),
    Peer { largest: DATAGRAM, ..perftest("send, UD", Bandwidth, Default, "ib_send_bw -c UD") },
    perftest("send, RC, by packets", Bandwidth, Packets, "ib_send_bw"),
    perftest("write, RC", Bandwidth, Default, "ib_write_bw"),
    perftest("write, RC, by packets", Bandwidth, Packets, "ib_write_bw"),
    perftest("read, RC", Bandwidth, Default, "ib_read_bw"),
    ucx("UCX over uroce", Bandwidth, Default, "rc_v,ud_v", false),
    ucx("UCX, posix", Bandwidth, None, "posix", true),
    ucx("UCX, posix and cma", Bandwidth, None, "posix,cma", true),
    ucx("UCX, tcp", Bandwidth, None, "tcp", false),
    without_device("memcpy", Bandwidth, Memory("memcpy"), ANY, true),
    without_device("bare UDP", Bandwidth, Sockets("udp-stream"), UDP, false),
    without_device("bare TCP", Bandwidth, Sockets("tcp-stream"), ANY, false),

    Peer { largest: 8, ..perftest("send, RC, posts of 32", Rate, Default, "ib_send_bw -l 32") },
    Peer { largest: 8, ..perftest("send, RC, posts of 32, by UDP", Rate, ByUdp, "ib_send_bw -l 32") },
    Peer { largest: 8, ..perftest("write, RC, posts of 32", Rate, Default, "ib_write_bw -l 32") },
    Peer { largest: 8, ..ucx("UCX over uroce", Rate, Default, "rc_v,ud_v", false) },
    Peer { largest: 8, ..ucx("UCX, posix", Rate, None, "posix", true) },
    Peer { largest: 8, ..ucx("UCX, tcp", Rate, None, "tcp", false) },
];
