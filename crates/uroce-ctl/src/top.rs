//! `uroce-ctl top`: the queue pairs of all processes, the busiest first, with their rates since the last
//! update.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use clap::ArgMatches;
use serde_json::Value;

use crate::client::{Selected, ask};
use crate::print;
use crate::show::{each, peer, table};
use crate::text::plain;

/// Clears a terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";
/// The shortest time between two updates.
const MIN_INTERVAL: f64 = 0.1;

/// Process, device, queue pair number.
type Key = (u32, String, u64);

/// The counters of a queue pair: packets and bytes sent and received, retries, RNR NAKs.
#[derive(Clone, Copy, Default)]
struct Counts {
    sent_pkts: u64,
    rcvd_pkts: u64,
    sent_bytes: u64,
    rcvd_bytes: u64,
    retries: u64,
    rnr: u64,
}

impl Counts {
    fn of(qp: &Value) -> Counts {
        let count = |name: &str| qp["counters"][name].as_u64().unwrap_or(0);
        Counts {
            sent_pkts: count("sent_pkts"),
            rcvd_pkts: count("rcvd_pkts"),
            sent_bytes: count("sent_bytes"),
            rcvd_bytes: count("rcvd_bytes"),
            retries: count("completer_retry_err"),
            rnr: count("rcvd_rnr_err").saturating_add(count("send_rnr_err")),
        }
    }
}

/// A line of the table.
struct Line {
    key: Key,
    program: String,
    about: [String; 3],
    queues: [u64; 2],
    counts: Counts,
}

/// The queue pairs of all processes. Processes that end meanwhile are left out.
fn lines(selected: &Selected) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    let processes = selected.processes()?;
    let (infos, answers) = (ask(&processes, "info"), ask(&processes, "qps"));
    for ((process, info), answer) in processes.iter().zip(infos).zip(answers) {
        let (Ok(info), Ok(answer)) = (info, answer) else {
            continue;
        };
        for qp in each(&answer["qps"]) {
            let queue = |name: &str| qp["attributes"][name].as_u64().unwrap_or(0);
            let number = qp["qpn"].as_u64().unwrap_or(0);
            lines.push(Line {
                key: (process.pid, plain(&qp["device"]), number),
                program: plain(&info["program"]),
                about: [plain(&qp["type"]), plain(&qp["state"]), peer(qp)],
                queues: [queue("send_wqes"), queue("recv_wqes")],
                counts: Counts::of(qp),
            });
        }
    }
    Ok(lines)
}

/// The table, the busiest queue pairs first.
fn shown(mut lines: Vec<Line>, before: &HashMap<Key, Counts>, time: f64) -> String {
    // The first time a queue pair is seen, nothing is known of its rates.
    let since = |line: &Line| before.get(&line.key).copied().unwrap_or(line.counts);
    let moved = |line: &Line| {
        let since = since(line);
        let sent = line.counts.sent_bytes.saturating_sub(since.sent_bytes);
        sent.saturating_add(line.counts.rcvd_bytes.saturating_sub(since.rcvd_bytes))
    };
    lines.sort_by_key(|line| (std::cmp::Reverse(moved(line)), line.key.clone()));
    const HEAD: [&str; 15] = [
        "PID", "PROGRAM", "DEVICE", "QPN", "TYPE", "STATE", "PEER", "SENDQ", "RECVQ", "TX/s",
        "RX/s", "TX MB/s", "RX MB/s", "RETRY", "RNR",
    ];
    let mut rows = vec![HEAD.map(String::from).to_vec()];
    for line in &lines {
        let since = since(line);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / time;
        let counts = &line.counts;
        let [kind, state, peer] = line.about.clone();
        rows.push(vec![
            line.key.0.to_string(),
            line.program.clone(),
            line.key.1.clone(),
            format!("{:#x}", line.key.2),
            kind,
            state,
            peer,
            line.queues[0].to_string(),
            line.queues[1].to_string(),
            format!("{:.0}", rate(counts.sent_pkts, since.sent_pkts)),
            format!("{:.0}", rate(counts.rcvd_pkts, since.rcvd_pkts)),
            format!("{:.1}", rate(counts.sent_bytes, since.sent_bytes) / 1e6),
            format!("{:.1}", rate(counts.rcvd_bytes, since.rcvd_bytes) / 1e6),
            counts.retries.to_string(),
            counts.rnr.to_string(),
        ]);
    }
    table(&rows, &[0, 7, 8, 9, 10, 11, 12, 13, 14])
}

/// The lines of the terminal; None if standard output is none.
fn terminal_lines() -> Option<usize> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCGWINSZ writes a winsize, and `size` is one.
    let result = unsafe { libc::ioctl(1, libc::TIOCGWINSZ, &mut size) };
    (result == 0).then(|| usize::from(size.ws_row))
}

/// Shows the queue pairs until `--count` updates are done, or there is no process any more.
pub fn run(selected: &Selected, options: &ArgMatches) -> Result<(), String> {
    let interval = options.get_one::<f64>("interval").copied().unwrap_or(1.0);
    let interval = Duration::try_from_secs_f64(interval.max(MIN_INTERVAL))
        .map_err(|error| format!("--interval: {error}"))?;
    let mut left = options.get_one::<u64>("count").copied();
    let remembered = |lines: &[Line]| -> HashMap<Key, Counts> {
        let each = lines.iter().map(|line| (line.key.clone(), line.counts));
        each.collect()
    };
    let mut before = remembered(&lines(selected)?);
    let mut at = Instant::now();
    while left != Some(0) {
        std::thread::sleep(interval);
        let now = lines(selected)?;
        let next = remembered(&now);
        let text = shown(now, &before, at.elapsed().as_secs_f64());
        (before, at) = (next, Instant::now());
        match terminal_lines() {
            Some(rows) => {
                let visible = text.lines().take(rows.saturating_sub(1).max(1));
                print(&format!(
                    "{CLEAR}{}\n",
                    visible.collect::<Vec<_>>().join("\n")
                ))?;
            }
            None => print(&format!("{text}\n"))?,
        }
        left = left.map(|left| left - 1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(qpn: u64, sent_bytes: u64) -> Line {
        Line {
            key: (7, "uroce0".into(), qpn),
            program: "test".into(),
            about: ["RC".into(), "RTS".into(), "-".into()],
            queues: [1, 2],
            counts: Counts {
                sent_bytes,
                ..Counts::default()
            },
        }
    }

    #[test]
    fn the_busiest_is_first() {
        let before = HashMap::from([
            ((7, "uroce0".into(), 1), Counts::default()),
            ((7, "uroce0".into(), 2), Counts::default()),
        ]);
        let text = shown(
            vec![line(1, 1_000_000), line(2, 4_000_000), line(3, 9)],
            &before,
            2.0,
        );
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines[1][3..],
            [
                "0x2", "RC", "RTS", "-", "1", "2", "0", "0", "2.0", "0.0", "0", "0"
            ]
        );
        assert_eq!((lines[2][3], lines[3][3]), ("0x1", "0x3"));
        assert_eq!(lines[3][11], "0.0");
    }
}
