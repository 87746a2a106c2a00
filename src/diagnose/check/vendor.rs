//! `vendor_err` of failed completions: what it means for the drivers whose public sources say so. Pure.
//!
//! Sources, as facts: the status enumerations of rdma-core's providers (efa_io_defs.h, bnxt_re-abi.h, the
//! flush codes of irdma, erdma_hw.h, t4.h of cxgb4). NVIDIA publishes no list for mlx4 and mlx5; the values
//! here are those whose status is always the same in reports of users, and one that mlx5dv.h names.

/// Values of `vendor_err`, ascending, and what each means.
type Values = &'static [(u32, &'static str)];

fn values(driver: &str, is_receive: bool) -> Option<Values> {
    Some(match driver {
        "mlx5" | "mlx4" => MELLANOX,
        "efa" => EFA,
        "bnxt_re" if is_receive => BNXT_RESPONDER,
        "bnxt_re" => BNXT_REQUESTER,
        "irdma" => IRDMA,
        "erdma" => ERDMA,
        "cxgb4" => CXGB4,
        _ => return None,
    })
}

const MELLANOX: Values = &[
    (0x51, "a local key or address was refused"),
    (0x52, "a local key or address was refused"),
    (0x81, "no response came, and the retries are used up"),
    (
        0x87,
        "the peer had no receive, and the RNR retries are used up",
    ),
    (
        0x88,
        "the peer refused the remote key, the address or the right",
    ),
    (0x89, "the peer failed at its own receive or memory"),
    (
        0x8a,
        "the peer refused the request as invalid, or it was too long for the receive",
    ),
    (0x93, "a page of a region with on-demand paging was missing"),
    (0xf9, "flushed"),
];

const EFA: Values = &[
    (1, "flushed when the queue pair was destroyed"),
    (2, "an internal error of the queue pair"),
    (3, "the operation is not supported"),
    (4, "the address handle is not valid"),
    (
        5,
        "the local key is not registered, or the address is not in its region",
    ),
    (6, "the message is too long"),
    (
        7,
        "the remote key is not registered, or the address is not in its region",
    ),
    (8, "the peer has reset the connection"),
    (
        9,
        "the peer's queue pair does not exist, or is in an error state",
    ),
    (10, "the peer had no receive posted"),
    (11, "the peer's receive is too small"),
    (12, "the peer answered with an unexpected status"),
    (13, "the peer has answered before, and does not any more"),
    (
        14,
        "the peer has no address handle for this side, which RDMA operations need",
    ),
    (15, "the peer has never answered"),
    (18, "the devices do not have the same features"),
];

const BNXT_REQUESTER: Values = &[
    (1, "a response was not valid"),
    (2, "the length of the request is not valid"),
    (3, "the request itself is not valid for the queue pair"),
    (4, "a local key, address or right was refused"),
    (5, "memory could not be accessed"),
    (6, "the peer refused the request as invalid"),
    (
        7,
        "the peer refused the remote key, the address or the right",
    ),
    (8, "the peer failed at its own receive or memory"),
    (
        9,
        "the peer had no receive, and the RNR retries are used up",
    ),
    (10, "no response came, and the retries are used up"),
    (11, "flushed"),
];

const BNXT_RESPONDER: Values = &[
    (1, "the memory of the receive could not be accessed"),
    (2, "the message did not fit the receive"),
    (3, "a key, address or right of the receive was refused"),
    (4, "the receive itself is not valid"),
    (5, "memory could not be accessed"),
    (6, "the peer's request is not valid"),
    (7, "flushed"),
    (8, "flushed by the device"),
];

const IRDMA: Values = &[
    (1, "a general error"),
    (2, "a key, address or right was refused"),
    (
        3,
        "the peer refused the remote key, the address or the right",
    ),
    (4, "the request itself is not valid for the queue pair"),
    (5, "the peer failed at its own receive or memory"),
    (6, "a length is not valid"),
    (7, "a fatal error"),
    (8, "no response came, and the retries are used up"),
    (9, "the memory window could not be bound"),
    (10, "the peer refused the request as invalid"),
    (
        11,
        "the peer had no receive, and the RNR retries are used up",
    ),
];

const ERDMA: Values = &[
    (1, "the receive is not valid"),
    (2, "a key of the receive is not valid"),
    (3, "an address of the receive is not in its region"),
    (4, "the region of the receive lacks the right"),
    (5, "the region of the receive is of another PD"),
    (6, "the receive wraps around the end of the address space"),
    (0x20, "the request is not valid"),
    (0x21, "a READ or atomic operation with max_rd_atomic 0"),
    (0x30, "a key of the request is not valid"),
    (0x31, "an address of the request is not in its region"),
    (0x32, "the region of the request lacks the right"),
    (0x33, "the region of the request is of another PD"),
    (
        0x34,
        "the request wraps around the end of the address space",
    ),
];

const CXGB4: Values = &[
    (1, "the key is not valid"),
    (2, "the region is of another PD"),
    (3, "the key is bound to another queue pair"),
    (4, "the region lacks the right"),
    (5, "the access wraps around the end of the address space"),
    (6, "the access leaves the region"),
    (0xc, "flushed"),
    (0x12, "the length of a packet is not valid"),
    (0x13, "there was no receive"),
    (0x16, "the operation is not valid"),
    (0x1d, "more READs than the queue pair allows"),
    (0x1e, "an address of the receive is not in its region"),
];

/// `vendor_err` in words, for a driver of this name. None for a value that is 0 or not known.
pub fn meaning(driver: &str, vendor_err: u32, is_receive: bool) -> Option<String> {
    // irdma has the flush code in the lower half.
    let code = match driver {
        "irdma" => vendor_err & 0xffff,
        _ => vendor_err,
    };
    let known = values(driver, is_receive)?
        .iter()
        .find(|(value, _)| *value == code)?;
    Some(format!(
        "vendor_err {vendor_err:#x} of {driver} means: {}",
        known.1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_sorted_and_decoded() {
        for values in [
            MELLANOX,
            EFA,
            BNXT_REQUESTER,
            BNXT_RESPONDER,
            IRDMA,
            ERDMA,
            CXGB4,
        ] {
            let is_sorted = values.windows(2).all(|two| two[0].0 < two[1].0);
            assert!(is_sorted && values[0].0 != 0, "{values:?}");
        }
        let text = meaning("mlx5", 0x81, false).unwrap();
        assert_eq!(
            text,
            "vendor_err 0x81 of mlx5 means: no response came, and the retries are used up"
        );
        assert!(
            meaning("irdma", 0xffff_0008, false)
                .unwrap()
                .contains("retries")
        );
        let (sends, receives) = (meaning("bnxt_re", 7, false), meaning("bnxt_re", 7, true));
        assert!(sends.unwrap().contains("remote key") && receives.unwrap().ends_with("flushed"));
        assert_eq!(meaning("mlx5", 0, false), None);
        assert_eq!(meaning("uroce", 0x81, false), None);
    }
}
