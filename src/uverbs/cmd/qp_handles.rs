//! The objects that the attributes of a new queue pair name, by their handles.

use ibverbs_abi::*;
use libc::EINVAL;

/// The handles of the objects that a QP uses; `None` for what its type does not have. Functions out of line
/// get it by value, so that it stays in registers elsewhere.
#[derive(Clone, Copy)]
pub struct Handles {
    /// The PD's, or the XRC domain's for IBV_QPT_XRC_RECV.
    pub pd: u32,
    pub send_cq: Option<u32>,
    pub recv_cq: Option<u32>,
    pub srq: Option<u32>,
    pub rwq_ind_tbl: Option<u32>,
}

impl Handles {
    /// The handles of what `attr` names. EINVAL for a combination that its QP type does not allow.
    ///
    /// # Safety
    /// The objects that `attr` must name for its QP type are live.
    #[inline(always)]
    pub unsafe fn of(attr: &mut ibv_qp_init_attr_ex) -> Result<Self, Errno> {
        let mut handles = Handles {
            pd: 0,
            send_cq: None,
            recv_cq: None,
            // SAFETY: `srq` is null or live.
            srq: unsafe { attr.srq.as_ref() }.map(|srq| srq.handle),
            rwq_ind_tbl: None,
        };
        match attr.qp_type {
            IBV_QPT_XRC_RECV => {
                if attr.comp_mask & IBV_QP_INIT_ATTR_XRCD == 0 {
                    return Errno(EINVAL).fail();
                }
                // SAFETY: comp_mask says that `xrcd` is there; providers allocate a verbs_xrcd.
                handles.pd = unsafe { (*attr.xrcd.cast::<verbs_xrcd>()).handle };
            }
            IBV_QPT_RC | IBV_QPT_UD | IBV_QPT_UC | IBV_QPT_RAW_PACKET | IBV_QPT_XRC_SEND
            | IBV_QPT_DRIVER => {
                if attr.comp_mask & IBV_QP_INIT_ATTR_PD == 0 {
                    return Errno(EINVAL).fail();
                }
                // SAFETY: comp_mask says that `pd` is there.
                handles.pd = unsafe { (*attr.pd).handle };
                if attr.comp_mask & IBV_QP_INIT_ATTR_IND_TABLE != 0 {
                    if has_receive_queue(attr) {
                        return Errno(EINVAL).fail();
                    }
                    // SAFETY: comp_mask says that `rwq_ind_tbl` is there.
                    handles.rwq_ind_tbl =
                        Some(unsafe { (*attr.rwq_ind_tbl).ind_tbl_handle as u32 });
                    // A QP that only receives needs no send CQ.
                    if attr.cap.max_send_wr != 0 {
                        // SAFETY: a QP with a send queue names its CQ.
                        handles.send_cq = Some(unsafe { (*attr.send_cq).handle });
                    }
                } else {
                    // SAFETY: a QP with a send queue names its CQ.
                    handles.send_cq = Some(unsafe { (*attr.send_cq).handle });
                    if attr.qp_type != IBV_QPT_XRC_SEND {
                        // SAFETY: a QP with a receive queue names its CQ.
                        handles.recv_cq = Some(unsafe { (*attr.recv_cq).handle });
                    }
                }
                if attr.qp_type == IBV_QPT_XRC_SEND {
                    attr.cap.max_recv_wr = 0;
                    attr.cap.max_recv_sge = 0;
                }
            }
            _ => return Errno(EINVAL).fail(),
        }
        Ok(handles)
    }
}

/// Whether `attr` asks for a receive queue or an SRQ, which a QP with an indirection table cannot have.
#[inline(always)]
fn has_receive_queue(attr: &ibv_qp_init_attr_ex) -> bool {
    attr.cap.max_recv_wr != 0
        || attr.cap.max_recv_sge != 0
        || !attr.recv_cq.is_null()
        || !attr.srq.is_null()
}
