//! Shared receive queues and XRC domains.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ibverbs_abi::*;
use libc::{EACCES, EAGAIN, EINVAL, ENOMEM, EOPNOTSUPP, c_int};

use super::attributes::{MAX_SGE, MAX_WR};
use super::context::part;
use super::object::{Answer, Object, Plain, Users, initialise, wait};
use super::pd::Pd;
use super::{cq, post};
use crate::device::Device;
use crate::device::shared_queue::{SharedQueue, SharedQueueConfig};
use crate::device::xrc::XrcDomain;

/// Behind a shared receive queue.
pub struct SrqPart {
    pub queue: Arc<SharedQueue>,
    pub device: Arc<Device>,
    pub users: Users,
}

/// A shared receive queue.
pub type Srq = Object<verbs_srq, SrqPart>;

/// Behind an XRC domain.
pub struct XrcdPart {
    pub domain: Arc<XrcDomain>,
    pub users: Users,
}

/// An XRC domain.
pub type Xrcd = Object<verbs_xrcd, XrcdPart>;

/// The object behind a queue.
///
/// # Safety
/// `srq` is live, and not freed while the reference is used.
pub unsafe fn object<'a>(srq: *mut ibv_srq) -> &'a Srq {
    // SAFETY: by the contract; every queue of ours begins as an ibv_srq.
    unsafe { Srq::of(srq.cast()) }
}

/// # Safety
/// The op's contract: the domain is live, the attributes are readable and writable.
pub unsafe fn create_srq(pd: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> Answer<*mut ibv_srq> {
    let mut ex = ibv_srq_init_attr_ex::zeroed();
    // SAFETY: by the contract.
    unsafe {
        ex.srq_context = (*init).srq_context;
        ex.attr = (*init).attr;
        ex.comp_mask = IBV_SRQ_INIT_ATTR_PD;
        ex.pd = pd;
        create_srq_ex((*pd).context, &mut ex)
    }
}

/// # Safety
/// The op's contract: the context is open, the attributes are readable and their objects live.
pub unsafe fn create_srq_ex(
    context: *mut ibv_context,
    init: *mut ibv_srq_init_attr_ex,
) -> Answer<*mut ibv_srq> {
    const KNOWN: u32 = IBV_SRQ_INIT_ATTR_TYPE
        | IBV_SRQ_INIT_ATTR_PD
        | IBV_SRQ_INIT_ATTR_XRCD
        | IBV_SRQ_INIT_ATTR_CQ;
    // SAFETY: by the contract.
    let (context_part, init) = unsafe { (part(context), &*init) };
    let device = context_part.check()?;
    let has = |bit| init.comp_mask & bit != 0;
    if init.comp_mask & !KNOWN != 0 {
        return Err(EOPNOTSUPP);
    }
    let kind = if has(IBV_SRQ_INIT_ATTR_TYPE) {
        init.srq_type
    } else {
        IBV_SRQT_BASIC
    };
    let xrc = match kind {
        IBV_SRQT_BASIC => false,
        IBV_SRQT_XRC => true,
        _ => return Err(EOPNOTSUPP),
    };
    let whole = has(IBV_SRQ_INIT_ATTR_PD)
        && (!xrc || has(IBV_SRQ_INIT_ATTR_XRCD) && has(IBV_SRQ_INIT_ATTR_CQ));
    let sizes = &init.attr;
    if !whole
        || sizes.max_wr == 0
        || sizes.max_wr > MAX_WR
        || sizes.max_sge > MAX_SGE
        || sizes.srq_limit > sizes.max_wr
    {
        return Err(EINVAL);
    }
    // SAFETY: by the contract the objects that the mask names are live; the queue is new.
    unsafe {
        let pd = Pd::of(init.pd);
        let completes = xrc.then(|| cq::object(init.cq));
        let number = device.next_number() & 0xff_ffff;
        let queue = Arc::new(SharedQueue::new(SharedQueueConfig {
            max_wr: sizes.max_wr as usize,
            max_sge: sizes.max_sge as usize,
            limit: sizes.srq_limit as usize,
            domain: pd.domain,
            number,
            cq: completes.map(|cq| cq.queue.clone()),
            events: context_part.events.clone(),
        }));
        pd.users.add();
        if let Some(cq) = completes {
            cq.users.add();
            let xrcd = Xrcd::of(init.xrcd.cast());
            xrcd.users.add();
            xrcd.domain.add(&queue);
        }
        let mut base = verbs_srq::zeroed();
        base.srq.context = context;
        base.srq.pd = init.pd;
        base.srq.srq_context = init.srq_context;
        base.srq.handle = number;
        base.srq_type = kind;
        if xrc {
            (base.xrcd, base.cq, base.srq_num) = (init.xrcd.cast(), init.cq, number);
        }
        let srq = Srq::make(
            base,
            SrqPart {
                queue: queue.clone(),
                device: device.clone(),
                users: Users::default(),
            },
        );
        let handle = srq.expose_provenance() as u64;
        queue.handle.store(handle, Ordering::Relaxed);
        let public = &raw mut (*srq).srq;
        initialise(&raw mut (*public).mutex, &raw mut (*public).cond);
        Ok(public)
    }
}

/// # Safety
/// The op's contract: the queue is live, the attributes are readable.
pub unsafe fn modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> Answer<()> {
    // SAFETY: by the contract.
    let (part, attr) = unsafe { (object(srq), &*attr) };
    let has = |bit| mask as u32 & bit != 0;
    let max_wr = has(IBV_SRQ_MAX_WR).then_some(attr.max_wr);
    if mask as u32 & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0
        || max_wr.is_some_and(|max| max == 0 || max > MAX_WR)
    {
        return Err(EINVAL);
    }
    let limit = has(IBV_SRQ_LIMIT).then_some(attr.srq_limit as usize);
    if part.queue.modify(max_wr.map(|max| max as usize), limit) {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// # Safety
/// The op's contract: the queue is live, the attributes are writable.
pub unsafe fn query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> Answer<()> {
    // SAFETY: by the contract.
    unsafe {
        let queue = &object(srq).queue;
        let (max_wr, limit) = queue.sizes();
        attr.write(ibv_srq_attr {
            max_wr: max_wr as u32,
            max_sge: queue.max_sge as u32,
            srq_limit: limit as u32,
        });
    }
    Ok(())
}

/// # Safety
/// The op's contract: the queue is live, the number is writable.
pub unsafe fn get_srq_num(srq: *mut ibv_srq, number: *mut u32) -> Answer<()> {
    // SAFETY: by the contract; every queue of ours is a verbs_srq.
    unsafe {
        let base = object(srq).base();
        if (*base).srq_type != IBV_SRQT_XRC {
            return Err(EOPNOTSUPP);
        }
        number.write((*base).srq_num);
    }
    Ok(())
}

/// # Safety
/// The op's contract: the queue is live, dead after success.
pub unsafe fn destroy_srq(srq: *mut ibv_srq) -> Answer<()> {
    // SAFETY: by the contract; what the queue uses lives as long as it does.
    unsafe {
        let part = object(srq);
        part.users.check_none()?;
        let base = part.base();
        if part.device.is_ours() {
            if !(*base).xrcd.is_null() {
                Xrcd::of((*base).xrcd).domain.remove(&part.queue);
            }
            let events = part.queue.withdraw_events();
            wait(&raw mut (*srq).mutex, &raw mut (*srq).cond, || {
                (*srq).events_completed == events
            });
        }
        if !(*base).xrcd.is_null() {
            Xrcd::of((*base).xrcd).users.remove();
            cq::object((*base).cq).users.remove();
        }
        Pd::of((*srq).pd).users.remove();
        Srq::free(srq.cast());
    }
    Ok(())
}

/// Posts receives to a shared queue.
pub unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: by the op's contract the queue is live, and so is the list.
    unsafe {
        let part = object(srq);
        if !part.device.is_ours() {
            *bad_wr = wr;
            return EACCES;
        }
        let queue = &part.queue;
        post::each_recv(wr, bad_wr, queue.max_sge, |receive| {
            if queue.post(receive) {
                Ok(())
            } else {
                Err(ENOMEM)
            }
        })
    }
}

/// # Safety
/// The op's contract: the context is open, the attributes are readable.
pub unsafe fn open_xrcd(
    context: *mut ibv_context,
    attr: *mut ibv_xrcd_init_attr,
) -> Answer<*mut ibv_xrcd> {
    const REQUIRED: u32 = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    // SAFETY: by the contract.
    let (context_part, attr) = unsafe { (part(context), &*attr) };
    let device = context_part.check()?;
    if attr.comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED {
        return Err(EOPNOTSUPP);
    }
    if attr.comp_mask & REQUIRED != REQUIRED {
        return Err(EINVAL);
    }
    let domain = if attr.fd == -1 {
        Arc::new(XrcDomain::new(None))
    } else {
        named_domain(device, attr.fd, attr.oflags)?
    };
    let mut base = verbs_xrcd::zeroed();
    base.xrcd.context = context;
    base.comp_mask = VERBS_XRCD_HANDLE;
    base.handle = device.next_number();
    let users = Users::default();
    Ok(Xrcd::make(base, XrcdPart { domain, users }).cast())
}

/// The domain that a file names: found, or made if the flags ask for that.
fn named_domain(device: &Device, fd: c_int, oflags: c_int) -> Answer<Arc<XrcDomain>> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `stat` is writable.
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
        return Err(libc::EBADF);
    }
    // SAFETY: fstat has filled it.
    let stat = unsafe { stat.assume_init() };
    let file = (stat.st_dev, stat.st_ino);
    let mut named = device.xrc_domains.lock();
    match named.find(file) {
        Some(_) if oflags & libc::O_EXCL != 0 => Err(EINVAL),
        Some(domain) => Ok(domain),
        None if oflags & libc::O_CREAT == 0 => Err(EAGAIN),
        None => {
            let domain = Arc::new(XrcDomain::new(Some(file)));
            named.add(&domain);
            Ok(domain)
        }
    }
}

/// # Safety
/// The op's contract: the domain is live, dead after success.
pub unsafe fn close_xrcd(xrcd: *mut ibv_xrcd) -> Answer<()> {
    // SAFETY: by the contract; every domain of ours begins as an ibv_xrcd.
    unsafe {
        Xrcd::of(xrcd.cast()).users.check_none()?;
        Xrcd::free(xrcd.cast());
    }
    Ok(())
}
