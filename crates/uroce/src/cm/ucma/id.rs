//! The ids of a program (`rdma_cm_id`), as the kernel's rdma_cm has them.

use super::address::Address;
use super::os::{FileId, Port};
use roce::cm::agent::Route;
use roce::cm::mad::ConnectionType;

/// Port spaces, `rdma_ucm_port_space`.
pub mod space {
    /// RDMA_PS_IPOIB: multicast groups of IPoIB.
    pub const IPOIB: u16 = 0x0002;
    /// RDMA_PS_TCP: connections.
    pub const TCP: u16 = 0x0106;
    /// RDMA_PS_UDP: datagrams.
    pub const UDP: u16 = 0x0111;
    /// RDMA_PS_IB: any service, with InfiniBand addresses.
    pub const IB: u16 = 0x013f;
}

/// The type of the queue pair, as in `ibv_qp_type`.
pub mod qp_type {
    /// IBV_QPT_RC.
    pub const RC: u8 = 2;
    /// IBV_QPT_UC.
    pub const UC: u8 = 3;
    /// IBV_QPT_UD.
    pub const UD: u8 = 4;
    /// IBV_QPT_XRC_SEND.
    pub const XRC_SEND: u8 = 9;
    /// IBV_QPT_XRC_RECV.
    pub const XRC_RECV: u8 = 10;
}

/// The Q_Key of queue pairs that belong to an id.
pub const UDP_QKEY: u32 = 0x0123_4567;
/// The encoded packet lifetime of a route.
const PACKET_LIFETIME: u8 = 16;
/// The hop limit of unicast and IPv4 multicast.
pub const HOP_LIMIT: u8 = 64;
/// The rate of a route: 10 Gbit/s.
const RATE: u8 = 3;

/// The state of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdState {
    Idle,
    Bound,
    /// The next hop is not known yet.
    AddressQuery,
    AddressResolved,
    RouteResolved,
    /// Connected, connecting, or asked for a connection.
    Connect,
    Disconnect,
    Listen,
    /// The device is gone.
    Removed,
}

/// The devices that an id can be used with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// uroce's.
    Uroce,
    /// The kernel's: its rdma_cm has the id, under this number.
    Kernel(u32),
    /// The devices of both, as the id has a wildcard address: the kernel has a counterpart of this
    /// number.
    Both(u32),
}

impl Devices {
    /// The kernel's number of the id or of its counterpart.
    pub fn in_kernel(self) -> Option<u32> {
        match self {
            Devices::Uroce => None,
            Devices::Kernel(number) | Devices::Both(number) => Some(number),
        }
    }
}

/// A path to a peer, as a path record describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRecord {
    pub route: Route,
    /// As in `ibv_qp_attr.path_mtu`.
    pub mtu: u8,
    pub hop_limit: u8,
    pub sl: u8,
    pub rate: u8,
    /// Encoded.
    pub lifetime: u8,
}

/// The attributes that a queue pair of a connection needs for its transitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpAttributes {
    pub path_mtu: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub sq_psn: u32,
    pub ack_timeout: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
}

/// An id.
pub struct Id<R> {
    pub file: FileId,
    /// The program's name for the id in events; 0 for a requested connection that is not accepted
    /// yet.
    pub uid: u64,
    /// Events that the program has read.
    pub events_reported: u32,
    /// Requests that may still be queued.
    pub backlog: u32,
    pub space: u16,
    pub qp_type: u8,
    pub state: IdState,
    pub src: Option<Address>,
    pub dst: Option<Address>,
    /// The position in [`super::os::CmOs::devices`].
    pub device: Option<usize>,
    pub route: Option<Route>,
    pub path: Option<PathRecord>,
    /// The communication ID.
    pub connection: Option<u32>,
    pub attributes: QpAttributes,
    /// The first PSN that the peer sends.
    pub psn: u32,
    pub qpn: u32,
    pub srq: bool,
    pub tos: Option<u8>,
    pub ack_timeout: Option<u8>,
    pub reuse_address: bool,
    /// The wildcard address stands for one family only.
    pub family_only: bool,
    /// The program has set `family_only`.
    pub family_only_set: bool,
    pub port: Option<Port>,
    pub reservation: Option<R>,
    /// Enhanced connection establishment.
    pub vendor_id: u32,
    pub options: u32,
    pub multicasts: Vec<u32>,
    pub devices: Devices,
    /// The options of the id that the program has set: their names and values.
    pub settings: Vec<(u32, Vec<u8>)>,
}

impl<R> Id<R> {
    /// An id with which nothing has been done.
    pub fn new(file: FileId, uid: u64, space: u16, qp_type: u8, random: u32) -> Id<R> {
        Id {
            file,
            uid,
            events_reported: 0,
            backlog: 0,
            space,
            qp_type,
            state: IdState::Idle,
            src: None,
            dst: None,
            device: None,
            route: None,
            path: None,
            connection: None,
            attributes: QpAttributes::default(),
            psn: random & 0xff_ffff,
            qpn: 0,
            srq: false,
            tos: None,
            ack_timeout: None,
            reuse_address: false,
            family_only: false,
            family_only_set: false,
            port: None,
            reservation: None,
            vendor_id: 0,
            options: 0,
            multicasts: Vec::new(),
            devices: Devices::Uroce,
            settings: Vec::new(),
        }
    }

    /// Whether its events have the parameters of datagram services.
    pub fn is_datagram(&self) -> bool {
        self.qp_type == qp_type::UD
    }

    /// The transport service that its REQ asks for; None for a datagram service.
    pub fn connection_type(&self) -> Option<ConnectionType> {
        match self.qp_type {
            qp_type::RC => Some(ConnectionType::Rc),
            qp_type::UC => Some(ConnectionType::Uc),
            qp_type::XRC_SEND => Some(ConnectionType::Xrc),
            _ => None,
        }
    }

    /// The service ID of an address of its port space.
    pub fn service_id(&self, address: &Address) -> u64 {
        match address {
            Address::Ib(ib) => ib.service_id,
            Address::Ip(ip) => Port {
                space: self.space,
                number: ip.port(),
            }
            .service_id(),
        }
    }

    /// The path that a route over the device's port has.
    pub fn path_of(&self, route: Route, active_mtu: u8) -> PathRecord {
        PathRecord {
            route,
            mtu: active_mtu,
            hop_limit: HOP_LIMIT,
            sl: 0,
            rate: RATE,
            lifetime: self
                .ack_timeout
                .map_or(PACKET_LIFETIME, |timeout| timeout.saturating_sub(1)),
        }
    }
}
