//! Likely reasons of failures for which no other rule has found the cause: of errno values as the manual
//! pages give them, and of completion statuses. Also the names of statuses and of operations. Pure tables;
//! the first row that fits is used.

use ibverbs_abi::*;
use libc::*;

/// A row: the call ("" stands for all), the errno value, the possible reasons (the most likely first), and
/// how to decide between them.
type Row = (&'static str, i32, &'static str, &'static str);

const ERRORS: &[Row] = &[
    (
        "ibv_create_qp",
        EINVAL,
        "possible: send_cq or recv_cq is NULL, destroyed or of another device; a size in cap, inline data \
         for example, is more than the device has; qp_type is not one that it has; or a reserved flag is set",
        "compare the arguments with ibv_query_device, and set the whole ibv_qp_init_attr to zero before",
    ),
    (
        "ibv_create_qp",
        ENOMEM,
        "the device has no room for these queues, or the limit of locked memory is reached",
        "create smaller queues, destroy queue pairs, or raise RLIMIT_MEMLOCK",
    ),
    (
        "ibv_modify_qp",
        EINVAL,
        "possible: an attribute has a value that the device does not have (port_num, pkey_index, \
         sgid_index, a path_mtu above active_mtu of the port, rd_atomic above the device's), or \
         cur_qp_state is not the state",
        "compare the arguments with ibv_query_device and ibv_query_port, and the state with ibv_query_qp",
    ),
    (
        "ibv_create_ah",
        EINVAL,
        "possible: port_num is 0 or more than phys_port_cnt, sgid_index is not in the GID table, \
         is_global is 0 on RoCE, or dgid is not a valid address",
        "set port_num, is_global = 1, and a grh.sgid_index that `ibv_devinfo -v` shows",
    ),
    (
        "ibv_create_cq",
        EINVAL,
        "possible: cqe is less than 1 or more than max_cqe, comp_vector is not less than \
         num_comp_vectors, or an attribute or its comp_mask bit is unknown to the device",
        "compare cqe with max_cqe of ibv_query_device, and comp_vector with context->num_comp_vectors",
    ),
    (
        "ibv_create_srq",
        EINVAL,
        "possible: a size in attr is 0 or above the device's, or srq_type, xrcd or cq do not fit each other",
        "compare attr with max_srq_wr and max_srq_sge, and set the fields that srq_type needs",
    ),
    (
        "ibv_post_send",
        EINVAL,
        "possible: the opcode or a flag is not one of this queue pair's type, a READ or an atomic is posted \
         with max_rd_atomic 0, inline data is too long, num_sge is too large, the address handle of a UD \
         request is missing, or the state does not allow it",
        "examine *bad_wr, the request that was refused; the ones before it were posted",
    ),
    (
        "ibv_post_recv",
        EINVAL,
        "possible: num_sge is too large, the queue pair is in RESET, or it has an SRQ, to which receives \
         are posted with ibv_post_srq_recv",
        "examine *bad_wr, the receive that was refused; the ones before it were posted",
    ),
    (
        "ibv_post_",
        ENOMEM,
        "the queue is full: its slots are free only when completions have been polled",
        "poll the CQ before posting more; set IBV_SEND_SIGNALED now and then; or create a larger queue",
    ),
    (
        "ibv_reg_",
        EINVAL,
        "possible: the access flags contradict each other (remote write and atomics need \
         IBV_ACCESS_LOCAL_WRITE; on-demand paging needs a device that has it), the length is 0 or too large, \
         or an offset or descriptor is not of the memory",
        "check the access flags, address and length",
    ),
    (
        "ibv_reg_mr",
        EOPNOTSUPP,
        "the device does not have an access flag that was given, IBV_ACCESS_ON_DEMAND for example",
        "ask ibv_query_device_ex for it (odp_caps), and register without the flag",
    ),
    (
        "ibv_attach_mcast",
        EINVAL,
        "possible: the queue pair is not UD, the GID is not a multicast address, or the state is RESET",
        "attach a UD queue pair, in INIT or later, to a GID that begins with ff",
    ),
    (
        "ibv_bind_mw",
        EINVAL,
        "possible: the region lacks IBV_ACCESS_MW_BIND, the range leaves it, the window is of type 2 or of \
         another PD, or the access flags need more than the region has",
        "register the region with IBV_ACCESS_MW_BIND, and compare range and flags",
    ),
    (
        "ibv_query_port",
        EINVAL,
        "ports are numbered from 1 to phys_port_cnt of ibv_query_device",
        "use a port in that range; most devices have only port 1",
    ),
    (
        "",
        EINVAL,
        "an argument is invalid: a number out of its range, an unknown flag or comp_mask bit, or an object \
         that is NULL, destroyed or of another device or protection domain",
        "compare each argument with the manual page of the call and with ibv_query_device",
    ),
    (
        "",
        ENOMEM,
        "no memory, or no more objects of this kind on the device, or the limit of locked memory is reached",
        "check `ulimit -l` and `rdma resource show`, and destroy what is not used",
    ),
    (
        "ibv_destroy_qp",
        EBUSY,
        "the queue pair is still attached to a multicast group (ibv_attach_mcast)",
        "detach it with ibv_detach_mcast before",
    ),
    (
        "",
        EBUSY,
        "other objects still use this one",
        "destroy queue pairs before CQs, SRQs and PDs; memory regions, windows and address handles before \
         their PD; CQs before their completion channel",
    ),
    (
        "",
        EPERM,
        "the program lacks a privilege: raw packets and flow rules need CAP_NET_RAW",
        "run with the capability, or without that feature",
    ),
    (
        "",
        EACCES,
        "access to the memory or the device is denied",
        "compare the protection of the mapping with the access flags, and check the device file's mode",
    ),
    (
        "ibv_memcpy_",
        EFAULT,
        "host_addr is not memory of the program, of this length, that can be read (ibv_memcpy_to_dm) or \
         written to (ibv_memcpy_from_dm)",
        "check host_addr and length",
    ),
    (
        "ibv_import_",
        ENOENT,
        "the device has no object with this handle: it was destroyed, or the handle is of another device",
        "pass the handle of the object (mr->handle, pd->handle, dm->handle) that the other process has sent",
    ),
    (
        "",
        EFAULT,
        "an address is not mapped, or not with the needed protection",
        "check address and length; memory must stay mapped while it is registered",
    ),
    (
        "",
        EAGAIN,
        "the device or the kernel is short of a resource for the moment, or a limit is reached",
        "check `ulimit -l`, and try again",
    ),
    (
        "",
        EBADF,
        "a file descriptor that an argument names is not open, or is not of the kind that the call needs",
        "check the descriptor: what the call that opened it returned, and that it is not closed since",
    ),
    (
        "",
        EIO,
        "the device has failed, or was removed",
        "read the asynchronous events (ibv_get_async_event) and `dmesg`, and open the device anew",
    ),
    (
        "",
        ENODEV,
        "the device, or its network interface, is gone",
        "check `rdma link`, and open the device anew",
    ),
    (
        "",
        ETIMEDOUT,
        "the peer's address was not resolved, or the device did not answer",
        "check that the peer's GID is right and reachable (`ping`)",
    ),
    (
        "",
        ENOENT,
        "something that an argument names does not exist",
        "check indices and handles",
    ),
];

/// The reasons for an error of a call, and what to do.
pub fn of_error(call: &str, errno: i32) -> (&'static str, &'static str) {
    ERRORS
        .iter()
        .find(|(prefix, value, ..)| *value == errno && call.starts_with(prefix))
        .map_or(
            (
                "the device or the kernel refused the call, for a reason that is not known here",
                "see the manual page of the call, `dmesg`, and VERBS_LOG_LEVEL=4 with VERBS_LOG_FILE",
            ),
            |(_, _, why, todo)| (*why, *todo),
        )
}

/// The reasons for an error status, if no other rule knows the cause, and what to do.
pub fn of_status(status: u32) -> (&'static str, &'static str) {
    match status {
        IBV_WC_LOC_LEN_ERR => (
            "possible: a message was longer than the receive that it consumed (UD: the receive needs 40 \
             bytes more, for the GRH), or a request was longer than the port allows (UD: the path MTU)",
            "post receives as large as the largest message, and send at most that much",
        ),
        IBV_WC_LOC_QP_OP_ERR => (
            "possible: the request is not one of this queue pair's type, its READs or atomics have \
             max_rd_atomic 0, or its memory keys are wrong",
            "compare opcode, max_rd_atomic and lkeys with how the queue pair was set up",
        ),
        IBV_WC_LOC_PROT_ERR => (
            "the keys and ranges of the scatter/gather list are right as far as is known here; possible: \
             the memory was freed or unmapped while it was registered, or its key is a memory window's",
            "keep memory mapped until it is deregistered and all its requests have completed",
        ),
        IBV_WC_MW_BIND_ERR => (
            "possible: the window is of type 2 and bound already, the region lacks IBV_ACCESS_MW_BIND, the \
             range leaves the region, the window is of another PD, or the access flags need more than the \
             region has; or a key to invalidate is not that of a window which this queue pair has bound",
            "invalidate a window of type 2 before it is bound again, register the region with \
             IBV_ACCESS_MW_BIND, and compare range and flags",
        ),
        IBV_WC_REM_INV_REQ_ERR => (
            "the peer found the request invalid; possible: its receive is too small for the message, the \
             queue pair there lacks the right in qp_access_flags, its max_dest_rd_atomic is less than \
             max_rd_atomic here, or an atomic is not aligned to 8 bytes",
            "compare the length with the peer's receive, and look for the error that the peer reports",
        ),
        IBV_WC_REM_ACCESS_ERR => (
            "the peer refused the access: rkey, address, length or access flags of its region",
            "compare rkey, address and length with the peer's region and its access flags",
        ),
        IBV_WC_REM_OP_ERR => (
            "the peer could not complete the request; possible: the receive that it posted has a wrong \
             lkey or freed memory, or its queue pair failed",
            "look for the error that the peer's completions report",
        ),
        IBV_WC_REM_INV_RD_REQ_ERR => (
            "the peer does not take more READs or atomics",
            "set max_dest_rd_atomic of the peer to max_rd_atomic of this side at least",
        ),
        IBV_WC_BAD_RESP_ERR => (
            "the peer answered with a response that does not fit the request; possible: both sides \
             were not reset before they were connected anew",
            "exchange new PSNs, and modify both queue pairs to RESET first",
        ),
        _ => (
            "the device reports no more than the status",
            "read the asynchronous events (ibv_get_async_event), `dmesg`, and the peer's completions",
        ),
    }
}

/// The asynchronous events that report an error: the name, what it means, and what to do.
pub fn of_event(event: u32) -> Option<(&'static str, &'static str, &'static str)> {
    const NEXT: &str = "read the completions of the queue pair for the request that failed, then \
    modify it to RESET and \
         connect it anew";
    Some(match event {
        IBV_EVENT_QP_FATAL => (
            "IBV_EVENT_QP_FATAL",
            "the queue pair is in ERR: its completions could not be delivered, as its CQ had overrun, or the \
             device failed",
            NEXT,
        ),
        IBV_EVENT_QP_REQ_ERR => (
            "IBV_EVENT_QP_REQ_ERR",
            "the responder has received an invalid request from the peer, and the queue pair is in ERR; \
             possible: an operation that its qp_access_flags do not allow, more READs than its \
             max_dest_rd_atomic, or a message that does not fit the receive",
            "compare the peer's request with qp_access_flags, max_dest_rd_atomic and the receives here",
        ),
        IBV_EVENT_QP_ACCESS_ERR => (
            "IBV_EVENT_QP_ACCESS_ERR",
            "the peer has requested an access that was refused, and the queue pair is in ERR: rkey, address, \
             length or access flags of the region here do not fit",
            "compare the rkey and address that were sent to the peer with the region and its access flags",
        ),
        IBV_EVENT_PATH_MIG_ERR => (
            "IBV_EVENT_PATH_MIG_ERR",
            "the queue pair could not move to its alternate path",
            "check the alternate path, or load none",
        ),
        IBV_EVENT_DEVICE_FATAL => (
            "IBV_EVENT_DEVICE_FATAL",
            "the device has failed, or was removed: all calls with it fail from now on",
            "check `dmesg`, destroy all objects, close the device, and open it anew when it is there",
        ),
        IBV_EVENT_PORT_ERR => (
            "IBV_EVENT_PORT_ERR",
            "the port has gone down: cable, switch or `ip link set down`",
            "wait for IBV_EVENT_PORT_ACTIVE; requests fail when their retries are exhausted",
        ),
        IBV_EVENT_SRQ_ERR => (
            "IBV_EVENT_SRQ_ERR",
            "the SRQ cannot give receives any more, and its queue pairs fail",
            "destroy its queue pairs and the SRQ, and create them anew",
        ),
        IBV_EVENT_WQ_FATAL => (
            "IBV_EVENT_WQ_FATAL",
            "the work queue has failed",
            "move it to RESET, or destroy it",
        ),
        _ => return None,
    })
}

/// A status as ibv_wc_status_str(3) says it.
pub fn status_text(status: u32) -> &'static str {
    match status {
        IBV_WC_LOC_LEN_ERR => "local length error",
        IBV_WC_LOC_QP_OP_ERR => "local QP operation error",
        IBV_WC_LOC_PROT_ERR => "local protection error",
        IBV_WC_WR_FLUSH_ERR => "flushed",
        IBV_WC_MW_BIND_ERR => "memory bind operation error",
        IBV_WC_BAD_RESP_ERR => "bad response error",
        IBV_WC_LOC_ACCESS_ERR => "local access error",
        IBV_WC_REM_INV_REQ_ERR => "remote invalid request error",
        IBV_WC_REM_ACCESS_ERR => "remote access error",
        IBV_WC_REM_OP_ERR => "remote operation error",
        IBV_WC_RETRY_EXC_ERR => "transport retry counter exceeded",
        IBV_WC_RNR_RETRY_EXC_ERR => "RNR retry counter exceeded",
        IBV_WC_FATAL_ERR => "fatal error",
        IBV_WC_RESP_TIMEOUT_ERR => "response timeout error",
        _ => "error",
    }
}

/// The name of an operation in messages.
pub fn operation(opcode: u32) -> &'static str {
    match opcode {
        IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => "RDMA WRITE",
        IBV_WR_SEND | IBV_WR_SEND_WITH_IMM | IBV_WR_SEND_WITH_INV => "SEND",
        IBV_WR_RDMA_READ => "RDMA READ",
        IBV_WR_ATOMIC_CMP_AND_SWP => "compare and swap",
        IBV_WR_ATOMIC_FETCH_AND_ADD => "fetch and add",
        IBV_WR_ATOMIC_WRITE => "atomic write",
        IBV_WR_FLUSH => "flush",
        IBV_WR_BIND_MW => "bind",
        IBV_WR_LOCAL_INV => "local invalidate",
        _ => "request",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_the_call_is_used_before_that_of_all() {
        let (why, _) = of_error("ibv_create_qp_ex", EINVAL);
        assert!(why.contains("send_cq"), "{why}");
        let (why, _) = of_error("ibv_alloc_pd", EINVAL);
        assert!(why.starts_with("an argument is invalid"), "{why}");
        let (why, _) = of_error("ibv_alloc_pd", EXDEV);
        assert!(why.contains("not known here"), "{why}");
    }

    #[test]
    fn no_row_hides_another() {
        for (at, (prefix, errno, ..)) in ERRORS.iter().enumerate() {
            let first = |row: &Row| row.1 == *errno && prefix.starts_with(row.0);
            assert_eq!(ERRORS.iter().position(first), Some(at), "{prefix} {errno}");
        }
    }

    #[test]
    fn each_status_has_a_text_of_its_own() {
        let special = [
            IBV_WC_LOC_LEN_ERR,
            IBV_WC_LOC_PROT_ERR,
            IBV_WC_REM_INV_REQ_ERR,
            IBV_WC_REM_OP_ERR,
        ];
        for status in special {
            assert_ne!(of_status(status), of_status(IBV_WC_GENERAL_ERR));
        }
    }
}
