//! Connections of other processes that pass messages on to this one, and the messages.
//!
//! It belongs to the thread, which uses it without the lock of the process's state. Anybody on the host can
//! connect: who it is comes before anything is kept, and each call does a bounded amount of work. What is
//! left, epoll reports again.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ibverbs_abi::{Errno, Result};
use ibverbs_os::unix::Peer;
use rustc_hash::FxHashMap;

use super::epoll::{Epoll, Token};
use super::named::NamedSocket;
use super::names;
use super::trust::{Sender, Trust, read_owners};
use crate::descriptors::Owned;
use roce::cm::agent::{Incoming, prefix_of};
use roce::cm::mad::CmMad;
use roce::engine::{Gid, Time};

/// The most connections that are kept. Further ones are closed when what has come through them is read.
const CONNECTIONS_MAX: usize = 1024;
/// The most connections of a name that one call accepts.
const ACCEPTED_MAX: usize = 32;
/// The prefixes that are kept for a connection. A process has one for every 256 connections; one that passes
/// messages on has those of others.
const PREFIXES_MAX: usize = 16;
/// When the name of a prefix is looked for after a connection was closed. The kernel may close a process's
/// connections before its names.
const CLOSED_CHECKS: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_secs(1),
];
/// The number of messages with which nothing more is read until they are taken.
const MESSAGES_MAX: usize = 64;
/// When accepting is tried again after it has failed, for example because the process has no descriptors
/// left.
const RETRY: Duration = Duration::from_millis(100);

/// A connection of another process.
struct Connection {
    fd: Owned<OwnedFd>,
    sender: Sender,
    /// The prefixes of the communication IDs that its messages came from, the last ones.
    prefixes: Vec<u32>,
}

impl Connection {
    fn new(fd: Owned<OwnedFd>, sender: Sender) -> Connection {
        Connection {
            fd,
            sender,
            prefixes: Vec::new(),
        }
    }

    /// A message has come through it.
    fn add_prefix_of(&mut self, message: &Incoming) {
        let sender = CmMad::parse(&message.mad).map_or(0, |mad| mad.sender());
        let prefix = prefix_of(sender);
        if prefix == 0 || self.prefixes.contains(&prefix) {
            return;
        }
        if self.prefixes.len() >= PREFIXES_MAX {
            self.prefixes.remove(0);
        }
        self.prefixes.push(prefix);
    }
}

/// A name whose connections could not be accepted.
struct Paused {
    until: Time,
    token: Token,
    listener: Weak<NamedSocket>,
}

/// The connections of other processes.
pub struct Inbound {
    epoll: Arc<Epoll>,
    trust: Trust,
    connections: FxHashMap<u32, Connection>,
    next_connection: u32,
    paused: Vec<Paused>,
    messages: Vec<Incoming>,
    /// A process has closed a connection that was kept.
    closed: bool,
    /// The prefixes that such connections had messages of, and when to find out whether nobody has them.
    closed_prefixes: Vec<(Time, u32)>,
}

impl Inbound {
    /// No connections yet. Their tokens are reported by `epoll`.
    pub fn new(epoll: Arc<Epoll>) -> Inbound {
        Inbound {
            epoll,
            trust: Trust::new(read_owners),
            connections: FxHashMap::default(),
            next_connection: 0,
            paused: Vec::new(),
            messages: Vec::new(),
            closed: false,
            closed_prefixes: Vec::new(),
        }
    }

    /// The messages that have been read; they are forgotten.
    pub fn take_messages(&mut self) -> Vec<Incoming> {
        std::mem::take(&mut self.messages)
    }

    /// Whether a process has closed a connection that was kept, since the last call.
    pub fn take_closed(&mut self) -> bool {
        std::mem::take(&mut self.closed)
    }

    /// The prefixes of communication IDs whose processes may have ended; each is returned several times.
    pub fn take_closed_prefixes(&mut self, now: Time) -> Vec<u32> {
        let mut due = Vec::new();
        self.closed_prefixes.retain(|(at, prefix)| {
            let is_due = *at <= now;
            if is_due {
                due.push(*prefix);
            }
            !is_due
        });
        due
    }

    /// Accepts connections and reads messages of other processes, without a lock of the caller. `look_up`
    /// returns the socket with a number, if it still exists, and the GIDs of this process's devices; None if
    /// the caller's state is gone.
    pub fn serve(
        &mut self,
        tokens: &[Token],
        now: Time,
        mut look_up: impl FnMut(u32) -> Option<(Option<Arc<NamedSocket>>, Vec<Gid>)>,
    ) {
        self.resume(now);
        for token in tokens {
            match *token {
                Token::Listener(number) => {
                    let Some((listener, gids)) = look_up(number) else {
                        return;
                    };
                    self.trust.gids = gids;
                    if let Some(listener) = listener {
                        self.accept(*token, &listener, now);
                    }
                }
                Token::Connection(number) => self.read(number, now),
                Token::Waker | Token::File(_) | Token::Kernel(_) => {}
            }
        }
    }

    /// Accepts the connections of a name, and reads what has come through them.
    fn accept(&mut self, token: Token, listener: &Arc<NamedSocket>, now: Time) {
        self.accept_by(token, listener, now, names::accept);
    }

    fn accept_by(
        &mut self,
        token: Token,
        listener: &Arc<NamedSocket>,
        now: Time,
        accept: impl Fn(RawFd) -> Result<Owned<OwnedFd>>,
    ) {
        let socket = listener.socket.as_raw_fd();
        for _ in 0..ACCEPTED_MAX {
            if self.messages.len() >= MESSAGES_MAX {
                return;
            }
            match accept(socket) {
                Ok(fd) => self.add(fd, now),
                Err(Errno(libc::EAGAIN)) => return,
                Err(Errno(libc::EINTR | libc::ECONNABORTED)) => {}
                Err(error) => {
                    log::info!("uroce: rdma_cm accepts nothing for a while: {error}");
                    return self.pause(token, listener, now);
                }
            }
        }
    }

    /// The connections would be reported all the time.
    fn pause(&mut self, token: Token, listener: &Arc<NamedSocket>, now: Time) {
        self.epoll.watch(listener.socket.as_raw_fd(), token, 0);
        self.paused.push(Paused {
            until: now.after(RETRY),
            token,
            listener: Arc::downgrade(listener),
        });
    }

    /// Accepts connections again where that has been paused for long enough.
    fn resume(&mut self, now: Time) {
        let epoll = &self.epoll;
        self.paused.retain(|paused| {
            let is_due = paused.until <= now;
            if let Some(listener) = paused.listener.upgrade().filter(|_| is_due) {
                epoll.watch(listener.socket.as_raw_fd(), paused.token, libc::EPOLLIN);
            }
            !is_due
        });
    }

    /// When [`Inbound::resume`] or [`Inbound::take_closed_prefixes`] is due.
    pub fn deadline(&self) -> Option<Time> {
        let paused = self.paused.iter().map(|paused| paused.until);
        let closed = self.closed_prefixes.iter().map(|(at, _)| *at);
        paused.chain(closed).min()
    }

    fn add(&mut self, fd: Owned<OwnedFd>, now: Time) {
        let owned: &OwnedFd = &fd;
        let peer = Peer::of(owned).ok();
        let Some(sender) = peer.and_then(|peer| Sender::of(&peer)) else {
            return;
        };
        if !self.trust.allows(sender, now) {
            return;
        }
        let mut connection = Connection::new(fd, sender);
        // Most connections have one message, and are closed.
        if !self.read_from(&mut connection, now) || self.connections.len() >= CONNECTIONS_MAX {
            return;
        }
        self.next_connection = self.next_connection.wrapping_add(1);
        let number = self.next_connection;
        let token = Token::Connection(number);
        if self.epoll.add(connection.fd.as_raw_fd(), token).is_ok() {
            self.connections.insert(number, connection);
        }
    }

    /// Reads the messages that have come through a connection that is kept.
    fn read(&mut self, number: u32, now: Time) {
        let Some(mut connection) = self.connections.remove(&number) else {
            return;
        };
        if self.read_from(&mut connection, now) {
            self.connections.insert(number, connection);
        } else {
            self.closed = true;
            for prefix in connection.prefixes {
                let due = CLOSED_CHECKS.map(|after| (now.after(after), prefix));
                self.closed_prefixes.extend(due);
            }
        }
    }

    /// Returns false if the other process has closed the connection, or may not pass on what it sends.
    fn read_from(&mut self, connection: &mut Connection, now: Time) -> bool {
        while self.messages.len() < MESSAGES_MAX {
            match names::receive(connection.fd.as_raw_fd()) {
                Ok(message) => {
                    if !self.trust.allows_at(connection.sender, &message.dst, now) {
                        return false;
                    }
                    connection.add_prefix_of(&message);
                    self.messages.push(message);
                }
                Err(Errno(libc::EAGAIN)) => return true,
                Err(Errno(libc::EINTR)) => {}
                Err(_) => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cm::ucma::names::Blocking;
    use roce::cm::mad::{CmMessage, Ids, MAD_LEN};

    const TOKEN: Token = Token::Listener(7);

    /// Connections of other processes, and a name that they connect to.
    fn listening(name: &str) -> (Inbound, Arc<NamedSocket>, String) {
        let name = format!("uroce-cm-test-inbound.{name}.{}", std::process::id());
        let epoll = Arc::new(Epoll::new().unwrap());
        let listener = NamedSocket::new(names::bind(&name).unwrap());
        names::listen(listener.socket.as_raw_fd()).unwrap();
        epoll.add(listener.socket.as_raw_fd(), TOKEN).unwrap();
        (Inbound::new(epoll), listener, name)
    }

    fn send(fd: &OwnedFd, number: u8) {
        let message = Incoming {
            src: [1; 16],
            dst: [2; 16],
            mad: [number; MAD_LEN],
        };
        names::send(fd.as_raw_fd(), &message, Blocking::No).unwrap();
    }

    fn is_reported(inbound: &Inbound, token: Token) -> bool {
        inbound.epoll.wait(Some(Time(0))).contains(&token)
    }

    /// A process without descriptors goes on with what it has, and sleeps.
    #[test]
    fn accepting_pauses_when_it_fails() {
        let (mut inbound, listener, name) = listening("pause");
        let client = names::connect(&name).unwrap();
        send(&client, 5);
        let now = Time(1_000_000_000);
        let emfile = |_: RawFd| Err(Errno(libc::EMFILE));
        inbound.accept_by(TOKEN, &listener, now, emfile);
        assert!(!is_reported(&inbound, TOKEN));
        let until = inbound.deadline().unwrap();
        assert_eq!(until.since(now), RETRY);
        inbound.resume(Time(until.0 - 1));
        assert!(!is_reported(&inbound, TOKEN));
        inbound.resume(until);
        assert!(is_reported(&inbound, TOKEN));
        assert_eq!(inbound.deadline(), None);
        inbound.accept(TOKEN, &listener, until);
        assert_eq!(inbound.take_messages().len(), 1);
    }

    #[test]
    fn a_call_does_a_bounded_amount_of_work() {
        let (mut inbound, listener, name) = listening("bounded");
        for _ in 0..2 * ACCEPTED_MAX {
            // Closed at once, as by a process that connects in a loop.
            names::connect(&name).unwrap();
        }
        let client = names::connect(&name).unwrap();
        for number in 0..=MESSAGES_MAX as u8 {
            send(&client, number);
        }
        for _ in 0..2 {
            inbound.accept(TOKEN, &listener, Time(1));
            assert_eq!(inbound.take_messages(), []);
            assert!(is_reported(&inbound, TOKEN));
        }
        inbound.accept(TOKEN, &listener, Time(1));
        assert_eq!(inbound.take_messages().len(), MESSAGES_MAX);
        assert!(!is_reported(&inbound, TOKEN) && is_reported(&inbound, Token::Connection(1)));
        inbound.read(1, Time(1));
        assert_eq!(
            inbound.take_messages()[0].mad,
            [MESSAGES_MAX as u8; MAD_LEN]
        );
        assert!(!inbound.take_closed());
        drop(client);
        inbound.read(1, Time(1));
        assert!(inbound.take_closed() && inbound.connections.is_empty());
    }

    /// The prefixes of those that have sent through a connection are known when it is closed.
    #[test]
    fn a_closed_connection_names_its_senders() {
        let (mut inbound, listener, name) = listening("senders");
        let client = names::connect(&name).unwrap();
        let ids = |local| Ids { local, remote: 1 };
        for local in [0x501, 0x502, 0x600, 0] {
            let mad = CmMad {
                tid: 1,
                modifier: 0,
                message: CmMessage::Rtu(ids(local)),
            };
            let message = Incoming {
                src: [1; 16],
                dst: [2; 16],
                mad: mad.bytes(),
            };
            names::send(client.as_raw_fd(), &message, Blocking::No).unwrap();
        }
        inbound.accept(TOKEN, &listener, Time(1));
        assert_eq!(inbound.take_messages().len(), 4);
        assert_eq!(inbound.take_closed_prefixes(Time(1)), []);
        drop(client);
        inbound.read(1, Time(1));
        assert_eq!(inbound.take_closed_prefixes(Time(1)), [5, 6]);
        // Its names may be closed a moment later.
        assert_eq!(inbound.take_closed_prefixes(Time(2)), []);
        let [_, again, last] = CLOSED_CHECKS.map(|after| Time(1).after(after));
        assert_eq!(inbound.deadline(), Some(again));
        assert_eq!(inbound.take_closed_prefixes(again), [5, 6]);
        assert_eq!(inbound.take_closed_prefixes(last), [5, 6]);
        assert_eq!(inbound.deadline(), None);
    }

    /// A connection of another user is closed with the first message that it may not pass on.
    #[test]
    fn another_user_passes_on_messages_to_its_address_only() {
        let (mut inbound, listener, name) = listening("other");
        inbound.trust = Trust::new(|| vec![(roce::wire::ip_of(&[2; 16]), 1001)]);
        inbound.trust.gids = vec![[2; 16], [3; 16]];
        let client = names::connect(&name).unwrap();
        send(&client, 1);
        let mut connection = |user| {
            let fd = names::accept(listener.socket.as_raw_fd()).unwrap();
            let mut connection = Connection::new(fd, Sender::Other(user));
            inbound.read_from(&mut connection, Time(1))
        };
        assert!(connection(1001));
        let client = names::connect(&name).unwrap();
        send(&client, 1);
        assert!(!connection(1002));
        assert_eq!(inbound.take_messages().len(), 1);
    }
}
