//! Receive work queue indirection tables.

use ibverbs_abi::*;
use libc::{EINVAL, ENOMEM, c_int};

use super::destroy::Destroy;
use crate::uverbs::{scratch::Scratch, state::Op, write};

/// Creates an indirection table of 2^`log_ind_tbl_size` work queues.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes, and the table has as many
/// members as it says.
pub unsafe extern "C" fn ibv_cmd_create_rwq_ind_table(
    context: *mut ibv_context,
    init_attr: *mut ibv_rwq_ind_table_init_attr,
    rwq_ind_table: *mut ibv_rwq_ind_table,
    resp: *mut ib_uverbs_ex_create_rwq_ind_table_resp,
    resp_size: usize,
) -> c_int {
    const HEADER: usize = size_of::<ibv_create_rwq_ind_table>();
    // SAFETY: by the contract; the command is written within its length only.
    unsafe {
        let attr = &*init_attr;
        if attr.comp_mask >= IBV_CREATE_IND_TABLE_RESERVED {
            return EINVAL;
        }
        let Some(entries) = 1usize
            .checked_shl(attr.log_ind_tbl_size)
            .filter(|n| *n <= 1 << 24)
        else {
            Errno(EINVAL).set();
            return EINVAL;
        };
        // Extended commands are counted in words of eight bytes.
        let len = (HEADER + entries * size_of::<u32>()).next_multiple_of(8);

        let Some(mut command) = Scratch::<64>::new(len) else {
            Errno(ENOMEM).set();
            return ENOMEM;
        };
        let cmd = command
            .bytes()
            .as_mut_ptr()
            .cast::<ibv_create_rwq_ind_table>();
        (*cmd).core_payload.log_ind_tbl_size = attr.log_ind_tbl_size;
        let handles = (&raw mut (*cmd).core_payload.wq_handles).cast::<u32>();
        for i in 0..entries {
            handles.add(i).write((**attr.ind_tbl.add(i)).handle);
        }
        let ret = write::execute_ex_sized(
            context,
            IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL,
            cmd.cast(),
            len,
            len,
            resp.cast(),
            size_of::<ib_uverbs_ex_create_rwq_ind_table_resp>(),
            resp_size,
        );
        if ret != 0 {
            return ret;
        }
        if ((*resp).response_length as usize) < size_of::<ib_uverbs_ex_create_rwq_ind_table_resp>()
        {
            return EINVAL;
        }
        (*rwq_ind_table).ind_tbl_handle = (*resp).ind_tbl_handle as c_int;
        (*rwq_ind_table).ind_tbl_num = (*resp).ind_tbl_num as c_int;
        (*rwq_ind_table).context = context;
    }
    0
}

/// Destroys an indirection table.
///
/// # Safety
/// `rwq_ind_table` is live.
pub unsafe extern "C" fn ibv_cmd_destroy_rwq_ind_table(
    rwq_ind_table: *mut ibv_rwq_ind_table,
) -> c_int {
    const DESTROY: Destroy = Destroy {
        // Not a mistake: the C library remembers this command's support together with the AHs'.
        op: Op::DestroyAh,
        object: UVERBS_OBJECT_RWQ_IND_TBL,
        method: UVERBS_METHOD_RWQ_IND_TBL_DESTROY,
        handle: UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE,
        write: IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL,
    };
    // SAFETY: by the contract.
    unsafe {
        DESTROY.handle_only_ex(
            (*rwq_ind_table).context,
            (*rwq_ind_table).ind_tbl_handle as u32,
        )
    }
}
