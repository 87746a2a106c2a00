//! The commands that resolve addresses and routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use ibverbs_abi::{Errno, Result};

use super::address::{Address, scope_of, with_scope};
use super::bind::{find_device, is_v4};
use super::events::{EventType, Notice};
use super::id::{IdState, space};
use super::input::Input;
use super::manager::Manager;
use super::neighbour::{NextHop, ResolvedAddress, WaitingId};
use super::os::{CmOs, DeviceInfo, FileId};
use super::{EINVAL, ENODEV};
use roce::cm::agent::Route;
use roce::engine::{Gid, Time};
use roce::wire::{gid_of, ip_of};

/// The device and the source address of packets to an address.
struct Egress {
    device: usize,
    ifindex: u32,
    /// The address that the program sees.
    ip: IpAddr,
    sgid: Gid,
    dgid: Gid,
}

impl<H: CmOs> Manager<H> {
    pub(super) fn resolve_ip(&mut self, file: FileId, input: Input<'_>, now: Time) -> Result<()> {
        let is_given = input.u16(0) != 0;
        let src = Address::parse(input.from(0));
        let dst = Address::parse(input.from(28)).filter(|dst| dst.ip().is_some());
        let dst = dst.ok_or(EINVAL)?;
        if is_given && src.is_none_or(|src| src.ip().is_none()) {
            return Err(EINVAL);
        }
        let number = self.ids.find(file, input.u32(56))?;
        self.resolve_address(number, src, dst, milliseconds(input.u32(60)), now)
    }

    pub(super) fn resolve_command(
        &mut self,
        file: FileId,
        input: Input<'_>,
        now: Time,
    ) -> Result<()> {
        let (src_len, dst_len) = (usize::from(input.u16(8)), usize::from(input.u16(10)));
        let src = Address::parse(input.from(16)).filter(|_| src_len != 0);
        let dst = Address::parse(input.from(16 + 128)).ok_or(EINVAL)?;
        if input.u32(12) != 0 || src_len != src.map_or(0, |src| src.len()) || dst_len != dst.len() {
            return Err(EINVAL);
        }
        let number = self.ids.find(file, input.u32(0))?;
        self.resolve_address(number, src, dst, milliseconds(input.u32(4)), now)
    }

    fn resolve_address(
        &mut self,
        number: u32,
        src: Option<Address>,
        dst: Address,
        timeout: Duration,
        now: Time,
    ) -> Result<()> {
        if let Some(resolving) = self.kernel_ids().resolve(number, src, dst, timeout) {
            return resolving;
        }
        self.kernel_ids().leave(number);
        if self.ids.existing(number)?.state == IdState::Idle {
            let src = src.unwrap_or_else(|| dst.wildcard_like());
            self.binder().bind(number, src, false)?;
        }
        let id = self.ids.existing(number)?;
        let bound = id.src.ok_or(EINVAL)?;
        if id.state != IdState::Bound || !bound.same_family(&dst) {
            return Err(EINVAL);
        }
        let Some(to) = dst.ip() else {
            return Err(ENODEV);
        };
        let (device, ipoib) = (id.device, id.space == space::IPOIB);
        let given = to;
        let to = on_interface(&mut self.os, given);
        let source = match find_source(&mut self.os, device, &bound, to) {
            Ok(source) if !ipoib => source,
            Ok(_) => return self.address_error(number, dst, EINVAL),
            Err(ENODEV) => return self.address_error(number, dst, ENODEV),
            Err(error) => return Err(error),
        };
        let id = self.ids.existing(number)?;
        let tos = id.tos.unwrap_or(0);
        let port = bound.port();
        let from = match given {
            SocketAddr::V4(_) => SocketAddr::new(source.ip, port),
            SocketAddr::V6(v6) => match source.ip {
                IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, v6.scope_id()).into(),
                ip => SocketAddr::new(ip, port),
            },
        };
        let flow_label = u32::from(port).wrapping_mul(31) + u32::from(to.port());
        let resolved = ResolvedAddress {
            device: source.device,
            src: Address::Ip(from),
            dst,
            route: Route {
                sgid: source.sgid,
                dgid: source.dgid,
                traffic_class: tos,
                flow_label: flow_label & 0xf_ffff,
            },
        };
        let link = NextHop {
            ifindex: source.ifindex,
            from: source.ip,
            to,
        };
        if self.neighbours.awaits(&mut self.os, &link) {
            self.ids.existing(number)?.state = IdState::AddressQuery;
            let give_up_at = now.after(timeout);
            let waiting = WaitingId {
                number,
                resolved,
                give_up_at,
            };
            self.neighbours.wait(link, waiting, now);
        } else {
            self.address_resolved(number, resolved);
        }
        Ok(())
    }

    fn address_error(&mut self, number: u32, dst: Address, error: Errno) -> Result<()> {
        self.ids.existing(number)?.dst = Some(dst);
        self.report(number, Notice::failed(EventType::AddrError, -error.0));
        Ok(())
    }

    /// RESOLVE_IB_SERVICE: a service is known to the subnet administration only, which RoCE has not.
    pub(super) fn resolve_ib_service(&mut self, file: FileId, input: Input<'_>) -> Result<()> {
        let number = self.ids.find(file, input.u32(0))?;
        match self.ids.existing(number)?.state {
            IdState::AddressResolved => Err(Errno(libc::EOPNOTSUPP)),
            _ => Err(EINVAL),
        }
    }

    pub(super) fn resolve_route(&mut self, number: u32) -> Result<()> {
        let device = self.device_of(number).ok_or(ENODEV)?;
        let id = self.ids.existing(number)?;
        let (IdState::AddressResolved, Some(route)) = (id.state, id.route) else {
            return Err(EINVAL);
        };
        let tos = id.tos.unwrap_or(0);
        let route = Route {
            traffic_class: tos,
            ..route
        };
        id.path = Some(id.path_of(route, device.active_mtu));
        id.state = IdState::RouteResolved;
        self.report(number, Notice::plain(EventType::RouteResolved));
        Ok(())
    }

    /// Reports the addresses whose neighbours are known now, and those that have waited long enough.
    pub(super) fn check_neighbours(&mut self, now: Time) {
        let ids = &self.ids;
        let state = |number| ids.get(number).map(|id| id.state);
        let is_waiting = |number| state(number) == Some(IdState::AddressQuery);
        for (id, is_known) in self.neighbours.check(&mut self.os, now, is_waiting) {
            if is_known {
                self.address_resolved(id.number, id.resolved);
            } else if let Some(found) = self.ids.get_mut(id.number) {
                found.state = IdState::Bound;
                let notice = Notice::failed(EventType::AddrError, -libc::ETIMEDOUT);
                self.report(id.number, notice);
            }
        }
    }

    pub(super) fn address_resolved(&mut self, number: u32, resolved: ResolvedAddress) {
        let Some(id) = self.ids.get_mut(number) else {
            return;
        };
        id.device = Some(resolved.device);
        id.src = Some(resolved.src);
        id.dst = Some(resolved.dst);
        id.route = Some(resolved.route);
        id.state = IdState::AddressResolved;
        self.report(number, Notice::plain(EventType::AddrResolved));
    }
}

/// A link-local address that names no interface is on the device that has it, or on the interface of its
/// route: the kernel's rdma_cm resolves it, a socket cannot.
fn on_interface<H: CmOs>(os: &mut H, to: SocketAddr) -> SocketAddr {
    let mut v6 = match to {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 => v6,
        other => return other,
    };
    let devices = os.devices();
    let own = find_device(&devices, &to).and_then(|found| devices.get(found));
    v6.set_scope_id(match own {
        Some(device) => device.ifindex,
        None => os.interface(to.ip()),
    });
    v6.into()
}

/// The device and address that packets to `to` leave from. ENODEV if that address belongs to no device.
fn find_source<H: CmOs>(
    os: &mut H,
    device: Option<usize>,
    bound: &Address,
    to: SocketAddr,
) -> Result<Egress> {
    let devices = os.devices();
    let ifindex = |device: usize| devices.get(device).map_or(0, |device| device.ifindex);
    let source = |device: usize, ip| Egress {
        device,
        ifindex: ifindex(device),
        ip,
        sgid: gid_of(ip),
        dgid: gid_of(to.ip()),
    };
    let itself = |device: usize, ip| Egress {
        dgid: gid_of(ip),
        ..source(device, ip)
    };
    let any = to.ip().is_unspecified();
    // Packets to the loopback address reach whoever has it, which may be an unrelated process.
    let may_reach = |from: IpAddr| !to.ip().is_loopback() || from.is_loopback();
    if let (Some(device), Some(ip)) = (device, bound.ip()) {
        if any || !may_reach(ip.ip()) && find_device(&devices, &to).is_none() {
            return Ok(itself(device, ip.ip()));
        }
        os.route(Some(ip.ip()), to)?;
        return Ok(source(device, ip.ip()));
    }
    let routed = os.route(None, to);
    if let Ok(ip) = routed {
        if let Some(found) = find_device(&devices, &with_scope(ip, &to)) {
            return Ok(if any {
                itself(found, ip)
            } else {
                source(found, ip)
            });
        }
    }
    // The route is another interface's, or leaves from another address of the device's. A device at
    // one address reaches what can be reached from there. 255.255.255.255 can be reached from everywhere.
    let everywhere = to.ip() == IpAddr::V4(Ipv4Addr::BROADCAST);
    for (at, candidate) in devices.iter().enumerate().filter(|_| !any && !everywhere) {
        for ip in addresses_like(candidate, &to) {
            if may_reach(ip) && os.route(Some(ip), to).is_ok() {
                return Ok(source(at, ip));
            }
        }
    }
    if any || to.ip().is_loopback() {
        return loopback(&devices, &to).ok_or(ENODEV);
    }
    routed?;
    Err(ENODEV)
}

fn milliseconds(count: u32) -> Duration {
    Duration::from_millis(count.into())
}

/// The addresses of a device that are of the same family; link-local ones for link-local ones only.
fn addresses_like(device: &DeviceInfo, to: &SocketAddr) -> Vec<IpAddr> {
    let link_local = scope_of(to) != 0;
    if link_local && scope_of(to) != device.ifindex {
        return Vec::new();
    }
    let gids = device.gids.iter().map(|(_, gid)| gid);
    gids.filter(|gid| is_v4(gid) == to.is_ipv4() && gid_of(ip_of(gid)) == **gid)
        .map(ip_of)
        .filter(|ip| match ip {
            IpAddr::V6(v6) => v6.is_unicast_link_local() == link_local,
            IpAddr::V4(_) => true,
        })
        .collect()
}

/// The path to the loopback address when no device has it: the first device reaches itself. The program sees
/// the loopback address at both ends.
fn loopback(devices: &[DeviceInfo], to: &SocketAddr) -> Option<Egress> {
    let active = devices.iter().position(|device| device.active);
    let device = active.unwrap_or(0);
    let gids = &devices.get(device)?.gids;
    let own = |gid: &&Gid| gid_of(ip_of(gid)) == **gid;
    let same = |gid: &&Gid| is_v4(gid) == to.is_ipv4();
    let all = || gids.iter().map(|(_, gid)| gid).filter(own);
    let gid = *all().find(same).or_else(|| all().next())?;
    let ip: IpAddr = if to.is_ipv4() {
        Ipv4Addr::LOCALHOST.into()
    } else {
        Ipv6Addr::LOCALHOST.into()
    };
    Some(Egress {
        device,
        ifindex: devices.get(device)?.ifindex,
        ip,
        sgid: gid,
        dgid: gid,
    })
}
