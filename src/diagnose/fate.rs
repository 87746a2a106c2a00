//! A process of this host that had the peer of a queue pair, and what has become of it since.

use std::fs;

/// A process, as it was seen. Its start tells it from a later process with the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pid: i32,
    started: u64,
    /// The name of its control socket.
    socket: String,
}

/// The fate of a process that had the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has ended.
    Ended,
    /// It lives, and has no such queue pair any more.
    Destroyed,
    /// It lives, and does not answer.
    Silent,
}

impl Process {
    /// The process with this number, which has a control socket.
    pub fn of(pid: i32, socket: &str) -> Option<Process> {
        Some(Process {
            pid,
            started: started(pid)?,
            socket: socket.into(),
        })
    }

    /// The fate of the process; None if it has the queue pair. `has` asks it, by the name of its control
    /// socket; None: it does not answer.
    pub fn fate(&self, has: impl FnOnce(&str) -> Option<bool>) -> Option<Fate> {
        if started(self.pid) != Some(self.started) {
            return Some(Fate::Ended);
        }
        match has(&self.socket) {
            None => Some(Fate::Silent),
            Some(false) => Some(Fate::Destroyed),
            Some(true) => None,
        }
    }
}

impl Fate {
    /// Says it after `is there no more: `.
    pub fn text(self) -> &'static str {
        match self {
            Fate::Ended => "its process has ended",
            Fate::Destroyed => "its process lives, and has destroyed it, or closed its device",
            Fate::Silent => "its process lives, and does not answer now",
        }
    }
}

/// When a process was started, in clock ticks since the machine was; None if it has ended.
fn started(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse(&text)
}

/// The start in the text of /proc/PID/stat; None for a process that has ended and was not waited for.
fn parse(text: &str) -> Option<u64> {
    // The name, in parentheses, may have any characters.
    let (_, rest) = text.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    let state = words.next()?;
    let started = words.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_of_processes() {
        let text = |state| {
            format!("7 (a) b) {state} 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 7597 1 2 3\n")
        };
        assert_eq!(parse(&text("S")), Some(7597));
        assert_eq!(parse(&text("Z")), None);
        assert_eq!(parse("7 (a) S 1"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_process_that_has_ended() {
        let own = Process::of(std::process::id() as i32, "none").unwrap();
        assert_eq!(own.fate(|_| None), Some(Fate::Silent));
        assert_eq!(own.fate(|_| Some(false)), Some(Fate::Destroyed));
        assert_eq!(own.fate(|socket| Some(socket == "none")), None);
        let earlier = Process {
            started: own.started - 1,
            ..own
        };
        assert_eq!(earlier.fate(|_| Some(true)), Some(Fate::Ended));
        assert_eq!(Process::of(i32::MAX, "none"), None);
    }
}
