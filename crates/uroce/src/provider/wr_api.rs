//! Extended queue pairs: work requests that the program builds by function calls (ibv_wr_post(3)).
//!
//! Invariant: from `wr_start` to `wr_complete` or `wr_abort` a thread holds the lock of the queue pair's
//! session (`wr_session.rs`), and only that thread uses the requests in it. A child of fork never uses them:
//! another thread of its parent may have held the lock. There `wr_complete` fails with EACCES, and the other
//! functions do nothing.

use core::ffi::c_void;

use ibverbs_abi::*;
use libc::{EACCES, EINVAL, ENOMEM, EOPNOTSUPP, c_int};

use super::ffi::{Result, ReturnToC};
use super::qp::{Qp, object};
use super::wr_list::{append_inline, send_flags, sges};
use super::wr_session::{PendingBind, PendingWrs};
use super::{mw, post};
use crate::profile::Profile;
use crate::sync::RawMutexApi as _;
use roce::engine::{Data, Inline, SendOp, SendWr, Service, Sge};

/// EOPNOTSUPP if `send_ops_flags` has an operation that the service does not.
pub fn check_ops(service: Service, ops: u64, profile: &Profile) -> Result<()> {
    const SENDS: u32 = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    const WRITES: u32 = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    const RELIABLE: u32 = SENDS
        | WRITES
        | IBV_QP_EX_WITH_RDMA_READ
        | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
        | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
        | IBV_QP_EX_WITH_LOCAL_INV
        | IBV_QP_EX_WITH_BIND_MW
        | IBV_QP_EX_WITH_SEND_WITH_INV
        | IBV_QP_EX_WITH_FLUSH
        | IBV_QP_EX_WITH_ATOMIC_WRITE;
    const ATOMICS: u32 = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
        | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
        | IBV_QP_EX_WITH_ATOMIC_WRITE;
    let mut has = match service {
        Service::Rc | Service::XrcSend => RELIABLE,
        Service::Uc => SENDS | WRITES | IBV_QP_EX_WITH_BIND_MW,
        Service::Ud => SENDS,
        Service::XrcRecv => 0,
    };
    if profile.atomic_cap == IBV_ATOMIC_NONE {
        has &= !ATOMICS;
    }
    if profile.limits.max_mw == 0 {
        has &= !IBV_QP_EX_WITH_BIND_MW;
    }
    if ops & !u64::from(has) == 0 {
        Ok(())
    } else {
        Err(Errno(EOPNOTSUPP))
    }
}

/// The object and its pending requests; None in a child of the process that created the queue pair.
///
/// # Safety
/// `qp` is live and extended, and this thread has called `wr_start`.
unsafe fn session<'a>(qp: *mut ibv_qp_ex) -> Option<(&'a Qp, &'a mut PendingWrs)> {
    // SAFETY: the caller passes a live queue pair. `wr_start` locked its session in this thread, unless
    // this is a child.
    unsafe {
        let object = object(qp.cast());
        if object.check().is_err() {
            return None;
        }
        match &object.wr_session {
            Some(session) => Some((object, &mut *session.pending.get())),
            None => not_extended(),
        }
    }
}

/// Unreachable: only an extended queue pair has the functions here. A panic would unwind into C.
fn not_extended() -> ! {
    std::process::abort()
}

/// Begins a request.
///
/// # Safety
/// As for [`session`].
unsafe fn begin_wr(qp: *mut ibv_qp_ex, op: Result<SendOp>) {
    // SAFETY: the queue pair is live and extended, and this thread has called `wr_start`, as the caller says.
    // The program sets `wr_id` and `wr_flags` in this thread.
    let (Some((_, pending)), wr_id, wr_flags) =
        (unsafe { (session(qp), (*qp).wr_id, (*qp).wr_flags) })
    else {
        return;
    };
    let reserved = pending.wrs.try_reserve(1).map_err(|_| Errno(ENOMEM));
    match reserved.and(op) {
        Ok(op) => {
            let flags = send_flags(wr_flags);
            pending.wrs.push(SendWr::new(wr_id, op, flags));
        }
        Err(errno) => pending.error = Some(errno),
    }
}

/// Lets `set` change the last request. A failure, or a call before any request, fails `ibv_wr_complete`.
///
/// # Safety
/// As for [`session`].
unsafe fn set_last(qp: *mut ibv_qp_ex, set: impl FnOnce(&mut SendWr, &Qp) -> Result<()>) {
    // SAFETY: the queue pair is live and extended, and this thread has called `wr_start`, as the caller says.
    let Some((object, pending)) = (unsafe { session(qp) }) else {
        return;
    };
    let result = match pending.wrs.last_mut() {
        Some(wr) => set(wr, object),
        None => Err(Errno(EINVAL)),
    };
    if let Err(errno) = result {
        pending.error = Some(errno);
    }
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: the caller passes a live queue pair.
    let object = unsafe { object(qp.cast()) };
    if let Some(session) = &object.wr_session {
        if object.check().is_ok() {
            session.lock.lock();
        }
    }
}

/// Ends what `wr_start` began: drops the requests and unlocks.
///
/// # Safety
/// As for [`session`], of whose results these are; the requests are not used afterwards.
unsafe fn end_session(object: &Qp, pending: &mut PendingWrs) {
    pending.wrs.clear();
    pending.binds.clear();
    pending.error = None;
    if let Some(session) = &object.wr_session {
        // SAFETY: this thread has locked it in `wr_start`.
        unsafe { session.lock.unlock() };
    }
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: the caller passes a live extended queue pair, and has called `wr_start` in this thread.
    unsafe {
        if let Some((object, pending)) = session(qp) {
            end_session(object, pending);
        }
    }
}

/// Posts all requests, or none. EACCES, EINVAL or ENOMEM as `ibv_post_send`, or the error of a function
/// before.
unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: the caller passes a live extended queue pair, and has called `wr_start` in this thread. The
    // windows that it binds are live until their binds have completed.
    let result = unsafe {
        let Some((object, pending)) = session(qp) else {
            return Result::<()>::Err(Errno(EACCES)).return_to_c();
        };
        let result = post_all(object, pending);
        if result.is_ok() {
            for bind in &pending.binds {
                mw::set_rkey(bind.mw, bind.rkey);
            }
        }
        end_session(object, pending);
        result
    };
    result.return_to_c()
}

fn post_all(object: &Qp, pending: &mut PendingWrs) -> Result<()> {
    if let Some(errno) = pending.error {
        return Err(errno);
    }
    for wr in &pending.wrs {
        post::check(object, wr)?;
    }
    object.check()?.post(&object.qp, |engine, hca| {
        if !post::sends_in(engine.state()) {
            return Err(Errno(EINVAL));
        }
        if !engine.has_send_slots(pending.wrs.len() as u32, hca) {
            return Err(Errno(ENOMEM));
        }
        for wr in pending.wrs.drain(..) {
            if !engine.post_send(wr, hca) {
                return Err(Errno(ENOMEM));
            }
        }
        Ok(())
    })
}

/// The functions that begin a request: their arguments, and its operation.
macro_rules! operations {
    ($($name:ident($($arg:ident: $ty:ty),*) = $op:expr;)*) => { $(
        unsafe extern "C" fn $name(qp: *mut ibv_qp_ex, $($arg: $ty),*) {
            // SAFETY: the caller passes a live extended queue pair and has called `wr_start` in this
            // thread; arguments that are pointers are readable.
            unsafe { begin_wr(qp, $op) }
        }
    )* };
}

operations! {
    wr_atomic_cmp_swp(rkey: u32, va: u64, compare: u64, swap: u64) =
        Ok(SendOp::CmpSwap { va, rkey, compare, swap });
    wr_atomic_fetch_add(rkey: u32, va: u64, add: u64) =
        Ok(SendOp::FetchAdd { va, rkey, add });
    wr_atomic_write(rkey: u32, va: u64, data: *const c_void) =
        Ok(SendOp::AtomicWrite { va, rkey, data: data.cast::<[u8; 8]>().read_unaligned() });
    wr_flush(rkey: u32, va: u64, len: usize, placement: u8, selectivity: u8) =
        flush(rkey, va, len, placement, selectivity);
    wr_local_inv(rkey: u32) = Ok(SendOp::LocalInv { rkey });
    wr_rdma_read(rkey: u32, va: u64) = Ok(SendOp::Read { va, rkey });
    wr_rdma_write(rkey: u32, va: u64) = Ok(SendOp::Write { va, rkey });
    wr_rdma_write_imm(rkey: u32, va: u64, imm: u32) =
        Ok(SendOp::WriteImm { va, rkey, imm });
    wr_send() = Ok(SendOp::Send);
    wr_send_imm(imm: u32) = Ok(SendOp::SendImm { imm });
    wr_send_inv(rkey: u32) = Ok(SendOp::SendInv { rkey });
    wr_send_tso(_header: *mut c_void, _header_len: u16, _mss: u16) = Err(Errno(EOPNOTSUPP));
}

unsafe extern "C" fn wr_bind_mw(
    qp: *mut ibv_qp_ex,
    mw: *mut ibv_mw,
    rkey: u32,
    info: *const ibv_mw_bind_info,
) {
    // SAFETY: the caller passes a live extended queue pair, has called `wr_start` in this thread, and
    // passes readable arguments; the window and the region that they name are live or NULL.
    unsafe {
        let bind = mw::bind_op(mw, rkey, &*info);
        if let (Ok(bind), Some((_, pending))) = (&bind, session(qp)) {
            let rkey = bind.rkey;
            if pending.binds.try_reserve(1).is_err() {
                pending.error = Some(Errno(ENOMEM));
                return;
            }
            pending.binds.push(PendingBind { mw, rkey });
        }
        begin_wr(qp, bind.map(SendOp::BindMw));
    }
}

/// EINVAL for no or an unknown placement type, an unknown selectivity level, or a length beyond 32 bits.
fn flush(rkey: u32, va: u64, len: usize, placement: u8, selectivity: u8) -> Result<SendOp> {
    const PLACEMENTS: u8 = (IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT) as u8;
    let known =
        placement != 0 && placement & !PLACEMENTS == 0 && u32::from(selectivity) <= IBV_FLUSH_MR;
    match u32::try_from(len) {
        Ok(len) if known => Ok(SendOp::Flush {
            va,
            rkey,
            len,
            placement,
            selectivity,
        }),
        _ => Err(Errno(EINVAL)),
    }
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, qpn: u32, qkey: u32) {
    // SAFETY: the caller passes a live extended queue pair and has called `wr_start` in this thread; the
    // address handle is live or NULL.
    unsafe {
        set_last(qp, |wr, _| {
            if ah.is_null() {
                return Err(Errno(EINVAL));
            }
            wr.ud = Some(post::ud_address(ah, qpn, qkey));
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut ibv_qp_ex, srqn: u32) {
    // SAFETY: the caller passes a live extended queue pair and has called `wr_start` in this thread.
    unsafe {
        set_last(qp, |wr, _| {
            wr.xrc_srqn = srqn;
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    let one = ibv_data_buf { addr, length };
    // SAFETY: the caller passes a live extended queue pair, has called `wr_start` in this thread, and passes
    // `length` readable bytes at `addr`; `one` is a list of one element.
    unsafe { wr_set_inline_data_list(qp, 1, &one) }
}

unsafe extern "C" fn wr_set_inline_data_list(
    qp: *mut ibv_qp_ex,
    count: usize,
    list: *const ibv_data_buf,
) {
    // SAFETY: the caller passes a live extended queue pair and has called `wr_start` in this thread; the
    // list has `count` elements, which name readable memory.
    unsafe {
        set_last(qp, |wr, object| {
            let mut inline = Inline::default();
            for i in 0..count {
                let buf = &*list.add(i);
                let room = object.cap.max_inline_data as usize - inline.len();
                if buf.length > room {
                    return Err(Errno(EINVAL));
                }
                append_inline(&mut inline, buf.addr.cast(), buf.length)?;
            }
            wr.data = Data::Inline(inline);
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, len: u32) {
    // SAFETY: the caller passes a live extended queue pair and has called `wr_start` in this thread.
    unsafe {
        set_last(qp, |wr, _| {
            wr.data = Data::Sges(core::iter::once(Sge { addr, len, lkey }).collect());
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    // SAFETY: the caller passes a live extended queue pair and has called `wr_start` in this thread; the
    // list has `count` elements.
    unsafe {
        set_last(qp, |wr, object| {
            if count > object.cap.max_send_sge as usize {
                return Err(Errno(EINVAL));
            }
            wr.data = Data::Sges(sges(list, count)?);
            Ok(())
        });
    }
}

/// Sets the functions of a new extended queue pair.
pub fn set_functions(qp: &mut ibv_qp_ex) {
    macro_rules! set {
        ($($function:ident)*) => { $( qp.$function = Some($function); )* };
    }
    set! {
        wr_atomic_cmp_swp wr_atomic_fetch_add wr_bind_mw wr_local_inv wr_rdma_read wr_rdma_write
        wr_rdma_write_imm wr_send wr_send_imm wr_send_inv wr_send_tso wr_set_ud_addr
        wr_set_xrc_srqn wr_set_inline_data wr_set_inline_data_list wr_set_sge wr_set_sge_list
        wr_start wr_complete wr_abort wr_atomic_write wr_flush
    }
}
