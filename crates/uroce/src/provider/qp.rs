//! Queue pairs as verbs: creating, opening, destroying.
//!
//! Not here: what they are created with (`init_attr.rs`), attributes (`modify.rs`), work requests
//! (`post.rs`, `wr_api.rs`), the protocol (`engine`).
//!
//! Invariant: a queue pair has a reference to each object that it was created with, so that
//! destroying one of these fails with EBUSY.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use ibverbs_abi::*;
use libc::{EACCES, EBUSY, EINVAL, ENOMEM, EOPNOTSUPP, c_int};

use super::context::{ContextPrivate, private};
use super::ffi::Result;
use super::init_attr::{self, has_recv_queue, has_send_queue};
use super::object::{Object, RefCount, Room, Zeroable, init_event_lock, wait_until};
use super::pd::Pd;
use super::srq::Xrcd;
use super::wr_api::{self, WrSession};
use super::{cq, handle, srq};
use crate::device::Device;
use crate::device::handles::{self, ObjectKind, ReservedHandle};
use crate::device::queue_pair::{QpListener, QueuePair, QueuePairConfig};
use crate::sync::Mutex;
use roce::engine::{Limits, QpConfig, Service};

/// The private part of a queue pair.
pub struct QpPrivate {
    /// The queue pair. XRC targets that were opened several times share it.
    pub qp: Arc<QueuePair>,
    /// The device that runs it.
    pub device: Arc<Device>,
    /// The sizes of its queues, as reported at creation.
    pub cap: ibv_qp_cap,
    /// Every send request is signaled.
    pub sq_sig_all: bool,
    listener: Arc<QpListener>,
    /// The address vector as the program set it, to be queried; the engine has its own form.
    pub ah_attr: Mutex<Option<ibv_ah_attr>>,
    /// The port that the program has set, to be queried.
    pub port: AtomicU8,
    /// The work requests that the `ibv_wr_*` functions build; only for an extended queue pair.
    pub wr_session: Option<Box<WrSession>>,
    refs: QpRefs,
}

/// A queue pair, plain or extended.
pub type Qp = Object<verbs_qp, QpPrivate>;

/// The object of an `ibv_qp`.
///
/// # Safety
/// `qp` is live, and not freed while the reference is used.
pub unsafe fn object<'a>(qp: *mut ibv_qp) -> &'a Qp {
    // SAFETY: the caller passes a live queue pair, whose public structure begins with the ibv_qp.
    unsafe { Qp::of(qp.cast()) }
}

impl QpPrivate {
    /// The device; EACCES in a child of the process that created the queue pair.
    #[inline]
    pub fn check(&self) -> Result<&Device> {
        if self.device.owned_by_this_process() {
            Ok(&self.device)
        } else {
            Err(Errno(EACCES))
        }
    }

    /// Ends the queue pair, or, of an XRC target that is open several times, this object's part in it.
    /// Returns how many of its events the program has read.
    pub fn leave_device(&self) -> u32 {
        self.device.detach_from_all(&self.qp);
        let is_last = {
            let mut listeners = self.qp.listeners.lock();
            listeners.retain(|listener| !Arc::ptr_eq(listener, &self.listener));
            listeners.is_empty()
        };
        if is_last {
            self.device.remove_queue_pair(&self.qp);
            self.qp.counters.detach_all();
        }
        self.listener.close()
    }
}

/// The objects that a queue pair uses and keeps live. Each is NULL or live.
#[derive(Clone, Copy)]
struct QpRefs {
    pd: *mut ibv_pd,
    send_cq: *mut ibv_cq,
    recv_cq: *mut ibv_cq,
    srq: *mut ibv_srq,
    xrcd: *mut ibv_xrcd,
}

impl QpRefs {
    /// The objects of a queue pair to be created: those that its service has.
    fn new(service: Service, init: &ibv_qp_init_attr_ex) -> QpRefs {
        let mut refs = QpRefs {
            pd: init.pd,
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            srq: init.srq,
            xrcd: init.xrcd,
        };
        if has_send_queue(service) {
            refs.xrcd = core::ptr::null_mut();
        } else {
            (refs.pd, refs.send_cq) = (core::ptr::null_mut(), core::ptr::null_mut());
        }
        if !has_recv_queue(service) {
            (refs.recv_cq, refs.srq) = (core::ptr::null_mut(), core::ptr::null_mut());
        }
        refs
    }

    /// ENOENT or EINVAL if an object does not exist or is of another context.
    ///
    /// # Safety
    /// Each object is NULL or readable.
    unsafe fn check(&self, context: *mut ibv_context) -> Result<()> {
        // SAFETY: the caller says that what is not NULL is readable.
        unsafe {
            handle::check_optional(self.pd, context)?;
            handle::check_optional(self.send_cq, context)?;
            handle::check_optional(self.recv_cq, context)?;
            handle::check_optional(self.srq, context)?;
            handle::check_optional(self.xrcd.cast::<verbs_xrcd>(), context)
        }
    }

    /// Calls `call` with the reference count of each object.
    ///
    /// # Safety
    /// Each object is NULL or live.
    unsafe fn for_each(&self, call: impl Fn(&RefCount)) {
        // SAFETY: the caller says that what is not NULL is live.
        unsafe {
            if !self.pd.is_null() {
                call(&Pd::of(self.pd).refs);
            }
            for cq in [self.send_cq, self.recv_cq] {
                if !cq.is_null() {
                    call(&cq::object(cq).refs);
                }
            }
            if !self.srq.is_null() {
                call(&srq::object(self.srq).refs);
            }
            if !self.xrcd.is_null() {
                call(&Xrcd::of(self.xrcd.cast()).refs);
            }
        }
    }

    /// The configuration of the device's queue pair, from the objects.
    ///
    /// # Safety
    /// Each object is NULL or live.
    unsafe fn config(&self, engine: QpConfig, device: &Device) -> QueuePairConfig {
        // SAFETY: the caller says that what is not NULL is live.
        unsafe {
            QueuePairConfig {
                engine,
                pd: (!self.pd.is_null()).then(|| Pd::of(self.pd).handle),
                send_cq: (!self.send_cq.is_null()).then(|| cq::object(self.send_cq).queue.clone()),
                recv_cq: (!self.recv_cq.is_null()).then(|| cq::object(self.recv_cq).queue.clone()),
                srq: (!self.srq.is_null()).then(|| srq::object(self.srq).queue.clone()),
                xrcd: (!self.xrcd.is_null()).then(|| Xrcd::of(self.xrcd.cast()).domain.clone()),
                memory: device.memory.clone(),
                concurrent_receivers: device.concurrent_receivers(),
                slots_by_completion: device.profile.slots_by_completion,
            }
        }
    }
}

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
    // SAFETY: the context is open, and the only object in `refs` is the live XRC domain.
    Ok(unsafe { new.alloc(context, context_private) })
}

/// Destroys a queue pair; of an XRC target that is open several times, this object only. Fails with
/// EBUSY while it is attached to a multicast group. Blocks until the program has acknowledged the events
/// that it has read.
///
/// # Safety
/// `qp` is live; after success it is freed.
pub unsafe fn destroy_qp(qp: *mut ibv_qp) -> Result<()> {
    // SAFETY: the caller passes a readable queue pair, which is used further if it is live.
    let object = unsafe {
        handle::check(qp)?;
        object(qp)
    };
    let owned = object.device.owned_by_this_process();
    if owned
        && object.qp.service == Service::Ud
        && object.device.multicast_groups.contains(&object.qp)
    {
        return Err(Errno(EBUSY));
    }
    // SAFETY: the queue pair is readable.
    let handle = unsafe { handle::claim(qp) }?;
    if owned {
        let read = object.leave_device();
        // SAFETY: the mutex, the condition and the counter that they guard are the live queue pair's.
        unsafe {
            wait_until(&raw mut (*qp).mutex, &raw mut (*qp).cond, || {
                (*qp).events_completed == read
            });
        }
    }
    // SAFETY: the queue pair's references have kept the objects live. The caller does not use the queue
    // pair any more, nor is `object` used after the free.
    unsafe {
        handles::remove(handle);
        object.refs.for_each(RefCount::release);
        Qp::free(qp.cast());
    }
    Ok(())
}

/// Reports no guarantee: a packet's bytes are copied by memcpy, which may write them in any order.
pub unsafe extern "C" fn query_qp_data_in_order(
    _qp: *mut ibv_qp,
    _op: ibv_wr_opcode,
    _flags: u32,
) -> c_int {
    0
}
