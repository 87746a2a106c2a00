//! Wrappers that create, change and destroy queue pairs.

use core::ffi::c_int;
use core::ptr;

use ibverbs_abi::*;

use super::super::check::memory::Size;
use super::super::finding::{Kind, Outcome};
use super::super::originals::original;
use super::super::shadow::{Completion, NewQp};
use super::super::{cm, facts, peer};
use super::attributes::copy;
use super::queues::{report_unacknowledged, too_large};
use super::{build, check_process, look_up, observe, preserving_errno, with};
use crate::provider::software;

pub unsafe extern "C" fn create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: the program's attributes are readable. The domain is alive, and its context is open and
    // wrapped (see the module above).
    unsafe {
        let (context, asked) = ((*pd).context, (*attr).cap);
        check_process(context, "ibv_create_qp");
        let qp = (original(context).create_qp)(pd, attr);
        created(context, pd, qp, attr, (asked, 0), "ibv_create_qp");
        qp
    }
}

pub unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    check_process(context, "ibv_create_qp_ex");
    // SAFETY: the program's attributes are readable up to `comp_mask`, and further as that says; they begin
    // as those of ibv_create_qp. The context is open and wrapped (see the module above).
    unsafe {
        let (asked, mask) = ((*attr).cap, (*attr).comp_mask);
        let pd = match mask & IBV_QP_INIT_ATTR_PD {
            0 => ptr::null_mut(),
            _ => (*attr).pd,
        };
        let qp = (original(context).create_qp_ex)(context, attr);
        let is_extended = mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0;
        let send_ops = if is_extended {
            (*attr).send_ops_flags
        } else {
            0
        };
        created(
            context,
            pd,
            qp,
            attr.cast(),
            (asked, send_ops),
            "ibv_create_qp_ex",
        );
        if !qp.is_null() && is_extended {
            build::wrap(qp.cast());
        }
        qp
    }
}

/// # Safety
/// `context` is open and wrapped; `qp` is NULL or new; `attr` is readable.
unsafe fn created(
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    qp: *mut ibv_qp,
    attr: *const ibv_qp_init_attr,
    (asked, send_ops): (ibv_qp_cap, u64),
    call: &'static str,
) {
    let outcome = Outcome::of_pointer(qp.is_null());
    if qp.is_null() {
        // SAFETY: the context is open and wrapped, as the caller promises.
        unsafe { too_large(context, call, outcome, |device| sizes(&asked, device)) };
        return;
    }
    // SAFETY: the attributes are readable and the queue pair is alive, as the caller promises.
    let new = unsafe {
        NewQp {
            context: context as usize,
            pd: pd as usize,
            send_cq: (*attr).send_cq as usize,
            recv_cq: (*attr).recv_cq as usize,
            srq: (*attr).srq as usize,
            number: (*qp).qp_num,
            kind: (*attr).qp_type,
            cap: (*attr).cap,
            sig_all: (*attr).sq_sig_all != 0,
            send_ops,
        }
    };
    with(|shadow| shadow.add_qp(qp as usize, new));
}

fn sizes(asked: &ibv_qp_cap, device: &ibv_device_attr) -> Vec<Size> {
    let size = |member, asked: u32, limit: c_int| Size {
        member,
        asked: asked.into(),
        limit: limit as u64,
    };
    vec![
        size("cap.max_send_wr", asked.max_send_wr, device.max_qp_wr),
        size("cap.max_recv_wr", asked.max_recv_wr, device.max_qp_wr),
        size("cap.max_send_sge", asked.max_send_sge, device.max_sge),
        size("cap.max_recv_sge", asked.max_recv_sge, device.max_sge),
    ]
}

pub unsafe extern "C" fn modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    // SAFETY: the program's attributes are readable: in all releases up to `rate_limit`. The queue pair is
    // alive, and its context is open and wrapped (see the module above).
    unsafe {
        let context = (*qp).context;
        check_process(context, "ibv_modify_qp");
        let change = copy(attr, mask as u32);
        let ret = (original(context).modify_qp)(qp, attr, mask);
        let outcome = Outcome::of(ret);
        let connects = change.mask & IBV_QP_AV != 0;
        let surroundings = match connects {
            true => preserving_errno(|| facts::address_vector(context, &change.attr.ah_attr)),
            false => None,
        };
        let port_mtu = match ret == 0 && change.mask & IBV_QP_PORT != 0 {
            true => preserving_errno(|| facts::port(context, change.attr.port_num)),
            false => None,
        };
        observe(|shadow| {
            if let (Some(port), Some(qp)) = (port_mtu, shadow.qps.get_mut(&(qp as usize))) {
                qp.port_mtu = 128 << port.active_mtu.min(5);
            }
            let found = shadow.modified(qp as usize, &change, outcome, &surroundings);
            // librdmacm does what the program has asked for with arguments that were named.
            match ret != 0 && cm::current::is_explained() {
                true => Vec::new(),
                false => found,
            }
        });
        if ret == 0 && change.state() == Some(IBV_QPS_RTS) {
            preserving_errno(|| peer::compare(qp as usize));
        }
        ret
    }
}

/// Explains a request that has failed, and whose completion the program has not polled until this call.
pub fn report_unread(address: usize, call: &'static str) {
    let failure = with(|shadow| {
        let qp = shadow.qps.get(&address)?;
        if qp.first_error.is_some() || qp.state == IBV_QPS_RESET {
            return None;
        }
        let mut cqs = [qp.send_cq, qp.recv_cq]
            .into_iter()
            .filter(|cq| shadow.cqs.contains_key(cq));
        cqs.find_map(|cq| {
            let at = ptr::with_exposed_provenance_mut(cq);
            // SAFETY: the shadow, which is locked, has the CQ, and loses it before it is destroyed.
            let (wr_id, status) = unsafe { software::unread_failure(at, qp.number)? };
            // A peer that has answered may end first: the last message of a connection is then not
            // acknowledged.
            let ended = matches!(status, IBV_WC_RETRY_EXC_ERR | IBV_WC_RNR_RETRY_EXC_ERR);
            if ended && qp.answered > 0 {
                return None;
            }
            let failed = Completion {
                qpn: qp.number,
                wr_id,
                status,
                ..Completion::default()
            };
            Some((cq, failed))
        })
    });
    if let Some((cq, failed)) = failure.flatten() {
        look_up(cq, &[failed]);
        observe(|shadow| shadow.unread(address, cq, &failed, call));
    }
}

pub unsafe extern "C" fn destroy_qp(qp: *mut ibv_qp) -> c_int {
    let address = qp as usize;
    // SAFETY: the object is alive (see the module above).
    check_process(unsafe { (*qp).context }, "ibv_destroy_qp");
    report_unacknowledged(Kind::Qp, address, "ibv_destroy_qp", || {
        // SAFETY: the queue pair is alive (see the module above); its counter is aligned and readable.
        unsafe { (0, (&raw const (*qp).events_completed).read_volatile()) }
    });
    report_unread(address, "ibv_destroy_qp");
    observe(|shadow| shadow.destroying_qp(address));
    observe(|shadow| cm::order::destroying(shadow, Kind::Qp, address, "ibv_destroy_qp"));
    let taken = with(|shadow| shadow.take_qp(address)).flatten();
    let builds = build::BUILD_OPS.take(address);
    // SAFETY: the queue pair is alive, and its context is open and wrapped (see the module above).
    let ret = unsafe { (original((*qp).context).destroy_qp)(qp) };
    build::BUILD_OPS.put_back(address, builds.filter(|_| ret != 0));
    with(|shadow| match taken {
        Some(qp) if ret != 0 => shadow.put_qp_back(address, qp),
        Some(qp) => shadow.forget_qp(address, &qp),
        None => shadow.destroyed(Kind::Qp, address),
    });
    ret
}

pub unsafe extern "C" fn attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    // SAFETY: the queue pair is alive, and its context is open and wrapped (see the module above). The
    // program's GID is readable; all members of the union have the same 16 bytes, of any value.
    unsafe {
        let ret = (original((*qp).context).attach_mcast)(qp, gid, lid);
        if ret == 0 {
            let group = (*gid).raw;
            with(|shadow| shadow.qps.change(qp as usize, |qp| qp.attach(group, true)));
        }
        ret
    }
}

pub unsafe extern "C" fn detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    // SAFETY: as for `attach_mcast`.
    unsafe {
        let ret = (original((*qp).context).detach_mcast)(qp, gid, lid);
        if ret == 0 {
            let group = (*gid).raw;
            with(|shadow| shadow.qps.change(qp as usize, |qp| qp.attach(group, false)));
        }
        ret
    }
}
