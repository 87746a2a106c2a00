//! A flow specification as programs write it, made into the kernel's form. Pure: bytes in, bytes out.
//!
//! Both forms are a type, a size, and for a match the values and the mask. They differ in padding, and
//! three of the programs' forms have grown over time, so that their size tells how much they hold.

use core::mem::{offset_of, size_of};

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP};

/// Where the kernel's form has its values: behind type, size and a reserved word.
const KERNEL_VALUES: usize = size_of::<ib_uverbs_flow_spec_hdr>();

/// The largest specification of the kernel's.
pub const KERNEL_MAX: usize = size_of::<ibv_kern_spec>();

/// A match of a fixed size.
struct Fixed {
    kind: u32,
    /// IBV_FLOW_SPEC_INNER may be set too.
    inner: bool,
    /// Where the program's form has its values, and its mask.
    values: usize,
    mask: usize,
    /// The bytes of the values, and of the mask.
    len: usize,
    /// The size of the kernel's form.
    kernel: usize,
}

macro_rules! fixed {
    ($( $kind:ident $inner:literal $spec:ty, $filter:ty => $kernel:ty; )+) => {
        &[ $( Fixed {
            kind: $kind,
            inner: $inner,
            values: offset_of!($spec, val),
            mask: offset_of!($spec, mask),
            len: size_of::<$filter>(),
            kernel: size_of::<$kernel>(),
        } ),+ ]
    };
}

const FIXED: &[Fixed] = fixed! {
    IBV_FLOW_SPEC_ETH true ibv_flow_spec_eth, ibv_flow_eth_filter => ib_uverbs_flow_spec_eth;
    IBV_FLOW_SPEC_IPV4 true ibv_flow_spec_ipv4, ibv_flow_ipv4_filter => ibv_kern_spec_ipv4;
    IBV_FLOW_SPEC_ESP true ibv_flow_spec_esp, ibv_flow_esp_filter => ib_uverbs_flow_spec_esp;
    IBV_FLOW_SPEC_TCP true ibv_flow_spec_tcp_udp, ibv_flow_tcp_udp_filter
        => ib_uverbs_flow_spec_tcp_udp;
    IBV_FLOW_SPEC_UDP true ibv_flow_spec_tcp_udp, ibv_flow_tcp_udp_filter
        => ib_uverbs_flow_spec_tcp_udp;
    IBV_FLOW_SPEC_GRE false ibv_flow_spec_gre, ibv_flow_gre_filter => ib_uverbs_flow_spec_gre;
    IBV_FLOW_SPEC_MPLS true ibv_flow_spec_mpls, ibv_flow_mpls_filter => ib_uverbs_flow_spec_mpls;
};

/// A match whose program's form may be longer than what the kernel knows of it, if it then masks
/// nothing more.
struct Growing {
    kind: u32,
    inner: bool,
    values: usize,
    /// The bytes of the values that the kernel knows.
    len: usize,
    /// The kernel's type, and where its mask is, and the size of its form.
    kernel_kind: u32,
    kernel_mask: usize,
    kernel: usize,
}

const GROWING: &[Growing] = &[
    Growing {
        kind: IBV_FLOW_SPEC_IPV4_EXT,
        inner: true,
        values: offset_of!(ibv_flow_spec_ipv4_ext, val),
        len: offset_of!(ib_uverbs_flow_ipv4_filter, flags) + 1,
        kernel_kind: IBV_FLOW_SPEC_IPV4,
        kernel_mask: offset_of!(ib_uverbs_flow_spec_ipv4, mask),
        kernel: size_of::<ib_uverbs_flow_spec_ipv4>(),
    },
    Growing {
        kind: IBV_FLOW_SPEC_IPV6,
        inner: true,
        values: offset_of!(ibv_flow_spec_ipv6, val),
        len: offset_of!(ib_uverbs_flow_ipv6_filter, hop_limit) + 1,
        kernel_kind: IBV_FLOW_SPEC_IPV6,
        kernel_mask: offset_of!(ib_uverbs_flow_spec_ipv6, mask),
        kernel: size_of::<ib_uverbs_flow_spec_ipv6>(),
    },
    Growing {
        kind: IBV_FLOW_SPEC_VXLAN_TUNNEL,
        inner: false,
        values: offset_of!(ibv_flow_spec_tunnel, val),
        len: size_of::<u32>(),
        kernel_kind: IBV_FLOW_SPEC_VXLAN_TUNNEL,
        kernel_mask: offset_of!(ib_uverbs_flow_spec_tunnel, mask),
        kernel: size_of::<ib_uverbs_flow_spec_tunnel>(),
    },
];

/// What a specification names besides itself; the caller knows the objects' handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    Nothing,
    /// A flow action at this address: its handle is to be put at [`HANDLE`].
    Action(u64),
    /// Counters at this address: their handle is to be put at [`HANDLE`].
    Counters(u64),
}

/// Where the kernel's form has the handle of an action or of counters.
pub const HANDLE: usize = offset_of!(ib_uverbs_flow_spec_action_handle, handle);
const _: () = assert!(HANDLE == offset_of!(ib_uverbs_flow_spec_action_count, handle));

/// The bytes that a specification of this type has at least, whatever its size member says: the C library
/// reads them all, and programs have got away with a wrong size.
pub fn least_size(kind: u32) -> usize {
    let matches =
        |known: u32, inner: bool| kind == known || inner && kind == known | IBV_FLOW_SPEC_INNER;
    let fixed = FIXED.iter().find(|form| matches(form.kind, form.inner));
    match (kind, fixed) {
        (_, Some(form)) => form.mask + form.len,
        (IBV_FLOW_SPEC_ACTION_TAG, _) => size_of::<ibv_flow_spec_action_tag>(),
        (IBV_FLOW_SPEC_ACTION_HANDLE, _) => size_of::<ibv_flow_spec_action_handle>(),
        (IBV_FLOW_SPEC_ACTION_COUNT, _) => size_of::<ibv_flow_spec_counter_action>(),
        _ => size_of::<ibv_flow_spec_u_hdr>(),
    }
}

/// Writes the kernel's form of `spec` to `to`, which is zeroed, and tells its size and what it names.
/// `spec` is one specification, as long as its size member says or as [`least_size`] does.
pub fn to_kernel(spec: &[u8], to: &mut [u8; KERNEL_MAX]) -> Result<(usize, Names), Errno> {
    let word = |at: usize| -> Option<u32> {
        Some(u32::from_ne_bytes(spec.get(at..at + 4)?.try_into().ok()?))
    };
    let address = |at: usize| -> Option<u64> {
        Some(u64::from_ne_bytes(spec.get(at..at + 8)?.try_into().ok()?))
    };
    let kind = word(0).ok_or(Errno(EINVAL))?;
    let matches =
        |known: u32, inner: bool| kind == known || inner && kind == known | IBV_FLOW_SPEC_INNER;
    let mut kernel_kind = kind;
    let mut names = Names::Nothing;

    let size = if let Some(form) = FIXED.iter().find(|form| matches(form.kind, form.inner)) {
        let values = spec
            .get(form.values..form.values + form.len)
            .ok_or(Errno(EINVAL))?;
        let mask = spec
            .get(form.mask..form.mask + form.len)
            .ok_or(Errno(EINVAL))?;
        to[KERNEL_VALUES..][..form.len].copy_from_slice(values);
        to[form.kernel - form.len..form.kernel].copy_from_slice(mask);
        form.kernel
    } else if let Some(form) = GROWING.iter().find(|form| matches(form.kind, form.inner)) {
        let len = spec.len().saturating_sub(size_of::<ibv_flow_spec_u_hdr>()) / 2;
        if len < form.len {
            return Err(Errno(EINVAL));
        }
        let values = spec
            .get(form.values..form.values + form.len)
            .ok_or(Errno(EINVAL))?;
        let mask = spec
            .get(form.values + len..form.values + 2 * len)
            .ok_or(Errno(EINVAL))?;
        if mask[form.len..].iter().any(|byte| *byte != 0) {
            return Err(Errno(EOPNOTSUPP));
        }
        to[KERNEL_VALUES..][..form.len].copy_from_slice(values);
        to[form.kernel_mask..][..form.len].copy_from_slice(&mask[..form.len]);
        kernel_kind = form.kernel_kind | kind & IBV_FLOW_SPEC_INNER;
        form.kernel
    } else {
        match kind {
            IBV_FLOW_SPEC_ACTION_TAG => {
                let tag =
                    word(offset_of!(ibv_flow_spec_action_tag, tag_id)).ok_or(Errno(EINVAL))?;
                let at = offset_of!(ib_uverbs_flow_spec_action_tag, tag_id);
                to[at..at + 4].copy_from_slice(&tag.to_ne_bytes());
                size_of::<ib_uverbs_flow_spec_action_tag>()
            }
            IBV_FLOW_SPEC_ACTION_DROP => size_of::<ib_uverbs_flow_spec_action_drop>(),
            IBV_FLOW_SPEC_ACTION_HANDLE => {
                let at = offset_of!(ibv_flow_spec_action_handle, action);
                names = Names::Action(address(at).ok_or(Errno(EINVAL))?);
                size_of::<ib_uverbs_flow_spec_action_handle>()
            }
            IBV_FLOW_SPEC_ACTION_COUNT => {
                let at = offset_of!(ibv_flow_spec_counter_action, counters);
                names = Names::Counters(address(at).ok_or(Errno(EINVAL))?);
                size_of::<ib_uverbs_flow_spec_action_count>()
            }
            _ => return Err(Errno(EINVAL)),
        }
    };
    to[0..4].copy_from_slice(&kernel_kind.to_ne_bytes());
    to[4..6].copy_from_slice(&(size as u16).to_ne_bytes());
    Ok((size, names))
}

/// The mask of a fixed match ends the kernel's form; so it must in each of them.
const _: () = {
    macro_rules! mask_ends {
        ($( $kernel:ty, $filter:ty; )+) => { $(
            assert!(offset_of!($kernel, mask) + size_of::<$filter>() == size_of::<$kernel>());
            assert!(offset_of!($kernel, val) == KERNEL_VALUES);
        )+ };
    }
    mask_ends! {
        ib_uverbs_flow_spec_eth, ibv_flow_eth_filter;
        ibv_kern_spec_ipv4, ibv_flow_ipv4_filter;
        ib_uverbs_flow_spec_esp, ibv_flow_esp_filter;
        ib_uverbs_flow_spec_tcp_udp, ibv_flow_tcp_udp_filter;
        ib_uverbs_flow_spec_gre, ibv_flow_gre_filter;
        ib_uverbs_flow_spec_mpls, ibv_flow_mpls_filter;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    /// A program's specification of `len` bytes, its bytes after the header counting up.
    fn spec(kind: u32, len: usize) -> Vec<u8> {
        let mut spec: Vec<u8> = (0..len as u8).collect();
        spec[..4].copy_from_slice(&kind.to_ne_bytes());
        spec[4..6].copy_from_slice(&(len as u16).to_ne_bytes());
        spec
    }

    #[test]
    fn an_ethernet_match_is_moved_to_the_kernels_places() {
        let from = spec(IBV_FLOW_SPEC_ETH, size_of::<ibv_flow_spec_eth>());
        let mut to = [0; KERNEL_MAX];
        assert_eq!(to_kernel(&from, &mut to), Ok((40, Names::Nothing)));
        // The program's values begin at byte 6, the kernel's at 8; each is 16 bytes.
        assert_eq!(to[8..24], from[6..22]);
        assert_eq!(to[24..40], from[22..38]);
        assert_eq!(to[4..6], 40u16.to_ne_bytes());
    }

    #[test]
    fn a_longer_form_may_not_mask_what_the_kernel_does_not_know() {
        // IPv4 with options for the future: 12 bytes the kernel knows, 4 it does not.
        let mut from = spec(IBV_FLOW_SPEC_IPV4_EXT | IBV_FLOW_SPEC_INNER, 8 + 2 * 16);
        let mut to = [0; KERNEL_MAX];
        assert_eq!(to_kernel(&from, &mut to), Err(Errno(EOPNOTSUPP)));
        from[8 + 16 + 12..].fill(0);
        let (size, _) = to_kernel(&from, &mut to).expect("nothing unknown is masked");
        assert_eq!(size, size_of::<ib_uverbs_flow_spec_ipv4>());
        assert_eq!(
            to[..4],
            (IBV_FLOW_SPEC_IPV4 | IBV_FLOW_SPEC_INNER).to_ne_bytes()
        );
        assert_eq!(to[8..20], from[8..20]);
        assert_eq!(to[20..32], from[24..36]);
    }

    #[test]
    fn what_is_too_short_or_unknown_is_refused() {
        let mut to = [0; KERNEL_MAX];
        assert_eq!(to_kernel(&[], &mut to), Err(Errno(EINVAL)));
        assert_eq!(
            to_kernel(&spec(IBV_FLOW_SPEC_ETH, 20), &mut to),
            Err(Errno(EINVAL))
        );
        assert_eq!(
            to_kernel(&spec(IBV_FLOW_SPEC_IPV6, 20), &mut to),
            Err(Errno(EINVAL))
        );
        assert_eq!(to_kernel(&spec(0x7777, 64), &mut to), Err(Errno(EINVAL)));
        let inner_gre = IBV_FLOW_SPEC_GRE | IBV_FLOW_SPEC_INNER;
        assert_eq!(to_kernel(&spec(inner_gre, 64), &mut to), Err(Errno(EINVAL)));
    }

    #[test]
    fn actions_and_counters_are_named_by_address() {
        let mut from = spec(IBV_FLOW_SPEC_ACTION_HANDLE, 16);
        from[8..16].copy_from_slice(&0x1122u64.to_ne_bytes());
        let mut to = [0; KERNEL_MAX];
        assert_eq!(to_kernel(&from, &mut to), Ok((16, Names::Action(0x1122))));
    }
}
