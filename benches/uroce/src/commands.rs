//! The command lines of the peers in an environment.

use crate::environment::Environment;
use crate::peer::{Device, Metric, PEERS, Peer, Tool};

/// The peers that run in an environment.
pub fn peers(environment: &Environment) -> impl Iterator<Item = &'static Peer> {
    let (on_one, uroce) = (environment.on_one_host(), environment.is_uroce());
    PEERS.iter().filter(move |peer| {
        let is_path = matches!(peer.device, Device::Udp | Device::Packets);
        let is_uroces = is_path || matches!(peer.tool, Tool::Many(_));
        // Between hosts there is one path.
        (on_one || !(peer.one_host || is_path)) && (uroce || !is_uroces)
    })
}

impl Peer {
    /// The command lines of the server and of the client, for messages of `size` bytes.
    pub fn commands(
        &self,
        environment: &Environment,
        size: usize,
        port: u16,
    ) -> (Vec<String>, Vec<String>) {
        let count = match self.tool {
            // A multiple of 32, which perftest requires of posts of 32.
            Tool::Perftest(_) => self.metric.count(size).next_multiple_of(32),
            // It sleeps between messages, for milliseconds if the machine is busy.
            Tool::Fabric(_) => self.metric.count(size).min(200),
            _ => self.metric.count(size),
        };
        let address = environment.server_address();
        let line = match self.tool {
            Tool::Perftest(line) => {
                let gid = environment.gid_index();
                let size = if line.contains("atomic") {
                    String::new()
                } else {
                    format!("-s {size}")
                };
                let on = |server| {
                    let device = environment.device(server);
                    format!("{line} -F -d {device} -x {gid} -p {port} {size} -n {count}")
                };
                (on(true), format!("{} {address}", on(false)))
            }
            Tool::Ucx { test, .. } => {
                let warm_up = count / 10;
                let line = format!("ucx_perftest -f -p {port}");
                let client =
                    format!("{line} -t {test} -s {size} -n {count} -w {warm_up} {address}");
                (line, client)
            }
            Tool::Fabric(provider) => {
                let line = format!("fi_pingpong -p {provider} -e rdm");
                let client = format!("{line} -P {port} -I {count} -S {size} {address}");
                (format!("{line} -B {port}"), client)
            }
            Tool::Sockets(measure) => {
                let line = format!("{} bare {measure} {size} {count}", own());
                let at = format!("--address {address} --port {port}");
                (format!("{line} {at} --server"), format!("{line} {at}"))
            }
            Tool::Many(processes) => {
                let device = environment.device(false);
                (
                    String::new(),
                    format!("uroce-many {device} {processes} {count}"),
                )
            }
            Tool::Memory(measure) => (
                String::new(),
                format!("{} bare {measure} {size} {count}", own()),
            ),
        };
        let words = |line: String| line.split_whitespace().map(String::from).collect();
        (words(line.0), words(line.1))
    }

    /// The figure in the client's output.
    pub fn figure(&self, output: &str) -> Option<f64> {
        let fields = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let words = match self.tool {
                // The time of a transfer, in front of the rate; "1k" and the like in front of it.
                Tool::Fabric(_) => words.get(words.len().checked_sub(2)?..)?,
                _ => &words[..],
            };
            words
                .iter()
                .map(|word| word.parse().ok())
                .collect::<Option<Vec<f64>>>()
        };
        let row = output
            .lines()
            .rev()
            .find_map(|line| fields(line).filter(|row| !row.is_empty()))?;
        let column = match (self.tool, self.metric) {
            // #bytes #iterations t_min t_max t_typical
            (Tool::Perftest(_), Metric::Latency) => 4,
            // #bytes #iterations peak average rate
            (Tool::Perftest(_), Metric::Bandwidth) => 3,
            (Tool::Perftest(_), Metric::Rate) => 4,
            // iterations, median, average and overall latency, average and overall bandwidth, rates
            (Tool::Ucx { .. }, Metric::Latency) => 1,
            (Tool::Ucx { .. }, Metric::Bandwidth) => 5,
            (Tool::Ucx { .. }, Metric::Rate) => 7,
            (Tool::Fabric(_) | Tool::Sockets(_) | Tool::Memory(_) | Tool::Many(_), _) => 0,
        };
        let value = *row.get(column)?;
        Some(match (self.tool, self.metric) {
            (Tool::Ucx { .. }, Metric::Rate) => value / 1e6,
            _ => value,
        })
    }
}

fn own() -> String {
    let path = std::env::current_exe();
    path.map_or_else(
        |_| "uroce-bench".into(),
        |path| path.to_string_lossy().into_owned(),
    )
}
