//! Changing and asking a queue pair's attributes.

use ibverbs_abi::*;
use libc::{EINVAL, c_int};

use super::attributes::{MAX_RD_ATOMIC, mtu_bytes, mtu_code};
use super::object::{Answer, Plain};
use super::qp::{self, QpPart};
use super::{ah, transitions};
use crate::engine::{QpChange, QpState, Service};
use crate::wire::Psn;

/// # Safety
/// The op's contract: the queue pair is live, the attributes that the mask names are readable.
pub unsafe fn modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> Answer<()> {
    // SAFETY: by the contract.
    let (object, attr) = unsafe { (qp::object(qp), &*attr) };
    let mask = mask as u32;
    let device = object.check()?;
    let mut change = change(object, attr, mask)?;
    if object.qp.service == Service::Ud {
        // Longer datagrams do not fit the port.
        change.path_mtu = Some(device.net.port_state().active_mtu);
    }
    device.run(&object.qp, |engine, world, now| {
        let from = engine.state();
        let to = change.state.unwrap_or(from);
        let mut expected = attr.cur_qp_state;
        if mask & IBV_QP_CUR_STATE == 0 {
            expected = transitions::number(from);
        }
        if expected != transitions::number(from)
            || !transitions::allowed(object.qp.service, from, to, mask)
        {
            return Err(EINVAL);
        }
        // A move to RESET or ERR looks at nothing else; one that goes nowhere is none.
        change.state = (mask & IBV_QP_STATE != 0).then_some(to);
        engine.modify(&change, now, world);
        if change.state == Some(QpState::Reset) {
            for cq in [&object.qp.send_cq, &object.qp.recv_cq]
                .into_iter()
                .flatten()
            {
                cq.forget(object.qp.qpn);
            }
        }
        Ok(())
    })?;
    if mask & IBV_QP_AV != 0 {
        *object.av.lock() = Some(attr.ah_attr);
    }
    Ok(())
}

/// What the mask names, if the values can be.
fn change(part: &QpPart, attr: &ibv_qp_attr, mask: u32) -> Answer<QpChange> {
    let device = &part.device;
    let has = |bit| mask & bit != 0;
    let mut change = QpChange::default();
    let refused = has(IBV_QP_PORT) && attr.port_num != 1
        || has(IBV_QP_PKEY_INDEX) && attr.pkey_index != 0
        // Paths do not migrate here: only the state that means so can be asked for.
        || has(IBV_QP_ALT_PATH)
        || has(IBV_QP_PATH_MIG_STATE) && attr.path_mig_state != IBV_MIG_MIGRATED
        || has(IBV_QP_EN_SQD_ASYNC_NOTIFY) && attr.en_sqd_async_notify > 1;
    if refused {
        return Err(EINVAL);
    }
    if has(IBV_QP_STATE) {
        change.state = Some(transitions::state(attr.qp_state).ok_or(EINVAL)?);
    }
    if has(IBV_QP_AV) {
        change.av = Some(ah::path(&attr.ah_attr, device)?);
    }
    if has(IBV_QP_PATH_MTU) {
        let mtu = mtu_bytes(attr.path_mtu).ok_or(EINVAL)?;
        if mtu > device.net.port_state().active_mtu {
            return Err(EINVAL);
        }
        change.path_mtu = Some(mtu);
    }
    change.sqd_async_notify = has(IBV_QP_EN_SQD_ASYNC_NOTIFY) && attr.en_sqd_async_notify != 0;
    macro_rules! take {
        ($($bit:ident $to:ident = $value:expr, at most $limit:expr;)*) => { $(
            if has($bit) {
                if $value > $limit {
                    return Err(EINVAL);
                }
                change.$to = Some($value);
            }
        )* };
    }
    take! {
        IBV_QP_QKEY qkey = attr.qkey, at most u32::MAX;
        IBV_QP_PKEY_INDEX pkey_index = attr.pkey_index, at most 0;
        IBV_QP_ACCESS_FLAGS access = attr.qp_access_flags, at most u32::MAX;
        IBV_QP_DEST_QPN dest_qpn = attr.dest_qp_num, at most 0xff_ffff;
        IBV_QP_MAX_QP_RD_ATOMIC max_rd_atomic = attr.max_rd_atomic, at most MAX_RD_ATOMIC;
        IBV_QP_MAX_DEST_RD_ATOMIC max_dest_rd_atomic = attr.max_dest_rd_atomic,
            at most MAX_RD_ATOMIC;
        IBV_QP_MIN_RNR_TIMER min_rnr_timer = attr.min_rnr_timer, at most 31;
        IBV_QP_TIMEOUT timeout = attr.timeout, at most 31;
        IBV_QP_RETRY_CNT retry_cnt = attr.retry_cnt, at most 7;
        IBV_QP_RNR_RETRY rnr_retry = attr.rnr_retry, at most 7;
    }
    // Numbers of 24 bits: the rest is not looked at, as by other devices.
    change.rq_psn = has(IBV_QP_RQ_PSN).then(|| Psn::new(attr.rq_psn));
    change.sq_psn = has(IBV_QP_SQ_PSN).then(|| Psn::new(attr.sq_psn));
    Ok(change)
}

/// # Safety
/// The op's contract: the queue pair is live, both results are writable.
pub unsafe fn query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> Answer<()> {
    // SAFETY: by the contract.
    let (object, qp) = unsafe { (qp::object(qp), &*qp) };
    object.check()?;
    let (now, draining) = {
        let inner = object.qp.inner.lock();
        (inner.engine().attributes(), inner.engine().sq_draining())
    };
    let state = transitions::number(now.state.unwrap_or(QpState::Reset));
    let mut told = ibv_qp_attr::zeroed();
    told.qp_state = state;
    told.cur_qp_state = state;
    told.path_mtu = now.path_mtu.map_or(0, mtu_code);
    told.path_mig_state = IBV_MIG_MIGRATED;
    told.cap = object.cap;
    told.port_num = 1;
    told.sq_draining = draining.into();
    told.qkey = now.qkey.unwrap_or(0);
    told.rq_psn = now.rq_psn.map_or(0, Psn::get);
    told.sq_psn = now.sq_psn.map_or(0, Psn::get);
    told.dest_qp_num = now.dest_qpn.unwrap_or(0);
    told.qp_access_flags = now.access.unwrap_or(0);
    told.max_rd_atomic = now.max_rd_atomic.unwrap_or(0);
    told.max_dest_rd_atomic = now.max_dest_rd_atomic.unwrap_or(0);
    told.min_rnr_timer = now.min_rnr_timer.unwrap_or(0);
    told.timeout = now.timeout.unwrap_or(0);
    told.retry_cnt = now.retry_cnt.unwrap_or(0);
    told.rnr_retry = now.rnr_retry.unwrap_or(0);
    if let Some(av) = *object.av.lock() {
        told.ah_attr = av;
    }
    // SAFETY: by the contract.
    unsafe {
        attr.write(told);
        init.write(ibv_qp_init_attr {
            qp_context: qp.qp_context,
            send_cq: qp.send_cq,
            recv_cq: qp.recv_cq,
            srq: qp.srq,
            cap: object.cap,
            qp_type: qp.qp_type,
            sq_sig_all: object.signal_all.into(),
        });
    }
    Ok(())
}
