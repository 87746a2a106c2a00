//! Masks what may differ between two runs of the same program on the same library. Everything else is
//! compared byte by byte.

use regex_lite::Regex;

/// QP numbers come from the device, PSNs are random, and times vary.
pub fn pingpong(output: &str) -> String {
    let output = replace(r"(QPN|PSN) 0x[0-9a-f]{6}", output, "$1 #");
    replace(
        r"(?m)^([0-9]+ (?:bytes|iters) in )[0-9.]+ seconds = [0-9.infa]+ ",
        &output,
        "$1# seconds = # ",
    )
}

/// How many address changes are reported in between varies: one of them remains, at the end. The
/// terminal's carriage returns go.
pub fn asyncwatch(output: &str) -> String {
    let lines = output.lines().map(|line| line.trim_end_matches('\r'));
    let (gid, mut rest): (Vec<_>, Vec<_>) =
        lines.partition(|line| line.contains("IBV_EVENT_GID_CHANGE"));
    rest.extend(gid.last());
    rest.iter().map(|line| format!("{line}\n")).collect()
}

/// Replaces every match; the pattern is one of this program's own.
pub fn replace(pattern: &str, text: &str, with: &str) -> String {
    Regex::new(pattern)
        .expect("the pattern is valid")
        .replace_all(text, with)
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pingpong_masks_numbers_and_times_only() {
        let output = "  local address:  LID 0x0000, QPN 0x000011, PSN 0x3f5a1c, GID ::1\n\
                      8192000 bytes in 0.01 seconds = 4854.52 Mbit/sec\n";
        let masked = "  local address:  LID 0x0000, QPN #, PSN #, GID ::1\n\
                      8192000 bytes in # seconds = # Mbit/sec\n";
        assert_eq!(pingpong(output), masked);
    }

    #[test]
    fn asyncwatch_keeps_one_gid_change() {
        let output = "a\r\nIBV_EVENT_GID_CHANGE 1\r\nb\r\nIBV_EVENT_GID_CHANGE 2\r\n";
        assert_eq!(asyncwatch(output), "a\nb\nIBV_EVENT_GID_CHANGE 2\n");
    }
}
