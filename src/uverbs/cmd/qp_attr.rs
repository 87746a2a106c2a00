//! Modifying and querying a queue pair's attributes.

use core::mem::{MaybeUninit, offset_of};

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP, c_int};

use super::to_c;
use crate::uverbs::{uhw::Buffer, write};

/// The attributes that the plain legacy command can carry: all before IBV_QP_RATE_LIMIT.
const PLAIN_MASK: u32 = IBV_QP_RATE_LIMIT - 1;

/// An address vector as the kernel reads it.
fn to_kernel(ah: &ibv_ah_attr) -> ib_uverbs_qp_dest {
    ib_uverbs_qp_dest {
        // SAFETY: both members of the union are 16 bytes, of which any value is valid.
        dgid: unsafe { ah.grh.dgid.raw },
        flow_label: ah.grh.flow_label,
        dlid: ah.dlid,
        reserved: 0,
        sgid_index: ah.grh.sgid_index,
        hop_limit: ah.grh.hop_limit,
        traffic_class: ah.grh.traffic_class,
        sl: ah.sl,
        src_path_bits: ah.src_path_bits,
        static_rate: ah.static_rate,
        is_global: ah.is_global,
        port_num: ah.port_num,
    }
}

/// An address vector as the kernel wrote it.
fn from_kernel(dest: &ib_uverbs_qp_dest) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: dest.dgid },
            flow_label: dest.flow_label,
            sgid_index: dest.sgid_index,
            hop_limit: dest.hop_limit,
            traffic_class: dest.traffic_class,
        },
        dlid: dest.dlid,
        sl: dest.sl,
        src_path_bits: dest.src_path_bits,
        static_rate: dest.static_rate,
        is_global: dest.is_global,
        port_num: dest.port_num,
    }
}

/// Copies the attributes that `mask` names. The rest of the request stays as the provider left it.
#[inline(always)]
fn fill(qp: &ibv_qp, attr: &ibv_qp_attr, mask: u32, to: &mut ib_uverbs_modify_qp) {
    /// `if mask has the bit, request.member = attr.member`, for each line.
    macro_rules! copy {
        ($( $bit:ident: $( $member:ident ),+; )+) => {
            $( if mask & $bit != 0 { $( to.$member = attr.$member as _; )+ } )+
        };
    }
    to.qp_handle = qp.handle;
    to.attr_mask = mask;
    copy! {
        IBV_QP_STATE: qp_state;
        IBV_QP_CUR_STATE: cur_qp_state;
        IBV_QP_EN_SQD_ASYNC_NOTIFY: en_sqd_async_notify;
        IBV_QP_ACCESS_FLAGS: qp_access_flags;
        IBV_QP_PKEY_INDEX: pkey_index;
        IBV_QP_PORT: port_num;
        IBV_QP_QKEY: qkey;
        IBV_QP_PATH_MTU: path_mtu;
        IBV_QP_TIMEOUT: timeout;
        IBV_QP_RETRY_CNT: retry_cnt;
        IBV_QP_RNR_RETRY: rnr_retry;
        IBV_QP_RQ_PSN: rq_psn;
        IBV_QP_MAX_QP_RD_ATOMIC: max_rd_atomic;
        IBV_QP_ALT_PATH: alt_pkey_index, alt_port_num, alt_timeout;
        IBV_QP_MIN_RNR_TIMER: min_rnr_timer;
        IBV_QP_SQ_PSN: sq_psn;
        IBV_QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic;
        IBV_QP_PATH_MIG_STATE: path_mig_state;
        IBV_QP_DEST_QPN: dest_qp_num;
    }
    if mask & IBV_QP_AV != 0 {
        to.dest = to_kernel(&attr.ah_attr);
    }
    if mask & IBV_QP_ALT_PATH != 0 {
        to.alt_dest = to_kernel(&attr.alt_ah_attr);
    }
    to.reserved = [0; 2];
}

/// Modifies a QP.
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    cmd: *mut ibv_modify_qp,
    cmd_size: usize,
) -> c_int {
    to_c(|| {
        let mask = attr_mask as u32;
        if mask & !PLAIN_MASK != 0 {
            return Err(Errno(EOPNOTSUPP));
        }
        let buffer = Buffer::of_provider(cmd, cmd_size);
        // SAFETY: `qp`, its context and `attr` are live; `cmd` begins with the request and has its size.
        unsafe {
            fill(&*qp, &*attr, mask, &mut (*cmd).core_payload);
            write::execute_request((*qp).context, IB_USER_VERBS_CMD_MODIFY_QP, buffer)
        }
    })
}

/// Modifies a QP, its rate limit too.
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_modify_qp_ex(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    cmd: *mut ibv_modify_qp_ex,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_modify_qp_resp,
    resp_size: usize,
) -> c_int {
    /// Where the rate limit ends in the command. A provider's structure may be shorter.
    const RATE_LIMIT_END: usize = offset_of!(ibv_modify_qp_ex, core_payload)
        + offset_of!(ib_uverbs_ex_modify_qp, rate_limit)
        + size_of::<u32>();
    to_c(|| {
        let mask = attr_mask as u32;
        // SAFETY: `qp`, its context and `attr` are live; `cmd` and `resp` have these sizes.
        unsafe {
            fill(&*qp, &*attr, mask, &mut (*cmd).core_payload.base);
            if mask & IBV_QP_RATE_LIMIT != 0 {
                if cmd_size < RATE_LIMIT_END {
                    return Err(Errno(EINVAL));
                }
                (*cmd).core_payload.rate_limit = (*attr).rate_limit;
            }
            write::execute_ex(
                (*qp).context,
                IB_USER_VERBS_EX_CMD_MODIFY_QP,
                Buffer::of_provider(cmd, cmd_size),
                Buffer::of_provider(resp, resp_size),
            )
        }
    })
}

/// Queries a QP.
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
    cmd: *mut ibv_query_qp,
    cmd_size: usize,
) -> c_int {
    /// `attr.member = response.member`, for each.
    macro_rules! copy {
        ($to:expr, $from:expr; $( $member:ident )+) => { $( $to.$member = $from.$member as _; )+ };
    }
    to_c(|| {
        let mask = attr_mask as u32;
        if mask & !PLAIN_MASK != 0 {
            return Err(Errno(EOPNOTSUPP));
        }
        // SAFETY: `qp`, `attr` and `init_attr` are live, each a structure of its own.
        let (qp, attr, init_attr) = unsafe { (&*qp, &mut *attr, &mut *init_attr) };
        let mut response = MaybeUninit::<ib_uverbs_query_qp_resp>::uninit();
        // SAFETY: the QP's context is open; `cmd` is `cmd_size` bytes long; the kernel fills the response.
        let response = unsafe {
            (*cmd).core_payload.qp_handle = qp.handle;
            (*cmd).core_payload.attr_mask = mask;
            write::execute(
                qp.context,
                IB_USER_VERBS_CMD_QUERY_QP,
                Buffer::of_provider(cmd, cmd_size),
                Buffer::core(response.as_mut_ptr()),
            )?;
            response.assume_init_ref()
        };
        copy!(attr, response; qkey rq_psn sq_psn dest_qp_num qp_access_flags pkey_index
              alt_pkey_index qp_state cur_qp_state path_mtu path_mig_state sq_draining max_rd_atomic
              max_dest_rd_atomic min_rnr_timer port_num timeout retry_cnt rnr_retry alt_port_num
              alt_timeout);
        copy!(attr.cap, response;
              max_send_wr max_recv_wr max_send_sge max_recv_sge max_inline_data);
        attr.ah_attr = from_kernel(&response.dest);
        attr.alt_ah_attr = from_kernel(&response.alt_dest);

        copy!(init_attr, qp; qp_context send_cq recv_cq srq qp_type);
        init_attr.cap = attr.cap;
        init_attr.sq_sig_all = response.sq_sig_all.into();
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_vector_survives_the_way_there_and_back() {
        let mut bytes = [0u8; size_of::<ib_uverbs_qp_dest>()];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = i as u8 + 1;
        }
        // SAFETY: the structure is plain integers without padding.
        let dest: ib_uverbs_qp_dest = unsafe { core::mem::transmute(bytes) };
        let back = to_kernel(&from_kernel(&dest));
        // SAFETY: the structure is plain integers without padding.
        let back: [u8; size_of::<ib_uverbs_qp_dest>()] = unsafe { core::mem::transmute(back) };
        // The reserved word is written as zero.
        bytes[22..24].fill(0);
        assert_eq!(back, bytes);
    }

    #[test]
    fn only_named_attributes_are_copied() {
        // SAFETY: all members are plain integers, for which zeros are valid.
        let (mut qp, mut attr, mut to): (ibv_qp, ibv_qp_attr, ib_uverbs_modify_qp) =
            unsafe { core::mem::zeroed() };
        qp.handle = 5;
        attr.qp_state = IBV_QPS_RTS;
        attr.timeout = 14;
        attr.rq_psn = 99;
        to.rq_psn = 7;
        fill(&qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT, &mut to);
        assert_eq!(
            (to.qp_handle, to.attr_mask),
            (5, IBV_QP_STATE | IBV_QP_TIMEOUT)
        );
        assert_eq!(
            (u32::from(to.qp_state), to.timeout, to.rq_psn),
            (IBV_QPS_RTS, 14, 7)
        );
    }
}
