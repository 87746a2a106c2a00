//! One request to many processes at the same time. They may be those of other users, if root asks: so the
//! time that they take, and what they send, have limits, and one that fails fails alone.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long processes may take to answer. One that is stopped does not answer.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// Connections at a time.
const AT_A_TIME: usize = 256;
/// Bytes of an answer, of a process of this user.
pub const ANSWER_MAX: usize = 256 << 20;
/// The same of another user: some 20,000 queue pairs.
pub const FOREIGN_ANSWER_MAX: usize = 16 << 20;

/// A request to a process.
pub struct Exchange {
    stream: io::Result<UnixStream>,
    unsent: Vec<u8>,
    received: Vec<u8>,
    answer_max: usize,
    /// The line that the process has answered, once there is one, or the failure.
    result: Option<io::Result<Vec<u8>>>,
}

impl Exchange {
    /// A request on a connection, or the failure to connect.
    pub fn new(stream: io::Result<UnixStream>, request: &str, answer_max: usize) -> Exchange {
        let stream = stream.and_then(|stream| stream.set_nonblocking(true).map(|()| stream));
        Exchange {
            stream,
            unsent: format!("{}\n", request.replace('\n', ";")).into_bytes(),
            received: Vec::new(),
            answer_max,
            result: None,
        }
    }

    /// Sends and receives what does not block.
    fn advance(&mut self) {
        let stream = match &self.stream {
            Ok(stream) => stream,
            Err(error) => {
                let error = io::Error::new(error.kind(), error.to_string());
                self.result = Some(Err(error));
                return;
            }
        };
        let (unsent, received) = (&mut self.unsent, &mut self.received);
        self.result = match advance(stream, unsent, received, self.answer_max) {
            Ok(false) => None,
            Ok(true) => Some(Ok(core::mem::take(&mut self.received))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) if error.kind() == ErrorKind::Interrupted => None,
            Err(error) => Some(Err(error)),
        };
    }
}

/// Whether the answer is whole.
fn advance(
    mut stream: &UnixStream,
    unsent: &mut Vec<u8>,
    received: &mut Vec<u8>,
    answer_max: usize,
) -> io::Result<bool> {
    while !unsent.is_empty() {
        let sent = stream.write(unsent)?;
        unsent.drain(..sent);
    }
    let mut part = [0; 64 * 1024];
    loop {
        let len = stream.read(&mut part)?;
        if len == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let part = &part[..len];
        let end = part.iter().position(|byte| *byte == b'\n');
        received.extend_from_slice(&part[..end.unwrap_or(len)]);
        if received.len() > answer_max {
            let why = format!("the answer has more than {} MiB", answer_max >> 20);
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        if end.is_some() {
            return Ok(true);
        }
    }
}

/// Waits until all have answered, or have had their time. The lines, in the order of the requests.
pub fn all(exchanges: Vec<Exchange>, timeout: Duration) -> Vec<io::Result<Vec<u8>>> {
    let mut exchanges = exchanges;
    for some in exchanges.chunks_mut(AT_A_TIME) {
        let deadline = Instant::now() + timeout;
        some.iter_mut().for_each(Exchange::advance);
        while some.iter().any(|exchange| exchange.result.is_none()) && wait(some, deadline) {
            let waiting = some.iter_mut().filter(|exchange| exchange.result.is_none());
            waiting.for_each(Exchange::advance);
        }
        // The connections of one part are closed before the next begins.
        for exchange in some {
            exchange.stream = Err(ErrorKind::TimedOut.into());
        }
    }
    let late = || Err(ErrorKind::TimedOut.into());
    let results = exchanges.into_iter();
    results
        .map(|exchange| exchange.result.unwrap_or_else(late))
        .collect()
}

/// Waits until one of those without a result can go on. False at the deadline.
fn wait(exchanges: &[Exchange], deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return false;
    }
    let waiting = exchanges
        .iter()
        .filter(|exchange| exchange.result.is_none());
    let events = |exchange: &Exchange| match exchange.unsent.is_empty() {
        true => libc::POLLIN,
        false => libc::POLLIN | libc::POLLOUT,
    };
    let mut polled: Vec<libc::pollfd> = waiting
        .filter_map(|exchange| {
            Some(libc::pollfd {
                fd: exchange.stream.as_ref().ok()?.as_raw_fd(),
                events: events(exchange),
                revents: 0,
            })
        })
        .collect();
    let milliseconds = left.as_millis() as libc::c_int + 1;
    // SAFETY: the array has this many elements.
    unsafe {
        libc::poll(
            polled.as_mut_ptr(),
            polled.len() as libc::nfds_t,
            milliseconds,
        )
    };
    true
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const SOON: Duration = Duration::from_millis(50);

    /// A process that reads the request and then does this.
    fn process(work: impl FnOnce(UnixStream) + Send + 'static) -> io::Result<UnixStream> {
        let (own, other) = UnixStream::pair()?;
        thread::spawn(move || {
            let mut request = [0; 5];
            let mut stream = &other;
            if stream.read_exact(&mut request).is_ok() {
                work(other);
            }
        });
        Ok(own)
    }

    fn write(text: &'static [u8]) -> impl FnOnce(UnixStream) + Send + 'static {
        move |mut stream| drop(stream.write_all(text))
    }

    #[test]
    fn each_process_fails_alone() {
        let (other_end, silent) = UnixStream::pair().unwrap();
        let endless = |mut stream: UnixStream| while stream.write_all(&[b'x'; 4096]).is_ok() {};
        let streams = vec![
            process(write(b"{}\nmore")),
            process(write(b"half")),
            Ok(silent),
            process(endless),
            Err(ErrorKind::ConnectionRefused.into()),
            process(write(b"[1]\n")),
        ];
        let exchanges = streams
            .into_iter()
            .map(|stream| Exchange::new(stream, "info", 1 << 20));
        let results = all(exchanges.collect(), SOON);
        drop(other_end);
        let seen: Vec<_> = results
            .iter()
            .map(|result| result.as_ref().map_err(io::Error::kind))
            .collect();
        let (first, last) = (b"{}".to_vec(), b"[1]".to_vec());
        let expected = [
            Ok(&first),
            Err(ErrorKind::UnexpectedEof),
            Err(ErrorKind::TimedOut),
            Err(ErrorKind::InvalidData),
            Err(ErrorKind::ConnectionRefused),
            Ok(&last),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_request_is_a_line() {
        let (own, other) = UnixStream::pair().unwrap();
        drop(all(vec![Exchange::new(Ok(own), "a\nb", 1)], Duration::ZERO));
        let mut text = String::new();
        (&other).read_to_string(&mut text).unwrap();
        assert_eq!(text, "a;b\n");
    }
}
