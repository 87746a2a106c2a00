//! UDP sockets: opens and configures one for each port and entry of the GID table, and one for each
//! multicast group.
//!
//! Not here: the sockets that a device has (`net.rs`, `socket_table.rs`), sending and receiving
//! through them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ibverbs_os::unix;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Type};

use super::gid_table::GidAddress;
use super::ip_id::{IpIds, LAST_LOW_ID};
use crate::descriptors::{self, LastCheck, Owned};
use roce::engine::AddressVector;
use roce::wire::{PORT, ip_of};

type Socket2 = Owned<socket2::Socket>;

/// The size of a socket's receive and send buffers in bytes, as far as the system permits it.
const BUFFER_LEN: usize = 8 << 20;

/// A socket option of linux/udp.h; not in the libc crate.
const UDP_NO_CHECK6_RX: i32 = 102;

/// A UDP socket at an address of the device, or of a multicast group.
pub struct Socket {
    socket: Socket2,
    /// The address that it is bound to.
    pub local: GidAddress,
    /// The UDP port that it is bound to.
    pub port: u16,
    /// The IPv4 identifications of the packets that it receives. Nothing to do with IPv6.
    pub ids: IpIds,
    /// The socket at the same address and port that receives the packets with other identifications.
    pub others: Option<Arc<Socket>>,
    /// See [`split_by_id`].
    _guard: Option<Socket2>,
    /// Whether to send with UDP_SEGMENT.
    gso: AtomicBool,
    last_check: LastCheck,
}

/// Sets a socket option that socket2 does not have.
fn set<T: Copy>(socket: &socket2::Socket, level: i32, option: i32, value: T) -> io::Result<()> {
    // SAFETY: `value` is readable for its size during the call.
    unix::check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<T>() as u32,
        )
    })
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
    /// The address that a packet goes to.
    pub fn destination(&self, av: &AddressVector) -> IpAddr {
        if av.dgid == self.local.gid {
            self.local.ip
        } else {
            ip_of(&av.dgid)
        }
    }

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
        // Not fatal: few programs use multicast, and Linux has IP_MTU_DISCOVER. (To its peers, a
        // system that sets other identifications, or no DF, is a sender that numbers its packets.)
        if let Err(error) = mtu.and(multicast) {
            log::warn!("uroce: a socket option at {}: {error}", local.ip);
        }
        socket.bind(&address(local.ip, port, interface).into())?;
        let new = |socket, ids, others| Socket {
            socket,
            local,
            port,
            ids,
            others,
            _guard: None,
            gso: AtomicBool::new(true),
            last_check: LastCheck::default(),
        };
        // Only uroce sends to other ports than 4791.
        let IpAddr::V4(ip) = local.ip else {
            return Ok(new(socket, IpIds::Low, None));
        };
        if port != PORT {
            return Ok(new(socket, IpIds::Low, None));
        }
        match split_by_id(&socket, ip, port) {
            Ok((others, guard)) => {
                let others = Socket {
                    _guard: Some(guard),
                    ..new(others, IpIds::Others, None)
                };
                Ok(new(socket, IpIds::Low, Some(Arc::new(others))))
            }
            Err(error) => {
                log::debug!("uroce: no filter at {}: {error}", local.ip);
                report_arrival(&socket);
                Ok(new(socket, IpIds::Any, None))
            }
        }
    }

    /// Opens a socket that receives the datagrams to a multicast group on the interface. Other processes may
    /// join the same group.
    pub fn join(group: GidAddress, interface: u32) -> io::Result<Socket> {
        if group.ip.is_ipv6() {
            return Socket::join_with(group, interface, IpIds::Low);
        }
        // The kernel gives each of the two sockets a copy of each packet; their filters drop it in one.
        let both = Socket::join_with(group, interface, IpIds::Low)
            .and_then(|low| Ok((low, Socket::join_with(group, interface, IpIds::Others)?)));
        match both {
            Ok((mut low, others)) => {
                low.others = Some(Arc::new(others));
                Ok(low)
            }
            Err(_) => Socket::join_with(group, interface, IpIds::Any),
        }
    }

    /// Opens a socket of a group that receives the packets with these identifications.
    fn join_with(group: GidAddress, interface: u32, ids: IpIds) -> io::Result<Socket> {
        let socket = new(group.ip)?;
        if ids != IpIds::Low {
            report_arrival(&socket);
        }
        if group.ip.is_ipv4() && ids != IpIds::Any {
            const ALL: u32 = u32::MAX;
            let verdicts = if ids == IpIds::Low {
                [ALL, 0]
            } else {
                [0, ALL]
            };
            attach_id_filter(&socket, libc::SO_ATTACH_FILTER, verdicts)?;
        }
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
            ids,
            others: None,
            _guard: None,
            gso: AtomicBool::new(false),
            last_check: LastCheck::default(),
        })
    }

    /// Whether the descriptor is that of the socket, as of the last few milliseconds: the program may have
    /// closed it, and have a descriptor of its own with the number.
    pub fn is_ours(&self) -> bool {
        self.socket.was_unchanged(&self.last_check)
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

/// Has the kernel report when each datagram arrived: see [`RecvMeta::arrived`]. Where it does not, the time
/// of receiving serves.
///
/// [`RecvMeta::arrived`]: super::cmsg::RecvMeta::arrived
fn report_arrival(socket: &Socket2) {
    if let Err(error) = set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1) {
        log::debug!("uroce: the kernel does not report when datagrams arrive: {error}");
    }
}

/// Opens a second socket at the address of `socket`, which gets the packets whose identifications are not
/// low: the kernel knows them, and the receiver does not. Also returns a guard, which must stay open as
/// long.
///
/// The two sockets form a group (SO_REUSEPORT) in which a filter program selects the socket for each
/// packet. The guard keeps the sockets of other programs out of the group: bind(2) compares a new socket
/// with the one that was bound last, and the guard does not share. It gets no packets, because the kernel
/// prefers IPv4 sockets for them.
fn split_by_id(socket: &Socket2, local: Ipv4Addr, port: u16) -> io::Result<(Socket2, Socket2)> {
    let others = new(local.into())?;
    report_arrival(&others);
    others.set_freebind_v4(true)?;
    others.set_reuse_port(true)?;
    let guard = open_udp(Domain::IPV6, Type::DGRAM.cloexec())?;
    guard.set_only_v6(false)?;
    guard.set_freebind_v4(true)?;
    socket.set_reuse_port(true)?;
    let shared = others
        .bind(&address(local.into(), port, 0).into())
        // Indices in the group, in the order of joining.
        .and_then(|()| attach_id_filter(socket, libc::SO_ATTACH_REUSEPORT_CBPF, [0, 1]))
        .and_then(|()| {
            let all = [socket, &others, &guard];
            all.iter().try_for_each(|one| one.set_reuse_address(true))?;
            let bound = guard.bind(&address(local.to_ipv6_mapped().into(), port, 0).into());
            all.iter()
                .try_for_each(|one| one.set_reuse_address(false))?;
            bound
        });
    if let Err(error) = shared {
        socket.set_reuse_port(false)?;
        return Err(error);
    }
    Ok((others, guard))
}

/// Attaches a program (classic BPF) that returns the first verdict for packets with DF and a low
/// identification, and the second for all others.
fn attach_id_filter(socket: &Socket2, option: i32, verdicts: [u32; 2]) -> io::Result<()> {
    /// The offset at which such a program finds the IP header.
    const IP: u32 = libc::SKF_NET_OFF as u32;
    const DONT_FRAGMENT: u32 = 0x4000;
    let [low, others] = verdicts;
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    use libc::{BPF_ABS, BPF_H, BPF_JEQ, BPF_JGT, BPF_JMP, BPF_K, BPF_LD, BPF_RET};
    let program = [
        // Flags and fragment offset.
        step(BPF_LD | BPF_H | BPF_ABS, 0, 0, IP + 6),
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, DONT_FRAGMENT),
        step(BPF_LD | BPF_H | BPF_ABS, 0, 0, IP + 4),
        step(BPF_JMP | BPF_JGT | BPF_K, 1, 0, LAST_LOW_ID.into()),
        step(BPF_RET | BPF_K, 0, 0, low),
        step(BPF_RET | BPF_K, 0, 0, others),
    ];
    /// A `sock_fprog` with its padding: valgrind reports uninitialised bytes that are passed to the kernel.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct FilterProgram {
        len: u16,
        padding: [u16; 3],
        filter: *const libc::sock_filter,
    }
    const _: () = assert!(size_of::<FilterProgram>() == size_of::<libc::sock_fprog>());
    let program = FilterProgram {
        len: program.len() as u16,
        padding: [0; 3],
        filter: program.as_ptr(),
    };
    // The kernel copies the steps before setsockopt returns.
    set(socket, libc::SOL_SOCKET, option, program)
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

fn open_udp(domain: Domain, kind: Type) -> io::Result<Socket2> {
    descriptors::open(|| socket2::Socket::new(domain, kind, Some(Protocol::UDP)))
}

/// A socket with the options that all have: large buffers; interface, hop limit and traffic class reported
/// with each datagram; and UDP_GRO, where the kernel has it.
fn new(ip: IpAddr) -> io::Result<Socket2> {
    let domain = if ip.is_ipv4() {
        Domain::IPV4
    } else {
        Domain::IPV6
    };
    let socket = open_udp(domain, Type::DGRAM.nonblocking().cloexec())?;
    let force = |option, value: usize| set(&socket, libc::SOL_SOCKET, option, value as i32);
    if force(libc::SO_RCVBUFFORCE, BUFFER_LEN).is_err() {
        socket.set_recv_buffer_size(BUFFER_LEN)?;
    }
    if force(libc::SO_SNDBUFFORCE, BUFFER_LEN).is_err() {
        socket.set_send_buffer_size(BUFFER_LEN)?;
    }
    // Without the interface no packet is accepted.
    let (level, option) = match ip {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    };
    set(&socket, level, option, 1)?;
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
        let receiver = UdpSocket::from(receiver.try_clone().unwrap());
        receiver.set_nonblocking(false).unwrap();
        receiver
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let sender = socket2::Socket::new(Domain::IPV6, Type::DGRAM, None).unwrap();
        set(&sender, libc::SOL_UDP, UDP_NO_CHECK6_TX, 1).unwrap();
        let to = receiver.local_addr().unwrap();
        sender.send_to(b"no checksum", &to.into()).unwrap();
        let mut got = [0; 100];
        assert_eq!(receiver.recv(&mut got).unwrap(), 11);
    }
}
