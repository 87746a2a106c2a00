//! GID table entries read from sysfs, for kernels without the ioctl.

use core::mem::MaybeUninit;
use core::ptr;

use libc::{EFAULT, EINVAL, EISDIR, ENOENT, ENOTSUP, ERANGE, IF_NAMESIZE, c_char, c_int};

use super::super::device_attr::ibv_query_device;
use super::super::port::ibv_query_port;
use super::{ALL_FIELDS, EMPTY, is_empty};
use crate::abi::*;
use crate::discover::{sysfs, value::hex16};

/// Reads the selected `fields` of an entry from sysfs. `link_layer` is the port's; if `None`, it is queried
/// when needed.
///
/// # Safety
///
/// `context` is an open context.
pub(super) unsafe fn read_entry(
    context: *mut ibv_context,
    port_num: u32,
    gid_index: u32,
    fields: u32,
    link_layer: Option<u8>,
    entry: &mut ibv_gid_entry,
) -> Result<(), Errno> {
    entry.port_num = port_num;
    entry.gid_index = gid_index;
    // SAFETY: the context is open, so its device is alive; every device is the start of a
    // `verbs_device`.
    let dev = unsafe { (*(*context).device.cast::<verbs_device>()).sysfs };
    // As in the C library, the port has eight bits here and the index is an int.
    let (port, index) = (port_num as u8, gid_index as c_int);

    if fields & VERBS_QUERY_GID_ATTR_GID != 0 {
        let mut text = [0; 41];
        // SAFETY: the sysfs part lives as long as the device.
        let raw =
            unsafe { sysfs::read_ibdev(dev, format_args!("ports/{port}/gids/{index}"), &mut text) };
        raw.map_err(|_| Errno(EINVAL))?;
        let (raw, overflow) = parse_gid(&text);
        if overflow {
            Errno(ERANGE).set();
        }
        let raw = raw.ok_or(Errno(EINVAL))?;
        entry.gid = ibv_gid { raw };
    }
    if fields & VERBS_QUERY_GID_ATTR_TYPE != 0 {
        // SAFETY: the sysfs part lives as long as the device.
        let v2 = unsafe { type_is_v2(dev, port, index) }.ok_or(Errno(EINVAL))?;
        entry.gid_type = if v2 {
            IBV_GID_TYPE_ROCE_V2
        } else {
            let link_layer = match link_layer {
                Some(known) => known,
                // SAFETY: the context is open, as the caller promises.
                None => unsafe { port_link_layer(context, port) }?.0,
            };
            older_type(link_layer)
        };
    }
    if fields & VERBS_QUERY_GID_ATTR_NDEV_IFINDEX != 0 {
        let mut name = [0; IF_NAMESIZE];
        // SAFETY: the sysfs part lives as long as the device.
        let len = unsafe {
            sysfs::read_ibdev(
                dev,
                format_args!("ports/{port}/gid_attrs/ndevs/{index}"),
                &mut name,
            )
        };
        entry.ndev_ifindex = match len {
            Ok(1..) => {
                // SAFETY: `read_ibdev` ends the name with a NUL.
                let ifindex = unsafe { libc::if_nametoindex(name.as_ptr().cast::<c_char>()) };
                if ifindex == 0 {
                    return Err(Errno::last());
                }
                ifindex
            }
            _ => 0,
        };
    }
    Ok(())
}

/// Parses eight groups of four hexadecimal digits, five bytes apart; the separators are not checked, as in
/// the C library. Returns the GID, or `None` if a group has no digit, and whether a group overflowed 16
/// bits, for which the C library leaves ERANGE in errno.
pub fn parse_gid(text: &[u8]) -> (Option<[u8; 16]>, bool) {
    let mut gid = [0; 16];
    let mut overflow = false;
    for (word, at) in gid.chunks_exact_mut(2).zip((0..).step_by(5)) {
        let Some(group) = text.get(at..).and_then(hex16) else {
            return (None, overflow);
        };
        word.copy_from_slice(&group.value.to_be_bytes());
        overflow |= group.overflow;
    }
    (Some(gid), overflow)
}

/// Whether an entry is for RoCE v2, according to sysfs. `None` with errno ENOTSUP for an unknown type, or
/// EFAULT if there is no file for the entry.
///
/// # Safety
///
/// `dev` is NULL or alive.
unsafe fn type_is_v2(dev: *const verbs_sysfs_dev, port: u8, index: c_int) -> Option<bool> {
    let mut text = [0; 11];
    Errno(0).set();
    // SAFETY: `dev` is NULL or alive, as the caller promises.
    let len = unsafe {
        sysfs::read_ibdev(
            dev,
            format_args!("ports/{port}/gid_attrs/types/{index}"),
            &mut text,
        )
    };
    match len {
        Ok(len @ 1..) => match text.get(..len)? {
            b"IB/RoCE v1" => Some(false),
            b"RoCE v2" => Some(true),
            _ => {
                Errno(ENOTSUP).set();
                None
            }
        },
        // The kernel fails with EINVAL for the GIDs of an InfiniBand port.
        Err(Errno(EINVAL)) => Some(false),
        // A kernel from before RoCE v2 has no directory `gid_attrs`. If it exists, only the file is
        // missing: reading a directory fails with EISDIR.
        _ => {
            // SAFETY: `dev` is NULL or alive, as the caller promises.
            let err = unsafe {
                sysfs::read_ibdev(dev, format_args!("ports/{port}/gid_attrs"), &mut text)
            };
            match err {
                Err(Errno(ENOENT)) => return Some(false),
                Ok(_) | Err(Errno(EISDIR)) => Errno(EFAULT).set(),
                Err(_) => {}
            }
            None
        }
    }
}

/// The GID type that sysfs calls `IB/RoCE v1`: RoCE v1 on Ethernet, else InfiniBand.
fn older_type(link_layer: u8) -> u32 {
    if link_layer == IBV_LINK_LAYER_ETHERNET as u8 {
        IBV_GID_TYPE_ROCE_V1
    } else {
        IBV_GID_TYPE_IB
    }
}

/// A port's link layer, and the length of its GID table.
///
/// # Safety
///
/// `context` is an open context.
unsafe fn port_link_layer(context: *mut ibv_context, port: u8) -> Result<(u8, u32), Errno> {
    let mut attr = MaybeUninit::<ibv_port_attr>::zeroed();
    // SAFETY: the context is open, as the caller promises; zeros are valid attributes.
    unsafe {
        match ibv_query_port(context, port, attr.as_mut_ptr().cast()) {
            0 => {
                let attr = attr.assume_init_ref();
                Ok((attr.link_layer, attr.gid_tbl_len.max(0) as u32))
            }
            errno => Err(Errno(errno)),
        }
    }
}

/// Reads the whole table from sysfs, for
/// [`_ibv_query_gid_table`](super::_ibv_query_gid_table). Returns the number of entries.
///
/// # Safety
///
/// `context` is an open context; `max_entries` times `entry_size` bytes at `entries` are writable.
pub(super) unsafe fn read_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    entry_size: usize,
) -> Result<usize, Errno> {
    if entry_size < size_of::<ibv_gid_entry>() {
        return Err(Errno(EINVAL));
    }
    let mut attr = MaybeUninit::<ibv_device_attr>::zeroed();
    // SAFETY: the context is open, as the caller promises; zeros are valid attributes.
    let ports = unsafe {
        match ibv_query_device(context, attr.as_mut_ptr()) {
            0 => attr.assume_init_ref().phys_port_cnt,
            errno => return Err(Errno(errno)),
        }
    };
    let mut count = 0;
    for port in 1..=ports {
        // SAFETY: the context is open, as the caller promises.
        let (link_layer, len) = unsafe { port_link_layer(context, port) }?;
        for index in 0..len {
            let mut entry = EMPTY;
            // SAFETY: the context is open, as the caller promises.
            unsafe {
                read_entry(
                    context,
                    port.into(),
                    index,
                    ALL_FIELDS,
                    Some(link_layer),
                    &mut entry,
                )?;
            }
            if is_empty(&entry) {
                continue;
            }
            if count == max_entries {
                return Err(Errno(EINVAL));
            }
            // SAFETY: `count` is below `max_entries`, so the place is writable, and an entry fits. It may
            // be unaligned, since `entry_size` is arbitrary.
            unsafe {
                let place = entries.byte_add(count * entry_size);
                ptr::write_unaligned(place, entry);
            }
            count += 1;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gids_as_sysfs_prints_them() {
        let gid = |text: &[u8]| parse_gid(text).0;
        assert_eq!(
            gid(b"fe80:0000:0000:0000:5054:00ff:fe12:3456\0"),
            Some([
                0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0x12, 0x34, 0x56
            ])
        );
        assert_eq!(
            gid(b"0000:0000:0000:0000:0000:0000:0000:0000\0"),
            Some([0; 16])
        );
        for malformed in [
            &b"\0"[..],
            b"",
            b"fe80:0000:0000:0000:5054:00ff:fe12:\0",
            b"fe80::1\0",
            b"                                         ",
        ] {
            assert_eq!(gid(malformed), None, "{malformed:?}");
        }
        assert_eq!(
            gid(&[b'1'; 40]).map(|gid| gid[..10].to_vec()),
            Some(vec![0xff; 10])
        );
        assert!(parse_gid(&[b'1'; 40]).1, "a group of more than 16 bits");
    }

    #[test]
    fn older_types_by_link_layer() {
        assert_eq!(
            older_type(IBV_LINK_LAYER_ETHERNET as u8),
            IBV_GID_TYPE_ROCE_V1
        );
        assert_eq!(older_type(IBV_LINK_LAYER_INFINIBAND as u8), IBV_GID_TYPE_IB);
        assert_eq!(older_type(0), IBV_GID_TYPE_IB);
    }
}
