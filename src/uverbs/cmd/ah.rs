//! Address handles.

use core::mem::MaybeUninit;

use ibverbs_abi::*;
use libc::c_int;

use super::destroy::Destroy;
use crate::uverbs::{
    state::Op,
    write::{self, Placed},
};

/// Creates an address handle.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes.
pub unsafe extern "C" fn ibv_cmd_create_ah(
    pd: *mut ibv_pd,
    ah: *mut ibv_ah,
    attr: *mut ibv_ah_attr,
    resp: *mut ib_uverbs_create_ah_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: by the contract; the request is on this stack.
    unsafe {
        let mut request = MaybeUninit::<ibv_create_ah>::uninit();
        let attr = &*attr;
        (&raw mut (*request.as_mut_ptr()).core_payload).write(ib_uverbs_create_ah {
            response: 0,
            user_handle: ah as u64,
            pd_handle: (*pd).handle,
            reserved: 0,
            attr: ib_uverbs_ah_attr {
                grh: ib_uverbs_global_route {
                    dgid: attr.grh.dgid.raw,
                    flow_label: attr.grh.flow_label,
                    sgid_index: attr.grh.sgid_index,
                    hop_limit: attr.grh.hop_limit,
                    traffic_class: attr.grh.traffic_class,
                    reserved: 0,
                },
                dlid: attr.dlid,
                sl: attr.sl,
                src_path_bits: attr.src_path_bits,
                static_rate: attr.static_rate,
                is_global: attr.is_global,
                port_num: attr.port_num,
                reserved: 0,
            },
            driver_data: [],
        });
        let ret = write::execute(
            (*pd).context,
            IB_USER_VERBS_CMD_CREATE_AH,
            Placed::alone(request.as_mut_ptr()),
            Placed::whole(resp, resp_size),
        );
        if ret != 0 {
            return ret;
        }
        (*ah).handle = (*resp).ah_handle;
        (*ah).context = (*pd).context;
    }
    0
}

/// Destroys an address handle.
///
/// # Safety
/// `ah` is live.
pub unsafe extern "C" fn ibv_cmd_destroy_ah(ah: *mut ibv_ah) -> c_int {
    const DESTROY: Destroy = Destroy {
        op: Op::DestroyAh,
        object: UVERBS_OBJECT_AH,
        method: UVERBS_METHOD_AH_DESTROY,
        handle: UVERBS_ATTR_DESTROY_AH_HANDLE,
        write: IB_USER_VERBS_CMD_DESTROY_AH,
    };
    // SAFETY: by the contract.
    unsafe { DESTROY.handle_only((*ah).context, (*ah).handle) }
}
