//! Shared receive queues and XRC domains as verbs: creating, changing, querying and destroying
//! them, and posting receives.
//!
//! Not here: the receives that wait and the limit event (`device/shared_queue.rs`), the queues of
//! an XRC domain by number (`device/xrc.rs`).

use std::sync::Arc;

use ibverbs_abi::*;
use libc::{EACCES, EAGAIN, EBADF, EINVAL, ENOMEM, EOPNOTSUPP, c_int};

use super::context::private;
use super::cq::{self, Cq};
use super::ffi::{Result, ReturnToC};
use super::handle;
use super::object::{Object, RefCount, Room, Zeroable, init_event_lock, wait_until};
use super::pd::Pd;
use super::wr_list::for_each_recv;
use crate::device::Device;
use crate::device::handles::{self, ObjectKind, ReservedHandle};
use crate::device::shared_queue::{SharedReceiveQueue, SrqConfig, SrqSizes};
use crate::device::xrc::{Claim, Inode, XrcDomain};
use crate::profile::Profile;

/// The private part of a shared receive queue.
pub struct SrqPrivate {
    /// The queue.
    pub queue: Arc<SharedReceiveQueue>,
    /// The domain of an XRC queue.
    xrcd: Option<Arc<XrcDomain>>,
    /// The device that it was created on.
    pub device: Arc<Device>,
    /// Queue pairs that receive from it.
    pub refs: RefCount,
}

/// A shared receive queue, basic or XRC.
pub type Srq = Object<verbs_srq, SrqPrivate>;

/// The private part of an XRC domain.
pub struct XrcdPrivate {
    /// The domain. Contexts that opened it by the same file share it.
    pub domain: Arc<XrcDomain>,
    /// Queue pairs and SRQs that were created in the domain.
    pub refs: RefCount,
}

impl SrqPrivate {
    /// EACCES in a child of the process that created the queue.
    fn check(&self) -> Result<()> {
        if self.device.owned_by_this_process() {
            Ok(())
        } else {
            Err(Errno(EACCES))
        }
    }

    /// Ends the queue: peers do not find it any more, and no receive of it is filled. Returns how many of
    /// its events the program has read.
    pub fn leave_device(&self) -> u32 {
        if let Some(xrcd) = &self.xrcd {
            xrcd.remove(&self.queue);
        }
        let read = self.queue.close();
        self.device.srq_numbers.free(self.queue.number);
        read
    }
}

/// An XRC domain.
pub type Xrcd = Object<verbs_xrcd, XrcdPrivate>;

/// The object of an `ibv_srq`.
///
/// # Safety
/// `srq` is live, and not freed while the reference is used.
pub unsafe fn object<'a>(srq: *mut ibv_srq) -> &'a Srq {
    // SAFETY: the caller passes a live queue, whose public structure begins with the ibv_srq.
    unsafe { Srq::of(srq.cast()) }
}

/// # Safety
/// `pd` is live, `init` readable.
pub unsafe fn create_srq(pd: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> Result<*mut ibv_srq> {
    let mut ex = ibv_srq_init_attr_ex::zeroed();
    // SAFETY: the caller passes a live domain, whose context is open, and readable attributes.
    unsafe {
        ex.srq_context = (*init).srq_context;
        ex.attr = (*init).attr;
        ex.comp_mask = IBV_SRQ_INIT_ATTR_PD;
        ex.pd = pd;
        create_srq_ex((*pd).context, &mut ex)
    }
}

/// Whether the attributes are those of an XRC queue. EOPNOTSUPP for attributes and types that the device does
/// not know, and if it has no shared receive queues; EINVAL if one is missing, or a size is out of range.
fn check_init_attr(init: &ibv_srq_init_attr_ex, profile: &Profile) -> Result<bool> {
    const KNOWN: u32 = IBV_SRQ_INIT_ATTR_TYPE
        | IBV_SRQ_INIT_ATTR_PD
        | IBV_SRQ_INIT_ATTR_XRCD
        | IBV_SRQ_INIT_ATTR_CQ;
    let has = |bit| init.comp_mask & bit != 0;
    let limits = &profile.limits;
    if init.comp_mask & !KNOWN != 0 || limits.max_srq == 0 {
        return Err(Errno(EOPNOTSUPP));
    }
    let is_xrc = match init.srq_type {
        _ if !has(IBV_SRQ_INIT_ATTR_TYPE) => false,
        IBV_SRQT_BASIC => false,
        IBV_SRQT_XRC if profile.services.xrc => true,
        _ => return Err(Errno(EOPNOTSUPP)),
    };
    let complete = has(IBV_SRQ_INIT_ATTR_PD)
        && (!is_xrc || has(IBV_SRQ_INIT_ATTR_XRCD) && has(IBV_SRQ_INIT_ATTR_CQ));
    let sizes = &init.attr;
    let within_limits =
        (1..=limits.max_srq_wr).contains(&sizes.max_wr) && sizes.max_sge <= limits.max_srq_sge;
    if !complete || !within_limits {
        return Err(Errno(EINVAL));
    }
    Ok(is_xrc)
}

/// The objects that only an XRC queue has.
struct XrcParts<'a> {
    xrcd: &'a Xrcd,
    cq: &'a Cq,
}

/// `srq_limit` has no effect here, as ibv_create_srq(3) says: only `ibv_modify_srq` arms the limit.
///
/// # Safety
/// `context` is open, `init` readable, and the objects that it names are live.
pub unsafe fn create_srq_ex(
    context: *mut ibv_context,
    init: *mut ibv_srq_init_attr_ex,
) -> Result<*mut ibv_srq> {
    // SAFETY: the caller passes an open context and readable attributes.
    let (context_private, init) = unsafe { (private(context), &*init) };
    let device = context_private.check()?;
    let is_xrc = check_init_attr(init, &device.profile)?;
    // SAFETY: `check_init_attr` has seen that the mask names a domain, and for XRC the other two;
    // objects that the mask names are readable, and used further if they are live.
    let (pd, xrc) = unsafe {
        handle::check_in(init.pd, context)?;
        if is_xrc {
            handle::check_in(init.xrcd.cast::<verbs_xrcd>(), context)?;
            handle::check_in(init.cq, context)?;
        }
        let xrc = is_xrc.then(|| XrcParts {
            xrcd: Xrcd::of(init.xrcd.cast()),
            cq: cq::object(init.cq),
        });
        (Pd::of(init.pd), xrc)
    };
    let reserved = handle::reserve(device, ObjectKind::Srq)?;
    let room = Srq::room()?;
    let number = device.srq_numbers.alloc().ok_or(Errno(ENOMEM))?;
    let queue = Arc::new(SharedReceiveQueue::new(SrqConfig {
        sizes: SrqSizes {
            max_wr: init.attr.max_wr as usize,
            limit: 0,
        },
        max_sge: init.attr.max_sge as usize,
        pd: pd.handle,
        number,
        cq: xrc.as_ref().map(|xrc| xrc.cq.queue.clone()),
        slots_by_completion: device.profile.slots_by_completion,
        handle: reserved.handle().into(),
        events: context_private.events.clone(),
    }));
    pd.refs.acquire();
    if let Some(xrc) = &xrc {
        xrc.cq.refs.acquire();
        xrc.xrcd.refs.acquire();
    }
    let srq = new_srq(
        room,
        context,
        init,
        xrc.as_ref(),
        queue.clone(),
        device,
        reserved,
    );
    if let Some(xrc) = &xrc {
        // From now on peers find it.
        xrc.xrcd.domain.add(&queue);
    }
    Ok(srq)
}

/// Makes the object of a new queue.
fn new_srq(
    room: Room<verbs_srq, SrqPrivate>,
    context: *mut ibv_context,
    init: &ibv_srq_init_attr_ex,
    xrc: Option<&XrcParts>,
    queue: Arc<SharedReceiveQueue>,
    device: &Arc<Device>,
    reserved: ReservedHandle,
) -> *mut ibv_srq {
    let mut public = verbs_srq::zeroed();
    public.srq.context = context;
    public.srq.pd = init.pd;
    public.srq.srq_context = init.srq_context;
    public.srq.handle = reserved.handle();
    public.srq_type = IBV_SRQT_BASIC;
    if xrc.is_some() {
        public.srq_type = IBV_SRQT_XRC;
        (public.xrcd, public.cq, public.srq_num) = (init.xrcd.cast(), init.cq, queue.number);
    }
    let private = SrqPrivate {
        queue,
        xrcd: xrc.map(|xrc| xrc.xrcd.domain.clone()),
        device: device.clone(),
        refs: RefCount::default(),
    };
    let srq = room.fill(public, private);
    // SAFETY: allocated above, known to nobody else, and never moved.
    let public = unsafe {
        let public = &raw mut (*srq).srq;
        init_event_lock(&raw mut (*public).mutex, &raw mut (*public).cond);
        public
    };
    handle::publish(reserved, ObjectKind::Srq, public, context);
    public
}

/// EINVAL for an unknown mask, or sizes that do not fit each other or what is queued.
///
/// # Safety
/// `srq` is live, `attr` readable.
pub unsafe fn modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> Result<()> {
    // SAFETY: the caller passes readable attributes and a readable queue, which is used further if it is
    // live.
    let (object, attr) = unsafe {
        handle::check(srq)?;
        (object(srq), &*attr)
    };
    object.check()?;
    let has = |bit| mask as u32 & bit != 0;
    let limit = object.device.profile.limits.max_srq_wr;
    let max_wr = has(IBV_SRQ_MAX_WR).then_some(attr.max_wr);
    if mask as u32 & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0
        || max_wr.is_some_and(|max| !(1..=limit).contains(&max))
    {
        return Err(Errno(EINVAL));
    }
    let limit = has(IBV_SRQ_LIMIT).then_some(attr.srq_limit as usize);
    if object.queue.modify(max_wr.map(|max| max as usize), limit) {
        Ok(())
    } else {
        Err(Errno(EINVAL))
    }
}

/// # Safety
/// `srq` is live, `attr` writable.
pub unsafe fn query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> Result<()> {
    // SAFETY: the caller passes a readable queue, which is used further if it is live.
    let object = unsafe {
        handle::check(srq)?;
        object(srq)
    };
    object.check()?;
    let queue = &object.queue;
    let sizes = queue.sizes();
    let reported = ibv_srq_attr {
        max_wr: sizes.max_wr as u32,
        max_sge: queue.max_sge as u32,
        srq_limit: sizes.limit as u32,
    };
    // SAFETY: the caller passes writable attributes.
    unsafe { attr.write(reported) };
    Ok(())
}

/// EOPNOTSUPP for a basic queue.
///
/// # Safety
/// `srq` is live, `number` writable.
pub unsafe fn get_srq_num(srq: *mut ibv_srq, number: *mut u32) -> Result<()> {
    // SAFETY: the caller passes a live queue, whose public structure is a verbs_srq, and a writable
    // number.
    unsafe {
        handle::check(srq)?;
        let public = object(srq).public();
        if (*public).srq_type != IBV_SRQT_XRC {
            return Err(Errno(EOPNOTSUPP));
        }
        number.write((*public).srq_num);
    }
    Ok(())
}

/// Fails with EBUSY while a queue pair uses the queue. Blocks until the program has acknowledged the
/// queue's events that it has read.
///
/// # Safety
/// `srq` is live; after success it is freed.
pub unsafe fn destroy_srq(srq: *mut ibv_srq) -> Result<()> {
    // SAFETY: the caller passes a readable queue, which is used further if it is live.
    let object = unsafe {
        handle::check(srq)?;
        object(srq)
    };
    object.refs.ensure_unused()?;
    // SAFETY: the caller passes a live queue, whose references keep its XRC domain, completion queue and
    // protection domain live. It has no references itself, so only threads that acknowledge events use
    // it.
    unsafe {
        let handle = handle::claim(srq)?;
        let public = object.public();
        let xrcd = (!(*public).xrcd.is_null()).then(|| Xrcd::of((*public).xrcd));
        if object.device.owned_by_this_process() {
            let read = object.leave_device();
            wait_until(&raw mut (*srq).mutex, &raw mut (*srq).cond, || {
                (*srq).events_completed == read
            });
        }
        if let Some(xrcd) = xrcd {
            xrcd.refs.release();
            cq::object((*public).cq).refs.release();
        }
        handles::remove(handle);
        Pd::of((*srq).pd).refs.release();
        Srq::free(srq.cast());
    }
    Ok(())
}

/// Posts a list of receives to a shared receive queue; those before the first bad one are posted. EACCES
/// in a child of the process that created the queue.
pub unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the caller passes a live queue.
    let object = unsafe { object(srq) };
    if !object.device.owned_by_this_process() {
        // SAFETY: the caller passes a writable `bad_wr`.
        unsafe { *bad_wr = wr };
        return Result::<()>::Err(Errno(EACCES)).return_to_c();
    }
    let queue = &object.queue;
    let post = |receive| {
        if queue.post(receive) {
            Ok(())
        } else {
            Err(Errno(ENOMEM))
        }
    };
    // SAFETY: the caller passes a live list and a writable `bad_wr`.
    unsafe { for_each_recv(wr, bad_wr, queue.max_sge, post) }.return_to_c()
}

/// Opens an XRC domain: a new one, or the one that a file names.
///
/// # Safety
/// `context` is open, `attr` readable.
pub unsafe fn open_xrcd(
    context: *mut ibv_context,
    attr: *mut ibv_xrcd_init_attr,
) -> Result<*mut ibv_xrcd> {
    const REQUIRED: u32 = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    // SAFETY: the caller passes an open context and readable attributes.
    let (device, attr) = unsafe { (private(context).check()?, &*attr) };
    if attr.comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED {
        return Err(Errno(EOPNOTSUPP));
    }
    if attr.comp_mask & REQUIRED != REQUIRED {
        return Err(Errno(EINVAL));
    }
    let domain = if attr.fd == -1 {
        Arc::new(XrcDomain::new(None, None))
    } else {
        named_domain(device, attr.fd, attr.oflags)?
    };
    let reserved = handle::reserve(device, ObjectKind::Xrcd)?;
    let mut public = verbs_xrcd::zeroed();
    public.xrcd.context = context;
    public.comp_mask = VERBS_XRCD_HANDLE;
    public.handle = reserved.handle();
    let refs = RefCount::default();
    let xrcd = Xrcd::room()?.fill(public, XrcdPrivate { domain, refs });
    handle::publish(reserved, ObjectKind::Xrcd, xrcd, context);
    Ok(xrcd.cast())
}

/// The domain that a file names. It is created if there is none and `oflags` has O_CREAT, else EAGAIN.
/// EINVAL if there is one and `oflags` has O_EXCL; EOPNOTSUPP if another process has it; EBADF for a bad
/// descriptor.
fn named_domain(device: &Device, fd: c_int, oflags: c_int) -> Result<Arc<XrcDomain>> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `stat` is writable.
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
        return Err(Errno(EBADF));
    }
    // SAFETY: fstat has succeeded, so it has filled the structure.
    let stat = unsafe { stat.assume_init() };
    let file = Inode {
        device: stat.st_dev,
        inode: stat.st_ino,
    };
    let mut named = device.xrc_domains.lock();
    match named.find(file) {
        Some(_) if oflags & libc::O_EXCL != 0 => Err(Errno(EINVAL)),
        Some(domain) => Ok(domain),
        None => {
            let claim = claim(file, device, oflags)?;
            if oflags & libc::O_CREAT == 0 {
                return Err(Errno(EAGAIN));
            }
            let domain = Arc::new(XrcDomain::new(Some(file), claim));
            named.add(&domain);
            Ok(domain)
        }
    }
}

/// The right to a file's domain. None: another process has it, and this one gets a domain of its own. An
/// error if it would need that of the other one.
fn claim(file: Inode, device: &Device, oflags: c_int) -> Result<Option<Claim>> {
    let error = match Claim::take(file, device.net.ifindex()) {
        Ok(claim) => return Ok(Some(claim)),
        Err(error) => error.raw_os_error().unwrap_or(ENOMEM),
    };
    match error {
        libc::EADDRINUSE if oflags & libc::O_EXCL != 0 => Err(Errno(EINVAL)),
        libc::EADDRINUSE => {
            log::warn!(
                "uroce: the XRC domain of that file is open in another process, too: uroce's domains are \
                 not shared, as their queues are memory of one process"
            );
            match oflags & libc::O_CREAT {
                0 => Err(Errno(EOPNOTSUPP)),
                _ => Ok(None),
            }
        }
        other => Err(Errno(other)),
    }
}

/// Fails with EBUSY while a queue pair or SRQ uses the domain.
///
/// # Safety
/// `xrcd` is live; after success it is freed.
pub unsafe fn close_xrcd(xrcd: *mut ibv_xrcd) -> Result<()> {
    // SAFETY: the caller passes a live domain, whose public structure begins with the ibv_xrcd. Without
    // references nothing else uses it.
    unsafe {
        let xrcd = xrcd.cast::<verbs_xrcd>();
        handle::check(xrcd)?;
        Xrcd::of(xrcd).refs.ensure_unused()?;
        handles::remove(handle::claim(xrcd)?);
        Xrcd::free(xrcd);
    }
    Ok(())
}
