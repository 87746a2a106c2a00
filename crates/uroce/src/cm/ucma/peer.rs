//! Requests and answers of peers, and timeouts when there is no answer.

use std::net::{IpAddr, SocketAddr};

use super::address::Address;
use super::events::{
    AddressHandle, ConnectionParams, DatagramParams, EventType, Notice, Parameters,
};
use super::host::{CmHost, DeviceInfo, Port};
use super::id::{HOP_LIMIT, Id, IdState, PathRecord, QpAttributes, qp_type};
use super::manager::Manager;
use super::messages::{IP_HEADER, parse_ip_header};
use crate::cm::agent::{Incoming, Received, Route};
use crate::cm::connection::Event;
use crate::cm::mad::{
    CmMad, CmMessage, ConnectionType, Rej, Rep, Req, SidrRep, SidrReq, reason, sidr_status,
};
use crate::engine::{Gid, Time};
use crate::wire::{gid_of, ip_of};

impl<H: CmHost> Manager<H> {
    /// Handles a message of a peer. Returns it if it asks for a service that nobody in this process offers.
    pub fn receive(&mut self, from: &Incoming, now: Time) -> Option<CmMad> {
        let mad = CmMad::parse(&from.mad)?;
        match self.agent.receive(from, mad, now) {
            Received::Handled => None,
            Received::Event { owner, event } => {
                self.on_event(owner, event);
                None
            }
            Received::Request { req, mad } => self.on_request(from, &req, mad),
            Received::Resolution { req, mad } => self.on_resolution(from, &req, mad),
        }
    }

    /// Rejects a request that no process of the host wants.
    pub fn reject_orphan(&mut self, from: &Incoming, mad: &CmMad) {
        let route = Route::back(from.src, from.dst);
        match &mad.message {
            CmMessage::Req(req) => {
                self.agent
                    .reject_request(req, mad.tid, route, reason::INVALID_SERVICE_ID);
            }
            CmMessage::SidrReq(req) => self.agent.reject_resolution(req, mad.tid, route),
            _ => {}
        }
    }

    /// Runs what is due.
    pub fn handle_timeouts(&mut self, now: Time) {
        self.check_neighbours(now);
        while let Some(received) = self.agent.handle_timeout(now) {
            if let Received::Event { owner, event } = received {
                self.on_event(owner, event);
            }
        }
    }

    fn on_request(&mut self, from: &Incoming, req: &Req, mad: CmMad) -> Option<CmMad> {
        let requested = match req.connection {
            ConnectionType::Rc => qp_type::RC,
            ConnectionType::Uc => qp_type::UC,
            ConnectionType::Xrc => qp_type::XRC_RECV,
            // The agent rejects it.
            ConnectionType::Unsupported { .. } => return None,
        };
        let route = Route {
            traffic_class: req.traffic_class,
            flow_label: req.flow_label,
            ..Route::back(from.src, from.dst)
        };
        let header: &[u8; IP_HEADER] = req.private.first_chunk()?;
        let (listener, src, dst) = match self.find_listener(req.service_id, header, from) {
            Some(found) => found,
            None if self.offers(req.service_id) => {
                self.agent
                    .reject_request(req, mad.tid, route, reason::CONSUMER);
                return None;
            }
            None => return Some(mad),
        };
        let wanted = self.ids.get(listener)?.qp_type;
        if wanted != 0 && wanted != requested {
            self.agent
                .reject_request(req, mad.tid, route, reason::CONSUMER);
            return None;
        }
        self.reserve_id().ok()?;
        let (number, device) = self.add_requested(listener, from.dst, src, dst, requested)?;
        let id = self.ids.get_mut(number)?;
        id.route = Some(route);
        id.path = Some(PathRecord {
            route,
            mtu: req.path_mtu,
            hop_limit: HOP_LIMIT,
            sl: req.sl,
            rate: req.packet_rate,
            lifetime: req.ack_timeout.saturating_sub(1),
        });
        id.attributes = QpAttributes {
            path_mtu: req.path_mtu,
            responder_resources: req.initiator_depth,
            initiator_depth: req.responder_resources,
            sq_psn: req.starting_psn,
            ack_timeout: req.ack_timeout,
            retry_count: req.retry_count,
            rnr_retry_count: req.rnr_retry_count,
        };
        let guid = u64::from_be_bytes(device.node_guid);
        let accepted = self.agent.accept_request(number, req, mad.tid, route, guid);
        let Ok(connection) = accepted else {
            self.drop_requested(listener, number);
            return None;
        };
        self.ids.get_mut(number)?.connection = Some(connection);
        let parameters = Parameters::Connection(ConnectionParams {
            qpn: req.qpn,
            private: req.private[IP_HEADER..].to_vec(),
            srq: req.srq,
            responder_resources: req.initiator_depth,
            initiator_depth: req.responder_resources,
            flow_control: req.flow_control,
            retry_count: req.retry_count,
            rnr_retry_count: req.rnr_retry_count,
            vendor_id: req.vendor_id,
            options: mad.modifier,
        });
        self.report_request(listener, number, parameters);
        None
    }

    fn on_resolution(&mut self, from: &Incoming, req: &SidrReq, mad: CmMad) -> Option<CmMad> {
        let route = Route::back(from.src, from.dst);
        let header: &[u8; IP_HEADER] = req.private.first_chunk()?;
        let (listener, src, dst) = match self.find_listener(req.service_id, header, from) {
            Some(found) => found,
            None if self.offers(req.service_id) => {
                self.agent.reject_resolution(req, mad.tid, route);
                return None;
            }
            None => return Some(mad),
        };
        let wanted = self.ids.get(listener)?.qp_type;
        if wanted != 0 && wanted != qp_type::UD {
            self.agent.reject_resolution(req, mad.tid, route);
            return None;
        }
        self.reserve_id().ok()?;
        let (number, device) = self.add_requested(listener, from.dst, src, dst, qp_type::UD)?;
        let id = self.ids.get_mut(number)?;
        id.route = Some(route);
        id.path = Some(id.path_of(route, device.active_mtu));
        let Ok(connection) = self.agent.accept_resolution(number, req, mad.tid, route) else {
            self.drop_requested(listener, number);
            return None;
        };
        self.ids.get_mut(number)?.connection = Some(connection);
        let parameters = Parameters::Datagram(DatagramParams {
            private: req.private[IP_HEADER..].to_vec(),
            ..DatagramParams::default()
        });
        self.report_request(listener, number, parameters);
        None
    }

    /// Adds an id for a request, if the listening id has room for one more. Otherwise the request is
    /// dropped, and the peer's next retransmission may find room.
    fn add_requested(
        &mut self,
        listener: u32,
        gid: Gid,
        src: SocketAddr,
        dst: SocketAddr,
        kind: u8,
    ) -> Option<(u32, DeviceInfo)> {
        let devices = self.host.devices();
        let device = devices
            .iter()
            .position(|device| device.gid_index(&gid).is_some())?;
        let ifindex = devices[device].ifindex;
        let random = self.host.random();
        let listening = self.ids.get_mut(listener)?;
        listening.backlog = listening.backlog.checked_sub(1)?;
        let mut id = Id::new(listening.file, 0, listening.space, kind, random);
        id.tos = listening.tos;
        id.src = Some(Address::Ip(with_interface(src, ifindex)));
        id.dst = Some(Address::Ip(with_interface(dst, ifindex)));
        id.device = Some(device);
        id.state = IdState::Connect;
        let number = self.ids.insert(id);
        Some((number, devices.into_iter().nth(device)?))
    }

    fn drop_requested(&mut self, listener: u32, number: u32) {
        self.ids.remove(number);
        if let Some(listening) = self.ids.get_mut(listener) {
            listening.backlog += 1;
        }
    }

    /// The ids that have the port of a service.
    fn owners(&self, service_id: u64) -> &[u32] {
        self.ports.of(Port::of_service(service_id))
    }

    /// Whether any id listens for a service, at whatever address.
    fn offers(&self, service_id: u64) -> bool {
        self.owners(service_id).iter().any(|owner| {
            let id = self.ids.get(*owner);
            id.is_some_and(|id| id.state == IdState::Listen)
        })
    }

    /// The id that listens for a service at the address that a request's IP header names. Also returns the
    /// addresses of the two ends, this one first. None if they are not those of the packet: the program
    /// takes the peer's for that of the sender.
    fn find_listener(
        &self,
        service_id: u64,
        header: &[u8; IP_HEADER],
        from: &Incoming,
    ) -> Option<(u32, SocketAddr, SocketAddr)> {
        let (peer, own) = parse_ip_header(header)?;
        if !is_address_of(peer.ip(), &from.src, from) || !is_address_of(own, &from.dst, from) {
            return None;
        }
        let own = SocketAddr::new(own, service_id as u16);
        let found = self.owners(service_id).iter().copied().find(|owner| {
            let Some(id) = self
                .ids
                .get(*owner)
                .filter(|id| id.state == IdState::Listen)
            else {
                return false;
            };
            match id.src.and_then(|src| src.ip()) {
                None => true,
                Some(src) if src.ip() == own.ip() => true,
                Some(src) if gid_of(src.ip()) == from.dst => true,
                // Bound to no device: at all of them.
                Some(src) => {
                    id.device.is_none() && (!id.family_only || src.is_ipv4() == own.is_ipv4())
                }
            }
        })?;
        Some((found, own, peer))
    }

    /// Reports what has happened to the connection of an id.
    pub(super) fn on_event(&mut self, number: u32, event: Event) {
        let Some(id) = self.ids.get_mut(number) else {
            return;
        };
        let expected = match event {
            Event::TimewaitExit => IdState::Disconnect,
            _ => IdState::Connect,
        };
        if id.state != expected {
            return;
        }
        let notice = match event {
            Event::Unreachable => Notice::failed(EventType::Unreachable, -libc::ETIMEDOUT),
            Event::Reply { rep, modifier } => on_reply(id, &rep, modifier),
            Event::Established => Notice::plain(EventType::Established),
            Event::Rejected(rej) => rejected(&rej),
            Event::Disconnected | Event::DisconnectTimeout => {
                id.state = IdState::Disconnect;
                let late = event == Event::DisconnectTimeout;
                let status = if late { -libc::ETIMEDOUT } else { 0 };
                Notice::failed(EventType::Disconnected, status)
            }
            Event::TimewaitExit => Notice::plain(EventType::TimewaitExit),
            Event::SidrReply { rep, .. } => {
                let path = id.path;
                let device = self.device_of(number);
                sidr_reply(&rep, path, device)
            }
        };
        self.report(number, notice);
    }
}

/// Whether an address is that of one end of a packet. A device that connects to itself may have a loopback
/// or wildcard address at its ends ([`super::resolve`]).
fn is_address_of(ip: IpAddr, end: &Gid, packet: &Incoming) -> bool {
    let is_own = ip.is_loopback() || ip.is_unspecified();
    ip_of(&gid_of(ip)) == ip_of(end) || is_own && packet.src == packet.dst
}

/// A link-local address with its interface, which the IP header of a request does not name.
fn with_interface(mut address: SocketAddr, ifindex: u32) -> SocketAddr {
    if let SocketAddr::V6(v6) = &mut address {
        if v6.ip().is_unicast_link_local() {
            v6.set_scope_id(ifindex);
        }
    }
    address
}

fn on_reply<R>(id: &mut Id<R>, rep: &Rep, modifier: u32) -> Notice {
    id.attributes.initiator_depth = rep.responder_resources;
    id.attributes.responder_resources = rep.initiator_depth;
    id.attributes.sq_psn = rep.starting_psn;
    id.attributes.rnr_retry_count = rep.rnr_retry_count;
    let qpn = if id.qp_type == qp_type::XRC_SEND {
        rep.xrc_qpn
    } else {
        rep.qpn
    };
    Notice {
        kind: EventType::ConnectResponse,
        status: 0,
        parameters: Parameters::Connection(ConnectionParams {
            qpn,
            private: rep.private.to_vec(),
            srq: rep.srq,
            responder_resources: rep.initiator_depth,
            initiator_depth: rep.responder_resources,
            flow_control: rep.flow_control,
            retry_count: 0,
            rnr_retry_count: rep.rnr_retry_count,
            vendor_id: rep.vendor_id,
            options: modifier,
        }),
    }
}

fn rejected(rej: &Rej) -> Notice {
    Notice {
        kind: EventType::Rejected,
        status: rej.reason.into(),
        parameters: Parameters::Connection(ConnectionParams {
            private: rej.private.to_vec(),
            ..ConnectionParams::default()
        }),
    }
}

fn sidr_reply(rep: &SidrRep, path: Option<PathRecord>, device: Option<DeviceInfo>) -> Notice {
    let mut params = DatagramParams {
        private: rep.private.to_vec(),
        ..DatagramParams::default()
    };
    let accepted = rep.status == sidr_status::SUCCESS;
    if accepted {
        if let Some(path) = path {
            let index = device.and_then(|device| device.gid_index(&path.route.sgid));
            params.qpn = rep.qpn;
            params.qkey = rep.qkey;
            params.address = index.map(|index| AddressHandle::of(&path, index));
        }
    }
    Notice {
        kind: if accepted {
            EventType::Established
        } else {
            EventType::Unreachable
        },
        status: rep.status.into(),
        parameters: Parameters::Datagram(params),
    }
}
