//! Tests of the verbs with a mock provider.

mod events;

use core::cell::{Cell, RefCell};
use core::mem::MaybeUninit;
use core::ptr::{self, null_mut};

use libc::{EBUSY, EINVAL, EIO, EOPNOTSUPP, c_int, c_uint, c_void};

use super::mock::Mock;
use super::*;
use crate::abi::*;

thread_local! {
    /// The result of the next op that can fail.
    pub(super) static RESULT: Cell<c_int> = const { Cell::new(0) };
    /// The calls of the provider's ops, as the ops below describe them.
    static CALLS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn note(text: String) -> c_int {
    CALLS.with_borrow_mut(|calls| calls.push(text));
    RESULT.get()
}

pub(super) fn calls() -> Vec<String> {
    CALLS.take()
}

/// A zeroed object, as a provider allocates it; NULL with errno set if [`RESULT`] is an error.
pub(super) fn object<T>() -> *mut T {
    if RESULT.get() != 0 {
        return Errno(RESULT.get()).null();
    }
    // SAFETY: zeros are valid for all objects of verbs.h.
    Box::into_raw(Box::new(unsafe { MaybeUninit::zeroed().assume_init() }))
}

/// Frees what [`object`] returned.
pub(super) fn free<T>(object: *mut T) {
    // SAFETY: the tests pass each object once, with the type that it was created with.
    drop(unsafe { Box::from_raw(object) });
}

#[test]
fn domains_get_their_context() {
    unsafe extern "C" fn alloc(_: *mut ibv_context) -> *mut ibv_pd {
        object()
    }
    unsafe extern "C" fn dealloc(pd: *mut ibv_pd) -> c_int {
        free(pd);
        note("dealloc".into())
    }
    let mut mock = Mock::new();
    // SAFETY: the context is open, and the domain is one of it.
    unsafe {
        assert!(pd::ibv_alloc_pd(mock.context()).is_null());
        assert_eq!(Errno::last(), Errno(EOPNOTSUPP));
        mock.ops().alloc_pd = alloc;
        mock.ops().dealloc_pd = dealloc;
        let domain = pd::ibv_alloc_pd(mock.context());
        assert_eq!((*domain).context, mock.context());
        RESULT.set(EBUSY);
        assert_eq!(pd::ibv_dealloc_pd(domain), EBUSY);
        assert!(pd::ibv_alloc_pd(mock.context()).is_null());
        assert_eq!(Errno::last(), Errno(EBUSY));
    }
    assert_eq!(calls(), ["dealloc"]);
}

/// A provider that fills port attributes of its release's size with 0x77.
unsafe fn fill_port(attr: *mut ibv_port_attr, size: usize) -> c_int {
    // SAFETY: the library's buffer has room for any release's attributes.
    unsafe { ptr::write_bytes(attr.cast::<u8>(), 0x77, size) };
    RESULT.get()
}

unsafe extern "C" fn port_v44(_: *mut ibv_context, _: u8, attr: *mut ibv_port_attr) -> c_int {
    // SAFETY: `attr` is the library's buffer.
    unsafe { fill_port(attr, 52) }
}

unsafe extern "C" fn port_v49(_: *mut ibv_context, _: u8, attr: *mut ibv_port_attr) -> c_int {
    // SAFETY: `attr` is the library's buffer.
    unsafe { fill_port(attr, 56) }
}

#[test]
fn port_attributes_of_every_length() {
    type QueryPort = unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
    let mut mock = Mock::new();
    for (query_port, written) in [(port_v44 as QueryPort, 52), (port_v49, 56)] {
        mock.ops().query_port = query_port;
        for len in [0, 1, 47, 48, 52, 55, 56, 60, 128] {
            let mut room = [0xee_u8; 256];
            let attr = room.as_mut_ptr().cast::<ibv_port_attr>();
            // SAFETY: `room` has more than `len` bytes.
            let err = unsafe { port::lib_query_port(mock.context(), 1, attr, len) };
            assert_eq!(err, 0);
            for (at, byte) in room.iter().enumerate() {
                let expected = match at {
                    _ if at >= len => 0xee,
                    _ if at >= written => 0,
                    _ => 0x77,
                };
                assert_eq!(*byte, expected, "byte {at} of {len}, {written} written");
            }
            RESULT.set(EINVAL);
            room.fill(0xee);
            let attr = room.as_mut_ptr().cast::<ibv_port_attr>();
            // SAFETY: `room` has more than `len` bytes.
            let err = unsafe { port::lib_query_port(mock.context(), 1, attr, len) };
            assert_eq!(err, EINVAL);
            assert!(room[len..].iter().all(|&byte| byte == 0xee));
            // Structs that the C library fills in place are zeroed first, shorter ones are unchanged.
            let left = if len >= 52 { 0 } else { 0xee };
            let mine = len.min(55);
            assert!(room[..mine].iter().all(|&byte| byte == left) || len >= 56);
            RESULT.set(0);
        }
        let mut room = [0xee_u8; 64];
        let attr = room.as_mut_ptr().cast();
        // SAFETY: `room` has more than 48 bytes.
        assert_eq!(unsafe { port::ibv_query_port(mock.context(), 1, attr) }, 0);
        assert!(room[..48].iter().all(|&byte| byte == 0x77));
        assert!(room[48..].iter().all(|&byte| byte == 0xee));
    }
}

unsafe extern "C" fn reg_mr(
    _: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    note(format!("reg {addr:?} {length} {iova:#x} {access:#x}"));
    object::<verbs_mr>().cast()
}

#[test]
fn regions_and_their_access() {
    unsafe extern "C" fn dereg(mr: *mut verbs_mr) -> c_int {
        free(mr);
        note("dereg".into())
    }
    let mut mock = Mock::new();
    mock.ops().reg_mr = reg_mr;
    mock.ops().dereg_mr = dereg;
    let mut domain = ibv_pd {
        context: mock.context(),
        handle: 0,
    };
    let at = ptr::without_provenance_mut(0x1000);
    let hint = IBV_ACCESS_OPTIONAL_FIRST as c_int;
    // SAFETY: the domain is alive; the memory is not accessed, since fork support is off.
    unsafe {
        let region = mr::ibv_reg_mr(&mut domain, at, 8, 1 | hint);
        assert_eq!((*region).context, mock.context());
        assert_eq!((*region).pd, &raw mut domain);
        assert_eq!(((*region).addr, (*region).length), (at, 8));
        assert_eq!(mr::ibv_dereg_mr(region), 0);
        // A kernel that reports support for the optional flags gets them.
        mock.device().core_support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS.into();
        let region = mr::ibv_reg_mr_iova(&mut domain, at, 8, 0x2000, 1 | hint);
        free(region.cast::<verbs_mr>());
        RESULT.set(EINVAL);
        assert!(mr::ibv_reg_mr_iova2(&mut domain, at, 8, 0, c_uint::MAX).is_null());
        assert_eq!(Errno::last(), Errno(EINVAL));
    }
    assert_eq!(
        calls(),
        [
            "reg 0x1000 8 0x1000 0x1",
            "dereg",
            "reg 0x1000 8 0x2000 0x100001",
            "reg 0x1000 8 0x0 0xffffffff",
        ]
    );
}

#[test]
fn regions_by_attributes_through_an_older_provider() {
    unsafe extern "C" fn reg_dmabuf(
        _: *mut ibv_pd,
        offset: u64,
        length: usize,
        iova: u64,
        fd: c_int,
        access: c_int,
    ) -> *mut ibv_mr {
        note(format!("dmabuf {fd} {offset} {length} {iova:#x} {access}"));
        object::<verbs_mr>().cast()
    }
    let mut mock = Mock::new();
    mock.ops().reg_mr = reg_mr;
    mock.ops().reg_dmabuf_mr = reg_dmabuf;
    let mut domain = ibv_pd {
        context: mock.context(),
        handle: 0,
    };
    let pd = &raw mut domain;
    let at = ptr::without_provenance_mut(0x1010);
    let mut buffer = ibv_buf {
        addr: ptr::without_provenance_mut(0x1000),
        size: 0x100,
        pd,
        dmabuf_fd: -1,
    };
    // SAFETY: the objects are alive; the memory is not accessed.
    unsafe {
        let region = mr::ibv_reg_buf_mr(pd, &mut buffer, at, 8, 1);
        assert_eq!(
            ((*region).addr, (*region).length, (*region).pd),
            (at, 8, pd)
        );
        free(region.cast::<verbs_mr>());
        buffer.dmabuf_fd = 9;
        let region = mr::ibv_reg_buf_mr(pd, &mut buffer, at, 8, 1);
        assert_eq!(((*region).addr as usize, (*region).length), (0x10, 8));
        free(region.cast::<verbs_mr>());
    }
    // SAFETY: the objects are alive; the memory is not accessed.
    unsafe {
        assert!(mr::ibv_reg_buf_mr(pd, &mut buffer, at, 0x100, 1).is_null());
        assert_eq!(Errno::last(), Errno(EINVAL));
        assert!(mr::ibv_reg_buf_mr(pd, null_mut(), at, 8, 1).is_null());
        assert_eq!(Errno::last(), Errno(EINVAL));
        let region = mr::ibv_reg_dmabuf_mr(pd, 0x20, 8, 0x3000, 9, 1);
        assert_eq!(((*region).addr as usize, (*region).length), (0x20, 8));
        free(region.cast::<verbs_mr>());
        // fcntl fails, since the descriptor is not open.
        buffer.dmabuf_fd = c_int::MAX;
        assert_eq!(buf::ibv_export_buf_dmabuf_fd(&mut buffer), -1);
        assert_eq!(Errno::last(), Errno(libc::EBADF));
        buffer.dmabuf_fd = -1;
        assert_eq!(buf::ibv_export_buf_dmabuf_fd(&mut buffer), -1);
        assert_eq!(Errno::last(), Errno(libc::ENODATA));
    }
    assert_eq!(
        calls(),
        [
            "reg 0x1010 8 0x1010 0x1",
            "dmabuf 9 16 8 0x1010 1",
            "dmabuf 9 32 8 0x3000 1",
        ]
    );
}

#[test]
fn rereg_changes_what_was_changed() {
    unsafe extern "C" fn rereg(
        _: *mut verbs_mr,
        flags: c_int,
        _: *mut ibv_pd,
        _: *mut c_void,
        _: usize,
        _: c_int,
    ) -> c_int {
        note(format!("rereg {flags}"))
    }
    const MOVE: c_int = IBV_REREG_MR_CHANGE_TRANSLATION as c_int;
    const PD: c_int = IBV_REREG_MR_CHANGE_PD as c_int;
    let mut mock = Mock::new();
    mock.ops().rereg_mr = rereg;
    let region = object::<verbs_mr>().cast::<ibv_mr>();
    let mut domain = ibv_pd {
        context: mock.context(),
        handle: 0,
    };
    let pd = &raw mut domain;
    let to = ptr::without_provenance_mut(0x5000);
    // SAFETY: the objects are alive; the memory is not accessed.
    unsafe {
        (*region).context = mock.context();
        assert_eq!(mr::ibv_rereg_mr(region, MOVE, null_mut(), to, 9, 0), 0);
        assert_eq!(((*region).addr, (*region).length), (to, 9));
        assert!((*region).pd.is_null());
        assert_eq!(mr::ibv_rereg_mr(region, PD, pd, null_mut(), 0, 0), 0);
        assert_eq!(((*region).addr, (*region).pd), (to, pd));
        RESULT.set(EIO);
        let other = ptr::without_provenance_mut(8);
        let err = mr::ibv_rereg_mr(region, MOVE, null_mut(), other, 1, 0);
        assert_eq!(err, IBV_REREG_MR_ERR_CMD);
        assert_eq!((*region).addr, to);
        Errno(0).set();
        let err = mr::ibv_rereg_mr(region, 0x10, null_mut(), to, 1, 0);
        assert_eq!(err, IBV_REREG_MR_ERR_INPUT);
        assert_eq!(Errno::last(), Errno(EINVAL));
        free(region.cast::<verbs_mr>());
    }
    assert_eq!(calls(), ["rereg 1", "rereg 2", "rereg 1"]);
}

#[test]
fn queue_pairs_remember_their_state() {
    unsafe extern "C" fn modify(_: *mut ibv_qp, _: *mut ibv_qp_attr, mask: c_int) -> c_int {
        note(format!("modify {mask}"))
    }
    unsafe extern "C" fn query(
        _: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        mask: c_int,
        _: *mut ibv_qp_init_attr,
    ) -> c_int {
        // SAFETY: the attributes are the test's own.
        unsafe { (*attr).qp_state = IBV_QPS_ERR };
        note(format!("query {mask}"))
    }
    let mut mock = Mock::new();
    mock.ops().modify_qp = modify;
    mock.ops().query_qp = query;
    let pair = object::<verbs_qp>().cast::<ibv_qp>();
    // SAFETY: the objects are alive; zeros are valid attributes.
    unsafe {
        (*pair).context = mock.context();
        let mut attr = MaybeUninit::<ibv_qp_attr>::zeroed().assume_init();
        let mut init = MaybeUninit::<ibv_qp_init_attr>::zeroed().assume_init();
        attr.qp_state = IBV_QPS_RTS;
        let state = IBV_QP_STATE as c_int;
        assert_eq!(qp::ibv_modify_qp(pair, &mut attr, 2), 0);
        assert_eq!((*pair).state, IBV_QPS_RESET);
        assert_eq!(qp::ibv_modify_qp(pair, &mut attr, state | 2), 0);
        assert_eq!((*pair).state, IBV_QPS_RTS);
        RESULT.set(EINVAL);
        assert_eq!(qp::ibv_query_qp(pair, &mut attr, state, &mut init), EINVAL);
        assert_eq!((*pair).state, IBV_QPS_RTS);
        RESULT.set(0);
        assert_eq!(qp::ibv_query_qp(pair, &mut attr, 2, &mut init), 0);
        assert_eq!((*pair).state, IBV_QPS_RTS);
        assert_eq!(qp::ibv_query_qp(pair, &mut attr, state, &mut init), 0);
        assert_eq!((*pair).state, IBV_QPS_ERR);
    }
    // SAFETY: the queue pair is alive until it is freed, which is its last use.
    unsafe {
        assert!(qp::ibv_qp_to_qp_ex(pair).is_null());
        unsafe extern "C" fn start(_: *mut ibv_qp_ex) {}
        (*pair.cast::<ibv_qp_ex>()).wr_start = Some(start);
        assert!(qp::ibv_qp_to_qp_ex(pair).is_null());
        (*pair.cast::<verbs_qp>()).comp_mask = VERBS_QP_EX;
        assert_eq!(qp::ibv_qp_to_qp_ex(pair), pair.cast());

        let mut ece = ibv_ece::default();
        Errno(0).set();
        assert_eq!(ece::ibv_set_ece(pair, &mut ece), EOPNOTSUPP);
        assert_eq!(Errno::last(), Errno(EOPNOTSUPP));
        free(pair.cast::<verbs_qp>());
    }
    let all = ["modify 2", "modify 3", "query 1", "query 2", "query 1"];
    assert_eq!(calls(), all);
}

#[test]
fn address_of_a_sender_without_a_grh() {
    let mock = Mock::new();
    // SAFETY: the context is open; zeros are a valid completion and valid attributes.
    unsafe {
        let mut wc = MaybeUninit::<ibv_wc>::zeroed().assume_init();
        (wc.slid, wc.sl, wc.dlid_path_bits) = (7, 3, 1);
        let mut grh = [0xff_u8; 40];
        let grh = grh.as_mut_ptr().cast();
        let mut attr = MaybeUninit::<ibv_ah_attr>::uninit();
        let init = ah::ibv_init_ah_from_wc(mock.context(), 2, &mut wc, grh, attr.as_mut_ptr());
        assert_eq!(init, 0);
        let attr = attr.assume_init_mut();
        assert_eq!((attr.dlid, attr.sl, attr.src_path_bits), (7, 3, 1));
        assert_eq!((attr.port_num, attr.is_global), (2, 0));
        assert_eq!(attr.grh.flow_label, 0xf_ffff);
        wc.wc_flags = IBV_WC_GRH;
        let init = ah::ibv_init_ah_from_wc(mock.context(), 2, &mut wc, grh, attr);
        assert_eq!((init, Errno::last()), (-1, Errno(libc::EPROTONOSUPPORT)));
    }
}
