//! Wrappers of the polling functions of an extended CQ. They replace the provider's pointers in the CQ, whose
//! layout is the same in all releases up to these.

use core::ffi::c_int;

use ibverbs_abi::*;

use super::super::extended::ExtendedOps;
use super::super::facts;
use super::super::finding::{Finding, Kind, Object, Outcome};
use super::super::rules::Rule;
use super::super::shadow::Completion;
use super::{check_process, look_up, observe, polled_empty, with};

/// The provider's functions of the CQs that are wrapped.
pub static POLL_OPS: ExtendedOps<PollOps> = ExtendedOps::new();

/// The provider's functions. Those that are NULL stay NULL.
#[derive(Clone, Copy)]
pub struct PollOps {
    start: Option<unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int>,
    next: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int>,
    end: Option<unsafe extern "C" fn(*mut ibv_cq_ex)>,
    read_qp_num: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
    fields: Fields,
}

/// Defines wrappers of the functions that read a member which the program did not ask for at creation. Other
/// devices leave the pointers of these NULL.
macro_rules! fields {
    ($($read:ident -> $ty:ty, $flag:ident, $call:literal;)+) => {
        /// The provider's functions that wrappers replace.
        #[derive(Clone, Copy, Default)]
        struct Fields { $($read: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> $ty>,)+ }

        $(unsafe extern "C" fn $read(cq: *mut ibv_cq_ex) -> $ty {
            not_requested(cq, $call, stringify!($flag));
            match ops(cq).and_then(|ops| ops.fields.$read) {
                // SAFETY: the function is the provider's for this queue, and gets the program's argument.
                Some(read) => unsafe { read(cq) },
                // As without the wrapper, which is a call of NULL.
                None => {
                    // SAFETY: raise accepts any signal.
                    unsafe { libc::raise(libc::SIGSEGV) };
                    0
                }
            }
        })+

        /// Replaces the functions of members that `flags` do not name. Returns the provider's.
        fn replace_fields(cq: &mut ibv_cq_ex, flags: u64) -> Fields {
            let mut taken = Fields::default();
            $(if flags & u64::from($flag) == 0 {
                taken.$read = cq.$read.replace($read);
            })+
            taken
        }
    };
}

fields! {
    read_byte_len -> u32, IBV_WC_EX_WITH_BYTE_LEN, "ibv_wc_read_byte_len";
    read_imm_data -> u32, IBV_WC_EX_WITH_IMM, "ibv_wc_read_imm_data";
    read_qp_num -> u32, IBV_WC_EX_WITH_QP_NUM, "ibv_wc_read_qp_num";
    read_src_qp -> u32, IBV_WC_EX_WITH_SRC_QP, "ibv_wc_read_src_qp";
    read_slid -> u32, IBV_WC_EX_WITH_SLID, "ibv_wc_read_slid";
    read_sl -> u8, IBV_WC_EX_WITH_SL, "ibv_wc_read_sl";
    read_dlid_path_bits -> u8, IBV_WC_EX_WITH_DLID_PATH_BITS, "ibv_wc_read_dlid_path_bits";
    read_completion_ts -> u64, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, "ibv_wc_read_completion_ts";
}

/// The program reads a member of a completion that it did not ask for.
#[cold]
fn not_requested(cq: *mut ibv_cq_ex, call: &'static str, flag: &'static str) {
    let object = Object::at(Kind::Cq, cq as usize);
    let found = Finding::new(Rule::Argument, object, call, Outcome::Called).with_texts(
        format!("the CQ was created without {flag} in wc_flags"),
        "a device provides only the members of completions that wc_flags names: on others the \
             pointer is NULL, and the program ends",
        format!("add {flag} to wc_flags of ibv_create_cq_ex"),
    );
    observe(|_| vec![found]);
}

/// Replaces the functions of a new CQ, which was asked for with these flags.
///
/// # Safety
/// `cq` is alive, and no other thread knows it yet.
pub unsafe fn wrap(cq: *mut ibv_cq_ex, wc_flags: u64) {
    // SAFETY: the queue is alive and this thread's alone, as the caller promises.
    let cq_ref = unsafe { &mut *cq };
    if cq_ref.start_poll.is_none() {
        return;
    }
    let ops = PollOps {
        read_qp_num: cq_ref.read_qp_num,
        fields: replace_fields(cq_ref, wc_flags),
        start: cq_ref.start_poll,
        next: cq_ref.next_poll,
        end: cq_ref.end_poll,
    };
    // Without a place for the functions, or without functions, nothing is replaced.
    if ops.start.is_some() && POLL_OPS.add(cq as usize, ops) {
        cq_ref.start_poll = Some(start_poll);
        cq_ref.next_poll = ops.next.map(|_| next_poll as _);
        cq_ref.end_poll = ops.end.map(|_| end_poll as _);
    }
}

fn ops(cq: *mut ibv_cq_ex) -> Option<PollOps> {
    POLL_OPS.get(cq as usize)
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    const CALL: &str = "ibv_start_poll";
    let Some(start) = ops(cq).and_then(|ops| ops.start) else {
        return libc::EINVAL;
    };
    // SAFETY: the queue is alive (see the module above).
    check_process(unsafe { (*cq).context }, CALL);
    let thread = facts::thread();
    observe(|shadow| shadow.cqs.polling(cq as usize, thread, CALL));
    // SAFETY: the function is the provider's for this queue, and gets the program's arguments.
    let ret = unsafe { start(cq, attr) };
    with(|shadow| match ret {
        0 => shadow.cqs.poll_begun(cq as usize, thread),
        _ => shadow.cqs.poll_ended(cq as usize, thread),
    });
    // SAFETY: the queue is alive, and this thread polls it.
    unsafe { polled(cq, ret, CALL) };
    ret
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    let Some(next) = ops(cq).and_then(|ops| ops.next) else {
        return libc::EINVAL;
    };
    // SAFETY: the function is the provider's for this queue, and gets the program's argument.
    let ret = unsafe { next(cq) };
    // SAFETY: the queue is alive, and this thread polls it.
    unsafe { polled(cq, ret, "ibv_next_poll") };
    ret
}

unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    let thread = facts::thread();
    observe(|shadow| {
        let found = shadow.cqs.not_begun(cq as usize, thread);
        shadow.cqs.poll_ended(cq as usize, thread);
        found
    });
    if let Some(end) = ops(cq).and_then(|ops| ops.end) {
        // SAFETY: the function is the provider's for this queue, and gets the program's argument.
        unsafe { end(cq) };
    }
}

/// # Safety
/// `cq` is alive, and this thread polls it; if `ret` is 0 it has a current completion.
unsafe fn polled(cq: *mut ibv_cq_ex, ret: c_int, call: &'static str) {
    if ret != 0 {
        if ret == libc::ENOENT {
            observe(|shadow| shadow.polled(cq as usize, 1, &[], call));
            if call == "ibv_start_poll" {
                polled_empty(cq as usize, call);
            }
        }
        return;
    }
    let read_qp_num = ops(cq).and_then(|ops| ops.read_qp_num);
    // SAFETY: there is a current completion, as the caller promises; a function that is there may be called
    // for it.
    let completion = unsafe {
        let status = (*cq).status;
        Completion {
            qpn: read_qp_num.map_or(0, |read| read(cq)),
            wr_id: (*cq).wr_id,
            status,
            opcode: match ((*cq).read_opcode, status) {
                (Some(read), IBV_WC_SUCCESS) => read(cq),
                _ => 0,
            },
            vendor_err: match ((*cq).read_vendor_err, status) {
                (Some(read), 1..) => read(cq),
                _ => 0,
            },
        }
    };
    look_up(cq as usize, &[completion]);
    observe(|shadow| shadow.polled(cq as usize, 1, &[completion], call));
}
