//! The network interface of a device as rtnetlink reports it, and what follows from its state:
//! GIDs, port state, GUID.
//!
//! Not here: changes of the interface later, which `net.rs` notices.

use std::io;
use std::net::IpAddr;

use ibverbs_netlink::{RtnlClient, rtnl::Link};

use super::gid_table::{self, GidAddress};
use super::{GidEntry, PortState};
use crate::config::{Config, Netdev};
use crate::descriptors::{self, Owned};

/// The bytes around a RoCE packet's payload that the kernel reserves when it derives the active MTU from the
/// interface's.
const HEADERS_LEN: u32 = 80;

/// The interface at the time of reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface itself.
    pub link: Link,
    /// The GIDs that the device's table should have.
    pub gids: Vec<GidAddress>,
}

fn missing(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, what)
}

/// Whether the loopback interface accepts the address without having it in its list: 127.0.0.0/8.
fn is_loopback_v4(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(ip) if ip.is_loopback())
}

/// Opens an rtnetlink socket, in the network namespace of the calling thread.
pub fn open_rtnl() -> io::Result<Owned<RtnlClient>> {
    descriptors::open(|| Ok(RtnlClient::open()?))
}

impl Interface {
    /// Finds the interface that a configuration names. The error text says what is missing.
    pub fn find(config: &Config) -> io::Result<Interface> {
        let mut rtnl = open_rtnl()?;
        Interface::find_with(&mut rtnl, config)
    }

    /// [`Interface::find`], over an open socket.
    pub fn find_with(rtnl: &mut RtnlClient, config: &Config) -> io::Result<Interface> {
        let links = rtnl.links()?;
        let loopback = |link: &&Link| link.loopback;
        let link = match &config.netdev {
            Netdev::DefaultRoute => {
                let index = rtnl.default_interface()?;
                let link = links.iter().find(|link| Some(link.index) == index);
                link.or_else(|| links.iter().find(loopback))
                    .ok_or_else(|| missing("there is no default route and no loopback".into()))?
            }
            Netdev::Interface(name) => links
                .iter()
                .find(|link| link.name == *name)
                .ok_or_else(|| missing(format!("there is no interface '{name}'")))?,
            Netdev::Address { ip, scope } => {
                let addresses = rtnl.addresses()?;
                let has_it = |link: &&Link| {
                    scope.as_ref().is_none_or(|scope| *scope == link.name)
                        && addresses
                            .iter()
                            .any(|address| address.interface == link.index && address.ip == *ip)
                };
                let link = links.iter().find(has_it);
                link.or_else(|| {
                    links
                        .iter()
                        .find(|link| link.loopback && is_loopback_v4(*ip))
                })
                .ok_or_else(|| missing(format!("no interface has the address {ip}")))?
            }
        };
        let index = link.index;
        Interface::read(rtnl, config, index)?.ok_or_else(|| missing("it is gone".into()))
    }

    /// Reads the interface with this index; None if it is gone.
    pub fn read(
        rtnl: &mut RtnlClient,
        config: &Config,
        index: u32,
    ) -> io::Result<Option<Interface>> {
        let Some(link) = rtnl.links()?.into_iter().find(|link| link.index == index) else {
            return Ok(None);
        };
        let addresses = rtnl.addresses()?;
        let own: Vec<_> = addresses
            .iter()
            .filter(|address| address.interface == index)
            .map(|address| address.ip)
            .collect();
        let gids = match &config.netdev {
            Netdev::Address { ip, .. }
                if own.contains(ip) || link.loopback && is_loopback_v4(*ip) =>
            {
                gid_table::of_address(link.mac(), &own, *ip)
            }
            Netdev::Address { .. } => Vec::new(),
            _ => gid_table::of_interface(link.mac(), &own),
        };
        let gids = gid_table::of_fabric(config.profile.fabric, gids);
        Ok(Some(Interface { link, gids }))
    }

    /// The GIDs of a device at one address if its link-local GID follows from that address, and is not
    /// another address of the interface. None for other devices, and without the address.
    pub fn fallback_gids(&self, config: &Config) -> Option<Vec<GidAddress>> {
        let Netdev::Address { ip, .. } = config.netdev else {
            return None;
        };
        let gids = || gid_table::of_address(None, &[], ip);
        (!self.gids.is_empty()).then(|| gid_table::of_fabric(config.profile.fabric, gids()))
    }

    /// The state of the port on this interface.
    pub fn port_state(&self, config: &Config) -> PortState {
        port_state(Some(&self.link), config)
    }

    /// The node GUID, derived from the host's identity and the device's name and MAC address. That of a
    /// device at one address is derived from the address in their place: an interface may have several
    /// such devices. librdmacm tells devices apart by their GUIDs, so it is not the MAC address as
    /// EUI-64, which kernel rxe has on the same interface.
    pub fn guid(&self, config: &Config) -> [u8; 8] {
        match (&config.netdev, self.link.mac()) {
            (Netdev::Address { ip, .. }, _) => host_guid(&ip.to_string(), &[]),
            (_, mac) => host_guid(&config.name, &mac.unwrap_or_default()),
        }
    }
}

/// The port state of a device on an interface; None is an interface that is gone.
pub fn port_state(link: Option<&Link>, config: &Config) -> PortState {
    let max_mtu = config.profile.limits.max_mtu;
    let mtu = link.map_or(0, |link| link.mtu.saturating_sub(HEADERS_LEN));
    let mtus = [4096, 2048, 1024, 512];
    PortState {
        up: link.is_some_and(|link| link.up),
        active: link.is_some_and(|link| link.running),
        active_mtu: mtus
            .into_iter()
            .find(|path_mtu| *path_mtu <= mtu)
            .unwrap_or(256)
            .min(max_mtu),
    }
}

/// A locally administered GUID from /etc/machine-id (else from the boot id), a device's name and its MAC
/// address: the same in every process.
fn host_guid(name: &str, mac: &[u8]) -> [u8; 8] {
    let id = std::fs::read("/etc/machine-id")
        .or_else(|_| std::fs::read("/proc/sys/kernel/random/boot_id"))
        .unwrap_or_default();
    // FNV-1a, 64 bits
    let bytes = id.iter().chain(name.as_bytes()).chain(mac);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut guid = hash.to_be_bytes();
    guid[0] = guid[0] & !3 | 2;
    guid
}

/// The GID table as the provider reports it.
pub fn gid_entries(gids: &[Option<GidAddress>], ifindex: u32) -> Vec<Option<GidEntry>> {
    let entry = |address: &GidAddress| GidEntry {
        gid: address.gid,
        gid_type: address.gid_type,
        ip: address.ip,
        ifindex,
    };
    gids.iter().map(|gid| gid.as_ref().map(entry)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(mtu: u32, mac: Option<[u8; 6]>) -> Link {
        Link {
            index: 2,
            name: "eth0".into(),
            address: mac.map(Into::into),
            mtu,
            up: true,
            running: true,
            loopback: false,
            vlan: None,
        }
    }

    #[test]
    fn the_mtu_is_the_largest_that_fits() {
        let mut config = Config::new("uroce0", Netdev::DefaultRoute);
        for (mtu, active_mtu) in [
            (65536, 4096),
            (9000, 4096),
            (4176, 4096),
            (4175, 2048),
            (1500, 1024),
            (600, 512),
            (68, 256),
        ] {
            let state = port_state(Some(&link(mtu, None)), &config);
            assert_eq!(
                state,
                PortState {
                    up: true,
                    active: true,
                    active_mtu
                },
                "{mtu}"
            );
        }
        assert!(!port_state(None, &config).active);
        config.profile.set("max_mtu", 512).unwrap();
        assert_eq!(port_state(Some(&link(9000, None)), &config).active_mtu, 512);
    }

    #[test]
    fn guids() {
        let guid_of = |mac, netdev| {
            let interface = Interface {
                link: link(1500, mac),
                gids: Vec::new(),
            };
            interface.guid(&Config::new("uroce0", netdev))
        };
        let guid = |mac| guid_of(mac, Netdev::Interface("eth0".into()));
        let at = |ip: [u8; 4]| Netdev::Address {
            ip: ip.into(),
            scope: None,
        };
        let mac = Some([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
        // Kernel rxe has the MAC address as EUI-64.
        assert_ne!(guid(mac), [0x50, 0x54, 0, 0xff, 0xfe, 0x12, 0x34, 0x56]);
        assert_ne!(guid(mac), guid(Some([0x52, 0x54, 0, 0x12, 0x34, 0x57])));
        assert_eq!(guid(None), guid(Some([0; 6])));
        assert_eq!(guid(None)[0] & 3, 2);
        assert_ne!(host_guid("uroce0", &[]), host_guid("uroce1", &[]));
        let [one, two] = [1, 2].map(|n| guid_of(mac, at([10, 0, 0, n])));
        assert!(one != two && one != guid(mac) && two != guid(mac));
        assert_eq!(one, guid_of(mac, at([10, 0, 0, 1])));
    }

    #[test]
    fn the_loopback_interface() {
        let find = |netdev| Interface::find(&Config::new("x", netdev));
        let lo = find(Netdev::Interface("lo".into())).unwrap();
        assert_eq!(lo.link.name, "lo");
        assert_eq!(lo.gids[0].gid[8..], [2, 0, 0, 0xff, 0xfe, 0, 0, 0]);
        let ip = "127.3.2.1".parse().unwrap();
        let one = find(Netdev::Address { ip, scope: None }).unwrap();
        assert_eq!(one.gids, gid_table::of_address(None, &[], ip));
        assert_eq!(one.link.index, lo.link.index);
        let nowhere = |netdev| find(netdev).unwrap_err().to_string();
        assert_eq!(
            nowhere(Netdev::Interface("nosuch0".into())),
            "there is no interface 'nosuch0'"
        );
        let ip = "192.0.2.200".parse().unwrap();
        assert_eq!(
            nowhere(Netdev::Address { ip, scope: None }),
            "no interface has the address 192.0.2.200"
        );
        find(Netdev::DefaultRoute).unwrap();
    }
}
