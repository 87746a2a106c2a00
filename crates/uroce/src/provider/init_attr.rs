//! The attributes that a queue pair is created with: `ibv_qp_init_attr` and `ibv_qp_init_attr_ex`.

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP};

use super::ffi::Result;
use super::object::Zeroable;
use crate::profile::{Limits, Services};
use roce::engine::Service;

/// Copies extended attributes. Reads only the fields that the mask announces. EOPNOTSUPP for attributes that
/// uroce does not know, and for create flags.
///
/// # Safety
/// `init` is readable as far as its mask says.
pub unsafe fn copy(init: *mut ibv_qp_init_attr_ex) -> Result<ibv_qp_init_attr_ex> {
    const KNOWN: u32 = IBV_QP_INIT_ATTR_PD
        | IBV_QP_INIT_ATTR_XRCD
        | IBV_QP_INIT_ATTR_CREATE_FLAGS
        | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    let mut ex = ibv_qp_init_attr_ex::zeroed();
    // SAFETY: the plain attributes and the mask are always there, each other field if its bit is set.
    unsafe {
        let mask = (*init).comp_mask;
        let flags = mask & IBV_QP_INIT_ATTR_CREATE_FLAGS != 0 && (*init).create_flags != 0;
        if mask & !KNOWN != 0 || flags {
            return Err(Errno(EOPNOTSUPP));
        }
        let plain = init.cast::<ibv_qp_init_attr>().read();
        (&raw mut ex).cast::<ibv_qp_init_attr>().write(plain);
        ex.comp_mask = mask;
        if mask & IBV_QP_INIT_ATTR_PD != 0 {
            ex.pd = (*init).pd;
        }
        if mask & IBV_QP_INIT_ATTR_XRCD != 0 {
            ex.xrcd = (*init).xrcd;
        }
        if mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0 {
            ex.send_ops_flags = (*init).send_ops_flags;
        }
    }
    Ok(ex)
}

/// The service of a queue pair type. EOPNOTSUPP for one that the device does not have.
pub fn service(qp_type: ibv_qp_type, services: &Services) -> Result<Service> {
    let (service, exists) = match qp_type {
        IBV_QPT_RC => (Service::Rc, services.rc),
        IBV_QPT_UC => (Service::Uc, services.uc),
        IBV_QPT_UD => (Service::Ud, services.ud),
        IBV_QPT_XRC_SEND => (Service::XrcSend, services.xrc),
        IBV_QPT_XRC_RECV => (Service::XrcRecv, services.xrc),
        _ => return Err(Errno(EOPNOTSUPP)),
    };
    exists.then_some(service).ok_or(Errno(EOPNOTSUPP))
}

/// Whether the program may post sends: on all but XRC targets.
pub fn has_send_queue(service: Service) -> bool {
    service != Service::XrcRecv
}

/// Whether the program may post receives, to the queue pair or its shared receive queue: not with XRC.
pub fn has_recv_queue(service: Service) -> bool {
    matches!(service, Service::Rc | Service::Uc | Service::Ud)
}

/// EINVAL if an object that the service needs is missing, or a size is beyond the device's limits. Sets the
/// sizes of queues that do not exist to 0, and `max_inline_data` to what there is room for.
pub fn check(service: Service, init: &mut ibv_qp_init_attr_ex, limits: &Limits) -> Result<()> {
    let has = |bit| init.comp_mask & bit != 0;
    let (sends, receives) = (has_send_queue(service), has_recv_queue(service));
    let complete = if sends {
        has(IBV_QP_INIT_ATTR_PD)
            && !init.send_cq.is_null()
            && (!receives || !init.recv_cq.is_null())
    } else {
        has(IBV_QP_INIT_ATTR_XRCD) && !init.xrcd.is_null()
    };
    if !receives || !init.srq.is_null() {
        (init.cap.max_recv_wr, init.cap.max_recv_sge) = (0, 0);
    }
    if !sends {
        init.cap = ibv_qp_cap::default();
    }
    let cap = &init.cap;
    let within_limits = cap.max_send_wr <= limits.max_qp_wr
        && cap.max_recv_wr <= limits.max_qp_wr
        && cap.max_send_sge <= limits.max_sge
        && cap.max_recv_sge <= limits.max_sge
        && cap.max_inline_data <= limits.max_inline_data;
    if complete && within_limits {
        if sends {
            // Room for inline data where a WQE has its SGEs, as kernel devices give it: programs use it
            // without asking for it (rdma_xclient).
            let sges = init.cap.max_send_sge * size_of::<ibv_sge>() as u32;
            let room = sges.min(limits.max_inline_data);
            init.cap.max_inline_data = init.cap.max_inline_data.max(room);
        }
        Ok(())
    } else {
        Err(Errno(EINVAL))
    }
}
