//! Queue pairs (QP).

use libc::c_int;

use super::dispatch::dispatch;
use crate::abi::*;
use crate::arch::DEVICE_WRITES_ARE_ORDERED;
use crate::diagnose;
use crate::provider::ops::ops;

dispatch! {
    /// Creates a queue pair; `ibv_destroy_qp` destroys it (ibv_create_qp(3)). Writes the capabilities that
    /// it really has to the attributes. Returns NULL with errno set if it fails.
    ibv_create_qp(pd: *mut ibv_pd, qp_init_attr: *mut ibv_qp_init_attr) -> *mut ibv_qp
        => [(*pd).context] create_qp(pd, qp_init_attr);

    /// Destroys a queue pair. Blocks until all its events are acknowledged (ibv_create_qp(3)). Returns 0 or
    /// an errno value; EBUSY while it is attached to a multicast group.
    ibv_destroy_qp(qp: *mut ibv_qp) -> c_int => [(*qp).context] destroy_qp(qp);
}

/// Reports a queue pair's attributes (ibv_query_qp(3)). Returns 0 or an errno value.
///
/// # Safety
///
/// `qp` is a live queue pair; `attr` and `init_attr` are writable.
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: the queue pair is alive, so its context is open; a provider that returns 0 has filled in
    // the attributes that the mask names.
    unsafe {
        let err = (ops((*qp).context).query_qp)(qp, attr, attr_mask, init_attr);
        if err == 0 && attr_mask & IBV_QP_STATE as c_int != 0 {
            (*qp).state = (*attr).qp_state;
        }
        err
    }
}

/// Changes a queue pair's attributes (ibv_modify_qp(3)). Returns 0 or an errno value.
///
/// # Safety
///
/// `qp` is a live queue pair; the attributes that the mask names are readable.
pub unsafe extern "C" fn ibv_modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
) -> c_int {
    // SAFETY: the queue pair is alive, so its context is open; the attributes that the mask names are
    // readable, as the caller promises.
    unsafe {
        let err = (ops((*qp).context).modify_qp)(qp, attr, attr_mask);
        if err == 0 && attr_mask & IBV_QP_STATE as c_int != 0 {
            (*qp).state = (*attr).qp_state;
        }
        err
    }
}

/// The offset of `ibv_qp_ex.wr_start`, the same in every release.
const WR_START: usize = core::mem::offset_of!(ibv_qp_ex, wr_start);

/// Whether a queue pair is an extended one. `word` returns the 64-bit word at an offset of the provider's
/// struct.
///
/// Among the possible places, `comp_mask` (32 bits, and padding that providers zero) is recognised by its
/// value: the bit of an extended queue pair, with or without that of an XRC domain. At the places where
/// other releases have the mask there are function pointers, NULL, or the domain's address. If `wr_start`
/// is NULL the queue pair is not extended, and the words are not read: they may be data of the provider.
fn is_extended(word: impl Fn(usize) -> u64) -> bool {
    const EX: u64 = VERBS_QP_EX as u64;
    const XRCD: u64 = VERBS_QP_XRCD as u64;
    word(WR_START) != 0
        && VERBS_QP_COMP_MASK_OFFSETS
            .into_iter()
            .any(|offset| word(offset) & !XRCD == EX)
}

/// Returns the extended form of a queue pair that was created with `send_ops_flags`, NULL for any other
/// (ibv_qp_to_qp_ex(3)).
///
/// # Safety
///
/// `qp` is a live queue pair.
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    let extended = is_extended(|offset| {
        // SAFETY: the queue pair is alive, and its provider's struct is aligned for pointers. Of a queue
        // pair that is not extended this reads the provider's own data, as the C library does too.
        unsafe { qp.byte_add(offset).cast::<u64>().read() }
    });
    if extended {
        qp.cast()
    } else {
        // SAFETY: the queue pair is alive.
        unsafe { diagnose::not_extended(qp) };
        core::ptr::null_mut()
    }
}

/// The result of [`ibv_query_qp_data_in_order`]; `query` calls the provider's op with the given flags.
///
/// Providers from before rdma-core v46 know no flags. They return 0 for any, and without flags whether a
/// whole message is in order, so those are queried a second time without flags.
fn data_in_order(flags: u32, query: impl Fn(u32) -> c_int) -> c_int {
    const WHOLE: c_int = IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG as c_int;
    const ALIGNED: c_int = IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES as c_int;
    const CAPS: u32 = IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS;
    const DEVICE: u32 = IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY;

    if flags & !(CAPS | DEVICE) != 0 {
        return 0;
    }
    // The order in which the device writes is then not the order that the CPU sees.
    if !DEVICE_WRITES_ARE_ORDERED && flags & DEVICE == 0 {
        return 0;
    }
    let mut caps = query(flags);
    if caps == 0 && flags != 0 && query(0) != 0 {
        caps = WHOLE;
    }
    if caps & WHOLE != 0 {
        caps |= ALIGNED;
    }
    if flags & CAPS != 0 {
        caps
    } else {
        (caps & WHOLE != 0).into()
    }
}

/// Reports whether the data of an operation is written in order (ibv_query_qp_data_in_order(3)): as
/// capability bits with the flag IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS, else as 1 or 0.
///
/// # Safety
///
/// `qp` is a live queue pair.
pub unsafe extern "C" fn ibv_query_qp_data_in_order(
    qp: *mut ibv_qp,
    op: ibv_wr_opcode,
    flags: u32,
) -> c_int {
    data_in_order(flags, |flags| {
        // SAFETY: the queue pair is alive, so its context is open.
        unsafe { (ops((*qp).context).query_qp_data_in_order)(qp, op, flags) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUNCTION: u64 = 0x7f00_1234_5678;

    /// The words of a provider's queue pair: `ibv_qp_ex` up to `mask_at`, the mask, the XRC domain, and
    /// then the provider's own data, `own`. `functions`: whether the `wr_*` pointers are set.
    fn provider_qp(mask_at: usize, mask: u64, functions: bool, own: u64) -> impl Fn(usize) -> u64 {
        move |offset| match offset {
            _ if offset == mask_at => mask,
            _ if offset == mask_at + 8 => 0,
            _ if offset > mask_at => own,
            // The newest operations may be NULL nevertheless.
            _ if offset < VERBS_QP_COMP_MASK_OFFSETS[0] && functions => FUNCTION,
            _ if functions => own & FUNCTION,
            _ => 0,
        }
    }

    #[test]
    fn extended_queue_pairs_of_all_three_layouts() {
        for mask_at in VERBS_QP_COMP_MASK_OFFSETS {
            for mask in [VERBS_QP_EX, VERBS_QP_EX | VERBS_QP_XRCD] {
                for own in [0, 1, 2, FUNCTION, u64::MAX] {
                    assert!(is_extended(provider_qp(mask_at, mask.into(), true, own)));
                }
            }
        }
    }

    #[test]
    fn plain_queue_pairs_of_all_three_layouts() {
        for mask_at in VERBS_QP_COMP_MASK_OFFSETS {
            for mask in [0, u64::from(VERBS_QP_XRCD)] {
                // Even if the provider's own data looks like a mask.
                for own in [0, 2, 3, u64::MAX] {
                    assert!(!is_extended(provider_qp(mask_at, mask, false, own)));
                }
            }
        }
        // A provider without extended queue pairs: all words are its own data.
        assert!(!is_extended(|_| FUNCTION));
        assert!(!is_extended(|_| u64::MAX));
        assert!(!is_extended(|offset| offset as u64));
    }

    #[test]
    fn the_newest_layout_is_one_of_the_three() {
        assert!(VERBS_QP_COMP_MASK_OFFSETS.contains(&core::mem::offset_of!(verbs_qp, comp_mask)));
    }

    /// A provider since rdma-core v46, which returns capabilities for all flags.
    fn newer(caps: c_int) -> impl Fn(u32) -> c_int {
        move |_| caps
    }

    /// An older provider: 0 for any flag, else whether a whole message is in order.
    fn older(whole: bool) -> impl Fn(u32) -> c_int {
        move |flags| (flags == 0 && whole).into()
    }

    #[test]
    fn order_of_data_by_old_and_new_providers() {
        for flags in 0..4 {
            if !DEVICE_WRITES_ARE_ORDERED && flags & IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY == 0 {
                assert_eq!(data_in_order(flags, |_| panic!("queried")), 0);
                continue;
            }
            let caps = flags & IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS != 0;
            assert_eq!(data_in_order(flags, newer(0)), 0);
            assert_eq!(data_in_order(flags, newer(1)), if caps { 3 } else { 1 });
            assert_eq!(data_in_order(flags, newer(2)), if caps { 2 } else { 0 });
            assert_eq!(data_in_order(flags, older(false)), 0);
            assert_eq!(data_in_order(flags, older(true)), if caps { 3 } else { 1 });
        }
        assert_eq!(data_in_order(4, |_| panic!("queried")), 0);
        assert_eq!(data_in_order(1 << 31, |_| panic!("queried")), 0);
    }
}
