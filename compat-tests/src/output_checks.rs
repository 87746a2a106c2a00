//! Checks of the output of programs that ended with 0: the bytes and exchanges that were requested,
//! a row of results per size, each other's address. So an empty or a wrong run does not pass.

mod rdmacm;

use regex_lite::Regex;

/// Lists what is wrong with the output of a program.
pub fn program(argv: &[String], out: &str, server: bool) -> Vec<String> {
    let program = argv
        .first()
        .map_or("", |path| path.rsplit('/').next().unwrap_or(path));
    if is_ibv_pingpong(program) {
        return pingpong(argv, out);
    }
    if is_perftest(program) {
        return if server {
            Vec::new()
        } else {
            perftest(argv, out)
        };
    }
    if let Some(wrong) = rdmacm::program(program, argv, out, server) {
        return wrong;
    }
    match program {
        "qperf" if !server => qperf(argv, out),
        "ucx_perftest" if !server => ucx_perftest(argv, out),
        "fi_pingpong" => fi_pingpong(argv, out),
        "fio" => fio(argv, out, server),
        "ibv_devinfo" => devinfo(argv, out),
        "ibv_devices" if !found(r"(?m)^\s+\S+\s+\t[0-9a-f]{16}$", out) => vec!["no device".into()],
        _ => Vec::new(),
    }
}

/// Requires of the lines of a row's checker that no message was wrong, and that as many as the option -C says
/// were right.
pub fn checked(argv: &[String], out: &str) -> Vec<String> {
    let mut wrong: Vec<String> = Vec::new();
    wrong.extend(
        out.lines()
            .find(|line| line.contains(": wrong at byte "))
            .map(String::from),
    );
    let right = out.lines().filter(|line| line.ends_with(": right")).count() as u64;
    let count = number(argv, &["-C"], 1);
    if right < count {
        wrong.push(format!(
            "the data of {right} messages, not of {count}, was checked"
        ));
    }
    wrong
}

fn is_ibv_pingpong(program: &str) -> bool {
    program.starts_with("ibv_") && program.ends_with("_pingpong")
}

fn is_perftest(program: &str) -> bool {
    program.starts_with("ib_") && (program.ends_with("_bw") || program.ends_with("_lat"))
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is one of this file's")
}

fn found(pattern: &str, text: &str) -> bool {
    regex(pattern).is_match(text)
}

/// The value of an option, given as `-s 64` or `--size=64`; the last one counts.
fn option<'a>(argv: &'a [String], names: &[&str]) -> Option<&'a str> {
    let mut value = None;
    for (i, word) in argv.iter().enumerate() {
        if names.contains(&word.as_str()) && i + 1 < argv.len() {
            value = Some(argv[i + 1].as_str());
        } else if let Some((_, given)) = word
            .split_once('=')
            .filter(|(name, _)| names.contains(name))
        {
            value = Some(given);
        }
    }
    value
}

fn number(argv: &[String], names: &[&str], default: u64) -> u64 {
    option(argv, names)
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

/// Requires the requested numbers of bytes and exchanges.
fn pingpong(argv: &[String], out: &str) -> Vec<String> {
    if argv[0].contains("xsrq") {
        return if found(r"(?m)^success$", out) {
            Vec::new()
        } else {
            vec!["no success".into()]
        };
    }
    let default = if argv[0].contains("_ud_") { 1024 } else { 4096 };
    let count = number(argv, &["-n"], 1000);
    let bytes = number(argv, &["-s"], default) * count * 2;
    let mut wrong = Vec::new();
    if !found(
        &format!(r"(?m)^{bytes} bytes in [\d.]+ seconds = [\d.]+ Mbit/sec$"),
        out,
    ) {
        wrong.push(format!("no line '{bytes} bytes in'"));
    }
    if !found(
        &format!(r"(?m)^{count} iters in [\d.]+ seconds = [\d.]+ usec/iter$"),
        out,
    ) {
        wrong.push(format!("no line '{count} iters in'"));
    }
    if out.contains("invalid data") {
        wrong.push("invalid data".into());
    }
    wrong
}

/// Requires a row of results for each size.
fn perftest(argv: &[String], out: &str) -> Vec<String> {
    let (latency, bandwidth) = (argv[0].contains("_lat"), argv[0].contains("_bw"));
    let default = match latency {
        _ if argv[0].contains("atomic") => 8,
        true => 2,
        false => 65536,
    };
    let mut sizes = vec![number(argv, &["-s", "--size"], default)];
    if argv.iter().any(|word| word == "-a") {
        sizes = (1..24).map(|bits| 1 << bits).collect();
        if option(argv, &["-c"]) == Some("UD") {
            let mtu = regex(r"Mtu\s*:\s*(\d+)")
                .captures(out)
                .and_then(|mtu| mtu[1].parse().ok());
            sizes.retain(|size| mtu.is_some_and(|mtu| *size <= mtu));
        }
    }
    let rows = rows(out);
    let seen: Vec<u64> = rows.iter().map(|(size, _)| *size).collect();
    let mut wrong = Vec::new();
    if seen != sizes {
        wrong.push(format!("results for the sizes {seen:?}, not {sizes:?}"));
    }
    for (size, values) in &rows {
        let [first, second] = [0, 1].map(|i| values.get(i).copied().unwrap_or(0.0));
        if latency && !(0.0 < first && first <= second) {
            wrong.push(format!("odd latencies for {size}: {values:?}"));
        } else if bandwidth && size * rows.len() as u64 > 4096 && second <= 0.0 {
            wrong.push(format!("no bandwidth for {size}: {values:?}"));
        }
    }
    wrong
}

/// Whether perftest could not calibrate its clock, so that its figures mean nothing.
pub fn is_uncalibrated(err: &str) -> bool {
    found(r"(?m)^Correlation coefficient r\^2: \S+ < 0\.9$", err)
}

/// perftest's results: size, count (left out), values.
fn rows(out: &str) -> Vec<(u64, Vec<f64>)> {
    let row = regex(r"(?m)^ *(\d+)[ \t]+(\d+)[ \t]+([\d.]+(?:[ \t]+[\d.]+)*)[ \t]*$");
    let parse = |found: regex_lite::Captures| {
        let values = found[3]
            .split_whitespace()
            .filter_map(|value| value.parse().ok())
            .collect();
        Some((found[1].parse().ok()?, values))
    };
    row.captures_iter(out).filter_map(parse).collect()
}

/// Requires the result of the requested number of messages. c/ucx/transfers.c checks the data of each
/// interface.
fn ucx_perftest(argv: &[String], out: &str) -> Vec<String> {
    let count = number(argv, &["-n"], 1_000_000);
    if found(&format!(r"(?m)^Final: +{count} "), out) {
        return Vec::new();
    }
    vec![format!("no result of {count} messages")]
}

/// Requires that all messages of the largest size were acknowledged: 1 MiB, if no size was requested.
fn fi_pingpong(argv: &[String], out: &str) -> Vec<String> {
    let count = number(argv, &["-I"], 10);
    let size = match number(argv, &["-S"], 1 << 20) {
        1024 => "1k",
        1_048_576 => "1m",
        _ => return vec!["a size that this check does not know".into()],
    };
    if found(&format!(r"(?m)^{size} +{count} +={count} "), out) {
        return Vec::new();
    }
    vec![format!("no {count} messages of {size}")]
}

/// Requires that the job ended without an error, and that the client has transferred all.
fn fio(argv: &[String], out: &str, server: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    if !found(r"(?m): err= 0: pid=\d+", out) {
        wrong.push("the job has an error".into());
    }
    let mib = option(argv, &["--size"])
        .and_then(|size| size.strip_suffix('m')?.parse::<u64>().ok())
        .unwrap_or(0);
    let transferred = format!(r"\bio=({}KiB|{mib}\.0MiB)", mib * 1024);
    if !server && !found(&transferred, out) {
        wrong.push(format!("not {mib} MiB transferred"));
    }
    wrong
}

/// Requires a value other than 0 for each test.
fn qperf(argv: &[String], out: &str) -> Vec<String> {
    if argv
        .last()
        .is_some_and(|last| ["quit", "conf"].contains(&last.as_str()))
    {
        return Vec::new();
    }
    let value =
        regex(r"(?m)^\s+(?:bw|latency|msg_rate|send_bw|recv_bw|msgs\w*)\s+=\s+([\d.]+) (\S+)");
    let values: Vec<f64> = value
        .captures_iter(out)
        .map(|found| found[1].parse().unwrap_or(0.0))
        .collect();
    if values.is_empty() || values.iter().any(|value| *value <= 0.0) {
        return vec![format!("no result: {:?}", out.trim())];
    }
    Vec::new()
}

fn devinfo(argv: &[String], out: &str) -> Vec<String> {
    let has = |word: &str| argv.iter().any(|argument| argument == word);
    let mut wrong = Vec::new();
    if has("-l") {
        if !found(r"(?m)^[1-9]\d* HCAs? found:$", out) || !found(r"(?m)^\t\S+$", out) {
            wrong.push("no device".into());
        }
        return wrong;
    }
    if !out.contains("state:\t\t\tPORT_ACTIVE (4)") || !out.contains("link_layer:\t\tEthernet") {
        wrong.push("no active Ethernet port".into());
    }
    if let Some(device) = option(argv, &["-d"]) {
        if !out.contains(&format!("hca_id:\t{device}\n")) {
            wrong.push(format!("nothing about {device}"));
        }
    }
    if has("-v") && !found(r"(?m)GID\[\s*\d+\]:.*, RoCE v2$", out) {
        wrong.push("no RoCEv2 GID".into());
    }
    wrong
}

/// Requires that each of two ping-pong programs reports the other's address.
pub fn addresses(server: &str, client: &str) -> Vec<String> {
    let reported = |out: &str, whose: &str| {
        let line = regex(&format!(r"(?m)^ *{whose} address: *(.*)$"));
        let separator = regex("[:,] GID");
        let mut lines: Vec<String> = line
            .captures_iter(out)
            .map(|found| separator.replace_all(&found[1], " GID").into_owned())
            .collect();
        lines.sort();
        lines
    };
    let mut wrong = Vec::new();
    for (one, other, who) in [(server, client, "client"), (client, server, "server")] {
        let local = reported(one, "local");
        if local.is_empty() || local != reported(other, "remote") {
            wrong.push(format!(
                "the {who}'s address is not the one that the other side reports"
            ));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, out: &str) -> Vec<String> {
        let argv: Vec<String> = command.split(' ').map(String::from).collect();
        program(&argv, out, false)
    }

    #[test]
    fn pingpong_must_print_what_was_requested() {
        let out =
            "80 bytes in 0.01 seconds = 1.2 Mbit/sec\n4 iters in 0.01 seconds = 2.5 usec/iter\n";
        assert!(check("ibv_rc_pingpong -s 10 -n 4", out).is_empty());
        assert_eq!(check("ibv_rc_pingpong -s 10 -n 5", out).len(), 2);
        assert_eq!(
            check(
                "ibv_ud_pingpong -s 10 -n 4",
                &format!("{out}invalid data in page 0\n")
            )
            .len(),
            1
        );
        assert_eq!(check("ibv_xsrq_pingpong", "fail"), ["no success"]);
    }

    #[test]
    fn checkers_must_find_all_messages_right() {
        let argv = ["udpong", "-C", "2"].map(String::from);
        let out = "datagram of 512 bytes: right\nx\ndatagram of 512 bytes: right\n";
        assert!(checked(&argv, out).is_empty());
        assert_eq!(
            checked(&argv, &out.replacen("right", "wrong at byte 64", 1)).len(),
            2
        );
        assert_eq!(checked(&argv, "").len(), 1);
    }

    #[test]
    fn ucx_perftest_must_have_sent_all() {
        let out = "Final:                  2000      1.8     2.0\n";
        assert!(check("ucx_perftest -n 2000", out).is_empty());
        assert_eq!(check("ucx_perftest -n 200", out).len(), 1);
    }

    #[test]
    fn perftest_says_that_its_calibration_failed() {
        assert!(is_uncalibrated(
            "Correlation coefficient r^2: 0.753294 < 0.9\n"
        ));
        assert!(!is_uncalibrated("Couldn't allocate MR\n"));
    }

    #[test]
    fn perftest_must_print_a_row_for_each_size() {
        let out = " #bytes  #iterations  BW peak[MB/sec]\n 4096  50    1.00   1.00   0.1\n";
        assert!(check("ib_send_bw -s 4096 -n 50", out).is_empty());
        assert_eq!(check("ib_send_bw --size=64", out).len(), 1);
        let slow = out
            .replace("1.00   1.00", "0.00   0.00")
            .replace("4096", "8192");
        assert_eq!(check("ib_send_bw -s 8192", &slow).len(), 1);
        let odd = " 2       50               3.00   1.00   0.1\n";
        assert_eq!(check("ib_send_lat", odd).len(), 1);
        assert_eq!(check("ib_send_bw -a", out).len(), 1);
    }

    #[test]
    fn qperf_must_print_a_value() {
        assert!(check("qperf x rc_bw", "rc_bw:\n    bw  =  1.5 GB/sec\n").is_empty());
        assert_eq!(
            check("qperf x rc_bw", "rc_bw:\n    bw  =  0 bytes/sec\n").len(),
            1
        );
        assert_eq!(check("qperf x rc_bw", "").len(), 1);
        assert!(check("qperf x quit", "").is_empty());
    }

    #[test]
    fn fio_must_transfer_all() {
        let out =
            "client: (groupid=0, jobs=1): err= 0: pid=9: x\n  WRITE: bw=1MiB/s, io=4096KiB (1)\n";
        assert!(check("fio --size=4m", out).is_empty());
        assert_eq!(check("fio --size=40m", out).len(), 1);
        let large = out.replace("4096KiB", "40.0MiB");
        assert!(check("fio --size=40m", &large).is_empty());
        assert_eq!(
            check("fio --size=4m", &out.replace("err= 0", "err= 5")).len(),
            1
        );
    }

    #[test]
    fn fi_pingpong_must_exchange_the_largest_messages() {
        let out =
            "bytes   #sent\n64      10     =10     1k  0.1s\n1m      10     =10     20m  0.1s\n";
        assert!(check("fi_pingpong -e msg", out).is_empty());
        assert_eq!(check("fi_pingpong -I 100", out).len(), 1);
        assert_eq!(check("fi_pingpong -S 1024", out).len(), 1);
    }

    #[test]
    fn devices_must_be_there() {
        assert!(check("ibv_devices", "    uroce0          \t0200000000000901\n").is_empty());
        assert_eq!(check("ibv_devices", "    device\n").len(), 1);
        assert_eq!(check("ibv_devinfo -d x -v", "").len(), 3);
    }

    #[test]
    fn both_sides_must_report_each_other() {
        let one = "  local address:  QPN 1, GID ::1\n  remote address: QPN 2, GID ::2\n";
        let other = "  local address:  QPN 2: GID ::2\n  remote address: QPN 1, GID ::1\n";
        assert!(addresses(one, other).is_empty());
        assert_eq!(addresses(one, one).len(), 2);
    }
}
