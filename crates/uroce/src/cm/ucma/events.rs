//! The events of ids (`rdma_ucm_event_resp`).

use super::event_queue::EVENT_LEN;
use super::id::PathRecord;
use super::input::ReplyWriter;
use roce::engine::Gid;

/// `enum rdma_cm_event_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    AddrResolved = 0,
    AddrError = 1,
    RouteResolved = 2,
    ConnectRequest = 4,
    ConnectResponse = 5,
    Unreachable = 7,
    Rejected = 8,
    Established = 9,
    Disconnected = 10,
    DeviceRemoval = 11,
    MulticastJoin = 12,
    AddrChange = 14,
    TimewaitExit = 15,
    /// The program has written it ([`super::input::Command::WriteCmEvent`]).
    User = 18,
    /// The same, by librdmacm.
    Internal = 19,
}

/// The parameters of an event.
#[derive(Clone, Debug, Default)]
pub enum Parameters {
    #[default]
    None,
    Connection(ConnectionParams),
    Datagram(DatagramParams),
    /// The bytes that the program has written.
    Argument(u64),
}

/// `rdma_ucm_conn_param`.
#[derive(Clone, Debug, Default)]
pub struct ConnectionParams {
    pub qpn: u32,
    pub private: Vec<u8>,
    pub srq: bool,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: bool,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub vendor_id: u32,
    pub options: u32,
}

/// `rdma_ucm_ud_param`.
#[derive(Clone, Debug, Default)]
pub struct DatagramParams {
    pub qpn: u32,
    pub qkey: u32,
    pub private: Vec<u8>,
    pub address: Option<AddressHandle>,
}

/// `ib_uverbs_ah_attr`, as far as RoCE uses it.
#[derive(Clone, Copy, Debug)]
pub struct AddressHandle {
    pub dgid: Gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub sl: u8,
}

impl AddressHandle {
    /// The address handle of a path.
    pub fn of(path: &PathRecord, sgid_index: u8) -> AddressHandle {
        AddressHandle {
            dgid: path.route.dgid,
            flow_label: path.route.flow_label,
            sgid_index,
            hop_limit: path.hop_limit,
            traffic_class: path.route.traffic_class,
            sl: path.sl,
        }
    }

    /// Appends the structure, 32 bytes.
    pub fn write(&self, to: ReplyWriter) -> ReplyWriter {
        to.bytes(&self.dgid)
            .u32(self.flow_label)
            .u8(self.sgid_index)
            .u8(self.hop_limit)
            .u8(self.traffic_class)
            .u8(0)
            // No LID.
            .u16(0)
            .u8(self.sl)
            // Source path bits, static rate; is_global; the port.
            .u8(0)
            .u8(0)
            .u8(1)
            .u8(1)
            .u8(0)
    }
}

/// An event without the id.
pub struct Notice {
    pub kind: EventType,
    /// As in `rdma_cm_event.status`.
    pub status: i32,
    pub parameters: Parameters,
}

impl Notice {
    /// An event without parameters.
    pub fn plain(kind: EventType) -> Notice {
        Notice::failed(kind, 0)
    }

    /// An event with a status.
    pub fn failed(kind: EventType, status: i32) -> Notice {
        Notice {
            kind,
            status,
            parameters: Parameters::None,
        }
    }
}

pub(super) fn bytes_of(uid: u64, number: u32, notice: &Notice) -> Box<[u8; EVENT_LEN]> {
    const PARAMETERS: usize = 20;
    let head = ReplyWriter::default()
        .u64(uid)
        .u32(number)
        .u32(notice.kind as u32)
        .u32(notice.status as u32);
    let (reply, options) = match &notice.parameters {
        Parameters::None => (head, (0, 0)),
        Parameters::Argument(argument) => (head.u64(*argument), (0, 0)),
        Parameters::Connection(conn) => {
            let reply = head
                .u32(conn.qpn)
                .u32(0)
                .bytes(&conn.private)
                .pad_to(PARAMETERS + 8 + 256)
                .u8(conn.private.len() as u8)
                .u8(conn.srq.into())
                .u8(conn.responder_resources)
                .u8(conn.initiator_depth)
                .u8(conn.flow_control.into())
                .u8(conn.retry_count)
                .u8(conn.rnr_retry_count)
                .u8(0);
            (reply, (conn.vendor_id, conn.options))
        }
        Parameters::Datagram(ud) => {
            let mut reply = head.u32(ud.qpn).u32(ud.qkey);
            if let Some(address) = &ud.address {
                reply = address.write(reply);
            }
            let reply = reply
                .pad_to(PARAMETERS + 8 + 32)
                .bytes(&ud.private)
                .pad_to(PARAMETERS + 8 + 32 + 256)
                .u8(ud.private.len() as u8);
            (reply, (0, 0))
        }
    };
    let reply = reply.pad_to(EVENT_LEN - 8).u32(options.0).u32(options.1);
    let mut bytes = Box::new([0; EVENT_LEN]);
    bytes.copy_from_slice(&reply.0[..EVENT_LEN]);
    bytes
}
