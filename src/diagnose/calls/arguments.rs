//! The arguments of calls that have failed, as plain values for [`first_wrong`]: a function per call.
//!
//! Safety, for all functions here: they get the program's arguments. Attributes are readable as far as the
//! call reads them; objects are alive, or were destroyed and their memory is readable still.
//!
//! [`first_wrong`]: super::argument::first_wrong

mod device_memory;
mod memory;
mod modify_qp;

use core::ffi::{c_int, c_uint};

use ibverbs_abi::*;

use super::super::check::binding;
use super::super::check::values::KNOWN_ACCESS;
use super::super::facts;
use super::super::finding::Kind;
use super::argument::{Argument, bits, number, object, optional, reason};
use super::{preserving_errno, unsupported, with};

pub use device_memory::{alloc_dm, reg_dm_mr};
pub use memory::{advise_mr, probes_dmabuf, reg_dmabuf_mr};
pub use modify_qp::modify_qp;

type Arguments = Vec<Argument>;

/// A device has no more inline data than this, as a rule: mlx5 about 900 bytes, others 64 to 512.
const USUAL_INLINE: u32 = 1024;

const PORT: &str = "ports are numbered from 1 to phys_port_cnt of ibv_query_device";

/// # Safety
/// `context` is open and wrapped.
unsafe fn device(context: *mut ibv_context) -> Option<ibv_device_attr> {
    // SAFETY: the context is open and wrapped, as the caller promises.
    preserving_errno(|| unsafe { facts::device(context) })
}

/// # Safety
/// `attr` is readable up to `sq_sig_all`.
unsafe fn qp_common(attr: *const ibv_qp_init_attr) -> Arguments {
    // SAFETY: the attributes are readable, as the caller promises.
    let attr = unsafe { &*attr };
    let (receives, sends) = (
        attr.qp_type != IBV_QPT_XRC_SEND,
        attr.qp_type != IBV_QPT_XRC_RECV,
    );
    let cq = |member, cq: *mut ibv_cq, needed: bool| match needed
        && attr.qp_type != IBV_QPT_RAW_PACKET
    {
        true => object(member, Kind::Cq, cq as usize),
        false => optional(member, Kind::Cq, cq as usize),
    };
    let known = matches!(
        attr.qp_type,
        IBV_QPT_RC
            | IBV_QPT_UC
            | IBV_QPT_UD
            | IBV_QPT_RAW_PACKET
            | IBV_QPT_XRC_SEND
            | IBV_QPT_XRC_RECV
            | IBV_QPT_DRIVER
    );
    let value = attr.qp_type;
    vec![
        reason(
            !known,
            format!("qp_type is {value}"),
            "it is none of enum ibv_qp_type (IBV_QPT_RC = 2, IBV_QPT_UC = 3, IBV_QPT_UD = 4)",
            "set qp_type, and the whole structure to zero at first",
        ),
        unsupported::qp_type(value),
        cq("send_cq", attr.send_cq, sends),
        cq("recv_cq", attr.recv_cq, receives),
        optional("srq", Kind::Srq, attr.srq as usize),
    ]
}

/// # Safety
/// As [`qp_common`].
unsafe fn qp_inline(attr: *const ibv_qp_init_attr) -> Argument {
    // SAFETY: the attributes are readable, as the caller promises.
    let length = unsafe { (*attr).cap.max_inline_data };
    reason(
        length > USUAL_INLINE,
        format!(
            "cap.max_inline_data is {length}, and no other argument is wrong that is known here"
        ),
        "devices have a limit for it that ibv_query_device does not report, often some hundred bytes",
        "request less, for example 64, and use what the call writes to cap.max_inline_data",
    )
}

pub unsafe fn create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> Arguments {
    // SAFETY: see the module above.
    unsafe {
        let mut all = vec![object("pd", Kind::Pd, pd as usize)];
        all.extend(qp_common(attr));
        all.push(reason(
            (*attr).qp_type == IBV_QPT_XRC_RECV,
            "qp_type is IBV_QPT_XRC_RECV, and ibv_create_qp cannot pass an XRC domain",
            "the receiving end of XRC belongs to a domain, and to no PD",
            "use ibv_create_qp_ex with IBV_QP_INIT_ATTR_XRCD and xrcd",
        ));
        all.push(qp_inline(attr));
        all
    }
}

pub unsafe fn create_qp_ex(context: *mut ibv_context, attr: *mut ibv_qp_init_attr_ex) -> Arguments {
    let _ = context;
    // SAFETY: see the module above.
    unsafe {
        let (mask, kind) = ((*attr).comp_mask, (*attr).qp_type);
        let has = |bit| mask & bit != 0;
        let mut all = vec![bits("comp_mask", mask.into(), 0x7f)];
        all.extend(unsupported::qp_features(attr));
        all.extend(qp_common(attr.cast()));
        let is_receiver = kind == IBV_QPT_XRC_RECV;
        all.push(reason(
            is_receiver && !has(IBV_QP_INIT_ATTR_XRCD),
            "qp_type is IBV_QPT_XRC_RECV, and comp_mask lacks IBV_QP_INIT_ATTR_XRCD",
            "the receiving end of XRC belongs to an XRC domain",
            "open one with ibv_open_xrcd, and pass it in xrcd",
        ));
        all.push(reason(
            !is_receiver && !has(IBV_QP_INIT_ATTR_PD),
            "comp_mask lacks IBV_QP_INIT_ATTR_PD",
            "a queue pair belongs to a protection domain, and without the bit pd is not read",
            "set pd, and the bit in comp_mask",
        ));
        if has(IBV_QP_INIT_ATTR_PD) && !is_receiver {
            all.push(object("pd", Kind::Pd, (*attr).pd as usize));
        }
        all.push(qp_inline(attr.cast()));
        all
    }
}

/// The channel of a CQ: the shadow does not know channels.
///
/// # Safety
/// `channel` is NULL or readable.
unsafe fn channel(context: *mut ibv_context, channel: *const ibv_comp_channel) -> Argument {
    // SAFETY: the channel is NULL or readable, as the caller promises.
    let other = unsafe { channel.as_ref() }.is_some_and(|channel| channel.context != context);
    reason(
        other,
        format!("the completion channel {channel:p} belongs to another device context than the CQ"),
        "each ibv_open_device makes a context of its own, and objects of two do not fit together",
        "create the channel with the context of the CQ",
    )
}

/// # Safety
/// `context` is open and wrapped.
unsafe fn cq(context: *mut ibv_context, cqe: i64, vector: i64) -> Arguments {
    // SAFETY: the context is open and wrapped, as the caller promises.
    let (max, vectors) = unsafe {
        let max = device(context).map_or(i64::MAX, |device| device.max_cqe.into());
        (max, i64::from((*context).num_comp_vectors))
    };
    vec![
        number(
            "cqe",
            cqe,
            1,
            max,
            "the CQ has room for this many completions, max_cqe at most",
        ),
        number(
            "comp_vector",
            vector,
            0,
            vectors.max(1) - 1,
            "it is less than num_comp_vectors of the context",
        ),
    ]
}

pub unsafe fn create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    of: *mut ibv_comp_channel,
    vector: c_int,
) -> Arguments {
    // SAFETY: see the module above.
    unsafe {
        let mut all = cq(context, cqe.into(), vector.into());
        all.push(channel(context, of));
        all
    }
}

pub unsafe fn create_cq_ex(context: *mut ibv_context, attr: *mut ibv_cq_init_attr_ex) -> Arguments {
    // SAFETY: see the module above.
    unsafe {
        let mask = (*attr).comp_mask;
        let known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
        let mut all = vec![
            bits("comp_mask", mask.into(), known.into()),
            bits(
                "wc_flags",
                (*attr).wc_flags,
                IBV_CREATE_CQ_SUP_WC_FLAGS.into(),
            ),
        ];
        if mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0 {
            let known = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
            all.push(bits("flags", (*attr).flags.into(), known.into()));
        }
        all.extend(cq(context, (*attr).cqe.into(), (*attr).comp_vector.into()));
        all.push(channel(context, (*attr).channel));
        all
    }
}

pub unsafe fn resize_cq(cq: *mut ibv_cq, cqe: c_int) -> Arguments {
    // SAFETY: see the module above.
    let max = unsafe { device((*cq).context) }.map_or(i64::MAX, |device| device.max_cqe.into());
    vec![
        object("cq", Kind::Cq, cq as usize),
        number(
            "cqe",
            cqe,
            1,
            max,
            "the CQ has room for this many completions, max_cqe at most",
        ),
        reason(
            true,
            format!("the CQ {cq:p} was to get {cqe} entries"),
            "the device refused it: the CQ holds more completions than that which are not polled yet, as far \
             as the arguments say",
            "poll the CQ first, or resize it to more entries",
        ),
    ]
}

/// # Safety
/// `context` is open and wrapped.
unsafe fn srq(context: *mut ibv_context, attr: &ibv_srq_attr) -> Arguments {
    // SAFETY: the context is open and wrapped, as the caller promises.
    let limits = unsafe { device(context) };
    let (wr, sge) = limits.map_or((i32::MAX, i32::MAX), |of| (of.max_srq_wr, of.max_srq_sge));
    vec![
        number(
            "attr.max_wr",
            attr.max_wr,
            1,
            wr,
            "max_srq_wr of ibv_query_device is the most",
        ),
        number(
            "attr.max_sge",
            attr.max_sge,
            0,
            sge,
            "max_srq_sge of ibv_query_device is the most",
        ),
    ]
}

pub unsafe fn create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> Arguments {
    // SAFETY: see the module above.
    unsafe {
        let mut all = vec![object("pd", Kind::Pd, pd as usize)];
        all.extend(srq((*pd).context, &(*attr).attr));
        all
    }
}

pub unsafe fn create_srq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> Arguments {
    // SAFETY: see the module above.
    unsafe {
        let mask = (*attr).comp_mask;
        let has = |bit| mask & bit != 0;
        let kind = match has(IBV_SRQ_INIT_ATTR_TYPE) {
            true => (*attr).srq_type,
            false => IBV_SRQT_BASIC,
        };
        let mut all = vec![
            bits("comp_mask", mask.into(), 0x1f),
            reason(
                !has(IBV_SRQ_INIT_ATTR_PD),
                "comp_mask lacks IBV_SRQ_INIT_ATTR_PD",
                "an SRQ belongs to a protection domain, and without the bit pd is not read",
                "set pd, and the bit in comp_mask",
            ),
            reason(
                kind == IBV_SRQT_XRC && !(has(IBV_SRQ_INIT_ATTR_XRCD) && has(IBV_SRQ_INIT_ATTR_CQ)),
                "srq_type is IBV_SRQT_XRC, and comp_mask lacks IBV_SRQ_INIT_ATTR_XRCD or \
                 IBV_SRQ_INIT_ATTR_CQ",
                "an XRC SRQ belongs to an XRC domain, and its receives complete on a CQ of its own",
                "set xrcd and cq, and both bits in comp_mask",
            ),
            number("srq_type", kind, 0, 2_u32, "it is an enum ibv_srq_type"),
        ];
        if has(IBV_SRQ_INIT_ATTR_PD) {
            all.push(object("pd", Kind::Pd, (*attr).pd as usize));
        }
        if has(IBV_SRQ_INIT_ATTR_CQ) {
            all.push(object("cq", Kind::Cq, (*attr).cq as usize));
        }
        all.extend(srq(context, &(*attr).attr));
        all
    }
}

pub unsafe fn modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> Arguments {
    let size = with(|shadow| shadow.srqs.get(&(srq as usize)).map(|srq| srq.max)).flatten();
    // SAFETY: see the module above.
    let limit = unsafe { (*attr).srq_limit };
    let mut all = vec![
        object("srq", Kind::Srq, srq as usize),
        bits(
            "srq_attr_mask",
            mask as u32 as u64,
            u64::from(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT),
        ),
    ];
    if mask as u32 & IBV_SRQ_LIMIT != 0 {
        let meaning = "the limit is a number of receives that the SRQ, of this size, can have";
        all.push(number(
            "srq_limit",
            limit,
            0,
            size.unwrap_or(u32::MAX),
            meaning,
        ));
    }
    all
}

/// # Safety
/// `context` is open and wrapped.
unsafe fn port(member: &'static str, context: *mut ibv_context, value: u8) -> Argument {
    // SAFETY: the context is open and wrapped, as the caller promises.
    let ports = unsafe { device(context) }.map_or(u8::MAX, |device| device.phys_port_cnt);
    number(member, value, 1, ports, PORT)
}

pub unsafe fn create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> Arguments {
    // SAFETY: see the module above.
    unsafe {
        vec![
            object("pd", Kind::Pd, pd as usize),
            port("attr.port_num", (*pd).context, (*attr).port_num),
            number(
                "attr.sl",
                (*attr).sl,
                0,
                15_u8,
                "a service level has 4 bits",
            ),
        ]
    }
}

pub unsafe fn query_port(context: *mut ibv_context, value: u8) -> Arguments {
    // SAFETY: see the module above.
    vec![unsafe { port("port_num", context, value) }]
}

pub fn reg_mr(pd: *mut ibv_pd, access: c_int) -> Arguments {
    vec![
        object("pd", Kind::Pd, pd as usize),
        bits("access", u64::from(access as u32), KNOWN_ACCESS.into()),
    ]
}

pub fn alloc_mw(pd: *mut ibv_pd, kind: ibv_mw_type) -> Arguments {
    let meaning = "it is IBV_MW_TYPE_1 or IBV_MW_TYPE_2";
    vec![
        object("pd", Kind::Pd, pd as usize),
        number("mw_type", kind, 1, 2_u32, meaning),
    ]
}

pub unsafe fn bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> Arguments {
    // SAFETY: see the module above.
    let (mw_type, info) = unsafe { ((*mw).type_, (*bind).bind_info) };
    let mut all = vec![
        object("qp", Kind::Qp, qp as usize),
        object("mw", Kind::Mw, mw as usize),
        reason(
            mw_type != IBV_MW_TYPE_1,
            "the window is of type 2",
            "ibv_bind_mw binds windows of type 1 only",
            "post a request with IBV_WR_BIND_MW, or allocate a window of type 1",
        ),
    ];
    all.extend(binding(
        info.mr as usize,
        info.addr,
        info.length,
        info.mw_access_flags,
    ));
    all
}

/// The arguments that say what a window is bound to: the region, the range, the access flags.
pub fn binding(mr: usize, addr: u64, length: u64, access: c_uint) -> Arguments {
    let region = with(|shadow| shadow.mrs.get(mr).copied()).flatten();
    let mut all = vec![optional("bind_info.mr", Kind::Mr, mr)];
    if let Some((what, why, todo)) = region.and_then(|region| {
        let range = (addr, length);
        binding::wrong(&region, range, access)
    }) {
        all.push(reason(true, what, why, todo));
    }
    all
}

pub unsafe fn attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid) -> Arguments {
    // SAFETY: see the module above. All members of the union have the same 16 bytes, of any value.
    let (kind, raw) = unsafe { ((*qp).qp_type, (*gid).raw) };
    let is_group = matches!(
        super::super::check::gid::AddressKind::of(&raw),
        super::super::check::gid::AddressKind::Multicast
    );
    vec![
        object("qp", Kind::Qp, qp as usize),
        reason(
            kind != IBV_QPT_UD,
            "the queue pair is not of type UD",
            "only datagrams are multicast",
            "attach a UD queue pair",
        ),
        reason(
            !is_group,
            format!(
                "the GID {} is not that of a group",
                super::super::check::gid::address(&raw)
            ),
            "the GID of a multicast group begins with ff, or is ::ffff:224.0.0.0 to ::ffff:239.255.255.255",
            "pass the group's GID",
        ),
    ]
}
