//! The socket, its thread, and whom it answers: processes of the same user, and root.
//!
//! The socket's name is in the abstract namespace of unix(7), so no file is left behind. It is visible in
//! the network namespace of the process.
//!
//! Invariant: the thread uses a descriptor only while it is the socket that this module opened. A program
//! may close all descriptors, and get the number again for something of its own.

use core::mem::{ManuallyDrop, MaybeUninit};
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use ibverbs_os::thread;
use ibverbs_os::unix::Peer;

use super::request;
use crate::memory::lock::ForkLock;

/// How long a client may take to send its request, and to receive the answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// When a connection that could not be accepted is tried again.
const RETRY: Duration = Duration::from_millis(100);
/// Longer requests are refused.
const MAX_REQUEST: usize = 64 << 10;
/// Processes in different PID namespaces may have the same PID: then a number follows it.
const MAX_SAME_PID: u32 = 64;

/// Held while the socket is opened and recorded, and across fork.
static OPENING: ForkLock<()> = ForkLock::new(());

/// A descriptor that a child of fork(2) closes.
struct Inherited {
    fd: AtomicI32,
    inode: AtomicU64,
}

static LISTENER: Inherited = Inherited::none();
static CLIENT: Inherited = Inherited::none();

impl Inherited {
    const fn none() -> Inherited {
        Inherited {
            fd: AtomicI32::new(-1),
            inode: AtomicU64::new(0),
        }
    }

    fn set(&self, fd: RawFd) {
        self.inode.store(inode(fd).unwrap_or(0), Ordering::Relaxed);
        self.fd.store(fd, Ordering::Release);
    }

    fn clear(&self) {
        self.fd.store(-1, Ordering::Release);
    }

    /// Whether the descriptor is still the socket that it was.
    fn is_unchanged(&self) -> bool {
        let fd = self.fd.load(Ordering::Acquire);
        fd >= 0 && inode(fd) == Some(self.inode.load(Ordering::Relaxed))
    }

    /// Closes the descriptor, if it is still the socket that it was. No thread uses it: it is a child's copy,
    /// or the thread could not be started. Async-signal-safe.
    fn close(&self) {
        if self.is_unchanged() {
            // SAFETY: the descriptor is a socket of this module, which nobody uses.
            unsafe { libc::close(self.fd.load(Ordering::Acquire)) };
        }
        self.clear();
    }
}

/// The inode of a socket: each has another. None if the descriptor is no socket.
fn inode(fd: RawFd) -> Option<u64> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `stat` is writable, and read only if fstat has filled it.
    let stat = unsafe {
        if libc::fstat(fd, stat.as_mut_ptr()) != 0 {
            return None;
        }
        stat.assume_init()
    };
    (stat.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(stat.st_ino)
}

/// The process whose thread runs, or 0.
static RUNS_IN: AtomicU32 = AtomicU32::new(0);

/// Opens the socket and starts its thread, unless it is open. errno stays.
pub fn start() {
    let pid = std::process::id();
    if RUNS_IN.swap(pid, Ordering::Relaxed) == pid {
        return;
    }
    let errno = ibverbs_abi::Errno::last();
    let _not_cancelled = ibverbs_abi::disable_cancellation();
    let started = open().and_then(|listener| {
        thread::spawn_detached("ibverbs-control", move || run(&listener))
            .inspect_err(|_| LISTENER.close())
    });
    if let Err(error) = started {
        RUNS_IN.store(0, Ordering::Relaxed);
        log::warn!("no control socket: {error}");
    }
    errno.set();
}

/// Registers what a child of fork does: it closes its copies, and gets a socket of its own when it opens a
/// device.
pub fn register_fork_handler() {
    // SAFETY: the handlers use statics only and do not unwind; libc removes them when this library is
    // unloaded.
    unsafe {
        libc::pthread_atfork(
            Some(before_fork),
            Some(after_fork_in_parent),
            Some(after_fork_in_child),
        )
    };
}

extern "C" fn before_fork() {
    OPENING.prepare_fork(|_| ());
}

extern "C" fn after_fork_in_parent() {
    OPENING.after_fork();
}

extern "C" fn after_fork_in_child() {
    let errno = ibverbs_abi::Errno::last();
    OPENING.after_fork();
    RUNS_IN.store(0, Ordering::Relaxed);
    LISTENER.close();
    CLIENT.close();
    errno.set();
}

/// The listening socket, under the first free name.
fn listen() -> io::Result<UnixListener> {
    let pid = std::process::id();
    let mut result = Err(ErrorKind::AddrInUse.into());
    for number in 0..MAX_SAME_PID {
        let name = match number {
            0 => format!("libibverbs-rs/{pid}"),
            _ => format!("libibverbs-rs/{pid}.{number}"),
        };
        result =
            SocketAddr::from_abstract_name(name).and_then(|name| UnixListener::bind_addr(&name));
        match &result {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            _ => break,
        }
    }
    result
}

/// Opens the listening socket and records it, with no fork in between.
fn open() -> io::Result<ManuallyDrop<UnixListener>> {
    let opened = OPENING.with(|()| {
        let listener = listen()?;
        LISTENER.set(listener.as_raw_fd());
        // Not closed on drop: its number may be the program's by then.
        Ok(ManuallyDrop::new(listener))
    });
    opened.unwrap_or_else(|| Err(ErrorKind::WouldBlock.into()))
}

/// Answers requests until the program closes the descriptor. accept(2), unlike poll(2), waits for the socket
/// that had the number when it was called; the next client makes it return.
fn run(listener: &UnixListener) {
    while LISTENER.is_unchanged() {
        match listener.accept() {
            Ok(_) if !LISTENER.is_unchanged() => return,
            Ok((client, _)) => {
                CLIENT.set(client.as_raw_fd());
                if let Err(error) = serve(&client) {
                    log::info!("control socket: {error}");
                }
                CLIENT.clear();
            }
            // EMFILE, for example: the client is still waiting.
            Err(_) => std::thread::sleep(RETRY),
        }
    }
}

/// Reads a request, and sends the answer.
fn serve(client: &UnixStream) -> io::Result<()> {
    if !is_allowed(client) {
        return send(client, &request::refused("this process is of another user"));
    }
    client.set_read_timeout(Some(TIMEOUT))?;
    client.set_write_timeout(Some(TIMEOUT))?;
    let answer = match receive(client)? {
        Some(line) => request::answer(&line),
        None => request::refused("the request is too long"),
    };
    send(client, &answer)
}

/// The request, without its newline; None if it is longer than [`MAX_REQUEST`].
fn receive(client: &UnixStream) -> io::Result<Option<Vec<u8>>> {
    use std::io::Read;
    let until = Instant::now() + TIMEOUT;
    let mut line = Vec::new();
    let mut part = [0; 4096];
    loop {
        let count = (&*client).read(&mut part)?;
        line.extend_from_slice(&part[..count]);
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(end);
            return Ok(Some(line));
        }
        if line.len() > MAX_REQUEST {
            return Ok(None);
        }
        if count == 0 || Instant::now() > until {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Sends all of it. No SIGPIPE if the client has gone.
fn send(client: &UnixStream, mut rest: &[u8]) -> io::Result<()> {
    let until = Instant::now() + TIMEOUT;
    while !rest.is_empty() {
        // SAFETY: the bytes are readable, and the descriptor is open.
        let count = unsafe {
            libc::send(
                client.as_raw_fd(),
                rest.as_ptr().cast(),
                rest.len(),
                libc::MSG_NOSIGNAL,
            )
        };
        match usize::try_from(count) {
            Ok(count) if Instant::now() <= until => rest = &rest[count..],
            Ok(_) => return Err(ErrorKind::TimedOut.into()),
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}

/// Whether the client is of the same user, or root.
fn is_allowed(client: &UnixStream) -> bool {
    Peer::of(client).is_ok_and(|peer| peer.user == 0 || peer.is_own_user())
}
