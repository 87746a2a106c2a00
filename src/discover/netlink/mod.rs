//! RDMA netlink: the list of devices, their char devices, and whether fork copies pinned pages.

pub mod message;

use core::mem;
use ibverbs_abi::Errno;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub use message::{Attributes, Next, Refused, Reply, Request, device_number};

/// As much as the C library reads at once: a kernel that sends more is refused.
const DATAGRAM_MAX: usize = 4 * 4096;

/// A connection to the kernel's RDMA netlink.
pub struct Socket {
    fd: OwnedFd,
    buf: Vec<u8>,
}

impl Socket {
    /// Opens the socket. Fails where the kernel has no RDMA, or does not let us.
    pub fn open() -> Result<Self, Errno> {
        // SAFETY: socket has no conditions.
        let fd = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_RDMA)
        };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: the descriptor is new, and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Socket {
            fd,
            buf: vec![0; DATAGRAM_MAX],
        })
    }

    /// Sends a request and hands the answer's messages to `take`, which ends the answer with false.
    pub fn ask(
        &mut self,
        request: Request,
        mut take: impl FnMut(Attributes) -> bool,
    ) -> Result<(), Refused> {
        self.send(&request.encode())?;
        let mut reply = Reply::default();
        loop {
            let len = self.receive()?;
            let bytes = self.buf.get(..len).unwrap_or_default();
            if len == 0 || reply.datagram(bytes, &mut take)? == Next::Done {
                return Ok(());
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> Result<(), Refused> {
        let to = kernel();
        // SAFETY: `bytes` and `to` are readable for the lengths told.
        let sent = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                0,
                (&raw const to).cast(),
                mem::size_of_val(&to) as libc::socklen_t,
            )
        };
        if sent < 0 {
            Err(Refused::Kernel(Errno::last()))
        } else {
            Ok(())
        }
    }

    /// Receives one datagram into the buffer; its length.
    fn receive(&mut self) -> Result<usize, Refused> {
        let mut from = kernel();
        let mut iov = libc::iovec {
            iov_base: self.buf.as_mut_ptr().cast(),
            iov_len: self.buf.len(),
        };
        // SAFETY: msghdr is a C struct for which zero bytes mean "nothing given".
        let mut msg: libc::msghdr = unsafe { mem::zeroed() };
        msg.msg_name = (&raw mut from).cast();
        msg.msg_iov = &raw mut iov;
        msg.msg_iovlen = 1;
        loop {
            msg.msg_namelen = mem::size_of_val(&from) as libc::socklen_t;
            // SAFETY: `msg` points to `from` and to `iov`, which spans our buffer; all outlive the call.
            let len = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut msg, 0) };
            match usize::try_from(len) {
                Ok(0) => return Ok(0),
                Ok(_) if msg.msg_flags & libc::MSG_TRUNC != 0 => return Err(Refused::Invalid),
                Ok(_) if msg.msg_namelen as usize != mem::size_of_val(&from) => {
                    return Err(Refused::Invalid);
                }
                Ok(len) => return Ok(len),
                Err(_) if Errno::last() == Errno(libc::EINTR) => {}
                Err(_) => return Err(Refused::Kernel(Errno::last())),
            }
        }
    }
}

/// The kernel's address.
fn kernel() -> libc::sockaddr_nl {
    // SAFETY: sockaddr_nl is plain numbers, all of which may be zero.
    let mut address: libc::sockaddr_nl = unsafe { mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address
}

/// Whether the kernel copies pinned pages at fork, so that ibv_fork_init has nothing to do.
/// No, where it does not say.
pub fn copy_on_fork() -> bool {
    let mut copies = false;
    let asked = Socket::open().is_ok_and(|mut socket| {
        let take = |found: Attributes| {
            copies = found.copy_on_fork.is_some_and(|value| value != 0);
            true
        };
        socket.ask(Request::System, take).is_ok()
    });
    asked && copies
}
