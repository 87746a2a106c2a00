//! Queue pairs: creating, opening, destroying.

use std::sync::Arc;

use ibverbs_abi::*;
use libc::{EBUSY, EINVAL, ENOENT, ENOMEM, EOPNOTSUPP, c_int};

use super::attributes::{MAX_INLINE, MAX_SGE, MAX_WR};
use super::context::{ContextPart, part};
use super::object::{Answer, Object, Plain, initialise, wait};
use super::pd::Pd;
use super::srq::Xrcd;
use super::wr_api::{self, Building};
use super::{cq, srq};
use crate::device::Device;
use crate::device::queue_pair::{Listener, QueuePair, QueuePairConfig};
use crate::engine::{Limits, QpConfig, Service};
use parking_lot::Mutex;

/// Behind a queue pair.
pub struct QpPart {
    pub qp: Arc<QueuePair>,
    pub device: Arc<Device>,
    pub cap: ibv_qp_cap,
    pub signal_all: bool,
    listener: Arc<Listener>,
    /// The address vector as it was given; the engine knows the path in it.
    pub av: Mutex<Option<ibv_ah_attr>>,
    /// What `ibv_wr_start` has begun, of an extended queue pair.
    pub building: Option<Box<Building>>,
    xrcd: *mut ibv_xrcd,
}

/// A queue pair, plain or extended.
pub type Qp = Object<verbs_qp, QpPart>;

/// The object behind a queue pair.
///
/// # Safety
/// `qp` is live, and not freed while the reference is used.
pub unsafe fn object<'a>(qp: *mut ibv_qp) -> &'a Qp {
    // SAFETY: by the contract; every queue pair of ours begins as an ibv_qp.
    unsafe { Qp::of(qp.cast()) }
}

impl QpPart {
    /// EACCES in a child of the process that has made the queue pair.
    #[inline]
    pub fn check(&self) -> Answer<&Device> {
        if self.device.is_ours() {
            Ok(&self.device)
        } else {
            Err(libc::EACCES)
        }
    }
}

/// # Safety
/// The op's contract: the domain is live, the attributes are readable and writable, and their objects
/// live.
pub unsafe fn create_qp(pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> Answer<*mut ibv_qp> {
    let mut ex = ibv_qp_init_attr_ex::zeroed();
    // SAFETY: by the contract; the extended attributes begin as the plain ones.
    unsafe {
        (&raw mut ex).cast::<ibv_qp_init_attr>().write(*init);
        ex.comp_mask = IBV_QP_INIT_ATTR_PD;
        ex.pd = pd;
        let qp = create((*pd).context, &mut ex)?;
        (*init).cap = ex.cap;
        Ok(qp)
    }
}

/// # Safety
/// The op's contract: the context is open, the attributes are readable and writable, and their objects
/// live.
pub unsafe fn create_qp_ex(
    context: *mut ibv_context,
    init: *mut ibv_qp_init_attr_ex,
) -> Answer<*mut ibv_qp> {
    const KNOWN: u32 = IBV_QP_INIT_ATTR_PD
        | IBV_QP_INIT_ATTR_XRCD
        | IBV_QP_INIT_ATTR_CREATE_FLAGS
        | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    // SAFETY: by the contract.
    unsafe {
        let mask = (*init).comp_mask;
        let flags = mask & IBV_QP_INIT_ATTR_CREATE_FLAGS != 0 && (*init).create_flags != 0;
        if mask & !KNOWN != 0 || flags {
            return Err(EOPNOTSUPP);
        }
        // No more is read than the mask says is there.
        let mut ex = ibv_qp_init_attr_ex::zeroed();
        (&raw mut ex)
            .cast::<ibv_qp_init_attr>()
            .write(init.cast::<ibv_qp_init_attr>().read());
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
        let qp = create(context, &mut ex)?;
        (*init).cap = ex.cap;
        Ok(qp)
    }
}

/// The service of a type of queue pair.
fn service(kind: ibv_qp_type) -> Answer<Service> {
    Ok(match kind {
        IBV_QPT_RC => Service::Rc,
        IBV_QPT_UC => Service::Uc,
        IBV_QPT_UD => Service::Ud,
        IBV_QPT_XRC_SEND => Service::XrcSend,
        IBV_QPT_XRC_RECV => Service::XrcRecv,
        _ => return Err(EOPNOTSUPP),
    })
}

/// Whether the service has the objects it needs and the sizes are within limits; sets the sizes of
/// queues that there are not to 0.
fn check(service: Service, init: &mut ibv_qp_init_attr_ex) -> Answer<()> {
    let has = |bit| init.comp_mask & bit != 0;
    let receives = matches!(service, Service::Rc | Service::Uc | Service::Ud);
    let sends = service != Service::XrcRecv;
    let whole = if sends {
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
    let small = cap.max_send_wr <= MAX_WR
        && cap.max_recv_wr <= MAX_WR
        && cap.max_send_sge <= MAX_SGE
        && cap.max_recv_sge <= MAX_SGE
        && cap.max_inline_data <= MAX_INLINE;
    if whole && small { Ok(()) } else { Err(EINVAL) }
}

/// # Safety
/// As for [`create_qp_ex`].
unsafe fn create(context: *mut ibv_context, init: &mut ibv_qp_init_attr_ex) -> Answer<*mut ibv_qp> {
    // SAFETY: by the contract.
    let context_part = unsafe { part(context) };
    let device = context_part.check()?;
    let service = service(init.qp_type)?;
    check(service, init)?;
    let extended = init.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0;
    if extended {
        wr_api::check(service, init.send_ops_flags)?;
    }
    let sends = service != Service::XrcRecv;
    let receives = matches!(service, Service::Rc | Service::Uc | Service::Ud);
    if !sends {
        (init.pd, init.send_cq) = (core::ptr::null_mut(), core::ptr::null_mut());
    }
    if !receives {
        (init.recv_cq, init.srq) = (core::ptr::null_mut(), core::ptr::null_mut());
    }
    let xrcd = if sends {
        core::ptr::null_mut()
    } else {
        init.xrcd
    };
    let signal_all = init.sq_sig_all != 0;
    let errno = |error: std::io::Error| error.raw_os_error().unwrap_or(ENOMEM);
    let qpn = device.net.alloc_qpn().map_err(errno)?;
    // SAFETY: by the contract, what the attributes name is live or, by `check` and the lines after
    // it, NULL.
    let qp = unsafe {
        Arc::new(QueuePair::new(QueuePairConfig {
            engine: QpConfig {
                service,
                qpn,
                limits: Limits {
                    max_send_wr: init.cap.max_send_wr,
                    max_recv_wr: init.cap.max_recv_wr,
                },
                sq_sig_all: signal_all,
                has_srq: !init.srq.is_null(),
            },
            domain: (!init.pd.is_null()).then(|| Pd::of(init.pd).domain),
            send_cq: (!init.send_cq.is_null()).then(|| cq::object(init.send_cq).queue.clone()),
            recv_cq: (!init.recv_cq.is_null()).then(|| cq::object(init.recv_cq).queue.clone()),
            srq: (!init.srq.is_null()).then(|| srq::object(init.srq).queue.clone()),
            xrcd: (!xrcd.is_null()).then(|| Xrcd::of(xrcd.cast()).domain.clone()),
            memory: device.memory.clone(),
        }))
    };
    device.add_queue_pair(qp.clone());
    let whole = Whole {
        qp,
        init,
        xrcd,
        signal_all,
        extended,
    };
    // SAFETY: as above.
    Ok(unsafe { whole.make(context, context_part) })
}

/// What an object is made of.
struct Whole<'a> {
    qp: Arc<QueuePair>,
    init: &'a ibv_qp_init_attr_ex,
    xrcd: *mut ibv_xrcd,
    signal_all: bool,
    extended: bool,
}

impl Whole<'_> {
    /// Makes the object, and counts it as a user of what it uses.
    ///
    /// # Safety
    /// The context is open, and what is named lives or is NULL.
    unsafe fn make(self, context: *mut ibv_context, context_part: &ContextPart) -> *mut ibv_qp {
        let Whole { qp, init, xrcd, .. } = self;
        // The object's address is known only when it is there, but the listener is part of it: so it is
        // allocated first, and filled then.
        let place = Box::into_raw(Box::<Qp>::new_uninit());
        let handle = place.expose_provenance() as u64;
        let listener = Arc::new(Listener::new(handle, context_part.events.clone()));
        qp.listeners.lock().push(listener.clone());
        let mut base = verbs_qp::zeroed();
        base.u.qp = ibv_qp {
            context,
            qp_context: init.qp_context,
            pd: init.pd,
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            srq: init.srq,
            handle: qp.qpn,
            qp_num: qp.qpn,
            state: IBV_QPS_RESET,
            qp_type: init.qp_type,
            // SAFETY: zeros, until it is initialised in place.
            mutex: unsafe { base.u.qp.mutex },
            // SAFETY: as above.
            cond: unsafe { base.u.qp.cond },
            events_completed: 0,
        };
        let made = Qp::new(
            base,
            QpPart {
                device: context_part.device.clone(),
                cap: init.cap,
                signal_all: self.signal_all,
                listener,
                av: Mutex::new(None),
                building: self.extended.then(Box::default),
                xrcd,
                qp,
            },
        );
        // SAFETY: the place is ours, for one object; the users are live, by the contract.
        unsafe {
            (*place).write(made);
            let object = place.cast::<verbs_qp>();
            let public = &raw mut (*object).u.qp;
            initialise(&raw mut (*public).mutex, &raw mut (*public).cond);
            if self.extended {
                (*object).comp_mask = VERBS_QP_EX;
                wr_api::fill(&mut (*object).u.qp_ex);
            }
            each_used(
                init.pd,
                init.send_cq,
                init.recv_cq,
                init.srq,
                xrcd,
                |users| {
                    users.add();
                },
            );
            public
        }
    }
}

/// Calls for each object that a queue pair uses.
///
/// # Safety
/// What is not NULL is live.
unsafe fn each_used(
    pd: *mut ibv_pd,
    send_cq: *mut ibv_cq,
    recv_cq: *mut ibv_cq,
    srq: *mut ibv_srq,
    xrcd: *mut ibv_xrcd,
    call: impl Fn(&super::object::Users),
) {
    // SAFETY: by the contract.
    unsafe {
        if !pd.is_null() {
            call(&Pd::of(pd).users);
        }
        for cq in [send_cq, recv_cq] {
            if !cq.is_null() {
                call(&cq::object(cq).users);
            }
        }
        if !srq.is_null() {
            call(&srq::object(srq).users);
        }
        if !xrcd.is_null() {
            call(&Xrcd::of(xrcd.cast()).users);
        }
    }
}

/// Opens an XRC receiver that somebody in this process has made.
///
/// # Safety
/// The op's contract: the context is open, the attributes are readable and their objects live.
pub unsafe fn open_qp(
    context: *mut ibv_context,
    attr: *mut ibv_qp_open_attr,
) -> Answer<*mut ibv_qp> {
    const REQUIRED: u32 = IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_TYPE;
    // SAFETY: by the contract.
    unsafe {
        let (context_part, attr) = (part(context), &*attr);
        let device = context_part.check()?;
        if attr.comp_mask >= IBV_QP_OPEN_ATTR_RESERVED {
            return Err(EOPNOTSUPP);
        }
        if attr.comp_mask & REQUIRED != REQUIRED || attr.qp_type != IBV_QPT_XRC_RECV {
            return Err(EINVAL);
        }
        let domain = &Xrcd::of(attr.xrcd.cast()).domain;
        let qp = device.queue_pair(attr.qp_num).ok_or(ENOENT)?;
        if !qp
            .xrcd
            .as_ref()
            .is_some_and(|xrcd| Arc::ptr_eq(xrcd, domain))
        {
            return Err(EINVAL);
        }
        let mut init = ibv_qp_init_attr_ex::zeroed();
        init.qp_type = IBV_QPT_XRC_RECV;
        if attr.comp_mask & IBV_QP_OPEN_ATTR_CONTEXT != 0 {
            init.qp_context = attr.qp_context;
        }
        let whole = Whole {
            qp,
            init: &init,
            xrcd: attr.xrcd,
            signal_all: false,
            extended: false,
        };
        let public = whole.make(context, context_part);
        (*public).state = IBV_QPS_UNKNOWN;
        Ok(public)
    }
}

/// # Safety
/// The op's contract: the queue pair is live, dead after success.
pub unsafe fn destroy_qp(qp: *mut ibv_qp) -> Answer<()> {
    // SAFETY: by the contract; what the queue pair uses lives as long as it does.
    unsafe {
        let object = object(qp);
        if object.device.is_ours() {
            if object.qp.service == Service::Ud && object.device.is_attached(&object.qp) {
                return Err(EBUSY);
            }
            let last = {
                let mut listeners = object.qp.listeners.lock();
                listeners.retain(|listener| !Arc::ptr_eq(listener, &object.listener));
                listeners.is_empty()
            };
            if last {
                object.device.remove_queue_pair(&object.qp);
            }
            let events = object.listener.withdraw_events();
            wait(&raw mut (*qp).mutex, &raw mut (*qp).cond, || {
                (*qp).events_completed == events
            });
        }
        let q = &*qp;
        each_used(q.pd, q.send_cq, q.recv_cq, q.srq, object.xrcd, |users| {
            users.remove();
        });
        Qp::free(qp.cast());
    }
    Ok(())
}

/// Data of one connection arrives in order; of a whole message, not of several at once.
pub unsafe extern "C" fn query_qp_data_in_order(
    _qp: *mut ibv_qp,
    _op: ibv_wr_opcode,
    _flags: u32,
) -> c_int {
    // The bytes of a packet are copied by memcpy, in whatever order that has.
    0
}
