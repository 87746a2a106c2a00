//! Commands of flow steering rules.

use core::slice;

use ibverbs_abi::*;
use libc::{EINVAL, c_int, c_void};

use super::{
    flow_spec::{self, HANDLE, KERNEL_MAX, Names},
    to_c,
};
use crate::uverbs::{scratch::Scratch, uhw::Buffer, write};

/// The bytes of the command in front of the specifications.
const HEADER: usize = size_of::<ibv_create_flow>();

/// Creates a flow of `flow_attr` and the specifications behind it. `ucmd` is the provider's part.
///
/// # Safety
/// `qp` and `flow_id` are live; `flow_attr` is followed by as many specifications as it says, each as long
/// as it says, and what they name is live; `ucmd` is null or readable for `ucmd_size` bytes.
pub unsafe extern "C" fn ibv_cmd_create_flow(
    qp: *mut ibv_qp,
    flow_id: *mut ibv_flow,
    flow_attr: *mut ibv_flow_attr,
    ucmd: *mut c_void,
    ucmd_size: usize,
) -> c_int {
    to_c(|| {
        // SAFETY: `flow_attr` is live, and `ucmd` readable unless it is null.
        let (specs, uhw) = unsafe {
            let uhw = match ucmd.is_null() {
                true => &[],
                false => slice::from_raw_parts(ucmd.cast::<u8>(), ucmd_size),
            };
            (usize::from((*flow_attr).num_of_specs), uhw)
        };
        let mut command = Scratch::<256>::new(HEADER + specs * KERNEL_MAX + ucmd_size)?;
        let mut len = HEADER;
        // SAFETY: the specifications follow `flow_attr`.
        unsafe { add_specs(flow_attr, command.bytes(), &mut len)? };
        let core_len = len;
        append(command.bytes(), &mut len, uhw)?;
        let request = Buffer {
            at: command.bytes().as_mut_ptr(),
            len,
        };
        // SAFETY: `qp`, `flow_attr` and `flow_id` are live, and the command is `len` bytes long.
        unsafe { send(&*qp, &mut *flow_id, &*flow_attr, request, core_len) }
    })
}

/// Copies `bytes` to `command` at `len`, which moves behind them. EINVAL if they do not fit.
fn append(command: &mut [u8], len: &mut usize, bytes: &[u8]) -> Result<(), Errno> {
    let Some(room) = command.get_mut(*len..*len + bytes.len()) else {
        return Errno(EINVAL).fail();
    };
    room.copy_from_slice(bytes);
    *len += bytes.len();
    Ok(())
}

/// Appends the kernel's form of the specifications to `command`.
///
/// # Safety
/// As for [`ibv_cmd_create_flow`].
unsafe fn add_specs(
    attr: *const ibv_flow_attr,
    command: &mut [u8],
    len: &mut usize,
) -> Result<(), Errno> {
    // SAFETY: `attr` is live, and followed by its specifications.
    let (mut spec, count) = unsafe { (attr.add(1).cast::<u8>(), (*attr).num_of_specs) };
    for _ in 0..count {
        // SAFETY: another specification begins here; it is as long as its header says, or as its type is.
        let (size, bytes) = unsafe {
            let header = &*spec.cast::<ibv_flow_spec_u_hdr>();
            let size = usize::from(header.size);
            let readable = size.max(flow_spec::least_size(header.type_));
            (size, slice::from_raw_parts(spec, readable))
        };
        let mut kernel = [0; KERNEL_MAX];
        let (kernel_size, names) =
            flow_spec::to_kernel(bytes, &mut kernel).or_else(|errno| errno.fail())?;
        // SAFETY: the specification holds the address of a live action or live counters.
        let handle = unsafe {
            match names {
                Names::Nothing => None,
                Names::Action(at) => Some((*(at as *const verbs_flow_action)).handle),
                Names::Counters(at) => Some((*(at as *const verbs_counters)).handle),
            }
        };
        if let Some(handle) = handle {
            kernel[HANDLE..HANDLE + 4].copy_from_slice(&handle.to_ne_bytes());
        }
        append(command, len, &kernel[..kernel_size])?;
        // SAFETY: the next specification, if any, follows this one.
        spec = unsafe { spec.add(size) };
    }
    Ok(())
}

/// Completes the command's front and sends it. `core_len` is its length without the provider's part.
///
/// # Safety
/// The QP's context is open; `request` is valid for its length, zeroed in front, and aligned to 8 bytes.
unsafe fn send(
    qp: &ibv_qp,
    flow: &mut ibv_flow,
    attr: &ibv_flow_attr,
    request: Buffer<u8>,
    core_len: usize,
) -> Result<(), Errno> {
    // SAFETY: the request begins with the library's part.
    let to = unsafe { &mut (*request.at.cast::<ibv_create_flow>()).core_payload };
    to.qp_handle = qp.handle;
    to.flow_attr.type_ = attr.type_;
    to.flow_attr.size = (core_len - HEADER) as u16;
    to.flow_attr.priority = attr.priority;
    to.flow_attr.num_of_specs = attr.num_of_specs;
    to.flow_attr.port = attr.port;
    to.flow_attr.flags = attr.flags;
    let mut response = ib_uverbs_create_flow_resp::default();
    let answer = Buffer::core(&raw mut response);
    let parts = write::Parts {
        request: request.cast(),
        core_request_len: core_len,
        core_response_len: answer.len,
        response: answer.cast(),
    };
    // SAFETY: the context is open, the request valid for its length, the response a local.
    unsafe { write::execute_ex_sized(qp.context, IB_USER_VERBS_EX_CMD_CREATE_FLOW, &parts)? };
    flow.context = qp.context;
    flow.handle = response.flow_handle;
    Ok(())
}
