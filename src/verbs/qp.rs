//! Queue pairs.

use libc::{c_int, c_void};

use super::dispatch::dispatch;
use crate::abi::*;
use crate::provider::ops::ops;

dispatch! {
    /// Creates a queue pair, to be destroyed by `ibv_destroy_qp` (ibv_create_qp(3)). The attributes
    /// come back as what the device gave. Returns NULL with errno set if it fails.
    ibv_create_qp(pd: *mut ibv_pd, qp_init_attr: *mut ibv_qp_init_attr) -> *mut ibv_qp
        => [(*pd).context] create_qp(pd, qp_init_attr);

    /// Destroys a queue pair once its events are acknowledged (ibv_create_qp(3)). Returns 0 or an
    /// errno value; EBUSY while it is in a multicast group.
    ibv_destroy_qp(qp: *mut ibv_qp) -> c_int => [(*qp).context] destroy_qp(qp);
}

/// Reports a queue pair's attributes (ibv_query_qp(3)). Returns 0 or an errno value.
///
/// # Safety
///
/// `qp` is a live queue pair; the two results are writable.
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: the queue pair lives, so its context does; the provider has filled the attributes
    // that are asked for when it returns 0.
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
    // SAFETY: the queue pair lives, so its context does; the state is one of the caller's
    // attributes.
    unsafe {
        let err = (ops((*qp).context).modify_qp)(qp, attr, attr_mask);
        if err == 0 && attr_mask & IBV_QP_STATE as c_int != 0 {
            (*qp).state = (*attr).qp_state;
        }
        err
    }
}

/// Where `verbs_qp.comp_mask` is: behind `ibv_qp_ex`, to which rdma-core 44 and 45 each added a
/// function pointer without saying so in the provider ABI's number. In ascending order.
const COMP_MASK_PLACES: [usize; 3] = [344, 352, 360];

/// Where `ibv_qp_ex.wr_start` is, in every release.
const WR_START: usize = core::mem::offset_of!(ibv_qp_ex, wr_start);

/// Says whether a queue pair is an extended one, from the 64-bit words of its provider's struct.
///
/// The word that holds `comp_mask` (32 bits, and padding that providers zero) is told by its value:
/// the bit of an extended queue pair, and maybe that of an XRC domain. Where an older or newer
/// release has the mask, there are function pointers, NULL, or the domain's address. Without
/// `wr_start`, which every extended queue pair has, the words are not looked at: behind a shorter
/// struct they are the provider's own.
fn is_extended(word: impl Fn(usize) -> u64) -> bool {
    const EX: u64 = VERBS_QP_EX as u64;
    const XRCD: u64 = VERBS_QP_XRCD as u64;
    word(WR_START) != 0
        && COMP_MASK_PLACES
            .into_iter()
            .any(|place| word(place) & !XRCD == EX)
}

/// Gives the extended form of a queue pair that was created with `send_ops_flags`, else NULL
/// (ibv_create_qp_ex(3)).
///
/// # Safety
///
/// `qp` is a live queue pair.
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    let extended = is_extended(|place| {
        // SAFETY: the queue pair lives, and its provider's struct around it is aligned for
        // pointers. Only an extended one is sure to be this long; for any other, as the C library
        // does at one of these places, this reads the provider's own words.
        unsafe { qp.byte_add(place).cast::<u64>().read() }
    });
    if extended {
        qp.cast()
    } else {
        core::ptr::null_mut()
    }
}

/// Turns a provider's answer, and the question that is asked again if the provider is older than
/// the flags, into the caller's (see [`ibv_query_qp_data_in_order`]).
fn data_in_order(flags: u32, ask: impl Fn(u32) -> c_int) -> c_int {
    const WHOLE: c_int = IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG as c_int;
    const ALIGNED: c_int = IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES as c_int;
    const CAPS: u32 = IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS;
    const DEVICE: u32 = IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY;

    if flags & !(CAPS | DEVICE) != 0 {
        return 0;
    }
    // How other processors order a device's writes is not known well enough.
    if !cfg!(any(target_arch = "x86", target_arch = "x86_64")) && flags & DEVICE == 0 {
        return 0;
    }
    let mut caps = ask(flags);
    if caps == 0 && flags != 0 && ask(0) != 0 {
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

/// Says whether the data of an operation is written in order, as capabilities or, without the flag
/// for that, as 1 or 0 (ibv_query_qp_data_in_order(3)). A provider from before the flags knows only
/// the question without them, whether a whole message is; it is asked that one then.
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
        // SAFETY: the queue pair lives, so its context does.
        unsafe { (ops((*qp).context).query_qp_data_in_order)(qp, op, flags) }
    })
}

const _: () = assert!(size_of::<*mut c_void>() == 8 && WR_START == 320);

#[cfg(test)]
mod tests {
    use super::*;

    const FUNCTION: u64 = 0x7f00_1234_5678;

    /// A provider's queue pair: `ibv_qp_ex` up to `mask_at`, the mask, the XRC domain, and then
    /// what the provider likes. `functions`: whether the `wr_*` pointers are set.
    fn provider_qp(mask_at: usize, mask: u64, functions: bool, own: u64) -> impl Fn(usize) -> u64 {
        move |place| match place {
            _ if place == mask_at => mask,
            _ if place == mask_at + 8 => 0,
            _ if place > mask_at => own,
            // The operations that came last may be missing even then.
            _ if place < 344 && functions => FUNCTION,
            _ if functions => own & FUNCTION,
            _ => 0,
        }
    }

    #[test]
    fn extended_queue_pairs_of_all_three_layouts() {
        for mask_at in COMP_MASK_PLACES {
            for mask in [VERBS_QP_EX, VERBS_QP_EX | VERBS_QP_XRCD] {
                for own in [0, 1, 2, FUNCTION, u64::MAX] {
                    assert!(is_extended(provider_qp(mask_at, mask.into(), true, own)));
                }
            }
        }
    }

    #[test]
    fn plain_queue_pairs_of_all_three_layouts() {
        for mask_at in COMP_MASK_PLACES {
            for mask in [0, u64::from(VERBS_QP_XRCD)] {
                // Not even if the provider's own words look like a mask.
                for own in [0, 2, 3, u64::MAX] {
                    assert!(!is_extended(provider_qp(mask_at, mask, false, own)));
                }
            }
        }
        // A provider without extended queue pairs: its own words all the way.
        assert!(!is_extended(|_| FUNCTION));
        assert!(!is_extended(|_| u64::MAX));
        assert!(!is_extended(|place| place as u64));
    }

    #[test]
    fn the_newest_layout_is_one_of_the_three() {
        assert!(COMP_MASK_PLACES.contains(&core::mem::offset_of!(verbs_qp, comp_mask)));
    }

    /// A provider since rdma-core 46, which answers with capabilities whatever the flags.
    fn newer(caps: c_int) -> impl Fn(u32) -> c_int {
        move |_| caps
    }

    /// A provider before: 0 for any flag, else whether a whole message is in order.
    fn older(whole: bool) -> impl Fn(u32) -> c_int {
        move |flags| (flags == 0 && whole).into()
    }

    #[test]
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    fn order_of_data_by_old_and_new_providers() {
        for flags in 0..4 {
            let caps = flags & IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS != 0;
            assert_eq!(data_in_order(flags, newer(0)), 0);
            assert_eq!(data_in_order(flags, newer(1)), if caps { 3 } else { 1 });
            assert_eq!(data_in_order(flags, newer(2)), if caps { 2 } else { 0 });
            assert_eq!(data_in_order(flags, older(false)), 0);
            assert_eq!(data_in_order(flags, older(true)), if caps { 3 } else { 1 });
        }
        assert_eq!(data_in_order(4, |_| panic!("asked")), 0);
        assert_eq!(data_in_order(1 << 31, |_| panic!("asked")), 0);
    }
}
