//! Runs a row of a case file between two hosts: one program, or servers and their clients.
//!
//! A row passes if the exit codes are the expected ones, every program ended within its time limit and loaded
//! the right library, and the output is what the program must print (`output_checks`).
//!
//! perftest calibrates its clock when it starts. On a busy host the calibration can fail: perftest prints so,
//! and its figures mean nothing. Such a row runs again, and only the last run counts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::case_file::{Ready, Row};
use crate::context::Context;
use crate::output_checks::{self, Printed};
use crate::process::{Ended, Exit, Running, last_lines, wait_until};
use crate::testbed::{Host, Hosts, Testbed};
use crate::verdict::{Failure, Verdict};

/// The port of the first server. The case has its network for itself.
const PORT: u16 = 20_000;
const SERVER_READY: Duration = Duration::from_secs(20);
/// A server whose client failed unexpectedly may never end.
const AFTER_FAILURE: Duration = Duration::from_secs(5);
/// The most runs of a row in which perftest's calibration fails. They share the time limit of its case.
pub const MAX_RUNS: usize = 5;

/// The time limit of a row's programs.
pub fn limit(row: &Row) -> Duration {
    Duration::from_secs(row.limit.unwrap_or(40))
}

/// Runs the row in a testbed of its own.
pub fn run_in(cx: &Context, row: &Row, testbed: Testbed) -> Verdict {
    let hosts = testbed.make(cx)?;
    run(cx, row, &hosts)
}

/// Runs the row between these hosts.
pub fn run(cx: &Context, row: &Row, hosts: &Hosts) -> Verdict {
    if let Some(mtu) = row.mtu {
        hosts.server.set_mtu(mtu)?;
        hosts.client.set_mtu(mtu)?;
    }
    // Another row's, in the virtual machine.
    let _ = fs::remove_dir_all(FILES);
    let mut seen = run_once(cx, row, hosts)?;
    for _ in 1..MAX_RUNS {
        if !seen.uncalibrated {
            break;
        }
        seen = run_once(cx, row, hosts)?;
    }
    seen.verdict()
}

/// Starts all pairs of the row and waits for them.
fn run_once(cx: &Context, row: &Row, hosts: &Hosts) -> Result<Seen, Failure> {
    let port = row.port.unwrap_or(PORT);
    let pairs: Result<Vec<Pair>, Failure> = (0..row.times)
        .map(|n| Pair::start(cx, row, hosts, port + n, n))
        .collect();
    let mut seen = Seen::default();
    for pair in pairs? {
        pair.end(&mut seen)?;
    }
    Ok(seen)
}

/// The defects of a row's programs.
#[derive(Default)]
struct Seen {
    trouble: Vec<String>,
    details: String,
    /// A pair has failed, and perftest's calibration in one of its programs.
    uncalibrated: bool,
}

impl Seen {
    fn verdict(self) -> Verdict {
        match self.trouble.first() {
            None => Ok(()),
            Some(first) => Err(Failure::new(first)
                .with(self.trouble[1..].join("\n"))
                .with(self.details)),
        }
    }
}

/// A program of a pair.
struct Role<'a> {
    name: String,
    host: &'a Host,
    running: Running,
}

impl Role<'_> {
    fn is_server(&self) -> bool {
        self.name.starts_with("server")
    }
}

/// A server, if there is one, and its clients, running. The clients come first, because they end first.
struct Pair<'a> {
    row: &'a Row,
    roles: Vec<Role<'a>>,
}

impl<'a> Pair<'a> {
    fn start(
        cx: &Context,
        row: &'a Row,
        hosts: &'a Hosts,
        port: u16,
        number: u16,
    ) -> Result<Self, Failure> {
        let tag = if row.times > 1 {
            format!("-{number}")
        } else {
            String::new()
        };
        let start = |name: String, words: Vec<String>, host: &'a Host| {
            let words = words_on(host, &hosts.server, port, words)?;
            let words = with_files(words)?;
            let mut program = cx
                .program_at(words, cx.dir().join(&name))
                .envs(&row.env)
                .report_library();
            if let Some(checker) = &row.checker {
                program = program.env("LD_PRELOAD", cx.built(checker)?);
            }
            if row.machine.rsocket {
                program = program.env("LD_PRELOAD", rspreload()?);
            }
            let running = host.on_host(program).spawn()?;
            Ok::<_, Failure>(Role {
                name,
                host,
                running,
            })
        };
        let mut server = None;
        if let Some(command) = &row.server {
            let mut role = start(format!("server{tag}"), split(command)?, &hosts.server)?;
            await_ready(row.ready, &hosts.server, port, &mut role.running);
            server = Some(role);
        }
        let mut roles = Vec::new();
        for n in 0..row.clients {
            let which = if n == 0 { String::new() } else { n.to_string() };
            roles.push(start(
                format!("client{which}{tag}"),
                client_words(row)?,
                &hosts.client,
            )?);
        }
        roles.extend(server);
        Ok(Self { row, roles })
    }

    /// Waits for the programs, and adds what is wrong with the result.
    fn end(mut self, seen: &mut Seen) -> Verdict {
        let trouble = &mut seen.trouble;
        let before = trouble.len();
        let ended = self.wait()?;
        let codes = self.codes(&ended);
        let as_expected = codes == self.row.exit;
        if !as_expected {
            trouble.push(format!("exit codes {codes}, not {}", self.row.exit));
        }
        for (role, ended) in self.roles.iter().zip(&ended) {
            if as_expected {
                let wrong = wrong_library(role.host, ended);
                trouble.extend(wrong.map(|library| format!("{} ran on {library}", role.name)));
            }
        }
        if as_expected {
            trouble.extend(output_checks::of_row(self.row, &self.printed(&ended)));
        }
        if trouble.len() > before {
            for (role, ended) in self.roles.iter().zip(&ended) {
                seen.details.push_str(&last_words(&role.name, ended));
                seen.uncalibrated |= as_expected && output_checks::is_uncalibrated(&ended.err);
            }
        }
        Ok(())
    }

    fn printed<'b>(&'b self, ended: &'b [Ended]) -> Vec<Printed<'b>> {
        let of = |(role, ended): (&'b Role<'a>, &'b Ended)| Printed {
            role: &role.name,
            argv: role.running.argv(),
            exit: ended.exit,
            out: &ended.out,
            err: &ended.err,
        };
        self.roles.iter().zip(ended).map(of).collect()
    }

    fn wait(&mut self) -> Result<Vec<Ended>, Failure> {
        let mut deadline = Instant::now() + limit(self.row);
        let may_fail = self.row.exit.split(['/', '+']).any(|code| code != "0");
        let mut all = Vec::new();
        for role in &mut self.roles {
            if role.is_server() && self.row.kill && role.running.is_running() {
                role.running.terminate();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let exit = role.running.wait(left.max(Duration::from_millis(100)))?;
            if !role.is_server() && exit != Exit::Code(0) && !may_fail {
                deadline = deadline.min(Instant::now() + AFTER_FAILURE);
            }
            all.push(role.running.ended(exit)?);
        }
        Ok(all)
    }

    /// The exit codes as the row gives them: `SERVER/CLIENT`, or one. Clients that end differently: `0+1`.
    fn codes(&self, ended: &[Ended]) -> String {
        let of = |server: bool| {
            let roles = self
                .roles
                .iter()
                .zip(ended)
                .filter(|(role, _)| role.is_server() == server);
            let mut codes: Vec<String> = roles.map(|(_, ended)| ended.exit.to_string()).collect();
            codes.sort();
            codes.dedup();
            codes.join("+")
        };
        if self.row.server.is_some() {
            format!("{}/{}", of(true), of(false))
        } else {
            of(false)
        }
    }
}

/// Waits until the server is ready, or has ended: then the client fails too.
pub fn await_ready(ready: Ready, host: &Host, port: u16, server: &mut Running) {
    match ready {
        Ready::After(seconds) => sleep(Duration::from_secs(seconds)),
        Ready::Tcp => {
            wait_until(SERVER_READY, || host.listens(port) || !server.is_running());
        }
        Ready::Cm => {
            wait_until(SERVER_READY, || {
                host.listens_cm(port) || !server.is_running()
            });
        }
    }
}

/// The client's command: its own, or the server's with arguments added.
pub fn client_words(row: &Row) -> Result<Vec<String>, Failure> {
    let Some(client) = row.run.as_ref().or(row.client.as_ref()) else {
        return Err(Failure::new("the row has neither `run` nor `client`"));
    };
    let Some(added) = client.strip_prefix('+') else {
        return split(client);
    };
    let mut words = split(row.server.as_deref().unwrap_or_default())?;
    words.extend(split(added)?);
    // Only the server of ibv_xsrq_pingpong takes the number of clients.
    if row.clients > 1 && words[0].ends_with("_pingpong") {
        if let Some(at) = words.iter().position(|word| word == "-c") {
            words.drain(at..(at + 2).min(words.len()));
        }
    }
    Ok(words)
}

/// The command on a host: with its device, the server's address, the port, and the indices of its GIDs.
fn words_on(
    host: &Host,
    server: &Host,
    port: u16,
    mut words: Vec<String>,
) -> Result<Vec<String>, Failure> {
    let program = output_checks::name_of(&words).to_string();
    let pingpong = output_checks::is_ibv_pingpong(&words);
    // The option for the GID index is -x in perftest, -g in the ping-pong programs.
    let flag = if pingpong { "-g" } else { "-x" };
    if pingpong && !words.iter().any(|word| word == "-d") {
        words.extend(["-d".into(), "%d".into()]);
    }
    if program.starts_with("ib_") && !words.iter().any(|word| word == flag) {
        // perftest's default is the first GID, which may be link-local
        words.extend([flag.into(), "1".into()]);
    }
    for at in 1..words.len() {
        if words[at - 1] == flag {
            if let Ok(which @ 0..=2) = words[at].parse() {
                words[at] = host.gid_index(which)?.to_string();
            }
        }
    }
    let port = port.to_string();
    let replace = |word: &String| {
        word.replace("%p", &port)
            .replace("%a", &server.address)
            .replace("%6", &server.address6)
            .replace("%l", &host.address)
            .replace("%d", &host.device)
    };
    Ok(words.iter().map(replace).collect())
}

/// The library of librdmacm that replaces sockets by rsockets.
fn rspreload() -> Result<PathBuf, Failure> {
    let file = |dir: fs::DirEntry| dir.path().join("rsocket/librspreload.so");
    fs::read_dir("/usr/lib")?
        .filter_map(|dir| Some(file(dir.ok()?)))
        .find(|file| file.exists())
        .ok_or_else(|| Failure::skip("librspreload.so of librdmacm is not installed"))
}

/// Where programs of a row keep files. Not below the case's directory: files of the virtual machine's share
/// cannot be mapped.
const FILES: &str = "/run/compat-files";

/// The command with `%f` replaced by a directory in which all users can write.
fn with_files(words: Vec<String>) -> Result<Vec<String>, Failure> {
    if !words.iter().any(|word| word.contains("%f")) {
        return Ok(words);
    }
    fs::create_dir_all(FILES)?;
    fs::set_permissions(FILES, fs::Permissions::from_mode(0o777))?;
    Ok(words.iter().map(|word| word.replace("%f", FILES)).collect())
}

/// Splits a command into words; quotes keep blanks.
pub fn split(command: &str) -> Result<Vec<String>, Failure> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in command.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ' | '\n') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(Failure::new(format!("a quote is not closed: {command}")));
    }
    words.extend(word);
    Ok(words)
}

/// The library that the program should not have loaded, or that it loaded none.
fn wrong_library(host: &Host, ended: &Ended) -> Option<String> {
    let right = |file: &String| match &host.libdir {
        Some(dir) => Path::new(file).parent() == Some(dir),
        None => file.starts_with("/lib/") || file.starts_with("/usr/lib/"),
    };
    if ended.libraries.is_empty() {
        return Some("no libibverbs".into());
    }
    ended
        .libraries
        .iter()
        .find(|file| !right(file))
        .map(|file| format!("the wrong library: {file}"))
}

fn last_words(role: &str, ended: &Ended) -> String {
    let stream = |name: &str, text: &str| -> String {
        last_lines(text, 6)
            .lines()
            .map(|line| format!("{role}.{name}: {line}\n"))
            .collect()
    };
    stream("out", &ended.out) + &stream("err", &ended.err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_as_a_shell_does() {
        let words = split(r#"a  -b 'c d' "e's" "" f"#).unwrap();
        assert_eq!(words, ["a", "-b", "c d", "e's", "", "f"]);
        assert!(split("a 'b").is_err());
    }
}
