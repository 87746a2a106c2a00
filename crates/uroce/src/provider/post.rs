//! Posting work requests.

use ibverbs_abi::*;
use libc::{EINVAL, ENOMEM, c_int};

use super::ah::Ah;
use super::attributes::MAX_MESSAGE;
use super::mr;
use super::object::Answer;
use super::qp::{self, Qp, QpPart};
use crate::engine::{Inline, QpState, RecvWr, SendOp, SendWr, Service, Sge, Sges, UdAddress};

/// Pieces, as the engine takes them.
///
/// # Safety
/// `list` has `count` elements.
pub unsafe fn pieces(list: *const ibv_sge, count: usize) -> Sges {
    (0..count)
        .map(|i| {
            // SAFETY: by the contract.
            let sge = unsafe { &*list.add(i) };
            Sge {
                addr: sge.addr,
                len: sge.length,
                lkey: sge.lkey,
            }
        })
        .collect()
}

/// Adds bytes of the program's to inline data.
///
/// # Safety
/// `len` bytes at `addr` are readable; the program may change them meanwhile.
pub unsafe fn add_inline(inline: &mut Inline, addr: *const u8, len: usize) {
    if len > 0 {
        // SAFETY: by the contract, and not in `inline`, which is ours.
        inline.extend_from_slice(unsafe { core::slice::from_raw_parts(addr, len) });
    }
}

/// Whether a service has the operation.
pub fn has_operation(service: Service, kind: &SendOp) -> bool {
    use SendOp::*;
    match service {
        Service::Rc | Service::XrcSend => true,
        Service::Uc => matches!(
            kind,
            Send | SendImm { .. } | Write { .. } | WriteImm { .. } | BindMw(_)
        ),
        Service::Ud => matches!(kind, Send | SendImm { .. }),
        Service::XrcRecv => false,
    }
}

/// Whether inline data can go with the operation.
fn takes_inline(kind: &SendOp) -> bool {
    use SendOp::*;
    matches!(
        kind,
        Send | SendImm { .. } | SendInv { .. } | Write { .. } | WriteImm { .. }
    )
}

/// Whether the queue pair can take the request: operation, pieces, lengths, alignment.
pub fn check(part: &QpPart, request: &SendWr) -> Answer<()> {
    use SendOp::*;
    let inline = request.inline.as_ref().map(|inline| inline.len() as u64);
    let len = inline.unwrap_or_else(|| request.sges.iter().map(|s| u64::from(s.len)).sum());
    let aligned = |va: u64| va.is_multiple_of(8);
    let good = has_operation(part.qp.service, &request.op)
        && request.sges.len() <= part.cap.max_send_sge as usize
        && len <= MAX_MESSAGE
        && inline
            .is_none_or(|len| len <= part.cap.max_inline_data.into() && takes_inline(&request.op))
        && match request.op {
            CmpSwap { va, .. } | FetchAdd { va, .. } => len >= 8 && aligned(va),
            AtomicWrite { va, .. } => aligned(va),
            _ => true,
        }
        && (part.qp.service == Service::Ud) == request.ud.is_some();
    if good { Ok(()) } else { Err(EINVAL) }
}

/// Whether requests can be posted in the state.
pub fn sends_in(state: QpState) -> bool {
    !matches!(state, QpState::Reset | QpState::Init | QpState::Rtr)
}

/// Posts one request that has been checked or made here.
pub fn post_one(object: &Qp, request: SendWr) -> Answer<()> {
    check(object, &request)?;
    object.check()?.post(&object.qp, |engine, world| {
        if !sends_in(engine.state()) {
            Err(EINVAL)
        } else if engine.post_send(request, world) {
            Ok(())
        } else {
            Err(ENOMEM)
        }
    })
}

/// Posts a list of send requests; those before the first bad one are posted.
pub unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: by the op's contract.
    let object = unsafe { qp::object(qp) };
    let mut at = wr;
    let answer = object.check().and_then(|device| {
        device.post(&object.qp, |engine, world| {
            if !sends_in(engine.state()) {
                return Err(EINVAL);
            }
            while !at.is_null() {
                // SAFETY: by the op's contract an element of the list, whose objects live.
                let request = unsafe { request(object, &*at) }?;
                check(object, &request)?;
                if !engine.post_send(request, world) {
                    return Err(ENOMEM);
                }
                // SAFETY: as above.
                at = unsafe { (*at).next };
            }
            Ok(())
        })
    });
    match answer {
        Ok(()) => 0,
        Err(errno) => {
            // SAFETY: by the op's contract it is writable.
            unsafe { *bad_wr = at };
            errno
        }
    }
}

/// The request that a program's list element is.
///
/// # Safety
/// Its pieces and objects live.
unsafe fn request(part: &QpPart, wr: &ibv_send_wr) -> Answer<SendWr> {
    let count = usize::try_from(wr.num_sge).map_err(|_| EINVAL)?;
    if count > part.cap.max_send_sge as usize {
        return Err(EINVAL);
    }
    let mut request = SendWr {
        wr_id: wr.wr_id,
        // SAFETY: by the contract.
        op: unsafe { kind(part, wr) }?,
        flags: mr::flags(wr.send_flags),
        sges: Sges::default(),
        inline: None,
        ud: None,
        xrc_srqn: 0,
    };
    if matches!(
        request.op,
        SendOp::LocalInv { .. } | SendOp::BindMw(_) | SendOp::AtomicWrite { .. }
    ) {
        // Nothing to gather, or gathered already.
    } else if wr.send_flags & IBV_SEND_INLINE != 0 {
        let mut inline = Inline::default();
        for i in 0..count {
            // SAFETY: by the contract the list has that many elements, and they name readable memory.
            unsafe {
                let sge = &*wr.sg_list.add(i);
                if inline.len() + sge.length as usize > part.cap.max_inline_data as usize {
                    return Err(EINVAL);
                }
                let addr = core::ptr::with_exposed_provenance(sge.addr as usize);
                add_inline(&mut inline, addr, sge.length as usize);
            }
        }
        request.inline = Some(inline);
    } else {
        // SAFETY: by the contract.
        request.sges = unsafe { pieces(wr.sg_list, count) };
    }
    // SAFETY: each part of the union holds for its type of queue pair.
    unsafe {
        match part.qp.service {
            Service::Ud => {
                let ud = &wr.wr.ud;
                if ud.ah.is_null() {
                    return Err(EINVAL);
                }
                request.ud = Some(datagram(ud.ah, ud.remote_qpn, ud.remote_qkey));
            }
            Service::XrcSend => request.xrc_srqn = wr.qp_type.xrc.remote_srqn,
            _ => {}
        }
    }
    Ok(request)
}

/// Where a datagram goes.
///
/// # Safety
/// The address handle is live.
pub unsafe fn datagram(ah: *mut ibv_ah, qpn: u32, qkey: u32) -> UdAddress {
    UdAddress {
        // SAFETY: by the contract.
        av: unsafe { **Ah::of(ah) },
        qpn: qpn & 0xff_ffff,
        qkey,
    }
}

/// What the request does.
///
/// # Safety
/// Its pieces and objects live.
unsafe fn kind(part: &QpPart, wr: &ibv_send_wr) -> Answer<SendOp> {
    // SAFETY: the operation says which parts of the unions hold.
    unsafe {
        let rdma = || (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey);
        Ok(match wr.opcode {
            IBV_WR_SEND => SendOp::Send,
            IBV_WR_SEND_WITH_IMM => SendOp::SendImm {
                imm: wr.imm.imm_data,
            },
            IBV_WR_SEND_WITH_INV => SendOp::SendInv {
                rkey: wr.imm.invalidate_rkey,
            },
            IBV_WR_RDMA_WRITE => {
                let (va, rkey) = rdma();
                SendOp::Write { va, rkey }
            }
            IBV_WR_RDMA_WRITE_WITH_IMM => {
                let ((va, rkey), imm) = (rdma(), wr.imm.imm_data);
                SendOp::WriteImm { va, rkey, imm }
            }
            IBV_WR_RDMA_READ => {
                let (va, rkey) = rdma();
                SendOp::Read { va, rkey }
            }
            IBV_WR_ATOMIC_CMP_AND_SWP => {
                let atomic = &wr.wr.atomic;
                SendOp::CmpSwap {
                    va: atomic.remote_addr,
                    rkey: atomic.rkey,
                    compare: atomic.compare_add,
                    swap: atomic.swap,
                }
            }
            IBV_WR_ATOMIC_FETCH_AND_ADD => {
                let atomic = &wr.wr.atomic;
                SendOp::FetchAdd {
                    va: atomic.remote_addr,
                    rkey: atomic.rkey,
                    add: atomic.compare_add,
                }
            }
            IBV_WR_ATOMIC_WRITE => {
                let (va, rkey) = rdma();
                let data = eight_bytes(part, wr)?;
                SendOp::AtomicWrite { va, rkey, data }
            }
            IBV_WR_LOCAL_INV => SendOp::LocalInv {
                rkey: wr.imm.invalidate_rkey,
            },
            IBV_WR_BIND_MW => {
                let bind = &wr.op.bind_mw;
                SendOp::BindMw(mr::bind(bind.mw, bind.rkey, &bind.bind_info)?)
            }
            _ => return Err(EINVAL),
        })
    }
}

/// The bytes of an atomic write, which are taken when it is posted.
///
/// # Safety
/// The request's pieces live.
unsafe fn eight_bytes(part: &QpPart, wr: &ibv_send_wr) -> Answer<[u8; 8]> {
    let mut data = [0; 8];
    // SAFETY: by the contract; inline data is readable memory of the program's.
    unsafe {
        let sges = pieces(wr.sg_list, wr.num_sge as usize);
        if sges.iter().map(|sge| u64::from(sge.len)).sum::<u64>() != 8 {
            return Err(EINVAL);
        }
        if wr.send_flags & IBV_SEND_INLINE != 0 {
            let mut inline = Inline::default();
            for sge in &sges {
                let addr = core::ptr::with_exposed_provenance(sge.addr as usize);
                add_inline(&mut inline, addr, sge.len as usize);
            }
            data.copy_from_slice(&inline);
        } else {
            let domain = part.qp.domain.ok_or(EINVAL)?;
            let gathered = part.qp.memory.gather(&sges, 0, &mut data, domain);
            gathered.map_err(|_| EINVAL)?;
        }
    }
    Ok(data)
}

/// Calls for each receive of a list; tells of the first bad one.
///
/// # Safety
/// The list is live, `bad_wr` is writable.
pub unsafe fn each_recv(
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
    max_sge: usize,
    mut call: impl FnMut(RecvWr) -> Answer<()>,
) -> c_int {
    let mut at = wr;
    // SAFETY: by the contract.
    unsafe {
        while let Some(wr) = at.as_ref() {
            let posted = match usize::try_from(wr.num_sge) {
                Ok(count) if count <= max_sge => call(RecvWr {
                    wr_id: wr.wr_id,
                    sges: pieces(wr.sg_list, count),
                }),
                _ => Err(EINVAL),
            };
            if let Err(errno) = posted {
                *bad_wr = at;
                return errno;
            }
            at = wr.next;
        }
    }
    0
}

/// Posts a list of receives; those before the first bad one are posted.
pub unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: by the op's contract.
    let object = unsafe { qp::object(qp) };
    let refused = match object.check() {
        Err(errno) => Some(errno),
        Ok(_) if object.qp.srq.is_some() || object.qp.recv_cq.is_none() => Some(EINVAL),
        Ok(_) => None,
    };
    if let Some(errno) = refused {
        // SAFETY: by the op's contract it is writable.
        unsafe { *bad_wr = wr };
        return errno;
    }
    // Nothing is sent because of a receive, so that the device need not be run.
    let mut inner = object.qp.inner.lock();
    let (engine, mut world) = inner.split(&object.qp);
    // SAFETY: by the op's contract.
    unsafe {
        each_recv(wr, bad_wr, object.cap.max_recv_sge as usize, |receive| {
            if engine.state() == QpState::Reset {
                Err(EINVAL)
            } else if engine.post_recv(receive, &mut world) {
                Ok(())
            } else {
                Err(ENOMEM)
            }
        })
    }
}
