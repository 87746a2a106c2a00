//! Tests of `objects.rs`.

use super::super::Pd;
use super::super::tests::{new_qp, qp_mut, request, rules};
use super::*;

const PD: Pd = Pd {
    context: 1,
    parent: 0,
    single_threaded: false,
    had_windows: false,
};
const MR: Mr = Mr {
    context: 1,
    pd: 10,
    start: 0x1000,
    length: 0x1000,
    lkey: 7,
    rkey: 8,
    access: 1,
    stack_of: 0,
    is_memory: true,
};

fn shadow() -> Shadow {
    let mut shadow = Shadow::new();
    shadow
        .devices
        .opened(1, "uroce0".into(), "uroce".into(), -1);
    shadow.pds.add(10, PD);
    shadow.add_cq(20, Cq::new(1, 0, (50, -1), false));
    shadow.add_qp(30, new_qp(17));
    shadow.mrs.add(40, MR);
    shadow
}

#[test]
fn users_of_busy_objects_are_named() {
    let mut shadow = shadow();
    let busy = |shadow: &Shadow, kind, at| {
        let found = shadow.busy(kind, at, "call", Outcome::of(libc::EBUSY));
        rules(&found);
        found.map(|finding| finding.values[0].1.clone())
    };
    let users = busy(&shadow, Kind::Pd, 10).unwrap();
    assert_eq!(users, "QP 0x11, MR 0x1000..0x2000 (lkey 0x7)");
    assert_eq!(busy(&shadow, Kind::Cq, 20).unwrap(), "QP 0x11");
    assert_eq!(busy(&shadow, Kind::Channel, 50).unwrap(), "CQ 0x14");
    assert_eq!(busy(&shadow, Kind::Channel, 51), None);
    let failed = shadow.busy(Kind::Pd, 10, "call", Outcome::of(libc::EIO));
    assert_eq!(failed, None);
    for address in 100..110 {
        shadow.mrs.add(address, MR);
    }
    assert!(
        busy(&shadow, Kind::Pd, 10)
            .unwrap()
            .ends_with(" and 4 more")
    );
}

#[test]
fn regions_and_handles_in_use() {
    let mut shadow = shadow();
    assert!(shadow.take_mr(40).1.is_empty());
    shadow.mrs.add(40, MR);
    let qp = qp_mut(&mut shadow);
    qp.sends.record([request(5, 7)]);
    // A queue pair that is not connected does not access memory.
    assert!(shadow.take_mr(40).1.is_empty());
    shadow.mrs.add(40, MR);
    qp_mut(&mut shadow).state = IBV_QPS_RTS;
    assert_eq!(rules(&shadow.take_mr(40).1), [Rule::MrInUse]);
    assert!(shadow.ah_in_use(99).is_empty());
    let to = SendRequest {
        ah: 99,
        ..request(6, 7)
    };
    shadow.qps.change(30, |qp| qp.sends.record([to]));
    assert_eq!(rules(&shadow.ah_in_use(99)), [Rule::AhInUse]);
}

#[test]
fn what_is_left_at_close() {
    let mut shadow = shadow();
    let found = shadow.closed(1);
    assert_eq!(rules(&found), [Rule::Leak]);
    assert_eq!(found[0].values[0].1, "1 QP, 1 CQ, 1 MR, 1 PD");
    assert!(shadow.qps.values().next().is_none() && !shadow.qps.has_number(1, 17));
    shadow
        .devices
        .opened(1, "uroce0".into(), "uroce".into(), -1);
    assert!(shadow.closed(1).is_empty());
}

#[test]
fn a_child_does_not_leak_what_its_parent_has() {
    let mut shadow = shadow();
    shadow.devices.opened_by_another_process();
    assert!(shadow.closed(1).is_empty());
}
