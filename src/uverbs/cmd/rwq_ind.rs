//! Commands of receive work queue indirection tables.

use ibverbs_abi::*;
use libc::{EINVAL, c_int};

use super::to_c;
use crate::uverbs::{scratch::Scratch, uhw::Buffer, write};

type Response = ib_uverbs_ex_create_rwq_ind_table_resp;

/// Creates an indirection table of 2^`log_ind_tbl_size` work queues, at most 2^24.
///
/// # Safety
/// As the module [`cmd`](super) says; the table has as many members as `log_ind_tbl_size` says, all live.
pub unsafe extern "C" fn ibv_cmd_create_rwq_ind_table(
    context: *mut ibv_context,
    init_attr: *mut ibv_rwq_ind_table_init_attr,
    rwq_ind_table: *mut ibv_rwq_ind_table,
    resp: *mut Response,
    resp_size: usize,
) -> c_int {
    to_c(|| {
        // SAFETY: `init_attr` is live.
        let attr = unsafe { &*init_attr };
        if attr.comp_mask >= IBV_CREATE_IND_TABLE_RESERVED {
            return Err(Errno(EINVAL));
        }
        let entries = 1usize.checked_shl(attr.log_ind_tbl_size);
        let Some(entries) = entries.filter(|entries| *entries <= 1 << 24) else {
            return Errno(EINVAL).fail();
        };
        let resp_buffer = Buffer::of_provider(resp, resp_size);
        // SAFETY: `context` is open, the table has `entries` work queues, `resp` has its size.
        unsafe { create(context, attr, entries, resp_buffer)? };
        // SAFETY: the kernel has filled the response; `rwq_ind_table` is live.
        let (response, table) = unsafe { (&*resp, &mut *rwq_ind_table) };
        if (response.response_length as usize) < size_of::<Response>() {
            return Err(Errno(EINVAL));
        }
        table.ind_tbl_handle = response.ind_tbl_handle as c_int;
        table.ind_tbl_num = response.ind_tbl_num as c_int;
        table.context = context;
        Ok(())
    })
}

/// Builds the command and sends it.
///
/// # Safety
/// `context` is open; the table of `attr` has `entries` members, all live; `response` is valid.
unsafe fn create(
    context: *mut ibv_context,
    attr: &ibv_rwq_ind_table_init_attr,
    entries: usize,
    response: Buffer<Response>,
) -> Result<(), Errno> {
    // An extended command's length is a multiple of eight bytes.
    let len = size_of::<ibv_create_rwq_ind_table>() + entries * size_of::<u32>();
    let len = len.next_multiple_of(8);
    let mut command = Scratch::<64>::new(len)?;
    let cmd = command
        .bytes()
        .as_mut_ptr()
        .cast::<ibv_create_rwq_ind_table>();
    // SAFETY: `cmd` is zeroed and has room for `entries` handles; the table has as many work queues.
    unsafe {
        (*cmd).core_payload.log_ind_tbl_size = attr.log_ind_tbl_size;
        let handles = (&raw mut (*cmd).core_payload.wq_handles).cast::<u32>();
        for i in 0..entries {
            handles.add(i).write((**attr.ind_tbl.add(i)).handle);
        }
    }
    let parts = write::Parts {
        request: Buffer::of_provider(cmd.cast(), len),
        core_request_len: len,
        core_response_len: response.core_len(),
        response: response.cast(),
    };
    // SAFETY: `context` is open, `cmd` is `len` bytes long, the response valid.
    unsafe { write::execute_ex_sized(context, IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL, &parts) }
}
