//! Requests and answers of peers, and timeouts when there is no answer.

use super::events::{
    AddressHandle, ConnectionParams, DatagramParams, EventType, Notice, Parameters,
};
use super::id::{HOP_LIMIT, Id, IdState, PathRecord, QpAttributes, qp_type};
use super::listeners::Requested;
use super::manager::Manager;
use super::messages::IP_HEADER;
use super::os::{CmOs, DeviceInfo};
use crate::device::gsi::LostPeer;
use roce::cm::agent::{Incoming, Received, Route};
use roce::cm::connection::Event;
use roce::cm::mad::{
    CmMad, CmMessage, ConnectionType, Rej, Rep, Req, SidrRep, SidrReq, reason, sidr_status,
};
use roce::engine::{Gid, Time};

impl<H: CmOs> Manager<H> {
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

    /// The peer of a queue pair has ended without a DREQ: its id gets DISCONNECTED, as from the kernel, which
    /// disconnects for a process that is killed.
    pub fn peer_lost(&mut self, lost: &LostPeer) {
        let events = self.agent.peer_lost(lost.qpn, &lost.peer, lost.peer_qpn);
        self.on_events(events);
    }

    /// The process whose communication IDs have this prefix has ended without a REJ: ids that wait for its
    /// answer get REJECTED, as from the kernel, which rejects for a process that is killed.
    pub fn process_ended(&mut self, prefix: u32, is_its: impl Fn(&Gid) -> bool) {
        let events = self.agent.process_ended(prefix, is_its);
        self.on_events(events);
    }

    fn on_events(&mut self, events: Vec<Received>) {
        for received in events {
            if let Received::Event { owner, event } = received {
                self.on_event(owner, event);
            }
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
        let kind = match req.connection {
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
        let requested = match self.ids.find_listener(req.service_id, header, from) {
            Some(found) => found,
            None if self.ids.offers(req.service_id) => {
                self.agent
                    .reject_request(req, mad.tid, route, reason::CONSUMER);
                return None;
            }
            None => return Some(mad),
        };
        let wanted = self.ids.get(requested.listener)?.qp_type;
        if wanted != 0 && wanted != kind {
            self.agent
                .reject_request(req, mad.tid, route, reason::CONSUMER);
            return None;
        }
        self.reserve_id().ok()?;
        let (number, device) = self.add_requested(&requested, from, kind)?;
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
            self.ids.drop_requested(requested.listener, number);
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
        self.report_request(requested.listener, number, parameters);
        None
    }

    fn on_resolution(&mut self, from: &Incoming, req: &SidrReq, mad: CmMad) -> Option<CmMad> {
        let route = Route::back(from.src, from.dst);
        let header: &[u8; IP_HEADER] = req.private.first_chunk()?;
        let requested = match self.ids.find_listener(req.service_id, header, from) {
            Some(found) => found,
            None if self.ids.offers(req.service_id) => {
                self.agent.reject_resolution(req, mad.tid, route);
                return None;
            }
            None => return Some(mad),
        };
        let wanted = self.ids.get(requested.listener)?.qp_type;
        if wanted != 0 && wanted != qp_type::UD {
            self.agent.reject_resolution(req, mad.tid, route);
            return None;
        }
        self.reserve_id().ok()?;
        let (number, device) = self.add_requested(&requested, from, qp_type::UD)?;
        let id = self.ids.get_mut(number)?;
        id.route = Some(route);
        id.path = Some(id.path_of(route, device.active_mtu));
        let Ok(connection) = self.agent.accept_resolution(number, req, mad.tid, route) else {
            self.ids.drop_requested(requested.listener, number);
            return None;
        };
        self.ids.get_mut(number)?.connection = Some(connection);
        let parameters = Parameters::Datagram(DatagramParams {
            private: req.private[IP_HEADER..].to_vec(),
            ..DatagramParams::default()
        });
        self.report_request(requested.listener, number, parameters);
        None
    }

    /// [`super::id_table::IdTable::add_requested`] at the devices of the host.
    fn add_requested(
        &mut self,
        requested: &Requested,
        from: &Incoming,
        kind: u8,
    ) -> Option<(u32, DeviceInfo)> {
        let (devices, random) = (self.os.devices(), self.os.random());
        let added = self
            .ids
            .add_requested(requested, &from.dst, kind, &devices, random);
        let (number, device) = added?;
        Some((number, devices.into_iter().nth(device)?))
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
