//! The messages that an id sends, from the parameters of the program's commands (12.6, annex A11.6).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ibverbs_abi::Result;

use super::EINVAL;
use super::address::Address;
use super::id::{Id, PathRecord, qp_type};
use super::input::ConnectionParameters;
use super::os::DeviceInfo;
use roce::cm::mad::{
    ConnectionType, Ids, REP_PRIVATE, REQ_PRIVATE, Rep, Req, SIDR_REQ_PRIVATE, SidrReq,
};

/// How long a peer may take for an answer, encoded: 4.3 s.
pub const RESPONSE_TIMEOUT: u8 = 20;
/// Retransmissions of a message.
pub const CM_RETRIES: u8 = 15;
/// Bytes of the header that carries IP addresses and the port in the private data of a request (annex A11).
pub const IP_HEADER: usize = 36;
const PKEY: u16 = 0xffff;

/// Private data behind `offset` zeros, and zeros behind it. EINVAL if it does not fit.
pub fn padded<const LEN: usize>(offset: usize, private: &[u8]) -> Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    let place = bytes.get_mut(offset..offset + private.len());
    place.ok_or(EINVAL)?.copy_from_slice(private);
    Ok(bytes)
}

/// The SIDR_REQ with which an id asks for a service. EINVAL without IP addresses, or if the private data do
/// not fit.
pub fn sidr_req_of<R>(
    id: &Id<R>,
    comm_id: u32,
    params: &ConnectionParameters<'_>,
) -> Result<SidrReq> {
    let dst = id.dst.ok_or(EINVAL)?;
    let mut private = padded::<SIDR_REQ_PRIVATE>(IP_HEADER, params.private)?;
    private[..IP_HEADER].copy_from_slice(&ip_header(id)?);
    Ok(SidrReq {
        request_id: comm_id,
        pkey: PKEY,
        service_id: id.service_id(&dst),
        private,
    })
}

/// The REQ with which an id connects. EINVAL without IP addresses, for a datagram service, or if the private
/// data do not fit.
pub fn req_of<R>(
    id: &Id<R>,
    comm_id: u32,
    params: &ConnectionParameters<'_>,
    path: &PathRecord,
    device: &DeviceInfo,
) -> Result<Req> {
    let dst = id.dst.ok_or(EINVAL)?;
    let mut private = padded::<REQ_PRIVATE>(IP_HEADER, params.private)?;
    private[..IP_HEADER].copy_from_slice(&ip_header(id)?);
    let connection = id.connection_type().ok_or(EINVAL)?;
    // The initiator of XRC has no responder: these are the target's.
    let is_xrc = connection == ConnectionType::Xrc;
    let unless_xrc = |value: u8| if is_xrc { 0 } else { value };
    Ok(Req {
        local_id: comm_id,
        vendor_id: id.vendor_id & 0xff_ffff,
        service_id: id.service_id(&dst),
        ca_guid: u64::from_be_bytes(device.node_guid),
        qpn: id.qpn,
        responder_resources: unless_xrc(params.responder_resources),
        initiator_depth: params.initiator_depth,
        remote_response_timeout: RESPONSE_TIMEOUT,
        connection,
        flow_control: params.flow_control,
        starting_psn: id.psn,
        local_response_timeout: RESPONSE_TIMEOUT,
        retry_count: unless_xrc(params.retry_count.min(7)),
        pkey: PKEY,
        path_mtu: path.mtu,
        rnr_retry_count: unless_xrc(params.rnr_retry_count.min(7)),
        max_cm_retries: CM_RETRIES,
        srq: params.srq && !is_xrc,
        local_gid: path.route.sgid,
        remote_gid: path.route.dgid,
        flow_label: path.route.flow_label,
        packet_rate: path.rate,
        traffic_class: path.route.traffic_class,
        hop_limit: path.hop_limit,
        sl: path.sl,
        ack_timeout: (path.lifetime + 1).min(31),
        private,
    })
}

/// The REP with which an id accepts. The caller sets the IDs. EINVAL if the private data do not fit.
pub fn rep_of<R>(id: &Id<R>, params: &ConnectionParameters<'_>, guid: [u8; 8]) -> Result<Rep> {
    let is_xrc = id.qp_type == qp_type::XRC_RECV;
    Ok(Rep {
        ids: Ids {
            local: 0,
            remote: 0,
        },
        vendor_id: id.vendor_id & 0xff_ffff,
        qpn: if is_xrc { 0 } else { id.qpn },
        xrc_qpn: if is_xrc { id.qpn } else { 0 },
        starting_psn: id.psn,
        responder_resources: params.responder_resources,
        initiator_depth: if is_xrc { 0 } else { params.initiator_depth },
        target_ack_delay: 0,
        flow_control: params.flow_control && !is_xrc,
        rnr_retry_count: params.rnr_retry_count.min(7),
        srq: is_xrc || params.srq,
        ca_guid: u64::from_be_bytes(guid),
        private: padded::<REP_PRIVATE>(0, params.private)?,
    })
}

/// The header that carries the IP addresses and the source port (annex A11.6).
pub fn ip_header<R>(id: &Id<R>) -> Result<[u8; IP_HEADER]> {
    let address = |address: Option<Address>| address.and_then(|address| address.ip());
    let (src, dst) = (address(id.src), address(id.dst));
    let (src, dst) = (src.ok_or(EINVAL)?, dst.ok_or(EINVAL)?);
    let mut header = [0; IP_HEADER];
    header[1] = if src.is_ipv4() { 4 << 4 } else { 6 << 4 };
    header[2..4].copy_from_slice(&src.port().to_be_bytes());
    for (at, ip) in [(4, src.ip()), (20, dst.ip())] {
        match ip {
            IpAddr::V4(v4) => header[at + 12..at + 16].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => header[at..at + 16].copy_from_slice(&v6.octets()),
        }
    }
    Ok(header)
}

/// The source address and port, and the destination address.
pub fn parse_ip_header(header: &[u8; IP_HEADER]) -> Option<(SocketAddr, IpAddr)> {
    let port = u16::from_be_bytes([header[2], header[3]]);
    let bytes = |at: usize| -> Option<[u8; 16]> { header.get(at..)?.first_chunk().copied() };
    let address = |at: usize| -> Option<IpAddr> {
        let bytes = bytes(at)?;
        match header[1] >> 4 {
            4 => Some(Ipv4Addr::from(*bytes.last_chunk()?).into()),
            6 => Some(Ipv6Addr::from(bytes).into()),
            _ => None,
        }
    };
    (header[0] == 0).then_some(())?;
    Some((SocketAddr::new(address(4)?, port), address(20)?))
}
