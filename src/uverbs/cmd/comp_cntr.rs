//! Commands of completion counters (provider ABI 65).

use ibverbs_abi::*;
use libc::{EINVAL, c_int};

use super::{mr::LINK_ROOM, to_c};
use crate::uverbs::{ioctl::Command, linked};

/// The public flags of operations (IBV_QP_ATTACH_COMP_CNTR_OP_*) and the kernel's.
const OPERATIONS: [(u32, u32); 6] = [
    (
        IBV_QP_ATTACH_COMP_CNTR_OP_SEND,
        IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND,
    ),
    (
        IBV_QP_ATTACH_COMP_CNTR_OP_RECV,
        IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RECV,
    ),
    (
        IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ,
        IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_READ,
    ),
    (
        IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ,
        IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ,
    ),
    (
        IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE,
        IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE,
    ),
    (
        IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE,
        IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE,
    ),
];

/// The kernel's flags of a public mask of operations; unknown ones are left out.
fn to_kernel(mask: u32) -> u32 {
    let given = OPERATIONS.iter().filter(|(public, _)| mask & public != 0);
    given.fold(0, |flags, (_, kernel)| flags | kernel)
}

/// The public mask of the kernel's flags of operations; unknown ones are left out.
fn from_kernel(flags: u32) -> u32 {
    let given = OPERATIONS.iter().filter(|(_, kernel)| flags & kernel != 0);
    given.fold(0, |mask, (public, _)| mask | public)
}

/// Queries what the device's counters can do. EINVAL if `caps_size` is less than the structure's size.
///
/// # Safety
/// `context` is open; `caps` is writable for `caps_size` bytes.
pub unsafe extern "C" fn ibv_cmd_query_comp_cntr_caps(
    context: *mut ibv_context,
    caps: *mut ibv_comp_cntr_caps,
    caps_size: usize,
) -> c_int {
    if caps_size < size_of::<ibv_comp_cntr_caps>() {
        return EINVAL;
    }
    let mut operations = 0u32;
    let (object, method) = (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_COMP_CNTR_CAPS);
    let mut cmd = Command::<3>::new(object, method);
    // SAFETY: `context` is open, `caps` has the structure's size, and the other output is a local.
    to_c(|| unsafe {
        cmd.output(
            UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS,
            &raw mut (*caps).max_counters,
        );
        cmd.output(
            UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE,
            &raw mut (*caps).max_value,
        );
        cmd.output(
            UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS,
            &raw mut operations,
        );
        cmd.execute(context)?;
        (*caps).supported_qp_attach_ops = from_kernel(operations);
        Ok(())
    })
}

/// Creates a completion counter.
///
/// # Safety
/// As the module [`cmd`](super) says; `counter` is live.
pub unsafe extern "C" fn ibv_cmd_create_comp_cntr(
    context: *mut ibv_context,
    counter: *mut ibv_comp_cntr,
    link: *mut ibv_command_buffer,
) -> c_int {
    const ROOM: usize = 1 + LINK_ROOM;
    let mut cmd = Command::<ROOM>::new(UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_CREATE);
    let handle = cmd.new_object(UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE);
    // SAFETY: `context` is open, `counter` and `link` are live.
    to_c(|| unsafe {
        (*counter).context = context;
        linked::execute(context, &mut cmd, link)?;
        (*counter).handle = cmd.created(handle);
        Ok(())
    })
}

/// Changes one of a counter's two values: `entry` is IB_UVERBS_COMP_CNTR_ENTRY_*, `op`
/// IB_UVERBS_COMP_CNTR_MODIFY_OP_*.
///
/// # Safety
/// `counter` is live, and its context open.
unsafe fn modify(counter: *mut ibv_comp_cntr, entry: u32, op: u32, value: u64) -> c_int {
    let mut cmd = Command::<4>::new(UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_MODIFY);
    // SAFETY: `counter` is live and its context open; the command has no pointers.
    to_c(|| unsafe {
        cmd.object(UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE, (*counter).handle);
        cmd.u64(UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY, entry.into());
        cmd.u64(UVERBS_ATTR_MODIFY_COMP_CNTR_OP, op.into());
        cmd.u64(UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE, value);
        cmd.execute((*counter).context)
    })
}

/// Reads one of a counter's two values.
///
/// # Safety
/// `counter` is live, and its context open; `value` is writable.
unsafe fn read(counter: *mut ibv_comp_cntr, entry: u32, value: *mut u64) -> c_int {
    let mut cmd = Command::<3>::new(UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_READ);
    // SAFETY: `counter` is live and its context open; `value` is writable.
    to_c(|| unsafe {
        cmd.object(UVERBS_ATTR_READ_COMP_CNTR_HANDLE, (*counter).handle);
        cmd.u64(UVERBS_ATTR_READ_COMP_CNTR_ENTRY, entry.into());
        cmd.output(UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE, value);
        cmd.execute((*counter).context)
    })
}

macro_rules! modifies {
    ($( #[doc = $doc:literal] $name:ident: $entry:ident, $op:ident; )+) => { $(
        #[doc = $doc]
        ///
        /// # Safety
        /// `counter` is live, and its context open.
        pub unsafe extern "C" fn $name(counter: *mut ibv_comp_cntr, value: u64) -> c_int {
            // SAFETY: the caller passes a live counter, whose context is open.
            unsafe { modify(counter, $entry, $op, value) }
        }
    )+ };
}
modifies! {
    #[doc = "Sets the count of successful completions."]
    ibv_cmd_set_comp_cntr: IB_UVERBS_COMP_CNTR_ENTRY_COMP, IB_UVERBS_COMP_CNTR_MODIFY_OP_SET;
    #[doc = "Sets the count of failed completions."]
    ibv_cmd_set_err_comp_cntr: IB_UVERBS_COMP_CNTR_ENTRY_ERR, IB_UVERBS_COMP_CNTR_MODIFY_OP_SET;
    #[doc = "Adds to the count of successful completions."]
    ibv_cmd_inc_comp_cntr: IB_UVERBS_COMP_CNTR_ENTRY_COMP, IB_UVERBS_COMP_CNTR_MODIFY_OP_INC;
    #[doc = "Adds to the count of failed completions."]
    ibv_cmd_inc_err_comp_cntr: IB_UVERBS_COMP_CNTR_ENTRY_ERR, IB_UVERBS_COMP_CNTR_MODIFY_OP_INC;
}

/// Reads the count of successful completions.
///
/// # Safety
/// `counter` is live, and its context open; `value` is writable.
pub unsafe extern "C" fn ibv_cmd_read_comp_cntr(
    counter: *mut ibv_comp_cntr,
    value: *mut u64,
) -> c_int {
    // SAFETY: the caller passes a live counter, whose context is open, and a writable value.
    unsafe { read(counter, IB_UVERBS_COMP_CNTR_ENTRY_COMP, value) }
}

/// Reads the count of failed completions.
///
/// # Safety
/// `counter` is live, and its context open; `value` is writable.
pub unsafe extern "C" fn ibv_cmd_read_err_comp_cntr(
    counter: *mut ibv_comp_cntr,
    value: *mut u64,
) -> c_int {
    // SAFETY: the caller passes a live counter, whose context is open, and a writable value.
    unsafe { read(counter, IB_UVERBS_COMP_CNTR_ENTRY_ERR, value) }
}

/// Attaches a counter to a QP, for the operations that `attr` names.
///
/// # Safety
/// `qp`, `counter` and `attr` are live.
pub unsafe extern "C" fn ibv_cmd_qp_attach_comp_cntr(
    qp: *mut ibv_qp,
    counter: *mut ibv_comp_cntr,
    attr: *const ibv_qp_attach_comp_cntr_attr,
) -> c_int {
    let mut cmd = Command::<3>::new(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_ATTACH_COMP_CNTR);
    // SAFETY: `qp`, `counter` and `attr` are live, and the QP's context is open.
    to_c(|| unsafe {
        cmd.object(UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE, (*qp).handle);
        cmd.object(
            UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE,
            (*counter).handle,
        );
        let operations = to_kernel((*attr).op_mask);
        cmd.u32(UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK, operations);
        cmd.execute((*qp).context)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_translated_both_ways() {
        for (public, kernel) in OPERATIONS {
            assert_eq!(to_kernel(public), kernel);
            assert_eq!(from_kernel(kernel), public);
        }
        assert_eq!(to_kernel(u32::MAX), 0x3f);
        assert_eq!(from_kernel(1 << 30), 0);
    }
}
