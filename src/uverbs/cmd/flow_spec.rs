//! Translates a flow specification of verbs.h to the kernel's form. Pure: bytes in, bytes out; errno is
//! not set.
//!
//! Both forms are a type, a size, and for a match the values and the mask. They differ in padding. Three
//! structures of verbs.h have grown over time, and their size member says how much they hold.

use core::mem::{offset_of, size_of};

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP};

/// Offset of the values in the kernel's form: behind type, size and a reserved word.
const KERNEL_VALUES: usize = size_of::<ib_uverbs_flow_spec_hdr>();

/// The size of the kernel's largest form.
pub const KERNEL_MAX: usize = size_of::<ibv_kern_spec>();

/// A match of a fixed size.
struct Fixed {
    kind: u32,
    /// Whether IBV_FLOW_SPEC_INNER may be set too.
    inner: bool,
    /// Offsets of the values and of the mask in the program's form.
    values: usize,
    mask: usize,
    /// The size of the values, and of the mask.
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

/// A match whose form in verbs.h may be longer than what the kernel knows, as long as the mask of the rest
/// is zero.
struct Growing {
    kind: u32,
    inner: bool,
    values: usize,
    /// The size of the values that the kernel knows.
    len: usize,
    /// Type, offset of the mask, and size of the kernel's form.
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

/// The object that a specification refers to. The caller puts its handle at [`HANDLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    Nothing,
    /// The `verbs_flow_action` at this address.
    Action(u64),
    /// The `verbs_counters` at this address.
    Counters(u64),
}

/// Offset of the handle of an action or of counters in the kernel's form.
pub const HANDLE: usize = offset_of!(ib_uverbs_flow_spec_action_handle, handle);
const _: () = assert!(HANDLE == offset_of!(ib_uverbs_flow_spec_action_count, handle));

/// The size of a specification of this type in verbs.h. It may be larger than its size member says:
/// rdma-core reads the whole structure, so programs work that set the member wrong.
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

/// Writes the kernel's form of `spec` to `to`, which is zeroed. Returns its size and the object it refers
/// to. `spec` is one specification, as long as its size member or [`least_size`] says. EINVAL for a
/// specification that is too short or of an unknown type, EOPNOTSUPP for a mask that the kernel does not
/// know.
pub fn to_kernel(spec: &[u8], to: &mut [u8; KERNEL_MAX]) -> Result<(usize, Names), Errno> {
    let kind = word(spec, 0)?;
    let matches =
        |known: u32, inner: bool| kind == known || inner && kind == known | IBV_FLOW_SPEC_INNER;
    let mut kernel_kind = kind;
    let mut names = Names::Nothing;
    let size = if let Some(form) = FIXED.iter().find(|form| matches(form.kind, form.inner)) {
        form.to_kernel(spec, to)?
    } else if let Some(form) = GROWING.iter().find(|form| matches(form.kind, form.inner)) {
        kernel_kind = form.kernel_kind | kind & IBV_FLOW_SPEC_INNER;
        form.to_kernel(spec, to)?
    } else {
        let size;
        (size, names) = action(kind, spec, to)?;
        size
    };
    to[0..4].copy_from_slice(&kernel_kind.to_ne_bytes());
    to[4..6].copy_from_slice(&(size as u16).to_ne_bytes());
    Ok((size, names))
}

impl Fixed {
    /// Copies values and mask, and returns the size of the kernel's form.
    fn to_kernel(&self, spec: &[u8], to: &mut [u8; KERNEL_MAX]) -> Result<usize, Errno> {
        let values = part(spec, self.values, self.len)?;
        let mask = part(spec, self.mask, self.len)?;
        to[KERNEL_VALUES..][..self.len].copy_from_slice(values);
        to[self.kernel - self.len..self.kernel].copy_from_slice(mask);
        Ok(self.kernel)
    }
}

impl Growing {
    /// As [`Fixed::to_kernel`]; EOPNOTSUPP for a mask that the kernel does not know.
    fn to_kernel(&self, spec: &[u8], to: &mut [u8; KERNEL_MAX]) -> Result<usize, Errno> {
        let len = spec.len().saturating_sub(size_of::<ibv_flow_spec_u_hdr>()) / 2;
        if len < self.len {
            return Err(Errno(EINVAL));
        }
        let values = part(spec, self.values, self.len)?;
        let mask = part(spec, self.values + len, len)?;
        if mask[self.len..].iter().any(|byte| *byte != 0) {
            return Err(Errno(EOPNOTSUPP));
        }
        to[KERNEL_VALUES..][..self.len].copy_from_slice(values);
        to[self.kernel_mask..][..self.len].copy_from_slice(&mask[..self.len]);
        Ok(self.kernel)
    }
}

/// Translates an action, which has neither values nor mask.
fn action(kind: u32, spec: &[u8], to: &mut [u8; KERNEL_MAX]) -> Result<(usize, Names), Errno> {
    Ok(match kind {
        IBV_FLOW_SPEC_ACTION_TAG => {
            let tag = word(spec, offset_of!(ibv_flow_spec_action_tag, tag_id))?;
            let at = offset_of!(ib_uverbs_flow_spec_action_tag, tag_id);
            to[at..at + 4].copy_from_slice(&tag.to_ne_bytes());
            (size_of::<ib_uverbs_flow_spec_action_tag>(), Names::Nothing)
        }
        IBV_FLOW_SPEC_ACTION_DROP => (size_of::<ib_uverbs_flow_spec_action_drop>(), Names::Nothing),
        IBV_FLOW_SPEC_ACTION_HANDLE => {
            let at = address(spec, offset_of!(ibv_flow_spec_action_handle, action))?;
            (
                size_of::<ib_uverbs_flow_spec_action_handle>(),
                Names::Action(at),
            )
        }
        IBV_FLOW_SPEC_ACTION_COUNT => {
            let at = address(spec, offset_of!(ibv_flow_spec_counter_action, counters))?;
            (
                size_of::<ib_uverbs_flow_spec_action_count>(),
                Names::Counters(at),
            )
        }
        _ => return Err(Errno(EINVAL)),
    })
}

/// `len` bytes of `spec`; EINVAL if it is too short.
fn part(spec: &[u8], at: usize, len: usize) -> Result<&[u8], Errno> {
    spec.get(at..at + len).ok_or(Errno(EINVAL))
}

fn word(spec: &[u8], at: usize) -> Result<u32, Errno> {
    let bytes = part(spec, at, 4)?.first_chunk().ok_or(Errno(EINVAL))?;
    Ok(u32::from_ne_bytes(*bytes))
}

fn address(spec: &[u8], at: usize) -> Result<u64, Errno> {
    let bytes = part(spec, at, 8)?.first_chunk().ok_or(Errno(EINVAL))?;
    Ok(u64::from_ne_bytes(*bytes))
}

/// to_kernel() writes the mask of a fixed match to the end of the kernel's form.
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
