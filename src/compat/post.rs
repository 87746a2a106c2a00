//! The data path: the operations that 1.0 programs call through the context.

use core::iter;
use core::mem::MaybeUninit;
use core::ptr;

use libc::{ENOMEM, EOPNOTSUPP, c_int, c_void};

use super::types::*;
use crate::abi::*;

/// The operations of every context of this layer.
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

/// How many work requests of a list are converted on the stack (2 KiB of it); longer lists take a
/// piece of memory.
const ON_STACK: usize = 16;

/// A work request of 1.0 that can be had in today's layout.
trait Request {
    type Today: Copy;

    fn next(&self) -> *mut Self;

    /// The request in today's layout, with this one behind it. The objects that it names are still
    /// those that the old one named.
    fn today(&self, next: *mut Self::Today) -> Self::Today;
}

impl Request for ibv_recv_wr_1_0 {
    type Today = ibv_recv_wr;

    fn next(&self) -> *mut Self {
        self.next
    }

    fn today(&self, next: *mut ibv_recv_wr) -> ibv_recv_wr {
        ibv_recv_wr {
            wr_id: self.wr_id,
            next,
            sg_list: self.sg_list,
            num_sge: self.num_sge,
        }
    }
}

impl Request for ibv_send_wr_1_0 {
    type Today = ibv_send_wr;

    fn next(&self) -> *mut Self {
        self.next
    }

    fn today(&self, next: *mut ibv_send_wr) -> ibv_send_wr {
        // SAFETY: numbers and pointers, for which all bytes may be zero. Nothing that 1.0 could ask
        // for reads the members behind `wr`.
        let mut today = unsafe { MaybeUninit::<ibv_send_wr>::zeroed().assume_init() };
        today.wr_id = self.wr_id;
        today.next = next;
        today.sg_list = self.sg_list;
        today.num_sge = self.num_sge;
        today.opcode = self.opcode;
        today.send_flags = self.send_flags;
        today.imm.imm_data = self.imm_data;
        today.wr = self.wr;
        today
    }
}

/// Memory of malloc's, freed at the end of its scope; NULL is none.
struct Memory(*mut c_void);

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: NULL or malloc'ed for this guard, which nobody else frees.
        unsafe { libc::free(self.0) };
    }
}

/// The requests of a list.
///
/// # Safety
///
/// `first` is NULL or the first of a list of requests that live as long as the iterator is used.
unsafe fn requests<Old: Request>(first: *mut Old) -> impl Iterator<Item = ptr::NonNull<Old>> {
    iter::successors(ptr::NonNull::new(first), |wr| {
        // SAFETY: a request of the list, which lives.
        ptr::NonNull::new(unsafe { wr.as_ref() }.next())
    })
}

/// Posts a list of old work requests: `real` puts right what a converted request still names of the
/// old, `submit` posts the converted list as the real verb does. If it refuses a request, `bad` gets
/// the old one. ENOMEM, with the first request as the bad one, if memory for a long list is short.
///
/// # Safety
///
/// `first` is NULL or the first of a list of requests that live during the call; `bad` is writable.
unsafe fn post<Old: Request>(
    first: *mut Old,
    bad: *mut *mut Old,
    real: impl Fn(&mut Old::Today),
    submit: impl FnOnce(*mut Old::Today, *mut *mut Old::Today) -> c_int,
) -> c_int {
    // SAFETY: the caller's list, which lives during the call.
    let requests = || unsafe { requests(first) };
    let count = requests().count();
    let mut stack = [const { MaybeUninit::<Old::Today>::uninit() }; ON_STACK];
    let mut memory = Memory(ptr::null_mut());
    let list: *mut Old::Today = if count <= ON_STACK {
        stack.as_mut_ptr().cast()
    } else {
        // SAFETY: malloc takes any size. This one cannot overflow: the old requests, which are at
        // least a quarter as long, are in memory too, and not in more than half of it.
        memory.0 = unsafe { libc::malloc(count.saturating_mul(size_of::<Old::Today>())) };
        if memory.0.is_null() {
            // SAFETY: writable, as the caller promises.
            unsafe { *bad = first };
            return ENOMEM;
        }
        memory.0.cast()
    };

    for (i, wr) in requests().enumerate() {
        let last = i + 1 == count;
        // SAFETY: the list has room for `count` requests, of which this is the i-th; the old one
        // lives.
        unsafe {
            let next = if last {
                ptr::null_mut()
            } else {
                list.add(i + 1)
            };
            let mut today = wr.as_ref().today(next);
            real(&mut today);
            list.add(i).write(today);
        }
    }

    let head = if count == 0 { ptr::null_mut() } else { list };
    let mut real_bad = ptr::null_mut();
    let err = submit(head, &raw mut real_bad);
    if err != 0 {
        let refused = requests()
            .enumerate()
            .find(|(i, _)| list.wrapping_add(*i) == real_bad);
        if let Some((_, wr)) = refused {
            // SAFETY: writable, as the caller promises.
            unsafe { *bad = wr.as_ptr() };
        }
    }
    err
}

/// Puts the real address handle for its twin in a request for a datagram.
///
/// # Safety
///
/// `wr.ud.ah` is NULL or a live address handle of this layer.
unsafe fn real_ah(wr: &mut ibv_send_wr) {
    // SAFETY: the caller says that this member of the union counts, and what it points to.
    unsafe {
        if let Some(ah) = wr.wr.ud.ah.cast::<ibv_ah_1_0>().as_ref() {
            wr.wr.ud.ah = ah.real_ah;
        }
    }
}

/// The operations as the provider left them in the real context.
///
/// # Safety
///
/// `context` is an open context of this layer.
unsafe fn real_ops<'a>(context: *mut ibv_context_1_0) -> &'a ibv_context_ops {
    // SAFETY: open, so the real one is as well.
    unsafe { &(*(*context).real_context).ops }
}

unsafe extern "C" fn poll_cq(cq: *mut ibv_cq_1_0, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the program calls this through its queue's context, which lives as the queue does.
    unsafe {
        match real_ops((*cq).context).poll_cq {
            Some(poll_cq) => poll_cq((*cq).real_cq, num_entries, wc),
            None => EOPNOTSUPP,
        }
    }
}

unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq_1_0, solicited_only: c_int) -> c_int {
    // SAFETY: the program calls this through its queue's context, which lives as the queue does.
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
    // SAFETY: the program calls this through its queue's context, which lives as the queue does; the
    // requests are as the verb wants them.
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
    // SAFETY: the program calls this through its queue pair's context, which lives as the pair does;
    // the requests are as the verb wants them.
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
    // SAFETY: the program calls this through its queue pair's context, which lives as the pair does;
    // the requests are as the verb wants them, those of a datagram queue pair with address handles.
    unsafe {
        let Some(post_send) = real_ops((*qp).context).post_send else {
            return EOPNOTSUPP;
        };
        let datagrams = (*qp).qp_type == IBV_QPT_UD;
        let real = |wr: &mut ibv_send_wr| {
            if datagrams {
                real_ah(wr);
            }
        };
        post(wr, bad_wr, real, |wr, bad| {
            post_send((*qp).real_qp, wr, bad)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of `count` receive requests with their numbers as identifiers.
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
            // In the list, as `i` is.
            list[i - 1].next = base.wrapping_add(i);
        }
        list
    }

    /// Lengths on both sides of what the stack takes.
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
            // SAFETY: a list that lives.
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
            assert_eq!(bad, ptr::dangling_mut(), "untouched if nothing was refused");
        }
    }

    #[test]
    fn the_refused_request_is_told_by_its_old_address() {
        for count in LENGTHS {
            for refused in 0..count {
                let mut old = receives(count);
                let base = old.as_mut_ptr();
                let mut bad = ptr::null_mut();
                // SAFETY: a list that lives; the refused one is in it.
                let err = unsafe {
                    post(
                        base,
                        &raw mut bad,
                        |_| {},
                        |mut wr: *mut ibv_recv_wr, real_bad| {
                            while (*wr).wr_id != refused {
                                wr = (*wr).next;
                            }
                            *real_bad = wr;
                            ENOMEM
                        },
                    )
                };
                assert_eq!(err, ENOMEM);
                assert_eq!(bad, base.wrapping_add(refused as usize));
            }
        }
    }

    #[test]
    fn a_provider_that_names_no_bad_request_leaves_the_programs() {
        let mut old = receives(3);
        for named in [ptr::null_mut(), ptr::dangling_mut()] {
            let mut bad = ptr::dangling_mut();
            // SAFETY: a list that lives.
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
        let today = send(ibv_send_wr_wr { atomic }).today(next);
        assert_eq!(today.wr_id, 0x0102_0304_0506_0708);
        assert_eq!(today.next, next);
        assert_eq!((today.sg_list.addr(), today.num_sge), (0x2000, 3));
        assert_eq!(
            (today.opcode, today.send_flags),
            (IBV_WR_RDMA_WRITE_WITH_IMM, 5)
        );
        // SAFETY: the members that were set.
        unsafe {
            assert_eq!(today.imm.imm_data, 0x1122_3344);
            let there = today.wr.atomic;
            assert_eq!(
                (there.remote_addr, there.compare_add, there.swap, there.rkey),
                (1, 2, 3, 4)
            );
        }

        let rdma = ibv_send_wr_wr_rdma {
            remote_addr: 5,
            rkey: 6,
        };
        let today = send(ibv_send_wr_wr { rdma }).today(ptr::null_mut());
        // SAFETY: the member that was set.
        let rdma = unsafe { today.wr.rdma };
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
            let mut today = send(ibv_send_wr_wr { ud }).today(ptr::null_mut());
            // SAFETY: the handle is a twin that lives, or NULL; `ud` was set.
            unsafe {
                real_ah(&mut today);
                assert_eq!(today.wr.ud.ah, expected);
                assert_eq!((today.wr.ud.remote_qpn, today.wr.ud.remote_qkey), (17, 18));
            }
        }
    }
}
