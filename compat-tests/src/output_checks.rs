//! Checks of the output of programs that ended with 0: the bytes and exchanges that were requested,
//! a row of results per size, each other's address. So an empty or a wrong run does not pass.
//!
//! Each program of the case files has a check in `known`, or its rows say what it prints (`says`). A
//! program with neither fails. All testbeds apply [`of_row`]; those that run a row on both libraries compare
//! the outputs, too.

mod perftest;
mod rdmacm;

use regex_lite::Regex;

pub use perftest::is_uncalibrated;

use crate::case_file::Row;
use crate::process::Exit;

/// A program of a row that has ended, and what it printed.
pub struct Printed<'a> {
    pub role: &'a str,
    pub argv: &'a [String],
    pub exit: Exit,
    pub out: &'a str,
    pub err: &'a str,
}

impl Printed<'_> {
    fn is_server(&self) -> bool {
        self.role.starts_with("server")
    }
}

/// Lists what is wrong with the output of a row's programs, whose exit codes are the expected ones.
pub fn of_row(row: &Row, programs: &[Printed]) -> Vec<String> {
    let mut wrong = Vec::new();
    for printed in programs.iter().filter(|of| of.exit == Exit::Code(0)) {
        let (argv, is_server) = (printed.argv, printed.is_server());
        let found = match row.says {
            Some(_) => known(argv, printed.out, is_server).unwrap_or_default(),
            None => program(argv, printed.out, is_server),
        };
        let named = |what| format!("{}: {what}", printed.role);
        wrong.extend(found.into_iter().map(named));
    }
    let client = programs.iter().find(|of| !of.is_server());
    if let (Some(says), Some(client)) = (&row.says, client) {
        if !client.out.contains(says.as_str()) && !client.err.contains(says.as_str()) {
            wrong.push(format!("the {} does not print '{says}'", client.role));
        }
    }
    if let (Some(_), Some(client)) = (&row.checker, client) {
        let printed: String = programs.iter().map(|of| of.out).collect();
        wrong.extend(checked(client.argv, &printed));
    }
    let server = programs.iter().find(|of| of.is_server());
    if let (Some(server), Some(client), "0/0") = (server, client, row.exit.as_str()) {
        if is_ibv_pingpong(server.argv) && !name_of(server.argv).contains("xsrq") {
            wrong.extend(addresses(server.out, client.out));
        }
    }
    wrong
}

/// Lists what is wrong with the output of a program, which fails if there is no check for it.
pub fn program(argv: &[String], out: &str, server: bool) -> Vec<String> {
    let none = "no check for this program: add one to src/output_checks.rs, or `says` to the row";
    known(argv, out, server).unwrap_or_else(|| vec![none.into()])
}

/// Lists what is wrong with the output of a program; `None` if there is no check for it.
fn known(argv: &[String], out: &str, server: bool) -> Option<Vec<String>> {
    let argv = own_words(argv);
    let program = name_of(argv);
    if is_ibv_pingpong(argv) {
        return Some(pingpong(argv, out));
    }
    if perftest::is_program(program) {
        return Some(if server {
            Vec::new()
        } else {
            perftest::check(argv, out)
        });
    }
    if let Some(wrong) = rdmacm::program(program, argv, out, server) {
        return Some(wrong);
    }
    let wrong = match program {
        // Their clients print the results.
        "qperf" | "ucx_perftest" if server => Vec::new(),
        "qperf" => qperf(argv, out),
        "ucx_perftest" => ucx_perftest(argv, out),
        "fi_pingpong" => fi_pingpong(argv, out),
        "fio" => fio(argv, out, server),
        "ibv_devinfo" => devinfo(argv, out),
        "ibv_devices" => devices(out),
        _ => return None,
    };
    Some(wrong)
}

/// The programs that run the program after their options.
const WRAPPERS: [&str; 2] = ["prlimit", "valgrind"];

/// The words of a command from the program's name on, without a wrapper and its options (`--name=value`).
fn own_words(words: &[String]) -> &[String] {
    let is_wrapped = words
        .first()
        .is_some_and(|word| WRAPPERS.contains(&base(word)));
    let is_option = |word: &&String| is_wrapped && word.starts_with('-');
    let skipped = usize::from(is_wrapped);
    let options = words.iter().skip(skipped).take_while(is_option).count();
    &words[skipped + options..]
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The name of a command's program, which may run in a wrapper.
pub fn name_of(words: &[String]) -> &str {
    own_words(words).first().map_or("", |word| base(word))
}

/// Whether a command runs a ping-pong program of libibverbs.
pub fn is_ibv_pingpong(words: &[String]) -> bool {
    let name = name_of(words);
    name.starts_with("ibv_") && name.ends_with("_pingpong")
}

/// Requires of the lines of a row's checker that no message was wrong, and that as many as the option -C says
/// were right.
fn checked(argv: &[String], out: &str) -> Vec<String> {
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

/// Requires a device, and its GUID.
fn devices(out: &str) -> Vec<String> {
    if found(r"(?m)^\s+\S+\s+\t[0-9a-f]{16}$", out) {
        return Vec::new();
    }
    vec!["no device".into()]
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
fn addresses(server: &str, client: &str) -> Vec<String> {
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
    use std::collections::BTreeSet;

    use super::*;
    use crate::case_file;
    use crate::pairs::{client_words, split};
    use crate::paths;

    fn check(command: &str, out: &str) -> Vec<String> {
        let argv: Vec<String> = command.split(' ').map(String::from).collect();
        program(&argv, out, false)
    }

    /// The commands of a row that end with 0, and whether each is the server's.
    fn successful(row: &Row) -> Vec<(Vec<String>, bool)> {
        let codes: Vec<&str> = row.exit.split('/').collect();
        let mut commands = Vec::new();
        if row.server.is_some() && codes[0] == "0" {
            commands.push((split(row.server.as_deref().unwrap()).unwrap(), true));
        }
        if codes[codes.len() - 1].split('+').any(|code| code == "0") && row.machine.kind.is_none() {
            commands.push((client_words(row).unwrap(), false));
        }
        commands
    }

    #[test]
    fn each_program_of_the_case_files_has_a_check() {
        let rows = case_file::read_all(&paths::repo().join("compat-tests/cases")).unwrap();
        let mut seen = BTreeSet::new();
        for (group, testbed, row) in rows {
            for (argv, is_server) in successful(&row) {
                let has_check = known(&argv, "", is_server).is_some() || row.says.is_some();
                let is_compared =
                    ["suites", "sources", "sources-pyverbs"].contains(&testbed.as_str());
                assert!(
                    has_check || is_compared,
                    "{testbed} {group}/{}: {argv:?}",
                    row.name
                );
                seen.insert(name_of(&argv).to_string());
            }
        }
        assert!(
            seen.len() > 20 && seen.contains("ibv_rc_pingpong"),
            "{seen:?}"
        );
    }

    #[test]
    fn a_program_without_a_check_fails_unless_its_row_says_what_it_prints() {
        let row = |says: &str| {
            let text = format!(
                "[[group]]\nname = \"g\"\ncases = [ {{ name = \"n\", run = \"true\", exit = \"0\", \
                 {says} where = {{ loopback = \"check\" }} }} ]"
            );
            case_file::parse(&text).unwrap().remove(0).2
        };
        let argv = ["valgrind", "-q", "/bin/unknown"].map(String::from);
        let printed = |argv, out| Printed {
            role: "client",
            argv,
            exit: Exit::Code(0),
            out,
            err: "",
        };
        let wrong = of_row(&row(""), &[printed(&argv, "")]);
        assert!(wrong[0].starts_with("client: no check for this program"));
        let says = row("says = \"done\",");
        assert!(of_row(&says, &[printed(&argv, "all done")]).is_empty());
        assert_eq!(of_row(&says, &[printed(&argv, "")]).len(), 1);
    }

    #[test]
    fn a_wrapper_does_not_hide_the_program() {
        let words = |command: &str| command.split(' ').map(String::from).collect::<Vec<_>>();
        let wrapped = words("valgrind -q --error-exitcode=9 ibv_rc_pingpong -n 20");
        assert_eq!(name_of(&wrapped), "ibv_rc_pingpong");
        assert_eq!(program(&wrapped, "", true).len(), 2);
        assert_eq!(name_of(&words("/usr/bin/ib_send_bw -a")), "ib_send_bw");
        assert_eq!(name_of(&words("prlimit --nofile=9")), "");
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
