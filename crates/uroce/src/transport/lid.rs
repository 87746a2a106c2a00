//! LIDs: InfiniBand's addresses within a subnet, which RoCE does not have.
//!
//! A port with an InfiniBand link layer has a LID: the lower 15 bits of its first IPv4 address, as unicast
//! LIDs end at 0xbfff. An address without a GRH means the neighbour whose IPv4 address has the same upper
//! bits and the LID as its lower ones. So peers are in one IPv4 network of 17 bits or more.
//!
//! A program that knows no other addresses (qperf without librdmacm) cannot run on RoCE. With
//! `IBV_UROCE_LIDS=1` it runs on uroce: every port has a LID, of 16 bits. Without the variable, a RoCE device
//! rejects addresses without a GRH, as any does.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};

use super::{GidEntry, GidType};
use crate::profile::{Fabric, Profile};
use roce::engine::Gid;
use roce::wire::{gid_of, ip_of};

/// The bits of an IPv4 address that are a LID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lids {
    mask: u16,
}

const INFINIBAND: Lids = Lids { mask: 0x7fff };
const EXTENSION: Lids = Lids { mask: 0xffff };

/// `IBV_UROCE_LIDS`: whether ports without an InfiniBand link layer have LIDs, too.
static ENABLED: AtomicBool = AtomicBool::new(false);

/// Gives LIDs to all ports of this process, or only to those with an InfiniBand link layer.
pub fn enable(all_ports: bool) {
    ENABLED.store(all_ports, Ordering::Relaxed);
}

/// A GID and its index in the GID table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedGid {
    /// The entry's index in the table.
    pub index: u8,
    /// The GID.
    pub gid: Gid,
}

/// The first entry that stands for an IPv4 address of the interface, and that address.
fn first_ipv4(gids: &[Option<GidEntry>]) -> Option<(u8, Ipv4Addr)> {
    gids.iter().enumerate().find_map(|(index, entry)| {
        let entry = entry.as_ref()?;
        let index = u8::try_from(index).ok()?;
        let is_address = entry.gid_type == GidType::Ib || entry.gid == gid_of(entry.ip);
        match entry.ip {
            IpAddr::V4(ip) if is_address && entry.gid_type != GidType::RoceV1 => Some((index, ip)),
            _ => None,
        }
    })
}

impl Lids {
    /// The LIDs of a device; None if it has none.
    pub fn of(profile: &Profile) -> Option<Lids> {
        match profile.fabric {
            Fabric::InfiniBand => Some(INFINIBAND),
            _ => ENABLED.load(Ordering::Relaxed).then_some(EXTENSION),
        }
    }

    /// The port's LID; 0 if it has no IPv4 address.
    pub fn of_port(self, gids: &[Option<GidEntry>]) -> u16 {
        first_ipv4(gids).map_or(0, |(_, ip)| ip.to_bits() as u16 & self.mask)
    }

    /// The LID of a port by its address, as a GID of either kind; 0 if that is no IPv4 address.
    pub fn of_address(self, gid: &Gid) -> u16 {
        match ip_of(gid) {
            IpAddr::V4(ip) => ip.to_bits() as u16 & self.mask,
            IpAddr::V6(_) => 0,
        }
    }

    /// The destination GID that a LID stands for, with the index of the source GID. None if the port has no
    /// IPv4 address, or no port has such a LID.
    pub fn resolve(self, gids: &[Option<GidEntry>], dlid: u16) -> Option<IndexedGid> {
        let (index, own) = first_ipv4(gids)?;
        if dlid & !self.mask != 0 {
            return None;
        }
        let bits = own.to_bits() & !u32::from(self.mask) | u32::from(dlid);
        let gid = gid_of(Ipv4Addr::from_bits(bits).into());
        Some(IndexedGid { index, gid })
    }
}

/// The port's LID, as `ibv_query_port` reports it: 0 for a device without LIDs.
pub fn port_lid(profile: &Profile, gids: &[Option<GidEntry>]) -> u16 {
    Lids::of(profile).map_or(0, |lids| lids.of_port(gids))
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce::wire::link_local_gid_of;

    fn entry(gid: Gid, gid_type: GidType, ip: [u8; 4]) -> Option<GidEntry> {
        Some(GidEntry {
            gid,
            gid_type,
            ip: ip.into(),
            ifindex: 3,
        })
    }

    fn mapped(a: u8, b: u8) -> Gid {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, a, b]
    }

    #[test]
    fn a_lid_is_the_lower_half_of_an_ipv4_address() {
        use GidType::*;
        let mut link_local = [0; 16];
        (link_local[0], link_local[1], link_local[15]) = (0xfe, 0x80, 1);
        let gids = [
            None,
            entry(link_local, RoceV2, [127, 64, 0, 1]),
            entry(mapped(7, 1), RoceV1, [10, 9, 7, 1]),
            entry(mapped(7, 1), RoceV2, [10, 9, 7, 1]),
            entry(mapped(8, 1), RoceV2, [10, 9, 8, 1]),
        ];
        assert_eq!(EXTENSION.of_port(&gids), 0x0701);
        let indexed = |gid| Some(IndexedGid { index: 3, gid });
        assert_eq!(EXTENSION.resolve(&gids, 0x0701), indexed(mapped(7, 1)));
        assert_eq!(EXTENSION.resolve(&gids, 0x8802), indexed(mapped(0x88, 2)));
        let none = &gids[..3];
        assert_eq!(
            (EXTENSION.of_port(none), EXTENSION.resolve(none, 1)),
            (0, None)
        );
    }

    #[test]
    fn a_lid_of_infiniband_is_a_unicast_lid() {
        let ip = [192, 168, 200, 5];
        let gids = [entry(link_local_gid_of(ip.into()), GidType::Ib, ip)];
        assert_eq!(INFINIBAND.of_port(&gids), 0x4805);
        let found = INFINIBAND.resolve(&gids, 0x4806).unwrap();
        assert_eq!(
            (found.index, found.gid),
            (0, gid_of([192, 168, 200, 6].into()))
        );
        assert_eq!(INFINIBAND.resolve(&gids, 0xc001), None);
        assert_eq!(INFINIBAND.of_address(&found.gid), 0x4806);
        assert_eq!(INFINIBAND.of_address(&gids[0].unwrap().gid), 0x4805);
        assert_eq!(INFINIBAND.of_address(&[0xfd; 16]), 0);
    }
}
