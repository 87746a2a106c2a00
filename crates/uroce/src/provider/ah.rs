//! Address handles as verbs, and the addresses of multicast groups.

use std::net::Ipv4Addr;

use ibverbs_abi::*;
use libc::EINVAL;

use super::context::private;
use super::ffi::Result;
use super::handle;
use super::object::{Object, Zeroable};
use super::pd::Pd;
use crate::device::Device;
use crate::device::handles::{self, ObjectKind};
use crate::profile::Fabric;
use crate::transport::lid::Lids;
use crate::transport::{GidEntry, GidType};
use roce::engine::{AddressVector, Gid};
use roce::wire::{gid_of, ip_of};

/// An address handle; its private part is the resolved address vector.
pub type Ah = Object<ibv_ah, AddressVector>;

/// Converts an address. EINVAL if its port or source GID does not exist, if source and destination are IP
/// addresses of different families (as the kernel's address resolution reports it), or if it has no GRH and
/// the device no LIDs.
pub fn address_vector(attr: &ibv_ah_attr, device: &Device) -> Result<AddressVector> {
    let gids = device.net.gids();
    let lids = Lids::of(&device.profile);
    if let Some(lids) = lids.filter(|_| attr.port_num == 1 && attr.is_global == 0) {
        let resolved = lids.resolve(&gids, attr.dlid).ok_or(Errno(EINVAL))?;
        return Ok(AddressVector {
            dgid: resolved.gid,
            sgid_index: resolved.index,
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
        });
    }
    let sgid = gids.get(usize::from(attr.grh.sgid_index));
    let Some(Some(sgid)) = sgid.filter(|_| attr.port_num == 1 && attr.is_global != 0) else {
        return Err(Errno(EINVAL));
    };
    // SAFETY: every variant of the union is 16 bytes, any of which are valid.
    let dgid = unsafe { attr.grh.dgid.raw };
    if !can_reach(sgid, &dgid) {
        return Err(Errno(EINVAL));
    }
    Ok(AddressVector {
        dgid: group_address(device, dgid),
        sgid_index: attr.grh.sgid_index,
        traffic_class: attr.grh.traffic_class,
        hop_limit: attr.grh.hop_limit,
        flow_label: attr.grh.flow_label,
    })
}

/// The address of a multicast group's packets: its GID; on InfiniBand the IPv4 group that the GID stands for,
/// because the port has an IPv4 address ([`ipv4_group`]).
pub fn group_address(device: &Device, gid: Gid) -> Gid {
    match device.profile.fabric {
        Fabric::InfiniBand if gid[0] == 0xff => gid_of(ipv4_group(&gid).into()),
        _ => gid,
    }
}

/// The IPv4 group that a multicast GID of InfiniBand stands for: the one that IP over InfiniBand derives the
/// GID from (RFC 4391, section 4); for other GIDs, a function of all bits to 239.0.0.0/8.
fn ipv4_group(gid: &Gid) -> Ipv4Addr {
    const IP_OVER_IB: [u8; 2] = [0x40, 0x1b];
    if gid[2..4] == IP_OVER_IB && gid[6..12] == [0; 6] {
        return Ipv4Addr::new(gid[12] & 0xf | 0xe0, gid[13], gid[14], gid[15]);
    }
    // FNV-1a
    let hash = gid.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    Ipv4Addr::from_bits(0xef00_0000 | (hash ^ hash >> 24) & 0xff_ffff)
}

/// Whether packets of the source can have the destination's address.
fn can_reach(source: &GidEntry, dgid: &[u8; 16]) -> bool {
    source.gid_type != GidType::RoceV2
        || *dgid == source.gid
        || ip_of(dgid).is_ipv4() == source.ip.is_ipv4()
}

/// # Safety
/// `pd` is live, `attr` readable.
pub unsafe fn create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> Result<*mut ibv_ah> {
    // SAFETY: the caller passes readable attributes and a readable domain, which is used further if it
    // is live.
    let (context, domain, attr) = unsafe {
        handle::check(pd)?;
        ((*pd).context, Pd::of(pd), &*attr)
    };
    // SAFETY: the domain is live, so its context is open.
    let device = unsafe { private(context) }.check()?;
    let av = address_vector(attr, device)?;
    let reserved = handle::reserve(device, ObjectKind::Ah)?;
    let room = Ah::room()?;
    domain.refs.acquire();
    let mut ah = ibv_ah::zeroed();
    (ah.context, ah.pd, ah.handle) = (context, pd, reserved.handle());
    let ah = room.fill(ah, av);
    handle::publish(reserved, ObjectKind::Ah, ah, context);
    Ok(ah)
}

/// # Safety
/// `ah` is live; after success it is freed.
pub unsafe fn destroy_ah(ah: *mut ibv_ah) -> Result<()> {
    // SAFETY: the caller passes a live handle and does not use it again. Its reference keeps its domain
    // live.
    unsafe {
        handles::remove(handle::claim(ah)?);
        Pd::of((*ah).pd).refs.release();
        Ah::free(ah);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_infiniband_are_ipv4_groups() {
        let group = |text: &str| ipv4_group(&gid_of(text.parse().unwrap()));
        assert_eq!(
            group("ff12:401b:ffff::0f01:203"),
            Ipv4Addr::new(239, 1, 2, 3)
        );
        assert_eq!(group("ff12:401b:ffff::1"), Ipv4Addr::new(224, 0, 0, 1));
        let others = [
            "ff12:601b:ffff::1",
            "ff0e::9",
            "ff0e::a",
            "ff12:401b:ffff:1::1",
        ]
        .map(group);
        assert!(others.iter().all(|ip| ip.octets()[0] == 239), "{others:?}");
        assert_ne!(others[1], others[2]);
    }

    #[test]
    fn source_and_destination_have_one_family() {
        let entry = |ip: &str, gid_type| {
            let ip: std::net::IpAddr = ip.parse().unwrap();
            GidEntry {
                gid: gid_of(ip),
                gid_type,
                ip,
                ifindex: 1,
            }
        };
        let gid = |ip: &str| gid_of(ip.parse().unwrap());
        let (v4, v6) = (
            entry("192.0.2.1", GidType::RoceV2),
            entry("fe80::1", GidType::RoceV2),
        );
        assert!(can_reach(&v4, &gid("192.0.2.2")) && can_reach(&v6, &gid("fe80::2")));
        assert!(!can_reach(&v4, &gid("fe80::2")) && !can_reach(&v6, &gid("192.0.2.2")));
        // An alias: the GID is no address of the interface, its packets have an IPv4 address.
        let alias = GidEntry {
            gid: gid("fe80::3"),
            ..entry("192.0.2.1", GidType::RoceV2)
        };
        assert!(can_reach(&alias, &gid("fe80::3")));
        assert!(can_reach(&entry("192.0.2.1", GidType::Ib), &gid("fe80::2")));
    }
}
