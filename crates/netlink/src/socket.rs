//! [`Socket`]: a netlink socket to the kernel. The only file of the crate with system calls.

use core::{ffi::c_int, mem, time::Duration};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use ibverbs_abi::Errno;

const ADDRESS_LEN: libc::socklen_t = size_of::<libc::sockaddr_nl>() as libc::socklen_t;

/// Whether [`Socket::receive`] waits for a datagram.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Receive {
    Blocking,
    /// EAGAIN if there is none.
    NonBlocking,
}

/// A netlink socket with a receive buffer. For one thread at a time. Closed on drop, and on exec.
pub struct Socket {
    fd: OwnedFd,
    buffer: Box<[u8]>,
}

impl Socket {
    /// Opens a socket of a netlink family (NETLINK_ROUTE ...) that receives datagrams of up to `buffer_len`
    /// bytes. Fails where the kernel lacks the family or a security policy forbids it.
    pub fn open(family: c_int, buffer_len: usize) -> Result<Socket, Errno> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: socket has no preconditions.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, family) };
        if fd < 0 {
            return Err(Errno::last());
        }
        Ok(Socket {
            // SAFETY: `socket` has just returned the descriptor, so nothing else owns it.
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
            buffer: vec![0; buffer_len].into(),
        })
    }

    /// Lets the kernel choose the socket's address. Otherwise it does so when the first message is sent.
    pub fn bind(&self) -> Result<(), Errno> {
        let any = kernel();
        // SAFETY: `any` is readable for its length during the call.
        let ret = unsafe { libc::bind(self.fd(), (&raw const any).cast(), ADDRESS_LEN) };
        check(ret)
    }

    /// Subscribes to the notifications of a group (RTNLGRP_*).
    pub fn join(&self, group: u32) -> Result<(), Errno> {
        // SAFETY: `group` is readable for its size during the call.
        let ret = unsafe {
            libc::setsockopt(
                self.fd(),
                libc::SOL_NETLINK,
                libc::NETLINK_ADD_MEMBERSHIP,
                (&raw const group).cast(),
                size_of_val(&group) as libc::socklen_t,
            )
        };
        check(ret)
    }

    /// Frees the buffer, but leaves the descriptor open.
    pub fn abandon(self) {
        let _ = self.fd.into_raw_fd();
    }

    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Sends a datagram to the kernel.
    pub fn send(&self, bytes: &[u8]) -> Result<(), Errno> {
        let to = kernel();
        // SAFETY: `bytes` and `to` are readable for the lengths passed, during the call.
        let sent = unsafe {
            libc::sendto(
                self.fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                0,
                (&raw const to).cast(),
                ADDRESS_LEN,
            )
        };
        if sent < 0 { Err(Errno::last()) } else { Ok(()) }
    }

    /// Receives a datagram. Restarts after a signal. EMSGSIZE if the datagram is longer than the buffer,
    /// EPROTO if it has no sender; both are lost then.
    pub fn receive(&mut self, mode: Receive) -> Result<&[u8], Errno> {
        let mut from = kernel();
        let mut iov = libc::iovec {
            iov_base: self.buffer.as_mut_ptr().cast(),
            iov_len: self.buffer.len(),
        };
        // SAFETY: msghdr is a C struct of numbers and pointers, for which zero bytes mean "none".
        let mut msg: libc::msghdr = unsafe { mem::zeroed() };
        msg.msg_name = (&raw mut from).cast();
        msg.msg_iov = &raw mut iov;
        msg.msg_iovlen = 1;
        let flags = match mode {
            Receive::Blocking => 0,
            Receive::NonBlocking => libc::MSG_DONTWAIT,
        };
        let len = loop {
            msg.msg_namelen = ADDRESS_LEN;
            // SAFETY: `msg` points to `from` and to `iov`, which spans `self.buffer`; all three outlive the
            // call, and `&mut self` keeps others from the buffer.
            let len = unsafe { libc::recvmsg(self.fd(), &raw mut msg, flags) };
            match usize::try_from(len) {
                Ok(len) => break len,
                Err(_) if Errno::last() == Errno(libc::EINTR) => {}
                Err(_) => return Err(Errno::last()),
            }
        };
        if len > 0 && msg.msg_flags & libc::MSG_TRUNC != 0 {
            return Err(Errno(libc::EMSGSIZE));
        }
        if len > 0 && msg.msg_namelen != ADDRESS_LEN {
            return Err(Errno(libc::EPROTO));
        }
        Ok(self.buffer.get(..len).unwrap_or_default())
    }

    /// Waits until there is a datagram. False after `timeout`, or after a signal.
    pub fn wait_readable(&self, timeout: Duration) -> bool {
        let mut poll = libc::pollfd {
            fd: self.fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // Rounded up: with the last fraction of a millisecond rounded to 0, the caller would busy-poll.
        let timeout = timeout
            .as_nanos()
            .div_ceil(1_000_000)
            .try_into()
            .unwrap_or(c_int::MAX);
        // SAFETY: one pollfd, exclusively borrowed for the call.
        unsafe { libc::poll(&raw mut poll, 1, timeout) == 1 }
    }
}

/// The kernel's address; also the one to bind to for an address of the kernel's choice.
fn kernel() -> libc::sockaddr_nl {
    // SAFETY: sockaddr_nl consists of integers, for which zero bytes are valid.
    let mut address: libc::sockaddr_nl = unsafe { mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address
}

fn check(ret: c_int) -> Result<(), Errno> {
    if ret == 0 { Ok(()) } else { Err(Errno::last()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{NLM_F_DUMP, Request};

    #[test]
    fn an_unknown_family_is_refused() {
        assert_eq!(
            Socket::open(31, 16).err(),
            Some(Errno(libc::EPROTONOSUPPORT))
        );
    }

    #[test]
    fn waiting_and_receiving_without_a_datagram() {
        let mut socket = Socket::open(libc::NETLINK_ROUTE, 16).unwrap();
        socket.bind().unwrap();
        let start = std::time::Instant::now();
        assert!(!socket.wait_readable(Duration::from_micros(1500)));
        assert!(start.elapsed() >= Duration::from_millis(2));
        assert_eq!(
            socket.receive(Receive::NonBlocking),
            Err(Errno(libc::EAGAIN))
        );
    }

    #[test]
    fn a_datagram_that_is_too_long_is_an_error() {
        let mut socket = Socket::open(libc::NETLINK_ROUTE, 16).unwrap();
        let mut request = Request::new(libc::RTM_GETLINK, NLM_F_DUMP, &[0; 16]);
        socket.send(request.encode(1)).unwrap();
        assert_eq!(
            socket.receive(Receive::Blocking),
            Err(Errno(libc::EMSGSIZE))
        );
    }
}
