//! Extended queue pairs: requests that are built by calls (ibv_wr_post(3)).

use core::cell::UnsafeCell;
use core::ffi::c_void;

use ibverbs_abi::*;
use libc::{EINVAL, ENOMEM, EOPNOTSUPP, c_int};
use parking_lot::RawMutex;
use parking_lot::lock_api::RawMutex as _;

use super::object::Answer;
use super::qp::{Qp, object};
use super::{mr, post};
use crate::engine::{Bind, Inline, SendOp, SendWr, Service, Sge, Sges};

/// Requests between `ibv_wr_start` and `ibv_wr_complete` or `ibv_wr_abort`.
pub struct Building {
    /// Held meanwhile.
    lock: RawMutex,
    requests: UnsafeCell<Requests>,
}

#[derive(Default)]
struct Requests {
    list: Vec<SendWr>,
    /// What `ibv_wr_complete` is to answer.
    error: c_int,
}

// SAFETY: the requests are used by the thread that holds the lock.
unsafe impl Sync for Building {}

impl Default for Building {
    fn default() -> Building {
        Building {
            lock: RawMutex::INIT,
            requests: UnsafeCell::default(),
        }
    }
}

/// Operations that a queue pair of the service may be made for.
pub fn check(service: Service, ops: u64) -> Answer<()> {
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
    let has = match service {
        Service::Rc | Service::XrcSend => RELIABLE,
        Service::Uc => SENDS | WRITES | IBV_QP_EX_WITH_BIND_MW,
        Service::Ud => SENDS,
        Service::XrcRecv => 0,
    };
    if ops & !u64::from(has) == 0 {
        Ok(())
    } else {
        Err(EOPNOTSUPP)
    }
}

/// The object and what is being built.
///
/// # Safety
/// `qp` is live and extended, and this thread has called `wr_start`.
unsafe fn building<'a>(qp: *mut ibv_qp_ex) -> (&'a Qp, &'a mut Requests) {
    // SAFETY: by the contract; an extended queue pair has the part, and this thread its lock.
    unsafe {
        let object = object(qp.cast());
        match &object.building {
            Some(building) => (object, &mut *building.requests.get()),
            None => unreachable_plain(),
        }
    }
}

/// A plain queue pair has none of the functions here.
fn unreachable_plain() -> ! {
    std::process::abort()
}

/// Begins a request.
///
/// # Safety
/// As for [`building`].
unsafe fn add(qp: *mut ibv_qp_ex, kind: Answer<SendOp>) {
    // SAFETY: by the contract.
    unsafe {
        let (_, requests) = building(qp);
        match kind {
            Ok(kind) => requests.list.push(SendWr {
                wr_id: (*qp).wr_id,
                op: kind,
                flags: mr::flags((*qp).wr_flags),
                sges: Sges::default(),
                inline: None,
                ud: None,
                xrc_srqn: 0,
            }),
            Err(errno) => requests.error = errno,
        }
    }
}

/// Lets `set` change the last request.
///
/// # Safety
/// As for [`building`].
unsafe fn last(qp: *mut ibv_qp_ex, set: impl FnOnce(&mut SendWr, &Qp) -> Answer<()>) {
    // SAFETY: by the contract.
    let (object, requests) = unsafe { building(qp) };
    let answer = match requests.list.last_mut() {
        Some(request) => set(request, object),
        None => Err(EINVAL),
    };
    if let Err(errno) = answer {
        requests.error = errno;
    }
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: by the op's contract the queue pair is live.
    if let Some(building) = unsafe { &object(qp.cast()).building } {
        building.lock.lock();
    }
}

/// Ends what `wr_start` began.
///
/// # Safety
/// As for [`building`].
unsafe fn end(object: &Qp, requests: &mut Requests) {
    requests.list.clear();
    requests.error = 0;
    if let Some(building) = &object.building {
        // SAFETY: by the contract this thread holds it, and does not use the requests after.
        unsafe { building.lock.unlock() };
    }
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: by the op's contract.
    unsafe {
        let (object, requests) = building(qp);
        end(object, requests);
    }
}

/// Posts all, or none.
unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: by the op's contract.
    unsafe {
        let (object, requests) = building(qp);
        let answer = complete(object, requests);
        end(object, requests);
        answer.err().unwrap_or(0)
    }
}

fn complete(object: &Qp, requests: &mut Requests) -> Answer<()> {
    if requests.error != 0 {
        return Err(requests.error);
    }
    for request in &requests.list {
        post::check(object, request)?;
    }
    object.check()?.post(&object.qp, |engine, world| {
        if !post::sends_in(engine.state()) {
            return Err(EINVAL);
        }
        let room = object.cap.max_send_wr.saturating_sub(engine.send_depth());
        if requests.list.len() > room as usize {
            return Err(ENOMEM);
        }
        for request in requests.list.drain(..) {
            if !engine.post_send(request, world) {
                return Err(ENOMEM);
            }
        }
        Ok(())
    })
}

/// The functions that begin a request: their arguments, and what it does.
macro_rules! operations {
    ($($op:ident($($arg:ident: $ty:ty),*) = $kind:expr;)*) => { $(
        unsafe extern "C" fn $op(qp: *mut ibv_qp_ex, $($arg: $ty),*) {
            // SAFETY: by the op's contract; arguments that are pointers are readable.
            unsafe { add(qp, $kind) }
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
    wr_bind_mw(mw: *mut ibv_mw, rkey: u32, info: *const ibv_mw_bind_info) =
        bind(mw, rkey, info).map(SendOp::BindMw);
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
    wr_send_tso(_header: *mut c_void, _header_len: u16, _mss: u16) = Err(EOPNOTSUPP);
}

/// # Safety
/// The window and what `info` names are live.
unsafe fn bind(mw: *mut ibv_mw, rkey: u32, info: *const ibv_mw_bind_info) -> Answer<Bind> {
    // SAFETY: by the contract.
    unsafe { mr::bind(mw, rkey, &*info) }
}

fn flush(rkey: u32, va: u64, len: usize, placement: u8, selectivity: u8) -> Answer<SendOp> {
    const PLACEMENTS: u8 = (IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT) as u8;
    let good =
        placement != 0 && placement & !PLACEMENTS == 0 && u32::from(selectivity) <= IBV_FLUSH_MR;
    match u32::try_from(len) {
        Ok(len) if good => Ok(SendOp::Flush {
            va,
            rkey,
            len,
            placement,
            selectivity,
        }),
        _ => Err(EINVAL),
    }
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, qpn: u32, qkey: u32) {
    // SAFETY: by the op's contract; the address handle is live or NULL.
    unsafe {
        last(qp, |request, _| {
            if ah.is_null() {
                return Err(EINVAL);
            }
            request.ud = Some(post::datagram(ah, qpn, qkey));
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut ibv_qp_ex, srqn: u32) {
    // SAFETY: by the op's contract.
    unsafe {
        last(qp, |request, _| {
            request.xrc_srqn = srqn;
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    let one = ibv_data_buf { addr, length };
    // SAFETY: by the op's contract.
    unsafe { wr_set_inline_data_list(qp, 1, &one) }
}

unsafe extern "C" fn wr_set_inline_data_list(
    qp: *mut ibv_qp_ex,
    count: usize,
    list: *const ibv_data_buf,
) {
    // SAFETY: by the op's contract; the list has that many elements, of readable memory.
    unsafe {
        last(qp, |request, object| {
            let mut inline = Inline::default();
            for i in 0..count {
                let buf = &*list.add(i);
                let room = object.cap.max_inline_data as usize - inline.len();
                if buf.length > room {
                    return Err(EINVAL);
                }
                post::add_inline(&mut inline, buf.addr.cast(), buf.length);
            }
            request.inline = Some(inline);
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, len: u32) {
    // SAFETY: by the op's contract.
    unsafe {
        last(qp, |request, _| {
            request.sges = core::iter::once(Sge { addr, len, lkey }).collect();
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    // SAFETY: by the op's contract; the list has that many elements.
    unsafe {
        last(qp, |request, object| {
            if count > object.cap.max_send_sge as usize {
                return Err(EINVAL);
            }
            request.sges = post::pieces(list, count);
            Ok(())
        });
    }
}

/// Fills in the functions.
pub fn fill(qp: &mut ibv_qp_ex) {
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
