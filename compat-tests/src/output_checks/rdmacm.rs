//! Checks of the output, and of the copied files, of librdmacm's programs that ended with 0.
//!
//! rping and the streams compare the data themselves only with `-V` and `-T v`. Without these options, what
//! they print of the data is checked here, or that they counted all of it.

use std::fs;

use super::{found, number};

/// Lists what is wrong; `None` for programs that are not librdmacm's.
pub fn program(name: &str, argv: &[String], out: &str, server: bool) -> Option<Vec<String>> {
    let wrong = match name {
        "rping" => rping(argv, out, server),
        "ucmatose" | "udaddy" | "mckey" => lines(
            out,
            &[
                "data transfers complete", "test complete", "return status 0",
            ],
        ),
        "rdma_client" | "rdma_server" | "rdma_xclient" | "rdma_xserver" => {
            lines(out, &[&format!("{name}: end 0")])
        }
        "rstream" | "riostream" => stream(argv, out),
        // Their clients print the results.
        "udpong" | "rcopy" | "cmtime" if server => Vec::new(),
        "udpong" => datagrams(argv, out),
        "rcopy" => rcopy(argv, out),
        "cmtime" => cmtime(out),
        _ => return None,
    };
    Some(wrong)
}

/// The lines that the program did not print exactly once.
fn lines(out: &str, expected: &[&str]) -> Vec<String> {
    let once = |line: &&&str| out.lines().filter(|printed| printed == *line).count() == 1;
    let missing = expected.iter().filter(|line| !once(line));
    missing.map(|line| format!("not once: '{line}'")).collect()
}

/// Requires with `-v` the data of each message, and with `-d` two completed exchanges for each.
fn rping(argv: &[String], out: &str, server: bool) -> Vec<String> {
    let has = |flag: &str| argv.iter().any(|word| word == flag);
    let count = number(argv, &["-C"], 0);
    let mut wrong = Vec::new();
    if has("-v") {
        let who = if server { "server " } else { "" };
        let expected: String = (0..count)
            .map(|n| format!("{who}ping data: {}\n", rping_data(n)))
            .collect();
        let printed: String = out
            .lines()
            .filter(|line| line.contains("ping data: "))
            .map(|line| format!("{line}\n"))
            .collect();
        if printed != expected {
            wrong.push(format!("the data of {count} messages is not as sent"));
        }
    }
    if has("-d") && !server {
        let completions = |kind: &str| out.lines().filter(|line| *line == kind).count() as u64;
        for kind in ["send completion", "recv completion"] {
            if completions(kind) != 2 * count {
                wrong.push(format!("not {} of '{kind}'", 2 * count));
            }
        }
    }
    wrong
}

/// The text of rping's message of this number, of 63 characters: letters that begin one further each time.
fn rping_data(number: u64) -> String {
    let start = format!("rdma-ping-{number}: ");
    let letters = (b'A'..=b'z').cycle().skip(number as usize % 58);
    let rest = letters.take(63 - start.len()).map(char::from);
    start.chars().chain(rest).collect()
}

/// Requires the result of the requested sizes and counts.
fn stream(argv: &[String], out: &str) -> Vec<String> {
    let size = match number(argv, &["-S"], 0) {
        size if size >= 1024 && size % 1024 == 0 => format!("{}k", size / 1024),
        size => size.to_string(),
    };
    let (transfers, rounds) = (number(argv, &["-C"], 0), number(argv, &["-I"], 0));
    let result = format!(r"(?m)^custom +{size} +{transfers} +{rounds} +\d+[km]? ");
    if found(&result, out) {
        return Vec::new();
    }
    vec![format!(
        "no result of {rounds} rounds of {transfers} transfers of {size}"
    )]
}

/// Requires the result of the requested size and count: udpong counts an echo as another transfer.
fn datagrams(argv: &[String], out: &str) -> Vec<String> {
    let (size, count) = (number(argv, &["-S"], 0), number(argv, &["-C"], 0));
    let is_echoed = argv.windows(2).any(|words| words == ["-T", "e"]);
    let transfers = if is_echoed { 2 * count } else { count };
    if found(
        &format!(r"(?m)^custom +{size} +{transfers} +\d+[km]? "),
        out,
    ) {
        return Vec::new();
    }
    vec![format!("no result of {transfers} datagrams of {size}")]
}

/// Requires the source's size, and its bytes in the copy: `rcopy SOURCE HOST:COPY`.
fn rcopy(argv: &[String], out: &str) -> Vec<String> {
    let copied = |argv: &[String]| -> Option<(Vec<u8>, Vec<u8>)> {
        let (_, copy) = argv.get(2)?.rsplit_once(':')?;
        Some((fs::read(argv.get(1)?).ok()?, fs::read(copy).ok()?))
    };
    let Some((source, copy)) = copied(argv) else {
        return vec!["no copy".into()];
    };
    let mut wrong = Vec::new();
    if !found(&format!(r"(?m)^{} bytes in ", source.len()), out) {
        wrong.push(format!("no line '{} bytes in'", source.len()));
    }
    if source != copy {
        wrong.push("the copy differs".into());
    }
    wrong
}

/// Requires a time of each step.
fn cmtime(out: &str) -> Vec<String> {
    let steps = [
        "create id", "resolve addr", "resolve route", "create qp", "connect", "disconnect",
        "destroy",
    ];
    let untimed = |step: &&&str| !found(&format!(r"(?m)^{step}[a-z ]*:(?: +[\d.]+){{4}}"), out);
    let missing = steps.iter().filter(untimed);
    missing
        .map(|step| format!("no times of '{step}'"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, out: &str) -> Vec<String> {
        let argv: Vec<String> = command.split(' ').map(String::from).collect();
        program(&argv[0], &argv, out, false).unwrap()
    }

    #[test]
    fn rping_must_print_what_was_sent() {
        let out = "ping data: rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqr\n\
                   ping data: rdma-ping-1: BCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrs\n";
        assert!(check("rping -c -C 2 -v -V", out).is_empty());
        assert_eq!(check("rping -c -C 3 -v", out).len(), 1);
        assert_eq!(
            check("rping -c -C 2 -v", &out.replace("CDE", "CDF")).len(),
            1
        );
        assert!(rping_data(9).ends_with("xyzA"));
        let out = "send completion\nrecv completion\n".repeat(4);
        assert!(check("rping -C 2 -d", &out).is_empty());
        assert_eq!(check("rping -C 3 -d", &out).len(), 2);
    }

    #[test]
    fn a_connection_must_have_transferred_and_ended() {
        let out = "data transfers complete\ntest complete\nreturn status 0\n";
        assert!(check("ucmatose -s x", out).is_empty());
        assert_eq!(check("mckey -s", &out.replace('0', "-1")).len(), 1);
        assert!(
            check(
                "rdma_client -s x",
                "rdma_client: start\nrdma_client: end 0\n"
            )
            .is_empty()
        );
        assert_eq!(check("rdma_xclient", "rdma_client: end 0\n").len(), 1);
    }

    #[test]
    fn a_stream_must_have_the_requested_sizes_and_counts() {
        let out =
            "name  bytes xfers\ncustom    4k      10      8      640k        0.03s      0.19\n";
        assert!(check("rstream -S 4096 -C 10 -I 8", out).is_empty());
        assert_eq!(check("rstream -S 4096 -C 8 -I 8", out).len(), 1);
        assert!(check("rstream -S 64 -C 10 -I 8", &out.replace("4k", "64")).is_empty());
    }

    #[test]
    fn all_datagrams_must_have_been_transferred() {
        let out = "custom    512     100     50k         0.18s      0.00    1838.94\n";
        assert!(check("udpong -S 512 -C 50 -T e", out).is_empty());
        assert_eq!(check("udpong -S 512 -C 50", out).len(), 1);
    }

    #[test]
    fn a_copy_must_be_the_file() {
        let dir = std::env::temp_dir().join(format!("rcopy-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (source, copy) = (dir.join("a"), dir.join("b"));
        let command = format!("rcopy {} host:{}", source.display(), copy.display());
        fs::write(&source, "abc").unwrap();
        assert_eq!(check(&command, "3 bytes in 0.00 seconds\n"), ["no copy"]);
        fs::write(&copy, "abc").unwrap();
        assert!(check(&command, "3 bytes in 0.00 seconds\n").is_empty());
        fs::write(&copy, "abd").unwrap();
        assert_eq!(check(&command, "30 bytes in 0.00 seconds\n").len(), 2);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn each_step_must_have_its_times() {
        let out = "create id    :  0.01  0.00  3.00  3.25\nconnect      : 1 2 3 4\n";
        assert_eq!(check("cmtime -s x", out).len(), 5);
    }
}
