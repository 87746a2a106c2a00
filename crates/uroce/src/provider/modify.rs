//! The verbs that modify and query the attributes of a queue pair.

use std::sync::atomic::Ordering;

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP, c_int};

use super::attributes::{check_port, mtu_bytes, mtu_code};
use super::ffi::Result;
use super::object::Zeroable;
use super::qp::{self, QpPrivate};
use super::{ah, handle, transitions};
use roce::engine::{QpChange, QpState, Service};
use roce::wire::Psn;

/// Modifies what the mask names. EINVAL if there is no such transition, if an attribute is missing or
/// not allowed in it (`transitions.rs`), or if a value is out of range; EOPNOTSUPP for a mask with other bits
/// than the kernel's MODIFY_QP knows. Then nothing is changed.
///
/// # Safety
/// `qp` is live, and the attributes that the mask names are readable.
pub unsafe fn modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> Result<()> {
    // SAFETY: the caller passes readable attributes and a readable queue pair, which is used further if
    // it is live.
    let (object, attr) = unsafe {
        handle::check(qp)?;
        (qp::object(qp), &*attr)
    };
    let device = object.check()?;
    if mask as u32 >= IBV_QP_DEST_QPN << 1 {
        return Err(Errno(EOPNOTSUPP));
    }
    let mask = transitions::applicable(object.qp.service, mask as u32);
    let mut change = requested_change(object, attr, mask)?;
    if object.qp.service == Service::Ud {
        // A UD queue pair has no path MTU attribute; its datagrams must fit the port.
        let active_mtu = device.net.port_state().active_mtu;
        (change.path_mtu, change.active_mtu) = (Some(active_mtu), Some(active_mtu));
    }
    device.run_qp(&object.qp, |engine, hca, now| {
        let from = engine.state();
        let to = change.state.unwrap_or(from);
        let claims_other_state =
            mask & IBV_QP_CUR_STATE != 0 && attr.cur_qp_state != transitions::number(from);
        if claims_other_state || !transitions::allowed(object.qp.service, from, to, mask) {
            return Err(Errno(EINVAL));
        }
        // Without IBV_QP_STATE the attributes are set in the present state.
        change.state = (mask & IBV_QP_STATE != 0).then_some(to);
        engine.modify(&change, now, hca);
        if change.state == Some(QpState::Reset) {
            for cq in [&object.qp.send_cq, &object.qp.recv_cq]
                .into_iter()
                .flatten()
            {
                cq.remove_of(object.qp.qpn);
            }
        }
        Ok(())
    })?;
    if change.state == Some(QpState::Rts) {
        device.await_channel(&object.qp);
    }
    if mask & IBV_QP_PORT != 0 {
        object.port.store(attr.port_num, Ordering::Relaxed);
    }
    if mask & IBV_QP_AV != 0 {
        *object.ah_attr.lock() = Some(attr.ah_attr);
    }
    Ok(())
}

/// The engine's form of what the mask names. EINVAL if a value is out of range or not supported.
fn requested_change(qp: &QpPrivate, attr: &ibv_qp_attr, mask: u32) -> Result<QpChange> {
    let device = &qp.device;
    let has = |bit| mask & bit != 0;
    let mut change = QpChange::default();
    if has(IBV_QP_PORT) {
        check_port(device, attr.port_num.into())?;
    }
    let limits = &device.profile.limits;
    let invalid = has(IBV_QP_PKEY_INDEX) && attr.pkey_index != 0
        // There is no path migration: MIGRATED, which means that none is armed, is the only state.
        || has(IBV_QP_ALT_PATH)
        || has(IBV_QP_PATH_MIG_STATE) && attr.path_mig_state != IBV_MIG_MIGRATED
        || has(IBV_QP_EN_SQD_ASYNC_NOTIFY) && attr.en_sqd_async_notify > 1;
    if invalid {
        return Err(Errno(EINVAL));
    }
    if has(IBV_QP_STATE) {
        change.state = Some(transitions::state(attr.qp_state).ok_or(Errno(EINVAL))?);
    }
    if has(IBV_QP_AV) {
        change.av = Some(ah::address_vector(&attr.ah_attr, device)?);
    }
    if has(IBV_QP_PATH_MTU) {
        // Up to max_mtu, as by the kernel's rxe; the active MTU limits what the packets carry.
        let active_mtu = device.net.port_state().active_mtu;
        let path_mtu = mtu_bytes(attr.path_mtu).ok_or(Errno(EINVAL))?;
        if device.profile.refuses_large_mtu && path_mtu > active_mtu {
            return Err(Errno(EINVAL));
        }
        (change.path_mtu, change.active_mtu) = (Some(path_mtu), Some(active_mtu));
    }
    change.sqd_async_notify =
        has(IBV_QP_EN_SQD_ASYNC_NOTIFY).then_some(attr.en_sqd_async_notify != 0);
    let [init_rd_atom, rd_atom] =
        [limits.max_qp_init_rd_atom, limits.max_qp_rd_atom].map(|limit| limit.min(255) as u8);
    macro_rules! take {
        ($($bit:ident $to:ident = $value:expr, at most $limit:expr;)*) => { $(
            if has($bit) {
                if $value > $limit {
                    return Err(Errno(EINVAL));
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
        IBV_QP_MAX_QP_RD_ATOMIC max_rd_atomic = attr.max_rd_atomic, at most init_rd_atom;
        IBV_QP_MAX_DEST_RD_ATOMIC max_dest_rd_atomic = attr.max_dest_rd_atomic,
            at most rd_atom;
        IBV_QP_TIMEOUT timeout = attr.timeout, at most 31;
        IBV_QP_RETRY_CNT retry_cnt = attr.retry_cnt, at most 7;
        IBV_QP_RNR_RETRY rnr_retry = attr.rnr_retry, at most 7;
    }
    // It has 5 bits in an AETH. Drivers take these and ignore the upper 3 (mlx5, rxe), except rdmavt's.
    change.min_rnr_timer = has(IBV_QP_MIN_RNR_TIMER).then_some(attr.min_rnr_timer & 31);
    // PSNs have 24 bits; like other devices, uroce ignores the upper 8.
    change.rq_psn = has(IBV_QP_RQ_PSN).then(|| Psn::new(attr.rq_psn));
    change.sq_psn = has(IBV_QP_SQ_PSN).then(|| Psn::new(attr.sq_psn));
    Ok(change)
}

/// Reports all attributes that the mask can name, whatever it names. EOPNOTSUPP for a mask with other bits,
/// as the library answers for kernel devices.
///
/// # Safety
/// `qp` is live, `attr` and `init` are writable.
pub unsafe fn query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> Result<()> {
    if mask as u32 >= IBV_QP_RATE_LIMIT {
        return Err(Errno(EOPNOTSUPP));
    }
    // SAFETY: the caller passes a readable queue pair, which is used further if it is live.
    let (object, qp) = unsafe {
        handle::check(qp)?;
        (qp::object(qp), &*qp)
    };
    object.check()?;
    let (current, sq_draining) = {
        let inner = object.qp.inner.lock();
        (inner.engine().attributes(), inner.engine().sq_draining())
    };
    let state = transitions::number(current.state.unwrap_or(QpState::Reset));
    let mut reported = ibv_qp_attr::zeroed();
    reported.qp_state = state;
    reported.cur_qp_state = state;
    reported.path_mtu = current.path_mtu.map_or(0, mtu_code);
    reported.path_mig_state = IBV_MIG_MIGRATED;
    reported.cap = object.cap;
    reported.port_num = object.port.load(Ordering::Relaxed);
    reported.sq_draining = sq_draining.into();
    reported.qkey = current.qkey.unwrap_or(0);
    reported.rq_psn = current.rq_psn.map_or(0, Psn::get);
    reported.sq_psn = current.sq_psn.map_or(0, Psn::get);
    reported.dest_qp_num = current.dest_qpn.unwrap_or(0);
    reported.qp_access_flags = current.access.unwrap_or(0);
    reported.max_rd_atomic = current.max_rd_atomic.unwrap_or(0);
    reported.max_dest_rd_atomic = current.max_dest_rd_atomic.unwrap_or(0);
    reported.min_rnr_timer = current.min_rnr_timer.unwrap_or(0);
    reported.timeout = current.timeout.unwrap_or(0);
    reported.retry_cnt = current.retry_cnt.unwrap_or(0);
    reported.rnr_retry = current.rnr_retry.unwrap_or(0);
    if let Some(av) = *object.ah_attr.lock() {
        reported.ah_attr = av;
    }
    // SAFETY: the caller passes writable attributes.
    unsafe {
        attr.write(reported);
        init.write(ibv_qp_init_attr {
            qp_context: qp.qp_context,
            send_cq: qp.send_cq,
            recv_cq: qp.recv_cq,
            srq: qp.srq,
            cap: object.cap,
            qp_type: qp.qp_type,
            sq_sig_all: object.sq_sig_all.into(),
        });
    }
    Ok(())
}
