//! Posting lists of work requests (ibv_post_send(3), ibv_post_recv(3)) and binds (ibv_bind_mw(3)), and the
//! checks that these share with the `ibv_wr_*` functions.
//!
//! Not here: what a request does (`engine`), the checks of its memory, which are made when it is
//! executed (`memory`).

use ibverbs_abi::*;
use libc::{EINVAL, ENOMEM, c_int};

use super::ah::Ah;
use super::ffi::{Result, ReturnToC};
use super::mw;
use super::qp::{self, Qp, QpPrivate};
use super::wr_list::{append_inline, for_each_recv, send_flags, sge, sges};
use roce::engine::{Data, Inline, QpState, SendOp, SendWr, Service, UdAddress};

/// QP numbers have 24 bits.
const QPN_MASK: u32 = 0xff_ffff;

/// Whether the queue pair takes the operation. If the service lacks it, it completes with an error, as on
/// kernel rxe and RNICs.
fn takes_operation(service: Service, op: &SendOp) -> bool {
    match service {
        Service::Ud => !matches!(op, SendOp::LocalInv { .. } | SendOp::BindMw(_)),
        Service::XrcRecv => false,
        _ => true,
    }
}

/// Whether a request with the operation names its destination.
fn has_destination(service: Service, op: &SendOp) -> bool {
    service == Service::Ud && matches!(op, SendOp::Send | SendOp::SendImm { .. })
}

/// Whether the operation can carry inline data.
fn takes_inline(op: &SendOp) -> bool {
    use SendOp::*;
    matches!(
        op,
        Send | SendImm { .. } | SendInv { .. } | Write { .. } | WriteImm { .. }
    )
}

/// EINVAL if the queue pair or the device cannot take the request: operation, number of SGEs, length,
/// destination. An
/// atomic at an address that is not aligned is sent, as by mlx5: the peer answers with a NAK.
pub fn check(qp: &QpPrivate, wr: &SendWr) -> Result<()> {
    use SendOp::*;
    let len = wr.data.byte_len();
    let profile = &qp.device.profile;
    let valid = takes_operation(qp.qp.service, &wr.op)
        && wr.sges().len() <= qp.cap.max_send_sge as usize
        && len <= profile.limits.max_msg_sz.into()
        && (wr.inline().is_none() || len <= qp.cap.max_inline_data.into() && takes_inline(&wr.op))
        && match wr.op {
            CmpSwap { .. } | FetchAdd { .. } => len >= 8 && profile.atomic_cap != IBV_ATOMIC_NONE,
            _ => true,
        }
        && (wr.ud.is_some() || !has_destination(qp.qp.service, &wr.op));
    if valid { Ok(()) } else { Err(Errno(EINVAL)) }
}

/// Whether send requests can be posted in the state.
pub fn sends_in(state: QpState) -> bool {
    !matches!(state, QpState::Reset | QpState::Init | QpState::Rtr)
}

/// Checks and posts one send request. EINVAL if it is invalid, ENOMEM if the queue is full or there is no
/// memory.
pub fn post_one(object: &Qp, wr: SendWr) -> Result<()> {
    check(object, &wr)?;
    object.check()?.post(&object.qp, |engine, hca| {
        if !sends_in(engine.state()) {
            Err(Errno(EINVAL))
        } else if engine.post_send(wr, hca) {
            Ok(())
        } else {
            Err(Errno(ENOMEM))
        }
    })
}

/// Posts a list of send requests; those before the first bad one are posted.
pub unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the caller passes a live queue pair.
    let object = unsafe { qp::object(qp) };
    let mut next = wr;
    let result = object.check().and_then(|device| {
        device.post(&object.qp, |engine, hca| {
            if !sends_in(engine.state()) {
                return Err(Errno(EINVAL));
            }
            // SAFETY: the caller passes a list of readable elements that ends with NULL.
            while let Some(wr) = unsafe { next.as_ref() } {
                let request = engine.next_send().ok_or(Errno(ENOMEM))?;
                // SAFETY: what an element points to is readable, and the objects that it names are live.
                unsafe { fill(object, wr, request) }?;
                check(object, request)?;
                let new_rkey = match &request.op {
                    SendOp::BindMw(bind) => Some(bind.rkey),
                    _ => None,
                };
                if !engine.post_next_send(hca) {
                    return Err(Errno(ENOMEM));
                }
                if let Some(rkey) = new_rkey {
                    // SAFETY: for this operation the program sets this variant, with a live window.
                    unsafe { mw::set_rkey(wr.op.bind_mw.mw, rkey) };
                }
                next = wr.next;
            }
            Ok(())
        })
    });
    if result.is_err() {
        // SAFETY: the caller passes a writable `bad_wr`.
        unsafe { *bad_wr = next };
    }
    result.return_to_c()
}

/// Converts an element of a list of send requests.
///
/// # Safety
/// What `wr` points to is readable, and the objects that it names are live.
unsafe fn fill(qp: &QpPrivate, wr: &ibv_send_wr, request: &mut SendWr) -> Result<()> {
    let count = usize::try_from(wr.num_sge).map_err(|_| Errno(EINVAL))?;
    if count > qp.cap.max_send_sge as usize {
        return Err(Errno(EINVAL));
    }
    // SAFETY: the caller says that what `wr` points to is readable, and that its objects are live.
    let op = unsafe { send_op(qp, wr) }?;
    request.begin(wr.wr_id, op, send_flags(wr.send_flags));
    let has_payload = !matches!(
        request.op,
        SendOp::LocalInv { .. } | SendOp::BindMw(_) | SendOp::AtomicWrite { .. }
    );
    if has_payload && wr.send_flags & IBV_SEND_INLINE != 0 {
        // SAFETY: the list has `count` elements, and they name readable memory.
        request.data = Data::Inline(unsafe { inline_data(qp, wr.sg_list, count) }?);
    } else if has_payload && count == 1 {
        // SAFETY: the list has one element.
        request.data.push(unsafe { sge(wr.sg_list) });
    } else if has_payload {
        // SAFETY: the list has `count` elements.
        request.data = Data::Sges(unsafe { sges(wr.sg_list, count) }?);
    }
    match qp.qp.service {
        Service::Ud if has_destination(Service::Ud, &request.op) => {
            // SAFETY: for a datagram of a UD queue pair the program sets this variant.
            let ud = unsafe { wr.wr.ud };
            if ud.ah.is_null() {
                return Err(Errno(EINVAL));
            }
            // SAFETY: an address handle that is not NULL is live.
            request.ud = Some(unsafe { ud_address(ud.ah, ud.remote_qpn, ud.remote_qkey) });
        }
        // SAFETY: the union has this variant only.
        Service::XrcSend => request.xrc_srqn = unsafe { wr.qp_type.xrc.remote_srqn },
        _ => {}
    }
    Ok(())
}

/// Copies inline data. EINVAL if it is longer than `max_inline_data`, ENOMEM if there is no memory.
///
/// # Safety
/// `list` has `count` readable elements, which name readable memory.
unsafe fn inline_data(qp: &QpPrivate, list: *const ibv_sge, count: usize) -> Result<Inline> {
    let mut inline = Inline::default();
    for i in 0..count {
        // SAFETY: the caller's list has `count` elements, and `i` is less than that.
        let sge = unsafe { &*list.add(i) };
        let len = sge.length as usize;
        if inline.len() + len > qp.cap.max_inline_data as usize {
            return Err(Errno(EINVAL));
        }
        let addr = core::ptr::with_exposed_provenance(sge.addr as usize);
        // SAFETY: the elements name readable memory.
        unsafe { append_inline(&mut inline, addr, len) }?;
    }
    Ok(inline)
}

/// The destination of a datagram.
///
/// # Safety
/// `ah` is live.
pub unsafe fn ud_address(ah: *mut ibv_ah, qpn: u32, qkey: u32) -> UdAddress {
    UdAddress {
        // SAFETY: the caller passes a live address handle.
        av: unsafe { **Ah::of(ah) },
        qpn: qpn & QPN_MASK,
        qkey,
    }
}

/// The operation of a send request, with its arguments. EINVAL for an unknown opcode.
///
/// # Safety
/// What `wr` points to is readable, and the objects that it names are live.
unsafe fn send_op(qp: &QpPrivate, wr: &ibv_send_wr) -> Result<SendOp> {
    // Read only where the opcode says that the program has set them.
    // SAFETY: the members are integers, for which all bytes are valid.
    let rdma = || unsafe { wr.wr.rdma };
    // SAFETY: the members are integers, for which all bytes are valid.
    let atomic = || unsafe { wr.wr.atomic };
    // SAFETY: both members, `imm_data` and `invalidate_rkey`, are 32-bit integers.
    let imm_or_rkey = || unsafe { wr.imm.imm_data };
    let (va, rkey) = match wr.opcode {
        IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM | IBV_WR_RDMA_READ | IBV_WR_ATOMIC_WRITE => {
            (rdma().remote_addr, rdma().rkey)
        }
        IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
            (atomic().remote_addr, atomic().rkey)
        }
        _ => (0, 0),
    };
    Ok(match wr.opcode {
        IBV_WR_SEND => SendOp::Send,
        IBV_WR_SEND_WITH_IMM => SendOp::SendImm { imm: imm_or_rkey() },
        IBV_WR_SEND_WITH_INV => SendOp::SendInv {
            rkey: imm_or_rkey(),
        },
        IBV_WR_RDMA_WRITE => SendOp::Write { va, rkey },
        IBV_WR_RDMA_WRITE_WITH_IMM => SendOp::WriteImm {
            va,
            rkey,
            imm: imm_or_rkey(),
        },
        IBV_WR_RDMA_READ => SendOp::Read { va, rkey },
        IBV_WR_ATOMIC_CMP_AND_SWP => SendOp::CmpSwap {
            va,
            rkey,
            compare: atomic().compare_add,
            swap: atomic().swap,
        },
        IBV_WR_ATOMIC_FETCH_AND_ADD => SendOp::FetchAdd {
            va,
            rkey,
            add: atomic().compare_add,
        },
        IBV_WR_ATOMIC_WRITE => {
            // SAFETY: what `wr` points to is readable.
            let data = unsafe { atomic_write_data(qp, wr) }?;
            SendOp::AtomicWrite { va, rkey, data }
        }
        IBV_WR_LOCAL_INV => SendOp::LocalInv {
            rkey: imm_or_rkey(),
        },
        IBV_WR_BIND_MW => {
            // SAFETY: for this opcode the program sets this variant; its objects are live or NULL.
            SendOp::BindMw(unsafe {
                let bind = &wr.op.bind_mw;
                mw::bind_op(bind.mw, bind.rkey, &bind.bind_info)?
            })
        }
        _ => return Err(Errno(EINVAL)),
    })
}

/// The eight bytes of an atomic write, which are read when it is posted. EINVAL if it has another
/// length, or its L_Keys do not allow that.
///
/// # Safety
/// What `wr` points to is readable, inline data included.
unsafe fn atomic_write_data(qp: &QpPrivate, wr: &ibv_send_wr) -> Result<[u8; 8]> {
    let mut data = [0; 8];
    // SAFETY: the list has `num_sge` elements, which `send_wr` has seen to be no negative number.
    let sges = unsafe { sges(wr.sg_list, wr.num_sge as usize) }?;
    if sges.iter().map(|sge| u64::from(sge.len)).sum::<u64>() != 8 {
        return Err(Errno(EINVAL));
    }
    if wr.send_flags & IBV_SEND_INLINE != 0 {
        let mut inline = Inline::default();
        for sge in &sges {
            let addr = core::ptr::with_exposed_provenance(sge.addr as usize);
            // SAFETY: inline data is readable memory of the program's.
            unsafe { append_inline(&mut inline, addr, sge.len as usize) }?;
        }
        data.copy_from_slice(&inline);
    } else {
        let pd = qp.qp.pd.ok_or(Errno(EINVAL))?;
        let gathered = qp.qp.memory.gather(&sges, 0, &mut data, pd);
        gathered.map_err(|_| Errno(EINVAL))?;
    }
    Ok(data)
}

/// Posts a list of receives; those before the first bad one are posted.
pub unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the caller passes a live queue pair.
    let object = unsafe { qp::object(qp) };
    let allowed = match object.check() {
        Ok(_) if object.qp.srq.is_some() || object.qp.recv_cq.is_none() => Err(Errno(EINVAL)),
        checked => checked.map(drop),
    };
    if allowed.is_err() {
        // SAFETY: the caller passes a writable `bad_wr`.
        unsafe { *bad_wr = wr };
        return allowed.return_to_c();
    }
    // A receive causes nothing to be sent, so the device need not run the queue pair.
    let mut inner = object.qp.inner.lock();
    let (engine, mut hca) = inner.split(&object.qp);
    let post = |receive| {
        if engine.state() == QpState::Reset {
            Err(Errno(EINVAL))
        } else if engine.post_recv(receive, &mut hca) {
            Ok(())
        } else {
            Err(Errno(ENOMEM))
        }
    };
    // SAFETY: the caller passes a live list and a writable `bad_wr`.
    unsafe { for_each_recv(wr, bad_wr, object.cap.max_recv_sge as usize, post) }.return_to_c()
}

/// Binds a type 1 window, by a work request. The window's key changes at once to one with the next key
/// byte.
///
/// # Safety
/// `qp`, `mw` and the region that `mw_bind` names are live; the region may be NULL. `mw_bind` is
/// readable.
pub unsafe fn bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, mw_bind: *mut ibv_mw_bind) -> Result<()> {
    // SAFETY: the caller passes a live queue pair and a readable structure.
    let (object, mw_bind) = unsafe { (qp::object(qp), &*mw_bind) };
    let info = &mw_bind.bind_info;
    // SAFETY: the caller passes a live window.
    let (type_, rkey) = unsafe { ((*mw).type_, (*mw).rkey) };
    if type_ != IBV_MW_TYPE_1 || info.mw_access_flags & IBV_ACCESS_ZERO_BASED != 0 {
        return Err(Errno(EINVAL));
    }
    // SAFETY: the window is live, the region live or NULL.
    let bind = unsafe { mw::bind_op(mw, rkey.wrapping_add(1), info) }?;
    let flags = send_flags(mw_bind.send_flags);
    let wr = SendWr::new(mw_bind.wr_id, SendOp::BindMw(bind), flags);
    post_one(object, wr)?;
    // SAFETY: the window is live, and no other thread binds it meanwhile.
    unsafe { mw::set_rkey(mw, bind.rkey) };
    Ok(())
}
