//! Creating queue pairs, plain and extended, and opening XRC targets.
//!
//! Not here: what the attributes may be (`init_attr.rs`), the objects (`qp.rs`).

use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use ibverbs_abi::*;
use libc::{EINVAL, ENOMEM, EOPNOTSUPP};

use super::context::{ContextPrivate, private};
use super::ffi::Result;
use super::object::{RefCount, Room, Zeroable, init_event_lock};
use super::qp::{Qp, QpPrivate, QpRefs};
use super::srq::Xrcd;
use super::{handle, init_attr, wr_api};
use crate::device::handles::{ObjectKind, ReservedHandle};
use crate::device::queue_pair::{QpListener, QueuePair};
use crate::sync::Mutex;
use roce::engine::{Limits, QpConfig, Service};

/// # Safety
/// `pd` is live, `init` readable and writable, and the objects that it names are live or NULL.
pub unsafe fn create_qp(pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> Result<*mut ibv_qp> {
    let mut ex = ibv_qp_init_attr_ex::zeroed();
    // SAFETY: the caller passes a live domain, whose context is open, and readable and writable
    // attributes. The extended attributes begin with the plain ones.
    unsafe {
        (&raw mut ex).cast::<ibv_qp_init_attr>().write(*init);
        ex.comp_mask = IBV_QP_INIT_ATTR_PD;
        ex.pd = pd;
        let qp = create((*pd).context, &mut ex)?;
        (*init).cap = ex.cap;
        Ok(qp)
    }
}

/// EOPNOTSUPP for attributes that uroce does not know, and for create flags.
///
/// # Safety
/// `context` is open, `init` readable and writable as far as its mask says, and the objects that it
/// names are live or NULL.
pub unsafe fn create_qp_ex(
    context: *mut ibv_context,
    init: *mut ibv_qp_init_attr_ex,
) -> Result<*mut ibv_qp> {
    // SAFETY: the caller passes readable attributes.
    let mut ex = unsafe { init_attr::copy(init) }?;
    // SAFETY: the caller passes an open context, and objects that are live or NULL.
    let qp = unsafe { create(context, &mut ex) }?;
    // SAFETY: the caller passes writable attributes.
    unsafe { (*init).cap = ex.cap };
    Ok(qp)
}

/// Creates a queue pair; sets `init.cap` to what it has.
///
/// # Safety
/// `context` is open, and the objects that `init` names are live or NULL.
unsafe fn create(context: *mut ibv_context, init: &mut ibv_qp_init_attr_ex) -> Result<*mut ibv_qp> {
    // SAFETY: the caller passes an open context.
    let context_private = unsafe { private(context) };
    let device = context_private.check()?;
    let profile = &device.profile;
    let service = init_attr::service(init.qp_type, &profile.services)?;
    if !init.srq.is_null() && profile.limits.max_srq == 0 {
        return Err(Errno(EOPNOTSUPP));
    }
    init_attr::check(service, init, &profile.limits)?;
    let extended = init.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0;
    if extended {
        wr_api::check_ops(service, init.send_ops_flags, profile)?;
    }
    let refs = QpRefs::new(service, init);
    // SAFETY: the caller says that the objects are readable or NULL.
    unsafe { refs.check(context) }?;
    let reserved = handle::reserve(device, ObjectKind::Qp)?;
    let room = Qp::room()?;
    let sq_sig_all = init.sq_sig_all != 0;
    let errno = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(ENOMEM));
    let qpn = device.net.alloc_qpn().map_err(errno)?;
    let engine = QpConfig {
        service,
        qpn,
        limits: Limits {
            max_send_wr: init.cap.max_send_wr,
            max_recv_wr: init.cap.max_recv_wr,
        },
        sq_sig_all,
        has_srq: !refs.srq.is_null(),
    };
    // SAFETY: the caller says that the objects are live or NULL.
    let config = unsafe { refs.config(engine, device) };
    let qp = Arc::new(QueuePair::new(config));
    let new = NewQp {
        reserved,
        room,
        qp: qp.clone(),
        refs,
        init: *init,
        state: IBV_QPS_RESET,
        sq_sig_all,
        extended,
    };
    // SAFETY: the context is open, and the objects are live or NULL.
    let object = unsafe { new.alloc(context, context_private) };
    device.add_queue_pair(qp);
    Ok(object)
}

/// The parts of a new queue pair's object.
struct NewQp {
    reserved: ReservedHandle,
    room: Room<verbs_qp, QpPrivate>,
    qp: Arc<QueuePair>,
    refs: QpRefs,
    /// The attributes that the program has passed; the sizes are those that the queue pair has.
    init: ibv_qp_init_attr_ex,
    state: ibv_qp_state,
    sq_sig_all: bool,
    extended: bool,
}

impl NewQp {
    /// Allocates the object, and takes a reference to each object that it uses.
    ///
    /// # Safety
    /// `context` is open and `context_private` its private part; each object in `refs` is NULL or live.
    unsafe fn alloc(
        self,
        context: *mut ibv_context,
        context_private: &ContextPrivate,
    ) -> *mut ibv_qp {
        let listener = Arc::new(QpListener::new(
            self.reserved.handle().into(),
            context_private.events.clone(),
        ));
        // SAFETY: the caller says that the objects are live or NULL.
        unsafe { self.refs.for_each(RefCount::acquire) };
        let extended = self.extended;
        let public = self.public(context);
        let private = QpPrivate {
            device: context_private.device.clone(),
            cap: self.init.cap,
            sq_sig_all: self.sq_sig_all,
            listener: listener.clone(),
            ah_attr: Mutex::new(None),
            port: AtomicU8::new(1),
            wr_session: extended.then(Box::default),
            refs: self.refs,
            qp: self.qp.clone(),
        };
        let object = self.room.fill(public, private);
        // SAFETY: allocated above, known to nobody else, and never moved.
        let public = unsafe {
            let public = &raw mut (*object).u.qp;
            init_event_lock(&raw mut (*public).mutex, &raw mut (*public).cond);
            if extended {
                (*object).comp_mask = VERBS_QP_EX;
                wr_api::set_functions(&mut (*object).u.qp_ex);
            }
            public
        };
        // Whole, so events and other threads may find it from now on.
        handle::publish(self.reserved, ObjectKind::Qp, public, context);
        self.qp.listeners.lock().push(listener);
        public
    }

    /// The public structure: it names the objects that the program has passed, also those that the
    /// service has no use for (rdma_xserver gets its protection domain from there). Mutex and condition
    /// are zeros, to be initialised in place.
    fn public(&self, context: *mut ibv_context) -> verbs_qp {
        let mut public = verbs_qp::zeroed();
        // SAFETY: every variant of the union begins with an ibv_qp, and is zeros.
        let qp = unsafe { &mut public.u.qp };
        qp.context = context;
        qp.qp_context = self.init.qp_context;
        qp.pd = self.init.pd;
        qp.send_cq = self.init.send_cq;
        qp.recv_cq = self.init.recv_cq;
        qp.srq = self.init.srq;
        qp.handle = self.reserved.handle();
        qp.qp_num = self.qp.qpn;
        qp.state = self.state;
        qp.qp_type = self.init.qp_type;
        public
    }
}

/// Opens an XRC target that this process has created. EINVAL if the XRC domain has no queue pair of
/// that number, as from the kernel.
///
/// # Safety
/// `context` is open, `attr` readable, and the XRC domain that it names is live.
pub unsafe fn open_qp(
    context: *mut ibv_context,
    attr: *mut ibv_qp_open_attr,
) -> Result<*mut ibv_qp> {
    const REQUIRED: u32 = IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_TYPE;
    // SAFETY: the caller passes an open context and readable attributes.
    let (context_private, attr) = unsafe { (private(context), &*attr) };
    let device = context_private.check()?;
    if attr.comp_mask >= IBV_QP_OPEN_ATTR_RESERVED {
        return Err(Errno(EOPNOTSUPP));
    }
    if attr.comp_mask & REQUIRED != REQUIRED || attr.qp_type != IBV_QPT_XRC_RECV {
        return Err(Errno(EINVAL));
    }
    let has_context = attr.comp_mask & IBV_QP_OPEN_ATTR_CONTEXT != 0;
    let init = ibv_qp_init_attr_ex {
        qp_context: if has_context {
            attr.qp_context
        } else {
            core::ptr::null_mut()
        },
        qp_type: IBV_QPT_XRC_RECV,
        xrcd: attr.xrcd,
        ..ibv_qp_init_attr_ex::zeroed()
    };
    let refs = QpRefs::new(Service::XrcRecv, &init);
    // SAFETY: the mask says that the domain is named; it is readable, and used further if it is live.
    let domain = unsafe {
        refs.check(context)?;
        &Xrcd::of(attr.xrcd.cast()).domain
    };
    let qp = device.queue_pair(attr.qp_num).ok_or(Errno(EINVAL))?;
    let in_domain = |xrcd: &Arc<_>| Arc::ptr_eq(xrcd, domain);
    if !qp.xrcd.as_ref().is_some_and(in_domain) {
        return Err(Errno(EINVAL));
    }
    let new = NewQp {
        reserved: handle::reserve(device, ObjectKind::Qp)?,
        room: Qp::room()?,
        qp,
        refs,
        init,
        state: IBV_QPS_UNKNOWN,
        sq_sig_all: false,
        extended: false,
    };
    // Another thread may have destroyed the queue pair meanwhile. From here on nothing fails.
    if !new.qp.open() {
        return Err(Errno(EINVAL));
    }
    // SAFETY: the context is open, and the only object in `refs` is the live XRC domain.
    Ok(unsafe { new.alloc(context, context_private) })
}
