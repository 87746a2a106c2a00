//! The ops table of a context: the provider's implementations, and the library's defaults.
//!
//! The library calls ops through its own full table, never through the provider's structure. No entry
//! of it is NULL. A provider's table may have fewer slots in another order ([`ProviderAbi`] maps them).
//! A NULL in it leaves the op unchanged, so a provider may set its ops by several partial tables.

use core::{
    ffi::c_void,
    mem::offset_of,
    ptr::{self, null_mut},
};

use ibverbs_abi::*;
use libc::{EINVAL, ENOMEM, EOPNOTSUPP, c_int};

use super::{
    abi::{ProviderAbi, V34},
    private::{Private, private},
};
use crate::uverbs::{cmd::only, state::extended};

/// The ops of a context.
///
/// # Safety
/// `context` is open, and is not closed while the reference is used.
#[inline]
pub unsafe fn ops<'a>(context: *mut ibv_context) -> &'a verbs_context_ops {
    // SAFETY: the context is open and stays so while the reference is used, as the caller promises.
    unsafe { &private(context).ops }
}

/// The function for an op that the provider has not set, for each type of function.
trait Unsupported {
    /// Returns EOPNOTSUPP, or NULL with errno EOPNOTSUPP, or nothing, as its return type requires.
    const OP: Self;
    /// The same, but one that returns EOPNOTSUPP sets errno too.
    #[cfg(feature = "uroce")]
    const OP_WITH_ERRNO: Self;
}

macro_rules! unsupported {
    ($( ( $($arg:ident)* ) )+) => { $(
        impl<$($arg),*> Unsupported for unsafe extern "C" fn($($arg),*) -> c_int {
            const OP: Self = {
                unsafe extern "C" fn op<$($arg),*>($(_: $arg),*) -> c_int {
                    EOPNOTSUPP
                }
                op::<$($arg),*>
            };
            #[cfg(feature = "uroce")]
            const OP_WITH_ERRNO: Self = {
                unsafe extern "C" fn op<$($arg),*>($(_: $arg),*) -> c_int {
                    Errno(EOPNOTSUPP).returned()
                }
                op::<$($arg),*>
            };
        }
        impl<R, $($arg),*> Unsupported for unsafe extern "C" fn($($arg),*) -> *mut R {
            const OP: Self = {
                unsafe extern "C" fn op<R, $($arg),*>($(_: $arg),*) -> *mut R {
                    Errno(EOPNOTSUPP).null()
                }
                op::<R, $($arg),*>
            };
            #[cfg(feature = "uroce")]
            const OP_WITH_ERRNO: Self = Self::OP;
        }
        impl<$($arg),*> Unsupported for unsafe extern "C" fn($($arg),*) {
            const OP: Self = {
                unsafe extern "C" fn op<$($arg),*>($(_: $arg),*) {}
                op::<$($arg),*>
            };
            #[cfg(feature = "uroce")]
            const OP_WITH_ERRNO: Self = Self::OP;
        }
    )+ };
}
unsupported!((A)(A B)(A B C)(A B C D)(A B C D E)(A B C D E F));

/// The default table, with that constant of [`Unsupported`] for each unsupported op.
macro_rules! default_table {
    ($constant:ident) => { default_table! { $constant;
        advise_mr alloc_dm alloc_dmah alloc_mw alloc_null_mr alloc_parent_domain alloc_pd alloc_td
        async_event attach_counters_point_flow attach_mcast bind_mw close_xrcd cq_event create_ah
        create_comp_cntr create_counters create_cq create_cq_ex create_flow create_flow_action_esp
        create_qp create_qp_ex create_rwq_ind_table create_srq create_srq_ex create_wq dealloc_dmah
        dealloc_mw dealloc_pd dealloc_td dereg_mr destroy_ah destroy_comp_cntr destroy_counters
        destroy_cq destroy_flow destroy_flow_action destroy_qp destroy_rwq_ind_table destroy_srq
        destroy_wq detach_mcast free_context free_dm get_srq_num import_dm import_mr import_pd
        inc_comp_cntr inc_err_comp_cntr modify_cq modify_flow_action_esp modify_qp
        modify_qp_rate_limit modify_srq modify_wq open_qp open_xrcd poll_cq post_recv post_send
        post_srq_ops post_srq_recv qp_attach_comp_cntr query_comp_cntr_caps query_device_ex query_ece
        query_port query_port_speed query_qp query_rt_values query_srq read_comp_cntr read_counters
        read_err_comp_cntr reg_dm_mr reg_dmabuf_mr reg_mr req_notify_cq resize_cq set_comp_cntr
        set_ece set_err_comp_cntr unimport_dm unimport_mr unimport_pd;
        alloc_buf = alloc_buf,
        dm_export_dmabuf_fd = dm_export_dmabuf_fd,
        free_buf = free_buf,
        query_qp_data_in_order = query_qp_data_in_order,
        reg_mr_ex = reg_mr_ex,
        rereg_mr = rereg_mr,
    } };
    ($constant:ident; $( $op:ident )+; $( $own:ident = $function:path, )+) => {
        verbs_context_ops { $( $op: Unsupported::$constant, )+ $( $own: $function, )+ }
    };
}

/// The ops of a new context: all are unsupported, except those that have a default implementation.
static DEFAULTS: verbs_context_ops = default_table!(OP);

/// The ops of a new context of a software device, whose failing verbs all set errno.
#[cfg(feature = "uroce")]
static SOFTWARE_DEFAULTS: verbs_context_ops = default_table!(OP_WITH_ERRNO);

/// Guarantees no order.
unsafe extern "C" fn query_qp_data_in_order(_: *mut ibv_qp, _: ibv_wr_opcode, _: u32) -> c_int {
    0
}

/// Fails with the verb's own kind of error value, and errno EOPNOTSUPP.
unsafe extern "C" fn rereg_mr(
    _: *mut verbs_mr,
    _: c_int,
    _: *mut ibv_pd,
    _: *mut c_void,
    _: usize,
    _: c_int,
) -> c_int {
    Errno(EOPNOTSUPP).set();
    IBV_REREG_MR_ERR_INPUT
}

/// Returns -1 with errno EOPNOTSUPP, because the verb returns a file descriptor.
unsafe extern "C" fn dm_export_dmabuf_fd(_: *mut ibv_dm) -> c_int {
    Errno(EOPNOTSUPP).minus_one()
}

/// Allocates page-aligned memory, and a handle for it at `*buf`. [`free_buf`] frees both. Returns NULL
/// with errno ENOMEM if memory is short.
unsafe extern "C" fn alloc_buf(
    pd: *mut ibv_pd,
    size: usize,
    buf: *mut *mut ibv_buf,
) -> *mut c_void {
    // SAFETY: calloc accepts any size.
    let handle = unsafe { libc::calloc(1, size_of::<ibv_buf>()) }.cast::<ibv_buf>();
    if handle.is_null() {
        return Errno(ENOMEM).null();
    }
    let mut addr = null_mut();
    // SAFETY: the caller of ibv_alloc_buf() passes a writable `buf`; the handle was allocated here.
    unsafe {
        let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        let ret = libc::posix_memalign(&mut addr, page, size);
        if ret != 0 {
            libc::free(handle.cast());
            return Errno(ret).null();
        }
        handle.write(ibv_buf {
            addr,
            size,
            pd,
            dmabuf_fd: -1,
        });
        *buf = handle;
        addr
    }
}

/// Frees what [`alloc_buf`] allocated.
unsafe extern "C" fn free_buf(buf: *mut ibv_buf) {
    // SAFETY: the caller of ibv_free_buf() passes a buffer of alloc_buf(), and does not use it again.
    unsafe {
        libc::free((*buf).addr);
        libc::free(buf.cast());
    }
}

/// Registers memory by address or a part of a dma-buf, with the ops `reg_mr` and `reg_dmabuf_mr`.
/// Returns NULL with errno EOPNOTSUPP for attributes that those do not have, and EINVAL for a combination
/// that is not allowed.
unsafe extern "C" fn reg_mr_ex(pd: *mut ibv_pd, attr: *mut ibv_mr_init_attr) -> *mut ibv_mr {
    // SAFETY: the caller of ibv_reg_mr_ex() passes a live protection domain, whose context is open, and
    // readable attributes.
    let (attr, ops) = unsafe { (&*attr, ops((*pd).context)) };
    let has = |bit: u32| attr.comp_mask & bit as u64 != 0;
    let supported = IBV_REG_MR_MASK_IOVA
        | IBV_REG_MR_MASK_ADDR
        | IBV_REG_MR_MASK_FD
        | IBV_REG_MR_MASK_FD_OFFSET;
    if !only(attr.comp_mask, supported.into()) {
        return Errno(EOPNOTSUPP).null();
    }
    let (length, access) = (attr.length, attr.access as c_int);
    if has(IBV_REG_MR_MASK_FD) {
        if has(IBV_REG_MR_MASK_ADDR)
            || !has(IBV_REG_MR_MASK_FD_OFFSET)
            || !has(IBV_REG_MR_MASK_IOVA)
        {
            return Errno(EINVAL).null();
        }
        // SAFETY: the domain is alive, and the op is of its context.
        return unsafe {
            (ops.reg_dmabuf_mr)(pd, attr.fd_offset, length, attr.iova, attr.fd, access)
        };
    }
    if !has(IBV_REG_MR_MASK_ADDR) || has(IBV_REG_MR_MASK_FD_OFFSET) {
        return Errno(EINVAL).null();
    }
    let iova = if has(IBV_REG_MR_MASK_IOVA) {
        attr.iova
    } else {
        attr.addr as u64
    };
    // SAFETY: the domain is alive, and the op is of its context.
    unsafe { (ops.reg_mr)(pd, attr.addr, length, iova, access) }
}

/// The entry in [`PUBLIC`] of an op that has no public slot. Offset 0 is the member `device`, so no op
/// is there.
const NOWHERE: i16 = 0;

/// The public slot of each op, as its offset in bytes from the `ibv_context`. Programs call these slots
/// through inline functions of verbs.h; some only programs built with old headers.
static PUBLIC: [i16; OPS] = {
    const CONTEXT: isize = offset_of!(verbs_context, context) as isize;
    macro_rules! table {
        (
            ibv_context: $( $op:ident )+;
            ibv_context, compat: $( $old:ident = $old_slot:ident, )+;
            verbs_context: $( $ext:ident )+;
            verbs_context, renamed: $( $named:ident = $slot:ident, )+;
        ) => {{
            let mut table = [NOWHERE; OPS];
            $( table[offset_of!(verbs_context_ops, $op) / size_of::<usize>()] =
                (offset_of!(ibv_context, ops) + offset_of!(ibv_context_ops, $op)) as i16; )+
            $( table[offset_of!(verbs_context_ops, $old) / size_of::<usize>()] =
                (offset_of!(ibv_context, ops) + offset_of!(ibv_context_ops, $old_slot)) as i16; )+
            $( table[offset_of!(verbs_context_ops, $ext) / size_of::<usize>()] =
                (offset_of!(verbs_context, $ext) as isize - CONTEXT) as i16; )+
            $( table[offset_of!(verbs_context_ops, $named) / size_of::<usize>()] =
                (offset_of!(verbs_context, $slot) as isize - CONTEXT) as i16; )+
            table
        }};
    }
    table! {
        ibv_context: alloc_mw bind_mw dealloc_mw poll_cq post_recv post_send post_srq_recv
            req_notify_cq;
        ibv_context, compat:
            alloc_pd = _compat_alloc_pd,
            async_event = _compat_async_event,
            attach_mcast = _compat_attach_mcast,
            cq_event = _compat_cq_event,
            create_ah = _compat_create_ah,
            create_cq = _compat_create_cq,
            create_qp = _compat_create_qp,
            create_srq = _compat_create_srq,
            dealloc_pd = _compat_dealloc_pd,
            dereg_mr = _compat_dereg_mr,
            destroy_ah = _compat_destroy_ah,
            destroy_cq = _compat_destroy_cq,
            destroy_qp = _compat_destroy_qp,
            destroy_srq = _compat_destroy_srq,
            detach_mcast = _compat_detach_mcast,
            modify_qp = _compat_modify_qp,
            modify_srq = _compat_modify_srq,
            query_qp = _compat_query_qp,
            query_srq = _compat_query_srq,
            reg_mr = _compat_reg_mr,
            rereg_mr = _compat_rereg_mr,
            resize_cq = _compat_resize_cq,
        ;
        verbs_context: advise_mr alloc_dm alloc_null_mr alloc_parent_domain alloc_td
            attach_counters_point_flow close_xrcd create_counters create_flow_action_esp create_qp_ex
            create_rwq_ind_table create_wq dealloc_td destroy_counters destroy_flow_action
            destroy_rwq_ind_table destroy_wq free_dm get_srq_num modify_cq
            modify_flow_action_esp modify_qp_rate_limit modify_wq open_qp open_xrcd post_srq_ops
            query_device_ex query_rt_values read_counters reg_dm_mr;
        verbs_context, renamed:
            create_flow = ibv_create_flow,
            destroy_flow = ibv_destroy_flow,
        ;
    }
};

/// Copies the ops of `table` that are not NULL into the library's table and into the public slots.
/// `slots` has the place in the library's table of each slot of `table`.
///
/// # Safety
/// `context` is initialised, and no other thread uses its ops during the call. `table` has as many slots
/// as `slots` yields, each NULL or a function of that op's type.
pub unsafe fn set_ops(
    context: *mut ibv_context,
    table: *const *const c_void,
    slots: impl Iterator<Item = usize>,
) {
    // SAFETY: the slots of both the library's table and the public context are function pointers, and
    // the caller promises that a function of `table` has the type of its slot.
    unsafe {
        let own = (&raw mut (*private_mut(context)).ops).cast::<*const c_void>();
        for (i, slot) in slots.enumerate() {
            let function = *table.add(i);
            if function.is_null() {
                continue;
            }
            *own.add(slot) = function;
            let public = PUBLIC[slot];
            if public != NOWHERE {
                *context.byte_offset(public as isize).cast::<*const c_void>() = function;
            }
        }
    }
}

/// The library's part of a context, for writing.
///
/// # Safety
/// `context` is initialised, except for its ops.
unsafe fn private_mut(context: *mut ibv_context) -> *mut Private {
    // SAFETY: the context is initialised, so it has a `verbs_context` with `priv_`.
    unsafe { (*extended(context)).priv_.cast() }
}

/// Gives a new context the default ops.
///
/// # Safety
/// `context` is initialised, except for its ops, and no other thread knows it.
pub unsafe fn set_defaults(context: *mut ibv_context) {
    // SAFETY: the context is initialised and new, so no other thread uses its ops.
    unsafe { set_all(context, &DEFAULTS) }
}

/// The default ops of a software device.
#[cfg(feature = "uroce")]
pub const fn software_defaults() -> &'static verbs_context_ops {
    &SOFTWARE_DEFAULTS
}

/// The ops that have a public slot, with its offset in bytes from the `ibv_context`: [`PUBLIC`] without the
/// ops that have none.
static WITH_SLOT: [(u8, i16); PUBLIC_SLOTS] = {
    let mut pairs = [(0, NOWHERE); PUBLIC_SLOTS];
    let (mut op, mut count) = (0, 0);
    while op < OPS {
        if PUBLIC[op] != NOWHERE {
            pairs[count] = (op as u8, PUBLIC[op]);
            count += 1;
        }
        op += 1;
    }
    assert!(count == PUBLIC_SLOTS);
    pairs
};
const PUBLIC_SLOTS: usize = 62;

/// Sets all ops of a context.
///
/// # Safety
/// `context` is initialised, and no other thread uses its ops during the call.
pub unsafe fn set_all(context: *mut ibv_context, table: &verbs_context_ops) {
    let functions = ptr::from_ref(table).cast::<*const c_void>();
    // SAFETY: a `verbs_context_ops` consists of OPS function pointers, and slot i is op i; the context has
    // the public slots of every op.
    unsafe {
        (*private_mut(context)).ops = *table;
        for (op, at) in &WITH_SLOT {
            let function = *functions.add(usize::from(*op));
            *context.byte_offset(isize::from(*at)).cast() = function;
        }
    }
}

/// Copies the ops of the public slots that newer layouts have in front of ABI 34's to these slots.
///
/// # Safety
/// `context` is initialised with this layout, and no other thread uses its ops during the call.
pub unsafe fn set_front_slots(context: *mut ibv_context, abi: &ProviderAbi) {
    for (at, op) in abi.front_slots() {
        // SAFETY: the context's structure has the layout's size, so it has the slots; `ops` consists of
        // OPS function pointers, and `op` is the index of one.
        unsafe {
            let own = (&raw const (*private_mut(context)).ops).cast::<*const c_void>();
            *context.byte_offset(at).cast::<*const c_void>() = *own.add(op);
        }
    }
}

/// Sets the ops of a provider of ABI `PABI`; a NULL in its table leaves the op unchanged. Does nothing if
/// the library did not initialise the context for that ABI.
///
/// # Safety
/// `vctx` is the provider's context, initialised by the library, and no other thread uses its ops during
/// the call; `ops` is a table of that ABI.
pub unsafe extern "C" fn verbs_set_ops<const PABI: u32>(
    vctx: *mut verbs_context,
    ops: *const c_void,
) {
    // SAFETY: the library initialised the context, as the caller promises.
    let Some(abi) = (unsafe { ProviderAbi::of_caller::<PABI>(vctx) }) else {
        return;
    };
    let context = abi.context(vctx);
    // SAFETY: the context is initialised, and `ops` has the slots of its ABI, as the caller promises.
    unsafe {
        let slots = abi.slots.iter().map(|slot| *slot as usize);
        set_ops(context, ops.cast(), slots);
        if PABI != V34.number {
            set_front_slots(context, abi);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_ops_fail_as_their_type_requires() {
        // SAFETY: the default ops do not use their arguments.
        unsafe {
            Errno(0).set();
            assert!((DEFAULTS.alloc_pd)(null_mut()).is_null());
            assert_eq!(Errno::last(), Errno(EOPNOTSUPP));
            assert_eq!((DEFAULTS.poll_cq)(null_mut(), 1, null_mut()), EOPNOTSUPP);
            assert_eq!((DEFAULTS.query_qp_data_in_order)(null_mut(), 0, 0), 0);
            let ret = (DEFAULTS.rereg_mr)(null_mut(), 0, null_mut(), null_mut(), 0, 0);
            assert_eq!(ret, IBV_REREG_MR_ERR_INPUT);
            (DEFAULTS.free_context)(null_mut());
        }
    }

    #[test]
    fn no_two_ops_share_a_public_slot() {
        let mut seen: Vec<i16> = PUBLIC.iter().copied().filter(|at| *at != NOWHERE).collect();
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
        assert_eq!(count, 8 + 22 + 30 + 2);
    }
}
