//! The GID table: GIDs, their IP addresses, and their indices. Pure.
//!
//! Not here: the addresses of the interface, which `interface.rs` reads.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::profile::{DEFAULT, Fabric};
use roce::engine::Gid;
use roce::wire::{gid_of, ip_of, link_local_gid_of};

/// The most entries that the table has: `ibv_global_route.sgid_index` has 8 bits. Devices of some profiles
/// report fewer.
const GID_TABLE_LEN: usize = DEFAULT.limits.gid_tbl_len as usize;

/// `ibv_gid_entry.gid_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GidType {
    /// The GID type of InfiniBand, and of EFA.
    Ib,
    RoceV1,
    RoceV2,
}

/// A GID, and the IP address that packets have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidAddress {
    pub gid: Gid,
    /// The GID as an IP address; for a default GID that is no address of the interface, its [`alias`].
    pub ip: IpAddr,
    pub gid_type: GidType,
}

/// How a GID relates to the IP address of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GidKind {
    /// The GID is the address itself.
    Address,
    /// The GID is a second one of an address whose own GID is another entry. Both share that entry's sockets.
    SecondName,
    /// The entry's packets have its [`alias`].
    Alias,
}

impl GidAddress {
    fn of(ip: IpAddr) -> GidAddress {
        GidAddress {
            gid: gid_of(ip),
            ip,
            gid_type: GidType::RoceV2,
        }
    }

    /// The GID as `Addresses` of the engine have it: that of InfiniBand is the address, which identifies
    /// peers of all kinds.
    pub fn peer_gid(&self) -> Gid {
        match self.gid_type {
            GidType::Ib => gid_of(self.ip),
            GidType::RoceV1 | GidType::RoceV2 => self.gid,
        }
    }

    /// The GID of `ip` as a GRH has it, of a packet that has come to this entry.
    pub fn in_grh(&self, ip: IpAddr) -> IpAddr {
        match ip {
            IpAddr::V4(v4) if self.gid_type == GidType::Ib => {
                Ipv6Addr::from(link_local_gid_of(v4)).into()
            }
            _ => ip,
        }
    }

    /// How the GID relates to the address.
    pub fn kind(&self) -> GidKind {
        match self.gid_type {
            // The RoCE v2 entry of the same GID has the sockets.
            GidType::RoceV1 => return GidKind::SecondName,
            // It is the only entry of its address.
            GidType::Ib => return GidKind::Address,
            GidType::RoceV2 => {}
        }
        if self.gid == gid_of(self.ip) {
            GidKind::Address
        } else if ip_of(&self.gid) == self.ip {
            GidKind::SecondName
        } else {
            GidKind::Alias
        }
    }
}

/// The default GID of an interface: link-local, from the MAC address (EUI-64). The kernel has it at index 0,
/// whether it is an address of the interface or not.
pub fn default_gid(mac: [u8; 6]) -> Gid {
    let [a, b, c, d, e, f] = mac;
    [
        0xfe,
        0x80,
        0,
        0,
        0,
        0,
        0,
        0,
        a ^ 2,
        b,
        c,
        0xff,
        0xfe,
        d,
        e,
        f,
    ]
}

/// The IP address at which processes of this host reach each other by a default GID that is no address of the
/// interface: in the loopback network, 127.64.0.0/10, and a function of the GID.
pub fn alias(gid: &Gid) -> IpAddr {
    // FNV-1a
    let hash = gid.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    let host = (hash ^ hash >> 22) & 0x3f_ffff;
    Ipv4Addr::from_bits(0x7f40_0000 | host).into()
}

/// The GIDs of an interface with these addresses: the default GID, then IPv4, then IPv6.
pub fn of_interface(mac: Option<[u8; 6]>, addresses: &[IpAddr]) -> Vec<GidAddress> {
    let gid = default_gid(mac.unwrap_or_default());
    let ip = IpAddr::V6(Ipv6Addr::from(gid));
    let own = addresses.contains(&ip);
    let default = default_entry(gid, own);
    let v4 = addresses.iter().filter(|ip| ip.is_ipv4());
    let v6 = addresses.iter().filter(|ip| ip.is_ipv6());
    let mut gids = vec![default];
    gids.extend(
        v4.chain(v6)
            .filter(|other| **other != ip)
            .map(|ip| GidAddress::of(*ip)),
    );
    gids
}

/// A default GID; `own` if it is an address of the interface.
fn default_entry(gid: Gid, own: bool) -> GidAddress {
    let ip = if own {
        Ipv6Addr::from(gid).into()
    } else {
        alias(&gid)
    };
    GidAddress {
        gid,
        ip,
        gid_type: GidType::RoceV2,
    }
}

/// The GIDs of a device at the address `ip` of an interface with these addresses: a link-local GID, then
/// the address, so that the address has the index that it would have on a device of the whole interface.
/// The link-local GID follows from `ip`, so that devices at different addresses of an interface do not
/// compete for it, and reach each other under it. For an IPv6 address it is the interface's default GID
/// if that is one of the addresses, because other hosts do not reach the one that follows from `ip`.
pub fn of_address(mac: Option<[u8; 6]>, addresses: &[IpAddr], ip: IpAddr) -> Vec<GidAddress> {
    let gid = default_gid(mac.unwrap_or_default());
    let first = match ip {
        IpAddr::V4(v4) => GidAddress {
            gid: link_local_gid_of(v4),
            ip,
            gid_type: GidType::RoceV2,
        },
        _ if addresses.contains(&Ipv6Addr::from(gid).into()) => default_entry(gid, true),
        IpAddr::V6(v6) => {
            let mut gid = [0; 16];
            (gid[0], gid[1]) = (0xfe, 0x80);
            gid[8..].copy_from_slice(&v6.octets()[8..]);
            default_entry(gid, gid == v6.octets())
        }
    };
    let mut gids = vec![first, GidAddress::of(ip)];
    gids.dedup();
    gids
}

/// The GIDs that a device of this fabric has in place of those of RoCE v2.
///
/// The GID of InfiniBand is the default subnet prefix and a GUID that follows from the first IPv4 address
/// (fe80::5efe:a.b.c.d), so that any uroce peer finds the way to it. An interface without such an address
/// has its link-local GID.
pub fn of_fabric(fabric: Fabric, gids: Vec<GidAddress>) -> Vec<GidAddress> {
    match fabric {
        Fabric::RoceV2 => gids,
        Fabric::RoceV1AndV2 => {
            let both = |entry: GidAddress| {
                let gid_type = GidType::RoceV1;
                [GidAddress { gid_type, ..entry }, entry]
            };
            gids.into_iter().flat_map(both).collect()
        }
        Fabric::InfiniBand | Fabric::Unspecified => {
            let v4 = gids.iter().find_map(|entry| match entry.ip {
                IpAddr::V4(v4) if entry.gid == gid_of(entry.ip) => Some(GidAddress {
                    gid: link_local_gid_of(v4),
                    ip: entry.ip,
                    gid_type: GidType::Ib,
                }),
                _ => None,
            });
            let first = v4.or(gids.first().copied());
            let gid_type = GidType::Ib;
            let port = first.map(|entry| GidAddress { gid_type, ..entry });
            port.into_iter().collect()
        }
    }
}

/// Updates a table: entries that are not `wanted` become empty, new ones take the first empty indices, and
/// those that stay keep their index. The first of `wanted` is at index 0. Returns whether any GID has
/// changed.
pub fn update(table: &mut Vec<Option<GidAddress>>, wanted: &[GidAddress]) -> bool {
    let before: Vec<_> = gids(table).collect();
    let (first, others) = match wanted.split_first() {
        Some((first, others)) => (Some(*first), others),
        None => (None, wanted),
    };
    if table.is_empty() {
        table.push(None);
    }
    table[0] = first;
    for entry in &mut table[1..] {
        *entry = entry.filter(|entry| others.contains(entry));
    }
    for new in others {
        if table.contains(&Some(*new)) {
            continue;
        }
        match (1..table.len()).find(|index| table[*index].is_none()) {
            Some(empty) => table[empty] = Some(*new),
            None if table.len() < GID_TABLE_LEN => table.push(Some(*new)),
            None => {}
        }
    }
    !gids(table).eq(before)
}

fn gids(table: &[Option<GidAddress>]) -> impl Iterator<Item = Option<Gid>> {
    table.iter().map(|entry| entry.map(|entry| entry.gid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(list: &str) -> Vec<IpAddr> {
        list.split_whitespace()
            .map(|ip| ip.parse().unwrap())
            .collect()
    }

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn wire(table: &[Option<GidAddress>]) -> Vec<String> {
        table
            .iter()
            .map(|entry| entry.map_or_else(String::new, |entry| entry.ip.to_string()))
            .collect()
    }

    #[test]
    fn the_default_gid_comes_first() {
        let all = ips("fd00::1 fe80::ff:fe00:1 10.0.0.1 10.0.0.2");
        let gids: Vec<_> = of_interface(Some(MAC), &all)
            .into_iter()
            .map(Some)
            .collect();
        assert_eq!(
            wire(&gids),
            ["fe80::ff:fe00:1", "10.0.0.1", "10.0.0.2", "fd00::1"]
        );
        assert_eq!(gids[1].unwrap().gid[10..], [0xff, 0xff, 10, 0, 0, 1]);
    }

    #[test]
    fn a_default_gid_that_is_no_address() {
        let [first, v4] = of_interface(None, &ips("127.0.0.1"))[..] else {
            panic!()
        };
        assert_eq!(Ipv6Addr::from(first.gid).to_string(), "fe80::200:ff:fe00:0");
        let IpAddr::V4(ip) = first.ip else { panic!() };
        assert!(ip.is_loopback() && ip.octets()[1] >= 64 && ip.octets()[1] < 128);
        assert_eq!(v4.ip.to_string(), "127.0.0.1");
        assert_ne!(alias(&first.gid), alias(&default_gid(MAC)));
    }

    #[test]
    fn the_gids_of_one_address() {
        let shown = |own: &str, ip: &str| {
            let gids = of_address(Some(MAC), &ips(own), ip.parse().unwrap());
            let show = |entry: &GidAddress| {
                let gid = Ipv6Addr::from(entry.gid);
                (gid.to_string(), entry.kind())
            };
            gids.iter().map(show).collect::<Vec<_>>()
        };
        let entry = |gid: &str, kind| (gid.parse::<Ipv6Addr>().unwrap().to_string(), kind);
        use GidKind::*;
        let real = entry("fe80::ff:fe00:1", Address);
        let v4 = entry("::ffff:10.0.0.2", Address);
        // A second name of an IPv4 address, whatever else the interface has.
        let own = "10.0.0.1 10.0.0.2 fd00::1 fe80::ff:fe00:1";
        let second_name = entry("fe80::5efe:10.0.0.2", SecondName);
        assert_eq!(shown(own, "10.0.0.2"), [second_name.clone(), v4.clone()]);
        assert_eq!(shown("10.0.0.2", "10.0.0.2"), [second_name, v4]);
        // For IPv6, the interface's link-local address, if it has one.
        assert_eq!(
            shown(own, "fd00::1"),
            [real.clone(), entry("fd00::1", Address)]
        );
        assert_eq!(shown(own, "fe80::ff:fe00:1"), [real]);
        // Otherwise a GID derived from the address.
        assert_eq!(
            shown("::1", "::1"),
            [entry("fe80::1", Alias), entry("::1", Address)]
        );
        assert_eq!(shown("fe80::7", "fe80::7"), [entry("fe80::7", Address)]);
    }

    #[test]
    fn the_gids_of_other_fabrics() {
        let all = of_interface(Some(MAC), &ips("10.0.0.1 fd00::1"));
        let both = of_fabric(Fabric::RoceV1AndV2, all.clone());
        assert_eq!(both.len(), 6);
        for (pair, of) in both.chunks(2).zip(&all) {
            assert_eq!((pair[0].gid, pair[0].gid_type), (of.gid, GidType::RoceV1));
            assert_eq!((pair[0].kind(), pair[1]), (GidKind::SecondName, *of));
        }
        let ib = of_fabric(Fabric::InfiniBand, all.clone());
        let [port] = ib[..] else { panic!("{ib:?}") };
        assert_eq!(Ipv6Addr::from(port.gid).to_string(), "fe80::5efe:a00:1");
        assert_eq!((port.ip, port.kind()), (all[1].ip, GidKind::Address));
        assert_eq!(port.peer_gid(), all[1].gid);
        assert_eq!(port.in_grh(port.ip), IpAddr::from(port.gid));
        assert_eq!(all[1].in_grh(port.ip), port.ip);
        let without_v4 = of_fabric(
            Fabric::Unspecified,
            of_interface(Some(MAC), &ips("fd00::1")),
        );
        assert_eq!((without_v4[0].gid, without_v4.len()), (all[0].gid, 1));
        assert_eq!(of_fabric(Fabric::InfiniBand, Vec::new()), []);
        // A RoCE v1 entry is another one than that of RoCE v2.
        let mut table = Vec::new();
        assert!(update(&mut table, &both));
        assert_eq!(table.len(), 6);
        assert!(update(&mut table, &both[..2]) && !update(&mut table, &both[..2]));
    }

    #[test]
    fn entries_keep_their_index() {
        let mut table = Vec::new();
        let mut with = |list: &str| {
            let changed = update(&mut table, &of_interface(Some(MAC), &ips(list)));
            (changed, wire(&table)[1..].to_vec())
        };
        let texts = |list: &[&str]| list.iter().map(|text| text.to_string()).collect::<Vec<_>>();
        assert_eq!(
            with("10.0.0.1 10.0.0.2"),
            (true, texts(&["10.0.0.1", "10.0.0.2"]))
        );
        assert_eq!(with("10.0.0.2"), (true, texts(&["", "10.0.0.2"])));
        // The default GID is an address now: the same GID.
        assert_eq!(
            with("10.0.0.2 fe80::ff:fe00:1"),
            (false, texts(&["", "10.0.0.2"]))
        );
        assert_eq!(
            with("10.0.0.2 10.0.0.3 10.0.0.4"),
            (true, texts(&["10.0.0.3", "10.0.0.2", "10.0.0.4"]))
        );
        assert_eq!(with(""), (true, texts(&["", "", ""])));
        let many: Vec<_> = (0..300)
            .map(|i| format!("10.1.{}.{}", i / 256, i % 256))
            .collect();
        assert_eq!(with(&many.join(" ")).1.len(), GID_TABLE_LEN - 1);
        assert!(update(&mut table, &[]));
        assert!(table.iter().all(Option::is_none));
    }
}
