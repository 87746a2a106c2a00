//! The masks of what may differ between two runs of the same program. Everything else must be
//! equal.

use std::collections::BTreeMap;

use crate::normalise::replace;
use crate::row_outcome::RowOutcome;

const MASKS: &[(&str, &str)] = &[
    // addresses, keys, queue pair and packet sequence numbers
    (r"0x[0-9a-fA-F]+", "#"),
    // qperf's values with their units
    (r"= +[\d.,]+ +[A-Za-z/%]+", "= #"),
    // perftest's warning about the clock
    (r"Correlation coefficient r\^2: .*\n", ""),
    // dates
    (r"\[\d\d/[A-Z][a-z][a-z]/.*?\]", "[#]"),
    // bandwidths, times; not parts of addresses such as 10.9.9.1
    (r"(^|[^\d.])-?\d+\.\d+(e[+-]?\d+)?([^\d.]|$)", "$1#$3"),
    (r"-?\b(inf|nan)\b", "#"),
    (r"[ \t]+", " "),
    (r" \n", "\n"),
];

/// The text with all masks.
pub fn mask(text: &str) -> String {
    MASKS
        .iter()
        .fold(text.to_string(), |text, (pattern, with)| {
            // A number that follows another one is found the second time, because the blank in between is
            // in both.
            replace(pattern, &replace(pattern, &text, with), with)
        })
}

/// The masked streams of a test's programs, by the name of the stream.
pub fn streams(test: &str, run: &RowOutcome) -> BTreeMap<String, String> {
    let masked = run
        .streams
        .iter()
        .map(|(name, text)| (name.clone(), mask(text)));
    if test.starts_with("qperf/") {
        return BTreeMap::from([("output".into(), both_sides(masked))]);
    }
    if test.starts_with("rdmacm/rping") {
        return masked.map(|(name, text)| (name, threads(&text))).collect();
    }
    masked.collect()
}

/// qperf: each side reports its errors to the other, and the first error ends the test.
fn both_sides(streams: impl Iterator<Item = (String, String)>) -> String {
    let texts: Vec<String> = streams.map(|(_, text)| text).collect();
    let mut lines: Vec<&str> = texts
        .iter()
        .flat_map(|text| text.lines())
        .map(|line| line.strip_prefix("server: ").unwrap_or(line))
        .collect();
    lines.sort_unstable();
    lines.dedup();
    lines.join("\n") + "\n"
}

/// rping: several threads write, and whether one reports the disconnection before the program ends varies.
fn threads(text: &str) -> String {
    let by_chance = [
        "DISCONNECT",
        "rdma_get_cm_event: Bad file",
        "wait for RDMA_READ_ADV state 10",
    ];
    let keys = replace(r"\b(l?addr|[lr]key) [0-9a-f]+", text, "$1 #");
    let mut lines: Vec<&str> = keys
        .lines()
        .filter(|line| !by_chance.iter().any(|chance| line.contains(chance)))
        .collect();
    lines.sort_unstable();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_vary_and_addresses_do_not() {
        assert_eq!(mask("a 1.5 2.25 -3.0e-5\n"), "a # # #\n");
        assert_eq!(mask("10.9.9.1 port 20\n"), "10.9.9.1 port 20\n");
        assert_eq!(mask("bw = 1.25 GB/sec \n"), "bw = #\n");
        assert_eq!(mask("QPN 0x11 nan"), "QPN # #");
    }

    #[test]
    fn the_order_of_threads_does_not_matter() {
        assert_eq!(threads("b\na DISCONNECT\nrkey 12ab\n"), "b\nrkey #\n");
    }
}
