//! Functions through which librdmacm.a queries the kernel. They call libnl, and their signatures have its
//! types. They are an archive member of their own, so that only programs linked with librdmacm.a need
//! libnl.

use core::{
    ffi::{c_char, c_int, c_uint, c_void},
    ptr::null_mut,
};

use ibverbs_abi::{
    RDMA_NL_NLDEV, RDMA_NLDEV_ATTR_CHARDEV_TYPE, RDMA_NLDEV_ATTR_DEV_INDEX,
    RDMA_NLDEV_CMD_GET_CHARDEV,
};

/// `struct nl_sock`, `struct nl_msg`
type Opaque = *mut c_void;
type Callback = unsafe extern "C" fn(Opaque, *mut c_void) -> c_int;
type ErrorCallback = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void) -> c_int;

// enum nl_cb_type and enum nl_cb_kind of libnl
const NL_CB_VALID: c_uint = 0;
const NL_CB_CUSTOM: c_uint = 3;
unsafe extern "C" {
    fn nl_socket_alloc() -> Opaque;
    fn nl_socket_free(socket: Opaque);
    fn nl_socket_disable_auto_ack(socket: Opaque);
    fn nl_socket_disable_msg_peek(socket: Opaque);
    fn nl_connect(socket: Opaque, protocol: c_int) -> c_int;
    fn nlmsg_alloc_simple(kind: c_int, flags: c_int) -> Opaque;
    fn nlmsg_free(message: Opaque);
    fn nla_put_u32(message: Opaque, kind: c_int, value: u32) -> c_int;
    fn nla_put_string(message: Opaque, kind: c_int, value: *const c_char) -> c_int;
    fn nl_send_auto(socket: Opaque, message: Opaque) -> c_int;
    fn nl_socket_modify_cb(
        socket: Opaque,
        kind: c_uint,
        how: c_uint,
        function: Option<Callback>,
        data: *mut c_void,
    ) -> c_int;
    fn nl_socket_modify_err_cb(
        socket: Opaque,
        how: c_uint,
        function: Option<ErrorCallback>,
        data: *mut c_void,
    ) -> c_int;
    fn nl_recvmsgs_default(socket: Opaque) -> c_int;
}

/// Returns a libnl socket that is connected to NETLINK_RDMA, or NULL. The caller frees it with
/// nl_socket_free().
pub extern "C" fn rdmanl_socket_alloc() -> Opaque {
    // SAFETY: the socket is not NULL when it is used, and is freed only if it is not returned.
    unsafe {
        let socket = nl_socket_alloc();
        if socket.is_null() {
            return null_mut();
        }
        nl_socket_disable_auto_ack(socket);
        nl_socket_disable_msg_peek(socket);
        if nl_connect(socket, libc::NETLINK_RDMA) != 0 {
            nl_socket_free(socket);
            return null_mut();
        }
        socket
    }
}

/// An error callback that sets the flag `seen`.
unsafe extern "C" fn note_error(
    _from: *mut c_void,
    _error: *mut c_void,
    seen: *mut c_void,
) -> c_int {
    // SAFETY: `receive` registers this with the address of its flag, a bool.
    unsafe { *seen.cast::<bool>() = true };
    0
}

/// Queries the character device of kind `name` that belongs to device `index`, or to no device if that is -1.
/// Calls `callback` with each reply and `data`. Returns 0, or -1 if the kernel reports an error.
///
/// # Safety
/// `socket` is from [`rdmanl_socket_alloc`], `name` is a C string, and `data` is of the type that `callback`
/// expects.
pub unsafe extern "C" fn rdmanl_get_chardev(
    socket: Opaque,
    index: c_int,
    name: *const c_char,
    callback: Option<Callback>,
    data: *mut c_void,
) -> c_int {
    const KIND: c_int = (RDMA_NL_NLDEV << 10 | RDMA_NLDEV_CMD_GET_CHARDEV) as c_int;
    const DEV_INDEX: c_int = RDMA_NLDEV_ATTR_DEV_INDEX as c_int;
    const CHARDEV_TYPE: c_int = RDMA_NLDEV_ATTR_CHARDEV_TYPE as c_int;
    // SAFETY: the socket is alive and `name` a C string, as the caller promises; the message is not NULL
    // when it is used, and is freed once.
    unsafe {
        let message = nlmsg_alloc_simple(KIND, 0);
        if message.is_null() {
            return -1;
        }
        let complete = (index == -1 || nla_put_u32(message, DEV_INDEX, index as u32) >= 0)
            && nla_put_string(message, CHARDEV_TYPE, name) >= 0;
        let sent = complete && nl_send_auto(socket, message) >= 0;
        nlmsg_free(message);
        if sent {
            receive(socket, callback, data)
        } else {
            -1
        }
    }
}

/// Receives all replies and calls `callback` with each. Returns 0, or -1 if one is an error.
///
/// # Safety
/// `socket` is from [`rdmanl_socket_alloc`], and `data` is of the type that `callback` expects.
unsafe fn receive(socket: Opaque, callback: Option<Callback>, data: *mut c_void) -> c_int {
    let mut failed = false;
    let flag = (&raw mut failed).cast();
    // SAFETY: the socket is alive, as the caller promises. The flag outlives the error callback, which is
    // removed before the function returns.
    unsafe {
        if nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, callback, data) != 0
            || nl_socket_modify_err_cb(socket, NL_CB_CUSTOM, Some(note_error), flag) != 0
        {
            return -1;
        }
        let mut received = 1;
        while received > 0 {
            received = nl_recvmsgs_default(socket);
        }
        nl_socket_modify_err_cb(socket, NL_CB_CUSTOM, None, null_mut());
        if received != 0 || flag.cast::<bool>().read() {
            -1
        } else {
            0
        }
    }
}
