//! Commands of address handles: creating, destroying.

use core::mem::MaybeUninit;

use ibverbs_abi::*;
use libc::c_int;

use super::to_c;
use crate::uverbs::{uhw::Buffer, write};

/// An address vector as the kernel reads it.
fn to_kernel(attr: &ibv_ah_attr) -> ib_uverbs_ah_attr {
    ib_uverbs_ah_attr {
        grh: ib_uverbs_global_route {
            // SAFETY: both members of the union are 16 bytes, of which any value is valid.
            dgid: unsafe { attr.grh.dgid.raw },
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
    }
}

/// Creates an address handle.
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_create_ah(
    pd: *mut ibv_pd,
    ah: *mut ibv_ah,
    attr: *mut ibv_ah_attr,
    resp: *mut ib_uverbs_create_ah_resp,
    resp_size: usize,
) -> c_int {
    to_c(|| {
        let mut request = MaybeUninit::<ibv_create_ah>::uninit();
        // SAFETY: `pd`, its context, `ah` and `attr` are live; the request is a local; `resp` has its size.
        unsafe {
            (&raw mut (*request.as_mut_ptr()).core_payload).write(ib_uverbs_create_ah {
                response: 0,
                user_handle: ah as u64,
                pd_handle: (*pd).handle,
                reserved: 0,
                attr: to_kernel(&*attr),
                driver_data: [],
            });
            write::execute(
                (*pd).context,
                IB_USER_VERBS_CMD_CREATE_AH,
                Buffer::core(request.as_mut_ptr()),
                Buffer::of_provider(resp, resp_size),
            )?;
            (*ah).handle = (*resp).ah_handle;
            (*ah).context = (*pd).context;
        }
        Ok(())
    })
}
