//! Flow steering rules.

use core::slice;

use ibverbs_abi::*;
use libc::{EINVAL, ENOMEM, c_int, c_void};

use super::{
    destroy::Destroy,
    flow_spec::{self, HANDLE, KERNEL_MAX, Names},
};
use crate::uverbs::{scratch::Scratch, state::Op, write};

/// Creates a flow of `flow_attr` and the specifications behind it; `ucmd` is the provider's part.
///
/// # Safety
/// All pointers are live; `flow_attr` is followed by as many specifications as it says, each as long
/// as it says; `ucmd` is null or readable for `ucmd_size` bytes.
pub unsafe extern "C" fn ibv_cmd_create_flow(
    qp: *mut ibv_qp,
    flow_id: *mut ibv_flow,
    flow_attr: *mut ibv_flow_attr,
    ucmd: *mut c_void,
    ucmd_size: usize,
) -> c_int {
    const HEADER: usize = size_of::<ibv_create_flow>();
    // SAFETY: by the contract; the command is written within its length, which has room for the
    // largest form of each specification and for the provider's part.
    unsafe {
        let attr = &*flow_attr;
        let specs = usize::from(attr.num_of_specs);
        let len = HEADER + specs * KERNEL_MAX + ucmd_size;
        let Some(mut command) = Scratch::<256>::new(len) else {
            return Errno(ENOMEM).returned();
        };
        send(qp, flow_id, attr, command.bytes(), ucmd, ucmd_size)
    }
}

/// Builds the command in `command`, which is zeroed and long enough, and sends it.
///
/// # Safety
/// As for [`ibv_cmd_create_flow`]; `attr` is the one with the specifications behind it, and `command`
/// is aligned to 8 bytes.
unsafe fn send(
    qp: *mut ibv_qp,
    flow_id: *mut ibv_flow,
    attr: *const ibv_flow_attr,
    command: &mut [u8],
    ucmd: *mut c_void,
    ucmd_size: usize,
) -> c_int {
    const HEADER: usize = size_of::<ibv_create_flow>();
    // SAFETY: by the contract.
    unsafe {
        let mut len = HEADER;
        let mut spec = attr.add(1).cast::<u8>();
        for _ in 0..(*attr).num_of_specs {
            let header = &*spec.cast::<ibv_flow_spec_u_hdr>();
            let size = usize::from(header.size);
            let readable = size.max(flow_spec::least_size(header.type_));
            let mut kernel = [0; KERNEL_MAX];
            let (kernel_size, names) =
                match flow_spec::to_kernel(slice::from_raw_parts(spec, readable), &mut kernel) {
                    Ok(translated) => translated,
                    Err(error) => return error.returned(),
                };
            let handle = match names {
                Names::Nothing => None,
                Names::Action(at) => Some((*(at as *const verbs_flow_action)).handle),
                Names::Counters(at) => Some((*(at as *const verbs_counters)).handle),
            };
            if let Some(handle) = handle {
                kernel[HANDLE..HANDLE + 4].copy_from_slice(&handle.to_ne_bytes());
            }
            let Some(room) = command.get_mut(len..len + kernel_size) else {
                return Errno(EINVAL).returned();
            };
            room.copy_from_slice(&kernel[..kernel_size]);
            len += kernel_size;
            spec = spec.add(size);
        }
        let core_len = len;
        if !ucmd.is_null() {
            let Some(room) = command.get_mut(len..len + ucmd_size) else {
                return Errno(EINVAL).returned();
            };
            room.copy_from_slice(slice::from_raw_parts(ucmd.cast(), ucmd_size));
            len += ucmd_size;
        }
        let request = command.as_mut_ptr().cast::<ibv_create_flow>();
        let to = &mut (*request).core_payload;
        to.qp_handle = (*qp).handle;
        to.flow_attr.type_ = (*attr).type_;
        to.flow_attr.size = (core_len - HEADER) as u16;
        to.flow_attr.priority = (*attr).priority;
        to.flow_attr.num_of_specs = (*attr).num_of_specs;
        to.flow_attr.port = (*attr).port;
        to.flow_attr.flags = (*attr).flags;
        let mut response = ib_uverbs_create_flow_resp::default();
        let response_len = size_of_val(&response);
        let ret = write::execute_ex_sized(
            (*qp).context,
            IB_USER_VERBS_EX_CMD_CREATE_FLOW,
            request.cast(),
            core_len,
            len,
            (&raw mut response).cast(),
            response_len,
            response_len,
        );
        if ret == 0 {
            (*flow_id).context = (*qp).context;
            (*flow_id).handle = response.flow_handle;
        }
        ret
    }
}

/// Destroys a flow.
///
/// # Safety
/// `flow_id` is live.
pub unsafe extern "C" fn ibv_cmd_destroy_flow(flow_id: *mut ibv_flow) -> c_int {
    const DESTROY: Destroy = Destroy {
        // Not a mistake: the C library remembers this command's support together with the AHs'.
        op: Op::DestroyAh,
        object: UVERBS_OBJECT_FLOW,
        method: UVERBS_METHOD_FLOW_DESTROY,
        handle: UVERBS_ATTR_DESTROY_FLOW_HANDLE,
        write: IB_USER_VERBS_EX_CMD_DESTROY_FLOW,
    };
    // SAFETY: by the contract.
    unsafe { DESTROY.handle_only_ex((*flow_id).context, (*flow_id).handle) }
}
