//! The GID table: which address stands at which index. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::engine::Gid;
use crate::wire::gid_of;

/// Entries that the table has room for: as many as an address handle can name.
pub const GID_TABLE_LEN: usize = 256;

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub gid: Gid,
    /// The address that stands for the GID on the wire. Its own, but for a default GID that is no
    /// address of the interface: see [`alias`].
    pub ip: IpAddr,
}

impl Slot {
    fn of(ip: IpAddr) -> Slot {
        Slot {
            gid: gid_of(ip),
            ip,
        }
    }
}

/// The default GID of an interface, which the kernel puts in front of all others whether or not it is
/// an address: link-local, from the MAC address (EUI-64).
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

/// Where processes of this host find each other under a default GID that is no address of the
/// interface: an address of the loopback network, 127.64.0.0/10, the same for each of them.
pub fn alias(gid: &Gid) -> IpAddr {
    // FNV-1a
    let hash = gid.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    let host = (hash ^ hash >> 22) & 0x3f_ffff;
    Ipv4Addr::from_bits(0x7f40_0000 | host).into()
}

/// The entries of an interface with these addresses, IPv4 before IPv6, the default GID in front.
pub fn of_interface(mac: Option<[u8; 6]>, addresses: &[IpAddr]) -> Vec<Slot> {
    let gid = default_gid(mac.unwrap_or_default());
    let ip = IpAddr::V6(Ipv6Addr::from(gid));
    let own = addresses.contains(&ip);
    let default = Slot {
        gid,
        ip: if own { ip } else { alias(&gid) },
    };
    let v4 = addresses.iter().filter(|ip| ip.is_ipv4());
    let v6 = addresses.iter().filter(|ip| ip.is_ipv6());
    let mut slots = vec![default];
    slots.extend(
        v4.chain(v6)
            .filter(|other| **other != ip)
            .map(|ip| Slot::of(*ip)),
    );
    slots
}

/// The only entry of a device at one address.
pub fn of_address(ip: IpAddr) -> Vec<Slot> {
    vec![Slot::of(ip)]
}

/// Brings a table up to date: entries that are not `wanted` any more become empty, new ones go to the
/// first empty places. The first stays the first. Returns whether any GID has changed.
pub fn update(table: &mut Vec<Option<Slot>>, wanted: &[Slot]) -> bool {
    let before: Vec<_> = gids(table).collect();
    let (first, others) = match wanted.split_first() {
        Some((first, others)) => (Some(*first), others),
        None => (None, wanted),
    };
    if table.is_empty() {
        table.push(None);
    }
    table[0] = first;
    for slot in &mut table[1..] {
        *slot = slot.filter(|slot| others.contains(slot));
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

fn gids(table: &[Option<Slot>]) -> impl Iterator<Item = Option<Gid>> {
    table.iter().map(|slot| slot.map(|slot| slot.gid))
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

    fn wire(table: &[Option<Slot>]) -> Vec<String> {
        table
            .iter()
            .map(|slot| slot.map_or_else(String::new, |slot| slot.ip.to_string()))
            .collect()
    }

    #[test]
    fn the_default_gid_comes_first() {
        let all = ips("fd00::1 fe80::ff:fe00:1 10.0.0.1 10.0.0.2");
        let slots: Vec<_> = of_interface(Some(MAC), &all)
            .into_iter()
            .map(Some)
            .collect();
        assert_eq!(
            wire(&slots),
            ["fe80::ff:fe00:1", "10.0.0.1", "10.0.0.2", "fd00::1"]
        );
        assert_eq!(slots[1].unwrap().gid[10..], [0xff, 0xff, 10, 0, 0, 1]);
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
    fn others_keep_their_place() {
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
