//! The kernel's routes and neighbours. A command often asks for one route several times; the kernel is asked
//! once.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use ibverbs_abi::Errno;
use ibverbs_netlink::{RtnlClient, rtnl::Route};

use crate::descriptors::Owned;
use crate::transport;
use crate::wire::PORT;

/// The discard service (RFC 863).
const DISCARD: u16 = 9;

/// What the kernel has answered during a command. [`Routes::forget`] ends the command.
#[derive(Default)]
pub struct Routes {
    last: Option<LastRoute>,
}

struct LastRoute {
    rtnl: Owned<RtnlClient>,
    to: IpAddr,
    route: Route,
}

impl Routes {
    /// Forgets the answers, and closes the socket: the program may close any descriptor between commands.
    pub fn forget(&mut self) {
        self.last = None;
    }

    /// [`super::host::CmHost::route`].
    pub fn source(&mut self, from: Option<IpAddr>, to: SocketAddr) -> Result<IpAddr, Errno> {
        match from {
            None => self.source_by_netlink(to),
            Some(_) => None,
        }
        .map_or_else(|| source_by_socket(from, to), Ok)
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
                let mut rtnl = transport::open_rtnl().ok()?;
                let route = rtnl.route(ip, None).ok()?;
                let to = ip;
                self.last = Some(LastRoute { rtnl, to, route });
                route
            }
        };
        let is_usable = matches!(route.kind, libc::RTN_UNICAST | libc::RTN_LOCAL);
        route.source.filter(|_| is_usable)
    }

    /// [`super::host::CmHost::awaits_neighbour`].
    pub fn await_neighbour(&mut self, ifindex: u32, from: IpAddr, mut to: SocketAddr) -> bool {
        let known = self.last.take();
        let known =
            known.filter(|last| last.to == to.ip() && last.route.interface == Some(ifindex));
        let (mut rtnl, route) = match known {
            Some(last) => (last.rtnl, Ok(last.route)),
            None => {
                let Ok(mut rtnl) = transport::open_rtnl() else {
                    return false;
                };
                let route = rtnl.route(to.ip(), Some(ifindex));
                (rtnl, route)
            }
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
        if let Ok(socket) = UdpSocket::bind((from, 0)) {
            let _ = socket.send_to(&[], to);
        }
        // An interface that needs no link-layer addresses has no such entry.
        rtnl.is_unresolved(hop, ifindex)
    }
}

/// The source address that a socket gets when it is connected, or has. Errors are those of bind(2) and
/// connect(2).
fn source_by_socket(from: Option<IpAddr>, mut to: SocketAddr) -> Result<IpAddr, Errno> {
    let errno = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EINVAL));
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let mut bound = SocketAddr::new(from.unwrap_or(any), 0);
    if let (SocketAddr::V6(bound), SocketAddr::V6(to)) = (&mut bound, &to) {
        bound.set_scope_id(to.scope_id());
    }
    // Nothing is sent: the kernel only looks the route up.
    let socket = UdpSocket::bind(bound).map_err(errno)?;
    to.set_port(PORT);
    socket.connect(to).map_err(errno)?;
    Ok(socket.local_addr().map_err(errno)?.ip())
}
