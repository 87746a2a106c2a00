//! The handshake of two processes of one host: at an abstract unix socket whose name follows from
//! the address and the UDP port of a queue pair. Such names belong to the network namespace, and
//! are free again when their process ends, however it ends.
//!
//! Not here: when a process offers a channel (`offers.rs`), what the channel carries
//! (`channel.rs`).
//!
//! The initiator connects and sends a [`Hello`] with the descriptor of the memory; the acceptor checks both
//! and answers. From then on a byte is a wakeup, and a hang-up says that the process is gone. Both messages
//! say where their sender has what it exports (`crate::direct`), if it exports anything.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use ibverbs_os::unix::{self, Peer};

use super::Peers;
use super::segment::SEGMENT_LEN;
use crate::cancellation;
use crate::direct::TableFd;
use roce::wire::{Flow, gid_of, ip_of};

/// Wakeups that one call reads at most.
pub const MESSAGES_PER_CALL: usize = 256;
/// Changes with everything that both sides have to agree on, as the length of the memory does.
const VERSION: u32 = 9;
const MAGIC: [u8; 8] = *b"uroce-sm";
const PLACE_LEN: usize = 8 + 4;
const HELLO_LEN: usize = 8 + 4 + 4 + 2 * 16 + 2 * 2 + PLACE_LEN;

/// The first message of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The flow from the initiator to the acceptor.
    pub flow: Flow,
    /// The initiator's export table.
    pub exports: TableFd,
}

impl Hello {
    fn bytes(&self) -> [u8; HELLO_LEN] {
        let mut bytes = [0; HELLO_LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_ne_bytes());
        bytes[12..16].copy_from_slice(&(SEGMENT_LEN as u32).to_ne_bytes());
        bytes[16..32].copy_from_slice(&gid_of(self.flow.src));
        bytes[32..48].copy_from_slice(&gid_of(self.flow.dst));
        bytes[48..50].copy_from_slice(&self.flow.src_port.to_ne_bytes());
        bytes[50..52].copy_from_slice(&self.flow.dst_port.to_ne_bytes());
        bytes[52..].copy_from_slice(&place_bytes(&self.exports));
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Hello> {
        let bytes: &[u8; HELLO_LEN] = bytes.try_into().ok()?;
        let gid = |at: usize| bytes[at..at + 16].try_into().ok();
        let port = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let flow = Flow {
            src: ip_of(&gid(16)?),
            dst: ip_of(&gid(32)?),
            src_port: port(48),
            dst_port: port(50),
        };
        let exports = parse_place(&bytes[52..]);
        let hello = Hello { flow, exports };
        // Another version, another length of the memory, or an address in two forms.
        (hello.bytes() == *bytes).then_some(hello)
    }
}

/// The name of a port at an address. A link-local address belongs to an interface.
fn name(ip: IpAddr, port: u16, ifindex: u32) -> String {
    let scope = match ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => ifindex,
        _ => 0,
    };
    format!(
        "uroce-channel.{port}.{:032x}.{scope}",
        u128::from_be_bytes(gid_of(ip))
    )
}

/// Lets initiators connect to a port at an address of this process. EADDRINUSE if another socket has the
/// name.
pub fn listen(ip: IpAddr, port: u16, ifindex: u32) -> io::Result<OwnedFd> {
    let fd = unix::bind(&name(ip, port, ifindex))?;
    unix::listen(fd.as_raw_fd())?;
    Ok(fd)
}

/// Connects to the process that has a port at an address. ECONNREFUSED if there is none, EAGAIN if it does
/// not accept, EPERM if it is none of `peers`.
pub fn connect(ip: IpAddr, port: u16, ifindex: u32, peers: Peers) -> io::Result<OwnedFd> {
    check_user(unix::connect(&name(ip, port, ifindex))?, peers)
}

/// Accepts a connection. EAGAIN if there is none, EPERM if it is of none of `peers`.
pub fn accept(listener: RawFd, peers: Peers) -> io::Result<OwnedFd> {
    check_user(unix::accept(listener)?, peers)
}

/// EPERM unless the other end was opened by one of `peers` (SO_PEERCRED).
fn check_user(fd: OwnedFd, peers: Peers) -> io::Result<OwnedFd> {
    if peers == Peers::AnyUser {
        return Ok(fd);
    }
    match Peer::of(&fd) {
        Ok(peer) if peer.is_own_user() => Ok(fd),
        _ => Err(io::Error::from_raw_os_error(libc::EPERM)),
    }
}

/// Room for a descriptor in a control message, aligned as a `cmsghdr`.
#[repr(C)]
union Control {
    bytes: [u8; 32],
    _align: libc::cmsghdr,
}

/// Bytes of a control message with a descriptor, without padding at its end.
fn control_len() -> usize {
    // SAFETY: CMSG_LEN computes only.
    unsafe { libc::CMSG_LEN(size_of::<RawFd>() as u32) as usize }
}

/// Sends a message. EAGAIN if there is no space.
fn send(fd: RawFd, bytes: &[u8], descriptor: Option<RawFd>) -> io::Result<()> {
    let mut vector = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut control = Control { bytes: [0; 32] };
    // SAFETY: zeros are a valid msghdr. The control message is written within `control`, which has room for
    // it, and everything that the header points to outlives the call.
    let sent = unsafe {
        let mut header: libc::msghdr = core::mem::zeroed();
        header.msg_iov = &mut vector;
        header.msg_iovlen = 1;
        if let Some(descriptor) = descriptor {
            header.msg_control = (&raw mut control).cast();
            header.msg_controllen = control_len() as _;
            let message = libc::CMSG_FIRSTHDR(&header);
            (*message).cmsg_level = libc::SOL_SOCKET;
            (*message).cmsg_type = libc::SCM_RIGHTS;
            (*message).cmsg_len = control_len() as _;
            let data = libc::CMSG_DATA(message).cast::<RawFd>();
            data.write_unaligned(descriptor);
        }
        libc::sendmsg(fd, &header, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    };
    if sent == bytes.len() as isize {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Receives a message. Returns its length and its descriptor. EAGAIN if none has come yet.
fn receive(fd: RawFd, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut vector = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut control = Control { bytes: [0; 32] };
    let mut descriptor = None;
    // SAFETY: zeros are a valid msghdr; everything that it points to is writable and outlives the call.
    // recvmsg has filled in what is read after it. A second descriptor does not fit, and the kernel drops it.
    unsafe {
        let mut header: libc::msghdr = core::mem::zeroed();
        header.msg_iov = &mut vector;
        header.msg_iovlen = 1;
        header.msg_control = (&raw mut control).cast();
        header.msg_controllen = control_len() as _;
        let got = libc::recvmsg(fd, &mut header, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC);
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        let message = libc::CMSG_FIRSTHDR(&header);
        if !message.is_null()
            && (*message).cmsg_level == libc::SOL_SOCKET
            && (*message).cmsg_type == libc::SCM_RIGHTS
            && (*message).cmsg_len as usize >= control_len()
        {
            let data = libc::CMSG_DATA(message).cast::<RawFd>();
            // The kernel has just put the descriptor into this process; nothing else knows it.
            descriptor = Some(OwnedFd::from_raw_fd(data.read_unaligned()));
        }
        Ok((got as usize, descriptor))
    }
}

/// Sends the first message, with the memory's descriptor. EAGAIN if there is no space.
pub fn send_hello(fd: RawFd, hello: &Hello, memory: RawFd) -> io::Result<()> {
    send(fd, &hello.bytes(), Some(memory))
}

/// Receives the first message, with the memory's descriptor. EAGAIN if it has not come yet, EINVAL if it is
/// no [`Hello`] with a descriptor.
pub fn receive_hello(fd: RawFd) -> io::Result<(Hello, OwnedFd)> {
    let mut bytes = [0_u8; HELLO_LEN + 1];
    let (got, memory) = receive(fd, &mut bytes)?;
    let hello = bytes.get(..got).and_then(Hello::parse);
    let (Some(hello), Some(memory)) = (hello, memory) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok((hello, memory))
}

/// Accepts the channel, with what this process exports.
pub fn send_answer(fd: RawFd, exports: TableFd) -> io::Result<()> {
    send(fd, &place_bytes(&exports), None)
}

/// Receives the answer. EAGAIN if it has not come yet, EINVAL if it is none, EPIPE if the peer has hung up.
pub fn receive_answer(fd: RawFd) -> io::Result<TableFd> {
    let mut bytes = [0_u8; PLACE_LEN + 1];
    let (got, _) = receive(fd, &mut bytes)?;
    match got {
        0 => Err(io::Error::from_raw_os_error(libc::EPIPE)),
        PLACE_LEN => Ok(parse_place(&bytes[..PLACE_LEN])),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn place_bytes(place: &TableFd) -> [u8; PLACE_LEN] {
    let mut bytes = [0; PLACE_LEN];
    bytes[..8].copy_from_slice(&place.secret.to_ne_bytes());
    bytes[8..].copy_from_slice(&place.fd.to_ne_bytes());
    bytes
}

/// `bytes` has the length of a place.
fn parse_place(bytes: &[u8]) -> TableFd {
    let (mut secret, mut fd) = ([0; 8], [0; 4]);
    secret.copy_from_slice(&bytes[..8]);
    fd.copy_from_slice(&bytes[8..]);
    TableFd {
        secret: u64::from_ne_bytes(secret),
        fd: RawFd::from_ne_bytes(fd),
    }
}

/// Sends a wakeup. If there is no space, the peer has wakeups to read already.
pub fn send_byte(fd: RawFd) {
    cancellation::send(fd, &[1], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
}

/// Whether the peer has closed its end, or its process has ended. Reads nothing.
pub fn has_hung_up(fd: RawFd) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLRDHUP,
        revents: 0,
    };
    // SAFETY: one element, writable; the call does not block.
    let ready = unsafe { libc::poll(&mut poll, 1, 0) };
    ready > 0 && poll.revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
}

/// The result of [`receive_bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloBytes {
    /// The peer is there. Whether it has sent anything.
    Bytes(bool),
    /// The peer has closed its end, or its process has ended.
    HangUp,
}

/// Reads the bytes that have come, `limit` at most.
pub fn receive_bytes(fd: RawFd, limit: usize) -> HelloBytes {
    let mut any = false;
    // A peer may send without end; what is left makes the descriptor readable again.
    for _ in 0..limit {
        let mut bytes = [0_u8; 16];
        // SAFETY: `bytes` is writable for its length.
        let got = unsafe {
            libc::recv(
                fd,
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                libc::MSG_DONTWAIT,
            )
        };
        if got > 0 {
            any = true;
            continue;
        }
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) if got < 0 => HelloBytes::Bytes(any),
            _ => HelloBytes::HangUp,
        };
    }
    HelloBytes::Bytes(any)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn hello(port: u16) -> Hello {
        Hello {
            flow: Flow {
                src: Ipv4Addr::new(127, 0, 0, 1).into(),
                dst: "fe80::1".parse().unwrap(),
                src_port: port,
                dst_port: 4791,
            },
            exports: TableFd { fd: 5, secret: 6 },
        }
    }

    #[test]
    fn a_descriptor_comes_with_the_hello() {
        let ip = Ipv4Addr::new(127, 0, 0, 9).into();
        assert_eq!(
            connect(ip, 1, 0, Peers::SameUser)
                .unwrap_err()
                .raw_os_error(),
            Some(libc::ECONNREFUSED)
        );
        let listener = listen(ip, 1, 0).unwrap();
        assert!(listen(ip, 1, 0).is_err() && listen(ip, 2, 0).is_ok());
        let ours = connect(ip, 1, 0, Peers::SameUser).unwrap();
        let theirs = accept(listener.as_raw_fd(), Peers::SameUser).unwrap();
        let would_block = receive_hello(theirs.as_raw_fd()).unwrap_err();
        assert_eq!(would_block.kind(), io::ErrorKind::WouldBlock);
        let (_segment, memory) = super::super::segment::Segment::create().unwrap();
        send_hello(ours.as_raw_fd(), &hello(7), memory.as_raw_fd()).unwrap();
        let (got, memory) = receive_hello(theirs.as_raw_fd()).unwrap();
        assert_eq!(got, hello(7));
        assert!(super::super::segment::Segment::open(&memory).is_ok());
        let none_yet = receive_answer(ours.as_raw_fd()).unwrap_err();
        assert_eq!(none_yet.kind(), io::ErrorKind::WouldBlock);
        let exports = hello(7).exports;
        send_answer(theirs.as_raw_fd(), exports).unwrap();
        assert_eq!(receive_answer(ours.as_raw_fd()).unwrap(), exports);
        assert_eq!(receive_bytes(ours.as_raw_fd(), 9), HelloBytes::Bytes(false));
        send_byte(theirs.as_raw_fd());
        send_byte(theirs.as_raw_fd());
        assert_eq!(receive_bytes(ours.as_raw_fd(), 9), HelloBytes::Bytes(true));
        send_byte(theirs.as_raw_fd());
        assert!(!has_hung_up(ours.as_raw_fd()));
        drop(theirs);
        assert!(has_hung_up(ours.as_raw_fd()));
        assert_eq!(receive_bytes(ours.as_raw_fd(), 1), HelloBytes::Bytes(true));
        assert_eq!(receive_bytes(ours.as_raw_fd(), 9), HelloBytes::HangUp);
        let ended = receive_answer(ours.as_raw_fd()).unwrap_err();
        assert_eq!(ended.raw_os_error(), Some(libc::EPIPE));
    }

    #[test]
    fn other_hellos_are_refused() {
        let good = hello(1).bytes();
        assert_eq!(Hello::parse(&good), Some(hello(1)));
        assert_eq!(Hello::parse(&good[1..]), None);
        for at in 0..16 {
            let mut bad = good;
            bad[at] ^= 1;
            assert_eq!(Hello::parse(&bad), None, "{at}");
        }
        // A message without a descriptor.
        let ip = Ipv4Addr::new(127, 0, 0, 10).into();
        let listener = listen(ip, 1, 0).unwrap();
        let ours = connect(ip, 1, 0, Peers::SameUser).unwrap();
        let theirs = accept(listener.as_raw_fd(), Peers::SameUser).unwrap();
        cancellation::send(ours.as_raw_fd(), &good, 0);
        let refused = receive_hello(theirs.as_raw_fd()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
