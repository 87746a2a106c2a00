//! Asks the other processes of this user on this host about a queue pair (see `peer.rs`).

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use ibverbs_os::unix::{self, Peer as Process};

use super::fate::Process as Seen;
use super::peer_facts::Peer;

/// How long one process, and all together, may take to answer.
const ONE: Duration = Duration::from_millis(200);
const ALL: Duration = Duration::from_secs(1);
/// A longer answer is cut: the facts about a queue pair take some hundred bytes.
const MAX_ANSWER: usize = 4096;

/// The names of control sockets in this network namespace, without those of this process.
fn names() -> Vec<String> {
    let list = unix::table().unwrap_or_default();
    let own = std::process::id().to_string();
    let mut names: Vec<String> = list
        .lines()
        .filter_map(|line| line.split_whitespace().last()?.strip_prefix('@'))
        .filter(|name| {
            let pid = name.strip_prefix("libibverbs-rs/");
            pid.is_some_and(|pid| pid != own)
        })
        .map(String::from)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Asks the other processes of the same user about the queue pair `qpn`, which is connected to
/// `own_qpn`.
pub fn ask(qpn: u32, own_qpn: u32, rkey: Option<u32>) -> Option<Peer> {
    let key = rkey.map_or(String::new(), |key| format!(" {key}"));
    let found = answers(&format!("peer {qpn} {own_qpn}{key}\n"));
    let found = found.into_iter();
    found.min_by_key(|peer| peer.dest_qpn != Some(own_qpn.into()))
}

/// Asks them for a queue pair each that has sent datagrams, best to the queue pair `qpn`.
pub fn senders(qpn: u32) -> Vec<Peer> {
    answers(&format!("sender {qpn}\n"))
}

/// Asks them for a queue pair that names this one as its peer.
pub fn naming(own_qpn: u32) -> Option<Peer> {
    answers(&format!("naming {own_qpn}\n")).into_iter().next()
}

fn answers(request: &str) -> Vec<Peer> {
    let until = Instant::now() + ALL;
    let answers = names().into_iter().filter_map(|name| {
        if Instant::now() > until {
            return None;
        }
        let (answer, of) = exchange(&name, request, ONE)?;
        let pid = name.strip_prefix("libibverbs-rs/")?;
        let pid = pid.split('.').next()?;
        let program = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let mut peer = Peer::parse(&answer, format!("in process {pid} ({})", program.trim()));
        peer.qpn?;
        peer.process = Seen::of(of.pid, &name);
        Some(peer)
    });
    answers.collect()
}

/// Whether the process with this control socket has a queue pair. None if it does not answer.
pub fn has(socket: &str, qpn: u32, own_qpn: u32) -> Option<bool> {
    let (answer, _) = exchange(socket, &format!("peer {qpn} {own_qpn}\n"), ALL)?;
    let is_whole = answer.ends_with('\n');
    is_whole.then(|| Peer::parse(&answer, String::new()).qpn.is_some())
}

/// The answer of a process within `limit`, and which it is.
fn exchange(name: &str, request: &str, limit: Duration) -> Option<(String, Process)> {
    let until = Instant::now() + limit;
    // Without waiting: a process that is stopped may have no room for another connection.
    let stream = unix::connect_stream(name).ok()?;
    stream.set_nonblocking(false).ok()?;
    // Any process may take the name: only one of the same user is believed.
    let process = Process::of(&stream).ok().filter(Process::is_own_user)?;
    stream.set_write_timeout(Some(limit)).ok()?;
    (&stream).write_all(request.as_bytes()).ok()?;
    Some((receive(&stream, until)?, process))
}

/// The bytes that come before the other side closes the connection; None if it has not by `until`.
fn receive(mut stream: &UnixStream, until: Instant) -> Option<String> {
    let mut answer = [0; MAX_ANSWER];
    let mut length = 0;
    while length < MAX_ANSWER {
        let rest = until.checked_duration_since(Instant::now())?;
        // A timeout of 0 is an error.
        stream.set_read_timeout(Some(rest)).ok()?;
        match stream.read(&mut answer[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    String::from_utf8(answer[..length].to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    /// The answer of a process that sends `answer` byte by byte, a byte each 10 ms.
    fn answer_of(name: &str, answer: &'static [u8]) -> Option<String> {
        let name = format!("ibverbs-ask-test-{name}-{}", std::process::id());
        let listener =
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            client.read_exact(&mut [0; 9]).unwrap();
            for byte in answer.chunks(1) {
                std::thread::sleep(Duration::from_millis(10));
                // Until the client has gone.
                if client.write_all(byte).is_err() {
                    break;
                }
            }
        });
        let answer = exchange(&name, "peer 1 2\n", ONE);
        server.join().unwrap();
        answer.map(|(answer, _)| answer)
    }

    #[test]
    fn an_answer_has_one_limit() {
        assert_eq!(answer_of("whole", b"qpn=1\n").as_deref(), Some("qpn=1\n"));
        assert_eq!(answer_of("trickle", &[b'1'; 200]), None);
    }
}
