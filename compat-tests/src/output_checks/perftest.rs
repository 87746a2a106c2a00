//! Checks of the output of perftest's programs.

use super::{found, number, option, regex};

pub fn is_program(program: &str) -> bool {
    program.starts_with("ib_") && (program.ends_with("_bw") || program.ends_with("_lat"))
}

/// Requires a row of results for each size.
pub fn check(argv: &[String], out: &str) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(command: &str, out: &str) -> Vec<String> {
        let argv: Vec<String> = command.split(' ').map(String::from).collect();
        check(&argv, out)
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
        assert!(checked("ib_send_bw -s 4096 -n 50", out).is_empty());
        assert_eq!(checked("ib_send_bw --size=64", out).len(), 1);
        let slow = out
            .replace("1.00   1.00", "0.00   0.00")
            .replace("4096", "8192");
        assert_eq!(checked("ib_send_bw -s 8192", &slow).len(), 1);
        let odd = " 2       50               3.00   1.00   0.1\n";
        assert_eq!(checked("ib_send_lat", odd).len(), 1);
        assert_eq!(checked("ib_send_bw -a", out).len(), 1);
    }
}
