//! Finds the control sockets of processes, and asks them.

use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use clap::ArgMatches;
use ibverbs_host::unix::{Peer, own_user};
use serde_json::Value;

/// How the names of control sockets begin, in the abstract namespace of unix(7).
const PREFIX: &str = "libibverbs-rs/";
/// How long a process may take to answer. One that is stopped does not answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The flags of /proc/net/unix of a socket that listens (SO_ACCEPTCON).
const LISTENS: &str = "00010000";

/// A process with a control socket.
#[derive(Clone)]
pub struct Process {
    pub pid: u32,
    name: String,
}

/// The processes that a command is for.
pub struct Selected {
    pid: Option<u32>,
    /// One process only, unless `--all` is given.
    only_one: bool,
    all: bool,
}

impl Selected {
    /// What the options of a command say.
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
        let table = std::fs::read_to_string("/proc/net/unix");
        let table = table.map_err(|error| format!("/proc/net/unix: {error}"))?;
        let mut found: Vec<Process> = names(&table).filter_map(Process::find).collect();
        found.retain(|process| self.pid.is_none_or(|pid| process.pid == pid));
        found.sort_by_key(|process| process.pid);
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
    /// The process that listens at a name. None if it is of another user: anyone can bind a name. Root gets
    /// all of them.
    fn find(name: String) -> Option<Process> {
        let stream = connect(&name).ok()?;
        let peer = Peer::of(&stream).ok()?;
        let own = own_user();
        if own != 0 && own != peer.user {
            return None;
        }
        // 0 if the process is in another PID namespace: then by the number that it has there.
        let pid = match peer.pid {
            0 => name[PREFIX.len()..].split('.').next()?.parse().ok()?,
            pid => u32::try_from(pid).ok()?,
        };
        Some(Process { pid, name })
    }

    /// Sends a request, and returns the answer; the error that it contains, as an error.
    pub fn ask(&self, request: &str) -> Result<Value, String> {
        let failed = |why: String| format!("process {}: {why}", self.pid);
        let line = self.exchange(request).map_err(|error| {
            let timed_out = error.kind() == std::io::ErrorKind::WouldBlock;
            failed(match timed_out {
                true => format!("no answer within {} s (is it stopped?)", TIMEOUT.as_secs()),
                false => error.to_string(),
            })
        })?;
        let answer: Value =
            serde_json::from_str(&line).map_err(|error| failed(format!("bad answer: {error}")))?;
        match answer["error"].as_str() {
            Some(why) => Err(failed(why.to_string())),
            None => Ok(answer),
        }
    }

    fn exchange(&self, request: &str) -> std::io::Result<String> {
        let stream = connect(&self.name)?;
        (&stream).write_all(format!("{}\n", request.replace('\n', ";")).as_bytes())?;
        let mut line = String::new();
        match BufReader::new(&stream).read_line(&mut line)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }
}

fn connect(name: &str) -> std::io::Result<UnixStream> {
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
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
}
