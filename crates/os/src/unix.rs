//! Unix sockets: abstract names, and the process at the other end (unix(7)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// The process that connected a socket, or that called listen(2) on it: as it was then. It may have ended,
/// and passed the descriptor on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The process ID in the PID namespace of the caller; 0 if it has no PID there.
    pub pid: libc::pid_t,
    /// Effective user, in the user namespace of the caller; 65534 if it has no number there.
    pub user: libc::uid_t,
}

impl Peer {
    /// The other end of a connected unix socket (SO_PEERCRED). Fails as getsockopt(2) does.
    pub fn of(socket: impl AsFd) -> io::Result<Peer> {
        let mut peer = libc::ucred {
            pid: 0,
            uid: libc::uid_t::MAX,
            gid: libc::gid_t::MAX,
        };
        let mut size = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: `peer` is writable for `size` bytes.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut peer).cast(),
                &mut size,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Peer {
            pid: peer.pid,
            user: peer.uid,
        })
    }

    /// Whether it is of the same effective user as this process.
    pub fn is_own_user(&self) -> bool {
        self.user == own_user() && (is_number(self.user) || self.is_in_own_user_namespace())
    }

    /// Whether the process is in the user namespace of this one. False if this process may not know.
    pub fn is_in_own_user_namespace(&self) -> bool {
        let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/user")).ok();
        namespace("self").is_some_and(|own| namespace(&self.pid.to_string()) == Some(own))
    }
}

/// Whether the number stands for one user only. All users without a number in this process's user namespace
/// have that of the user "nobody".
pub fn is_number(user: libc::uid_t) -> bool {
    const NOBODY: libc::uid_t = 65534;
    user != NOBODY || std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| has_all(&map))
}

/// Whether a map of user IDs (user_namespaces(7)) has all of them, as that of the initial namespace.
fn has_all(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// The effective user of this process.
pub fn own_user() -> libc::uid_t {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() }
}

/// The address of an abstract name, and its length. A name longer than 107 bytes is cut.
pub fn abstract_address(name: &str) -> (libc::sockaddr_un, libc::socklen_t) {
    // SAFETY: zeros are a valid sockaddr_un, a structure of integers.
    let mut address: libc::sockaddr_un = unsafe { core::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // Behind the NUL that makes it an abstract name.
    let room = &mut address.sun_path[1..];
    let len = name.len().min(room.len());
    for (to, from) in room.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let before = core::mem::offset_of!(libc::sockaddr_un, sun_path);
    (address, (before + 1 + len) as libc::socklen_t)
}

/// Connections that may wait to be accepted: as many as Linux allows by default (net.core.somaxconn). A
/// program may send requests for thousands of connections in a row.
const BACKLOG: libc::c_int = 4096;

/// Takes an abstract name with a socket of type SOCK_SEQPACKET, which does not block. Nobody can connect to
/// it before [`listen`]. EADDRINUSE if another socket of the network namespace has the name.
pub fn bind(name: &str) -> io::Result<OwnedFd> {
    let fd = socket(libc::SOCK_SEQPACKET)?;
    let (address, len) = abstract_address(name);
    // SAFETY: `address` is readable for `len` bytes.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
    Ok(fd)
}

/// Lets others connect to a socket with a name. Fails as listen(2) does.
pub fn listen(socket: RawFd) -> io::Result<()> {
    // SAFETY: listen takes no pointers.
    check(unsafe { libc::listen(socket, BACKLOG) })
}

/// Connects a socket of type SOCK_SEQPACKET, which does not block, to an abstract name. ECONNREFUSED if
/// nobody listens there, EAGAIN if its process does not accept.
pub fn connect(name: &str) -> io::Result<OwnedFd> {
    connected(socket(libc::SOCK_SEQPACKET)?, name)
}

/// As [`connect`], of type SOCK_STREAM.
pub fn connect_stream(name: &str) -> io::Result<UnixStream> {
    connected(socket(libc::SOCK_STREAM)?, name).map(UnixStream::from)
}

fn connected(fd: OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let (address, len) = abstract_address(name);
    // SAFETY: `address` is readable for `len` bytes.
    check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
    Ok(fd)
}

/// Accepts a connection, which does not block. EAGAIN if there is none.
pub fn accept(listener: RawFd) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let none = core::ptr::null_mut();
    // SAFETY: the address of the peer is not asked for. What accept4 returns is new, so nothing owns it.
    unsafe { owned(libc::accept4(listener, none, core::ptr::null_mut(), flags)) }
}

/// A socket that does not block.
fn socket(kind: libc::c_int) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket takes no pointers. What it returns is new, so nothing owns it.
    unsafe { owned(libc::socket(libc::AF_UNIX, kind, 0)) }
}

/// Owns what a system call has returned. Fails with errno if that is negative.
///
/// # Safety
/// A descriptor that is not negative is open, and nothing else owns it.
pub unsafe fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and this is its only owner, as the caller says.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Fails with errno if what a system call has returned is negative.
pub fn check(result: impl Into<i64>) -> io::Result<()> {
    if result.into() < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The unix sockets of this network namespace: the text of /proc/net/unix. Bytes of names that are no UTF-8,
/// which any user's process may choose, are replaced.
pub fn table() -> io::Result<String> {
    let bytes = std::fs::read("/proc/net/unix")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    #[test]
    fn the_peer_of_a_connection_is_this_process() {
        let (one, other) = UnixStream::pair().unwrap();
        let own = Peer {
            pid: std::process::id() as libc::pid_t,
            user: own_user(),
        };
        assert_eq!(Peer::of(&one).unwrap(), own);
        assert_eq!(Peer::of(&other).unwrap(), own);
        assert!(own.is_own_user() && own.is_in_own_user_namespace());
        let other = Peer {
            user: own.user + 1,
            ..own
        };
        assert!(!other.is_own_user());
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = Peer::of(&file).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
    }

    #[test]
    fn the_table_shows_all_sockets_whatever_their_names_are() {
        let bind = |name: &[u8]| {
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
        };
        let name = format!("libibverbs-rs-table/{}", std::process::id());
        let _sockets = [
            bind(&[name.as_bytes(), b"\xff\xfe"].concat()),
            bind(name.as_bytes()),
        ];
        let table = table().unwrap();
        let lines = table.lines().filter(|line| line.contains(&name));
        assert_eq!(lines.count(), 2);
    }

    #[test]
    fn maps_of_user_ids() {
        assert!(has_all("         0          0 4294967295\n"));
        for map in [
            "",
            "0 1000 1\n",
            "0 0 65536\n",
            "0 1000 1\n1 100000 65536\n",
        ] {
            assert!(!has_all(map), "{map:?}");
        }
    }

    #[test]
    fn an_abstract_address_is_that_of_the_standard_library() {
        let name = format!("ibverbs-os-test.{}", std::process::id());
        let listener =
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let client = UnixStream::connect_addr(&listener.local_addr().unwrap()).unwrap();
        let mut got: libc::sockaddr_un = abstract_address("").0;
        let mut size = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        // SAFETY: `got` is writable for `size` bytes.
        let result =
            unsafe { libc::getpeername(client.as_raw_fd(), (&raw mut got).cast(), &mut size) };
        let (expected, len) = abstract_address(&name);
        assert_eq!((result, size), (0, len));
        assert_eq!(got.sun_path, expected.sun_path);
        let (_, longest) = abstract_address(&"x".repeat(200));
        assert_eq!(longest as usize, size_of::<libc::sockaddr_un>());
    }

    #[test]
    fn a_name_has_one_socket_that_others_connect_to() {
        let name = format!("ibverbs-os-test-name.{}", std::process::id());
        let errno = |result: io::Result<OwnedFd>| result.unwrap_err().raw_os_error();
        let bound = bind(&name).unwrap();
        assert_eq!(errno(bind(&name)), Some(libc::EADDRINUSE));
        assert_eq!(errno(connect(&name)), Some(libc::ECONNREFUSED));
        listen(bound.as_raw_fd()).unwrap();
        assert_eq!(errno(accept(bound.as_raw_fd())), Some(libc::EAGAIN));
        let client = connect(&name).unwrap();
        let server = accept(bound.as_raw_fd()).unwrap();
        assert_eq!(Peer::of(&server).unwrap(), Peer::of(&client).unwrap());
        drop(bound);
        assert_eq!(errno(connect(&name)), Some(libc::ECONNREFUSED));
        bind(&name).unwrap();
    }

    #[test]
    fn nobody_waits_for_a_process_that_accepts_no_connections() {
        let name = format!("ibverbs-os-test-full.{}", std::process::id());
        let listener =
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        // SAFETY: listen takes no pointers.
        check(unsafe { libc::listen(listener.as_raw_fd(), 0) }).unwrap();
        let _first = connect_stream(&name).unwrap();
        let error = connect_stream(&name).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_thousand_connections_wait_to_be_accepted() {
        let limit = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        let count = limit.trim().parse().unwrap_or(128).min(1000);
        let name = format!("ibverbs-os-test-backlog.{}", std::process::id());
        let bound = bind(&name).unwrap();
        listen(bound.as_raw_fd()).unwrap();
        for _ in 0..count {
            // Closed at once, as by a process that passes one message on.
            connect(&name).unwrap();
        }
        for _ in 0..count {
            accept(bound.as_raw_fd()).unwrap();
        }
    }
}
