//! Software devices, which have no kernel driver: the interface between the library and such a device, in
//! place of sysfs and uverbs. rdma-core has no such thing; both sides are in Rust.

use crate::*;

/// A software device's table. `verbs_device.ops` points to its first field.
#[repr(C)]
pub struct verbs_software_ops {
    /// `alloc_context` gets -1 for `cmd_fd`, and sets `async_fd` itself to a file that
    /// [`ib_uverbs_async_event_desc`]s can be read from.
    pub ops: verbs_device_ops,
    /// In network byte order.
    pub node_guid: unsafe extern "C" fn(device: *mut ibv_device) -> u64,
    /// The index that `ibv_get_device_index` returns.
    pub index: unsafe extern "C" fn(device: *mut ibv_device) -> c_int,
    /// Allocates (`malloc`) and fills a channel, whose `fd` yields [`ib_uverbs_comp_event_desc`]s with a
    /// handle for `cq_of_event`. NULL with errno on failure.
    pub create_comp_channel:
        unsafe extern "C" fn(context: *mut ibv_context) -> *mut ibv_comp_channel,
    /// Closes and frees a channel that is no longer in use.
    pub destroy_comp_channel: unsafe extern "C" fn(channel: *mut ibv_comp_channel),
    /// The CQ that an event of a channel names by its handle, or NULL if there is none: the event is none.
    /// Called after each read of the channel's `fd`.
    pub cq_of_event:
        unsafe extern "C" fn(channel: *mut ibv_comp_channel, handle: u64) -> *mut ibv_cq,
    /// The CQ, QP or SRQ that an async event names by its handle, or NULL if there is none: the event is
    /// none. Called after each read of the context's `async_fd`.
    pub object_of_event: unsafe extern "C" fn(
        context: *mut ibv_context,
        event: *const ib_uverbs_async_event_desc,
    ) -> *mut c_void,
    /// Raises an async event, whose element is the handle of a CQ, QP or SRQ, or a port number.
    pub raise_event:
        unsafe extern "C" fn(context: *mut ibv_context, event: *const ib_uverbs_async_event_desc),
    /// Writes an entry of the GID table. Returns 0 or an errno value: ENODATA for an empty entry, EINVAL for
    /// a port or index that does not exist.
    pub query_gid: unsafe extern "C" fn(
        context: *mut ibv_context,
        port_num: u32,
        gid_index: u32,
        entry: *mut ibv_gid_entry,
    ) -> c_int,
    /// Writes up to `max_entries` entries that are not empty. Returns their number, or a negative errno
    /// value.
    pub query_gid_table: unsafe extern "C" fn(
        context: *mut ibv_context,
        entries: *mut ibv_gid_entry,
        max_entries: usize,
    ) -> isize,
    /// Writes a P_Key in network byte order. Returns 0 or an errno value.
    pub query_pkey: unsafe extern "C" fn(
        context: *mut ibv_context,
        port_num: u8,
        index: c_int,
        pkey: *mut u16,
    ) -> c_int,
}

/// The functions of the library that a software device calls.
#[derive(Clone, Copy)]
pub struct verbs_software_core {
    /// `_verbs_init_and_alloc_context`.
    pub init_and_alloc_context: unsafe extern "C" fn(
        device: *mut ibv_device,
        cmd_fd: c_int,
        alloc_size: usize,
        context_offset: *mut verbs_context,
        driver_id: u32,
    ) -> *mut c_void,
    /// The ops of a provider that implements none, for `..*default_ops` in the device's table.
    pub default_ops: &'static verbs_context_ops,
    /// Sets all ops of a context.
    pub set_ops: unsafe fn(context: *mut ibv_context, ops: &verbs_context_ops),
    /// `verbs_uninit_context`.
    pub uninit_context: unsafe extern "C" fn(context: *mut verbs_context),
}

/// A command of rdma_cm that has failed on a software device.
#[derive(Clone, Copy, Debug)]
pub struct CmFailure {
    /// librdmacm's function that gives the command.
    pub call: &'static str,
    /// The errno value that the command fails with.
    pub errno: i32,
    /// The number of the id.
    pub id: u32,
    /// The id's state; None if there is no such id.
    pub state: Option<&'static str>,
    /// The length of the private data of connecting, accepting and rejecting, in bytes.
    pub private_data_len: Option<u8>,
    /// The port space is RDMA_PS_UDP.
    pub is_datagram: bool,
}

/// A program of this host that listens at nearly the port at which a client has looked for one.
#[derive(Clone, Copy, Debug)]
pub struct CmListener {
    /// The port at which nobody listens.
    pub wanted: u16,
    /// The port of the listener.
    pub listens: u16,
    /// The listener is in another port space: RDMA_PS_UDP if true, else RDMA_PS_TCP.
    pub in_udp: Option<bool>,
}

/// A call of a function of librdmacm, by the program itself.
#[derive(Clone, Copy, Debug)]
pub struct CmCall {
    /// The function's name.
    pub name: &'static str,
    /// The arguments of the call as words; those behind its last are 0.
    pub arguments: [usize; 4],
}

/// A step in a program's use of rdma_cm.
#[derive(Clone, Copy, Debug)]
pub enum CmNotice {
    /// A function of librdmacm is about to be called. Its arguments are the program's: pointers may be wrong.
    Calling(CmCall),
    /// The function has returned.
    Returned {
        /// The call.
        call: CmCall,
        /// The function has returned an error, which errno says.
        failed: bool,
    },
    /// A command has failed.
    Failed(CmFailure),
    /// The program has read this event, `rdma_cm_event_type`.
    Event {
        /// The number of the event.
        event: u32,
        /// The status of the event.
        status: i32,
        /// The number of the id.
        id: u32,
    },
    /// The program has an id, which librdmacm knows by a number of its own.
    Known {
        /// The number of the id.
        id: u32,
        /// librdmacm's: the address of its structure.
        uid: u64,
    },
    /// The id's request for a connection was rejected.
    Rejected {
        /// The number of the id.
        id: u32,
    },
    /// The peer's reply to the id's request was confirmed, by librdmacm or by rdma_establish.
    Confirmed {
        /// The number of the id.
        id: u32,
    },
    /// The id is destroyed. librdmacm waits until that number of its events is acknowledged.
    Destroyed {
        /// The number of the id.
        id: u32,
        /// The events that the program has read, of the id.
        events: u32,
    },
}
