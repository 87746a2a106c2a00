//! The commands that connect, accept, reject and disconnect.

use std::time::Duration;

use ibverbs_abi::{Errno, Result};

use super::id::{IdState, QpAttributes, UDP_QKEY, qp_type};
use super::input::{ConnectionParameters, Input};
use super::manager::Manager;
use super::messages::{CM_RETRIES, RESPONSE_TIMEOUT, padded, rep_of, req_of, sidr_req_of};
use super::os::{CmOs, FileId};
use super::{EINVAL, ENODEV};
use roce::cm;
use roce::cm::connection::Connection;
use roce::cm::mad::{Mad, REJ_PRIVATE, SIDR_REP_PRIVATE, SidrRep, reason, sidr_status};
use roce::engine::Time;

/// How long a peer may take for a SIDR_REP.
const SIDR_TIMEOUT: Duration = Duration::from_millis(1 << (RESPONSE_TIMEOUT - 8));
/// `IB_EVENT_COMM_EST`.
const COMM_EST: u32 = 4;

/// The error of the command whose connection refuses.
fn errno(error: cm::Error) -> Errno {
    match error {
        cm::Error::WrongState | cm::Error::NoConnection => EINVAL,
        cm::Error::Established => Errno(libc::EISCONN),
        cm::Error::TooMany => Errno(libc::ENOMEM),
    }
}

impl<H: CmOs> Manager<H> {
    pub(super) fn connect(&mut self, file: FileId, input: Input<'_>, now: Time) -> Result<()> {
        let params = ConnectionParameters::parse(input, 0, 280);
        if !params.valid {
            return Err(EINVAL);
        }
        let number = self.ids.find_bound(file, input.u32(272))?;
        let device = self.device_of(number).ok_or(ENODEV)?;
        self.reserve_id()?;
        let comm_id = self.agent.alloc_id().map_err(errno)?;
        let tid = u64::from(self.os.random()) << 32 | u64::from(comm_id);
        let id = self.ids.existing(number)?;
        let (IdState::RouteResolved, Some(path)) = (id.state, id.path) else {
            return Err(EINVAL);
        };
        id.qpn = params.qpn & 0xff_ffff;
        id.srq = params.srq;
        id.vendor_id = params.vendor_id;
        id.options = params.options;
        let (connection, mad) = if id.is_datagram() {
            let req = sidr_req_of(id, comm_id, &params)?;
            Connection::resolve(req, SIDR_TIMEOUT, CM_RETRIES, tid, now)
        } else {
            let req = req_of(id, comm_id, &params, &path, &device)?;
            id.attributes = QpAttributes {
                path_mtu: path.mtu,
                responder_resources: req.responder_resources,
                initiator_depth: req.initiator_depth,
                sq_psn: 0,
                ack_timeout: req.ack_timeout,
                retry_count: req.retry_count,
                rnr_retry_count: req.rnr_retry_count,
            };
            Connection::connect(req, id.options, tid, now)
        };
        id.state = IdState::Connect;
        id.connection = Some(comm_id);
        self.agent.start(number, connection, path.route, mad);
        Ok(())
    }

    pub(super) fn accept(&mut self, file: FileId, input: Input<'_>, now: Time) -> Result<()> {
        let params = ConnectionParameters::parse(input, 8, 288);
        let number = self.ids.find_bound(file, input.u32(280))?;
        let guid = self.device_of(number).ok_or(ENODEV)?.node_guid;
        let id = self.ids.existing(number)?;
        if id.state != IdState::Connect {
            return Err(EINVAL);
        }
        if params.valid {
            id.qpn = params.qpn & 0xff_ffff;
            id.srq = params.srq;
            id.vendor_id = params.vendor_id;
            id.options = params.options;
        }
        let result = self.send_acceptance(number, &params, guid, now);
        match result {
            Ok(()) if params.valid => self.ids.existing(number)?.uid = input.u64(0),
            Ok(()) => {}
            Err(_) => {
                let _ = self.send_rejection(number, reason::CONSUMER, &[], now);
            }
        }
        result
    }

    fn send_acceptance(
        &mut self,
        number: u32,
        params: &ConnectionParameters<'_>,
        guid: [u8; 8],
        now: Time,
    ) -> Result<()> {
        let id = self.ids.get_mut(number).ok_or(EINVAL)?;
        let connection = id.connection.ok_or(EINVAL)?;
        let options = id.options;
        if id.is_datagram() {
            let private = if params.valid { params.private } else { &[] };
            let rep = SidrRep {
                request_id: 0,
                status: sidr_status::SUCCESS,
                qpn: id.qpn,
                service_id: 0,
                qkey: UDP_QKEY,
                private: padded::<SIDR_REP_PRIVATE>(0, private)?,
            };
            return self.act(connection, |sidr| sidr.answer(rep, options));
        }
        if !params.valid {
            return self.act(connection, Connection::ready);
        }
        let rep = rep_of(id, params, guid)?;
        let attributes = (rep.initiator_depth, rep.responder_resources);
        let is_xrc = id.qp_type == qp_type::XRC_RECV;
        self.act(connection, |passive| passive.reply(rep, options, now))?;
        if !is_xrc {
            let id = self.ids.existing(number)?;
            id.attributes.initiator_depth = attributes.0;
            id.attributes.responder_resources = attributes.1;
        }
        Ok(())
    }

    pub(super) fn reject(&mut self, file: FileId, input: Input<'_>, now: Time) -> Result<()> {
        let reason = match input.u8(5).into() {
            0 | reason::CONSUMER => reason::CONSUMER,
            reason::VENDOR_OPTION => reason::VENDOR_OPTION,
            _ => return Err(EINVAL),
        };
        let private = input.from(8);
        let len = usize::from(input.u8(4)).min(private.len());
        let number = self.ids.find_bound(file, input.u32(0))?;
        self.send_rejection(number, reason, &private[..len], now)
    }

    fn send_rejection(
        &mut self,
        number: u32,
        reason: u16,
        private: &[u8],
        now: Time,
    ) -> Result<()> {
        let id = self.ids.existing(number)?;
        let connection = id.connection.ok_or(EINVAL)?;
        if id.is_datagram() {
            let rep = SidrRep {
                request_id: 0,
                status: sidr_status::REJECT,
                qpn: 0,
                service_id: 0,
                qkey: 0,
                private: padded::<SIDR_REP_PRIVATE>(0, private)?,
            };
            return self.act(connection, |sidr| sidr.answer(rep, 0));
        }
        let private = padded::<REJ_PRIVATE>(0, private)?;
        self.act(connection, |peer| peer.reject(reason, private, now))
    }

    /// Disconnects, or confirms that the peer has. Succeeds without a connection too, as in the kernel.
    pub(super) fn disconnect(&mut self, file: FileId, input: Input<'_>, now: Time) -> Result<()> {
        let number = self.ids.find_bound(file, input.u32(0))?;
        let connection = self.ids.existing(number)?.connection.ok_or(EINVAL)?;
        let _ = self.agent.act(connection, |peer| peer.disconnect(now));
        Ok(())
    }

    /// Lets `step` act on a connection, and sends the message that it returns.
    fn act(
        &mut self,
        connection: u32,
        step: impl FnOnce(&mut Connection) -> Result<Mad, cm::Error>,
    ) -> Result<()> {
        self.agent.act(connection, step).map_err(errno)
    }

    pub(super) fn notify(&mut self, file: FileId, input: Input<'_>) -> Result<()> {
        let number = self.ids.find_bound(file, input.u32(0))?;
        let connection = self.ids.existing(number)?.connection.ok_or(EINVAL)?;
        if input.u32(4) != COMM_EST {
            return Err(EINVAL);
        }
        let event = self.agent.communication_established(connection);
        let event = event.map_err(errno)?;
        self.on_event(number, event);
        Ok(())
    }
}
