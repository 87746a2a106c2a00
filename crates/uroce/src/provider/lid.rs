//! LIDs, InfiniBand's addresses within a subnet. RoCE has none, and a program that knows no others
//! (qperf without librdmacm) cannot run on it. With `IBV_UROCE_LIDS=1` it can: the port has the lower
//! half of its first IPv4 address for a LID, and an address without a GRH is that of the neighbour with
//! the same upper half. Without the variable such addresses are refused, as by any RoCE device.

use std::sync::OnceLock;

use crate::engine::Gid;
use crate::transport::GidEntry;

/// Whether LIDs are asked for; not by the caller of a setuid program.
pub fn enabled() -> bool {
    static ENABLED: OnceLock<bool> = OnceLock::new();
    *ENABLED.get_or_init(|| {
        // SAFETY: a look at what the kernel told the process when it began.
        let setuid = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
        !setuid && std::env::var_os("IBV_UROCE_LIDS").is_some_and(|value| value == "1")
    })
}

/// The index of the first GID that is an IPv4 address, and the GID.
fn first_ipv4(gids: &[Option<GidEntry>]) -> Option<(u8, Gid)> {
    gids.iter().enumerate().find_map(|(index, entry)| {
        let gid = entry.as_ref()?.gid;
        (gid[..10] == [0; 10] && gid[10..12] == [0xff, 0xff])
            .then(|| u8::try_from(index).ok().map(|index| (index, gid)))?
    })
}

/// The port's LID; 0 if it has no IPv4 address.
pub fn of_port(gids: &[Option<GidEntry>]) -> u16 {
    first_ipv4(gids).map_or(0, |(_, gid)| u16::from_be_bytes([gid[14], gid[15]]))
}

/// The GID index that a LID is reached from, and the GID that it stands for.
pub fn resolve(gids: &[Option<GidEntry>], dlid: u16) -> Option<(u8, Gid)> {
    let (index, mut gid) = first_ipv4(gids)?;
    gid[14..].copy_from_slice(&dlid.to_be_bytes());
    Some((index, gid))
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
        assert_eq!(resolve(&gids, 0x0701), Some((2, mapped(7, 1))));
        assert_eq!(resolve(&gids, 0x0802), Some((2, mapped(8, 2))));
        assert_eq!((of_port(&gids[..2]), resolve(&gids[..2], 1)), (0, None));
    }
}
