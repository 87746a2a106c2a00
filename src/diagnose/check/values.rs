//! Values of attributes that no device accepts, or not this one.

use ibverbs_abi::*;

use crate::diagnose::finding::{Finding, Object, Outcome};
use crate::diagnose::rules::Rule;

/// IBV_ACCESS_* of verbs.h.
pub const KNOWN_ACCESS: u32 = 0x3ff | IBV_ACCESS_OPTIONAL_RANGE;

/// The first attribute of ibv_modify_qp that is out of its range.
pub fn of_qp(
    attr: &ibv_qp_attr,
    mask: u32,
    device: Option<&ibv_device_attr>,
    object: &Object,
    outcome: Outcome,
) -> Option<Finding> {
    const NUMBER: &str = "it is a number of 24 bits";
    const TIMER: &str = "it is a code of 5 bits";
    const RETRIES: &str = "it is a number of 3 bits";
    const PORT: &str = "ports are numbered from 1 to phys_port_cnt";
    const ATOMIC: &str = "the device has no more resources for READs and atomics";
    let (ports, initiator, responder) = device.map_or((255, 255, 255), |device| {
        (
            device.phys_port_cnt.into(),
            device.max_qp_init_rd_atom.clamp(0, 255) as u32,
            device.max_qp_rd_atom.clamp(0, 255) as u32,
        )
    });
    let av = &attr.ah_attr;
    #[rustfmt::skip]
    let rows: [(u32, &str, u32, u32, u32, &str); 13] = [
        (IBV_QP_PORT, "port_num", attr.port_num.into(), 1, ports, PORT),
        (IBV_QP_AV, "ah_attr.port_num", av.port_num.into(), 1, ports, PORT),
        (IBV_QP_AV, "ah_attr.sl", av.sl.into(), 0, 15, "a service level has 4 bits"),
        (IBV_QP_PATH_MTU, "path_mtu", attr.path_mtu, IBV_MTU_256, IBV_MTU_4096,
            "it is an enum ibv_mtu (IBV_MTU_1024 = 3), and no number of bytes"),
        (IBV_QP_DEST_QPN, "dest_qp_num", attr.dest_qp_num, 0, 0xff_ffff, NUMBER),
        (IBV_QP_RQ_PSN, "rq_psn", attr.rq_psn, 0, 0xff_ffff, NUMBER),
        (IBV_QP_SQ_PSN, "sq_psn", attr.sq_psn, 0, 0xff_ffff, NUMBER),
        (IBV_QP_TIMEOUT, "timeout", attr.timeout.into(), 0, 31, TIMER),
        (IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", attr.min_rnr_timer.into(), 0, 31, TIMER),
        (IBV_QP_RETRY_CNT, "retry_cnt", attr.retry_cnt.into(), 0, 7, RETRIES),
        (IBV_QP_RNR_RETRY, "rnr_retry", attr.rnr_retry.into(), 0, 7, RETRIES),
        (IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", attr.max_rd_atomic.into(), 0, initiator, ATOMIC),
        (IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", attr.max_dest_rd_atomic.into(), 0, responder,
            ATOMIC),
    ];
    let wrong = |row: &&(u32, &str, u32, u32, u32, &str)| {
        mask & row.0 != 0 && !(row.3..=row.4).contains(&row.2)
    };
    let of_access = || unknown_access(attr.qp_access_flags, mask, object, &outcome);
    let of_row = rows.iter().find(wrong).map(|row| {
        Finding::new(
            Rule::AttrRange,
            object.clone(),
            "ibv_modify_qp",
            outcome.clone(),
        )
        .with("member", row.1)
        .with("value", row.2)
        .with("min", row.3)
        .with("max", row.4)
        .with("meaning", row.5)
        .with("hint", swapped(row))
    });
    of_row.or_else(of_access)
}

/// Access flags that verbs.h does not have: drivers ignore them, so that the call succeeds, and the queue
/// pair has those of the known flags that happen to be among them.
fn unknown_access(access: u32, mask: u32, object: &Object, outcome: &Outcome) -> Option<Finding> {
    let unknown = access & !KNOWN_ACCESS;
    (mask & IBV_QP_ACCESS_FLAGS != 0 && unknown != 0).then(|| {
        Finding::new(
            Rule::UnknownBits,
            object.clone(),
            "ibv_modify_qp",
            outcome.clone(),
        )
        .with("member", "qp_access_flags")
        .with("value", format!("{access:#x}"))
        .with("bits", format!("{unknown:#x}"))
    })
}

/// Says that a number of 24 bits has its bytes in the wrong order, if it looks so.
fn swapped(row: &(u32, &str, u32, u32, u32, &str)) -> String {
    let right = row.2.swap_bytes();
    match row.4 == 0xff_ffff && right <= 0xff_ffff && row.2 & 0xff == 0 {
        true => format!(
            "; its bytes in the other order are {right:#x}, which is one: ntohl() may be missing \
             where it was \
             received"
        ),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::finding::is_complete;

    fn judge(mask: u32, change: impl FnOnce(&mut ibv_qp_attr)) -> Option<String> {
        // SAFETY: all members are integers and bytes, for which zeros are valid.
        let mut attr: ibv_qp_attr = unsafe { core::mem::zeroed() };
        attr.path_mtu = IBV_MTU_1024;
        attr.port_num = 1;
        change(&mut attr);
        let object = Object::qp(1, 2);
        let outcome = Outcome::Succeeded;
        let found = of_qp(&attr, mask, None, &object, outcome)?;
        assert!(is_complete(&found), "{}", found.line());
        Some(found.values[0].1.clone())
    }

    #[test]
    fn only_members_in_the_mask_count() {
        assert_eq!(judge(0, |attr| attr.timeout = 32), None);
        assert_eq!(judge(IBV_QP_TIMEOUT, |attr| attr.timeout = 31), None);
        let member = judge(IBV_QP_TIMEOUT, |attr| attr.timeout = 32);
        assert_eq!(member.as_deref(), Some("timeout"));
    }

    #[test]
    fn access_flags() {
        let access = |access, mask| judge(mask, |attr| attr.qp_access_flags = access);
        assert_eq!(access(0x5a5a_5a5a, IBV_QP_STATE), None);
        assert_eq!(access(IBV_ACCESS_REMOTE_WRITE, IBV_QP_ACCESS_FLAGS), None);
        let member = access(0xa5a5_a5a5, IBV_QP_ACCESS_FLAGS);
        assert_eq!(member.as_deref(), Some("qp_access_flags"));
    }

    #[test]
    fn the_bounds() {
        let mtu = |mtu| judge(IBV_QP_PATH_MTU, |attr| attr.path_mtu = mtu).is_some();
        assert_eq!(
            [0, 1, 5, 6, 1024].map(mtu),
            [true, false, false, true, true]
        );
        let psn = |psn| judge(IBV_QP_RQ_PSN, |attr| attr.rq_psn = psn).is_some();
        assert_eq!([0, 0xff_ffff, 0x100_0000].map(psn), [false, false, true]);
        assert!(judge(IBV_QP_PORT, |attr| attr.port_num = 0).is_some());
    }
}
