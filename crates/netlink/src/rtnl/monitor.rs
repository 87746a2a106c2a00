//! [`RtnlMonitor`]: notifications of changes.

use std::os::fd::RawFd;

use ibverbs_abi::Errno;

use super::DATAGRAM_MAX;
use crate::message::{messages, u32_value};
use crate::socket::{Receive, Socket};

/// Whether a datagram notifies of a change of an interface or of its addresses.
pub fn concerns(datagram: &[u8], interface: u32) -> bool {
    messages(datagram).any(|message| match message.kind {
        libc::RTM_NEWLINK | libc::RTM_DELLINK | libc::RTM_NEWADDR | libc::RTM_DELADDR => {
            // `ifi_index` and `ifa_index` are at the same offset.
            message.payload.get(4..).and_then(u32_value) == Some(interface)
        }
        _ => false,
    })
}

/// A socket that receives notifications of changed interfaces and addresses. For one thread at a time.
pub struct RtnlMonitor {
    socket: Socket,
}

impl RtnlMonitor {
    /// Subscribes, in the network namespace of the calling thread.
    pub fn open() -> Result<RtnlMonitor, Errno> {
        let socket = Socket::open(libc::NETLINK_ROUTE, DATAGRAM_MAX)?;
        socket.bind()?;
        for group in [
            libc::RTNLGRP_LINK,
            libc::RTNLGRP_IPV4_IFADDR,
            libc::RTNLGRP_IPV6_IFADDR,
        ] {
            socket.join(group)?;
        }
        Ok(RtnlMonitor { socket })
    }

    /// The socket's descriptor, readable when there is a notification; owned by the monitor.
    pub fn fd(&self) -> RawFd {
        self.socket.fd()
    }

    /// Reads all pending notifications without blocking. True if the interface or its addresses may have
    /// changed.
    pub fn drain(&mut self, interface: u32) -> bool {
        let mut changed = false;
        loop {
            match self.socket.receive(Receive::NonBlocking) {
                Ok(datagram) => changed = changed || concerns(datagram, interface),
                // Notifications were lost: the socket's buffer or this one was too small.
                Err(Errno(libc::ENOBUFS | libc::EMSGSIZE)) => changed = true,
                Err(_) => return changed,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::message;

    #[test]
    fn what_concerns_an_interface() {
        let link = message(libc::RTM_NEWLINK, 0, 0, &[0, 0, 0, 0, 7, 0, 0, 0]);
        assert!(concerns(&link, 7));
        assert!(!concerns(&link, 8));
        let gone = message(libc::RTM_DELADDR, 0, 0, &[2, 24, 0, 0, 8, 0, 0, 0]);
        let both = [gone.clone(), link.clone()].concat();
        assert!(concerns(&both, 7) && concerns(&both, 8));
        assert!(!concerns(
            &message(libc::RTM_NEWROUTE, 0, 0, &[0, 0, 0, 0, 7, 0, 0, 0]),
            7
        ));
        // Cut off, or with an impossible length.
        assert!(!concerns(&link[..link.len() - 1], 7));
        assert!(!concerns(&[0; 64], 7));
        assert!(!concerns(&message(libc::RTM_NEWLINK, 0, 0, &[0; 3]), 0));
    }

    #[test]
    fn nothing_changes_by_itself() {
        assert!(!RtnlMonitor::open().unwrap().drain(u32::MAX >> 1));
    }
}
