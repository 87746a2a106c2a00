//! The commands that bind ids to addresses and port numbers, and that listen.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ibverbs_abi::{Errno, Result};

use super::address::{Address, scope_of};
use super::id::{Id, IdState, space};
use super::id_table::IdTable;
use super::input::Input;
use super::manager::Manager;
use super::os::{CmOs, DeviceInfo, FileId, Port};
use super::{EINVAL, ENODEV};
use roce::engine::Gid;
use roce::wire::{gid_of, ip_of};

const EADDRINUSE: Errno = Errno(libc::EADDRINUSE);
const EADDRNOTAVAIL: Errno = Errno(libc::EADDRNOTAVAIL);
/// Port numbers below this one are for privileged processes.
const LOW_PORTS: u16 = 1024;
/// The most requests that an id queues, as the kernel's `max_backlog`.
const BACKLOG_MAX: u32 = 1024;
/// The service IDs of the port spaces in an InfiniBand address, and the bits that distinguish them.
const IB_SPACE_MASK: u64 = 0xffff_ffff_ffff_0000;
const IB_SPACES: [u16; 3] = [space::IB, space::TCP, space::UDP];

impl<H: CmOs> Manager<H> {
    pub(super) fn bind_ip(&mut self, file: FileId, input: Input<'_>) -> Result<()> {
        let address = Address::parse(input.from(8)).ok_or(EINVAL)?;
        if address.ip().is_none() {
            return Err(EINVAL);
        }
        let number = self.ids.find(file, input.u32(36))?;
        self.kernel_ids().bind_anywhere(number, address)
    }

    pub(super) fn bind_command(&mut self, file: FileId, input: Input<'_>) -> Result<()> {
        let address = Address::parse(input.from(8)).ok_or(EINVAL)?;
        if input.u16(6) != 0 || usize::from(input.u16(4)) != address.len() {
            return Err(EINVAL);
        }
        let number = self.ids.find(file, input.u32(0))?;
        self.kernel_ids().bind_anywhere(number, address)
    }

    /// [`Binder::addresses_changed`].
    pub fn addresses_changed(&mut self) {
        self.binder().addresses_changed();
    }

    pub(super) fn binder(&mut self) -> Binder<'_, H> {
        Binder {
            os: &mut self.os,
            ids: &mut self.ids,
        }
    }

    pub(super) fn listen(&mut self, file: FileId, input: Input<'_>) -> Result<()> {
        let number = self.ids.find(file, input.u32(0))?;
        let backlog = backlog_of(input);
        if self.ids.existing(number)?.state == IdState::Idle {
            let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
            self.kernel_ids().bind_anywhere(number, Address::Ip(any))?;
        }
        let id = self.ids.existing(number)?;
        if id.state != IdState::Bound {
            return Err(EINVAL);
        }
        let port = id.port.ok_or(EINVAL)?;
        let (shares, reserved) = (id.reuse_address, id.reservation.is_some());
        if shares {
            self.ids.check_port(number, port, false)?;
        }
        if !reserved {
            self.binder().reserve(number, port)?;
        }
        if let Some(reserved) = &self.ids.existing(number)?.reservation {
            self.os.listen(reserved)?;
        }
        // Last, because an id of the kernel does not stop listening.
        self.kernel_ids().listen(number, backlog)?;
        let id = self.ids.existing(number)?;
        id.backlog = backlog;
        id.state = IdState::Listen;
        Ok(())
    }
}

/// Binds ids to addresses and port numbers: the parts of the operating system and of the ids that this takes.
pub(super) struct Binder<'a, H: CmOs> {
    pub os: &'a mut H,
    pub ids: &'a mut IdTable<H::Reservation>,
}

impl<H: CmOs> Binder<'_, H> {
    /// Binds an id to an address of a device of uroce or a wildcard address, and to a port number. `reserve`:
    /// no other process may have the number.
    pub fn bind(&mut self, number: u32, address: Address, reserve: bool) -> Result<()> {
        if self.ids.existing(number)?.state != IdState::Idle {
            return Err(EINVAL);
        }
        if let Some(SocketAddr::V6(v6)) = address.ip() {
            if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 {
                return Err(EINVAL);
            }
        }
        let device = self.device_at(&address)?;
        if device.is_some() && self.ids.existing(number)?.space == space::IPOIB {
            return Err(EINVAL);
        }
        if !self.ids.existing(number)?.family_only_set {
            let family_only = match address.ip() {
                Some(SocketAddr::V4(_)) => true,
                Some(SocketAddr::V6(_)) => self.os.bind_v6_only(),
                None => false,
            };
            self.ids.existing(number)?.family_only = family_only;
        }
        let id = self.ids.existing(number)?;
        id.src = Some(address);
        let space = port_space(id.space, &address);
        let taken = space.and_then(|space| self.take_port(number, space, &address, reserve));
        let id = self.ids.existing(number)?;
        match taken {
            Ok(port) => {
                id.src = Some(address.with_port(port.number));
                id.dst.get_or_insert(address.wildcard_like());
                id.device = device;
                id.state = IdState::Bound;
                Ok(())
            }
            Err(error) => {
                id.src = None;
                Err(error)
            }
        }
    }

    /// The device that has an address; None for a wildcard address, and for a loopback address that no
    /// device has. EADDRNOTAVAIL if the host does not have it, ENODEV if no device has.
    fn device_at(&mut self, address: &Address) -> Result<Option<usize>> {
        if address.is_unspecified() {
            return Ok(None);
        }
        let Some(ip) = address.ip() else {
            return Err(ENODEV);
        };
        if !may_be_own(ip.ip()) {
            return Err(EADDRNOTAVAIL);
        }
        let found = find_device(&self.os.devices(), &ip);
        if found.is_some() || address.is_any() {
            return Ok(found);
        }
        match self.os.route(Some(ip.ip()), ip) {
            // The broadcast address of a network.
            Err(Errno(libc::EACCES)) => Err(EADDRNOTAVAIL),
            Err(error) => Err(error),
            Ok(_) => Err(ENODEV),
        }
    }

    /// Takes the port number of an address, or any if that is 0.
    fn take_port(
        &mut self,
        number: u32,
        space: u16,
        address: &Address,
        reserve: bool,
    ) -> Result<Port> {
        if address.port() == 0 {
            return self.take_any_port(number, space, address, reserve);
        }
        let port = Port {
            space,
            number: address.port(),
        };
        if port.number < LOW_PORTS && !self.os.may_use_low_ports() {
            return Err(Errno(libc::EACCES));
        }
        let shares = self.ids.get(number).is_some_and(|id| id.reuse_address);
        self.ids.check_port(number, port, shares)?;
        if reserve && !shares {
            self.reserve(number, port)?;
        }
        self.ids.take_port(number, port);
        Ok(port)
    }

    fn take_any_port(
        &mut self,
        number: u32,
        space: u16,
        address: &Address,
        reserve: bool,
    ) -> Result<Port> {
        let (first, last) = self.os.ephemeral_ports();
        let count = u32::from(last.saturating_sub(first)) + 1;
        let start = self.os.random() % count;
        for i in 0..count {
            let port = Port {
                space,
                number: first + ((start + i) % count) as u16,
            };
            if !self.ids.with_port(port).is_empty() {
                continue;
            }
            if reserve && !matches!(address, Address::Ib(_)) {
                match self.reserve(number, port) {
                    Ok(()) => {}
                    Err(EADDRINUSE | EADDRNOTAVAIL) => continue,
                    Err(error) => return Err(error),
                }
            }
            self.ids.take_port(number, port);
            return Ok(port);
        }
        Err(EADDRNOTAVAIL)
    }

    /// Keeps other processes from the port at the id's address, or at all addresses of all devices.
    fn reserve(&mut self, number: u32, port: Port) -> Result<()> {
        let Some(places) = self.places(number)? else {
            return Ok(());
        };
        let reserved = self.os.reserve(port, &places.gids);
        let reserved = reserved.map_err(|error| match error {
            EADDRINUSE if places.are_all => EADDRNOTAVAIL,
            other => other,
        });
        self.ids.existing(number)?.reservation = Some(reserved?);
        Ok(())
    }

    /// Where the port of an id is to be reserved; None if nowhere.
    fn places(&mut self, number: u32) -> Result<Option<Places>> {
        let id = self.ids.existing(number)?;
        let (address, family_only) = (id.src.ok_or(EINVAL)?, id.family_only);
        let Some(ip) = address.ip() else {
            return Ok(None);
        };
        let devices = self.os.devices();
        let are_all = find_device(&devices, &ip).is_none();
        let gids = if are_all {
            let all = devices.iter().flat_map(|device| &device.gids);
            // Packets to the second name of an address come to the address.
            all.map(|(_, gid)| *gid)
                .filter(|gid| gid_of(ip_of(gid)) == *gid)
                .filter(|gid| !family_only || is_v4(gid) == ip.is_ipv4())
                .collect()
        } else {
            vec![address.gid()]
        };
        Ok(Some(Places { gids, are_all }))
    }

    /// The devices' addresses have changed: ids that listen at all of them do so at the new ones, too. Where
    /// another process has the port, they do not.
    fn addresses_changed(&mut self) {
        let at_all = |id: &Id<_>| id.state == IdState::Listen && id.device.is_none();
        let listening = self.ids.iter().filter(|(_, id)| at_all(id));
        let ports: Vec<_> = listening.map(|(number, id)| (number, id.port)).collect();
        for (number, port) in ports {
            let (Some(port), Ok(Some(places))) = (port, self.places(number)) else {
                continue;
            };
            let reserved = self.os.reserve_where_free(port, &places.gids);
            let _ = self.os.listen(&reserved);
            if let Some(id) = self.ids.get_mut(number) {
                id.reservation = Some(reserved);
            }
        }
    }
}

/// The addresses at which the port of an id is reserved.
struct Places {
    gids: Vec<Gid>,
    /// Whether `gids` are those of all devices.
    are_all: bool,
}

/// The requests that LISTEN lets an id queue.
pub(super) fn backlog_of(input: Input<'_>) -> u32 {
    match input.u32(4) {
        backlog @ 1..BACKLOG_MAX => backlog,
        _ => BACKLOG_MAX,
    }
}

/// The device that has an IP address.
pub(super) fn find_device(devices: &[DeviceInfo], ip: &SocketAddr) -> Option<usize> {
    let gid = gid_of(ip.ip());
    let scope = scope_of(ip);
    devices.iter().position(|device| {
        device.gid_index(&gid).is_some() && (scope == 0 || scope == device.ifindex)
    })
}

/// Whether a host may have this address. It has no address of a group, and an IPv4 address only as that. For
/// a group of a link, the kernel's answer is that the interface is missing.
fn may_be_own(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => !v4.is_multicast() && !v4.is_broadcast(),
        IpAddr::V6(v6) => {
            let of_link = v6.segments()[0] & 0xf == 2;
            v6.to_ipv4_mapped().is_none() && (!v6.is_multicast() || of_link)
        }
    }
}

pub(super) fn is_v4(gid: &Gid) -> bool {
    ip_of(gid).is_ipv4()
}

/// The port space that an id uses with an address.
fn port_space(of_id: u16, address: &Address) -> Result<u16> {
    let Address::Ib(ib) = address else {
        return Ok(of_id);
    };
    let mask = ib.service_mask & IB_SPACE_MASK;
    let found = IB_SPACES.into_iter().find(|candidate| {
        let service = u64::from(*candidate) << 16;
        (of_id == space::IB || of_id == *candidate) && ib.service_id & mask == service & mask
    });
    found.ok_or(Errno(libc::EPROTONOSUPPORT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_no_host_has() {
        for (ip, expected) in [
            ("10.0.0.1", true),
            ("10.0.0.255", true),
            ("255.255.255.255", false),
            ("224.0.0.1", false),
            ("fd00::1", true),
            ("fe80::1", true),
            ("ff02::1", true),
            ("ff0e::1", false),
            ("::ffff:10.0.0.1", false),
        ] {
            assert_eq!(may_be_own(ip.parse().unwrap()), expected, "{ip}");
        }
    }
}
