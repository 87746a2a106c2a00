//! The kernel's routes and neighbours. A command often asks for one route several times; the kernel is asked
//! once.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use ibverbs_abi::{Errno, Result};
use ibverbs_netlink::{RtnlClient, rtnl::Route};
use socket2::{Domain, Socket, Type};

use super::EINVAL;
use super::address::with_scope;
use crate::descriptors::Owned;
use crate::transport;
use roce::wire::PORT;

/// The discard service (RFC 863).
const DISCARD: u16 = 9;

/// The kernel's answers during a command, and the socket to ask it with. The socket stays open:
/// opening and closing it takes longer than a question.
#[derive(Default)]
pub struct Routes {
    rtnl: Option<Owned<RtnlClient>>,
    /// The socket has been examined during this command.
    is_checked: bool,
    last: Option<LastRoute>,
}

struct LastRoute {
    to: IpAddr,
    route: Route,
}

impl Routes {
    /// The command has ended: forgets the answers.
    pub fn forget(&mut self) {
        self.is_checked = false;
        self.last = None;
    }

    /// The socket; None if none can be opened. The program may have closed it, and used its number again.
    fn rtnl(&mut self) -> Option<&mut RtnlClient> {
        if !self.is_checked {
            if let Some(changed) = self.rtnl.take_if(|rtnl| !rtnl.is_unchanged()) {
                changed.abandon();
            }
            self.is_checked = true;
        }
        if self.rtnl.is_none() {
            self.rtnl = transport::open_rtnl().ok();
        }
        self.rtnl.as_deref_mut()
    }

    /// [`super::os::CmOs::route`].
    pub fn source(&mut self, from: Option<IpAddr>, to: SocketAddr) -> Result<IpAddr> {
        if from.is_none() {
            if let Some(source) = self.source_by_netlink(to) {
                return Ok(source);
            }
        }
        source_by_socket(from, to)
    }

    /// [`super::os::CmOs::interface`].
    pub fn interface(&mut self, to: IpAddr) -> u32 {
        let route = self.rtnl().and_then(|rtnl| rtnl.route(to, None).ok());
        route.and_then(|route| route.interface).unwrap_or(0)
    }

    /// The source address of the route. None if netlink does not say it, or if a socket can be connected to
    /// more addresses than have a route (`::`), or needs an interface (link-local addresses).
    fn source_by_netlink(&mut self, to: SocketAddr) -> Option<IpAddr> {
        let ip = to.ip();
        let is_ordinary = match ip {
            IpAddr::V4(v4) => !v4.is_unspecified(),
            IpAddr::V6(v6) => !v6.is_unspecified() && !v6.is_unicast_link_local(),
        };
        if !is_ordinary || ip.is_multicast() {
            return None;
        }
        let route = match &self.last {
            Some(last) if last.to == ip => last.route,
            _ => {
                let route = self.rtnl()?.route(ip, None).ok()?;
                self.last = Some(LastRoute { to: ip, route });
                route
            }
        };
        let is_usable = matches!(route.kind, libc::RTN_UNICAST | libc::RTN_LOCAL);
        route.source.filter(|_| is_usable)
    }

    /// [`super::os::CmOs::awaits_neighbour`].
    pub fn await_neighbour(&mut self, ifindex: u32, from: IpAddr, mut to: SocketAddr) -> bool {
        let known = self.last.take().filter(|last| {
            let is_local = last.route.kind == libc::RTN_LOCAL;
            last.to == to.ip() && (is_local || last.route.interface == Some(ifindex))
        });
        let Some(rtnl) = self.rtnl() else {
            return false;
        };
        let route = match known {
            Some(last) => Ok(last.route),
            None => rtnl.route(to.ip(), Some(ifindex)),
        };
        let hop = match route {
            Ok(route) if route.kind == libc::RTN_UNICAST => route.gateway.unwrap_or(to.ip()),
            _ => return false,
        };
        if rtnl.neighbour(hop, ifindex).is_some() {
            return false;
        }
        // A packet makes the kernel ask.
        to.set_port(DISCARD);
        if let Ok(socket) = UdpSocket::bind(with_scope(from, &to)) {
            let _ = socket.send_to(&[], to);
        }
        // An interface that needs no link-layer addresses has no such entry.
        rtnl.is_unresolved(hop, ifindex)
    }
}

/// The source address that a socket gets when it is connected, or has. Errors are those of bind(2) and
/// connect(2).
fn source_by_socket(from: Option<IpAddr>, mut to: SocketAddr) -> Result<IpAddr> {
    let errno = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EINVAL));
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let mut bound = SocketAddr::new(from.unwrap_or(any), 0);
    if let (SocketAddr::V6(bound), SocketAddr::V6(to)) = (&mut bound, &to) {
        bound.set_scope_id(to.scope_id());
    }
    // Nothing is sent: the kernel only looks the route up. Broadcast addresses have one, as for the kernel's
    // rdma_cm, but none to themselves. An IPv4 address that is mapped into IPv6 has none there.
    let socket = Socket::new(Domain::for_address(bound), Type::DGRAM, None).map_err(errno)?;
    match to {
        SocketAddr::V4(_) => socket.set_broadcast(from != Some(to.ip())),
        SocketAddr::V6(_) => socket.set_only_v6(true),
    }
    .map_err(errno)?;
    socket.bind(&bound.into()).map_err(errno)?;
    to.set_port(PORT);
    socket.connect(&to.into()).map_err(errno)?;
    let local = socket.local_addr().map_err(errno)?.as_socket();
    Ok(local.ok_or(EINVAL)?.ip())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn ask(routes: &mut Routes) -> Result<IpAddr> {
        let source = routes.source(None, SocketAddr::new(LOOPBACK, 1));
        routes.forget();
        source
    }

    #[test]
    fn the_socket_stays_open() {
        let mut routes = Routes::default();
        assert_eq!(ask(&mut routes), Ok(LOOPBACK));
        let fd = routes.rtnl.as_ref().map(|rtnl| rtnl.fd());
        assert_eq!(ask(&mut routes), Ok(LOOPBACK));
        assert_eq!(routes.rtnl.as_ref().map(|rtnl| rtnl.fd()), fd);
    }

    #[test]
    fn a_broadcast_address_has_a_route_and_is_nobodys_own() {
        let source = |from| {
            let broadcast = Ipv4Addr::new(127, 255, 255, 255).into();
            Routes::default().source(from, SocketAddr::new(broadcast, 1))
        };
        assert_eq!(source(None), Ok(LOOPBACK));
        assert_eq!(source(Some(LOOPBACK)), Ok(LOOPBACK));
        let itself = Ipv4Addr::new(127, 255, 255, 255).into();
        assert_eq!(source(Some(itself)), Err(Errno(libc::EACCES)));
    }

    #[test]
    fn a_socket_finds_no_route_to_a_mapped_address() {
        let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped().into();
        let any = Some(Ipv6Addr::UNSPECIFIED.into());
        let source = Routes::default().source(any, SocketAddr::new(mapped, 1));
        assert!(source.is_err(), "{source:?}");
    }

    #[test]
    fn a_program_may_use_the_number_of_the_socket_again() {
        let mut routes = Routes::default();
        assert_eq!(ask(&mut routes), Ok(LOOPBACK));
        let fd = routes.rtnl.as_ref().unwrap().fd();
        let file = File::open("/dev/null").unwrap();
        // SAFETY: dup2 takes no pointers. `fd` is the socket's, which knows that this may happen.
        assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), fd) }, fd);
        assert_eq!(ask(&mut routes), Ok(LOOPBACK));
        assert_ne!(routes.rtnl.as_ref().unwrap().fd(), fd);
        // SAFETY: `fd` is this test's own now; close fails if it is closed already.
        assert_eq!(unsafe { libc::close(fd) }, 0);
    }
}
