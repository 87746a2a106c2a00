//! Wrappers of the functions of an extended queue pair, by which a program builds requests (ibv_wr_post(3)).
//! They replace the provider's pointers in the queue pair. Pointers that are NULL stay NULL.
//!
//! `wr_atomic_write` and `wr_flush` were appended to the structure by later releases, so whether the
//! provider's has them is read from the place of its `comp_mask`.

use core::ffi::{c_int, c_void};
use core::slice;

use ibverbs_abi::*;

use super::super::extended::ExtendedOps;
use super::super::finding::Outcome;
use super::super::shadow::{Qp, Remote, SendRequest, Sge};
use super::super::{facts, report};
use super::failed::report_failure;
use super::{check_process, observe, with};

/// The provider's functions of the queue pairs that are wrapped.
pub static BUILD_OPS: ExtendedOps<BuildOps> = ExtendedOps::new();

/// Defines the provider's functions ([`BuildOps`]), and for each a wrapper that records a request or a part
/// of one, and then calls it. `$new` functions begin a request, `$part` functions add to the last.
macro_rules! builders {
    (
        requests of $qp:ident { $($new:ident($($arg:ident: $ty:ty),*) => $request:expr;)+ }
        parts { $($part:ident($($parg:ident: $pty:ty),*) => |$last:ident| $change:expr;)+ }
    ) => {
        /// The provider's functions.
        #[derive(Clone, Copy, Default)]
        pub struct BuildOps {
            start: Option<unsafe extern "C" fn(*mut ibv_qp_ex)>,
            complete: Option<unsafe extern "C" fn(*mut ibv_qp_ex) -> c_int>,
            abort: Option<unsafe extern "C" fn(*mut ibv_qp_ex)>,
            $($new: Option<unsafe extern "C" fn(*mut ibv_qp_ex, $($ty),*)>,)+
            $($part: Option<unsafe extern "C" fn(*mut ibv_qp_ex, $($pty),*)>,)+
        }

        $(unsafe extern "C" fn $new($qp: *mut ibv_qp_ex, $($arg: $ty),*) {
            // SAFETY: the queue pair is alive, and this thread builds requests in it (see the module above).
            let (wr_id, flags) = unsafe { ((*$qp).wr_id, (*$qp).wr_flags) };
            let request: SendRequest = $request;
            const CALL: &str = concat!("ibv_", stringify!($new));
            observe(|shadow| {
                let request = SendRequest {
                    is_built: true,
                    wr_id,
                    flags,
                    signaled: flags & IBV_SEND_SIGNALED != 0,
                    ..request
                };
                shadow.qps.change($qp as usize, |qp| qp.building.push(request, CALL))
            });
            if let Some(function) = ops($qp).$new {
                // SAFETY: the function is the provider's for this queue pair, and gets the program's
                // arguments.
                unsafe { function($qp, $($arg),*) };
            }
        })+

        $(unsafe extern "C" fn $part(qp: *mut ibv_qp_ex, $($parg: $pty),*) {
            const CALL: &str = concat!("ibv_", stringify!($part));
            observe(|shadow| {
                let change = |$last: &mut SendRequest| $change;
                shadow.qps.change(qp as usize, |qp| qp.building.set(change, CALL))
            });
            if let Some(function) = ops(qp).$part {
                // SAFETY: the function is the provider's for this queue pair, and gets the program's
                // arguments.
                unsafe { function(qp, $($parg),*) };
            }
        })+

        /// Takes the provider's functions, and puts wrappers in their places.
        ///
        /// # Safety
        /// `qp` is alive, and no other thread knows it yet.
        unsafe fn replace(qp: *mut ibv_qp_ex) -> BuildOps {
            let mut taken = BuildOps::default();
            // SAFETY: the queue pair is alive and this thread's alone, as the caller promises. Only members
            // that the structure of all releases has are named; the two newest are asked for first.
            unsafe {
                taken.start = (*qp).wr_start;
                taken.complete = (*qp).wr_complete;
                taken.abort = (*qp).wr_abort;
                $(if has(qp, stringify!($new)) {
                    let place = &raw mut (*qp).$new;
                    taken.$new = *place;
                    *place = (*place).map(|_| $new as _);
                })+
                $(
                    let place = &raw mut (*qp).$part;
                    taken.$part = *place;
                    *place = (*place).map(|_| $part as _);
                )+
                (*qp).wr_start = taken.start.map(|_| wr_start as _);
                (*qp).wr_complete = taken.complete.map(|_| wr_complete as _);
                (*qp).wr_abort = taken.abort.map(|_| wr_abort as _);
            }
            taken
        }
    };
}

/// A request of an operation that accesses the peer's memory.
fn remote(opcode: u32, rkey: u32, addr: u64, length: Option<u64>) -> SendRequest {
    SendRequest {
        opcode,
        remote: Some(Remote { addr, rkey, length }),
        ..SendRequest::default()
    }
}

/// The bytes that a FLUSH names: one of a whole region names none.
fn flushed(length: usize, level: u8) -> u64 {
    match u32::from(level) {
        IBV_FLUSH_MR => 0,
        _ => length as u64,
    }
}

/// A request of another operation.
fn local(opcode: u32) -> SendRequest {
    SendRequest {
        opcode,
        ..SendRequest::default()
    }
}

builders! {
    requests of qp {
        wr_atomic_cmp_swp(rkey: u32, addr: u64, compare: u64, swap: u64) =>
            remote(IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, Some(8));
        wr_atomic_fetch_add(rkey: u32, addr: u64, add: u64) =>
            remote(IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, Some(8));
        wr_bind_mw(mw: *mut ibv_mw, rkey: u32, info: *const ibv_mw_bind_info) => SendRequest {
            // SAFETY: the program's window and attributes are alive.
            mw_type: unsafe { built_bind(qp, mw, rkey, info) },
            // SAFETY: as before.
            binding: Some(unsafe { *info }.into()),
            ..local(IBV_WR_BIND_MW)
        };
        wr_local_inv(rkey: u32) => SendRequest {
            invalidates: rkey,
            ..local(IBV_WR_LOCAL_INV)
        };
        wr_rdma_read(rkey: u32, addr: u64) => remote(IBV_WR_RDMA_READ, rkey, addr, None);
        wr_rdma_write(rkey: u32, addr: u64) => remote(IBV_WR_RDMA_WRITE, rkey, addr, None);
        wr_rdma_write_imm(rkey: u32, addr: u64, imm_data: u32) =>
            remote(IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, None);
        wr_send() => local(IBV_WR_SEND);
        wr_send_imm(imm_data: u32) => local(IBV_WR_SEND_WITH_IMM);
        wr_send_inv(rkey: u32) => SendRequest {
            invalidates: rkey,
            ..local(IBV_WR_SEND_WITH_INV)
        };
        wr_send_tso(header: *mut c_void, size: u16, mss: u16) => local(IBV_WR_TSO);
        wr_atomic_write(rkey: u32, addr: u64, data: *const c_void) =>
            remote(IBV_WR_ATOMIC_WRITE, rkey, addr, Some(8));
        wr_flush(rkey: u32, addr: u64, length: usize, kind: u8, level: u8) => SendRequest {
            placement: kind.into(),
            ..remote(IBV_WR_FLUSH, rkey, addr, Some(flushed(length, level)))
        };
    }
    parts {
        wr_set_xrc_srqn(srqn: u32) => |last| {
            last.remote_srqn = srqn;
        };
        wr_set_ud_addr(ah: *mut ibv_ah, qpn: u32, qkey: u32) => |last| {
            last.ah = ah as usize;
            last.remote_qpn = qpn;
            last.remote_qkey = qkey;
        };
        wr_set_inline_data(addr: *mut c_void, length: usize) => |last| {
            last.inline = true;
            last.inline_length = last.inline_length.saturating_add(length as u64);
        };
        wr_set_inline_data_list(count: usize, list: *const ibv_data_buf) => |last| {
            // SAFETY: the program's list is readable for `count` elements.
            let list = unsafe { list_of(list, count) };
            last.inline = true;
            let lengths = list.iter().map(|buf| buf.length as u64);
            last.inline_length = lengths.fold(last.inline_length, u64::saturating_add);
        };
        wr_set_sge(lkey: u32, addr: u64, length: u32) => |last| {
            last.sges.push(Sge { addr, length, lkey });
        };
        wr_set_sge_list(count: usize, list: *const ibv_sge) => |last| {
            // SAFETY: the program's list is readable for `count` elements.
            let list = unsafe { list_of(list, count) };
            last.sges.extend(list.iter().map(|sge| Sge {
                addr: sge.addr,
                length: sge.length,
                lkey: sge.lkey,
            }));
        };
    }
}

/// A bind is built: its window has the new key when it is posted. Returns the window's type.
///
/// # Safety
/// `mw` and `info` are alive.
unsafe fn built_bind(
    qp: *mut ibv_qp_ex,
    mw: *mut ibv_mw,
    rkey: u32,
    info: *const ibv_mw_bind_info,
) -> u32 {
    // SAFETY: both are alive, as the caller promises.
    let (kind, key, to) = unsafe {
        (
            (*mw).type_,
            (*mw).rkey & !0xff | rkey & 0xff,
            (*info).into(),
        )
    };
    with(|shadow| {
        shadow
            .qps
            .change(qp as usize, |qp| qp.building.bind(mw as usize, key, to))
    });
    kind
}

/// # Safety
/// `list` is readable for `count` elements, or is NULL.
unsafe fn list_of<'a, T>(list: *const T, count: usize) -> &'a [T] {
    match list.is_null() || count == 0 {
        true => &[],
        // SAFETY: the list is readable, as the caller promises.
        false => unsafe { slice::from_raw_parts(list, count) },
    }
}

/// Whether the provider's structure has a function.
///
/// # Safety
/// `qp` is alive and extended.
unsafe fn has(qp: *mut ibv_qp_ex, function: &str) -> bool {
    let needed = match function {
        "wr_flush" => VERBS_QP_COMP_MASK_OFFSETS[2],
        "wr_atomic_write" => VERBS_QP_COMP_MASK_OFFSETS[1],
        _ => return true,
    };
    let is_mask = |offset: &usize| {
        // SAFETY: the structure of every release is longer than the offsets up to its own mask's, and the
        // search ends there. It is aligned for pointers.
        let word = unsafe { qp.cast::<u64>().byte_add(*offset).read() };
        word & !u64::from(VERBS_QP_XRCD) == u64::from(VERBS_QP_EX)
    };
    VERBS_QP_COMP_MASK_OFFSETS
        .iter()
        .find(|at| is_mask(at))
        .is_some_and(|at| *at >= needed)
}

/// Replaces the functions of a new queue pair.
///
/// # Safety
/// `qp` is alive and extended, and no other thread knows it yet.
pub unsafe fn wrap(qp: *mut ibv_qp_ex) {
    // SAFETY: all releases' structures have `wr_start`; without it the queue pair is not extended.
    if unsafe { (*qp).wr_start.is_none() } {
        return;
    }
    // SAFETY: the queue pair is extended and this thread's alone, as the caller promises.
    let ops = unsafe { replace(qp) };
    BUILD_OPS.add(qp as usize, ops);
}

fn ops(qp: *mut ibv_qp_ex) -> BuildOps {
    BUILD_OPS.get(qp as usize).unwrap_or_default()
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    let thread = facts::thread();
    observe(|shadow| {
        let begin = |qp: &mut Qp| qp.begin_building(thread, "ibv_wr_start");
        shadow.qps.change(qp as usize, begin)
    });
    if let Some(start) = ops(qp).start {
        // SAFETY: the function is the provider's for this queue pair.
        unsafe { start(qp) };
    }
    with(|shadow| {
        shadow
            .qps
            .change(qp as usize, |qp| qp.building.begun(thread))
    });
}

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    const CALL: &str = "ibv_wr_complete";
    let address = qp as usize;
    let Some(complete) = ops(qp).complete else {
        return libc::EINVAL;
    };
    let count_before = report::count();
    // SAFETY: the queue pair is alive (see the module above).
    let (context, now) = unsafe { ((*qp).qp_base.context, ((*qp).wr_id, (*qp).wr_flags)) };
    check_process(context, CALL);
    let thread = facts::thread();
    let (mut posted, mut was_misplaced) = Default::default();
    observe(|shadow| {
        let complete = |qp: &mut Qp| {
            was_misplaced = qp.building.take_misplaced();
            qp.building.complete(now, qp.kind, CALL)
        };
        let (list, incomplete) = shadow.qps.change(address, complete);
        let (these, mut found) = shadow.posting(address, list, thread, CALL);
        posted = these;
        found.extend(incomplete);
        found
    });
    // SAFETY: the function is the provider's for this queue pair.
    let ret = unsafe { complete(qp) };
    let outcome = Outcome::of(ret);
    let accepted = if ret == 0 { posted.count } else { 0 };
    observe(|shadow| {
        shadow.bindings_end(address, ret == 0);
        shadow.posted(address, posted, accepted, CALL, outcome.clone())
    });
    if !was_misplaced {
        report_failure(context, CALL, outcome, count_before, || {
            format!("qp = {qp:p}")
        });
    }
    ret
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    with(|shadow| shadow.qps.change(qp as usize, |qp| qp.abort_building()));
    if let Some(abort) = ops(qp).abort {
        // SAFETY: the function is the provider's for this queue pair.
        unsafe { abort(qp) };
    }
}
