//! The data path of 1.0 programs: the ops that they call through the twin of a context. Each
//! converts the program's structures, and calls the op of the real context.
//!
//! Not here: the twins themselves (`twin`).

use core::iter;
use core::mem::MaybeUninit;
use core::ptr;

use libc::{ENOMEM, EOPNOTSUPP, c_int, c_void};

use super::types::*;
use crate::abi::*;

/// The ops of every context of this layer.
pub(super) const OPS: ibv_context_ops_1_0 = ibv_context_ops_1_0 {
    query_device: ptr::null(),
    query_port: ptr::null(),
    alloc_pd: ptr::null(),
    dealloc_pd: ptr::null(),
    reg_mr: ptr::null(),
    dereg_mr: ptr::null(),
    create_cq: ptr::null(),
    poll_cq,
    req_notify_cq,
    cq_event: ptr::null(),
    resize_cq: ptr::null(),
    destroy_cq: ptr::null(),
    create_srq: ptr::null(),
    modify_srq: ptr::null(),
    query_srq: ptr::null(),
    destroy_srq: ptr::null(),
    post_srq_recv,
    create_qp: ptr::null(),
    query_qp: ptr::null(),
    modify_qp: ptr::null(),
    destroy_qp: ptr::null(),
    post_send,
    post_recv,
    create_ah: ptr::null(),
    destroy_ah: ptr::null(),
    attach_mcast: ptr::null(),
    detach_mcast: ptr::null(),
};

/// Lists of up to this many work requests are converted on the stack (in at most 2 KiB), longer ones in
/// memory from malloc.
const ON_STACK: usize = 16;

/// A work request (WR) of libibverbs 1.0, which can be converted to the current layout.
trait OldWorkRequest {
    /// The WR in the current layout.
    type Current: Copy;

    fn next(&self) -> *mut Self;

    /// The WR in the current layout, followed by `next`. Objects in it are still twins.
    fn to_current(&self, next: *mut Self::Current) -> Self::Current;
}

impl OldWorkRequest for ibv_recv_wr_1_0 {
    type Current = ibv_recv_wr;

    fn next(&self) -> *mut Self {
        self.next
    }

    fn to_current(&self, next: *mut ibv_recv_wr) -> ibv_recv_wr {
        ibv_recv_wr {
            wr_id: self.wr_id,
            next,
            sg_list: self.sg_list,
            num_sge: self.num_sge,
        }
    }
}

impl OldWorkRequest for ibv_send_wr_1_0 {
    type Current = ibv_send_wr;

    fn next(&self) -> *mut Self {
        self.next
    }

    fn to_current(&self, next: *mut ibv_send_wr) -> ibv_send_wr {
        // SAFETY: all members are integers, pointers, or unions of these, for which zeros are valid. No
        // opcode of 1.0 uses the members after `wr`.
        let mut current = unsafe { MaybeUninit::<ibv_send_wr>::zeroed().assume_init() };
        current.wr_id = self.wr_id;
        current.next = next;
        current.sg_list = self.sg_list;
        current.num_sge = self.num_sge;
        current.opcode = self.opcode;
        current.send_flags = self.send_flags;
        current.imm.imm_data = self.imm_data;
        current.wr = self.wr;
        current
    }
}

/// Memory from malloc, or NULL, which is freed when this is dropped.
struct Malloced(*mut c_void);

impl Drop for Malloced {
    fn drop(&mut self) {
        // SAFETY: NULL or from malloc, and only this frees it.
        unsafe { libc::free(self.0) };
    }
}

/// The WRs of a list.
///
/// # Safety
///
/// `first` is NULL or the first WR of a list that is readable as long as the iterator is used.
unsafe fn requests<Old: OldWorkRequest>(
    first: *mut Old,
) -> impl Iterator<Item = ptr::NonNull<Old>> {
    iter::successors(ptr::NonNull::new(first), |wr| {
        // SAFETY: the WR is in the list, which is readable, as the caller promises.
        ptr::NonNull::new(unsafe { wr.as_ref() }.next())
    })
}

/// Posts a list of old WRs. `replace_twins` replaces the twins in a converted WR by their real objects;
/// `submit` posts the converted list like the real verb. Returns its result: 0 or an errno value. If it
/// rejects a WR, `*bad` is the old WR. Returns ENOMEM, with the first WR as the bad one, if memory for a long
/// list is short.
///
/// # Safety
///
/// `first` is NULL or the first WR of a list that is readable during the call; `bad` is writable.
unsafe fn post<Old: OldWorkRequest>(
    first: *mut Old,
    bad: *mut *mut Old,
    replace_twins: impl Fn(&mut Old::Current),
    submit: impl FnOnce(*mut Old::Current, *mut *mut Old::Current) -> c_int,
) -> c_int {
    // SAFETY: the list is readable during the call, as the caller promises.
    let requests = || unsafe { requests(first) };
    let count = requests().count();
    let mut stack = [const { MaybeUninit::<Old::Current>::uninit() }; ON_STACK];
    let mut memory = Malloced(ptr::null_mut());
    let list: *mut Old::Current = if count <= ON_STACK {
        stack.as_mut_ptr().cast()
    } else {
        // SAFETY: malloc accepts any size. The product cannot overflow: the old WRs have at least a quarter
        // of that size and are in memory, of which a process has at most half the address space.
        memory.0 = unsafe { libc::malloc(count.saturating_mul(size_of::<Old::Current>())) };
        if memory.0.is_null() {
            // SAFETY: `bad` is writable, as the caller promises.
            unsafe { *bad = first };
            return ENOMEM;
        }
        memory.0.cast()
    };

    for (i, wr) in requests().enumerate() {
        let last = i + 1 == count;
        // SAFETY: `list` has room for `count` WRs, and `i` is below that; the old WR is readable.
        unsafe {
            let next = if last {
                ptr::null_mut()
            } else {
                list.add(i + 1)
            };
            let mut current = wr.as_ref().to_current(next);
            replace_twins(&mut current);
            list.add(i).write(current);
        }
    }

    let head = if count == 0 { ptr::null_mut() } else { list };
    let mut real_bad = ptr::null_mut();
    let err = submit(head, &raw mut real_bad);
    if err != 0 {
        let rejected = requests()
            .enumerate()
            .find(|(i, _)| list.wrapping_add(*i) == real_bad);
        if let Some((_, wr)) = rejected {
            // SAFETY: `bad` is writable, as the caller promises.
            unsafe { *bad = wr.as_ptr() };
        }
    }
    err
}

/// Replaces the twin of an address handle in a WR for a datagram by the real one.
///
/// # Safety
///
/// `wr.ud` is the valid member of the union, and `wr.ud.ah` is NULL or a live address handle of this layer.
unsafe fn real_ah(wr: &mut ibv_send_wr) {
    // SAFETY: this member of the union is valid and NULL or a live twin, as the caller promises.
    unsafe {
        if let Some(ah) = wr.wr.ud.ah.cast::<ibv_ah_1_0>().as_ref() {
            wr.wr.ud.ah = ah.real_ah;
        }
    }
}

/// The ops of the real context.
///
/// # Safety
///
/// `context` is an open context of this layer.
unsafe fn real_ops<'a>(context: *mut ibv_context_1_0) -> &'a ibv_context_ops {
    // SAFETY: the twin's context is open, as the caller promises, so the real one is.
    unsafe { &(*(*context).real_context).ops }
}

unsafe extern "C" fn poll_cq(cq: *mut ibv_cq_1_0, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the program passes a live CQ, so its context is open.
    unsafe {
        match real_ops((*cq).context).poll_cq {
            Some(poll_cq) => poll_cq((*cq).real_cq, num_entries, wc),
            None => EOPNOTSUPP,
        }
    }
}

unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq_1_0, solicited_only: c_int) -> c_int {
    // SAFETY: the program passes a live CQ, so its context is open.
    unsafe {
        match real_ops((*cq).context).req_notify_cq {
            Some(req_notify_cq) => req_notify_cq((*cq).real_cq, solicited_only),
            None => EOPNOTSUPP,
        }
    }
}

unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq_1_0,
    recv_wr: *mut ibv_recv_wr_1_0,
    bad_recv_wr: *mut *mut ibv_recv_wr_1_0,
) -> c_int {
    // SAFETY: the program passes a live SRQ, so its context is open, and a list of WRs as
    // ibv_post_srq_recv() requires.
    unsafe {
        let Some(post_srq_recv) = real_ops((*srq).context).post_srq_recv else {
            return EOPNOTSUPP;
        };
        post(
            recv_wr,
            bad_recv_wr,
            |_| {},
            |wr, bad| post_srq_recv((*srq).real_srq, wr, bad),
        )
    }
}

unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp_1_0,
    wr: *mut ibv_recv_wr_1_0,
    bad_wr: *mut *mut ibv_recv_wr_1_0,
) -> c_int {
    // SAFETY: the program passes a live queue pair, so its context is open, and a list of WRs as
    // ibv_post_recv() requires.
    unsafe {
        let Some(post_recv) = real_ops((*qp).context).post_recv else {
            return EOPNOTSUPP;
        };
        post(
            wr,
            bad_wr,
            |_| {},
            |wr, bad| post_recv((*qp).real_qp, wr, bad),
        )
    }
}

unsafe extern "C" fn post_send(
    qp: *mut ibv_qp_1_0,
    wr: *mut ibv_send_wr_1_0,
    bad_wr: *mut *mut ibv_send_wr_1_0,
) -> c_int {
    // SAFETY: the program passes a live queue pair, so its context is open, and a list of WRs as
    // ibv_post_send() requires: those of a UD queue pair have address handles.
    unsafe {
        let Some(post_send) = real_ops((*qp).context).post_send else {
            return EOPNOTSUPP;
        };
        let datagrams = (*qp).qp_type == IBV_QPT_UD;
        let replace_twins = |wr: &mut ibv_send_wr| {
            if datagrams {
                real_ah(wr);
            }
        };
        post(wr, bad_wr, replace_twins, |wr, bad| {
            post_send((*qp).real_qp, wr, bad)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of `count` receive WRs whose `wr_id` is their index.
    fn receives(count: u64) -> Vec<ibv_recv_wr_1_0> {
        let mut list: Vec<_> = (0..count)
            .map(|wr_id| ibv_recv_wr_1_0 {
                next: ptr::null_mut(),
                wr_id,
                sg_list: ptr::without_provenance_mut(0x1000 + wr_id as usize),
                num_sge: wr_id as c_int + 1,
            })
            .collect();
        let base = list.as_mut_ptr();
        for i in 1..list.len() {
            list[i - 1].next = base.wrapping_add(i);
        }
        list
    }

    /// Lengths on both sides of ON_STACK.
    const LENGTHS: [u64; 7] = [0, 1, 2, 15, 16, 17, 1000];

    #[test]
    fn lists_of_any_length_arrive_whole() {
        for count in LENGTHS {
            let mut old = receives(count);
            let first = if count == 0 {
                ptr::null_mut()
            } else {
                old.as_mut_ptr()
            };
            let mut bad = ptr::dangling_mut();
            let mut seen = 0;
            // SAFETY: the list is readable.
            let err = unsafe {
                post(
                    first,
                    &raw mut bad,
                    |_| {},
                    |mut wr: *mut ibv_recv_wr, _| {
                        while let Some(request) = wr.as_ref() {
                            assert_eq!(request.wr_id, seen);
                            assert_eq!(request.sg_list.addr(), 0x1000 + seen as usize);
                            assert_eq!(request.num_sge, seen as c_int + 1);
                            seen += 1;
                            wr = request.next;
                        }
                        0
                    },
                )
            };
            assert_eq!((err, seen), (0, count));
            assert_eq!(
                bad,
                ptr::dangling_mut(),
                "unchanged if nothing was rejected"
            );
        }
    }

    #[test]
    fn the_rejected_request_is_reported_by_its_old_address() {
        for count in LENGTHS {
            for rejected in 0..count {
                let mut old = receives(count);
                let base = old.as_mut_ptr();
                let mut bad = ptr::null_mut();
                // SAFETY: the list is readable and contains the rejected WR.
                let err = unsafe {
                    post(
                        base,
                        &raw mut bad,
                        |_| {},
                        |mut wr: *mut ibv_recv_wr, real_bad| {
                            while (*wr).wr_id != rejected {
                                wr = (*wr).next;
                            }
                            *real_bad = wr;
                            ENOMEM
                        },
                    )
                };
                assert_eq!(err, ENOMEM);
                assert_eq!(bad, base.wrapping_add(rejected as usize));
            }
        }
    }

    #[test]
    fn a_provider_that_names_no_bad_request_leaves_the_programs() {
        let mut old = receives(3);
        for named in [ptr::null_mut(), ptr::dangling_mut()] {
            let mut bad = ptr::dangling_mut();
            // SAFETY: the list is readable.
            let err = unsafe {
                post(
                    old.as_mut_ptr(),
                    &raw mut bad,
                    |_| {},
                    |_, real_bad| {
                        *real_bad = named;
                        libc::EINVAL
                    },
                )
            };
            assert_eq!(err, libc::EINVAL);
            assert_eq!(bad, ptr::dangling_mut());
        }
    }

    fn send(wr: ibv_send_wr_wr) -> ibv_send_wr_1_0 {
        ibv_send_wr_1_0 {
            next: ptr::null_mut(),
            wr_id: 0x0102_0304_0506_0708,
            sg_list: ptr::without_provenance_mut(0x2000),
            num_sge: 3,
            opcode: IBV_WR_RDMA_WRITE_WITH_IMM,
            send_flags: 5,
            imm_data: 0x1122_3344,
            wr,
        }
    }

    #[test]
    fn a_send_request_keeps_all_it_had() {
        let atomic = ibv_send_wr_wr_atomic {
            remote_addr: 1,
            compare_add: 2,
            swap: 3,
            rkey: 4,
        };
        let next = ptr::without_provenance_mut(0x3000);
        let current = send(ibv_send_wr_wr { atomic }).to_current(next);
        assert_eq!(current.wr_id, 0x0102_0304_0506_0708);
        assert_eq!(current.next, next);
        assert_eq!((current.sg_list.addr(), current.num_sge), (0x2000, 3));
        assert_eq!(
            (current.opcode, current.send_flags),
            (IBV_WR_RDMA_WRITE_WITH_IMM, 5)
        );
        // SAFETY: these members were set above.
        unsafe {
            assert_eq!(current.imm.imm_data, 0x1122_3344);
            let converted = current.wr.atomic;
            assert_eq!(
                (
                    converted.remote_addr,
                    converted.compare_add,
                    converted.swap,
                    converted.rkey
                ),
                (1, 2, 3, 4)
            );
        }

        let rdma = ibv_send_wr_wr_rdma {
            remote_addr: 5,
            rkey: 6,
        };
        let current = send(ibv_send_wr_wr { rdma }).to_current(ptr::null_mut());
        // SAFETY: this member was set above.
        let rdma = unsafe { current.wr.rdma };
        assert_eq!((rdma.remote_addr, rdma.rkey), (5, 6));
    }

    #[test]
    fn datagrams_get_their_real_address_handle() {
        let real: *mut ibv_ah = ptr::without_provenance_mut(0x4000);
        let mut twin = ibv_ah_1_0 {
            context: ptr::null_mut(),
            pd: ptr::null_mut(),
            handle: 0,
            real_ah: real,
        };
        for (ah, expected) in [
            ((&raw mut twin).cast(), real),
            (ptr::null_mut(), ptr::null_mut()),
        ] {
            let ud = ibv_send_wr_wr_ud {
                ah,
                remote_qpn: 17,
                remote_qkey: 18,
            };
            let mut current = send(ibv_send_wr_wr { ud }).to_current(ptr::null_mut());
            // SAFETY: the handle is NULL or a live twin, and `ud` was set above.
            unsafe {
                real_ah(&mut current);
                assert_eq!(current.wr.ud.ah, expected);
                assert_eq!(
                    (current.wr.ud.remote_qpn, current.wr.ud.remote_qkey),
                    (17, 18)
                );
            }
        }
    }
}
