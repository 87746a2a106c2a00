//! UDP sockets: one for each port and entry of the GID table, and one for each multicast group.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket as Socket2, Type};

use super::gid_table::GidAddress;
use crate::wire::PORT;

/// The size of a socket's receive and send buffers in bytes, as far as the system permits it.
const BUFFER_LEN: usize = 8 << 20;

/// Of linux/udp.h; not in the libc crate.
const UDP_NO_CHECK6_RX: i32 = 102;

/// A UDP socket at an address of the device, or of a multicast group.
pub struct Socket {
    socket: Socket2,
    /// The address that it is bound to.
    pub local: GidAddress,
    /// The UDP port that it is bound to.
    pub port: u16,
    /// Whether to send with UDP_SEGMENT.
    gso: AtomicBool,
}

/// Sets a socket option that socket2 does not have.
fn set<T: Copy>(socket: &Socket2, level: i32, option: i32, value: T) -> io::Result<()> {
    // SAFETY: `value` is readable for its size during the call.
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

/// The socket address of an IP address; `interface` is the index of the interface for link-local ones.
pub fn address(ip: IpAddr, port: u16, interface: u32) -> SocketAddr {
    match ip {
        IpAddr::V4(ip) => SocketAddrV4::new(ip, port).into(),
        IpAddr::V6(ip) => {
            // Also interface-local and link-local multicast, ff01::/16 and ff02::/16.
            let scoped = ip.is_unicast_link_local()
                || matches!(ip.octets(), [0xff, scope, ..] if matches!(scope & 0xf, 1 | 2));
            SocketAddrV6::new(ip, port, 0, if scoped { interface } else { 0 }).into()
        }
    }
}

impl Socket {
    /// Opens a socket at an address of the device. EADDRINUSE if another socket has the port there. The
    /// address need not be usable now (127.0.0.0/8 while `lo` is down).
    pub fn open(local: GidAddress, port: u16, interface: u32) -> io::Result<Socket> {
        let socket = new(local.ip)?;
        socket.set_freebind_v4(true)?;
        // IP_PMTUDISC_DO: identification 0 and "don't fragment", as the ICRC is computed. And multicast
        // leaves through the device's interface.
        let (mtu, multicast) = match local.ip {
            IpAddr::V4(_) => (
                set(
                    &socket,
                    libc::IPPROTO_IP,
                    libc::IP_MTU_DISCOVER,
                    libc::IP_PMTUDISC_DO,
                ),
                set_multicast_if_v4(&socket, interface),
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
        // Not fatal: uroce's receivers accept any identification, and few programs use multicast.
        if let Err(error) = mtu.and(multicast) {
            log::warn!("uroce: a socket option at {}: {error}", local.ip);
        }
        socket.bind(&address(local.ip, port, interface).into())?;
        Ok(Socket {
            socket,
            local,
            port,
            gso: AtomicBool::new(true),
        })
    }

    /// Opens a socket that receives the datagrams to a multicast group on the interface. Other processes may
    /// join the same group.
    pub fn join(group: GidAddress, interface: u32) -> io::Result<Socket> {
        let socket = new(group.ip)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address(group.ip, PORT, interface).into())?;
        match group.ip {
            IpAddr::V4(ip) => {
                // Not the datagrams that other sockets' memberships bring, on other interfaces.
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
            local: group,
            port: PORT,
            gso: AtomicBool::new(false),
        })
    }

    /// The descriptor, open as long as the socket lives.
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Whether to send with GSO (UDP_SEGMENT).
    pub fn gso(&self) -> bool {
        self.gso.load(Ordering::Relaxed)
    }

    /// Stops the use of GSO: the kernel refuses it for this socket, for example because the network device
    /// does not compute checksums.
    pub fn disable_gso(&self) {
        self.gso.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
impl Socket {
    /// Makes the kernel refuse UDP_SEGMENT from now on: it needs checksums.
    pub fn make_gso_fail(&self) {
        set(&self.socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
    }
}

/// Sets the interface that multicast datagrams leave through, by index; socket2 takes its address only.
fn set_multicast_if_v4(socket: &Socket2, interface: u32) -> io::Result<()> {
    let request = libc::ip_mreqn {
        imr_multiaddr: libc::in_addr { s_addr: 0 },
        imr_address: libc::in_addr {
            s_addr: Ipv4Addr::UNSPECIFIED.to_bits(),
        },
        imr_ifindex: interface as i32,
    };
    set(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, request)
}

/// A socket with the options that all have: large buffers; hop limit and traffic class reported with each
/// datagram; and UDP_GRO, where the kernel has it.
fn new(ip: IpAddr) -> io::Result<Socket2> {
    let domain = if ip.is_ipv4() {
        Domain::IPV4
    } else {
        Domain::IPV6
    };
    let kind = Type::DGRAM.nonblocking().cloexec();
    let socket = Socket2::new(domain, kind, Some(Protocol::UDP))?;
    let force = |option, value: usize| set(&socket, libc::SOL_SOCKET, option, value as i32);
    if force(libc::SO_RCVBUFFORCE, BUFFER_LEN).is_err() {
        socket.set_recv_buffer_size(BUFFER_LEN)?;
    }
    if force(libc::SO_SNDBUFFORCE, BUFFER_LEN).is_err() {
        socket.set_send_buffer_size(BUFFER_LEN)?;
    }
    let reported: &[(i32, i32)] = match ip {
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
                // RoCE packets may lack the UDP checksum, as those of Soft-RoCE and RNICs do.
                (libc::SOL_UDP, UDP_NO_CHECK6_RX),
            ]
        }
    };
    // Not fatal: what the kernel does not report counts as 0. UDP_GRO needs Linux 5.0.
    for &(level, option) in reported.iter().chain(&[(libc::SOL_UDP, libc::UDP_GRO)]) {
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
