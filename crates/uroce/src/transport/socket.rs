//! Sockets: one for each port and entry of the GID table.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket as Socket2, Type};

use super::gid_table::Slot;
use crate::wire::PORT;

/// What a socket's buffers are to hold, if the system lets us.
const BUFFER: usize = 8 << 20;

/// Of linux/udp.h; libc has no name for it.
const UDP_NO_CHECK6_RX: i32 = 102;

/// A UDP socket at an address of the device, or of a multicast group.
pub struct Socket {
    socket: Socket2,
    /// What it is bound to.
    pub slot: Slot,
    pub port: u16,
    /// The kernel cuts several packets out of one buffer (UDP_SEGMENT).
    segments: AtomicBool,
}

/// Sets an option: most are numbers.
fn set<T: Copy>(socket: &Socket2, level: i32, option: i32, value: T) -> io::Result<()> {
    // SAFETY: the value lives during the call, and is plain bytes, as many as told.
    let ret = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<T>() as u32,
        )
    };
    if ret == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The socket address of an IP address; `interface` is where link-local ones are.
pub fn address(ip: IpAddr, port: u16, interface: u32) -> SocketAddr {
    match ip {
        IpAddr::V4(ip) => SocketAddrV4::new(ip, port).into(),
        IpAddr::V6(ip) => {
            // ff02::/16 and ff01::/16 too.
            let scoped = ip.is_unicast_link_local()
                || matches!(ip.octets(), [0xff, scope, ..] if matches!(scope & 0xf, 1 | 2));
            SocketAddrV6::new(ip, port, 0, if scoped { interface } else { 0 }).into()
        }
    }
}

impl Socket {
    /// Opens a socket at an address of the device, for itself alone: EADDRINUSE if another has the port
    /// there. The address may be one that is not usable now (127.0.0.0/8 while `lo` is down).
    pub fn open(slot: Slot, port: u16, interface: u32) -> io::Result<Socket> {
        let socket = new(slot.ip)?;
        socket.set_freebind_v4(true)?;
        // To be on the wire with no identification and DF set, as the ICRC has it; to send to groups on
        // the device's interface.
        let (mtu, multicast) = match slot.ip {
            IpAddr::V4(_) => (
                set(
                    &socket,
                    libc::IPPROTO_IP,
                    libc::IP_MTU_DISCOVER,
                    libc::IP_PMTUDISC_DO,
                ),
                multicast_from(&socket, interface),
            ),
            IpAddr::V6(_) => (
                set(
                    &socket,
                    libc::IPPROTO_IPV6,
                    libc::IPV6_MTU_DISCOVER,
                    libc::IPV6_PMTUDISC_DO,
                ),
                socket.set_multicast_if_v6(interface),
            ),
        };
        // Peers of ours can do without the first, and most programs without the second.
        if let Err(error) = mtu.and(multicast) {
            log::warn!("uroce: a socket option at {}: {error}", slot.ip);
        }
        socket.bind(&address(slot.ip, port, interface).into())?;
        Ok(Socket {
            socket,
            slot,
            port,
            segments: AtomicBool::new(true),
        })
    }

    /// Opens a socket that receives the datagrams to a multicast group on the interface; other processes
    /// may have the same.
    pub fn join(group: Slot, interface: u32) -> io::Result<Socket> {
        let socket = new(group.ip)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address(group.ip, PORT, interface).into())?;
        match group.ip {
            IpAddr::V4(ip) => {
                // Not what came through other sockets' memberships, on other interfaces.
                set(&socket, libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0)?;
                socket.join_multicast_v4_n(&ip, &InterfaceIndexOrAddress::Index(interface))?;
            }
            IpAddr::V6(ip) => {
                const IPV6_MULTICAST_ALL: i32 = 29;
                set(&socket, libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0)?;
                socket.join_multicast_v6(&ip, interface)?;
            }
        }
        Ok(Socket {
            socket,
            slot: group,
            port: PORT,
            segments: AtomicBool::new(false),
        })
    }

    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub fn segments(&self) -> bool {
        self.segments.load(Ordering::Relaxed)
    }

    /// The kernel has refused to cut buffers of this socket: the way out cannot compute checksums, say.
    pub fn no_segments(&self) {
        self.segments.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
impl Socket {
    /// Makes the kernel refuse UDP_SEGMENT (it does without checksums) from now on.
    pub fn refuse_segments(&self) {
        set(&self.socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
    }
}

/// Sends to IPv4 groups on an interface (socket2 can name it by address only).
fn multicast_from(socket: &Socket2, interface: u32) -> io::Result<()> {
    let request = libc::ip_mreqn {
        imr_multiaddr: libc::in_addr { s_addr: 0 },
        imr_address: libc::in_addr {
            s_addr: Ipv4Addr::UNSPECIFIED.to_bits(),
        },
        imr_ifindex: interface as i32,
    };
    set(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, request)
}

/// What all sockets have: large buffers, and each datagram told with its TTL and service, several of
/// one sender in one piece where the kernel can (UDP_GRO).
fn new(ip: IpAddr) -> io::Result<Socket2> {
    let domain = if ip.is_ipv4() {
        Domain::IPV4
    } else {
        Domain::IPV6
    };
    let kind = Type::DGRAM.nonblocking().cloexec();
    let socket = Socket2::new(domain, kind, Some(Protocol::UDP))?;
    let force = |option, value: usize| set(&socket, libc::SOL_SOCKET, option, value as i32);
    if force(libc::SO_RCVBUFFORCE, BUFFER).is_err() {
        socket.set_recv_buffer_size(BUFFER)?;
    }
    if force(libc::SO_SNDBUFFORCE, BUFFER).is_err() {
        socket.set_send_buffer_size(BUFFER)?;
    }
    let told: &[(i32, i32)] = match ip {
        IpAddr::V4(_) => &[
            (libc::IPPROTO_IP, libc::IP_RECVTTL),
            (libc::IPPROTO_IP, libc::IP_RECVTOS),
        ],
        IpAddr::V6(_) => {
            socket.set_only_v6(true)?;
            &[
                (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
                (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
                (libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO),
                // RoCE may do without the UDP checksum, as Soft-RoCE and RNICs do.
                (libc::SOL_UDP, UDP_NO_CHECK6_RX),
            ]
        }
    };
    // What the kernel does not tell is zero then. UDP_GRO is Linux 5.0's.
    for &(level, option) in told.iter().chain(&[(libc::SOL_UDP, libc::UDP_GRO)]) {
        if let Err(error) = set(&socket, level, option, 1) {
            log::debug!("uroce: socket option {level}/{option}: {error}");
        }
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv6Addr, UdpSocket};
    use std::time::Duration;

    use super::*;

    #[test]
    fn datagrams_over_ipv6_without_a_checksum_are_received() {
        const UDP_NO_CHECK6_TX: i32 = 101;
        let loopback = Ipv6Addr::LOCALHOST;
        let receiver = new(loopback.into()).unwrap();
        receiver
            .bind(&SocketAddr::from((loopback, 0)).into())
            .unwrap();
        let receiver = UdpSocket::from(receiver);
        receiver.set_nonblocking(false).unwrap();
        receiver
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let sender = Socket2::new(Domain::IPV6, Type::DGRAM, None).unwrap();
        set(&sender, libc::SOL_UDP, UDP_NO_CHECK6_TX, 1).unwrap();
        let to = receiver.local_addr().unwrap();
        sender.send_to(b"no checksum", &to.into()).unwrap();
        let mut got = [0; 100];
        assert_eq!(receiver.recv(&mut got).unwrap(), 11);
    }
}
