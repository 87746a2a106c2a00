//! Queue pairs as verbs: what their objects have; destroying them.
//!
//! Not here: creating and opening (`create_qp.rs`), attributes (`modify.rs`), work requests
//! (`post.rs`, `wr_api.rs`), the protocol (`engine`).
//!
//! Invariant: a queue pair has a reference to each object that it was created with, so that
//! destroying one of these fails with EBUSY.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use ibverbs_abi::*;
use libc::{EACCES, EBUSY, c_int};

use super::ffi::Result;
use super::init_attr::{has_recv_queue, has_send_queue};
use super::object::{Object, RefCount, wait_until};
use super::pd::Pd;
use super::srq::Xrcd;
use super::wr_session::WrSession;
use super::{cq, handle, srq};
use crate::device::Device;
use crate::device::handles;
use crate::device::queue_pair::{QpListener, QueuePair, QueuePairConfig};
use crate::sync::Mutex;
use roce::engine::{QpConfig, Service};

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
    /// Reports async events of the queue pair to the program.
    pub listener: Arc<QpListener>,
    /// The address vector as the program set it, to be queried; the engine has its own form.
    pub ah_attr: Mutex<Option<ibv_ah_attr>>,
    /// The port that the program has set, to be queried.
    pub port: AtomicU8,
    /// The work requests that the `ibv_wr_*` functions build; only for an extended queue pair.
    pub wr_session: Option<Box<WrSession>>,
    /// The objects that it keeps live.
    pub refs: QpRefs,
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
        self.qp
            .listeners
            .lock()
            .retain(|listener| !Arc::ptr_eq(listener, &self.listener));
        if self.qp.close() {
            self.device.remove_queue_pair(&self.qp);
            self.qp.counters.detach_all();
        }
        self.listener.close()
    }
}

/// The objects that a queue pair uses and keeps live. Each is NULL or live.
#[derive(Clone, Copy)]
pub struct QpRefs {
    pd: *mut ibv_pd,
    send_cq: *mut ibv_cq,
    recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    xrcd: *mut ibv_xrcd,
}

impl QpRefs {
    /// The objects of a queue pair to be created: those that its service has.
    pub fn new(service: Service, init: &ibv_qp_init_attr_ex) -> QpRefs {
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
    pub unsafe fn check(&self, context: *mut ibv_context) -> Result<()> {
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
    pub unsafe fn for_each(&self, call: impl Fn(&RefCount)) {
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
    pub unsafe fn config(&self, engine: QpConfig, device: &Device) -> QueuePairConfig {
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
                receive_order: device.receive_order(),
                slots_by_completion: device.profile.slots_by_completion,
            }
        }
    }
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
