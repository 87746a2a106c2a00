//! Queries of an id: its addresses, its device, its paths, and the attributes for its queue pair,
//! in the form of rdma/rdma_user_cm.h.
//!
//! Not here: ids on the kernel's devices, for which the kernel answers (`kernel.rs`).

use ibverbs_abi::Result;
use ibverbs_abi::*;

use super::address::{Address, IbAddress};
use super::events::AddressHandle;
use super::id::{Id, IdState, PathRecord, UDP_QKEY, qp_type, space};
use super::input::{Input, ReplyWriter};
use super::manager::{Caller, Manager};
use super::os::{CmOs, DeviceInfo, FileId};
use super::{EINVAL, ENODEV};
use roce::cm::connection;
use roce::wire::gid_of;

/// Bytes of `rdma_ucm_query_route_resp` and `rdma_ucm_query_addr_resp`. Old programs do not know the
/// device index at their ends.
const ROUTE_LEN_MIN: usize = 200;
const ADDRESS_LEN: usize = 280;
const ADDRESS_LEN_MIN: usize = ADDRESS_LEN - 8;
/// Bytes of a `sockaddr_storage`, and of the IPv6 address that stands for all in older commands.
const STORAGE: usize = 128;
const SOCKADDR_IN6: usize = 28;
/// Bytes of `ib_user_path_rec`.
const USER_PATH_LEN: usize = 64;
/// Bytes of `ib_path_rec_data`.
pub(super) const PATH_LEN: usize = 72;
/// The flags of an IB path record. If there is only one path, all four are set.
const IB_PATH_GMP: u32 = 1 << 0;
const IB_PATH_PRIMARY: u32 = 1 << 1;
const IB_PATH_OUTBOUND: u32 = 1 << 3;
const IB_PATH_INBOUND_REVERSE: u32 = 1 << 5;
pub(super) const PATH_FLAGS: u32 =
    IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_OUTBOUND | IB_PATH_INBOUND_REVERSE;
/// IB_SA_EQ: the value is exact.
const EXACT: u8 = 2;
const PKEY: u16 = 0xffff;

/// `RDMA_USER_CM_QUERY_*`.
const QUERY_ADDRESS: u32 = 0;
const QUERY_PATH: u32 = 1;
const QUERY_GID: u32 = 2;

impl<H: CmOs> Manager<H> {
    pub(super) fn query_route(
        &mut self,
        file: FileId,
        input: Input<'_>,
        caller: &mut Caller<'_>,
    ) -> Result<()> {
        caller.need(ROUTE_LEN_MIN)?;
        let number = self.ids.find(file, input.u32(8))?;
        let device = self.device_of(number);
        let id = self.ids.existing(number)?;
        let guid = device.as_ref().map_or([0; 8], |device| device.node_guid);
        let mut reply = ReplyWriter::default().bytes(&guid);
        let paths = u32::from(device.is_some() && id.path.is_some());
        if device.is_some() {
            reply = match &id.path {
                Some(path) => write_user_path(reply, path),
                None => write_user_gids(reply, id),
            };
        }
        let reply = reply
            .pad_to(8 + 2 * USER_PATH_LEN)
            .address(id.src.as_ref(), SOCKADDR_IN6)
            .address(id.dst.as_ref(), SOCKADDR_IN6)
            .u32(paths)
            .u8(device.is_some().into())
            .bytes(&[0; 3])
            .u32(device.map_or(0, |device| device.index))
            .u32(0);
        caller.reply_some(ROUTE_LEN_MIN, reply)
    }

    pub(super) fn query(
        &mut self,
        file: FileId,
        input: Input<'_>,
        caller: &mut Caller<'_>,
    ) -> Result<()> {
        let number = self.ids.find(file, input.u32(8))?;
        let device = self.device_of(number);
        let id = self.ids.existing(number)?;
        match input.u32(12) {
            QUERY_ADDRESS => {
                caller.need(ADDRESS_LEN_MIN)?;
                let reply = write_addresses(device.as_ref(), id.src, id.dst);
                caller.reply_some(ADDRESS_LEN_MIN, reply)
            }
            QUERY_PATH => {
                caller.need(8)?;
                let paths = id.path.iter().len() as u32;
                let mut reply = ReplyWriter::default().u32(paths).u32(0);
                if let Some(path) = &id.path {
                    if caller.out_len - 8 > PATH_LEN {
                        let service = id.dst.map_or(0, |dst| id.service_id(&dst));
                        reply = write_sa_path(reply.u32(PATH_FLAGS).u32(0), path, service);
                    }
                }
                caller.reply_some(8, reply)
            }
            QUERY_GID => {
                caller.need(ADDRESS_LEN_MIN)?;
                let ib = |address: Option<Address>, gid| {
                    Some(match address {
                        Some(ib @ Address::Ib(_)) => ib,
                        _ => Address::Ib(IbAddress {
                            gid,
                            service_id: address.map_or(0, |address| id.service_id(&address)),
                            service_mask: 0,
                        }),
                    })
                };
                let route = id.route.filter(|_| device.is_some());
                let of = |address: Option<Address>| match address {
                    Some(Address::Ip(ip)) if device.is_some() => gid_of(ip.ip()),
                    _ => [0; 16],
                };
                let src = ib(id.src, route.map_or(of(id.src), |route| route.sgid));
                let dst = ib(id.dst, route.map_or(of(id.dst), |route| route.dgid));
                let reply = write_addresses(device.as_ref(), src, dst);
                caller.reply_some(ADDRESS_LEN_MIN, reply)
            }
            _ => Err(Errno(libc::ENOSYS)),
        }
    }

    pub(super) fn init_qp_attr(
        &mut self,
        file: FileId,
        input: Input<'_>,
        caller: &mut Caller<'_>,
    ) -> Result<()> {
        caller.need(size_of::<ib_uverbs_qp_attr>())?;
        let state = input.u32(12);
        if state > IBV_QPS_ERR {
            return Err(EINVAL);
        }
        let number = self.ids.find_bound(file, input.u32(8))?;
        let device = self.device_of(number).ok_or(ENODEV)?;
        let id = self.ids.existing(number)?;
        let (kind, psn, ack_timeout) = (id.qp_type, id.psn, id.ack_timeout);
        let connection = id.connection.filter(|_| kind != qp_type::UD);
        let mut attr = match connection {
            None => unconnected(kind, id.space),
            Some(connection) => {
                let found = self.agent.connection(connection).ok_or(EINVAL)?;
                let (cm_state, qpn) = (found.state(), found.remote_qpn());
                connected(state, cm_state, qpn, self.ids.existing(number)?, &device)?
            }
        };
        attr.qp_state = state;
        attr.port_num = 1;
        if state == IBV_QPS_RTR {
            attr.rq_psn = psn;
        }
        if attr.qp_attr_mask & IBV_QP_TIMEOUT != 0 {
            if let Some(timeout) = ack_timeout {
                attr.timeout = timeout;
            }
        }
        caller.reply(write_qp_attr(&attr))
    }
}

/// The attributes of an id without a connection, or of a datagram service.
fn unconnected(kind: u8, port_space: u16) -> ib_uverbs_qp_attr {
    let (mask, qkey) = match (kind, port_space) {
        (qp_type::UD, space::IPOIB) => (IBV_QP_QKEY, 0),
        (qp_type::UD, _) => (IBV_QP_QKEY, UDP_QKEY),
        _ => (IBV_QP_ACCESS_FLAGS, 0),
    };
    ib_uverbs_qp_attr {
        qp_attr_mask: IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | mask,
        qkey,
        ..ib_uverbs_qp_attr::default()
    }
}

/// The attributes for a transition to `state`. EINVAL if the connection is not in the state that this
/// requires.
fn connected<R>(
    state: u32,
    cm_state: connection::State,
    remote_qpn: u32,
    id: &Id<R>,
    device: &DeviceInfo,
) -> Result<ib_uverbs_qp_attr> {
    use connection::State::*;
    let requested = matches!(cm_state, ReqReceived);
    let replied = matches!(
        cm_state,
        RepSent | MraRepReceived | RepReceived | Established
    );
    let started = requested || replied || matches!(cm_state, ReqSent | MraReqReceived);
    let attributes = &id.attributes;
    let mut attr = ib_uverbs_qp_attr::default();
    match state {
        IBV_QPS_INIT if started => {
            attr.qp_attr_mask =
                IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
            attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
            if attributes.responder_resources > 0 {
                attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
                if device.flush {
                    attr.qp_access_flags |= IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT;
                }
            }
        }
        IBV_QPS_RTR if requested || replied => {
            attr.qp_attr_mask =
                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
            let path = id.path.ok_or(EINVAL)?;
            let index = device.gid_index(&path.route.sgid).ok_or(ENODEV)?;
            attr.ah_attr = ah_attr(&AddressHandle::of(&path, index));
            attr.path_mtu = attributes.path_mtu.into();
            attr.dest_qp_num = remote_qpn;
            if matches!(id.qp_type, qp_type::RC | qp_type::XRC_RECV) {
                attr.qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
                attr.max_dest_rd_atomic = attributes.responder_resources;
            }
        }
        // The passive end may go to RTS before it has sent its REP.
        IBV_QPS_RTS if requested || replied => {
            attr.qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
            attr.sq_psn = attributes.sq_psn;
            if matches!(id.qp_type, qp_type::RC | qp_type::XRC_SEND) {
                attr.qp_attr_mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
                attr.retry_cnt = attributes.retry_count;
                attr.rnr_retry = attributes.rnr_retry_count;
                attr.max_rd_atomic = attributes.initiator_depth;
            }
            if id.qp_type != qp_type::UC {
                attr.qp_attr_mask |= IBV_QP_TIMEOUT;
                attr.timeout = attributes.ack_timeout;
            }
        }
        _ => return Err(EINVAL),
    }
    Ok(attr)
}

fn ah_attr(address: &AddressHandle) -> ib_uverbs_ah_attr {
    ib_uverbs_ah_attr {
        grh: ib_uverbs_global_route {
            dgid: address.dgid,
            flow_label: address.flow_label,
            sgid_index: address.sgid_index,
            hop_limit: address.hop_limit,
            traffic_class: address.traffic_class,
            reserved: 0,
        },
        sl: address.sl,
        is_global: 1,
        port_num: 1,
        ..ib_uverbs_ah_attr::default()
    }
}

fn write_qp_attr(attr: &ib_uverbs_qp_attr) -> ReplyWriter {
    let grh = &attr.ah_attr.grh;
    let address = AddressHandle {
        dgid: grh.dgid,
        flow_label: grh.flow_label,
        sgid_index: grh.sgid_index,
        hop_limit: grh.hop_limit,
        traffic_class: grh.traffic_class,
        sl: attr.ah_attr.sl,
    };
    let has_address = attr.qp_attr_mask & IBV_QP_AV != 0;
    let reply = ReplyWriter::default()
        .u32(attr.qp_attr_mask)
        .u32(attr.qp_state)
        .u32(0)
        .u32(attr.path_mtu)
        .u32(0)
        .u32(attr.qkey)
        .u32(attr.rq_psn)
        .u32(attr.sq_psn)
        .u32(attr.dest_qp_num)
        .u32(attr.qp_access_flags);
    let at = reply.0.len();
    let reply = if has_address {
        address.write(reply)
    } else {
        reply
    };
    // The alternate path and the limits of the queues.
    let reply = reply.pad_to(at + 2 * 32 + 5 * 4);
    reply
        .u16(attr.pkey_index)
        .u16(0)
        .u8(0)
        .u8(0)
        .u8(attr.max_rd_atomic)
        .u8(attr.max_dest_rd_atomic)
        .u8(attr.min_rnr_timer)
        .u8(attr.port_num)
        .u8(attr.timeout)
        .u8(attr.retry_cnt)
        .u8(attr.rnr_retry)
        .pad_to(size_of::<ib_uverbs_qp_attr>())
}

/// `rdma_ucm_query_addr_resp`.
fn write_addresses(
    device: Option<&DeviceInfo>,
    src: Option<Address>,
    dst: Option<Address>,
) -> ReplyWriter {
    let len = |address: &Option<Address>| address.map_or(0, |address| address.len() as u16);
    ReplyWriter::default()
        .bytes(&device.map_or([0; 8], |device| device.node_guid))
        .u8(device.is_some().into())
        .u8(0)
        .u16(device.map_or(0, |_| PKEY))
        .u16(len(&src))
        .u16(len(&dst))
        .address(src.as_ref(), STORAGE)
        .address(dst.as_ref(), STORAGE)
        .u32(device.map_or(0, |device| device.index))
        .u32(0)
}

/// `ib_user_path_rec`.
fn write_user_path(reply: ReplyWriter, path: &PathRecord) -> ReplyWriter {
    reply
        .bytes(&path.route.dgid)
        .bytes(&path.route.sgid)
        // LIDs, raw traffic.
        .bytes(&[0; 8])
        .bytes(&path.route.flow_label.to_be_bytes())
        // Reversible.
        .u32(1)
        .u32(path.mtu.into())
        .u16(PKEY)
        .u8(path.hop_limit)
        .u8(path.route.traffic_class)
        // The number of paths.
        .u8(1)
        .u8(path.sl)
        .u8(EXACT)
        .u8(EXACT)
        .u8(path.rate)
        .u8(EXACT)
        .u8(path.lifetime)
        .u8(0)
}

/// An `ib_user_path_rec` of which only the ends and the partition are known.
fn write_user_gids<R>(reply: ReplyWriter, id: &Id<R>) -> ReplyWriter {
    let gid = |address: Option<Address>| address.map_or([0; 16], |address| address.gid());
    let at = reply.0.len();
    reply
        .bytes(&gid(id.dst))
        .bytes(&gid(id.src))
        .pad_to(at + 52)
        .u16(PKEY)
        .pad_to(at + USER_PATH_LEN)
}

/// The path record of subnet administration (15.2.5.16), 64 bytes.
fn write_sa_path(reply: ReplyWriter, path: &PathRecord, service_id: u64) -> ReplyWriter {
    let hop_and_flow = path.route.flow_label << 8 | u32::from(path.hop_limit);
    let selected = |value: u8| EXACT << 6 | value & 0x3f;
    reply
        .bytes(&service_id.to_be_bytes())
        .bytes(&path.route.dgid)
        .bytes(&path.route.sgid)
        .bytes(&[0; 4])
        .bytes(&hop_and_flow.to_be_bytes())
        .u8(path.route.traffic_class)
        // Reversible.
        .u8(0x80)
        .bytes(&PKEY.to_be_bytes())
        .bytes(&u16::from(path.sl).to_be_bytes())
        .u8(selected(path.mtu))
        .u8(selected(path.rate))
        .u8(selected(path.lifetime))
        .bytes(&[0; 7])
}

/// The path of a record of subnet administration that the program sets for an id.
pub(super) fn parse_sa_path<R>(record: &[u8], id: &Id<R>) -> Option<PathRecord> {
    let route = id.route?;
    let &[_, f0, f1, hop_limit] = record.get(44..)?.first_chunk::<4>()?;
    let &[traffic_class, _, _, _, _, sl, mtu, rate, lifetime] =
        record.get(48..)?.first_chunk::<9>()?;
    let low = u32::from_be_bytes([0, record.get(44)? & 0xf, f0, f1]);
    Some(PathRecord {
        route: roce::cm::agent::Route {
            traffic_class,
            flow_label: low,
            ..route
        },
        mtu: mtu & 0x3f,
        hop_limit,
        sl: sl & 0xf,
        rate: rate & 0x3f,
        lifetime: lifetime & 0x3f,
    })
}

/// Whether the id may be given a path now.
pub(super) fn awaits_path<R>(id: &Id<R>) -> bool {
    id.state == IdState::AddressResolved
}
