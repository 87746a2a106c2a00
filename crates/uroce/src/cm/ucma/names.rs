//! Abstract unix socket names, by which the processes of a network namespace find each other: one per prefix
//! of communication IDs, and one per port number and address that a process listens at. The kernel frees a
//! name when its process ends, however it ends.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::time::Duration;

use ibverbs_abi::Errno;
use ibverbs_os::unix;

use super::EAGAIN;
use super::os::Port;
use crate::descriptors::{self, Owned};
pub use roce::cm::agent::Incoming;
use roce::cm::agent::PREFIXES;
use roce::cm::mad::{MAD_LEN, Mad};
use roce::engine::Gid;

/// Bytes of a message that one process passes on to another: the GIDs of sender and receiver, the MAD.
const MESSAGE_LEN: usize = 16 + 16 + MAD_LEN;

/// The name of the process that has a prefix of communication IDs.
pub fn of_prefix(prefix: u32) -> String {
    format!("uroce-cm.ids.{prefix:06x}")
}

/// Takes the name of a prefix that no other process of the network namespace has, from those that `random`
/// leads to. EADDRINUSE if other processes have all that are tried: they would have to have nearly all 2^24.
pub fn bind_prefix(random: impl Fn() -> u32) -> Result<(u32, Owned<OwnedFd>), Errno> {
    for _ in 0..PREFIX_TRIES {
        let prefix = 1 + random() % PREFIXES;
        match bind(&of_prefix(prefix)) {
            Err(EADDRINUSE) => {}
            result => return result.map(|socket| (prefix, socket)),
        }
    }
    Err(EADDRINUSE)
}

/// How many prefixes are tried.
const PREFIX_TRIES: usize = 64;
const EADDRINUSE: Errno = Errno(libc::EADDRINUSE);

/// The name of a port at an address.
pub fn of_port(port: Port, gid: &Gid) -> String {
    let Port { space, number } = port;
    let gid = u128::from_be_bytes(*gid);
    let spread = spread(number);
    format!("uroce-cm.port.{space:04x}.{number}.{gid:032x}.{spread:08x}")
}

/// Digits that make the names of different ports differ enough. The kernel keeps abstract names in 256 lists,
/// which it chooses by a sum of their bytes: of names that differ in a few digits some lists have many.
fn spread(number: u16) -> u32 {
    u32::from(number).wrapping_mul(0x9e37_79b1)
}

/// Records the descriptor that a system call opens. Fails as the call does, and with ENOMEM.
pub fn open(call: impl FnOnce() -> RawFd) -> Result<Owned<OwnedFd>, Errno> {
    // SAFETY: the system call has just opened it, so nothing else owns it.
    record(|| unsafe { unix::owned(call()) })
}

fn record(open: impl FnOnce() -> io::Result<OwnedFd>) -> Result<Owned<OwnedFd>, Errno> {
    Ok(descriptors::open(open)?)
}

/// [`unix::bind`], recorded.
pub fn bind(name: &str) -> Result<Owned<OwnedFd>, Errno> {
    record(|| unix::bind(name))
}

/// Lets other processes connect to a socket with a name.
pub fn listen(fd: RawFd) -> Result<(), Errno> {
    unix::listen(fd).map_err(Errno::from)
}

/// [`unix::connect`], recorded.
pub fn connect(name: &str) -> Result<Owned<OwnedFd>, Errno> {
    record(|| unix::connect(name))
}

/// [`unix::accept`], recorded.
pub fn accept(listener: RawFd) -> Result<Owned<OwnedFd>, Errno> {
    record(|| unix::accept(listener))
}

/// Whether sending waits while the other process does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    No,
    /// The wait takes at most [`BLOCKING_MAX`]: a message that is lost is sent again only after 250
    /// ms.
    Briefly,
}

const BLOCKING_MAX: Duration = Duration::from_millis(10);

/// Sends a message. EAGAIN if the other process does not read, EPIPE if it is gone.
pub fn send(fd: RawFd, message: &Incoming, blocking: Blocking) -> Result<(), Errno> {
    match send_now(fd, message) {
        Err(EAGAIN) if blocking == Blocking::Briefly => {
            let mut poll = libc::pollfd {
                fd,
                events: libc::POLLOUT,
                revents: 0,
            };
            // SAFETY: one pollfd, exclusively borrowed for the call.
            unsafe { libc::poll(&mut poll, 1, BLOCKING_MAX.as_millis() as i32) };
            send_now(fd, message)
        }
        result => result,
    }
}

fn send_now(fd: RawFd, message: &Incoming) -> Result<(), Errno> {
    let mut bytes = [0; MESSAGE_LEN];
    bytes[..16].copy_from_slice(&message.src);
    bytes[16..32].copy_from_slice(&message.dst);
    bytes[32..].copy_from_slice(&message.mad);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    if crate::cancellation::send(fd, &bytes, flags) == MESSAGE_LEN as isize {
        Ok(())
    } else {
        Err(Errno::last())
    }
}

/// Receives a message; EAGAIN if there is none, EPIPE if the other process is gone or sends anything else.
pub fn receive(fd: RawFd) -> Result<Incoming, Errno> {
    let mut bytes = [0_u8; MESSAGE_LEN + 1];
    let len = bytes.len();
    // SAFETY: `bytes` is writable for its length.
    let got = unsafe { libc::recv(fd, bytes.as_mut_ptr().cast(), len, libc::MSG_DONTWAIT) };
    if got < 0 {
        return Err(Errno::last());
    }
    if got != MESSAGE_LEN as isize {
        return Err(Errno(libc::EPIPE));
    }
    let mut mad: Mad = [0; MAD_LEN];
    mad.copy_from_slice(&bytes[32..MESSAGE_LEN]);
    let gid = |at: usize| -> Gid {
        let mut gid = [0; 16];
        gid.copy_from_slice(&bytes[at..at + 16]);
        gid
    };
    Ok(Incoming {
        src: gid(0),
        dst: gid(16),
        mad,
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::sync::Barrier;
    use std::time::Instant;

    use super::*;

    fn message(number: usize) -> Incoming {
        let mut mad = [0; MAD_LEN];
        mad[..8].copy_from_slice(&(number as u64).to_ne_bytes());
        Incoming {
            src: [1; 16],
            dst: [2; 16],
            mad,
        }
    }

    /// The list in which the kernel keeps an abstract name of a SOCK_SEQPACKET socket (net/unix/af_unix.c).
    fn list_of(name: &str) -> u16 {
        let mut address = libc::AF_UNIX.to_ne_bytes()[..2].to_vec();
        address.push(0);
        address.extend(name.bytes());
        let words = address.chunks(2).map(|pair| {
            let high = pair.get(1).copied().unwrap_or_default();
            u32::from(u16::from_le_bytes([pair[0], high]))
        });
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        let hash = !sum as u16;
        (hash ^ hash >> 8 ^ libc::SOCK_SEQPACKET as u16) & 0xff
    }

    #[test]
    fn names_of_many_ports_are_in_different_lists() {
        let gid = roce::wire::gid_of(std::net::Ipv4Addr::LOCALHOST.into());
        let mut lists = [0; 256];
        for number in 20_000..39_000 {
            let port = Port {
                space: 0x0106,
                number,
            };
            lists[usize::from(list_of(&of_port(port, &gid)))] += 1;
        }
        // 74 on average; without the additional digits 1,094 in the longest.
        assert!(lists.iter().all(|len| *len < 200), "{lists:?}");
    }

    #[test]
    fn names_that_another_process_has_are_passed_over() {
        use std::cell::Cell;
        let first = std::process::id() % PREFIXES;
        let number = Cell::new(first);
        let random = || number.replace(number.get() + 1);
        let squatted: Vec<_> = (0..PREFIX_TRIES)
            .map(|_| bind_prefix(random).unwrap())
            .collect();
        let (last, _) = squatted[PREFIX_TRIES - 1];
        number.set(first);
        assert_eq!(
            bind_prefix(random).map(|(prefix, _)| prefix),
            Err(EADDRINUSE)
        );
        number.set(last - 1);
        let (prefix, _socket) = bind_prefix(random).unwrap();
        assert!(prefix > last);
    }

    #[test]
    fn a_message_waits_briefly_for_a_process_that_does_not_read() {
        let name = format!("uroce-cm-test-full.{}", std::process::id());
        let bound = bind(&name).unwrap();
        listen(bound.as_raw_fd()).unwrap();
        let sender = connect(&name).unwrap();
        let receiver = accept(bound.as_raw_fd()).unwrap();
        let send = |number, blocking| send(sender.as_raw_fd(), &message(number), blocking);
        let sent = (0..).find(|number| send(*number, Blocking::No) == Err(EAGAIN));
        let sent = sent.unwrap();
        let start = Instant::now();
        assert_eq!(send(sent, Blocking::Briefly), Err(EAGAIN));
        assert!(start.elapsed() >= BLOCKING_MAX);
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                barrier.wait();
                for number in 0..sent {
                    let got = receive(receiver.as_raw_fd()).unwrap();
                    assert_eq!(got.mad, message(number).mad);
                }
            });
            barrier.wait();
            // Several times: this machine may run the other thread late.
            assert!((0..1000).any(|_| send(sent, Blocking::Briefly) == Ok(())));
        });
        assert_eq!(
            receive(receiver.as_raw_fd()).unwrap().mad,
            message(sent).mad
        );
    }
}
