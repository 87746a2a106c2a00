//! The sender of a UD message, from the 40 bytes in front of the payload. These are a global routing
//! header (InfiniBand Architecture volume 1, chapter 8.3), an IPv6 header (RFC 8200), or 20 undefined
//! bytes and an IPv4 header (RFC 791; RoCEv2, annex A17).

use ibverbs_abi::Errno;
use libc::{EINVAL, EPROTONOSUPPORT, IPPROTO_UDP, c_int};

use crate::abi::{IBV_GID_TYPE_SYSFS_IB_ROCE_V1, IBV_GID_TYPE_SYSFS_ROCE_V2, ibv_gid_type_sysfs};

/// The NxtHdr field of a GRH: a base transport header (BTH) follows.
const IBA_NEXT_HEADER: u8 = 0x1b;

/// The fields of a header that a reply needs.
#[derive(Debug, PartialEq, Eq)]
pub struct Sender {
    /// The sender's GID.
    pub gid: [u8; 16],
    /// The local GID that the message was sent to, and its type in the port's GID table.
    pub receiver: [u8; 16],
    pub gid_type: ibv_gid_type_sysfs,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

/// The flow label of the first word, as if it were a GRH's or an IPv6 header's.
pub fn flow_label(grh: &[u8; 40]) -> u32 {
    let [_, a, b, c, ..] = *grh;
    u32::from_be_bytes([0, a & 0xf, b, c])
}

/// The header's last 20 bytes, where an IPv4 header would be.
fn ipv4_header(grh: &[u8; 40]) -> &[u8; 20] {
    let (_, header) = grh.split_at(20);
    // `header` has 20 bytes, so the fallback is never used.
    header.first_chunk().unwrap_or(&[0; 20])
}

/// The checksum over an IPv4 header without options (RFC 1071): 0 if the header's checksum is right.
fn ipv4_checksum(header: &[u8; 20]) -> u16 {
    let words = header.chunks_exact(2);
    let sum: u32 = words
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// Whether the header is IPv4; EPROTONOSUPPORT if it is none of the three. In front of an IPv4 header the
/// first word is undefined and may look like the start of an IPv6 header. Then the last 20 bytes decide:
/// it is IPv4 if they are a header without options with a right checksum.
fn is_ipv4(grh: &[u8; 40]) -> Result<bool, Errno> {
    let ipv4 = ipv4_header(grh);
    match (grh[0] >> 4, ipv4[0] >> 4) {
        // RoCEv2's IPv4 headers have no options.
        (6, _) => Ok(ipv4[0] & 0xf == 5 && ipv4_checksum(ipv4) == 0),
        (_, 4) => Ok(true),
        _ => Err(Errno(EPROTONOSUPPORT)),
    }
}

/// The GID of an IPv4 address: the IPv4-mapped IPv6 address (RFC 4291, section 2.5.5.2).
fn mapped([a, b, c, d]: [u8; 4]) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

/// The source GID of a GRH or an IPv6 header; `None` for IPv4 or a message to a multicast group. As in
/// the C library, it is in the attributes even if [`Sender::of`] rejects the header later.
pub(super) fn source(grh: &[u8; 40]) -> Option<[u8; 16]> {
    let (gid, receiver) = gids(grh);
    (is_ipv4(grh) == Ok(false) && receiver[0] != 0xff).then_some(gid)
}

/// The GIDs of the sender and the receiver in a GRH or an IPv6 header.
fn gids(grh: &[u8; 40]) -> ([u8; 16], [u8; 16]) {
    let (mut sender, mut receiver) = ([0; 16], [0; 16]);
    sender.copy_from_slice(&grh[8..24]);
    receiver.copy_from_slice(&grh[24..]);
    (sender, receiver)
}

impl Sender {
    /// Reads the header. EPROTONOSUPPORT if it is none of the three; EINVAL for a message to a multicast
    /// group, whose header does not say which local GID to reply from.
    pub fn of(grh: &[u8; 40]) -> Result<Self, Errno> {
        if is_ipv4(grh)? {
            return Self::of_ipv4(ipv4_header(grh));
        }
        let [v, t, _, _, _, _, next_header, hop_limit, ..] = grh;
        let (gid, receiver) = gids(grh);
        if receiver[0] == 0xff {
            return Err(Errno(EINVAL));
        }
        let gid_type = match *next_header {
            IBA_NEXT_HEADER => IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
            udp if c_int::from(udp) == IPPROTO_UDP => IBV_GID_TYPE_SYSFS_ROCE_V2,
            _ => return Err(Errno(EPROTONOSUPPORT)),
        };
        Ok(Self {
            gid,
            receiver,
            gid_type,
            hop_limit: *hop_limit,
            traffic_class: (v << 4) | (t >> 4),
        })
    }

    fn of_ipv4(header: &[u8; 20]) -> Result<Self, Errno> {
        let [
            _,
            tos,
            _,
            _,
            _,
            _,
            _,
            _,
            ttl,
            _,
            _,
            _,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
        ] = *header;
        // 224.0.0.0/4 (RFC 5771).
        if d0 & 0xf0 == 0xe0 {
            return Err(Errno(EINVAL));
        }
        Ok(Self {
            gid: mapped([s0, s1, s2, s3]),
            receiver: mapped([d0, d1, d2, d3]),
            gid_type: IBV_GID_TYPE_SYSFS_ROCE_V2,
            hop_limit: ttl,
            traffic_class: tos,
        })
    }
}

#[cfg(test)]
mod tests {
    use core::mem::MaybeUninit;

    use super::*;
    use crate::verbs::oracle;

    /// A header from 192.168.0.1 to 192.168.0.199 with a right checksum, 0xb861.
    const IPV4: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00,
        0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];

    fn behind(first: u8, ipv4: &[u8; 20]) -> [u8; 40] {
        let mut grh = [0xaa; 40];
        grh[0] = first;
        grh[20..].copy_from_slice(ipv4);
        grh
    }

    fn ipv6(next_header: u8, to: u8) -> [u8; 40] {
        let mut grh = [0; 40];
        grh[..8].copy_from_slice(&[0x6a, 0xbc, 0xde, 0xf0, 0, 64, next_header, 9]);
        grh[8..24].copy_from_slice(&[1; 16]);
        grh[24..].copy_from_slice(&[2; 16]);
        grh[24] = to;
        grh
    }

    #[test]
    fn ipv4_after_any_first_word() {
        let expected = Sender {
            gid: mapped([192, 168, 0, 1]),
            receiver: mapped([192, 168, 0, 199]),
            gid_type: IBV_GID_TYPE_SYSFS_ROCE_V2,
            hop_limit: 64,
            traffic_class: 0,
        };
        for first in [0x00, 0x45, 0x60, 0x6f, 0xff] {
            assert_eq!(Sender::of(&behind(first, &IPV4)).as_ref(), Ok(&expected));
        }
    }

    #[test]
    fn a_wrong_checksum_counts_only_against_ipv6() {
        let mut wrong = IPV4;
        wrong[11] ^= 1;
        assert!(Sender::of(&behind(0x00, &wrong)).is_ok());
        assert_eq!(is_ipv4(&behind(0x60, &wrong)), Ok(false));
        // RoCEv2 headers have no options. This is checked only if the first word looks like IPv6.
        let mut options = IPV4;
        options[0] = 0x46;
        assert_eq!(is_ipv4(&behind(0x60, &options)), Ok(false));
        assert_eq!(is_ipv4(&behind(0x10, &options)), Ok(true));
    }

    #[test]
    fn checksums_carry_twice() {
        // The sum of the words is 0x2ffff: folding it once leaves a carry.
        let mut header = [0_u8; 20];
        header[0..8].copy_from_slice(&[0x45, 0x00, 0xff, 0xff, 0xff, 0xff, 0xbb, 0x01]);
        let check = ipv4_checksum(&header);
        header[10..12].copy_from_slice(&check.to_be_bytes());
        assert_eq!(ipv4_checksum(&header), 0);
        assert_eq!(is_ipv4(&behind(0x60, &header)), Ok(true));
    }

    #[test]
    fn grh_and_ipv6() {
        for (next, gid_type) in [
            (0x1b, IBV_GID_TYPE_SYSFS_IB_ROCE_V1),
            (17, IBV_GID_TYPE_SYSFS_ROCE_V2),
        ] {
            let grh = ipv6(next, 0xfe);
            let sender = Sender::of(&grh).unwrap();
            assert_eq!(sender.gid, [1; 16]);
            assert_eq!(sender.receiver[..2], [0xfe, 2]);
            assert_eq!(sender.gid_type, gid_type);
            assert_eq!((sender.hop_limit, sender.traffic_class), (9, 0xab));
            assert_eq!(flow_label(&grh), 0xcdef0);
        }
        assert_eq!(Sender::of(&ipv6(6, 0xfe)), Err(Errno(EPROTONOSUPPORT)));
    }

    #[test]
    fn multicast_and_unknown_protocols() {
        let mut multicast = IPV4;
        multicast[16] = 239;
        assert_eq!(Sender::of(&behind(0, &multicast)), Err(Errno(EINVAL)));
        assert_eq!(Sender::of(&ipv6(17, 0xff)), Err(Errno(EINVAL)));
        assert_eq!(Sender::of(&[0; 40]), Err(Errno(EPROTONOSUPPORT)));
        assert_eq!(Sender::of(&[0xff; 40]), Err(Errno(EPROTONOSUPPORT)));
    }

    /// Runs the C library on a header: returns its errno, and the sender's GID if it recognised a
    /// GRH or an IPv6 header. EBADF means that it accepted the header: the next step, reading the
    /// GID table by ioctl, fails because the context has no descriptor.
    fn theirs(library: &libloading::Library, grh: &[u8; 40]) -> (c_int, [u8; 16]) {
        use crate::abi::*;

        type InitAh = unsafe extern "C" fn(
            *mut ibv_context,
            u8,
            *mut ibv_wc,
            *mut ibv_grh,
            *mut ibv_ah_attr,
        ) -> c_int;
        let init = oracle::symbol::<InitAh>(library, "ibv_init_ah_from_wc");
        // Longer than the private part of any release.
        let mut private = [0_u64; 256];
        // SAFETY: zeros are valid for all three structs; of the context the C library reads only the
        // descriptor and the private part.
        unsafe {
            let mut context = MaybeUninit::<verbs_context>::zeroed().assume_init();
            context.priv_ = private.as_mut_ptr().cast();
            context.context.cmd_fd = -1;
            // Marks a context that has a verbs_context around it.
            context.context.abi_compat = core::ptr::without_provenance_mut(usize::MAX);
            let mut wc = MaybeUninit::<ibv_wc>::zeroed().assume_init();
            wc.wc_flags = IBV_WC_GRH;
            let mut grh = *grh;
            let mut attr = MaybeUninit::<ibv_ah_attr>::zeroed().assume_init();
            let grh = (&raw mut grh).cast();
            let ret = init(&raw mut context.context, 1, &mut wc, grh, &mut attr);
            assert_eq!(ret, -1);
            (Errno::last().0, attr.grh.dgid.raw)
        }
    }

    #[test]
    fn headers_are_read_as_the_c_library_reads_them() {
        let library = oracle::library();
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        let mut kinds = [0; 4];
        for round in 0..20_000 {
            let mut grh = [0; 40].map(|_: u8| {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                (seed >> 32) as u8
            });
            // Most random bytes have no known protocol, so parts of a header are filled in.
            if round & 1 != 0 {
                grh[0] = 0x60 | grh[0] & 0xf;
            }
            if round & 2 != 0 {
                grh[20] = 0x45;
            }
            if round & 4 != 0 {
                grh[30..32].fill(0);
                let check = ipv4_checksum(ipv4_header(&grh));
                grh[30..32].copy_from_slice(&check.to_be_bytes());
            }
            match round >> 3 & 3 {
                0 => grh[6] = IBA_NEXT_HEADER,
                1 => grh[6] = IPPROTO_UDP as u8,
                _ => {}
            }
            let (errno, gid) = theirs(&library, &grh);
            match Sender::of(&grh) {
                Ok(sender) => {
                    let ipv6 = is_ipv4(&grh) == Ok(false);
                    kinds[usize::from(ipv6)] += 1;
                    assert_eq!(errno, libc::EBADF, "{grh:02x?}");
                    assert_eq!(gid, if ipv6 { sender.gid } else { [0; 16] }, "{grh:02x?}");
                }
                Err(Errno(ours)) => {
                    kinds[2 + usize::from(ours == EINVAL)] += 1;
                    assert_eq!(ours, errno, "{grh:02x?}");
                }
            }
        }
        assert!(kinds.iter().all(|&n| n > 500), "{kinds:?}");
    }
}
