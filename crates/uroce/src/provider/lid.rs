//! LIDs: InfiniBand's addresses within a subnet, which RoCE does not have.
//!
//! A program that knows no other addresses (qperf without librdmacm) cannot run on RoCE. With
//! `IBV_UROCE_LIDS=1` it runs on uroce: the port's LID is the lower half of its first IPv4 address, and
//! an address without a GRH means the neighbour whose IPv4 address has the same upper half and the LID
//! as its lower half. Without the variable such addresses are rejected, as by any RoCE device.

use std::sync::OnceLock;

use crate::engine::Gid;
use crate::transport::GidEntry;

/// Whether `IBV_UROCE_LIDS` enables LIDs. It is read once, and ignored in a set-user-ID program
/// (AT_SECURE).
pub fn enabled() -> bool {
    static ENABLED: OnceLock<bool> = OnceLock::new();
    *ENABLED.get_or_init(|| {
        // SAFETY: getauxval takes no pointers.
        let at_secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
        !at_secure && std::env::var_os("IBV_UROCE_LIDS").is_some_and(|value| value == "1")
    })
}

/// A GID and its index in the GID table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedGid {
    /// Its place in the table.
    pub index: u8,
    /// The GID.
    pub gid: Gid,
}

/// The first GID that is an IPv4 address.
fn first_ipv4(gids: &[Option<GidEntry>]) -> Option<IndexedGid> {
    gids.iter().enumerate().find_map(|(index, entry)| {
        let gid = entry.as_ref()?.gid;
        let index = u8::try_from(index).ok()?;
        let is_ipv4 = gid[..10] == [0; 10] && gid[10..12] == [0xff, 0xff];
        is_ipv4.then_some(IndexedGid { index, gid })
    })
}

/// The port's LID; 0 if it has no IPv4 address.
pub fn of_port(gids: &[Option<GidEntry>]) -> u16 {
    first_ipv4(gids).map_or(0, |first| {
        u16::from_be_bytes([first.gid[14], first.gid[15]])
    })
}

/// The port's LID, as `ibv_query_port` reports it: 0 unless LIDs are enabled.
pub fn of_port_if_enabled(gids: &[Option<GidEntry>]) -> u16 {
    if enabled() { of_port(gids) } else { 0 }
}

/// The destination GID that a LID stands for, with the index of the source GID. None if the port has no
/// IPv4 address.
pub fn resolve(gids: &[Option<GidEntry>], dlid: u16) -> Option<IndexedGid> {
    let mut resolved = first_ipv4(gids)?;
    resolved.gid[14..].copy_from_slice(&dlid.to_be_bytes());
    Some(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(gid: [u8; 16]) -> Option<GidEntry> {
        Some(GidEntry { gid, ifindex: 3 })
    }

    #[test]
    fn a_lid_is_the_lower_half_of_an_ipv4_address() {
        let mapped = |a, b| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, a, b];
        let mut link_local = [0; 16];
        (link_local[0], link_local[1], link_local[15]) = (0xfe, 0x80, 1);
        let gids = [
            None,
            entry(link_local),
            entry(mapped(7, 1)),
            entry(mapped(8, 1)),
        ];
        assert_eq!(of_port(&gids), 0x0701);
        let indexed = |gid| Some(IndexedGid { index: 2, gid });
        assert_eq!(resolve(&gids, 0x0701), indexed(mapped(7, 1)));
        assert_eq!(resolve(&gids, 0x0802), indexed(mapped(8, 2)));
        assert_eq!((of_port(&gids[..2]), resolve(&gids[..2], 1)), (0, None));
    }
}
