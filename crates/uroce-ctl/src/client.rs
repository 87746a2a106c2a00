//! Finds the control sockets of processes, and asks them.

use std::collections::HashMap;
use std::io::ErrorKind;

use clap::ArgMatches;
use ibverbs_os::unix::{self, Peer, connect_stream, own_user};
use serde_json::Value;

use crate::exchange::{self, Exchange};
use crate::text::plain;

/// How the names of control sockets begin, in the abstract namespace of unix(7).
const PREFIX: &str = "libibverbs-rs/";
/// The most sockets of one process: one per copy of the library.
const SOCKETS_MAX: usize = 4;
/// The flags of /proc/net/unix of a socket that listens (SO_ACCEPTCON).
const LISTENS: &str = "00010000";

/// A process with a control socket.
#[derive(Clone)]
#[cfg_attr(test, derive(Default))]
pub struct Process {
    pub pid: u32,
    user: libc::uid_t,
    /// The process belongs to the user that runs this program.
    is_own: bool,
    name: String,
}

/// The processes that a command is for.
pub struct Selected {
    pid: Option<u32>,
    /// The command needs one process, unless `--all` is given.
    only_one: bool,
    all: bool,
}

impl Selected {
    /// Reads the options of a command that select processes.
    pub fn new(options: &ArgMatches) -> Selected {
        let all = options.try_get_one::<bool>("all").ok().flatten();
        Selected {
            pid: options.get_one("pid").copied(),
            only_one: false,
            all: all.copied().unwrap_or(false),
        }
    }

    /// The same for a command that changes something.
    pub fn to_change(&self) -> Result<Selected, String> {
        Ok(Selected {
            pid: self.pid,
            only_one: !self.all,
            all: self.all,
        })
    }

    /// The processes of this user, by PID. Fails if there is none.
    pub fn processes(&self) -> Result<Vec<Process>, String> {
        let table = unix::table();
        let table = table.map_err(|error| format!("/proc/net/unix: {error}"))?;
        let mut found: Vec<Process> = names(&table).filter_map(Process::find).collect();
        found.retain(|process| self.pid.is_none_or(|pid| process.pid == pid));
        found.sort_by_key(|process| process.pid);
        let mut sockets: HashMap<u32, usize> = HashMap::new();
        found.retain(|process| {
            let count = sockets.entry(process.pid).or_default();
            *count += 1;
            *count <= SOCKETS_MAX
        });
        match (found.as_slice(), self.pid) {
            ([], Some(pid)) => Err(format!(
                "process {pid} of this user has no control socket in this network namespace"
            )),
            ([], None) => Err(
                "no process of this user has a control socket in this network namespace \
                 (a program has one with IBV_CONTROL=1, IBV_EXPLAIN or IBV_FAULTS)"
                    .into(),
            ),
            ([_, _, ..], None) if self.only_one => {
                Err("there are several processes: name one with --pid, or use --all".into())
            }
            _ => Ok(found),
        }
    }
}

/// The names of control sockets in the text of /proc/net/unix.
fn names(table: &str) -> impl Iterator<Item = String> {
    table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, LISTENS, _, _, _, path] = fields.as_slice() else {
            return None;
        };
        let name = path.strip_prefix('@')?;
        name.starts_with(PREFIX).then(|| name.to_string())
    })
}

impl Process {
    /// A process that nobody asks.
    #[cfg(test)]
    pub fn named(pid: u32) -> Process {
        Process {
            pid,
            user: own_user(),
            is_own: true,
            name: String::new(),
        }
    }

    /// The process that listens at a name. None if it is of another user: anyone can bind a name. Root gets
    /// all of them.
    fn find(name: String) -> Option<Process> {
        let stream = connect_stream(&name).ok()?;
        let peer = Peer::of(&stream).ok()?;
        let is_own = peer.is_own_user();
        if own_user() != 0 && !is_own {
            return None;
        }
        // 0 if the process is in another PID namespace: then by the number that it has there.
        let pid = match peer.pid {
            0 => name[PREFIX.len()..].split('.').next()?.parse().ok()?,
            pid => u32::try_from(pid).ok()?,
        };
        let user = peer.user;
        Some(Process {
            pid,
            user,
            is_own,
            name,
        })
    }

    fn exchange(&self, request: &str) -> Exchange {
        let answer_max = match self.is_own {
            true => exchange::ANSWER_MAX,
            false => exchange::FOREIGN_ANSWER_MAX,
        };
        let connected = connect_stream(&self.name).and_then(|stream| {
            // Another user may have taken the name since.
            match Peer::of(&stream)?.user == self.user {
                true => Ok(stream),
                false => Err(ErrorKind::ConnectionRefused.into()),
            }
        });
        Exchange::new(connected, request, answer_max)
    }

    /// Parses the answer of a process; the error that it contains becomes an error.
    fn answer(&self, line: std::io::Result<Vec<u8>>) -> Result<Value, String> {
        let failed = |why: String| format!("process {}: {why}", self.pid);
        let line = line.map_err(|error| {
            failed(match error.kind() {
                ErrorKind::TimedOut => {
                    let seconds = exchange::TIMEOUT.as_secs();
                    format!("no answer within {seconds} s (is it stopped?)")
                }
                ErrorKind::WouldBlock => "it accepts no connections (is it stopped?)".into(),
                _ => error.to_string(),
            })
        })?;
        let answer: Value = serde_json::from_slice(&line)
            .map_err(|error| failed(format!("bad answer: {error}")))?;
        match &answer["error"] {
            why @ Value::String(_) => Err(failed(plain(why))),
            _ if !answer.is_object() => Err(failed("bad answer: no object".into())),
            _ => Ok(answer),
        }
    }
}

/// The answers of processes to a request, or why one has not answered.
pub fn ask(processes: &[Process], request: &str) -> Vec<Result<Value, String>> {
    let exchanges = processes.iter().map(|process| process.exchange(request));
    let lines = exchange::all(exchanges.collect(), exchange::TIMEOUT);
    let answers = processes.iter().zip(lines);
    answers
        .map(|(process, line)| process.answer(line))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_processes() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000: 00000002 00000000 00010000 0001 01 123 @libibverbs-rs/77\n\
            0000: 00000003 00000000 00000000 0001 03 124 @libibverbs-rs/77\n\
            0000: 00000002 00000000 00010000 0001 01 125 @/tmp/.X11-unix/X0\n\
            0000: 00000002 00000000 00010000 0001 01 126\n\
            0000: 00000002 00000000 00010000 0001 01 127 @libibverbs-rs/77.1\n";
        let found: Vec<String> = names(table).collect();
        assert_eq!(found, ["libibverbs-rs/77", "libibverbs-rs/77.1"]);
    }

    #[test]
    fn answers_are_objects_and_errors_are_printable() {
        let process = Process::named(7);
        let answer = |line: &[u8]| process.answer(Ok(line.to_vec()));
        assert!(answer(b"{\"devices\":[]}").is_ok());
        let red = answer(b"{\"error\":\"\\u001b[31mred\"}");
        assert_eq!(red, Err("process 7: ?[31mred".into()));
        assert_eq!(
            answer(b"[]"),
            Err("process 7: bad answer: no object".into())
        );
        assert!(
            answer(b"\xff")
                .unwrap_err()
                .starts_with("process 7: bad answer")
        );
    }
}
